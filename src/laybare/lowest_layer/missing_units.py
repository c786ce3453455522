"""Units that the start missed, found among the active rows that no half-space holds.

Rows that only unit i activates have mean E[g | g > t] w_i: a cluster of uncovered rows points to a missing unit. A unit that
holds few rows of its own makes room for it, or, if the width is not known, a unit is added; a unit without rows of its own is
dropped.
Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.lowest_layer.union_fit import Annealing, HalfSpaces, Mismatch, fit_union, mismatch
from laybare.shapes import Array
from laybare.source import Source
from laybare.source.selection import closest_rows

MOST_ROWS, SEEDS, SHIFTS = 4000, 8, 6
LEVELS = (0.5, 1.0, 1.3, 1.6, 1.8, 2.0)
"""How far along the mean rows must lie to be in the cluster, shift by shift, in units of the smallest threshold over 2."""

WARM = 0.2
"""A repaired fit starts at this temperature: the other units are already close."""


@dataclass(frozen=True, eq=False)
class Cover:
    """Half-spaces and how they differ from the active set."""

    spaces: HalfSpaces
    mismatch: Mismatch


def repair(
    activity: Source, found: HalfSpaces, annealing: Annealing, *, tries: int, enough: float, grow: bool, rng: Generator,
) -> Cover:
    """Replace or add units until the mismatch is at most `enough`, or `tries` attempts have not helped; the best is returned."""
    best = Cover(found, mismatch(activity, found))
    warm = replace(annealing, temperatures=tuple(tau for tau in annealing.temperatures if tau <= WARM))
    idle = 0
    while best.mismatch.share > enough and best.mismatch.uncovered and idle < tries:
        row = _missing_unit(activity, best.spaces, rng)
        trials = [_replaced(best, row)] if not grow else [_added(best.spaces, row), _replaced(best, row)]
        fitted = (fit_union(activity, trial, warm) for trial in trials)
        trial = min((Cover(one, mismatch(activity, one)) for one in fitted), key=lambda one: one.mismatch.share)
        idle = 0 if trial.mismatch.share < 0.8 * best.mismatch.share else idle + 1
        best = trial if trial.mismatch.share < best.mismatch.share else best
    return _pruned(activity, best, annealing) if grow else best


def _pruned(activity: Source, covered: Cover, annealing: Annealing) -> Cover:
    """Without the units that hold hardly a row alone, as long as the mismatch does not grow."""
    while len(covered.spaces.weights) > 1:
        weakest = int(np.argmin(covered.mismatch.sole))
        if covered.mismatch.sole[weakest] > covered.spaces.weights.shape[1]:
            return covered
        rest = HalfSpaces(*(np.delete(part, weakest, axis=0) for part in covered.spaces))
        without = Cover(rest, mismatch(activity, rest))
        if without.mismatch.share > 1.1 * covered.mismatch.share + 1e-4:
            return covered
        covered = without
    return covered


def _missing_unit(activity: Source, found: HalfSpaces, rng: Generator) -> Array:
    """The densest cluster of uncovered active rows: (w, t)."""

    def uncovered(x: Array, y: Array) -> Array:
        return np.where((y[:, 0] > 0.5) & (found.margins(x).max(axis=1) <= 0), 0.0, np.inf)

    x = closest_rows(activity, uncovered, MOST_ROWS).x
    level = float(np.clip(found.thresholds.min(initial=2.0), 0.5, 3.0)) / 2
    best, score = np.zeros(x.shape[1]), -np.inf
    for seed in rng.choice(len(x), size=min(SEEDS, len(x)), replace=False):
        mean = x[seed]
        for height in LEVELS:
            inside = x @ (mean / np.linalg.norm(mean)) > height * level
            if not inside.any():
                break
            mean = x[inside].mean(axis=0)
        value = float(np.sum(x @ (mean / np.linalg.norm(mean)) > 2 * level))
        if value > score:
            best, score = mean / np.linalg.norm(mean), value
    threshold = float(np.quantile(x @ best, 0.1))
    return np.append(best, max(threshold, level))


def _added(found: HalfSpaces, row: Array) -> HalfSpaces:
    return HalfSpaces(np.vstack([found.weights, row[:-1]]), np.append(found.thresholds, row[-1]))


def _replaced(covered: Cover, row: Array) -> HalfSpaces:
    """The unit with the fewest rows of its own makes room."""
    weights, thresholds = (part.copy() for part in covered.spaces)
    worst = int(np.argmin(covered.mismatch.sole))
    weights[worst], thresholds[worst] = row[:-1], row[-1]
    return HalfSpaces(weights, thresholds)
