"""One file a method; each is a choice of the parts that come before it."""

from laybare.methods.general_relu import GeneralReLU
from laybare.methods.high_threshold import HighThreshold
from laybare.methods.landscape_design import LandscapeDesign
from laybare.methods.random_start import RandomStart
from laybare.methods.start import Method, Start
from laybare.methods.symmetric_inputs import SymmetricInputs
from laybare.methods.tensor_init import TensorInit

__all__ = ["GeneralReLU", "HighThreshold", "LandscapeDesign", "Method", "RandomStart", "Start", "SymmetricInputs", "TensorInit"]
