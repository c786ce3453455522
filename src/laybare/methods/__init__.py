"""One file or folder a method; each is a choice of the parts that come before it, and is imported when it is first named."""

from typing import TYPE_CHECKING

from laybare.lazy import on_demand
from laybare.methods.random_start import RandomStart
from laybare.methods.start import Method, Start

if TYPE_CHECKING:
    from laybare.methods.general_relu import GeneralReLU
    from laybare.methods.high_threshold import HighThreshold
    from laybare.methods.landscape_design import LandscapeDesign
    from laybare.methods.symmetric import SymmetricInputs
    from laybare.methods.tensor_init import TensorInit

__all__ = ["GeneralReLU", "HighThreshold", "LandscapeDesign", "Method", "RandomStart", "Start", "SymmetricInputs", "TensorInit"]

__getattr__ = on_demand(__name__, {
    "GeneralReLU": "laybare.methods.general_relu",
    "HighThreshold": "laybare.methods.high_threshold",
    "LandscapeDesign": "laybare.methods.landscape_design",
    "SymmetricInputs": "laybare.methods.symmetric",
    "TensorInit": "laybare.methods.tensor_init",
})
