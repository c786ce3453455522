"""One folder per method, all with the same file names: method, routes, printed, claims. Imported when first named."""

from typing import TYPE_CHECKING

from laybare.lazy import homes_of, on_demand
from laybare.methods.random_start import RandomStart
from laybare.methods.start import Method, Outcome, Route, Start

if TYPE_CHECKING:
    from laybare.methods.general_relu import GeneralReLU, JointSpan, PrintedReLU
    from laybare.methods.landscape_design import LandscapeDesign, PolarRoute, PrintedDesign, TensorRoute, WhitenedRoute
    from laybare.methods.lines import Lines
    from laybare.methods.symmetric_inputs import (
        AnnihilatorRoute,
        PracticalRoute,
        PrintedNeurons,
        SpectralRoute,
        SymmetricInputs,
    )
    from laybare.methods.tensor_init import PrintedDescent, PrintedMoments, RefinedMoments, TensorInit

__all__ = [
    "AnnihilatorRoute", "GeneralReLU", "JointSpan", "LandscapeDesign", "Lines", "Method", "Outcome", "PolarRoute",
    "PracticalRoute", "PrintedDescent", "PrintedDesign", "PrintedMoments", "PrintedNeurons", "PrintedReLU", "RandomStart",
    "RefinedMoments",
    "Route", "SpectralRoute", "Start", "SymmetricInputs", "TensorInit", "TensorRoute", "WhitenedRoute",
]

__getattr__ = on_demand(__name__, homes_of({
    "laybare.methods.general_relu": "GeneralReLU JointSpan PrintedReLU",
    "laybare.methods.landscape_design": "LandscapeDesign PolarRoute PrintedDesign TensorRoute WhitenedRoute",
    "laybare.methods.lines": "Lines",
    "laybare.methods.symmetric_inputs": "AnnihilatorRoute PracticalRoute PrintedNeurons SpectralRoute SymmetricInputs",
    "laybare.methods.tensor_init": "PrintedDescent PrintedMoments RefinedMoments TensorInit",
}))
