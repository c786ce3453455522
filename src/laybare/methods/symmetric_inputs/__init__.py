"""Several outputs and inputs of any symmetric law: pure neurons from moments, the printed algorithms, the annihilator."""

from laybare.methods.symmetric_inputs.method import SymmetricInputs

__all__ = ["SymmetricInputs"]
