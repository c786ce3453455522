"""Methods say where hidden units may be: one file per method, imported when first named; `printed` has the papers' algorithms."""

from typing import TYPE_CHECKING

from laybare.methods.start import Method, RandomStart, Route, Start
from laybare.numerics.lazy import homes_of, on_demand
from laybare.search.network_fit import NetworkFit

if TYPE_CHECKING:
    from laybare.methods.choosing import Choice, choose
    from laybare.methods.general_relu import GeneralReLU, JointSpan
    from laybare.methods.landscape_design import LandscapeDesign, PolarRoute, TensorRoute, WhitenedRoute
    from laybare.methods.lines import Lines
    from laybare.methods.printed.awasthi_2021 import PrintedReLU
    from laybare.methods.printed.ge_2019 import PracticalRoute, PrintedNeurons
    from laybare.methods.printed.ge_lee_ma_2018 import PrintedDesign
    from laybare.methods.printed.zhong_2017 import PrintedDescent, PrintedMoments
    from laybare.methods.symmetric_inputs import AnnihilatorRoute, SpectralRoute, SymmetricInputs
    from laybare.methods.tensor_init import RefinedMoments, TensorInit

__all__ = [
    "AnnihilatorRoute", "Choice", "GeneralReLU", "JointSpan", "LandscapeDesign", "Lines", "Method", "NetworkFit", "PolarRoute",
    "PracticalRoute", "PrintedDescent", "PrintedDesign", "PrintedMoments", "PrintedNeurons", "PrintedReLU", "RandomStart",
    "RefinedMoments", "Route", "SpectralRoute", "Start", "SymmetricInputs", "TensorInit", "TensorRoute", "WhitenedRoute",
    "choose",
]

__getattr__ = on_demand(__name__, homes_of({
    "laybare.methods.choosing": "Choice choose",
    "laybare.methods.general_relu": "GeneralReLU JointSpan",
    "laybare.methods.landscape_design": "LandscapeDesign PolarRoute TensorRoute WhitenedRoute",
    "laybare.methods.lines": "Lines",
    "laybare.methods.printed.awasthi_2021": "PrintedReLU",
    "laybare.methods.printed.ge_2019": "PracticalRoute PrintedNeurons",
    "laybare.methods.printed.ge_lee_ma_2018": "PrintedDesign",
    "laybare.methods.printed.zhong_2017": "PrintedDescent PrintedMoments",
    "laybare.methods.symmetric_inputs": "AnnihilatorRoute SpectralRoute SymmetricInputs",
    "laybare.methods.tensor_init": "RefinedMoments TensorInit",
}))
