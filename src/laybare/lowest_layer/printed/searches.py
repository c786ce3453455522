"""Local searches of the paper that refine half-spaces: random search by the angle, and ascent of correlations with delta.

RefineEstimate as printed: random search for a direction at a smaller angle α to a unit, estimated from the activity. The
perturbation has the standard deviation α/d in every direction normal to z, as in Lemma 7 and its proof: its length is about α/√d,
what it gains towards the unit is of the order of α/d, and so is what its length costs (|ρ|²/2α ≈ α/2d). About a quarter of the
trials help in every dimension. With α/√d for each direction the cost is α/2, and hardly any trial helps once d is 20. Line 4 of
Algorithm 1 accepts a perturbed direction if α' ≤ O(α/d), which no small perturbation achieves; its proof shows a decrease by
Ω(α/d), so the test here is α' ≤ (1 - c/d) α. One unit at a time, one pass per trial, O(d log 1/ε) trials; the angle is only known
to the accuracy of the estimate. Fitting all units at once (`union_fit`) is faster and more accurate.

Correlations with Dirac's delta and its derivatives find directions in which f rises abruptly:

    C₁(z, s) = E[f δ(z·x - s)] = φ(s) E[f | z·x = s]
    C₂ = C₁(z, t + ε) - C₁(z, t - ε)  → φ(t) E[∂P/∂X_i | w_i·x = t]  at z = w_i for step units, 0 away from all units
    C₃ = jump of C₁' at t             → the same at z = w_i for ReLU units

From samples, δ is a slab of width ε (`slab_correlations`), or the derivative of a Gaussian of width ε, which is smooth in z
(`ascend_correlation`). Polynomially many samples suffice without any linear term in P, but the search is local. Lemma 19 adds two
terms that cancel.
Source: Goel and Panigrahy (2019), Algorithms 1 and 2, Theorems 2 and 5, Lemmas 3 to 7; section 3, Theorems 3 and 6, Corollary 1,
Lemma 8, Claims 3-5, appendix C, Lemmas 19 and 20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput, TooFewSamples
from laybare.lowest_layer.layer_start import PROFILE, Edge, Profile, measure_profile, probit_estimate, slab_estimate
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source

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


def trial_limit(dim: int, accuracy: float) -> int:
    """O(d log 1/ε), Theorem 5."""
    return ceil(TRIALS_PER_DIMENSION * dim * log(1.0 / accuracy))


def refine_estimate(
    activity: Source, direction: Array, *, estimate: Estimate = slab_estimate, max_trials: int | None = None,
    decrease: float = 0.1, accuracy: float = 0.01, rng: Generator,
) -> RefinedDirection:
    """Algorithm 1 from `direction` (unit vector): perturb normally to it by N(0, (α/d)²), accept α' ≤ (1 - decrease/d) α.

    Ends after `max_trials` trials (by default as many as `accuracy` takes), or at an estimated angle of `accuracy`.
    """
    dim = len(direction)
    limit = trial_limit(dim, accuracy) if max_trials is None else max_trials
    edge = estimate(measure_profile(activity, direction[None]), 0)
    tangents, trials = [edge.tangent], 0
    while trials < limit and edge.tangent > np.tan(accuracy):
        trials += 1
        moved = _perturb(direction, np.arctan(edge.tangent) / dim, rng)
        try:
            trial = estimate(measure_profile(activity, moved[None]), 0)
        except TooFewSamples:
            continue
        if np.arctan(trial.tangent) <= (1.0 - decrease / dim) * np.arctan(edge.tangent):
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
                found = refine_estimate(activity, direction, estimate=estimate, accuracy=self.accuracy, rng=rng)
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


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Statistic: Σ r κ(v), Σ r κ'(v) x, Σ r κ'(v) for v = (z·x - t)/ε; κ is v e^{-v²/2} (order 1) or (v² - 1) e^{-v²/2} (order
    2)."""

    z: Array
    threshold: float
    width: float
    order: int

    def __call__(self, x: Array, y: Array) -> Sums:
        r, v = y[:, 0], (x @ self.z - self.threshold) / self.width
        bell = np.exp(-(v**2) / 2)
        value = v * bell if self.order == 1 else (v**2 - 1) * bell
        slope = (1 - v**2) * bell if self.order == 1 else (3 * v - v**3) * bell
        return np.asarray(r @ value), x.T @ (r * slope), np.asarray(np.sum(r * slope))


class AscentResult(NamedTuple):
    """Direction, threshold and correlation where the ascent ended, and the number of steps."""

    direction: Array
    threshold: float
    value: float
    steps: int


def smooth_correlation(source: Source, z: Array, threshold: float, width: float, *, order: int = 1) -> tuple[float, Array, float]:
    """E[f κ((z·x - t)/ε)]/ε², its gradient in z (tangent to the sphere) and in t; order 1 for step units, 2 for ReLU."""
    value, slope, level = source.sum(_Kernel(z, threshold, width, order), stage="correlation")
    scale = source.size * width**2
    gradient = slope / (scale * width)
    return float(value) / scale, gradient - (gradient @ z) * z, -float(level) / (scale * width)


def ascend_correlation(source: Source, z: Array, threshold: float, *, width: float = 0.3, max_steps: int = 100) -> AscentResult:
    """Local ascent in z, on the sphere, and t, with step halving, from a direction near a unit of step type."""
    value, slope, lift = smooth_correlation(source, z, threshold, width)
    length, steps = 0.1, 0
    for steps in range(1, max_steps + 1):  # noqa: B007
        size = float(np.hypot(np.linalg.norm(slope), lift))
        if size == 0.0 or length < 1e-9:
            break
        moved = z + length * slope / size
        moved /= np.linalg.norm(moved)
        raised = threshold + length * lift / size
        trial = smooth_correlation(source, moved, raised, width)
        if trial[0] > value:
            (value, slope, lift), z, threshold, length = trial, moved, raised, 1.5 * length
        else:
            length /= 2
    return AscentResult(z, threshold, value, steps)


@dataclass(frozen=True, kw_only=True)
class DeltaAscent:
    """The search of section 3 for a whole layer: ascent of the correlation with δ' (a kernel of this width) from every unit.

    Works on the activity of rows, a polynomial of step units; local, so the start has to be near.
    """

    width: float = 0.3
    max_steps: int = 100

    def __call__(self, activity: Source, start: HalfSpaces, *, rng: Generator) -> HalfSpaces:
        """The half-spaces at which the ascents end."""
        climbs = [
            ascend_correlation(activity, w, float(t), width=self.width, max_steps=self.max_steps)
            for w, t in zip(start.weights, start.thresholds, strict=True)]
        return HalfSpaces(np.array([climb.direction for climb in climbs]), np.array([climb.threshold for climb in climbs]))
