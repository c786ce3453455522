"""Random directions: the control for every other method."""

from laybare.methods.random_start.method import RandomStart

__all__ = ["RandomStart"]
