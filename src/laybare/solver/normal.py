"""Normal equations of a network, added up block by block.

Letters: F (n, q) the features that enter linearly, [act(U), 1, x] with U = x Wᵀ + b; C (q, m) their coefficients (readout,
offset, linear part); R = y - F C the residual; X̃ = [x, 1] (or x, without biases); S = act'(U); Xs (n, k·p) the Khatri-Rao rows
S_j ⊗ X̃, so that moving unit j by δ_j changes output o by C_jo · Xs_j δ_j.

Variable projection: for any hidden layer the best C is a least-squares fit, so C is eliminated. With G = FᵀF the projected
problem has (for all outputs at once)

    Schur[(j,a),(l,b)] = (C Cᵀ)_jl · [XsᵀXs - XsᵀF G⁻¹ FᵀXs]_(ja,lb)
    gradient[(j,a)]    = Σ_o C_jo [XsᵀR - XsᵀF G⁻¹ FᵀR]_(ja,o)

Both come from the Gram matrix of [F, Xs] and its product with R: one pass. R is formed inside the pass from the current C, never
as a difference of Gram matrices, so that the gradient keeps its relative accuracy down to a residual of 1e-16.
Source: Golub and Pereyra (1973); Kaufman (1975); the form for several outputs is derived in Ge et al.'s setting (A is their C).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.numerics.levels import EPS
from laybare.numerics.linear_algebra import Precision, inner, solve_spd
from laybare.numerics.shapes import Array, Sums
from laybare.numerics.workspace import workspace
from laybare.solver import options
from laybare.solver.point import Point, split
from laybare.source import Source


class Fit(NamedTuple):
    """Sums that decide the linear coefficients: FᵀF, FᵀR, RᵀR summed over outputs, and the number of rows."""

    gram: Array
    moment: Array
    loss: Array
    rows: Array


class Step(Fit):
    """The same sums of one Gauss-Newton step: Gram of [F, Xs], its product with R."""


def step_of(gram: Array) -> Step:
    """A step of which only the curvature is known."""
    empty = np.zeros(0)
    return Step(gram, empty, empty, empty)


class InPrecision:
    """A statistic in the precision `dtype`; `single` tells the source how to hand out rows (`laybare.source.sums`)."""

    dtype: Precision

    @property
    def single(self) -> bool:
        return self.dtype is np.float32


@dataclass(frozen=True, eq=False)
class FitStatistic(InPrecision):
    """(x, y) -> Fit at a point, by n·(q² + k·d) operations in the precision `dtype`."""

    point: Point
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return 3 * len(self.point.coefficients)

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k = self.point, self.point.width
        X1, unit = with_ones(point, x, self.dtype), unit_of(point, y, self.dtype)
        at = split(point, point.units, point.coefficients / unit)
        ahead = images(X1, at.rows, at.affine.T)
        H = point.activation.in_precision(ahead[:k])
        R = (y.T / unit).astype(self.dtype, copy=False) - np.dot(at.readout.T.astype(self.dtype, copy=False), H) - ahead[k:]
        rest = _affine_features(point, X1)
        gram, moment = np.empty((len(point.coefficients),) * 2), np.empty(point.coefficients.shape)
        gram[:k, :k], gram[:k, k:], gram[k:, k:] = np.dot(H, H.T), np.dot(H, rest), np.dot(rest.T, rest)
        gram[k:, :k] = gram[:k, k:].T
        moment[:k], moment[k:] = np.dot(H, R.T), np.dot(R, rest).T
        loss = unit**2 * np.einsum("on,on->", R, R, dtype=np.float64)
        return Fit(gram, unit * moment, np.asarray(loss), np.array(float(len(x))))


@dataclass(frozen=True, eq=False)
class StepStatistic(InPrecision):
    """(x, y) -> Step at a point, by n·(q + k·p)² operations in the precision `dtype`; sums over blocks are always double."""

    point: Point
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients))

    @property
    def sum_floats(self) -> int:
        return (self.point.units.size + len(self.point.coefficients)) ** 2

    def __call__(self, x: Array, y: Array) -> Sums:
        point, (k, p), q = self.point, self.point.units.shape, len(self.point.coefficients)
        X1, unit = with_ones(point, x, self.dtype), unit_of(point, y, self.dtype)
        Z = workspace("step", (len(x), q + k * p), self.dtype)
        Z[:, :k], slopes = point.activation.value_and_slope(pre_activations(point, X1))
        if point.offset:
            Z[:, k] = 1.0
        if point.linear:
            Z[:, k + point.offset : q] = X1[:, :-1]
        R = (y / unit).astype(self.dtype, copy=False) - Z[:, :q] @ (point.coefficients / unit).astype(self.dtype, copy=False)
        khatri_rao(slopes, X1[:, :p], Z[:, q:])
        loss = unit**2 * np.einsum("no,no->", R, R, dtype=np.float64)
        gram, moment = doubles(inner(Z, Z), inner(Z, R))
        return Step(gram, unit * moment, np.asarray(loss), np.array(float(len(x))))


def working_precision(point: Point) -> Precision:
    """Single precision for many hidden parameters, where a few digits are enough: it takes half the time."""
    return np.float32 if point.units.size >= options.SOLVER.single_metric_from else np.float64


def with_ones(point: Point, x: Array, dtype: Precision) -> Array:
    """[x, 1] in the precision `dtype`; kept rows come like that if it is single (`laybare.source.views`)."""
    dim = point.units.shape[1] - point.biases
    if x.shape[1] == dim + 1:
        return x
    X1 = workspace("with ones", (len(x), dim + 1), dtype)
    X1[:, :-1] = x
    X1[:, -1] = 1.0
    return X1


def pre_activations(point: Point, X1: Array) -> Array:
    """U = X̃ Wᵀ (with biases) in the precision of [x, 1]."""
    return np.asarray(X1[:, : point.units.shape[1]] @ point.units.T.astype(X1.dtype, copy=False))


def outputs_of(point: Point, X1: Array, activations: Array) -> Array:
    """F C from act(U) and [x, 1], in their precision; the result in double."""
    k, C = point.width, point.coefficients.astype(X1.dtype, copy=False)
    outputs = activations @ C[:k]
    if point.offset:
        outputs += C[k]
    if point.linear:
        outputs += X1[:, :-1] @ C[k + point.offset :]
    return np.asarray(outputs, dtype=np.float64)


def khatri_rao(slopes: Array, inputs: Array, out: Array) -> None:
    """S_j ⊗ X̃ of every row, (n, k·p), into `out`; einsum takes half the time of a broadcast product."""
    np.einsum("nk,np->nkp", slopes, inputs, out=out.reshape(len(slopes), slopes.shape[1], inputs.shape[1]))


def _affine_features(point: Point, X1: Array) -> Array:
    """Columns [1, x] that are free, in this order."""
    rest = workspace("affine", (len(X1), point.offset + point.linear * (X1.shape[1] - 1)), X1.dtype.type)
    rest[:, : point.offset] = 1.0
    if point.linear:
        rest[:, point.offset :] = X1[:, :-1]
    return rest


def images(X1: Array, *rows: Array) -> Array:
    """All `rows` times X̃ᵀ in its precision, as one product."""
    weights = np.vstack(rows).astype(X1.dtype, copy=False)
    return np.matmul(weights, X1.T, out=workspace("ahead", (len(weights), len(X1)), X1.dtype.type))


def unit_of(point: Point, y: Array, dtype: Precision) -> np.float64:
    """The unit of labels within a block: 1 in double; in single a power of two near the largest value, which may overflow.

    A number of NumPy: its square is infinite where a float of Python would raise, and what is not finite is a rejected trial.
    """
    if dtype is np.float64:
        return np.float64(1.0)
    largest = max(float(np.abs(y).max()), float(np.abs(point.coefficients).max(initial=0.0)))
    return np.float64(2.0 ** np.round(np.log2(largest))) if 0.0 < largest < np.inf else np.float64(1.0)


def doubles(*parts: Array) -> Sums:
    return tuple(part.astype(np.float64, copy=False) for part in parts)


def project(point: Point, fit: Fit) -> tuple[Point, float]:
    """The same hidden rows with the best coefficients, and the residual sum of squares there; NaN if that overflows.

    The loss is known up to the rounding of the residual it is subtracted from: a huge one must not pass for an exact fit.
    A unit that is hardly on would get a readout whose square overflows once the unit moves: it keeps the one it has.
    """
    squares = fit.gram.diagonal()
    live = ~(squares < options.SOLVER.least_square * squares.max(initial=0.0))  # NaN counts as live, and gives NaN
    with np.errstate(over="ignore", invalid="ignore"):
        if live.all():
            change = solve_spd(fit.gram, fit.moment)
        else:
            change = np.zeros_like(fit.moment)
            change[live] = solve_spd(fit.gram[np.ix_(live, live)], fit.moment[live])
        loss = float(fit.loss) - float(np.sum(change * fit.moment))
        moved = point.moved(point.units, point.coefficients + change)
    return moved, max(loss, EPS * float(fit.loss)) if np.isfinite(loss) else np.nan


def project_on(source: Source, point: Point, dtype: Precision = np.float64) -> tuple[Point, float]:
    """`project` on all rows of a source; one pass."""
    return project(point, Fit(*source.sum(FitStatistic(point, dtype), stage="loss")))


def elimination_order(point: Point, fit: Fit) -> tuple[Array, Array]:
    """Units in the order of backward elimination, and the loss that the removals add up to.

    Removing feature i from a least-squares fit with Gram matrix G raises the loss by exactly |C_i|² / (G⁻¹)_ii.
    """
    k = point.width
    inverse = _inverse(fit.gram)
    coefficients = point.coefficients + inverse @ fit.moment
    left, order, costs = list(range(k)), [], []
    for _ in range(k):
        rows = np.array(left)
        each = np.sum(coefficients[rows] ** 2, axis=1) / np.diag(inverse)[rows]
        i = left.pop(int(np.argmin(each)))
        order.append(i)
        costs.append(float(each.min()))
        ratio = inverse[:, i] / inverse[i, i]
        coefficients = coefficients - ratio[:, None] * coefficients[i]
        inverse = inverse - np.outer(ratio, inverse[i])
        inverse[i, i] = 1.0  # gone: keeps the diagonal positive
    return np.array(order, dtype=int), np.cumsum(costs)


def _inverse(gram: Array) -> Array:
    """Inverse of a Gram matrix with a tiny ridge: a redundant or dead feature gets a huge entry, so a tiny cost."""
    diagonal = np.diag(gram)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-30 * diagonal.max(initial=1e-270)))
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale)
    values = np.maximum(values, 1e-15 * values[-1])
    inverse: Array = (vectors / values) @ vectors.T * scale[:, None] * scale
    return inverse
