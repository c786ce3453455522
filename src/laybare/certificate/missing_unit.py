"""Is a unit missing? Where one may be, what it would gain there, and whether that exceeds its penalty (`evidence`).

Candidates begin at the random units that explain most of the residual, at the found units split in two, at the rows with the
largest residuals if rows are few, and along the direction in which the residual of all rows bends most if they are many. They are
moved beside the others, linearised (`linearised_fit`). What the search rows find all rows confirm, and a promising network is
refitted with all units.

*Bending.* What a unit w adds beyond a line is curved along w: on white inputs the residual r has the moment

    M = Σ_n r_n z_n z_nᵀ ≈ n a c₂ w̃ w̃ᵀ

with w̃ the part of w that the found units cannot follow, and noise of size 2σ√(d n) in every eigenvalue. Its leading eigenvector
is a start from all rows, for one cheap pass: on fewer rows small units drown in noise.

*Splits.* Two units close to each other look like one between them, but for their second difference: a unit split into w + δv and
w - δv, half the readout each, changes the output by ½ δ² a act''(u) (v·x̃)². The change follows the residual most along the
leading eigenvector of

    M = Σ_n (r_n · a) act''(u_n) x̃_n x̃_nᵀ

where act'' is a narrow bell at the kinks if the activation has any. One pass for all units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import repeat
from typing import NamedTuple

import numpy as np

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.evidence import RobustGain, bic_penalty_per_unit, log_likelihood_gain, refit_effort, robust_gain
from laybare.certificate.fitted_network import FittedNetwork
from laybare.certificate.linearised_fit import (
    BatchScorer,
    CandidateUnit,
    LinearisedNetwork,
    NewUnits,
    WidenedFit,
    confirm_on_all_rows,
    gauged_information,
    linearise_without,
    predicted_gains,
    settle_candidates,
)
from laybare.numerics.levels import TINY
from laybare.numerics.linear_algebra import Precision
from laybare.numerics.shapes import Array, Sums
from laybare.solver.normal import InPrecision, outputs_of, pre_activations, with_ones
from laybare.solver.point import Point, add_units, keep_units, outputs_at, parameters_per_unit
from laybare.source import Source
from laybare.source.problem import prefix_or_all
from laybare.source.sums import balance_two_blocks
from laybare.source.views import RowsInMemory, map_blocks


@dataclass(frozen=True, kw_only=True)
class MissingUnitOptions:
    """Where candidates begin, and how far they are followed."""

    new_unit_starts: int = 2  # Random units; one fewer where search rows are not all. Checked by `laybare reproduce hostile`.
    split_starts: int = 3  # Likeliest splits; one fewer beyond `max_rows_by_residual`. Checked by `laybare reproduce hostile`.
    residual_starts: int = 2  # Units at the rows with the largest residuals, ... Checked by `laybare reproduce hostile`.
    residual_start_share: float = 0.7
    """... which begin at this share of the row's length, ... Checked by `laybare reproduce hostile`."""
    max_rows_by_residual: int = 5000  # ... up to this number of rows. Checked by `laybare reproduce hostile`.
    curvature_starts: int = 1
    """Directions in which the residual of all rows bends most. Checked by
    `pytest -m slow tests/certificate/test_linearised_fit.py`."""
    followed_starts: int = 1
    """Starts on search rows that are followed: those with the largest predicted gain. Checked by
    `pytest -m slow tests/certificate/test_linearised_fit.py`."""
    first_steps: int = 4
    """Steps from every start before the best goes on: most of a unit's gain. Checked by `laybare reproduce hostile`."""
    steps_on_search_rows: int = 2
    """The same where all rows confirm later. Checked by `pytest -m slow tests/certificate/test_linearised_fit.py`."""
    refit_share: float = 0.5
    """Share of the penalty from which a candidate is refitted with all units. Checked by `laybare reproduce hostile`."""
    prescreen_divisor: int = 6
    """Share of the rows that tells whether a candidate is more than noise. Derived: a unit of 52 parameters that is just visible
    in 100,000 rows gains 150 residual variances there beside the 52 of noise, 4 standard deviations above the limit of 93."""
    min_prescreen_rows: int = 16_384  # Checked by `pytest -m slow tests/certificate/test_linearised_fit.py`.
    kink_bell_width: float = 0.5
    """Width of the bell that stands for act'' at a kink, in standard deviations of white inputs. Checked by
    `laybare reproduce hostile`."""
    split_distance: float = 0.4
    """δ: half the distance of the two halves, relative to the row. Checked by `laybare reproduce hostile`."""
    min_row_length: float = 1e-30  # Convention: keeps a division by the length of a row finite, in single precision too.


MISSING = MissingUnitOptions()


class MissingUnit(NamedTuple):
    """What another unit gains over noise of its local size, the robust twin of that, and the network with it if it gains much."""

    gain: float = 0.0
    weighted: float = 0.0
    point: Point | None = None


def find_missing_unit(fitted: FittedNetwork, units: Array, gram: Array | None) -> MissingUnit:
    """Another unit: a few steps from the likeliest splits and from the first of `units` (rows w, b), then the best.

    `gram` is that of a step at the fit: the others are linearised with it. Without `gram`: five short refits and a long one.
    """
    penalty = bic_penalty_per_unit(fitted)
    units = units[: MISSING.new_unit_starts - (fitted.search_rows is not fitted.used)]
    if fitted.exact or fitted.equations <= fitted.unknowns + parameters_per_unit(fitted.point):
        return MissingUnit()
    best = _best_refit(fitted, units, RULES.clear_unit_gain * penalty) if gram is None else (
        _best_beside_linearised(fitted, units, gram, MISSING.refit_share * penalty))
    value = max(0.0, log_likelihood_gain(fitted, float(fitted.fit.loss), best.loss, wider=1))
    gain = _robust_gain_of(fitted, best) if value >= penalty else RobustGain(0.0, 1.0)
    refitted = value >= MISSING.refit_share * penalty
    return MissingUnit(value / gain.noise_factor, gain.weighted, best.point if refitted else None)


def one_unit_more_claim(fitted: FittedNetwork, found: MissingUnit, design_effect: float = 1.0) -> Claim:
    """That no unit is missing. Dependent rows count as fewer, by the `design_effect`. Beside a linear part the limit is lower:
    two units that are nearly opposite look like one."""
    penalty, value = bic_penalty_per_unit(fitted), found.gain / design_effect
    allowed = penalty * (RULES.suspicious_unit_gain if fitted.point.linear else 1.0)
    clear = RULES.clear_unit_gain * penalty
    return Claim(
        ClaimName.ONE_UNIT_MORE, value, allowed, value < allowed, "tested",
        "how much more likely another unit makes the used samples, against what its free parameters would gain from noise; more "
        f"than the threshold means that a unit may be missing, more than {clear:.3g} that one is.",
        decisive=min(value, found.weighted / design_effect) >= clear)


def starting_points(fitted: FittedNetwork, units: Array) -> list[Point]:
    """The network with a candidate, last among its units: the likeliest splits, then `units`, then those at large residuals."""
    likely = likely_splits(fitted.search_rows, fitted.point, float(np.sqrt(fitted.noise_variance)), fitted.precision)
    few = fitted.used.size <= MISSING.max_rows_by_residual
    nothing = np.zeros((1, fitted.used.outputs))
    new = [*units, *_units_at_largest_residuals(fitted)]
    splits = MISSING.split_starts if few else MISSING.split_starts - 1
    further = (add_units(fitted.point, row[None], nothing) for row in new)
    return [*(split_unit(fitted.point, split) for split in likely[:splits]), *further]


def _units_at_largest_residuals(fitted: FittedNetwork) -> list[Array]:
    """Units that are active only around the rows with the largest residuals: among few rows a rare unit shows on one or two."""
    point = fitted.point
    if fitted.used.size > MISSING.max_rows_by_residual or not point.biases or not point.width:
        return []
    x, left = (np.concatenate(part) for part in zip(*map_blocks(fitted.used, partial(_largest_residuals, point)), strict=True))
    dim = x.shape[1]
    steep = float(np.median(np.linalg.norm(point.units[:, :dim], axis=1)))
    lengths = np.maximum(np.linalg.norm(x, axis=1), TINY)
    chosen = np.argsort(-left, kind="stable")[: MISSING.residual_starts]
    return [steep * np.append(x[i] / lengths[i], -MISSING.residual_start_share * lengths[i]) for i in chosen]


def _largest_residuals(point: Point, x: Array, y: Array) -> Sums:
    """The rows of a block with the largest residuals, and their sizes."""
    left = np.abs(y - outputs_at(point, x)).max(axis=1)
    rows = np.argsort(-left, kind="stable")[: MISSING.residual_starts]
    return x[rows], left[rows]


def _best_beside_linearised(fitted: FittedNetwork, units: Array, gram: Array, min_gain: float) -> WidenedFit:
    """The best candidate, found on the search rows and confirmed on all; refitted with all units from `min_gain` on.

    `gram` is that of all rows; search rows that are not all have their own.
    """
    scale = float(np.sqrt(fitted.output_variance))
    point = fitted.point.moved(fitted.point.units, fitted.point.coefficients / scale)
    part, effort = fitted.search_rows, refit_effort(fitted)
    some, every = (BatchScorer(source, point, scale, fitted.precision) for source in (part, fitted.used))
    if part is not fitted.used:
        gram = fitted.gram_on_search_rows
    beside = cache(partial(linearise_without, gauged_information(gram, point), point))
    places = [_place_of_start(start, point, beside) for start in starting_points(fitted, units)]
    if part is fitted.used:
        tried = settle_candidates(some, places, replace(effort, max_steps=MISSING.first_steps))
        best, place = min(zip(tried, places, strict=True), key=lambda one: one[0].loss)
        (last,) = settle_candidates(some, [place._replace(rows=best.point.units[-len(place.rows) :])], effort)
    else:
        last = _search_and_confirm(fitted, some, every, places, beside(None))
    if log_likelihood_gain(fitted, float(fitted.fit.loss), last.loss, wider=1) < min_gain:
        return last
    refit = fitted.refit(last.point, effort)
    return WidenedFit(refit.point, refit.loss)


def _search_and_confirm(
    fitted: FittedNetwork, some: BatchScorer, every: BatchScorer, places: list[NewUnits], whole: LinearisedNetwork
) -> WidenedFit:
    """The best of the places on the search rows, and of the bending directions of all rows, by the prescreen rows; followed on
    all rows while that gains.

    A candidate that the prescreen rows do not tell from noise is not followed; its gain is what exceeds the mean of noise.
    """
    directions = curvature_directions(fitted.used, fitted.point, MISSING.curvature_starts, fitted.precision)
    curved = [NewUnits(row[None], whole) for row in directions]
    scored = some.score([*places, *curved])
    predicted = predicted_gains(some, [*places, *curved], scored)
    chosen = sorted(range(len(places)), key=lambda i: predicted[i].loss)[: MISSING.followed_starts]
    followed = [places[i] for i in chosen]
    effort = replace(refit_effort(fitted), max_steps=MISSING.steps_on_search_rows, damping_limit=1.0)
    tried = settle_candidates(some, followed, effort, [scored[i] for i in chosen])
    best, place = min(zip(tried, followed, strict=True), key=lambda one: one[0].loss)
    begun = [_candidate_of(best, place, some.scale), *map(_candidate_of, predicted[len(places) :], curved, repeat(some.scale))]
    prescreen, noise = replace(every, source=_prescreen_rows(fitted)), fitted.noise_variance / some.scale**2
    last = max(confirm_on_all_rows(some, prescreen, whole, begun), key=lambda one: one.gain - noise * one.parameters)
    if last.gain <= noise * (last.parameters + RULES.sigmas * float(np.sqrt(2.0 * last.parameters))):
        gain = max(0.0, last.gain - noise * last.parameters) * (fitted.used.size / prescreen.source.size)
        return _widened_fit(fitted, last, gain, some.scale)
    (last,) = confirm_on_all_rows(some, every, whole, [last])
    for _ in range(MISSING.first_steps):
        (further,) = confirm_on_all_rows(some, every, whole, [last])
        if further.gain <= last.gain:
            break
        last = further
    return _widened_fit(fitted, last, last.gain, some.scale)


def _prescreen_rows(fitted: FittedNetwork) -> Source:
    """Rows that tell candidates from noise: a part of those in memory, or all as they are read."""
    if not isinstance(fitted.used, RowsInMemory):
        return fitted.used
    rows = max(MISSING.min_prescreen_rows, fitted.used.size // MISSING.prescreen_divisor)
    return prefix_or_all(fitted.used, balance_two_blocks(rows))


def _widened_fit(fitted: FittedNetwork, new: CandidateUnit, gain: float, scale: float) -> WidenedFit:
    """The network with a candidate, and its loss after a gain in squares of `scale`."""
    others, readouts = fitted.point, scale * new.readouts
    if new.left_out is not None:
        others = keep_units(others, np.delete(np.arange(others.width), new.left_out))
    return WidenedFit(add_units(others, new.rows, readouts), max(0.0, float(fitted.fit.loss) - scale**2 * gain))


def _candidate_of(found: WidenedFit, place: NewUnits, scale: float) -> CandidateUnit:
    new = slice(found.point.width - len(place.rows), found.point.width)
    return CandidateUnit(found.point.units[new], found.point.coefficients[new] / scale, place.others.left_out)


def _place_of_start(start: Point, point: Point, beside: Callable[[int | None], LinearisedNetwork]) -> NewUnits:
    """The candidate of a start, and the unit that it splits, if any, beside the others."""
    moved = np.flatnonzero(np.any(start.units[:-1] != point.units, axis=1))
    return NewUnits(start.units[[*moved, -1]], beside(int(moved[0]) if len(moved) else None))


def _best_refit(fitted: FittedNetwork, units: Array, clear: float) -> WidenedFit:
    """The best fit with one unit more, all units refitted; the first that gains at least `clear`, if any."""
    best, loss = WidenedFit(fitted.point, float(fitted.fit.loss)), float(fitted.fit.loss)
    for start in starting_points(fitted, units):
        tried = fitted.refit(start, replace(refit_effort(fitted), max_steps=MISSING.first_steps))
        best = WidenedFit(tried.point, tried.loss) if tried.loss < best.loss else best
        if log_likelihood_gain(fitted, loss, best.loss, wider=1) >= clear:
            return best
    last = fitted.refit(best.point, refit_effort(fitted))
    return WidenedFit(last.point, last.loss)


def _robust_gain_of(fitted: FittedNetwork, wider: WidenedFit) -> RobustGain:
    """Robust gain of a wider fit."""
    rest = max(1, fitted.equations - fitted.unknowns - parameters_per_unit(fitted.point))
    return robust_gain(fitted.used, fitted.point, wider.point, max(wider.loss / rest, fitted.rounding_variance))


@dataclass(frozen=True, eq=False)
class _CurvatureStatistic(InPrecision):
    """(z, y) -> Σ r z zᵀ of every output, (m, d, d)."""

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


def curvature_directions(source: Source, point: Point, count: int, dtype: Precision = np.float64) -> Array:
    """Rows (w, b) of at most `count` units along which the residual of `point` bends most, of the median length of the found
    ones, without bias; one pass."""
    dim = point.units.shape[1] - point.biases
    (moments,) = source.sum(_CurvatureStatistic(point, dtype), stage="certificate")
    values, vectors = np.linalg.eigh(moments)
    steep = float(np.median(np.linalg.norm(point.units[:, :dim], axis=1))) if point.width else 1.0
    strongest = np.argsort(-np.abs(values), axis=None, kind="stable")[:count]
    rows = steep * np.stack([vectors[o, :, i] for o, i in zip(*np.unravel_index(strongest, values.shape), strict=True)])
    return np.column_stack([rows, np.zeros(len(rows))]) if point.biases else rows


class UnitSplit(NamedTuple):
    """A unit, the direction of the split, and the standard deviations by which it exceeds chance."""

    unit: int
    direction: Array
    sigmas: float


@dataclass(frozen=True, eq=False)
class _SplitStatistic(InPrecision):
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
        weights = (r @ a.T).astype(self.dtype, copy=False) * _second_derivatives(point, U)
        squares = np.einsum("na,na->n", X1, X1) / X1.shape[1]
        bends = np.stack([(X1 * w[:, None]).T @ X1 for w in weights.T])
        return bends.astype(np.float64, copy=False), np.einsum("nk,n->k", weights**2, squares**2, dtype=np.float64)


def _second_derivatives(point: Point, u: Array) -> Array:
    """act'' of every unit; a bell at each kink, in the unit's own scale, for activations that have any."""
    if not point.activation.kinks:
        return np.asarray(point.activation.second_derivative(u)).astype(u.dtype, copy=False)
    dim = point.units.shape[1] - point.biases
    lengths = np.maximum(np.linalg.norm(point.units[:, :dim], axis=1), MISSING.min_row_length)
    scale = (MISSING.kink_bell_width * lengths).astype(u.dtype)
    return np.asarray(sum(np.exp(-0.5 * ((u - kink) / scale) ** 2) for kink in point.activation.kinks))


def likely_splits(source: Source, point: Point, sigma: float, dtype: Precision = np.float64) -> list[UnitSplit]:
    """The best split of every unit, the likeliest first; `sigma` is the size of the residual. One pass."""
    if not point.width:
        return []
    bends, spread = source.sum(_SplitStatistic(point, sigma, dtype), stage="certificate")
    best = (_best_split(point, i, M, s) for i, (M, s) in enumerate(zip(bends, spread, strict=True)))
    return sorted(best, key=lambda one: -one.sigmas)


def _best_split(point: Point, unit: int, bend: Array, variance: float) -> UnitSplit:
    row = point.units[unit] / max(float(np.linalg.norm(point.units[unit])), 1e-300)
    across = np.eye(len(row)) - np.outer(row, row) if point.activation.degree is not None else np.eye(len(row))
    values, vectors = np.linalg.eigh(across @ bend @ across)
    return UnitSplit(unit, vectors[:, -1], float(values[-1]) / float(np.sqrt(max(3.0 * variance, 1e-300))))


def split_unit(point: Point, split: UnitSplit) -> Point:
    """The point with that unit in two, half the readout each; the new one stands last among the units."""
    k, move = point.width, MISSING.split_distance * float(np.linalg.norm(point.units[split.unit])) * split.direction
    units = np.vstack([point.units, point.units[split.unit] - move])
    units[split.unit] += move
    coefficients = np.insert(point.coefficients, k, point.coefficients[split.unit], axis=0)
    coefficients[[split.unit, k]] *= 0.5
    return point.moved(units, coefficients)
