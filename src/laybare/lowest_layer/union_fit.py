"""Half-spaces whose union is the active set, fitted to the activity of rows by annealed maximum likelihood.

The activity s of a row does not depend on the top: s = 1 exactly if w_i·x > t_i for some i (as long as no set of active units
gives back the baseline). Softened by a temperature τ,

    Pr[s = 0] = Π_i σ(-a_i),  a_i = (w_i·x - t_i)/τ,      -log Pr[s = 0] = S = Σ_i log(1 + e^{a_i})
    loss = Σ_{s=0} S - Σ_{s=1} log(1 - e^{-S}),           ∂loss/∂a_i = σ(a_i) · (1 if s = 0, else -1/(e^S - 1)).

τ falls from 0.5 to 0.002, and only rows near the boundary matter: each stage picks those within 12 τ of it and all rows on the
wrong side, the closest first. The error of a boundary fitted to noiseless labels falls like 1/n, not like n^-½.

Missing units are looked for among the active rows that no half-space holds. Rows that only unit i activates have the mean
E[g | g > t] w_i, so a cluster of uncovered rows points to a missing unit. It replaces the unit with the fewest rows of its own
or, if the width is not known, is added; units without rows of their own are dropped.
Source: in place of Algorithm 1 of Goel and Panigrahy (2019), which refines one unit at a time by random search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from laybare.numerics.shapes import Array, Sums
from laybare.source import Rows, Source
from laybare.source.views import rows_with_smallest_key


@dataclass(frozen=True, kw_only=True)
class UnionOptions:
    """Constants of the loss, of the choice of rows, and of the search for missing units."""

    linear_below: float = 1e-8  # S at which e^S - 1 is S and S is Σ e^a. Derived: the next term is S/2, relatively.
    overflow: float = 700.0  # largest exponent. Derived: exp overflows at 709.
    window: float = 12.0  # distance of the rows in use, in temperatures. Checked by `pytest tests/lowest_layer`.
    cold: float = 0.1  # temperatures below it pick rows up to `rounds` times. Checked by `pytest tests/lowest_layer`.
    warm: float = 0.2  # first temperature of a repaired fit: other units are close. Checked by `pytest tests/lowest_layer`.
    cluster_rows: int = 4000  # uncovered rows among which a cluster is sought. Checked by `pytest tests/lowest_layer`.
    cluster_seeds: int = 8  # rows from which its mean is shifted. Checked by `pytest tests/lowest_layer`.
    cluster_levels: tuple[float, ...] = (0.5, 1.0, 1.3, 1.6, 1.8, 2.0)
    """How far along the mean the rows of the cluster lie, shift by shift, in halves of the smallest threshold."""


UNION = UnionOptions()


class HalfSpaces(NamedTuple):
    """w_i·x > t_i: unit rows `weights` (k, d), `thresholds` (k,)."""

    weights: Array
    thresholds: Array

    def margins(self, x: Array) -> Array:
        """w_i·x - t_i, (n, k)."""
        return np.asarray(x @ self.weights.T - self.thresholds)


@dataclass(frozen=True, kw_only=True)
class Annealing:
    """Temperatures, rows and L-BFGS steps per stage, and how often a cold stage picks its rows anew."""

    temperatures: tuple[float, ...] = (0.5, 0.2, 0.07, 0.02, 0.006, 0.002)
    rows: int = 15_000
    max_steps: int = 60
    rounds: int = 3


def fit_half_spaces(activity: Source, start: HalfSpaces, annealing: Annealing = Annealing()) -> HalfSpaces:
    """Half-spaces near `start` whose union is the active set of `activity` (outputs 0 or 1). Two passes per round.

    Returns the half-spaces with the fewest wrong rows of all stages: where units are missing or labels are wrong, cold stages may
    drift off.
    """
    now = best = start
    least = count_mismatch(activity, start).share
    for tau in annealing.temperatures:
        for _ in range(annealing.rounds if tau < UNION.cold else 1):
            rows = rows_with_smallest_key(activity, _BoundaryDistance(now, UNION.window * tau), annealing.rows)
            moved = _minimise(now, rows, tau, annealing.max_steps)
            still = np.abs(moved.margins(rows.x) - now.margins(rows.x)).max(initial=0.0) < tau
            now, share = moved, count_mismatch(activity, moved).share
            if share <= least:
                best, least = now, share
            if still:
                break
    return best


def union_loss(rows: Array, x: Array, active: Array, tau: float) -> tuple[float, Array]:
    """The loss above and its gradient in `rows` (k, d + 1) = [w, -t]; x (n, d + 1) ends in ones, `active` (n,) is bool."""
    a = x @ rows.T / tau
    terms = np.logaddexp(0.0, a)
    S = terms.sum(axis=1)
    slope = -np.expm1(-terms)  # σ(a)
    far = active & (UNION.linear_below > S)
    near = active & ~far
    loss = float(S[~active].sum() - np.log(-np.expm1(-S[near])).sum())
    slope[near] /= -np.expm1(np.minimum(S[near], UNION.overflow))[:, None]
    if far.any():  # S = Σ e^a to all digits, and may be too small for a float
        log_S = logsumexp(a[far], axis=1)
        loss -= float(log_S.sum())
        slope[far] = -np.exp(a[far] - log_S[:, None])
    return loss, np.asarray(slope.T @ x / tau)


def _minimise(start: HalfSpaces, rows: Rows, tau: float, max_steps: int) -> HalfSpaces:
    """L-BFGS on the chosen rows; lengths of rows are free during the stage and scaled out after it."""
    from scipy.optimize import minimize

    if not len(rows.x):
        return start
    x, active = np.column_stack([rows.x, np.ones(len(rows.x))]), rows.y[:, 0] > 0.5
    shape = (len(start.weights), x.shape[1])

    def objective(flat: Array) -> tuple[float, Array]:
        loss, slope = union_loss(flat.reshape(shape), x, active, tau)
        return loss / len(x), slope.ravel() / len(x)

    first = np.column_stack([start.weights, -start.thresholds])
    found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_steps, "ftol": 1e-12})
    best = found.x.reshape(shape)
    lengths = np.linalg.norm(best[:, :-1], axis=1)
    kept = np.where((lengths > 0)[:, None], best / np.where(lengths > 0, lengths, 1.0)[:, None], first)
    return HalfSpaces(kept[:, :-1], -kept[:, -1])


class Mismatch(NamedTuple):
    """Rows in all; active rows that no half-space holds; silent rows that one holds; rows that only half-space i holds (k,)."""

    rows: int
    uncovered: int
    intruding: int
    sole: Array

    @property
    def share(self) -> float:
        """Share of rows whose activity is wrong."""
        return (self.uncovered + self.intruding) / self.rows


def count_mismatch(activity: Source, found: HalfSpaces) -> Mismatch:
    """How the union of half-spaces differs from the active set; one pass."""

    def count(x: Array, y: Array) -> Sums:
        inside, active = found.margins(x) > 0, y[:, 0] > 0.5
        covered, alone = inside.any(axis=1), inside.sum(axis=1) == 1
        return np.asarray(np.sum(active & ~covered)), np.asarray(np.sum(~active & covered)), inside[active & alone].sum(axis=0)

    uncovered, intruding, sole = activity.sum(count, stage="active set")
    return Mismatch(activity.size, int(uncovered), int(intruding), sole)


@dataclass(frozen=True, eq=False)
class _BoundaryDistance:
    """Key of rows: 0 on the wrong side, the distance to the boundary within the window, else inf."""

    found: HalfSpaces
    window: float

    def __call__(self, x: Array, y: Array) -> Array:
        reach = self.found.margins(x).max(axis=1)
        distance = np.where((reach > 0) == (y[:, 0] > 0.5), np.abs(reach), 0.0)
        return np.where(distance < self.window, distance, np.inf)


@dataclass(frozen=True, eq=False)
class UnionFit:
    """Half-spaces and how they differ from the active set."""

    spaces: HalfSpaces
    mismatch: Mismatch


class RepairLimits(NamedTuple):
    """Attempts without a gain that end a repair, the mismatch that is enough, and whether units may be added."""

    attempts: int
    mismatch: float
    may_add: bool


def repair_union(activity: Source, found: HalfSpaces, annealing: Annealing, limits: RepairLimits, *, rng: Generator) -> UnionFit:
    """Replace or add units within `limits`; the half-spaces with the smallest mismatch are returned."""
    best = UnionFit(found, count_mismatch(activity, found))
    warm = replace(annealing, temperatures=tuple(tau for tau in annealing.temperatures if tau <= UNION.warm))
    idle = 0
    while best.mismatch.share > limits.mismatch and best.mismatch.uncovered and idle < limits.attempts:
        row = _find_missing_unit(activity, best.spaces, rng)
        trials = [_with_unit(best.spaces, row)] * limits.may_add + [_with_replacement(best, row)]
        fitted = (fit_half_spaces(activity, trial, warm) for trial in trials)
        trial = min((UnionFit(one, count_mismatch(activity, one)) for one in fitted), key=lambda one: one.mismatch.share)
        idle = 0 if trial.mismatch.share < 0.8 * best.mismatch.share else idle + 1
        best = trial if trial.mismatch.share < best.mismatch.share else best
    return _prune(activity, best) if limits.may_add else best


def _prune(activity: Source, covered: UnionFit) -> UnionFit:
    """Drop units that hold hardly a row alone, as long as the mismatch does not grow."""
    while len(covered.spaces.weights) > 1:
        weakest = int(np.argmin(covered.mismatch.sole))
        if covered.mismatch.sole[weakest] > covered.spaces.weights.shape[1]:
            return covered
        rest = HalfSpaces(*(np.delete(part, weakest, axis=0) for part in covered.spaces))
        without = UnionFit(rest, count_mismatch(activity, rest))
        if without.mismatch.share > 1.1 * covered.mismatch.share + 1e-4:
            return covered
        covered = without
    return covered


def _find_missing_unit(activity: Source, found: HalfSpaces, rng: Generator) -> Array:
    """The densest cluster of uncovered active rows: (w, t)."""

    def uncovered(x: Array, y: Array) -> Array:
        return np.where((y[:, 0] > 0.5) & (found.margins(x).max(axis=1) <= 0), 0.0, np.inf)

    x = rows_with_smallest_key(activity, uncovered, UNION.cluster_rows).x
    level = float(np.clip(found.thresholds.min(initial=2.0), 0.5, 3.0)) / 2
    best, score = np.zeros(x.shape[1]), -np.inf
    for seed in rng.choice(len(x), size=min(UNION.cluster_seeds, len(x)), replace=False):
        mean = x[seed]
        for height in UNION.cluster_levels:
            inside = x @ (mean / np.linalg.norm(mean)) > height * level
            if not inside.any():
                break
            mean = x[inside].mean(axis=0)
        value = float(np.sum(x @ (mean / np.linalg.norm(mean)) > 2 * level))
        if value > score:
            best, score = mean / np.linalg.norm(mean), value
    threshold = float(np.quantile(x @ best, 0.1))
    return np.append(best, max(threshold, level))


def _with_unit(found: HalfSpaces, row: Array) -> HalfSpaces:
    return HalfSpaces(np.vstack([found.weights, row[:-1]]), np.append(found.thresholds, row[-1]))


def _with_replacement(covered: UnionFit, row: Array) -> HalfSpaces:
    """Replace the unit with the fewest rows of its own."""
    weights, thresholds = (part.copy() for part in covered.spaces)
    worst = int(np.argmin(covered.mismatch.sole))
    weights[worst], thresholds[worst] = row[:-1], row[-1]
    return HalfSpaces(weights, thresholds)
