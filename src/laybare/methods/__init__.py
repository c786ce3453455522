"""One folder per method, all with the same file names: method, routes, printed, claims. Imported when first named."""

from typing import TYPE_CHECKING

from laybare.lazy import on_demand
from laybare.methods.random_start import RandomStart
from laybare.methods.start import Method, Outcome, Route, Start

if TYPE_CHECKING:
    from laybare.methods.general_relu import GeneralReLU
    from laybare.methods.landscape_design import LandscapeDesign
    from laybare.methods.symmetric_inputs import SymmetricInputs
    from laybare.methods.tensor_init import TensorInit

__all__ = [
    "GeneralReLU", "LandscapeDesign", "Method", "Outcome", "RandomStart", "Route", "Start", "SymmetricInputs", "TensorInit",
]

__getattr__ = on_demand(__name__, {
    "GeneralReLU": "laybare.methods.general_relu",
    "LandscapeDesign": "laybare.methods.landscape_design",
    "SymmetricInputs": "laybare.methods.symmetric_inputs",
    "TensorInit": "laybare.methods.tensor_init",
})
