"""What a further unit would gain beside a fitted network whose own units may move a little: one pass a step, few numbers.

A refit of all units for every place where one may be missing costs n·P² a step. But the others hardly move, so that J, their
Jacobian at the fit, serves throughout: with r the residual, the loss of new units with rows w_i is

    min over a, δ of |r - Jδ - Σ_i act(w_i·x̃) a_i|²

Eliminating δ and a as `refinement/normal.py` eliminates coefficients leaves the rows w_i alone, K·p of them (K = 1 for a new
unit, 2 for one that is split, which then is no longer part of J). The sums are the products of J with act(w_i·x̃) and its
derivatives, n·P·p operations instead of n·P², and JᵀJ, which is known from the standard errors. All places that are tried share
their passes, since J is the same for all.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from laybare.certificate.information import information, slope
from laybare.damping import Arrival, Effort, Place, Trial, check_finite, descent
from laybare.linear_algebra import Definite, Precision, definite, inner, solve_spd
from laybare.refinement.levenberg import damping_weight
from laybare.refinement.normal import InPrecision, Point, Step, khatri_rao, quick_precision, step_of, with_ones
from laybare.refinement.pruning import with_units, without
from laybare.shapes import Array, Sums
from laybare.source import Source
from laybare.workspace import workspace

NEW, NEW_SINGLE = 1e-10, 1e-6
"""Share of a feature's square that counts as new whatever the others explain of it: above the rounding of the elimination, in
either precision."""


class Linearised(NamedTuple):
    """The units that move a little: their point, the factor of JᵀJ (with the gauge held) for the rows of a source, and which unit
    of the whole network is not among them, if any."""

    point: Point
    curvature: Definite
    left_out: int | None = None


class NewUnits(NamedTuple):
    """Rows (w, b) of new units, and the others, beside which they look for their place."""

    rows: Array
    others: Linearised


def held_information(gram: Array, point: Point) -> Array:
    """JᵀJ from the Gram matrix of a step at `point` (`normal.Step`), with the gauge held, in the precision that is quick for so
    many numbers."""
    matrix, p = information(step_of(gram), point), point.units.shape[1]
    strength = float(np.diag(matrix)[: point.units.size].mean()) if point.width else 1.0
    if point.activation.degree is not None:
        dim = p - point.biases
        for j, row in enumerate(point.units[:, :dim]):
            own = slice(j * p, j * p + dim)
            matrix[own, own] += (strength * row)[:, None] * row
    return matrix.astype(quick_precision(point), copy=False)


def without_unit(matrix: Array, point: Point, left_out: int | None) -> Linearised:
    """The others, from the information of all; all of them if none is left out. P³/3 operations."""
    if left_out is None:
        return Linearised(point, definite(matrix, matrix.dtype.type))
    (k, p), m = point.units.shape, point.coefficients.shape[1]
    gone = [*range(left_out * p, (left_out + 1) * p), *range(k * p + left_out * m, k * p + (left_out + 1) * m)]
    kept = np.delete(np.arange(len(matrix)), gone)
    rest = without(point, np.delete(np.arange(k), left_out))
    return Linearised(rest, definite(matrix[kept][:, kept], matrix.dtype.type), left_out)


class MovingSums(NamedTuple):
    """Sums for rows that move: Zᵀ[Φ, Ψ] and ZᵀR with Z = [F, Xs] of the others, the Gram of [Φ, Ψ], its product with R, R², and
    the products of Z with the features of units that some place splits."""

    cross: Array
    rest: Array
    gram: Array
    moment: Array
    loss: Array
    lost: Array


@dataclass(frozen=True, eq=False)
class MovingStatistic(InPrecision):
    """(x, y) -> MovingSums for new rows (K, p) beside a point; R is what it leaves of y in units of `unit`. n·P·K·p operations,
    in single precision if `dtype` says so."""

    point: Point
    rows: Array
    split: tuple[int, ...]
    unit: float
    dtype: Precision

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients) + self.rows.size)

    @property
    def sum_floats(self) -> int:
        """Eight times what there is: adding up blocks of a thousand rows took a tenth of a pass, and of threads a fifth."""
        return 8 * (self.point.units.size + len(self.point.coefficients)) * self.rows.size

    def __call__(self, x: Array, y: Array) -> Sums:
        Z, N, R = formed(self.point, self.rows, self.unit, x, y, self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = np.asarray(np.einsum("no,no->", R, R, dtype=np.float64))
            sums = (inner(Z, N), inner(Z, R), inner(N, N), inner(N, R), loss, Z.T @ Z[:, self.split])
        return MovingSums(*(part.astype(np.float64, copy=False) for part in sums))


def formed(point: Point, rows: Array, unit: float, x: Array, y: Array, dtype: Precision) -> tuple[Array, Array, Array]:
    """Z = [F, Xs] of the others, N = [Φ, Ψ] of the new rows, and the residual R."""
    k, q, X1 = point.width, len(point.coefficients), with_ones(point, x, dtype)
    Z = workspace("others", (len(x), q + point.units.size), dtype)
    _fill(Z, point, point.units, X1, q)
    if point.offset:
        Z[:, k] = 1.0
    if point.linear:
        Z[:, k + point.offset : q] = X1[:, :-1]
    N = workspace("new", (len(x), len(rows) + rows.size), dtype)
    _fill(N, point, rows, X1, len(rows))
    R = (y / unit).astype(dtype, copy=False) - Z[:, :q] @ point.coefficients.astype(dtype, copy=False)
    return Z, N, R


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


class Further(NamedTuple):
    """Where new units settled: the point with them last among the units, and the loss with the others linearised."""

    point: Point
    loss: float


Judged: TypeAlias = Place[Array, _Reduced]
"""New rows, their loss beside the others, and the system of the next step."""

_Run: TypeAlias = Generator[Array, Judged, Arrival[Array, _Reduced]]


@dataclass(frozen=True, eq=False)
class Together:
    """One pass over `source` tells the loss and the next system for the rows of several places, beside the same point, which fits
    y in units of `unit`; in single precision if `dtype` says so."""

    source: Source
    point: Point
    unit: float
    dtype: Precision

    def judge(self, places: Sequence[NewUnits]) -> list[Judged]:
        rows = np.vstack([place.rows for place in places])
        split = tuple(sorted({place.others.left_out for place in places if place.others.left_out is not None}))
        statistic = MovingStatistic(self.point, rows, split, self.unit, self.dtype)
        sums = MovingSums(*self.source.sum(statistic, stage="certificate"))
        ends = np.cumsum([len(place.rows) for place in places])
        judged = []
        for place, end in zip(places, ends, strict=True):
            own = _own_sums(sums, np.arange(end - len(place.rows), end), len(rows), place.others.left_out, split, self.point)
            with np.errstate(over="ignore", invalid="ignore"):  # units that are hardly on may have readouts of any size
                loss, system = _reduced(own, place.others, place.rows, NEW if self.dtype is np.float64 else NEW_SINGLE)
            judged.append(Place(place.rows, loss, system))
        return judged

    def further(self, others: Linearised, best: Place[Array, _Reduced], gain: float = 0.0) -> Further:
        """The network with the new units, for y in its own units, and its loss less what a step is going to gain."""
        point = with_units(others.point, best.point, best.sums.readouts)
        return Further(point.moved(point.units, self.unit * point.coefficients), self.unit**2 * max(0.0, best.loss - gain))


def _own_sums(
    sums: MovingSums, own: Array, count: int, left_out: int | None, split: tuple[int, ...], point: Point
) -> MovingSums:
    """The sums of some of `count` new rows, beside the point without the unit that is left out, if any."""
    (k, p), q = point.units.shape, len(point.coefficients)
    columns = np.concatenate([own, (count + own[:, None] * p + np.arange(p)).ravel()])
    cross, moment, gram = sums.cross[:, columns], sums.moment[columns], sums.gram[np.ix_(columns, columns)]
    if left_out is None:
        return sums._replace(cross=cross, moment=moment, gram=gram)
    readout, lost = point.coefficients[left_out], sums.lost[:, split.index(left_out)]  # the residual gets that unit's part back
    loss = sums.loss + 2.0 * (sums.rest[left_out] @ readout) + lost[left_out] * (readout @ readout)
    rest = sums.rest + np.outer(lost, readout)
    kept = np.delete(np.arange(q + k * p), [left_out, *range(q + left_out * p, q + left_out * p + p)])
    return MovingSums(cross[kept], rest[kept], gram, moment + np.outer(cross[left_out], readout), np.asarray(loss), lost[kept])


@dataclass(frozen=True, eq=False)
class _Beside:
    """The step rule of one place."""

    others: Linearised
    passes: ClassVar[float] = 0.0

    def system(self, here: Place[Array, _Reduced]) -> _Reduced:
        return here.sums

    def trial(self, system: _Reduced, damping: float) -> Trial[Array]:
        weight = damping_weight(system.matrix)
        delta = solve_spd(system.matrix + np.diag(damping * weight), system.gradient)
        predicted = float(delta @ (2.0 * system.gradient - system.matrix @ delta))
        moved = system.rows + delta.reshape(system.rows.shape)
        return Trial(of_length(moved, system.rows, self.others.point), predicted, float(np.abs(delta).max()))


def of_length(rows: Array, before: Array, point: Point) -> Array:
    """Rows of homogeneous units with |w| = 1; others may not grow beyond twice their length, or 1, in one step."""
    dim = rows.shape[1] - point.biases
    lengths = np.maximum(np.linalg.norm(rows[:, :dim], axis=1), 1e-300)
    if point.activation.degree is not None:
        return np.asarray(rows / lengths[:, None])
    room = 2.0 * np.maximum(1.0, np.linalg.norm(before[:, :dim], axis=1))
    return np.asarray(rows * np.minimum(1.0, room / lengths)[:, None])


def _reduced(sums: MovingSums, others: Linearised, rows: Array, new: float) -> tuple[float, _Reduced]:
    point, (K, p) = others.point, rows.shape
    m = point.coefficients.shape[1]
    pulled = slope(Step(sums.gram, sums.rest, sums.loss, sums.loss), point)
    shift = others.curvature.solve(pulled)
    left = float(sums.loss) - float(pulled @ shift)
    features = columns_of_readouts(sums.cross[:, :K], point, np.eye(m))
    back = others.curvature.solve(features)
    gram = np.kron(sums.gram[:K, :K], np.eye(m))
    gram += np.diag(new * np.diag(gram)) - features.T @ back
    moment = sums.moment[:K].ravel() - features.T @ shift
    readouts = solve_spd(gram, moment)
    loss = left - float(moment @ readouts)
    if not np.isfinite(loss):  # units that overflow explain nothing
        loss, readouts = left, np.zeros(K * m)
    A = readouts.reshape(K, m)
    slopes = columns_of_rows(sums.cross[:, K:].reshape(-1, K, p), point, A)
    own = sums.gram[K:, K:].reshape(K, p, K, p) * (A @ A.T)[:, None, :, None]
    matrix = own.reshape(K * p, K * p)
    matrix += np.diag(new * np.diag(matrix)) - slopes.T @ others.curvature.solve(slopes)
    mixed = np.einsum("ilb,lo->iolb", sums.gram[:K, K:].reshape(K, K, p), A).reshape(K * m, K * p) - back.T @ slopes
    gradient = np.einsum("ibo,io->ib", sums.moment[K:].reshape(K, p, m), A).ravel() - slopes.T @ shift - mixed.T @ readouts
    matrix = matrix - mixed.T @ solve_spd(gram, mixed)
    return max(loss, 0.0), _Reduced(rows, A, matrix, gradient)


def columns_of_readouts(cross: Array, point: Point, outputs: Array) -> Array:
    """Jᵀ times features (one column each of `cross` = Zᵀφ) that enter every output by itself: (P, K·m)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    A, K = point.coefficients[:k], cross.shape[1]
    rows = np.einsum("jo,jai->jaio", A, cross[q:].reshape(k, p, K)).reshape(k * p, K * m)
    rest = np.einsum("fi,eo->feio", cross[:q], outputs).reshape(q * m, K * m)
    return np.vstack([rows, rest])


def columns_of_rows(cross: Array, point: Point, readouts: Array) -> Array:
    """Jᵀ times the derivatives in the rows, `cross` (q + k·p, K, p), of units with such readouts: (P, K·p)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    K = len(readouts)
    rows = np.einsum("ji,jaib->jaib", point.coefficients[:k] @ readouts.T, cross[q:].reshape(k, p, K, p)).reshape(k * p, K * p)
    rest = np.einsum("io,fib->foib", readouts, cross[:q]).reshape(q * m, K * p)
    return np.vstack([rows, rest])


def settle_beside(
    together: Together, places: Sequence[NewUnits], effort: Effort, judged: Sequence[Judged] | None = None
) -> list[Further]:
    """New units moved from each of the places to where they explain most; one pass a step for all places. `judged` is what
    `together` says of the places, if it has been asked."""
    source = together.source
    runs: list[_Run] = [
        descent(_Beside(place.others), place.rows, float(source.size), effort=effort, size=source.size) for place in places]
    asked, ended = {i: next(run) for i, run in enumerate(runs)}, dict[int, Further]()
    while asked:
        judged = judged or together.judge([NewUnits(rows, places[i].others) for i, rows in asked.items()])
        for i, place in zip(tuple(asked), judged, strict=True):
            try:
                asked[i] = runs[i].send(place)
            except StopIteration as end:
                end.value.trace.pass_on_interrupt()  # a place that was not looked at to its end decides nothing
                ended[i] = together.further(places[i].others, end.value.best)
                del asked[i]
        judged = None
    return [ended[i] for i in range(len(places))]


def foretold(together: Together, places: Sequence[NewUnits], judged: Sequence[Judged]) -> list[Further]:
    """What a step from each of the places would gain, as its model foretells, which `together` has judged."""
    found = []
    for place, here in zip(places, judged, strict=True):
        check_finite(here.loss)
        rule = _Beside(place.others)
        found.append(together.further(place.others, here, max(0.0, rule.trial(rule.system(here), Effort().damping).predicted)))
    return found
