"""Biases and more units than inputs, after Awasthi, Tang and Vijayaraghavan (2021)."""

from laybare.methods.general_relu.method import GeneralReLU

__all__ = ["GeneralReLU"]
