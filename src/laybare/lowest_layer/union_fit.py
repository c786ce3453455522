"""Half-spaces whose union is the active set, fitted to the activity of rows by annealed maximum likelihood.

The activity s of a row does not depend on the top: s = 1 exactly if w_i·x > t_i for some i (as long as no set of active units
gives back the baseline). Softened by a temperature τ,

    Pr[s = 0] = Π_i σ(-a_i),  a_i = (w_i·x - t_i)/τ,      -log Pr[s = 0] = S = Σ_i log(1 + e^{a_i})
    loss = Σ_{s=0} S - Σ_{s=1} log(1 - e^{-S}),           ∂loss/∂a_i = σ(a_i) · (1 if s = 0, else -1/(e^S - 1)).

τ falls from 0.5 to 0.002. Only rows near the boundary matter then, so each stage picks those within 12 τ of it and all rows on
the wrong side, the closest first. The error of a boundary fitted to noiseless labels falls like 1/n, not like n^-½.
Source: in place of Algorithm 1 of Goel and Panigrahy (2019), which refines one unit at a time by random search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from laybare.shapes import Array, Sums
from laybare.source import Rows, Source
from laybare.source.selection import closest_rows

TINY, LARGE = 1e-8, 700.0
"""S below TINY is e^S - 1 and Σ e^a to all digits that matter; e^S overflows a little above LARGE."""

WINDOW = 12.0
COLD = 0.1
"""Temperatures below it pick their rows anew up to `rounds` times: the boundary has moved by more than the window."""


class HalfSpaces(NamedTuple):
    """w_i·x > t_i: unit rows `weights` (k, d), `thresholds` (k,)."""

    weights: Array
    thresholds: Array

    def margins(self, x: Array) -> Array:
        """w_i·x - t_i, (n, k)."""
        values: Array = x @ self.weights.T - self.thresholds
        return values


@dataclass(frozen=True, kw_only=True)
class Annealing:
    """Temperatures, rows a stage, steps of L-BFGS a stage, and how often a cold stage picks its rows anew."""

    temperatures: tuple[float, ...] = (0.5, 0.2, 0.07, 0.02, 0.006, 0.002)
    rows: int = 15_000
    max_steps: int = 60
    rounds: int = 3


def fit_union(activity: Source, start: HalfSpaces, annealing: Annealing = Annealing()) -> HalfSpaces:
    """Half-spaces near `start` whose union is the active set of `activity` (outputs 0 or 1). Two passes a round.

    Where the labels cannot be met, because units are missing or labels are wrong, cold stages may drift off: the half-spaces with
    the fewest wrong rows of all stages are returned.
    """
    now = best = start
    least = mismatch(activity, start).share
    for tau in annealing.temperatures:
        for _ in range(annealing.rounds if tau < COLD else 1):
            rows = closest_rows(activity, _Near(now, WINDOW * tau), annealing.rows)
            moved = _minimised(now, rows, tau, annealing.max_steps)
            still = np.abs(moved.margins(rows.x) - now.margins(rows.x)).max(initial=0.0) < tau
            now, share = moved, mismatch(activity, moved).share
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
    far = active & (TINY > S)
    near = active & ~far
    loss = float(S[~active].sum() - np.log(-np.expm1(-S[near])).sum())
    slope[near] /= -np.expm1(np.minimum(S[near], LARGE))[:, None]
    if far.any():  # S = Σ e^a to all digits, and may be too small for a float
        log_S = logsumexp(a[far], axis=1)
        loss -= float(log_S.sum())
        slope[far] = -np.exp(a[far] - log_S[:, None])
    return loss, np.asarray(slope.T @ x / tau)


def _minimised(start: HalfSpaces, rows: Rows, tau: float, max_steps: int) -> HalfSpaces:
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


def mismatch(activity: Source, found: HalfSpaces) -> Mismatch:
    """How the union of half-spaces differs from the active set; one pass."""

    def count(x: Array, y: Array) -> Sums:
        inside, active = found.margins(x) > 0, y[:, 0] > 0.5
        covered, alone = inside.any(axis=1), inside.sum(axis=1) == 1
        return np.asarray(np.sum(active & ~covered)), np.asarray(np.sum(~active & covered)), inside[active & alone].sum(axis=0)

    uncovered, intruding, sole = activity.sum(count, stage="active set")
    return Mismatch(activity.size, int(uncovered), int(intruding), sole)


@dataclass(frozen=True, eq=False)
class _Near:
    """Key of rows: 0 on the wrong side, the distance to the boundary within the window, else inf."""

    found: HalfSpaces
    window: float

    def __call__(self, x: Array, y: Array) -> Array:
        reach = self.found.margins(x).max(axis=1)
        distance = np.where((reach > 0) == (y[:, 0] > 0.5), np.abs(reach), 0.0)
        return np.where(distance < self.window, distance, np.inf)
