"""What a route hands over: the layer on white inputs, what was checked, and its error bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.networks import Layer
from laybare.shapes import Array


class FoundLayer(NamedTuple):
    """A layer on the inputs of the source it was found from; claims; standard errors of each row (k, d + 1); noise; a top."""

    layer: Layer
    claims: tuple[Claim, ...]
    errors: Array
    noise: float = 0.0
    top: Callable[[Array], Array] | None = None


def layer_of(spaces: HalfSpaces, activation: Activation) -> Layer:
    """Units u(w·x - t)."""
    return Layer(spaces.weights, -spaces.thresholds, activation)


def unit_errors(spaces: HalfSpaces, angles: Array) -> Array:
    """Errors of rows whose directions are known up to `angles` (k,): spread evenly over the coordinates, the same for t."""
    dim = spaces.weights.shape[1]
    return np.column_stack([np.repeat(angles[:, None] / np.sqrt(dim), dim, axis=1), angles])
