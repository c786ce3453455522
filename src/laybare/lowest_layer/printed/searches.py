"""The paper's searches for units: RefineEstimate by the angle (section 2), and directions in which f jumps (section 3).

RefineEstimate as printed: random search for a direction at a smaller angle α to a unit, estimated from the activity. The
perturbation has the standard deviation α/d in every direction normal to z, as in Lemma 7 and its proof: its length is about α/√d,
what it gains towards the unit is of the order of α/d, and so is what its length costs (|ρ|²/2α ≈ α/2d). About a quarter of the
trials help in every dimension. With α/√d for each direction the cost is α/2, and hardly any trial helps once d is 20. Line 4 of
Algorithm 1 accepts a perturbed direction if α' ≤ O(α/d), which no small perturbation achieves; its proof shows a decrease by
Ω(α/d), so the test here is α' ≤ (1 - c/d) α. One unit at a time, one pass per trial, O(d log 1/ε) trials; the angle is only known
to the accuracy of the estimate. Fitting all units at once (`union_fit`) is faster and more accurate.

Source: Goel and Panigrahy (2019), Algorithms 1 and 2, Theorems 2 and 5, Lemmas 3 to 7.

Directions in which f jumps have correlations with Dirac's delta and its derivatives:

    C₁(z, s) = E[f δ(z·x - s)] = φ(s) E[f | z·x = s]
    C₂ = C₁(z, t + ε) - C₁(z, t - ε)  → φ(t) E[∂P/∂X_i | w_i·x = t]  at z = w_i for step units, 0 away from all units
    C₃ = jump of C₁' at t             → the same at z = w_i for ReLU units (Lemma 19 adds two terms that cancel)

From samples δ is a slab of width ε (`slab_correlations`), or a Gaussian of width ε, which is smooth in z. Then

    J(z, t) = E[f κ(v)] / (φ(t) ε^l),  v = (z·x - t)/ε,  κ = v e^{-v²/2} (l = 1, steps) or (v² - 1) e^{-v²/2} (l = 2, ReLU)

is the jump E[∂P/∂X_i | w_i·x = t] at a unit, and of the order of ε away from all. Without the density below it (as C₂ and C₃
have it) the ascent in t walks towards the origin, where more rows are.

Width. The curvature of J in the angle is of the order of 1/ε², the slopes that other units and a smooth part of f add do not grow
with 1/ε, so the angle is off by ε² or less from these; but a slab must hold rows, of which there are n φ(t) ε. So ascents begin
wide, where basins are, and end with the smallest width at which a slab holds 400 rows (ReLU, whose noise grows faster as ε falls:
0.8 times the cube root of it). Polynomially many samples suffice without any linear term in P; the search itself, for which the
paper has no algorithm (it tests all directions), is ascent from random directions.
Source: Goel and Panigrahy (2019), section 3, Theorems 3 and 6, Corollary 1, Lemma 8, Claims 3-5, appendix C, Lemmas 19 and 20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput, TooFewSamples
from laybare.lowest_layer.layer_start import PROFILE, Edge, Profile, measure_profile, probit_estimate, slab_estimate
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source
from laybare.theory.high_threshold_forms import density

Estimate = Callable[[Profile, int], Edge]

TRIALS_PER_DIMENSION = 6.0
"""Trials over d log 1/ε: a quarter succeed, each gains about 0.7/d of the angle. Checked by `laybare reproduce tan-alpha`."""


@runtime_checkable
class SpaceSearch(Protocol):
    """A way to refine half-spaces, unit by unit, by the activity of rows."""

    def __call__(self, activity: Source, start: HalfSpaces, *, rng: Generator) -> HalfSpaces: ...


class RefinedDirection(NamedTuple):
    """A direction (d,), its edge, the estimated tan of the angle after every accepted step, and the number of trials."""

    direction: Array
    edge: Edge
    tangents: tuple[float, ...]
    trials: int


@dataclass(frozen=True, kw_only=True)
class TrialRules:
    """When a trial is accepted, and when trials end."""

    max_trials: int | None = None
    """None: as many as `accuracy` takes."""
    decrease: float = 0.1
    """c in α' ≤ (1 - c/d) α. Checked by `laybare reproduce tan-alpha`."""
    accuracy: float = 0.01
    """Estimated angle, in radians, at which trials end. Convention: what estimates from some 10,000 active rows resolve."""


def trial_limit(dim: int, accuracy: float) -> int:
    """O(d log 1/ε), Theorem 5."""
    return ceil(TRIALS_PER_DIMENSION * dim * log(1.0 / accuracy))


def refine_estimate(
    activity: Source, direction: Array, rules: TrialRules = TrialRules(), *, estimate: Estimate = slab_estimate, rng: Generator
) -> RefinedDirection:
    """Algorithm 1 from `direction` (unit vector): perturb normally to it by N(0, (α/d)²), accept α' ≤ (1 - decrease/d) α."""
    dim = len(direction)
    limit = trial_limit(dim, rules.accuracy) if rules.max_trials is None else rules.max_trials
    edge = estimate(measure_profile(activity, direction[None]), 0)
    tangents, trials = [edge.tangent], 0
    while trials < limit and edge.tangent > np.tan(rules.accuracy):
        trials += 1
        moved = _perturb(direction, np.arctan(edge.tangent) / dim, rng)
        try:
            trial = estimate(measure_profile(activity, moved[None]), 0)
        except TooFewSamples:
            continue
        if np.arctan(trial.tangent) <= (1.0 - rules.decrease / dim) * np.arctan(edge.tangent):
            direction, edge = moved, trial
            tangents.append(edge.tangent)
    return RefinedDirection(direction, edge, tuple(tangents), trials)


@dataclass(frozen=True, kw_only=True)
class RandomSearch:
    """The printed refinement of a whole layer: `refine_estimate` for every unit, until the estimated angle is `accuracy` (rad) or
    the trials that this takes are used up; `probit` replaces the printed estimate of the angle."""

    accuracy: float = 0.01
    probit: bool = False

    def __call__(self, activity: Source, start: HalfSpaces, *, rng: Generator) -> HalfSpaces:
        """The refined half-spaces; a unit along which no slab is active enough stays as it was."""
        weights, thresholds = start.weights.copy(), start.thresholds.copy()
        estimate: Estimate = probit_estimate if self.probit else slab_estimate
        for i, direction in enumerate(start.weights):
            try:
                found = refine_estimate(activity, direction, TrialRules(accuracy=self.accuracy), estimate=estimate, rng=rng)
            except TooFewSamples:
                continue
            weights[i], thresholds[i] = found.direction, found.edge.threshold
        return HalfSpaces(weights, thresholds)


def _perturb(direction: Array, size: float, rng: Generator) -> Array:
    aside = rng.standard_normal(len(direction))
    aside -= (aside @ direction) * direction
    moved = direction + size * aside
    return np.asarray(moved / np.linalg.norm(moved))


class SlabCorrelations(NamedTuple):
    """C₁, C₂ and C₃ at (z, t), by finite differences with step ε."""

    first: float
    second: float
    third: float


def slab_correlations(source: Source, z: Array, threshold: float, step: float, baseline: float = 0.0) -> SlabCorrelations:
    """Delta as a slab of width ε: C₁ around t, C₂ between t ± ε, C₃ from slopes on both sides; one pass, one output."""
    if not 0 < step < (PROFILE.high - PROFILE.low) / 4:
        raise InvalidInput(f"The step is {step}.", "It is the width of a slab.", "Give a small positive number.", step=step)
    edges = threshold + step * np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    (total,) = source.sum(lambda x, y: (np.histogram(x @ z, bins=edges, weights=y[:, 0] - baseline)[0],), stage="slabs")
    far_below, below, at, above, far_above = (float(part) / (source.size * step) for part in total)
    return SlabCorrelations(at, above - below, ((far_above - above) - (below - far_below)) / step)


@dataclass(frozen=True, kw_only=True)
class DeltaOptions:
    """How ascents of the correlation run."""

    first_width: float = 0.4
    """Width of the kernel at the beginning. Checked by `pytest tests/lowest_layer/test_jumps.py`."""
    shrink: float = 1.7
    """Factor by which it falls. Checked by `pytest tests/lowest_layer/test_jumps.py`."""
    rows_in_slab: float = 400.0
    """Rows that the last slab holds. Derived: their mean is known to a twentieth of their spread."""
    least_width: float = 0.01
    """No width below it. Convention: angles below a hundredth are the fit's to find."""
    max_steps: int = 15
    """Steps at every width. Checked by `pytest tests/lowest_layer/test_jumps.py`."""
    max_threshold: float = 3.0
    """Ascents that come to it have lost their rows. Derived: one row in 740 lies beyond."""
    same_cosine: float = 0.95
    """Places with a larger |cosine| are one. Convention: as for units elsewhere."""

    epsilon: float | None = None
    """Last width, in place of the one that the rows allow. Derived: from the number of rows if it is None."""

    def ending_at(self, epsilon: float | None) -> DeltaOptions:
        """The same with that last width."""
        return replace(self, epsilon=epsilon, first_width=self.first_width if epsilon is None else max(self.first_width, epsilon))

    def last_width(self, rows: int, thresholds: Array, order: int) -> Array:
        """The smallest width that the rows at these thresholds allow, (m,)."""
        if self.epsilon is not None:
            return np.full(len(thresholds), self.epsilon)
        slab = self.rows_in_slab / (rows * density(thresholds))
        width = slab if order == 1 else 0.8 * np.cbrt(slab)
        return np.clip(width, self.least_width, self.first_width)


ASCENT = DeltaOptions()


class Jumps(NamedTuple):
    """J at some places (m,), its gradients in z (m, d; tangent to the sphere) and in t (m,), its standard errors (m,)."""

    values: Array
    slopes: Array
    lifts: Array
    errors: Array


@dataclass(frozen=True, eq=False)
class _Kernels:
    """Statistic: Σ r κ, Σ r κ' x, Σ r κ', Σ r² κ² for every place."""

    spaces: HalfSpaces
    widths: Array
    order: int

    @property
    def row_floats(self) -> int:
        return 6 * len(self.widths)

    def __call__(self, x: Array, y: Array) -> Sums:
        v = self.spaces.margins(x) / self.widths
        square = v * v
        bell = y * np.exp(-square / 2)
        value, slope = (v * bell, (1 - square) * bell) if self.order == 1 else ((square - 1) * bell, v * (3 - square) * bell)
        return value.sum(axis=0), slope.T @ x, slope.sum(axis=0), np.sum(value**2, axis=0)


def measure_jumps(source: Source, spaces: HalfSpaces, widths: Array, *, order: int = 1) -> Jumps:
    """J at every place, `widths` (m,); one pass, one output. Order 1 for step units, 2 for ReLU."""
    value, slope, level, squares = source.sum(_Kernels(spaces, widths, order), stage="correlation")
    scale = 1.0 / (source.size * density(spaces.thresholds) * widths**order)
    gradient = (scale / widths)[:, None] * slope
    tangent = gradient - np.sum(gradient * spaces.weights, axis=1, keepdims=True) * spaces.weights
    jump = scale * value
    return Jumps(jump, tangent, spaces.thresholds * jump - scale / widths * level, scale * np.sqrt(squares))


class JumpPlaces(NamedTuple):
    """Places where ascents ended, their jumps and the standard errors of these (at most), (m,)."""

    spaces: HalfSpaces
    jumps: Array
    errors: Array

    @property
    def scores(self) -> Array:
        """|jump| over its standard error; 0 where hardly a row is."""
        seen = (self.errors > 0) & (np.abs(self.spaces.thresholds) < ASCENT.max_threshold)
        return np.asarray(np.where(seen, np.abs(self.jumps) / np.maximum(self.errors, 1e-300), 0.0))

    def chosen(self, index: Array) -> JumpPlaces:
        """Some of them."""
        spaces = HalfSpaces(self.spaces.weights[index], self.spaces.thresholds[index])
        return JumpPlaces(spaces, self.jumps[index], self.errors[index])

    def distinct(self, limit: float = ASCENT.same_cosine) -> JumpPlaces:
        """One of every direction, best score first."""
        kept: list[int] = []
        for i in np.argsort(-self.scores):
            if all(abs(float(self.spaces.weights[i] @ self.spaces.weights[j])) < limit for j in kept):
                kept.append(int(i))
        return self.chosen(np.array(kept, dtype=int))


def ascend_jumps(
    source: Source, start: HalfSpaces, *, order: int = 1, free: bool = True, merge: bool = False,
    options: DeltaOptions = ASCENT,
) -> JumpPlaces:
    """Ascents of |J| from every place of `start`, all together, the width falling from the first to what n allows.

    `free` moves thresholds too; else they stay, as where the paper has them known, and jumps are upwards. `merge` goes on with
    one of every direction after each width.
    """
    spaces, widths = start, np.full(len(start.thresholds), options.first_width)
    while True:
        spaces, at = _climb(source, spaces, widths, order, free, options)
        places = _without_smooth_part(source, spaces, widths, order, at)
        last = options.last_width(source.size, spaces.thresholds, order)
        if (widths <= 1.01 * last).all():
            return places
        if merge:
            places = places.distinct(options.same_cosine)
            spaces, widths = places.spaces, widths[: len(places.jumps)]
            last = options.last_width(source.size, spaces.thresholds, order)
        widths = np.minimum(widths, np.maximum(widths / options.shrink, last))


def _without_smooth_part(source: Source, spaces: HalfSpaces, widths: Array, order: int, at: Jumps) -> JumpPlaces:
    """2J(ε/2) - J(ε) for J(ε): a jump stays as it is, and what a smooth profile adds, which is proportional to ε, goes.

    J(ε) itself for bends, whose noise at half the width would hide them.
    """
    if order == 2:
        return JumpPlaces(spaces, at.values, at.errors)
    half = measure_jumps(source, spaces, widths / 2, order=order)
    return JumpPlaces(spaces, 2 * half.values - at.values, np.hypot(2 * half.errors, at.errors))


def _climb(
    source: Source, spaces: HalfSpaces, widths: Array, order: int, free: bool, options: DeltaOptions
) -> tuple[HalfSpaces, Jumps]:
    """Gradient ascent at one width with a step length for every place, doubled or halved."""
    at = measure_jumps(source, spaces, widths, order=order)
    turn, lengths = np.where((at.values < 0) & free, -1.0, 1.0), widths / 2
    for _ in range(options.max_steps):
        lifts = turn * at.lifts if free else np.zeros_like(at.lifts)
        sizes = np.maximum(np.hypot(np.linalg.norm(at.slopes, axis=1), lifts), 1e-300)
        moved = spaces.weights + (turn * lengths / sizes)[:, None] * at.slopes
        raised = np.clip(spaces.thresholds + lengths * lifts / sizes, -options.max_threshold, options.max_threshold)
        trial = HalfSpaces(moved / np.linalg.norm(moved, axis=1, keepdims=True), raised)
        there = measure_jumps(source, trial, widths, order=order)
        better = turn * there.values > turn * at.values
        spaces = HalfSpaces(
            np.where(better[:, None], trial.weights, spaces.weights), np.where(better, trial.thresholds, spaces.thresholds))
        at = Jumps(*(np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old) for new, old in zip(there, at, strict=True)))
        lengths = np.where(better, 1.5, 0.5) * lengths
        if (lengths < 1e-3 * widths).all():
            break
    return spaces, at


@dataclass(frozen=True, kw_only=True)
class DeltaAscent:
    """The search of section 3 for a whole layer: ascent of the correlation with δ' from every unit of a start.

    Works on the activity of rows, a polynomial of step units; local, so the start has to be near. Thresholds stay until the last
    width, as the paper has them known. The width of the kernel falls
    from `options.first_width` to what the rows allow, or to `epsilon`.
    """

    epsilon: float | None = None
    options: DeltaOptions = ASCENT

    def __call__(self, activity: Source, start: HalfSpaces, *, rng: Generator) -> HalfSpaces:
        """The half-spaces at which the ascents end."""
        options = self.options.ending_at(self.epsilon)
        near = ascend_jumps(activity, start, free=False, options=options).spaces
        narrow = replace(options, first_width=float(options.last_width(activity.size, near.thresholds, 1).max()))
        return ascend_jumps(activity, near, options=narrow).spaces


@dataclass(frozen=True, kw_only=True)
class DeltaSearch:
    """Section 3 by itself: no linear term in P, no high threshold, no start. Ascents from `starts` random directions.

    Of 8 networks of three ReLU units in dimension 5 (P = X₁X₂ + X₂X₃ + X₁X₃, t = 0.5, 100,000 rows) all units are found in 3 from
    24 starts and in 8 from 96; of steps in 12 of 12 from either (20,000 rows). Measured: `pytest -m slow
    tests/lowest_layer/test_jumps.py`.

    The best `width` of the distinct places where they end are the units: Theorem 6 tells them from other places by the size of
    the correlation, which is bounded there. δ' for steps, δ'' for ReLU (appendix C.1). A known threshold stays as it is. The
    width of the delta falls to `epsilon`, None: to what the rows allow.
    """

    starts: int = 96
    epsilon: float | None = None
    options: DeltaOptions = ASCENT

    def __call__(self, source: Source, width: int, order: int, threshold: float | None, *, rng: Generator) -> JumpPlaces:
        """The places of the largest jumps; `source` is white and has one output."""
        start = random_places(source.dim, self.starts, threshold, rng)
        options = self.options.ending_at(self.epsilon)
        found = ascend_jumps(source, start, order=order, free=threshold is None, merge=True, options=options).distinct()
        if len(found.jumps) < width:
            raise TooFewSamples(
                f"{self.starts} ascents ended at {len(found.jumps)} directions for width {width}.",
                "Every unit is a maximum of the correlation with the derivative of delta, and one ascent finds one.",
                "Give DeltaSearch(starts=...) more of them, or more samples.", width=width, found=len(found.jumps))
        best = found.chosen(np.arange(width))
        turn = np.where(best.jumps < 0, -1.0, 1.0) if threshold is None else np.ones(width)
        return best._replace(spaces=HalfSpaces(turn[:, None] * best.spaces.weights, turn * best.spaces.thresholds))


def random_places(dim: int, count: int, threshold: float | None, rng: Generator) -> HalfSpaces:
    """Random directions, with the threshold, or thresholds between 0 and 1.5."""
    z = rng.standard_normal((count, dim))
    t = rng.uniform(0.0, 1.5, count) if threshold is None else np.full(count, float(threshold))
    return HalfSpaces(z / np.linalg.norm(z, axis=1, keepdims=True), t)
