"""The gain of a candidate unit beside a fitted network whose own units may move a little: one pass per step, few parameters.

A refit of all units for every candidate costs n·P² per step. But the others hardly move, so that J, their Jacobian at the fit,
serves throughout: with r the residual, the loss of new units with rows w_i is

    min over a, δ of |r - Jδ - Σ_i act(w_i·x̃) a_i|²

Eliminating δ and a as `solver.normal` eliminates coefficients leaves the rows w_i alone, K·p of them (K = 1 for a new unit, 2 for
one that is split, which then is no part of J). The sums are the products of J with act(w_i·x̃) and its derivatives, n·P·p
operations instead of n·P², and JᵀJ, which is known from the standard errors. All candidates share their passes, since J is the
same for all.

*Confirmation.* Candidates are found on some rows, where steps are cheap; but with n₁ rows for P parameters much of the gain there
is noise. All rows then tell the gain by a regression on fixed functions: how the other units move is known from some rows, and is
taken out of what the new ones may do.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from laybare.certificate.error_propagation import information_matrix, score_vector
from laybare.errors import InvalidInput
from laybare.numerics.linear_algebra import Precision, SPDFactor, factor_spd, inner, solve_spd
from laybare.numerics.shapes import Array, Sums
from laybare.numerics.workspace import workspace
from laybare.solver import Effort, FitScale, Iterate, Trial, damped_steps
from laybare.solver.dense import damping_weight
from laybare.solver.normal import InPrecision, Step, khatri_rao, step_of, with_ones, working_precision
from laybare.solver.point import Point, add_units, keep_units
from laybare.source import Source

RIDGE: dict[Precision, float] = {np.float64: 1e-10, np.float32: 1e-6}
"""Share of a feature's square that counts as new whatever the others explain of it, by precision: above the rounding of the
elimination. Checked by `pytest tests/certificate/test_linearised_fit.py`."""


class LinearisedNetwork(NamedTuple):
    """The units that move a little: their point, the factor of JᵀJ with the gauge fixed, and which unit of the whole network is
    not among them, if any."""

    point: Point
    curvature: SPDFactor
    left_out: int | None = None


class NewUnits(NamedTuple):
    """Rows (w, b) of new units, and the others beside them."""

    rows: Array
    others: LinearisedNetwork


def gauged_information(gram: Array, point: Point) -> Array:
    """JᵀJ from the Gram matrix of a step at `point`, with the gauge fixed, in the precision that is fast for its size."""
    matrix, p = information_matrix(step_of(gram), point), point.units.shape[1]
    strength = float(np.diag(matrix)[: point.units.size].mean()) if point.width else 1.0
    if point.activation.degree is not None:
        dim = p - point.biases
        for j, row in enumerate(point.units[:, :dim]):
            own = slice(j * p, j * p + dim)
            matrix[own, own] += (strength * row)[:, None] * row
    return matrix.astype(working_precision(point), copy=False)


def linearise_without(matrix: Array, point: Point, left_out: int | None) -> LinearisedNetwork:
    """The network without a unit (or whole, for None), from the information of all. P³/3 operations."""
    if left_out is None:
        return LinearisedNetwork(point, factor_spd(matrix, matrix.dtype.type))
    (k, p), m = point.units.shape, point.coefficients.shape[1]
    gone = [*range(left_out * p, (left_out + 1) * p), *range(k * p + left_out * m, k * p + (left_out + 1) * m)]
    kept = np.delete(np.arange(len(matrix)), gone)
    rest = keep_units(point, np.delete(np.arange(k), left_out))
    return LinearisedNetwork(rest, factor_spd(matrix[kept][:, kept], matrix.dtype.type), left_out)


class NewUnitSums(NamedTuple):
    """Sums for new rows: Zᵀ[Φ, Ψ] and ZᵀR with Z = [F, Xs] of the others, the Gram of [Φ, Ψ], its product with R, R², and the
    products of Z with the features of units that are split."""

    cross: Array
    rest: Array
    gram: Array
    moment: Array
    loss: Array
    lost: Array


@dataclass(frozen=True, eq=False)
class NewUnitStatistic(InPrecision):
    """(x, y) -> NewUnitSums for new rows (K, p) beside a point; R is its residual, y in units of `scale`. n·P·K·p operations."""

    point: Point
    rows: Array
    split: tuple[int, ...]
    scale: float
    dtype: Precision

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients) + self.rows.size)

    @property
    def sum_floats(self) -> int:
        """Eight times the true number, for larger blocks: adding up small ones takes a tenth of a pass, with threads a fifth."""
        return 8 * (self.point.units.size + len(self.point.coefficients)) * self.rows.size

    def __call__(self, x: Array, y: Array) -> Sums:
        Z, N, R = design_matrices(self.point, self.rows, self.scale, x, y, self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = np.asarray(np.einsum("no,no->", R, R, dtype=np.float64))
            sums = (inner(Z, N), inner(Z, R), inner(N, N), inner(N, R), loss, Z.T @ Z[:, self.split])
        return NewUnitSums(*(part.astype(np.float64, copy=False) for part in sums))


def design_matrices(point: Point, rows: Array, scale: float, x: Array, y: Array, dtype: Precision) -> tuple[Array, Array, Array]:
    """Z = [F, Xs] of the others, N = [Φ, Ψ] of the new rows, and the residual R."""
    k, q, X1 = point.width, len(point.coefficients), with_ones(point, x, dtype)
    Z = workspace("others", (len(x), q + point.units.size), dtype)
    _fill_values_and_slopes(Z, point, point.units, X1, q)
    if point.offset:
        Z[:, k] = 1.0
    if point.linear:
        Z[:, k + point.offset : q] = X1[:, :-1]
    N = workspace("new", (len(x), len(rows) + rows.size), dtype)
    _fill_values_and_slopes(N, point, rows, X1, len(rows))
    R = (y / scale).astype(dtype, copy=False) - Z[:, :q] @ point.coefficients.astype(dtype, copy=False)
    return Z, N, R


def _fill_values_and_slopes(into: Array, point: Point, rows: Array, X1: Array, before: int) -> None:
    """[act(u_j) for every row j, then, `before` columns from the left, act'(u_j) x̃ for every j]."""
    k, p = rows.shape
    into[:, :k], slopes = point.activation.value_and_slope(X1[:, :p] @ rows.T.astype(X1.dtype, copy=False))
    khatri_rao(slopes, X1[:, :p], into[:, before:])


class _ReducedSystem(NamedTuple):
    """The system of a place: readouts a (K, m), the matrix and the gradient of the new rows."""

    rows: Array
    readouts: Array
    matrix: Array
    gradient: Array


class WidenedFit(NamedTuple):
    """Where new units settled: the point with them last among the units, and the loss with the others linearised."""

    point: Point
    loss: float


ScoredPlace: TypeAlias = Iterate[Array, _ReducedSystem]
"""New rows, their loss beside the others, and the system of the next step."""

_Descent: TypeAlias = Generator[Array, ScoredPlace, Iterate[Array, _ReducedSystem]]


@dataclass(frozen=True, eq=False)
class BatchScorer:
    """Loss and next system of several places in one pass over `source`, beside the same point, which fits y in units of
    `scale`."""

    source: Source
    point: Point
    scale: float
    dtype: Precision

    def score(self, places: Sequence[NewUnits]) -> list[ScoredPlace]:
        rows = np.vstack([place.rows for place in places])
        split = tuple(sorted({place.others.left_out for place in places if place.others.left_out is not None}))
        statistic = NewUnitStatistic(self.point, rows, split, self.scale, self.dtype)
        sums = NewUnitSums(*self.source.sum(statistic, stage="certificate"))
        ends = np.cumsum([len(place.rows) for place in places])
        scored = []
        for place, end in zip(places, ends, strict=True):
            own = _sums_of_place(sums, np.arange(end - len(place.rows), end), len(rows), place.others.left_out, split, self.point)
            with np.errstate(over="ignore", invalid="ignore"):  # units that are hardly on may have readouts of any size
                loss, system = _reduce(own, place.others, place.rows, RIDGE[self.dtype])
            scored.append(Iterate(place.rows, loss, system))
        return scored

    def widened_fit(self, others: LinearisedNetwork, best: Iterate[Array, _ReducedSystem], gain: float = 0.0) -> WidenedFit:
        """The network with the new units, for y as given, and its loss less the predicted `gain` of a step."""
        point = add_units(others.point, best.point, best.sums.readouts)
        return WidenedFit(point.moved(point.units, self.scale * point.coefficients), self.scale**2 * max(0.0, best.loss - gain))

    def no_fit(self, place: NewUnits) -> WidenedFit:
        """Beside a unit that is hardly on, with a readout to match, sums may overflow: what has no loss explains nothing."""
        point = add_units(place.others.point, place.rows, np.zeros((len(place.rows), self.point.coefficients.shape[1])))
        return WidenedFit(point.moved(point.units, self.scale * point.coefficients), np.inf)


def _sums_of_place(
    sums: NewUnitSums, own: Array, count: int, left_out: int | None, split: tuple[int, ...], point: Point
) -> NewUnitSums:
    """The sums of one place's rows among `count` new ones, beside the point without the unit that is left out, if any."""
    (k, p), q = point.units.shape, len(point.coefficients)
    columns = np.concatenate([own, (count + own[:, None] * p + np.arange(p)).ravel()])
    cross, moment, gram = sums.cross[:, columns], sums.moment[columns], sums.gram[np.ix_(columns, columns)]
    if left_out is None:
        return sums._replace(cross=cross, moment=moment, gram=gram)
    readout, lost = point.coefficients[left_out], sums.lost[:, split.index(left_out)]  # the residual gets that unit's part back
    loss = sums.loss + 2.0 * (sums.rest[left_out] @ readout) + lost[left_out] * (readout @ readout)
    rest = sums.rest + np.outer(lost, readout)
    kept = np.delete(np.arange(q + k * p), [left_out, *range(q + left_out * p, q + left_out * p + p)])
    return NewUnitSums(cross[kept], rest[kept], gram, moment + np.outer(cross[left_out], readout), np.asarray(loss), lost[kept])


@dataclass(frozen=True, eq=False)
class LinearisedStep:
    """The step rule of one place."""

    others: LinearisedNetwork
    passes: ClassVar[float] = 0.0

    def system(self, here: Iterate[Array, _ReducedSystem]) -> _ReducedSystem:
        return here.sums

    def trial(self, system: _ReducedSystem, damping: float) -> Trial[Array]:
        weight = damping_weight(system.matrix)
        matrix = system.matrix.copy()
        _add_ridge(matrix, damping, weight)
        delta = solve_spd(matrix, system.gradient)
        predicted = float(delta @ (2.0 * system.gradient - system.matrix @ delta))
        moved = system.rows + delta.reshape(system.rows.shape)
        return Trial(limit_row_lengths(moved, system.rows, self.others.point), predicted, float(np.abs(delta).max()))


def limit_row_lengths(rows: Array, before: Array, point: Point) -> Array:
    """Rows of homogeneous units with |w| = 1; others may not grow beyond twice their length, or 1, in one step."""
    dim = rows.shape[1] - point.biases
    lengths = np.maximum(np.linalg.norm(rows[:, :dim], axis=1), 1e-300)
    if point.activation.degree is not None:
        return np.asarray(rows / lengths[:, None])
    room = 2.0 * np.maximum(1.0, np.linalg.norm(before[:, :dim], axis=1))
    return np.asarray(rows * np.minimum(1.0, room / lengths)[:, None])


def _reduce(sums: NewUnitSums, others: LinearisedNetwork, rows: Array, ridge: float) -> tuple[float, _ReducedSystem]:
    point, (K, p) = others.point, rows.shape
    m = point.coefficients.shape[1]
    pulled = score_vector(Step(sums.gram, sums.rest, sums.loss, sums.loss), point)
    features = readout_columns(sums.cross[:, :K], point, np.eye(m))
    solved = others.curvature.solve(np.column_stack([pulled, features]))
    shift, back = solved[:, 0], solved[:, 1:]
    left = float(sums.loss) - float(pulled @ shift)
    gram = np.kron(sums.gram[:K, :K], np.eye(m)) - features.T @ back
    _add_ridge(gram, ridge, np.repeat(sums.gram[:K, :K].diagonal(), m))
    moment = sums.moment[:K].ravel() - features.T @ shift
    readouts = solve_spd(gram, moment)
    loss = left - float(moment @ readouts)
    if not np.isfinite(loss):  # units that overflow explain nothing
        loss, readouts = left, np.zeros(K * m)
    A = readouts.reshape(K, m)
    slopes = row_columns(sums.cross[:, K:].reshape(-1, K, p), point, A)
    own = sums.gram[K:, K:].reshape(K, p, K, p) * (A @ A.T)[:, None, :, None]
    weights = own.reshape(K * p, K * p).diagonal()
    matrix = own.reshape(K * p, K * p) - slopes.T @ others.curvature.solve(slopes)
    _add_ridge(matrix, ridge, weights)
    mixed = np.einsum("ilb,lo->iolb", sums.gram[:K, K:].reshape(K, K, p), A).reshape(K * m, K * p) - back.T @ slopes
    gradient = np.einsum("ibo,io->ib", sums.moment[K:].reshape(K, p, m), A).ravel() - slopes.T @ shift - mixed.T @ readouts
    matrix -= mixed.T @ solve_spd(gram, mixed)
    return max(loss, 0.0), _ReducedSystem(rows, A, matrix, gradient)


def _add_ridge(matrix: Array, share: float, weights: Array) -> None:
    """Add a share of these weights to the diagonal."""
    matrix[np.diag_indices(len(matrix))] += share * weights


def readout_columns(cross: Array, point: Point, outputs: Array) -> Array:
    """Jᵀ times features (columns of `cross` = Zᵀφ) that enter each output by itself: (P, K·m)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    A, K = point.coefficients[:k], cross.shape[1]
    rows = np.einsum("jo,jai->jaio", A, cross[q:].reshape(k, p, K)).reshape(k * p, K * m)
    rest = np.einsum("fi,eo->feio", cross[:q], outputs).reshape(q * m, K * m)
    return np.vstack([rows, rest])


def row_columns(cross: Array, point: Point, readouts: Array) -> Array:
    """Jᵀ times the derivatives in the rows, `cross` (q + k·p, K, p), of units with these readouts: (P, K·p)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    K = len(readouts)
    rows = np.einsum("ji,jaib->jaib", point.coefficients[:k] @ readouts.T, cross[q:].reshape(k, p, K, p)).reshape(k * p, K * p)
    rest = np.einsum("io,fib->foib", readouts, cross[:q]).reshape(q * m, K * p)
    return np.vstack([rows, rest])


def settle_candidates(
    scorer: BatchScorer, places: Sequence[NewUnits], effort: Effort, scored: Sequence[ScoredPlace] | None = None
) -> list[WidenedFit]:
    """New units moved from each of the places to where they explain most; one pass per step for all. `scored`: the places'
    scores, if known."""
    source = scorer.source
    runs: list[_Descent] = [
        damped_steps(LinearisedStep(place.others), place.rows, FitScale(float(source.size), source.size), effort=effort)
        for place in places]
    asked, ended = {i: next(run) for i, run in enumerate(runs)}, dict[int, WidenedFit]()
    while asked:
        scored = scored or scorer.score([NewUnits(rows, places[i].others) for i, rows in asked.items()])
        for i, place in zip(tuple(asked), scored, strict=True):
            try:
                asked[i] = runs[i].send(place)
            except StopIteration as end:
                ended[i] = scorer.widened_fit(places[i].others, end.value)
                del asked[i]
            except InvalidInput:
                ended[i] = scorer.no_fit(places[i])
                del asked[i]
        scored = None
    return [ended[i] for i in range(len(places))]


def predicted_gains(scorer: BatchScorer, places: Sequence[NewUnits], scored: Sequence[ScoredPlace]) -> list[WidenedFit]:
    """Each place with its loss less the gain that the quadratic model of a step predicts."""
    found = []
    for place, here in zip(places, scored, strict=True):
        if not np.isfinite(here.loss):
            found.append(scorer.no_fit(place))
            continue
        rule = LinearisedStep(place.others)
        found.append(scorer.widened_fit(place.others, here, max(0.0, rule.trial(rule.system(here), Effort().damping).predicted)))
    return found


@dataclass(frozen=True, eq=False)
class _ResidualisedStatistic(InPrecision):
    """(x, y) -> Gram matrix of the functions by which new units change the outputs (K·m by readouts, K·p by rows), each less Jδ
    with its δ in `back`; its product with R; R²."""

    point: Point
    rows: Array
    readouts: Array
    back: Array  # (m, q + k·p, K·m + K·p): Jδ of an output is Z times that
    scale: float
    dtype: Precision

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients) + self.rows.size) + int(self.back.shape[2])

    def __call__(self, x: Array, y: Array) -> Sums:
        Z, N, R = design_matrices(self.point, self.rows, self.scale, x, y, self.dtype)
        (K, p), m, count = self.rows.shape, R.shape[1], self.back.shape[2]
        gram, moment = np.zeros((count, count)), np.zeros(count)
        readouts = self.readouts.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            for o in range(m):
                M = Z @ -self.back[o].astype(self.dtype, copy=False)
                M[:, o : K * m : m] += N[:, :K]
                M[:, K * m :] += (N[:, K:].reshape(-1, K, p) * readouts[:, o, None]).reshape(-1, K * p)
                gram += inner(M, M)
                moment += inner(M, R[:, o])
            return gram, moment, np.asarray(np.einsum("no,no->", R, R, dtype=np.float64))


class CandidateUnit(NamedTuple):
    """New units, rows (K, p) and readouts (K, m), the unit that they replace, if any, and the gain on all rows by them and their
    next step, in squares of the scorer's `scale`."""

    rows: Array
    readouts: Array
    left_out: int | None = None
    gain: float = 0.0

    @property
    def parameters(self) -> int:
        return int(self.rows.size + self.readouts.size)


def confirm_on_all_rows(
    some: BatchScorer, every: BatchScorer, whole: LinearisedNetwork, tried: Sequence[CandidateUnit]
) -> list[CandidateUnit]:
    """Candidates after a step on all rows, with their gains there; one pass over some rows and one over all.

    How the other units move is taken from some rows, where JᵀJ is known: with n₁ of them for P parameters, the rest of the new
    functions is too large by about n₁ / (n₁ - P), and the gain too small by that. To first order a refit gains no less.
    """
    point, rows, readouts = some.point, np.vstack([one.rows for one in tried]), np.vstack([one.readouts for one in tried])
    (k, p), (q, m), K = point.units.shape, point.coefficients.shape, len(rows)
    sums = NewUnitSums(*some.source.sum(NewUnitStatistic(point, rows, (), some.scale, some.dtype), stage="certificate"))
    cross = np.hstack([
        readout_columns(sums.cross[:, :K], point, np.eye(m)),
        row_columns(sums.cross[:, K:].reshape(-1, K, p), point, readouts)])
    follow = whole.curvature.solve(cross)
    count = follow.shape[1]
    hidden, linear = follow[: k * p].reshape(k, p, count), follow[k * p :].reshape(q, m, count)
    back = np.stack([
        np.vstack([linear[:, o], (hidden * point.coefficients[:k, o, None, None]).reshape(k * p, count)]) for o in range(m)])
    statistic = _ResidualisedStatistic(point, rows, readouts, back, every.scale, every.dtype)
    gram, moment, _ = every.source.sum(statistic, stage="certificate")
    _add_ridge(gram, RIDGE[every.dtype], gram.diagonal().copy())
    own = np.split(np.arange(K), np.cumsum([len(one.rows) for one in tried])[:-1])
    return [_take_step(one, gram, moment, rows_of_one, K, point) for one, rows_of_one in zip(tried, own, strict=True)]


def _take_step(one: CandidateUnit, gram: Array, moment: Array, own: Array, count: int, point: Point) -> CandidateUnit:
    """A candidate after the step of a regression on its own columns among those of `count` new rows."""
    (K, p), m = one.rows.shape, one.readouts.shape[1]
    columns = np.concatenate([(own[:, None] * m + np.arange(m)).ravel(), (count * m + own[:, None] * p + np.arange(p)).ravel()])
    step = solve_spd(gram[np.ix_(columns, columns)], moment[columns])
    gain = float(moment[columns] @ step)
    if not gain > 0.0:  # NaN where units overflow: these explain nothing
        return one._replace(gain=0.0)
    move, readouts = step[K * m :].reshape(K, p), step[: K * m].reshape(K, m)  # R is what is left without any new unit
    degree = point.activation.degree
    if degree is None:
        return CandidateUnit(limit_row_lengths(one.rows + move, one.rows, point), readouts, one.left_out, gain)
    along = np.einsum("kp,kp->k", move, one.rows)[:, None] / np.maximum(np.sum(one.rows**2, axis=1), 1e-300)[:, None]
    rows = one.rows + move - along * one.rows  # along itself a row only makes the readout larger
    lengths = np.linalg.norm(rows[:, : p - point.biases], axis=1)[:, None]
    readouts = (readouts + degree * along * one.readouts) * lengths**degree
    return CandidateUnit(limit_row_lengths(rows, one.rows, point), readouts, one.left_out, gain)
