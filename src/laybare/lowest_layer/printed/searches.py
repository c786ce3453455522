"""RefineEstimate: the paper's local search that refines half-spaces, random search by the angle.

RefineEstimate as printed: random search for a direction at a smaller angle α to a unit, estimated from the activity. The
perturbation has the standard deviation α/d in every direction normal to z, as in Lemma 7 and its proof: its length is about α/√d,
what it gains towards the unit is of the order of α/d, and so is what its length costs (|ρ|²/2α ≈ α/2d). About a quarter of the
trials help in every dimension. With α/√d for each direction the cost is α/2, and hardly any trial helps once d is 20. Line 4 of
Algorithm 1 accepts a perturbed direction if α' ≤ O(α/d), which no small perturbation achieves; its proof shows a decrease by
Ω(α/d), so the test here is α' ≤ (1 - c/d) α. One unit at a time, one pass per trial, O(d log 1/ε) trials; the angle is only known
to the accuracy of the estimate. Fitting all units at once (`union_fit`) is faster and more accurate.

Source: Goel and Panigrahy (2019), Algorithms 1 and 2, Theorems 2 and 5, Lemmas 3 to 7. Section 3 is in `delta`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.errors import TooFewSamples
from laybare.lowest_layer.layer_start import Edge, Profile, measure_profile, probit_estimate, slab_estimate
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.numerics.shapes import Array
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
