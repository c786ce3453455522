"""Several outputs and inputs of any symmetric law, after Ge, Kuditipudi, Li and Wang (2019)."""

from laybare.methods.symmetric_inputs.method import SymmetricInputs
from laybare.methods.symmetric_inputs.printed import PracticalRoute, PrintedNeurons
from laybare.methods.symmetric_inputs.routes import AnnihilatorRoute, SpectralRoute

__all__ = ["AnnihilatorRoute", "PracticalRoute", "PrintedNeurons", "SpectralRoute", "SymmetricInputs"]
