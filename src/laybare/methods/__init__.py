"""One file or folder a method; each is a choice of the parts that come before it, and is imported when it is first named."""

from typing import TYPE_CHECKING

from laybare.lazy import on_demand
from laybare.methods.random_start.method import RandomStart
from laybare.methods.start import Method, Start

if TYPE_CHECKING:
    from laybare.lowest_layer import HighThreshold
    from laybare.methods.general_relu.method import GeneralReLU
    from laybare.methods.landscape_design.method import LandscapeDesign
    from laybare.methods.symmetric_inputs import SymmetricInputs
    from laybare.methods.tensor_init.method import TensorInit

__all__ = ["GeneralReLU", "HighThreshold", "LandscapeDesign", "Method", "RandomStart", "Start", "SymmetricInputs", "TensorInit"]

__getattr__ = on_demand(__name__, {
    "GeneralReLU": "laybare.methods.general_relu.method",
    "HighThreshold": "laybare.lowest_layer",
    "LandscapeDesign": "laybare.methods.landscape_design.method",
    "SymmetricInputs": "laybare.methods.symmetric_inputs",
    "TensorInit": "laybare.methods.tensor_init.method",
})
