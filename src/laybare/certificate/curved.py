"""Directions along which a residual bends: where a unit that is missing altogether shows first.

What a unit w adds beyond a line is, to begin with, curved along w: on white inputs the residual r has the moment

    M = Σ_n r_n z_n z_nᵀ ≈ n a c₂ w̃ w̃ᵀ

with w̃ the part of w that the found units cannot follow, and noise of size 2σ√(d n) in every eigenvalue. Its leading eigenvector
is a place to begin with that all rows have told, at the price of one of their cheapest passes: on some of the rows, units that
are small enough drown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.linear_algebra import Precision
from laybare.refinement.normal import InPrecision, Point, outputs_of, pre_activations, with_ones
from laybare.shapes import Array, Sums
from laybare.source import Source


@dataclass(frozen=True, eq=False)
class _Curved(InPrecision):
    """(z, y) -> Σ r z zᵀ of every output, (m, d, d); in single precision if `dtype` says so."""

    point: Point
    dtype: Precision

    @property
    def row_floats(self) -> int:
        return 3 * int(self.point.units.shape[1]) + self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, X1 = self.point, with_ones(self.point, x, self.dtype)
        z = X1[:, : point.units.shape[1] - point.biases]
        r = y - outputs_of(point, X1, point.activation.in_precision(pre_activations(point, X1)))
        return (np.stack([(z * column[:, None]).T @ z for column in r.astype(self.dtype, copy=False).T]).astype(np.float64),)


def curved_units(source: Source, point: Point, count: int, dtype: Precision = np.float64) -> Array:
    """Rows (w, b) of `count` units at most along which the residual of `point` bends most, as long as the found ones in the
    median, without bias; one pass."""
    dim = point.units.shape[1] - point.biases
    (moments,) = source.sum(_Curved(point, dtype), stage="certificate")
    values, vectors = np.linalg.eigh(moments)
    steep = float(np.median(np.linalg.norm(point.units[:, :dim], axis=1))) if point.width else 1.0
    strongest = np.argsort(-np.abs(values), axis=None, kind="stable")[:count]
    rows = steep * np.stack([vectors[o, :, i] for o, i in zip(*np.unravel_index(strongest, values.shape), strict=True)])
    return np.column_stack([rows, np.zeros(len(rows))]) if point.biases else rows
