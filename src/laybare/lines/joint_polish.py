"""Gauss-Newton on all layers of a deep network at once, each answer with the weight of its own rounding.

    y = h_L A + c,      h_l = relu(h_{l-1} W_lᵀ + b_l),      h₀ = x

With D_l = ∂y/∂z_l the derivatives are D_l h_{l-1} and D_l for the rows and biases of layer l, h_L and 1 for the readout. The
network is so near that it tells for every answer which units are active. Gauge: rows keep their length (wᵢ·δwᵢ = 0), because a
unit's length is free against the column above it. Every pass over the answers is a sum (`source.sum`): the normal equations,
scaled by columns, whose inverse gives the error bars, at a cost of n p² for p parameters; beyond `DENSE` of them their
products with vectors, for conjugate gradients, and there are no error bars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from laybare.shapes import Array
from laybare.source import Source

DENSE, QUICK = 4500, 1500
"""Parameters up to which the normal matrix is formed (160 MB, ten seconds); beyond the second number, once and without bars."""

ITERATIONS, SOLVED = 300, 1e-9
"""Products of the one matrix-free step, and the relative residual at which it ends."""

STEPS, DAMPING = 3, 1e-14

Deviation = Callable[[Array, Array], Array]
"""Standard deviations (n,) of answers y (n, outputs) at x (n, dim)."""


class Deep(NamedTuple):
    """Layers as (weights, biases) from the lowest up, readout (m, outputs), offset (outputs,)."""

    layers: tuple[tuple[Array, Array], ...]
    readout: Array
    offset: Array

    def __call__(self, x: Array) -> Array:
        """Outputs (n, outputs)."""
        return np.asarray(self.features(x) @ self.readout + self.offset)

    def features(self, x: Array) -> Array:
        """What the readout reads, (n, m)."""
        return hidden_features(self, x)[-1]

    @property
    def size(self) -> int:
        """Free numbers, one for each unit's length among them."""
        return sum(w.size + b.size for w, b in self.layers) + self.readout.size + self.offset.size


class Fitted(NamedTuple):
    """The network after the fit, the largest standard deviation of a number of it, and the misfit in standard deviations."""

    network: Deep
    error_bar: float
    misfit: float


def polish_deep(network: Deep, source: Source, sd: Deviation, *, prior: float = 1e-3) -> Fitted:
    """Fit all numbers to the answers of `source` with standard deviations sd(x, y), from a network that is nearly right.

    A number that the answers leave open stays where it is within `prior`, the standard deviation of what is known before.
    """
    misfit, bar = misfit_of(network, source, sd), np.inf
    step = _dense_step if network.size <= DENSE else _free_step
    for _ in range(STEPS if network.size <= QUICK else 1):
        moved, now_bar = step(network, source, sd, prior)
        now = misfit_of(moved, source, sd)
        if not now <= 1.5 * misfit:
            break
        network, misfit, bar = moved, now, now_bar
    count = source.size * source.outputs
    free = count / max(count - network.size, 1)
    return Fitted(network, bar * max(1.0, misfit * float(np.sqrt(free))), misfit)


def misfit_of(network: Deep, source: Source, sd: Deviation) -> float:
    """Root mean square of what the network leaves of the answers, in standard deviations."""
    def squares(x: Array, y: Array) -> tuple[Array]:
        return (np.sum(((y - network(x)) / sd(x, y)[:, None]) ** 2, axis=0),)

    return float(np.sqrt(source.sum(squares)[0].sum() / (source.size * source.outputs)))


def hidden_features(network: Deep, x: Array) -> list[Array]:
    """The inputs, and the features of every layer."""
    features = [x]
    for weights, biases in network.layers:
        features.append(np.maximum(features[-1] @ weights.T + biases, 0.0))
    return features


def unit_slopes(network: Deep, features: list[Array], output: int) -> list[Array]:
    """∂y/∂z of one output for the units of every layer, from the lowest up: (n, m) each."""
    slopes, above = [], np.broadcast_to(network.readout[:, output], features[-1].shape)
    for level in range(len(network.layers) - 1, -1, -1):
        slopes.append(np.where(features[level + 1] > 0.0, above, 0.0))
        above = slopes[-1] @ network.layers[level][0]
    return slopes[::-1]


def _jacobian(network: Deep, features: list[Array], output: int, *, rows: bool) -> Array:
    """(n, p) of one output: rows, unless these stay as they are, and biases layer by layer, readout, offset."""
    n, parts = len(features[0]), list[Array]()
    for below, slope in zip(features, unit_slopes(network, features, output), strict=False):
        parts += [(slope[:, :, None] * below[:, None, :]).reshape(n, -1), slope] if rows else [slope]
    readout, offset = np.zeros((n, *network.readout.shape)), np.zeros((n, network.offset.size))
    readout[:, :, output], offset[:, output] = features[-1], 1.0
    return np.hstack([*parts, readout.reshape(n, -1), offset])


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """JᵀJ (p, p) and Jᵀr (p,) of the answers, each divided by its standard deviation; `rows`: whether the rows are among the
    unknowns, or biases, readout and offset alone."""

    network: Deep
    sd: Deviation
    rows: bool = True

    @property
    def row_floats(self) -> int:
        """Numbers of a row of J."""
        return self.network.size - (0 if self.rows else sum(weights.size for weights, _ in self.network.layers))

    def __call__(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The sums over one block."""
        A, b = np.zeros((self.row_floats, self.row_floats)), np.zeros(self.row_floats)
        features, sd = hidden_features(self.network, x), self.sd(x, y)[:, None]
        rest = (y - self.network(x)) / sd
        for output in range(y.shape[1]):
            J = _jacobian(self.network, features, output, rows=self.rows)
            J /= sd
            A += J.T @ J
            b += J.T @ rest[:, output]
        return A, b


def _dense_step(network: Deep, source: Source, sd: Deviation, prior: float) -> tuple[Deep, float]:
    A, b = source.sum(NormalEquations(network, sd))
    A[np.diag_indices(len(A))] += prior**-2
    _fix_lengths(A, network)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300))
    A *= scale[:, None]
    A *= scale
    A[np.diag_indices(len(A))] += DAMPING
    factor, _ = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    delta = scale * scipy.linalg.cho_solve((factor, True), scale * b, check_finite=False)
    if network.size > QUICK:
        return _moved(network, delta), np.inf
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return _moved(network, delta), float((scale * np.sqrt(np.maximum(np.diag(inverse), 0.0))).max())


def _free_step(network: Deep, source: Source, sd: Deviation, prior: float) -> tuple[Deep, float]:
    def gradient(x: Array, y: Array) -> tuple[Array, Array]:
        features, weight = hidden_features(network, x), 1.0 / sd(x, y)[:, None]
        return _pulled(network, features, weight**2 * (y - network(x))), _column_squares(network, features, weight)

    b, squares = source.sum(gradient)
    scale = 1.0 / np.sqrt(squares + prior**-2)

    def product(v: Array) -> Array:
        def curved(x: Array, y: Array) -> tuple[Array]:
            features, weight = hidden_features(network, x), 1.0 / sd(x, y)[:, None]
            return (_pulled(network, features, weight**2 * _pushed(network, features, scale * v)),)

        return np.asarray(scale * (source.sum(curved)[0] + prior**-2 * scale * v))

    return _moved(network, scale * _conjugate_gradients(product, scale * b)), np.inf


def _conjugate_gradients(product: Callable[[Array], Array], b: Array) -> Array:
    x, r = np.zeros_like(b), b.copy()
    p, square = r.copy(), float(r @ r)
    begun = square
    for _ in range(ITERATIONS):
        if square <= SOLVED**2 * begun:
            break
        q = product(p)
        step = square / float(p @ q)
        x, r = x + step * p, r - step * q
        last, square = square, float(r @ r)
        p = r + square / last * p
    return x


def _column_squares(network: Deep, features: list[Array], weight: Array) -> Array:
    """Squared lengths of the Jacobian's columns, (p,), with the outputs taken one by one."""
    total = np.zeros(network.size)
    for output in range(network.readout.shape[1]):
        alone = network._replace(readout=network.readout[:, [output]])
        parts = [np.zeros(network.readout.shape), np.zeros(network.offset.shape)]
        parts[0][:, output], parts[1][output] = np.sum((weight * features[-1]) ** 2, axis=0), np.sum(weight**2)
        above = weight @ alone.readout.T
        for level in range(len(network.layers) - 1, -1, -1):
            slope = np.where(features[level + 1] > 0.0, above, 0.0)
            parts = [(slope**2).T @ features[level] ** 2, np.sum(slope**2, axis=0), *parts]
            above = slope @ network.layers[level][0]
        total += np.concatenate([part.ravel() for part in parts])
    return total


def _pushed(network: Deep, features: list[Array], v: Array) -> Array:
    """The Jacobian times a change of all numbers, (n, outputs)."""
    change = _moved(_zero(network), v)
    up = np.zeros_like(features[0])
    for level, ((weights, _), (rows, biases)) in enumerate(zip(network.layers, change.layers, strict=True)):
        up = np.where(features[level + 1] > 0.0, up @ weights.T + features[level] @ rows.T + biases, 0.0)
    return np.asarray(up @ network.readout + features[-1] @ change.readout + change.offset)


def _pulled(network: Deep, features: list[Array], u: Array) -> Array:
    """The transposed Jacobian times answers u (n, outputs)."""
    parts = [(features[-1].T @ u).ravel(), u.sum(axis=0)]
    above = u @ network.readout.T
    for level in range(len(network.layers) - 1, -1, -1):
        slope = np.where(features[level + 1] > 0.0, above, 0.0)
        parts = [(slope.T @ features[level]).ravel(), slope.sum(axis=0), *parts]
        above = slope @ network.layers[level][0]
    return np.concatenate(parts)


def _zero(network: Deep) -> Deep:
    layers = tuple((np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in network.layers)
    return Deep(layers, np.zeros_like(network.readout), np.zeros_like(network.offset))


def _fix_lengths(A: Array, network: Deep) -> None:
    """Weight on wᵢ·δwᵢ, the direction that changes nothing."""
    at, diagonal = 0, np.diag(A).copy()
    for weights, biases in network.layers:
        for row in weights:
            part = slice(at, at + len(row))
            A[part, part] += max(float(diagonal[part].max()), 1e-300) * np.outer(row, row)
            at += len(row)
        at += len(biases)


def _moved(network: Deep, delta: Array) -> Deep:
    at, layers = 0, []
    for weights, biases in network.layers:
        middle, end = at + weights.size, at + weights.size + biases.size
        layers.append((weights + delta[at:middle].reshape(weights.shape), biases + delta[middle:end]))
        at = end
    readout = network.readout + delta[at : at + network.readout.size].reshape(network.readout.shape)
    return Deep(tuple(layers), readout, network.offset + delta[at + network.readout.size :])
