"""One file a method; each is a choice of the parts that come before it."""

from laybare.methods.random_start import RandomStart
from laybare.methods.start import Method, Start

__all__ = ["Method", "RandomStart", "Start"]
