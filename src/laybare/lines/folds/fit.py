"""The end of a reading: is the output affine in the highest layer? Then the readout, all layers fitted together, fresh answers.

    f = h_L A + h_{L-1} B + c

B is what wrong orientations of layer L, weights that are open and units that are always on leave (`facts.solve_orientation` with
the outputs as the units above). The joint fit is that of all deep networks (`laybare.lines.deep_fit`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.lines.deep_fit import DeepParameters
from laybare.lines.folds.stack import KnownLayers
from laybare.numerics.shapes import Array


class Readout(NamedTuple):
    """A (width, outputs), B (width below, outputs), c (outputs,), the misfit of held-out answers relative to the largest answer,
    and the rows of the inputs that are not fitted."""

    readout: Array
    below: Array
    offset: Array
    misfit: float
    missed: Array

    def __call__(self, known: KnownLayers, x: Array) -> Array:
        """Outputs (n, outputs)."""
        return np.asarray(readout_features(known, x) @ np.vstack([self.readout, self.below, self.offset]))


def readout_features(known: KnownLayers, x: Array) -> Array:
    """[h_L, h_{L-1}, 1] at the rows of x."""
    return np.hstack([known.features(x, known.depth), known.features(x, known.depth - 1), np.ones((len(x), 1))])


def fit_readout(known: KnownLayers, x: Array, y: Array, *, rounds: int = 60, missed: float = 1e-6) -> Readout:
    """The output as an affine function of the two highest layers, by least absolute residuals.

    Reweighted least squares with weights 1 / sqrt(residual + level), the level falling to rounding: the fit goes through the
    answers that some affine function explains exactly, and those that a missing unit has changed are left over. Misfits are
    relative to the largest answer.
    """
    features = readout_features(known, x)
    size = np.abs(features).max(axis=0)
    size[size == 0.0] = 1.0
    scaled, top = features / size, float(np.abs(y).max())
    weight, off = np.ones(len(x)), np.zeros(len(x))
    for level in top * np.geomspace(0.1, 1e-13, rounds):
        solution = np.linalg.lstsq(scaled * weight[:, None], y * weight[:, None], rcond=1e-13)[0]
        off = np.abs(y - scaled @ solution).max(axis=1)
        if off.max() <= 1e-9 * top:
            break
        weight = 1.0 / np.sqrt(off + level)
        weight /= weight.max()
    solution = solution / size[:, None]
    width = known.weights[-1].shape[0]
    return Readout(
        solution[:width], solution[width:-1], solution[-1], float(np.max(off)) / top, np.flatnonzero(off > missed * top))


def without_unused(network: DeepParameters, level: float = 1e-10) -> DeepParameters:
    """The same function without units that nothing above reads: their weights above are zero up to `level` of the largest."""
    layers, above = list(network.layers), network.readout.T
    for i in range(len(layers) - 1, -1, -1):
        weights, biases = layers[i]
        size = np.abs(above) * np.linalg.norm(weights, axis=1)
        used = (size > level * size.max(axis=1, keepdims=True)).any(axis=0)
        layers[i] = (weights[used], biases[used])
        if i == len(layers) - 1:
            network = network._replace(readout=network.readout[used])
        else:
            layers[i + 1] = (layers[i + 1][0][:, used], layers[i + 1][1])
        above = layers[i][0]
    return network._replace(layers=tuple(layers))
