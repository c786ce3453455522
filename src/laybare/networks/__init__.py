"""Networks: layers, canonical forms, files, comparison modulo every symmetry, each paper's error metric."""

from laybare.networks.matching import (
    SquaredErrors,
    compare,
    landscape_error,
    max_angle,
    max_relative_error,
    mean_squared_error,
    normalised_squared_errors,
    recovered,
    unsigned_error,
)
from laybare.networks.network import Layer, Network, sign_free
from laybare.networks.network_files import load
from laybare.networks.pairing import LayerMatch, Match
from laybare.networks.simplification import Simplification, simplify

__all__ = [
    "Layer", "LayerMatch", "Match", "Network", "SquaredErrors", "compare", "landscape_error", "load", "max_angle",
    "max_relative_error", "mean_squared_error", "normalised_squared_errors", "recovered", "sign_free", "Simplification",
    "simplify", "unsigned_error",
]
