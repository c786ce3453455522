"""Moments of orders 1 to 4 for Gaussian inputs, after Zhong et al. (2017)."""

from laybare.methods.tensor_init.method import TensorInit

__all__ = ["TensorInit"]
