"""What a route hands over: a layer, what was checked about it, and its error bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.networks import Layer
from laybare.shapes import Array
from laybare.source import Affine


class LayerFinding(NamedTuple):
    """A layer on the inputs of the source it was found from; claims; standard errors of each row (k, d + 1); noise; a top."""

    layer: Layer
    claims: tuple[Claim, ...]
    errors: Array
    noise: float = 0.0
    top: Callable[[Array], Array] | None = None

    def pull_back(self, transform: Affine) -> LayerFinding:
        """The same on x, for a layer on z = transform(x); rows of homogeneous units get length 1 again.

        The error of (w, b) on z becomes that of (matrix w, b - mean·matrix w), at most.
        """
        layer = transform.pull_back_layer(self.layer)
        errors = np.column_stack([np.abs(self.errors[:, :-1]) @ np.abs(transform.matrix.T), self.errors[:, -1]])
        errors[:, -1] += errors[:, :-1] @ np.abs(transform.mean)
        if layer.activation.degree is None:
            return self._replace(layer=layer, errors=errors)
        lengths = np.linalg.norm(layer.weights, axis=1)
        scaled = Layer(layer.weights / lengths[:, None], np.asarray(layer.biases) / lengths, layer.activation)
        return self._replace(layer=scaled, errors=errors / lengths[:, None])


def layer_of(spaces: HalfSpaces, activation: Activation) -> Layer:
    """Units u(w·x - t)."""
    return Layer(spaces.weights, -spaces.thresholds, activation)


def unit_errors(spaces: HalfSpaces, angles: Array) -> Array:
    """Errors of rows whose directions are known up to `angles` (k,): spread evenly over the coordinates, the same for t."""
    dim = spaces.weights.shape[1]
    return np.column_stack([np.repeat(angles[:, None] / np.sqrt(dim), dim, axis=1), angles])


def unknown_errors(layer: Layer) -> Array:
    """NaN for every number of the layer: the printed algorithms come without error bars."""
    return np.full((layer.width, layer.dim + 1), np.nan)
