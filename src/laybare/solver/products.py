"""The sums behind matrix-free Gauss-Newton: losses, gradients and products with JᵀJ, none of which forms J.

Letters as in `normal.py`, but X̃ = [x, 1] always, and the coefficients are split into the readout A (k, m) and an affine part
B (d+1, m), so that f = act(U) A + X̃ B. A direction is (D, E_A, E_B): D moves the hidden rows, E the coefficients:

    J(D, E) = (S ∘ X̃Dᵀ) A + act(U) E_A + X̃ E_B          (n, m)
    Jᵀr     = ((S ∘ rAᵀ)ᵀ X̃,  act(U)ᵀ r,  X̃ᵀ r)

Everything that meets X̃ is gathered into one product forwards and one backwards: about 6·n·k·d operations in all, and X̃ is read
twice. Within a block all but X̃ lies transposed, a row for every unit: what is done number by number then runs along the samples,
in a fifth of the time that twenty columns take. Products may run in single precision (`dtype`): blocks are added up in double
precision and the gradient that drives the iteration is double where it must be, so single precision limits how far one CG run
gets, not where the outer iteration ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.numerics.linear_algebra import Precision
from laybare.numerics.shapes import Array, Sums
from laybare.numerics.workspace import workspace
from laybare.solver.normal import InPrecision, images, unit_of, with_ones
from laybare.solver.point import Point, Split, split


class Slope(NamedTuple):
    """Loss, Jᵀr in three parts, and the small matrices of the preconditioner: SᵀS, act(U)ᵀact(U), act(U)ᵀX̃."""

    loss: Array
    rows: Array
    readout: Array
    affine: Array
    slopes: Array
    hidden: Array
    cross: Array


class Tangents(NamedTuple):
    """act(U) and act'(U) of all rows (k, n): what every product at a point begins with. For rows that are read as one block."""

    values: Array
    slopes: Array


def joined(point: Point, parts: Split) -> tuple[Array, Array]:
    """(rows, coefficients) of the model from the full form, what is not free left out. The transpose of `split`."""
    rows = parts.rows if point.biases else parts.rows[:, :-1]
    free = [parts.readout, *([parts.affine[-1:]] if point.offset else []), *([parts.affine[:-1]] if point.linear else [])]
    return rows, np.vstack(free)


@dataclass(frozen=True, eq=False)
class GradientStatistic(InPrecision):
    """(x, y) -> (RᵀR, then Jᵀr in the three parts of a Split): two products. With `tangents`, then those of the block as well:
    they are no sums, and only for whoever knows that there is one block."""

    point: Point
    dtype: Precision = np.float64
    tangents: bool = False

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 5 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m = self.point, self.point.width, y.shape[1]
        at, unit = split(point, point.units, point.coefficients), unit_of(point, y, self.dtype)
        X1, A = with_ones(point, x, self.dtype), (at.readout / unit).astype(self.dtype, copy=False)
        ahead = images(X1, at.rows, at.affine.T / unit)
        H, slopes = point.activation.value_and_slope(ahead[:k])
        B = workspace("back", (k + m, len(x)), self.dtype)
        R = np.subtract((y.T / unit).astype(self.dtype, copy=False), ahead[k:], out=B[k:])
        R -= np.dot(A.T, H)
        np.multiply(slopes, _pulled_back(A, R), out=B[:k])
        back = np.dot(B, X1)
        loss = np.asarray(unit**2 * np.einsum("on,on->", R, R, dtype=np.float64))
        rows, readout, affine = _double(back[:k], np.dot(H, R.T), back[k:].T)
        return loss, unit**2 * rows, unit * readout, unit * affine, *((H, slopes) if self.tangents else ())


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
        ahead = images(X1, at.rows, at.affine.T / unit)
        B = workspace("back", (2 * k + m, len(x)), self.dtype)
        H, slopes = point.activation.value_and_slope(ahead[:k])
        R = (y.T / unit).astype(self.dtype, copy=False) - np.dot(A.T, H) - ahead[k:]
        np.multiply(slopes, _pulled_back(A, R), out=B[:k])
        B[k : 2 * k], B[2 * k :] = H, R
        back, hidden = np.dot(B, X1), np.dot(B[k:], B[k:].T)
        loss = np.asarray(unit**2 * np.einsum("on,on->", R, R, dtype=np.float64))
        rows, readout, affine, *rest = _double(
            back[:k], hidden[:k, k:], back[2 * k :].T, np.dot(slopes, slopes.T), hidden[:k, :k], back[k : 2 * k])
        return loss, unit**2 * rows, unit * readout, unit * affine, *rest


@dataclass(frozen=True, eq=False)
class ProductStatistic(InPrecision):
    """(x, y) -> JᵀJ(D, E) in the three parts of a Split; a third less work if the tangents of the rows are `known`."""

    point: Point
    direction: Split
    dtype: Precision = np.float64
    known: Tangents | None = None

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 6 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m, v = self.point, self.point.width, y.shape[1], self.direction
        at, unit = split(point, point.units, point.coefficients), unit_of(point, self.point.coefficients, self.dtype)
        X1, A = with_ones(point, x, self.dtype), (at.readout / unit).astype(self.dtype, copy=False)
        if self.known is None:
            ahead = images(X1, at.rows, v.rows, v.affine.T / unit)
            (H, slopes), ahead = point.activation.value_and_slope(ahead[:k]), ahead[k:]
        else:
            (H, slopes), ahead = self.known, images(X1, v.rows, v.affine.T / unit)
        moved, image = ahead[:k], ahead[k:]
        moved *= slopes
        image += np.dot((v.readout / unit).T.astype(self.dtype, copy=False), H)
        image += np.dot(A.T, moved)
        B = workspace("back", (k + m, len(x)), self.dtype)
        np.multiply(slopes, _pulled_back(A, image), out=B[:k])
        B[k:] = image
        back = np.dot(B, X1)
        rows, readout, affine = _double(back[:k], np.dot(H, image.T), back[k:].T)
        return unit**2 * rows, unit * readout, unit * affine


def _double(*parts: Array) -> Sums:
    return tuple(part.astype(np.float64, copy=False) for part in parts)


def _pulled_back(A: Array, r: Array) -> Array:
    """A r: for one output an outer product, which no matrix product is quick at."""
    return np.asarray(A * r if A.shape[1] == 1 else np.dot(A, r))
