"""Biases, readout and offset of a deep network fitted to answers, its rows as they are, where all numbers are too many for a fit.

Rows are measured away from the origin, and a bias is the product of a row and such a place: its error is that of the row times
the distance. On many answers a bias is told by all of them at once, up to the row's error times the mean of what it reads. One
Gauss-Newton step with the derivatives ∂y/∂z of every unit, its feature and 1, streamed through `source.sum`: n q² operations
for q units, readout weights and outputs.
"""

from __future__ import annotations

import numpy as np

from laybare.lines.joint_polish import Deep, Deviation, NormalEquations
from laybare.source import Source

UNTOLD = 1e-12
"""Share of the largest eigenvalue of the scaled equations below which a combination is not told, such as the bias of a unit that
is always on beside the offset."""


def polish_shifts(network: Deep, source: Source, sd: Deviation) -> Deep:
    """The network with its biases, readout and offset fitted; what no answer tells stays as it is."""
    A, b = source.sum(NormalEquations(network, sd, rows=False))
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
