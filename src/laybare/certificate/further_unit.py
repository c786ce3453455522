"""What a further unit would gain beside a fitted network whose own units may move a little: one pass a step, few numbers.

A refit of all units for every place where one may be missing costs n·P² a step. But the others hardly move, so that J, their
Jacobian at the fit, serves throughout: with r the residual, the loss of new units with rows w_i is

    min over a, δ of |r - Jδ - Σ_i act(w_i·x̃) a_i|²

Eliminating δ and a as `refinement/normal.py` eliminates coefficients leaves the rows w_i alone, K·p of them (K = 1 for a new
unit, 2 for one that is split, which then is no longer part of J). The sums are the products of J with act(w_i·x̃) and its
derivatives, n·P·p operations instead of n·P², and JᵀJ, which is known from the standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from laybare.certificate.information import gauge_of, information, slope
from laybare.damping import Effort, Place, Trial, damped_descent
from laybare.linear_algebra import Definite, Precision, definite, solve_spd
from laybare.refinement.levenberg import damping_weight
from laybare.refinement.normal import Point, Step, khatri_rao, quick_precision, with_ones
from laybare.refinement.pruning import without
from laybare.shapes import Array, Sums
from laybare.source import Source
from laybare.workspace import workspace

NEW, NEW_SINGLE = 1e-10, 1e-6
"""Share of a feature's square that counts as new whatever the others explain of it: above the rounding of the elimination, in
either precision."""


class Linearised(NamedTuple):
    """The units that move a little: their point, and the factor of JᵀJ (with the gauge held) for the rows of a source."""

    point: Point
    curvature: Definite


def linearised(gram: Array, point: Point, left_out: int | None = None) -> Linearised:
    """From the Gram matrix of a step at `point` (`normal.Step`); without the unit `left_out`, if any. P³/3 operations."""
    kept = [j for j in range(point.width) if j != left_out]
    (k, p), q = point.units.shape, len(point.coefficients)
    features = [*kept, *range(k, q)]
    columns = np.array([*features, *(q + j * p + a for j in kept for a in range(p))], dtype=int)
    rest = without(point, np.array(kept, dtype=int))
    nothing = np.zeros(0)
    matrix, fixed = information(Step(gram[np.ix_(columns, columns)], nothing, nothing, nothing), rest), gauge_of(rest).fixed
    strength = float(np.diag(matrix)[: rest.units.size].mean()) if rest.width else 1.0
    return Linearised(rest, definite(matrix + strength * fixed.T @ fixed, quick_precision(point)))


class _Moving(NamedTuple):
    """Sums for rows that move: Zᵀ[Φ, Ψ] and ZᵀR with Z = [F, Xs] of the others, the Gram of [Φ, Ψ], its product with R, R²."""

    cross: Array
    rest: Array
    gram: Array
    moment: Array
    loss: Array


@dataclass(frozen=True, eq=False)
class _MovingStatistic:
    """(x, y) -> _Moving for new rows (K, p) beside a point; R is what it leaves of y in units of `unit`. n·P·K·p operations, in
    single precision if `dtype` says so."""

    point: Point
    rows: Array
    unit: float
    dtype: Precision

    @property
    def single(self) -> bool:
        return self.dtype is np.float32

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients) + self.rows.size)

    @property
    def sum_floats(self) -> int:
        """Eight times what there is: adding up blocks of a thousand rows took a tenth of a pass, and of threads a fifth."""
        return 8 * (self.point.units.size + len(self.point.coefficients)) * self.rows.size

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, q = self.point, self.point.width, len(self.point.coefficients)
        X1 = with_ones(point, x, self.dtype)
        Z = workspace("others", (len(x), q + point.units.size), self.dtype)
        _fill(Z, point, point.units, X1, q)
        if point.offset:
            Z[:, k] = 1.0
        if point.linear:
            Z[:, k + point.offset : q] = X1[:, :-1]
        N = workspace("new", (len(x), len(self.rows) + self.rows.size), self.dtype)
        _fill(N, point, self.rows, X1, len(self.rows))
        R = (y / self.unit).astype(self.dtype, copy=False) - Z[:, :q] @ point.coefficients.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = (Z.T @ N, Z.T @ R, N.T @ N, N.T @ R, np.asarray(np.einsum("no,no->", R, R, dtype=np.float64)))
        return _Moving(*(part.astype(np.float64, copy=False) for part in sums))


def _fill(into: Array, point: Point, rows: Array, X1: Array, before: int) -> None:
    """[act(u_j) for every row j, then, `before` columns from the left, act'(u_j) x̃ for every j]."""
    k, p = rows.shape
    into[:, :k], slopes = point.activation.value_and_slope(X1[:, :p] @ rows.T.astype(X1.dtype, copy=False))
    khatri_rao(slopes, X1[:, :p], into[:, before:])


class _Reduced(NamedTuple):
    """A place's system: readouts a (K, m), the matrix and the gradient of the rows that move."""

    rows: Array
    readouts: Array
    matrix: Array
    gradient: Array


@dataclass(frozen=True, eq=False)
class _Beside:
    """The step rule: one pass tells the loss at some rows and the next system."""

    source: Source
    others: Linearised
    unit: float
    dtype: Precision = np.float64
    passes: ClassVar[float] = 0.0

    def judge(self, point: Array) -> Place[Array, _Reduced]:
        sums = _Moving(*self.source.sum(_MovingStatistic(self.others.point, point, self.unit, self.dtype), stage="certificate"))
        with np.errstate(over="ignore", invalid="ignore"):  # units that are hardly on may have readouts of any size
            loss, system = _reduced(sums, self.others, point, NEW if self.dtype is np.float64 else NEW_SINGLE)
        return Place(point, loss, system)

    def system(self, here: Place[Array, _Reduced]) -> _Reduced:
        return here.sums

    def trial(self, system: _Reduced, damping: float) -> Trial[Array]:
        weight = damping_weight(system.matrix)
        delta = solve_spd(system.matrix + np.diag(damping * weight), system.gradient)
        predicted = float(delta @ (2.0 * system.gradient - system.matrix @ delta))
        moved = system.rows + delta.reshape(system.rows.shape)
        return Trial(_of_length(moved, system.rows, self.others.point), predicted, float(np.abs(delta).max()))


def _of_length(rows: Array, before: Array, point: Point) -> Array:
    """Rows of homogeneous units with |w| = 1; others may not grow beyond twice their length, or 1, in one step."""
    dim = rows.shape[1] - point.biases
    lengths = np.maximum(np.linalg.norm(rows[:, :dim], axis=1), 1e-300)
    if point.activation.degree is not None:
        return np.asarray(rows / lengths[:, None])
    room = 2.0 * np.maximum(1.0, np.linalg.norm(before[:, :dim], axis=1))
    return np.asarray(rows * np.minimum(1.0, room / lengths)[:, None])


def _reduced(sums: _Moving, others: Linearised, rows: Array, new: float) -> tuple[float, _Reduced]:
    point, (K, p) = others.point, rows.shape
    m = point.coefficients.shape[1]
    pulled = slope(Step(sums.gram, sums.rest, sums.loss, sums.loss), point)
    shift = others.curvature.solve(pulled)
    left = float(sums.loss) - float(pulled @ shift)
    features = _columns(sums.cross[:, :K], point, np.eye(m))
    back = others.curvature.solve(features)
    gram = np.kron(sums.gram[:K, :K], np.eye(m))
    gram += np.diag(new * np.diag(gram)) - features.T @ back
    moment = sums.moment[:K].ravel() - features.T @ shift
    readouts = solve_spd(gram, moment)
    loss = left - float(moment @ readouts)
    if not np.isfinite(loss):  # units that overflow explain nothing
        loss, readouts = left, np.zeros(K * m)
    A = readouts.reshape(K, m)
    slopes = _sloped(sums.cross[:, K:].reshape(-1, K, p), point, A)
    own = sums.gram[K:, K:].reshape(K, p, K, p) * (A @ A.T)[:, None, :, None]
    matrix = own.reshape(K * p, K * p)
    matrix += np.diag(new * np.diag(matrix)) - slopes.T @ others.curvature.solve(slopes)
    mixed = np.einsum("ilb,lo->iolb", sums.gram[:K, K:].reshape(K, K, p), A).reshape(K * m, K * p) - back.T @ slopes
    gradient = np.einsum("ibo,io->ib", sums.moment[K:].reshape(K, p, m), A).ravel() - slopes.T @ shift - mixed.T @ readouts
    matrix = matrix - mixed.T @ solve_spd(gram, mixed)
    return max(loss, 0.0), _Reduced(rows, A, matrix, gradient)


def _columns(cross: Array, point: Point, outputs: Array) -> Array:
    """Jᵀ times features (one column each of `cross` = Zᵀφ) that enter every output by itself: (P, K·m)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    A, K = point.coefficients[:k], cross.shape[1]
    rows = np.einsum("jo,jai->jaio", A, cross[q:].reshape(k, p, K)).reshape(k * p, K * m)
    rest = np.einsum("fi,eo->feio", cross[:q], outputs).reshape(q * m, K * m)
    return np.vstack([rows, rest])


def _sloped(cross: Array, point: Point, readouts: Array) -> Array:
    """Jᵀ times the derivatives in the rows, `cross` (q + k·p, K, p), of units with such readouts: (P, K·p)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    K = len(readouts)
    rows = np.einsum("ji,jaib->jaib", point.coefficients[:k] @ readouts.T, cross[q:].reshape(k, p, K, p)).reshape(k * p, K * p)
    rest = np.einsum("io,fib->foib", readouts, cross[:q]).reshape(q * m, K * p)
    return np.vstack([rows, rest])


class Further(NamedTuple):
    """Where new units settled: the point with them last among the units, and the loss with the others linearised."""

    point: Point
    loss: float


def settle_beside(source: Source, others: Linearised, rows: Array, unit: float, effort: Effort) -> Further:
    """New `rows` moved to where they explain most beside the others, which fit y in units of `unit`; a pass a step."""
    rule = _Beside(source, others, unit, quick_precision(others.point))
    end = damped_descent(rule, rows, float(source.size), effort=effort, size=source.size)
    end.trace.pass_on_interrupt()  # a place that was not looked at to its end decides nothing
    point, k, best = others.point, others.point.width, end.best
    coefficients = unit * np.insert(point.coefficients, [k] * len(rows), best.sums.readouts, axis=0)
    return Further(point.moved(np.vstack([point.units, best.point]), coefficients), unit**2 * best.loss)
