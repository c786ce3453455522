"""The sums behind matrix-free Gauss-Newton: losses, gradients and products with JᵀJ, none of which forms J.

Letters as in `normal.py`, but X̃ = [x, 1] always, and the coefficients are split into the readout A (k, m) and an affine part
B (d+1, m), so that f = act(U) A + X̃ B. A direction is (D, E_A, E_B): D moves the hidden rows, E the coefficients:

    J(D, E) = (S ∘ X̃Dᵀ) A + act(U) E_A + X̃ E_B          (n, m)
    Jᵀr     = ((S ∘ rAᵀ)ᵀ X̃,  act(U)ᵀ r,  X̃ᵀ r)

Everything that meets X̃ is gathered into one product forwards and one backwards: about 6·n·k·d operations in all, and X̃ is read
twice. Products may run in single precision (`dtype`): blocks are added up in double precision and the gradient that drives the
iteration is always double, so single precision limits how far one CG run gets, not where the outer iteration ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from laybare.refinement.normal import Point
from laybare.shapes import Array, Sums

NEAR_KINK = 1e-4
"""Many times the rounding of a single-precision product of 1000 terms of size one."""

Precision: TypeAlias = type[np.floating[Any]]


class Split(NamedTuple):
    """A direction or a point in full form: hidden rows (k, d+1), readout (k, m), affine part (d+1, m)."""

    rows: Array
    readout: Array
    affine: Array


class Slope(NamedTuple):
    """Loss, Jᵀr in three parts, and the small matrices of the preconditioner: SᵀS, act(U)ᵀact(U), act(U)ᵀX̃."""

    loss: Array
    rows: Array
    readout: Array
    affine: Array
    slopes: Array
    hidden: Array
    cross: Array


def split(point: Point, rows: Array, coefficients: Array) -> Split:
    """Full form of (rows, coefficients) of a point's model; what is not free is zero."""
    k, dim, m = point.width, point.units.shape[1] - point.biases, coefficients.shape[1]
    full = rows if point.biases else np.column_stack([rows, np.zeros(k)])
    affine = np.zeros((dim + 1, m))
    if point.offset:
        affine[-1] = coefficients[k]
    if point.linear:
        affine[:-1] = coefficients[k + point.offset :]
    return Split(full, coefficients[:k], affine)


def joined(point: Point, parts: Split) -> tuple[Array, Array]:
    """(rows, coefficients) of the model from the full form, what is not free left out. The transpose of `split`."""
    rows = parts.rows if point.biases else parts.rows[:, :-1]
    free = [parts.readout, *([parts.affine[-1:]] if point.offset else []), *([parts.affine[:-1]] if point.linear else [])]
    return rows, np.vstack(free)


@dataclass(frozen=True, eq=False)
class GradientStatistic:
    """(x, y) -> (RᵀR, then Jᵀr in the three parts of a Split): two products."""

    point: Point

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 5 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point = self.point
        at = split(point, point.units, point.coefficients)
        X1 = _with_ones(x, np.float64)
        U, H, R = _residual(point, at, X1, y)
        back = np.hstack([point.activation.derivative(U) * (R @ at.readout.T), R]).T @ X1
        return np.asarray(np.einsum("no,no->", R, R)), back[: point.width], H.T @ R, back[point.width :].T


@dataclass(frozen=True, eq=False)
class SlopeStatistic:
    """(x, y) -> Slope at a point: three products."""

    point: Point
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 6 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m = self.point, self.point.width, y.shape[1]
        at = split(point, point.units, point.coefficients)
        X1 = _with_ones(x, self.dtype)
        ahead = X1 @ np.vstack([at.rows, at.affine.T]).T.astype(self.dtype)
        U = ahead[:, :k]
        if self.dtype is np.float32:
            _settle_kinks(point, at, x, U)
        H = point.activation(U).astype(self.dtype, copy=False)
        S = point.activation.derivative(U).astype(self.dtype, copy=False)
        A = at.readout.astype(self.dtype)
        R = y.astype(self.dtype, copy=False) - H @ A - ahead[:, k:]
        back = np.hstack([S * (R @ A.T), R, H]).T @ X1
        loss = np.asarray(np.einsum("no,no->", R, R, dtype=np.float64))
        return _double(loss, back[:k], H.T @ R, back[k : k + m].T, S.T @ S, H.T @ H, back[k + m :])


@dataclass(frozen=True, eq=False)
class ProductStatistic:
    """(x, y) -> JᵀJ(D, E) in the three parts of a Split."""

    point: Point
    direction: Split
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 6 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, v = self.point, self.point.width, self.direction
        at = split(point, point.units, point.coefficients)
        X1 = _with_ones(x, self.dtype)
        ahead = X1 @ np.vstack([at.rows, v.rows, v.affine.T]).T.astype(self.dtype)
        U, V, image = ahead[:, :k], ahead[:, k : 2 * k], ahead[:, 2 * k :]
        if self.dtype is np.float32:
            _settle_kinks(point, at, x, U)
        S = point.activation.derivative(U).astype(self.dtype, copy=False)
        H = point.activation(U).astype(self.dtype, copy=False)
        A = at.readout.astype(self.dtype)
        V *= S
        image = image + V @ A + H @ v.readout.astype(self.dtype)
        back = np.hstack([S * (image @ A.T), image]).T @ X1
        return _double(back[:k], H.T @ image, back[k:].T)


def _double(*parts: Array) -> Sums:
    return tuple(part.astype(np.float64, copy=False) for part in parts)


def _settle_kinks(point: Point, at: Split, x: Array, U: Array) -> None:
    """Pre-activations next to a kink, once more in double precision: one wrong slope is a wrong row of J, not a rounding."""
    for kink in point.activation.kinks:
        i, j = np.nonzero(np.abs(U - kink) < NEAR_KINK)
        U[i, j] = np.einsum("nd,nd->n", x[i], at.rows[j, :-1]) + at.rows[j, -1]


def _with_ones(x: Array, dtype: Precision) -> Array:
    X1 = np.empty((len(x), x.shape[1] + 1), dtype=dtype)
    X1[:, :-1] = x
    X1[:, -1] = 1.0
    return X1


def _residual(point: Point, at: Split, X1: Array, y: Array) -> tuple[Array, Array, Array]:
    ahead = X1 @ np.vstack([at.rows, at.affine.T]).T
    U = ahead[:, : point.width]
    H = point.activation(U)
    return U, H, y - H @ at.readout - ahead[:, point.width :]
