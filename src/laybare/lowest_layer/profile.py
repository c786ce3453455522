"""How often rows are active along a direction, and what that tells about the angle to a unit.

For a unit at angle α to z, Pr[w·x > t | z·x = s] = Φ((s cos α - t)/sin α): a normal distribution function with slope b = cot α
and centre m = t/cos α. The other units add a floor q, so that the profile is q + (1 - q) Φ(b (s - m)).

Two estimates of tan α = 1/b: the printed one, from where slabs of width ε reach the rates 0.4 and 0.6, and a fit of the
whole profile by maximum likelihood (probit with a floor).
Source: Goel and Panigrahy (2019), Algorithm 2 and Lemmas 3-5; the condition of Lemma 4 is on the slab at t', not at t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, ndtri

from laybare.errors import TooFewSamples
from laybare.shapes import Array, Sums
from laybare.source import Source

LOW, HIGH, BINS = -8.0, 12.0, 2000
"""Bins of width 0.01; what lies outside is rarer than one row in 10¹⁵."""

FEWEST = 20
"""Rows that a slab needs: in the tails one active row would be a rate of 1."""

STEEPEST = 10.0
"""Largest log b: an angle of 5e-5, far below the width of a bin."""

RATES = (0.4, 0.6)
"""The rates between which the printed estimate measures."""


class Profile(NamedTuple):
    """Rows and active rows by the value of z·x: `centres` (B,), `rows` and `active` (directions, B)."""

    centres: Array
    rows: Array
    active: Array


class Edge(NamedTuple):
    """A unit as seen along a direction: tan of the angle, centre m = t/cos α, floor q left by the other units."""

    tangent: float
    centre: float
    floor: float

    @property
    def threshold(self) -> float:
        """t = m cos α."""
        return self.centre / float(np.hypot(1.0, self.tangent))


def activity_profile(activity: Source, directions: Array) -> Profile:
    """Counts along every row of `directions` (unit rows) in one pass; outputs of `activity` are 0 or 1."""
    edges = np.linspace(LOW, HIGH, BINS + 1)
    rows, active = activity.sum(_Count(directions), stage="profile")
    return Profile((edges[1:] + edges[:-1]) / 2, rows, active)


@dataclass(frozen=True, eq=False)
class _Count:
    """Statistic: histograms of all rows and of the active ones along every direction."""

    directions: Array

    @property
    def row_floats(self) -> int:
        return 3 * len(self.directions)

    def __call__(self, x: Array, y: Array) -> Sums:
        width = len(self.directions)
        along = np.clip((x @ self.directions.T - LOW) * (BINS / (HIGH - LOW)), 0, BINS - 1).astype(np.int64)
        flat = along + BINS * np.arange(width)
        rows = np.bincount(flat.ravel(), minlength=width * BINS)
        active = np.bincount(flat[y[:, 0] > 0.5].ravel(), minlength=width * BINS)
        return rows.reshape(width, BINS).astype(float), active.reshape(width, BINS).astype(float)


def slab_edge(profile: Profile, index: int, slab: float = 0.1) -> Edge:
    """EstimateTanAlpha as printed: (t₂ - t₁) / (Φ⁻¹(0.6) - Φ⁻¹(0.4)), where slabs [t' - ε, t'] first reach 0.4 and 0.6.

    Biased upwards for small angles: by 1.9 at α = 0.03 with ε = 0.1, since the slab itself is wider than the edge.
    """
    span = max(1, round(slab * BINS / (HIGH - LOW)))
    window = np.ones(span)
    rows, active = (np.convolve(part[index], window)[: BINS] for part in (profile.rows, profile.active))
    rate = np.where((rows >= FEWEST) & (profile.centres > 0), active / np.maximum(rows, 1.0), 0.0)
    upper = profile.centres + (HIGH - LOW) / BINS / 2
    first = [int(np.argmax(rate >= wanted)) for wanted in RATES]
    if min(float(rate[at]) for at in first) < RATES[0]:
        raise TooFewSamples(
            f"No slab along the direction is active in {RATES[1]:.0%} of its rows.", "The angle is measured between such slabs.",
            "Start closer to a unit, or give more samples.", highest=float(rate.max()))
    low, high = (float(upper[at]) for at in first)
    return Edge(max(high - low, 0.0) / float(ndtri(RATES[1]) - ndtri(RATES[0])), (low + high) / 2, 0.0)


def probit_edge(profile: Profile, index: int) -> Edge:
    """Maximum likelihood of q + (1 - q) Φ(b (s - m)) over all bins with rows."""
    from scipy.optimize import minimize

    held = profile.rows[index] > 0
    s, rows, active = profile.centres[held], profile.rows[index][held], profile.active[index][held]
    share = float(active.sum() / rows.sum())

    def loss(point: Array) -> float:
        floor, rest = -np.logaddexp(0.0, -point[0]), -np.logaddexp(0.0, point[0])  # log q, log(1 - q)
        slope = np.exp(min(point[2], STEEPEST))
        silent = rest + log_ndtr(-slope * (s - point[1]))
        lit = np.logaddexp(floor, rest + log_ndtr(slope * (s - point[1])))
        return -float(active @ lit + (rows - active) @ silent) / float(rows.sum())

    middle = float(np.average(s, weights=active)) if active.sum() else 2.0
    starts = [np.array([np.log(max(share, 1e-6)) - 1.0, m, 1.0]) for m in (middle, max(middle, 1.0) + 1.0)]
    best = min((minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400, "xatol": 1e-5, "fatol": 1e-12})
                for start in starts), key=lambda found: float(found.fun))
    return Edge(float(np.exp(-best.x[2])), float(best.x[1]), float(expit(best.x[0])))
