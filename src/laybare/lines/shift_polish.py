"""Biases, readout and offset of a deep network fitted to answers, its rows as they are, where all numbers are too many for a fit.

Rows are measured away from the origin, and a bias is the product of a row and such a place: its error is that of the row times
the distance. On many answers a bias is told by all of them at once, up to the row's error times the mean of what it reads. One
Gauss-Newton step with the derivatives ∂y/∂z of every unit, its feature and 1, streamed through `source.sum`: n q² operations
for q units, readout weights and outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.lines.joint_polish import Deep, Deviation, hidden_features
from laybare.shapes import Array
from laybare.source import Source

UNTOLD = 1e-12
"""Share of the largest eigenvalue of the scaled equations below which a combination is not told, such as the bias of a unit that
is always on beside the offset."""


@dataclass(frozen=True, eq=False)
class ShiftEquations:
    """JᵀJ (q, q) and Jᵀr (q,) for the biases layer by layer, the readout and the offset, each answer over its deviation."""

    network: Deep
    sd: Deviation

    @property
    def row_floats(self) -> int:
        """Numbers of a row of J."""
        return _size(self.network)

    def __call__(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The sums over one block."""
        A, b = np.zeros((self.row_floats, self.row_floats)), np.zeros(self.row_floats)
        features, sd = hidden_features(self.network, x), self.sd(x, y)[:, None]
        rest = (y - self.network(x)) / sd
        for output in range(y.shape[1]):
            J = _jacobian(self.network, features, output) / sd
            A += J.T @ J
            b += J.T @ rest[:, output]
        return A, b


def polish_shifts(network: Deep, source: Source, sd: Deviation) -> Deep:
    """The network with its biases, readout and offset fitted; what no answer tells stays as it is."""
    A, b = source.sum(ShiftEquations(network, sd))
    size = np.sqrt(np.diag(A))
    scale = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0)
    sizes, vectors = np.linalg.eigh(scale[:, None] * A * scale)
    told = sizes > UNTOLD * sizes[-1]
    delta = scale * (vectors[:, told] @ (vectors[:, told].T @ (scale * b) / sizes[told]))
    at, layers = 0, []
    for weights, biases in network.layers:
        layers.append((weights, biases + delta[at : at + len(biases)]))
        at += len(biases)
    end = at + network.readout.size
    return Deep(tuple(layers), network.readout + delta[at:end].reshape(network.readout.shape), network.offset + delta[end:])


def _size(network: Deep) -> int:
    return sum(len(biases) for _, biases in network.layers) + network.readout.size + network.offset.size


def _jacobian(network: Deep, features: list[Array], output: int) -> Array:
    """(n, q) of one output."""
    n = len(features[0])
    readout, offset = np.zeros((n, *network.readout.shape)), np.zeros((n, len(network.offset)))
    readout[:, :, output], offset[:, output] = features[-1], 1.0
    parts, above = [readout.reshape(n, -1), offset], np.broadcast_to(network.readout[:, output], features[-1].shape)
    for level in range(len(network.layers) - 1, -1, -1):
        slope = np.where(features[level + 1] > 0.0, above, 0.0)
        parts, above = [slope, *parts], slope @ network.layers[level][0]
    return np.hstack(parts)
