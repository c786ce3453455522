"""Where the search for the layer begins: directions from Hermite moments of orders 1 to 3, thresholds from the activity there.

With X_i = u(w_i·x - t) and any top P, Stein's identity gives E[f He_l(x)] ≈ Σ_i a_i w_i^⊗l + (products of units, which are rare).
Order 2 gives the span, orders 2 and 3 together the directions (decomposed jointly, so that the a_i may have any signs), order 1
the signs: E[f x] = Σ a_i w_i holds exactly, with a_i > 0 if P rises with X_i. The paper decomposes order 4. Order 3 needs 4 to 16
times fewer samples and vanishes at fewer thresholds (u₃ = 0 for step units at t = 1; u₄ = 0 for step at t = √3, ReLU at t = 1).

For a unit at angle α to z, Pr[w·x > t | z·x = s] = Φ((s cos α - t)/sin α): a normal distribution function with slope b = cot α
and centre m = t/cos α. The other units add a floor q, so the profile of activity along z is q + (1 - q) Φ(b (s - m)). There are
two estimates of tan α = 1/b: the printed one, from where slabs of width ε reach the rates 0.4 and 0.6, and a fit of the whole
profile by maximum likelihood (probit with a floor).
Source: Goel and Panigrahy (2019), section 2, with third instead of fourth moments; Algorithm 2 and Lemmas 3-5, where the
condition of Lemma 4 is on the slab at t', not at t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from scipy.special import expit, log_ndtr, ndtri

from laybare import moments
from laybare.certificate import Claim
from laybare.decomposition import Decomposer, JointDiagonalisation, detect_rank, loadings
from laybare.errors import TooFewSamples
from laybare.moments import Residual
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Bins of the profile, and limits of its two estimates."""

    low: float = -8.0  # first edge, in standard deviations. Derived: one row in 10¹⁵ lies below.
    high: float = 12.0  # last edge: beyond all thresholds. Derived: one row in 10³² lies above.
    bins: int = 2000  # of width 0.01, a tenth of the printed slab. Checked by `laybare reproduce tan-alpha`.
    slab_rows: int = 20  # fewest rows of a slab: one active row alone is a rate of 1. Checked by `pytest tests/lowest_layer`.
    max_log_slope: float = 10.0  # largest log b. Derived: an angle of 5e-5, far below the width of a bin.
    rates: tuple[float, float] = (0.4, 0.6)  # Paper: Goel and Panigrahy (2019), Algorithm 2.

    @property
    def bins_per_unit(self) -> float:
        return self.bins / (self.high - self.low)


PROFILE = ProfileOptions()


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


def measure_profile(activity: Source, directions: Array) -> Profile:
    """Counts along every row of `directions` (unit rows) in one pass; outputs of `activity` are 0 or 1."""
    edges = np.linspace(PROFILE.low, PROFILE.high, PROFILE.bins + 1)
    rows, active = activity.sum(_ProfileCounts(directions), stage="profile")
    return Profile((edges[1:] + edges[:-1]) / 2, rows, active)


@dataclass(frozen=True, eq=False)
class _ProfileCounts:
    """Statistic: histograms of all rows and of the active ones along every direction."""

    directions: Array

    @property
    def row_floats(self) -> int:
        return 3 * len(self.directions)

    def __call__(self, x: Array, y: Array) -> Sums:
        width, bins = len(self.directions), PROFILE.bins
        along = np.clip((x @ self.directions.T - PROFILE.low) * PROFILE.bins_per_unit, 0, bins - 1).astype(np.int64)
        flat = along + bins * np.arange(width)
        rows = np.bincount(flat.ravel(), minlength=width * bins)
        active = np.bincount(flat[y[:, 0] > 0.5].ravel(), minlength=width * bins)
        return rows.reshape(width, bins).astype(float), active.reshape(width, bins).astype(float)


def slab_estimate(profile: Profile, index: int, slab: float = 0.1) -> Edge:
    """EstimateTanAlpha as printed: (t₂ - t₁) / (Φ⁻¹(0.6) - Φ⁻¹(0.4)), where slabs [t' - ε, t'] first reach 0.4 and 0.6.

    Biased upwards for small angles: by 1.9 at α = 0.03 with ε = 0.1, since the slab itself is wider than the edge.
    """
    window, (lower_rate, upper_rate) = np.ones(max(1, round(slab * PROFILE.bins_per_unit))), PROFILE.rates
    rows, active = (np.convolve(part[index], window)[: PROFILE.bins] for part in (profile.rows, profile.active))
    rate = np.where((rows >= PROFILE.slab_rows) & (profile.centres > 0), active / np.maximum(rows, 1.0), 0.0)
    upper = profile.centres + 0.5 / PROFILE.bins_per_unit
    first = [int(np.argmax(rate >= wanted)) for wanted in (lower_rate, upper_rate)]
    if min(float(rate[at]) for at in first) < lower_rate:
        raise TooFewSamples(
            f"No slab along the direction is active in {upper_rate:.0%} of its rows.",
            "The angle is measured between such slabs.",
            "Start closer to a unit, or give more samples.", highest=float(rate.max()))
    low, high = (float(upper[at]) for at in first)
    return Edge(max(high - low, 0.0) / float(ndtri(upper_rate) - ndtri(lower_rate)), (low + high) / 2, 0.0)


def probit_estimate(profile: Profile, index: int) -> Edge:
    """Maximum likelihood of q + (1 - q) Φ(b (s - m)) over all bins with rows."""
    from scipy.optimize import minimize

    held = profile.rows[index] > 0
    s, rows, active = profile.centres[held], profile.rows[index][held], profile.active[index][held]
    share = float(active.sum() / rows.sum())

    def loss(point: Array) -> float:
        floor, rest = -np.logaddexp(0.0, -point[0]), -np.logaddexp(0.0, point[0])  # log q, log(1 - q)
        slope = np.exp(min(point[2], PROFILE.max_log_slope))
        silent = rest + log_ndtr(-slope * (s - point[1]))
        lit = np.logaddexp(floor, rest + log_ndtr(slope * (s - point[1])))
        return -float(active @ lit + (rows - active) @ silent) / float(rows.sum())

    middle = float(np.average(s, weights=active)) if active.sum() else 2.0
    starts = [np.array([np.log(max(share, 1e-6)) - 1.0, m, 1.0]) for m in (middle, max(middle, 1.0) + 1.0)]
    best = min((minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400, "xatol": 1e-5, "fatol": 1e-12})
                for start in starts), key=lambda found: float(found.fun))
    return Edge(float(np.exp(-best.x[2])), float(best.x[1]), float(expit(best.x[0])))


class Directions(NamedTuple):
    """Signed unit rows `weights` (k, d), what each unit contributes to the moments of orders 1 and 2, (k,) each, and claims."""

    weights: Array
    first: Array
    second: Array
    claims: tuple[Claim, ...] = ()


@runtime_checkable
class LayerStart(Protocol):
    """A way from white samples with one output to directions of units."""

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions: ...


@dataclass(frozen=True, kw_only=True)
class ThirdMoments:
    """Joint diagonalisation of the second moment and all slices of the third, each over √order! so that their noise is equal.

    `linear` subtracts the least-squares linear part of y first, which holds most of its variance for smooth units; the activity
    of rows that are rarely active has no such part. `fourth` adds the slices of order 4, which is noisier and only of use where
    order 3 shows nothing.
    """

    decompose: Decomposer = JointDiagonalisation(polish=False)
    linear: bool = False
    fourth: bool = False

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions:
        """Directions of `width` units; `source` is white and has one output."""
        fit = moments.fit_hermite(source, 1) if self.linear else None
        rest = source if fit is None else Residual(source, fit)
        basis = moments.leading_directions(moments.second_moment(rest), width)
        _, first, second, third, *more = (tensor[0] for tensor in moments.projected_tensors(rest, basis, 4 if self.fourth else 3))
        slices = [second[None] / np.sqrt(2.0), third / np.sqrt(6.0)]
        stack = np.concatenate(slices + [order.reshape(-1, width, width) / np.sqrt(24.0) for order in more])
        inside = self.decompose(stack, width, rng=rng).directions
        slopes = first if fit is None else first + fit.moments.of(1)[0] @ basis
        contributions = np.linalg.lstsq(inside.T, slopes, rcond=None)[0]
        return _orient(inside @ basis.T, contributions, loadings(second[None], inside)[0])


def count_visible_units(source: Source) -> int:
    """The number of units that the second moment of one output shows, at least 1; a lower bound without a clear gap."""
    moment = moments.measure_with_noise(source, moments.SecondMoment(), stage="width")
    return max(1, detect_rank(np.linalg.eigvalsh(moment.value[0]), np.linalg.eigvalsh(moment.noise[0])).at_least)


def _orient(weights: Array, first: Array, second: Array) -> Directions:
    """Turn the units whose first and second contributions differ in sign: u₁ and u₂ are positive for t > 0."""
    turn = np.where(first * second < 0, -1.0, 1.0)
    return Directions(weights * turn[:, None], first * turn, second)
