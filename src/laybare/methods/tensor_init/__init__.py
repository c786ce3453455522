"""Moments of orders 1 to 4 for Gaussian inputs, after Zhong et al. (2017)."""

from laybare.methods.tensor_init.method import TensorInit
from laybare.methods.tensor_init.printed import PrintedDescent, PrintedMoments
from laybare.methods.tensor_init.routes import RefinedMoments

__all__ = ["PrintedDescent", "PrintedMoments", "RefinedMoments", "TensorInit"]
