"""Biases and more units than inputs, after Awasthi, Tang and Vijayaraghavan (2021)."""

from laybare.methods.general_relu.method import GeneralReLU
from laybare.methods.general_relu.printed import PrintedReLU
from laybare.methods.general_relu.routes import JointSpan

__all__ = ["GeneralReLU", "JointSpan", "PrintedReLU"]
