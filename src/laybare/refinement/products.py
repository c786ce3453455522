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
from typing import NamedTuple

import numpy as np

from laybare.linear_algebra import Precision, inner
from laybare.refinement.normal import InPrecision, Point, unit_of, with_ones
from laybare.shapes import Array, Sums
from laybare.workspace import workspace


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
        point, k = self.point, self.point.width
        at = split(point, point.units, point.coefficients)
        X1 = with_ones(point, x, np.float64)
        ahead = _ahead(X1, at.rows, at.affine.T)
        H, S = point.activation.value_and_slope(ahead[:, :k])
        R = y - H @ at.readout - ahead[:, k:]
        back = np.hstack([S * (R @ at.readout.T), R]).T @ X1
        return np.asarray(np.einsum("no,no->", R, R)), back[:k], inner(H, R), back[k:].T


@dataclass(frozen=True, eq=False)
class SlopeStatistic(InPrecision):
    """(x, y) -> Slope at a point: three products."""

    point: Point
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 6 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m = self.point, self.point.width, y.shape[1]
        at, unit = split(point, point.units, point.coefficients), unit_of(point, y, self.dtype)
        X1, A = with_ones(point, x, self.dtype), (at.readout / unit).astype(self.dtype, copy=False)
        ahead = _ahead(X1, at.rows, at.affine.T / unit)
        B, HR = workspace("back", (len(x), 2 * k + m), self.dtype), workspace("hidden", (len(x), k + m), self.dtype)
        H, slopes = point.activation.value_and_slope(ahead[:, :k])
        R = (y / unit).astype(self.dtype, copy=False) - H @ A - ahead[:, k:]
        np.multiply(slopes, _pulled_back(R, A), out=B[:, :k])
        B[:, k : 2 * k] = HR[:, :k] = H
        B[:, 2 * k :] = HR[:, k:] = R
        back, hidden = B.T @ X1, inner(HR, HR)
        loss = np.asarray(unit**2 * np.einsum("no,no->", R, R, dtype=np.float64))
        rows, readout, affine, *rest = _double(
            back[:k], hidden[:k, k:], back[2 * k :].T, inner(slopes, slopes), hidden[:k, :k], back[k : 2 * k])
        return loss, unit**2 * rows, unit * readout, unit * affine, *rest


@dataclass(frozen=True, eq=False)
class ProductStatistic(InPrecision):
    """(x, y) -> JᵀJ(D, E) in the three parts of a Split."""

    point: Point
    direction: Split
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 6 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m, v = self.point, self.point.width, y.shape[1], self.direction
        at, unit = split(point, point.units, point.coefficients), unit_of(point, self.point.coefficients, self.dtype)
        X1, A = with_ones(point, x, self.dtype), (at.readout / unit).astype(self.dtype, copy=False)
        ahead = _ahead(X1, at.rows, v.rows, v.affine.T / unit)
        H, slopes = point.activation.value_and_slope(ahead[:, :k])
        moved = ahead[:, k : 2 * k]
        moved *= slopes
        image = H @ (v.readout / unit).astype(self.dtype, copy=False) + moved @ A + ahead[:, 2 * k :]
        B = workspace("back", (len(x), k + m), self.dtype)
        np.multiply(slopes, _pulled_back(image, A), out=B[:, :k])
        B[:, k:] = image
        back = B.T @ X1
        rows, readout, affine = _double(back[:k], inner(H, image), back[k:].T)
        return unit**2 * rows, unit * readout, unit * affine


def _double(*parts: Array) -> Sums:
    return tuple(part.astype(np.float64, copy=False) for part in parts)


def _pulled_back(r: Array, A: Array) -> Array:
    """r Aᵀ: for one output an outer product, which no matrix product is quick at."""
    return np.asarray(r * A[:, 0] if A.shape[1] == 1 else r @ A.T)


def _ahead(X1: Array, *rows: Array) -> Array:
    """X̃ times the transpose of all these rows, in its precision: one product."""
    weights = np.vstack(rows).astype(X1.dtype, copy=False)
    return np.matmul(X1, weights.T, out=workspace("ahead", (len(X1), len(weights)), X1.dtype.type))
