"""Are held-out rows like used ones, and is every row independent of the others?

*Held-out rows.* If rows are independent and of one law, and noise has mean zero at every input, E(y - f̂)² = σ² + E(f - f̂)². The
first is the mean square of fresh residuals, σ² that of used ones over their degrees of freedom, if the network is right.

*Neighbours.* If rows are independent, whether a residual is large says nothing about that of the row before, or of the row with
the nearest inputs. With u the residuals over 1.5 root mean squares, cut off at ±1, bets that u u' > 0 for neighbours do not pay
(`challengers`); where there is hardly any noise, residuals are errors of the fit, alike for neighbours, and too small to count.
Where bets pay, rows are a time series, come in groups, or repeat inputs with noise in common. Pairs that lie up to J neighbours
apart are then dependent, J the order up to which u u' is positive; and with s_n = H⁻¹ J_nᵀ r_n the covariance of the estimates is
the sum of s_n s_mᵀ over all such pairs: Newey and West's (1987) in row order, Conley's (1999) among inputs, and for groups and
repeated inputs the sum over clusters. Standard errors grow by its diagonal over that of independent rows, and so does what a unit
must gain. A level that wanders, with no such J, leaves the matter open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import fdtri, ndtr, ndtri

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.challengers import Contest, capital_against
from laybare.certificate.fitted_network import FittedNetwork
from laybare.numerics.levels import TINY
from laybare.numerics.shapes import Array, Statistic, Sums
from laybare.solver.point import Point, outputs_at


class HeldOutErrors(NamedTuple):
    """`values`: the number of fresh labels; `fresh`: their mean square residual over the variance of y, with its standard error;
    its ratio to that of the used ones, what the ratio may be by chance, and what it can hardly be."""

    values: int
    fresh: float
    fresh_error: float
    ratio: float
    limit: float
    refuting: float

    @property
    def claim(self) -> Claim:
        """That fresh residuals are no larger than used ones."""
        return Claim(
            ClaimName.FRESH_RESIDUAL, self.ratio, self.limit, self.ratio <= self.limit, "tested",
            f"mean square on {self.values:,} fresh values, {self.fresh:.1e} of the variance of y, against the used ones; "
            f"larger means over-fitting or a wrong network, which is refuted beyond {self.refuting:.3g}.",
            decisive=self.ratio > self.refuting)


def held_out_errors(fitted: FittedNetwork) -> HeldOutErrors:
    """Fresh mean square against the noise estimated from the used samples; one pass over the fresh ones.

    After p unknowns were fitted to N equations a fresh residual has mean square s² (1 + p/(N-p)) or so; twice the excess is
    allowed. The ratio of two mean squares has an F law if the noise is Gaussian; if residuals have heavier tails, their own
    fourth moment gives the spread.
    """
    fresh, variance = fitted.problem.fresh, fitted.output_variance
    floor, noise = fitted.rounding_variance / variance, fitted.noise_variance / variance
    count = fresh.size * fresh.outputs
    second, fourth = (float(total) / count for total in fresh.sum(_powers(fitted), stage="certificate"))
    used = [float(total) / fitted.equations for total in (fitted.row_sums.second, fitted.row_sums.fourth)]
    tails = max(2.0, *(four / max(two * two, 1e-300) - 1.0 for two, four in ((second, fourth), used)))
    spread = float(np.sqrt(tails / count + tails / fitted.degrees_of_freedom))
    optimism = 1.0 + 2.0 * fitted.unknowns / fitted.degrees_of_freedom
    limits = (
        optimism * max(float(fdtri(count, fitted.degrees_of_freedom, ndtr(sigmas))), 1.0 + sigmas * spread)
        for sigmas in (float(-ndtri(10.0**-RULES.doubting_evidence)), RULES.sigmas))
    return HeldOutErrors(
        count, second, second * float(np.sqrt(tails / count)), (second + floor) / (noise + floor), *limits)


def _powers(fitted: FittedNetwork) -> Statistic:
    white, unit = fitted.white, float(np.sqrt(fitted.output_variance))

    def powers(x: Array, y: Array) -> Sums:
        with np.errstate(over="ignore"):
            squares = ((y - white(x).reshape(y.shape)) / unit) ** 2
            return np.asarray(squares.sum()), np.asarray((squares**2).sum())

    return powers


@dataclass(frozen=True, kw_only=True)
class DependenceOptions:
    """How dependent rows are looked for."""

    level: float = 0.01
    """Chance that independent rows are taken for dependent ones, for each kind of neighbours. Convention: it costs only wider
    intervals."""
    rows: int = 16_384  # Used rows that are compared, the first ones. Checked by `make bench`.
    tree_rows: int = 4096
    """Of these, among whose inputs the nearest are sought first: all would take four times as long as the rest of a certificate.
    Checked by `pytest tests/cli/test_planning.py`."""
    tree_dim: int = 12
    """Inputs up to which neighbours among these are sought. Derived: in more dimensions a tree visits most rows."""
    products_from_dim: int = 7
    """Inputs from which the nearest of few rows is found by all distances, which take as long in any dimension. Checked by
    `make bench BENCH_ARGS=recover`."""
    distance_rows: int = 64  # Rows whose distances to all are held at a time. Derived: 2 MB beside 4,096 rows, a cache.
    most_neighbours: int = 40  # Beyond this J there is none. Checked by `laybare reproduce coverage`.
    cut: float = 1.5
    """Root mean squares at which residuals are cut off. Derived: normal ones then vary as much as ranks between ±1 do."""
    sigmas: float = 2.0  # By which a mean of u u' exceeds chance at every order up to J. Convention: 97.7 %.
    influences: float = 1e7  # Rows times parameters up to which pairs are added up. Convention: 80 MB.


DEPENDENCE = DependenceOptions()


class Dependence(NamedTuple):
    """Of neighbours in row order, or among inputs: the capital of those who bet on it, J, and for every row its neighbours."""

    kind: str
    capital: float
    reach: int
    neighbours: Array
    common: tuple[float, float] = (0.0, 0.0)
    """Mean and standard error of what first neighbours among inputs have in common: the mean product of their residuals, over the
    variance of y. If that is no noise but a function of the inputs, it is beaten by that much."""

    @property
    def found(self) -> bool:
        return self.capital >= 1.0 / DEPENDENCE.level

    @property
    def fades(self) -> bool:
        return bool(self.reach < self.neighbours.shape[1])


def find_dependence(fitted: FittedNetwork) -> tuple[Dependence, ...]:
    """The record of neighbours of both kinds; none where nothing but rounding is left."""
    if fitted.exact:
        return ()
    x, y = fitted.used.read(0, min(fitted.used.size, DEPENDENCE.rows))
    return dependence_among(x, y - np.asarray(fitted.white(x)).reshape(y.shape), fitted.output_variance)


def dependence_among(x: Array, residual: Array, variance: float) -> tuple[Dependence, ...]:
    """The record of these rows, whose outputs have that variance; none of too few."""
    rows = len(x)
    most = min(DEPENDENCE.most_neighbours, rows // 4)
    if most < 1:
        return ()
    scaled = _cut_off(residual)
    at = np.arange(rows)[:, None] - np.arange(1, most + 1)
    found = [_dependence("before each other", np.where(at < 0, -1, at), scaled)]
    if x.shape[1] <= DEPENDENCE.tree_dim:
        one = _among_inputs(x, scaled, most)
        products = _products(residual[: len(one.neighbours)], one.neighbours) / variance
        common = float(products.mean()), float(products.std() / np.sqrt(len(products)))
        found.append(one._replace(common=common))
    return tuple(found)


def common_parts(found: Sequence[Dependence], level: float) -> tuple[Contest, ...]:
    """Where neighbours among inputs are alike: what they have in common as a challenger that nobody has found, at this level."""
    bounds = [one.common[0] - float(ndtri(level)) * one.common[1] for one in found if one.found and any(one.common)]
    return tuple(Contest("what rows with the nearest inputs have in common", float(np.sqrt(max(b, 0.0))), 0.0) for b in bounds)


def unexplained_share(fitted: FittedNetwork, found: tuple[Dependence, ...], wider: Point | None) -> float:
    """The share of what residuals of neighbours have in common that a wider network leaves: what a function explains is no noise.

    Common noise stays beside a wider network, a missing unit does not. Zero where neighbours are alike no more.
    """
    if wider is None:
        return 1.0
    shares = [0.0]
    for one in (one for one in found if one.found):
        x, y = fitted.used.read(0, len(one.neighbours))
        before = y - np.asarray(fitted.white(x)).reshape(y.shape)
        after = y - outputs_at(wider, x)
        if _dependence(one.kind, one.neighbours[:, :1], _cut_off(after)).found:
            left, common = (float(_products(residual, one.neighbours).mean()) for residual in (after, before))
            shares.append(left / max(common, TINY))
    return float(np.clip(max(shares), 0.0, 1.0))


def _products(residual: Array, neighbours: Array) -> Array:
    """Residuals times those of their first neighbours, the mean over outputs, for every row that has one."""
    first = neighbours[:, 0]
    return np.asarray(np.mean(residual[first >= 0] * residual[first[first >= 0]], axis=1))


def _among_inputs(x: Array, scaled: Array, most: int) -> Dependence:
    """Bets on the nearest of some rows, which are quick to find; more neighbours of all rows only where these pay."""
    kind, some = "with the nearest inputs", slice(DEPENDENCE.tree_rows)
    nearest = _nearest_by_products if x.shape[1] >= DEPENDENCE.products_from_dim else partial(_nearest, most=1)
    first = _dependence(kind, nearest(x[some]), scaled[some])
    if not first.found:
        return first
    whole = _dependence(kind, _nearest(x, most), scaled)
    return whole._replace(capital=max(first.capital, whole.capital))


def _cut_off(residual: Array) -> Array:
    """Residuals in units of `cut` root mean squares, at most 1 in size, of mean zero."""
    size = np.sqrt(np.mean(residual**2, axis=0))
    cut = np.clip(residual / (DEPENDENCE.cut * np.where(size > 0.0, size, 1.0)), -1.0, 1.0)
    centred = cut - cut.mean(axis=0)
    return np.asarray(centred / max(1.0, float(np.abs(centred).max())))


def _nearest(x: Array, most: int) -> Array:
    """The numbers of the nearest rows of every row, nearest first."""
    from scipy.spatial import cKDTree  # slow to import

    tree = cKDTree(x)
    some = range(0, len(x), DEPENDENCE.tree_rows)  # between calls an interrupt is answered
    near = np.concatenate([tree.query(x[start : start + DEPENDENCE.tree_rows], most + 1)[1] for start in some])
    own = near == np.arange(len(x))[:, None]
    own[~own.any(axis=1), -1] = True  # a row with many copies need not be among its own neighbours
    return np.asarray(near[~own].reshape(len(x), most))


def _nearest_by_products(x: Array) -> Array:
    """The number of the nearest row of every row, as a column: least is |z|²/2 - x·z."""
    found, halves = np.empty((len(x), 1), dtype=int), 0.5 * np.sum(x**2, axis=1)
    for start in range(0, len(x), DEPENDENCE.distance_rows):
        some = np.arange(start, min(start + DEPENDENCE.distance_rows, len(x)))
        beyond = halves - x[some] @ x.T
        beyond[some - start, some] = np.inf
        found[some, 0] = np.argmin(beyond, axis=1)
    return found


def _dependence(kind: str, neighbours: Array, scaled: Array) -> Dependence:
    """Bets on the first neighbours, each pair once, and how far dependence reaches."""
    first = neighbours[:, 0]
    once = (first >= 0) & ((first < np.arange(len(first))) | (first[first] != np.arange(len(first))))
    products = np.mean(scaled[once] * scaled[first[once]], axis=1)
    capital = capital_against(-products, 0.0, 1.0)
    reach = 0
    for other in neighbours.T:
        products = np.mean(scaled[other >= 0] * scaled[other[other >= 0]], axis=1)
        if products.mean() <= DEPENDENCE.sigmas * products.std() / np.sqrt(len(products)):
            break
        reach += 1
    return Dependence(kind, capital, reach, neighbours)


class RowInfluences(NamedTuple):
    """Of every row: its influence on the parameters H⁻¹ s_n (n, parameters), its slopes J (n, outputs, parameters), and J H⁻¹."""

    influences: Array
    slopes: Array
    reach: Array

    def leverage(self, low: Array, high: Array) -> Array:
        """J H⁻¹ Jᵀ of pairs of rows, the mean over outputs."""
        return np.asarray(np.einsum("nop,nop->n", self.reach[low], self.slopes[high]) / self.slopes.shape[1])


class Inflation(NamedTuple):
    """What dependence multiplies the variance of every parameter by, at least 1: for error bars, and by residuals as they are."""

    variance: Array
    as_seen: Array


def variance_inflation(rows: RowInfluences, found: Dependence, least: float) -> Inflation:
    """What dependence multiplies variances by.

    A fit pulls what neighbours have in common down by their joint leverage, as far as the residual of a row by its own (Bell and
    McCaffrey 2002): for error bars residuals are divided by 1 - the sum of the leverages of all pairs of the row, at `least`
    this. Evidence against a network is not made smaller by that: neighbours share what a wrong network leaves as well.
    """
    near, influences = found.neighbours[:, : found.reach], rows.influences
    first = np.repeat(np.arange(len(near)), near.shape[1])[near.ravel() >= 0]
    low, high = np.minimum(first, near.ravel()[near.ravel() >= 0]), np.maximum(first, near.ravel()[near.ravel() >= 0])
    pairs = np.unique(low * len(near) + high)  # once, whichever row is a neighbour of the other
    low, high = np.divmod(pairs, len(near))
    every = np.arange(len(near))
    alone = np.maximum(1.0 - rows.leverage(every, every), least)
    parts = [slice(begin, begin + len(near)) for begin in range(0, len(pairs), len(near))]
    joint = alone.copy()
    for part in parts:
        shared = rows.leverage(low[part], high[part])
        joint -= np.bincount(low[part], shared, len(near)) + np.bincount(high[part], shared, len(near))
    own = np.maximum(np.einsum("np,np->p", influences, influences), TINY)

    def inflation(scaled: Array) -> Array:
        cross = sum(np.einsum("np,np->p", scaled[low[part]], scaled[high[part]]) for part in parts)
        return np.asarray(np.maximum(1.0, 1.0 + 2.0 * cross / own))

    return Inflation(inflation(influences * (alone / np.clip(joint, 0.5 * alone, None))[:, None]), inflation(influences))


def dependence_claims(found: tuple[Dependence, ...], inflation: float) -> tuple[Claim, ...]:
    """That residuals of neighbours are independent, or that the intervals allow for it; `inflation` of standard errors, NaN where
    they do not."""
    return tuple(
        Claim(
            ClaimName.NEIGHBOURS, one.capital, 1.0 / DEPENDENCE.level, not one.found or (one.fades and inflation == inflation),
            "tested", f"what bets won that residuals of rows {one.kind} are alike" + (
                ": rows are independent of these." if not one.found else
                f": up to {one.reach} neighbours are. Standard errors allow for it, and are {inflation:.2g} times as large; what "
                "a unit must gain grows as well." if one.fades and inflation == inflation else
                ": rows are a series, or in groups, and standard errors do not hold. Name the groups (groups=), or give rows "
                "that are independent."))
        for one in found)
