"""The end of a reading: is the output affine in the highest layer? Then the readout, all layers fitted together, fresh answers.

    f = h_L A + h_{L-1} B + c

B is what wrong orientations of layer L, weights that are open and units that are always on leave (`facts.solve_orientation` with
the outputs as the units above). The joint fit is Gauss-Newton on rows, biases and readout of all layers, each answer with the
weight of its rounding: with D_l = ∂y/∂z_l the derivatives are D_l h_{l-1} for rows, D_l for biases, h_L and 1 for the readout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

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


class DeepNetwork(NamedTuple):
    """Layers and a readout (width, outputs) with its offset (outputs,)."""

    layers: KnownLayers
    readout: Array
    offset: Array

    def __call__(self, x: Array) -> Array:
        return np.asarray(self.layers.features(x, self.layers.depth) @ self.readout + self.offset)

    @property
    def size(self) -> int:
        return sum(w.size + len(w) for w in self.layers.weights) + self.readout.size + self.offset.size


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


def hidden(network: DeepNetwork, x: Array) -> list[Array]:
    """Inputs and features of every layer."""
    found = [x]
    for w, b in zip(network.layers.weights, network.layers.biases, strict=True):
        found.append(np.maximum(found[-1] @ w.T + b, 0.0))
    return found


def _jacobian(network: DeepNetwork, features: list[Array], output: int) -> Array:
    """(n, parameters) of one output: rows and biases layer by layer, then readout and offset."""
    n, parts = len(features[0]), list[Array]()
    above = np.broadcast_to(network.readout[:, output], features[-1].shape)
    for level in range(network.layers.depth - 1, -1, -1):
        slope = np.where(features[level + 1] > 0.0, above, 0.0)
        parts = [(slope[:, :, None] * features[level][:, None, :]).reshape(n, -1), slope, *parts]
        above = slope @ network.layers.weights[level]
    readout, offset = np.zeros((n, *network.readout.shape)), np.zeros((n, len(network.offset)))
    readout[:, :, output], offset[:, output] = features[-1], 1.0
    return np.hstack([*parts, readout.reshape(n, -1), offset])


def _moved(network: DeepNetwork, delta: Array) -> DeepNetwork:
    at, weights, biases = 0, [], []
    for w, b in zip(network.layers.weights, network.layers.biases, strict=True):
        weights.append(w + delta[at : at + w.size].reshape(w.shape))
        at += w.size
        biases.append(b + delta[at : at + b.size])
        at += b.size
    readout = network.readout + delta[at : at + network.readout.size].reshape(network.readout.shape)
    layers = KnownLayers(network.layers.dim, tuple(weights), tuple(biases))
    return DeepNetwork(layers, readout, network.offset + delta[at + network.readout.size :])


def normal_equations(network: DeepNetwork, x: Array, y: Array, weight: Array, block: int) -> tuple[Array, Array]:
    """JᵀJ (p, p) and Jᵀr (p,), answers weighted; matrix products over blocks of rows."""
    p = network.size
    a, b = np.zeros((p, p)), np.zeros(p)
    for start in range(0, len(x), block):
        part = slice(start, start + block)
        features, w = hidden(network, x[part]), weight[part, None]
        rest = w * (y[part] - network(x[part]))
        for output in range(y.shape[1]):
            j = _jacobian(network, features, output)
            j *= w
            a += j.T @ j
            b += j.T @ rest[:, output]
    return a, b


def joint_fit(network: DeepNetwork, x: Array, y: Array, sd: Array, *, steps: int = 4, damping: float = 1e-13) -> DeepNetwork:
    """Gauss-Newton on all layers at once. A step that does not lower the misfit ends it.

    Scales of units are free (gauge), and weights that are open may be: the scaled normal matrix gets a small ridge, which leaves
    both where they are. Cost n·p² a step.
    """
    weight = 1.0 / sd
    best = float(np.sqrt(np.mean((weight[:, None] * (y - network(x))) ** 2)))
    for _ in range(steps):
        a, b = normal_equations(network, x, y, weight, max(64, int(2e7 / network.size)))
        scale = 1.0 / np.sqrt(np.maximum(np.diag(a), 1e-300))
        scale[np.diag(a) <= 0.0] = 0.0
        a *= scale[:, None]
        a *= scale
        a[np.diag_indices(len(a))] += damping + (scale == 0.0)
        try:
            factor = scipy.linalg.cho_factor(a, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            damping *= 100.0
            continue
        moved = _moved(network, scale * scipy.linalg.cho_solve(factor, scale * b, check_finite=False))
        now = float(np.sqrt(np.mean((weight[:, None] * (y - moved(x))) ** 2)))
        if not now < best:
            break
        done, network, best = now > 0.5 * best, moved, now
        if done:
            break
    return network


def without_unused(network: DeepNetwork, level: float = 1e-10) -> DeepNetwork:
    """The same function without units that nothing above reads: their weights above are zero up to `level` of the largest."""
    weights, biases = list(network.layers.weights), list(network.layers.biases)
    readout = network.readout
    for i in range(len(weights) - 1, -1, -1):
        above = readout.T if i == len(weights) - 1 else weights[i + 1]
        size = np.abs(above) * np.linalg.norm(weights[i], axis=1)
        used = (size > level * size.max(axis=1, keepdims=True)).any(axis=0)
        weights[i], biases[i] = weights[i][used], biases[i][used]
        if i == len(weights) - 1:
            readout = readout[used]
        else:
            weights[i + 1] = weights[i + 1][:, used]
    return DeepNetwork(KnownLayers(network.layers.dim, tuple(weights), tuple(biases)), readout, network.offset)
