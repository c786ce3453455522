"""Where two units may have been merged into one: directions along which splitting a unit would follow the residual.

Two units close to each other look like one between them, but for their second difference: a unit split into w + δv and w - δv,
half the readout each, changes the output by ½ δ² a act''(u) (v·x̃)². The change follows the residual r most along the leading
eigenvector of

    M = Σ_n (r_n · a) act''(u_n) x̃_n x̃_nᵀ

where act'' is a narrow bell at the kinks if the activation has any. One pass for all units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.linear_algebra import Precision
from laybare.refinement.normal import InPrecision, Point, outputs_of, pre_activations, with_ones
from laybare.shapes import Array, Sums
from laybare.source import Source

BELL = 0.5
"""Width of the bell at a kink, in standard deviations of white inputs."""

APART = 0.4
"""δ: half the distance of the two halves, relative to the row."""


TINY = 1e-30
"""Length below which a row is none."""


class UnitSplit(NamedTuple):
    """A unit, the direction of the split, and how many standard deviations it stands above chance."""

    unit: int
    direction: Array
    sigmas: float


@dataclass(frozen=True, eq=False)
class _Bends(InPrecision):
    """(z, y) -> M of every unit (k, p, p), for readouts of length one and y in units of `sigma`; variance of its entries (k,)."""

    point: Point
    sigma: float
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return 2 * self.point.width + 3 * int(self.point.units.shape[1])

    def __call__(self, x: Array, y: Array) -> Sums:
        point, ones = self.point, with_ones(self.point, x, self.dtype)
        U = pre_activations(point, ones)
        X1 = np.ascontiguousarray(ones[:, : point.units.shape[1]])
        r = (y - outputs_of(point, ones, point.activation.in_precision(U))) / self.sigma
        readout = point.coefficients[: point.width]
        a = readout / np.maximum(np.linalg.norm(readout, axis=1), 1e-300)[:, None]
        weights = (r @ a.T).astype(self.dtype, copy=False) * _bend(point, U)
        squares = np.einsum("na,na->n", X1, X1) / X1.shape[1]
        bends = np.stack([(X1 * w[:, None]).T @ X1 for w in weights.T])
        return bends.astype(np.float64, copy=False), np.einsum("nk,n->k", weights**2, squares**2, dtype=np.float64)


def _bend(point: Point, u: Array) -> Array:
    """act'' of every unit; a bell at each kink, in the unit's own scale, for activations that have any."""
    if not point.activation.kinks:
        return np.asarray(point.activation.second_derivative(u)).astype(u.dtype, copy=False)
    dim = point.units.shape[1] - point.biases
    scale = (BELL * np.maximum(np.linalg.norm(point.units[:, :dim], axis=1), TINY)).astype(u.dtype)
    return np.asarray(sum(np.exp(-0.5 * ((u - kink) / scale) ** 2) for kink in point.activation.kinks))


def likely_splits(source: Source, point: Point, sigma: float, dtype: Precision = np.float64) -> list[UnitSplit]:
    """The best split of every unit, the most telling first; `sigma` is the size of the residual. One pass."""
    if not point.width:
        return []
    bends, spread = source.sum(_Bends(point, sigma, dtype), stage="certificate")
    best = (_best(point, i, M, s) for i, (M, s) in enumerate(zip(bends, spread, strict=True)))
    return sorted(best, key=lambda one: -one.sigmas)


def _best(point: Point, unit: int, bend: Array, variance: float) -> UnitSplit:
    row = point.units[unit] / max(float(np.linalg.norm(point.units[unit])), 1e-300)
    across = np.eye(len(row)) - np.outer(row, row) if point.activation.degree is not None else np.eye(len(row))
    values, vectors = np.linalg.eigh(across @ bend @ across)
    return UnitSplit(unit, vectors[:, -1], float(values[-1]) / float(np.sqrt(max(3.0 * variance, 1e-300))))


def split_unit(point: Point, split: UnitSplit) -> Point:
    """The point with that unit in two, half the readout each; the new one stands last among the units."""
    k, move = point.width, APART * float(np.linalg.norm(point.units[split.unit])) * split.direction
    units = np.vstack([point.units, point.units[split.unit] - move])
    units[split.unit] += move
    coefficients = np.insert(point.coefficients, k, point.coefficients[split.unit], axis=0)
    coefficients[[split.unit, k]] *= 0.5
    return point.moved(units, coefficients)
