"""Is the function elsewhere? Challengers, fitted to some rows, against the network on others, by betting.

On a row that no challenger g was fitted to, the network f is beaten by D = (y - f)² - (y - g)². A player who starts with 1 and
bets a share of what he has on "E D < δ²" has, after all rows,

    K(δ) = mean over λ of Π_n (1 + λ (δ² - D_n)),    0 < λ < 1/b,    D counts up to b.

If E D ≥ δ², no bet gains on average, so that K exceeds 1/α with probability α at most (Ville 1939), whatever the law of the rows,
in finite samples, however g was found. The smallest δ with K(δ) ≥ 1/α bounds what the challenger is better by. The largest of
these bounds holds at the same level for the whole list: if some challenger is better, it must be *its* bound that failed (Berger
1982). So one sentence follows for all of them: "beaten by none of these by more than δ". Bets the other way round show that a
challenger *is* better.

Five families are always tried on what the network leaves, and they are fitted to one half of the rows and meet the other:
*ridge functions*, any profile along one direction (Friedman and Stuetzle 1981), which are what parallel units, steps and bends of
another activation add up to; the *single wave* of many that explains most, at any frequency (Schuster 1898), which a profile of
a few knots does not follow; *waves* in random directions at several scales (Rahimi and Recht 2007), for what has no single
direction; units of a *second layer*, random ones on top of those that were found; and *boosted trees* (Friedman 2001), for jumps
and interactions of a few inputs. One unit more and units of other activations are fitted to all used rows, and meet the fresh
ones.
Source: Waudby-Smith and Ramdas (2024), section 4, for the bets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.fitted_network import FittedNetwork
from laybare.lines.assurance import AssuranceOptions
from laybare.numerics.levels import TINY
from laybare.numerics.linear_algebra import solve_spd
from laybare.numerics.shapes import Array
from laybare.solver.point import Point
from laybare.source import Source
from laybare.source.problem import prefix_or_all


@dataclass(frozen=True, kw_only=True)
class ChallengerOptions:
    """What challengers may use."""

    rows: int = 16_384  # Used rows that residual challengers read. Checked by `make bench`.
    rows_at_once: int = 2048  # Rows that a challenger meets at a time. Derived: 2 MB of features, a cache.
    screened_rows: int = 2048  # Rows on which first directions are compared. Checked by `make bench`.
    knots: int = 16  # Of a profile. Checked by `pytest tests/certificate/test_challengers.py`.
    rows_per_knot: int = 10  # Derived: a profile then follows a tenth of the noise at most.
    directions: int = 16  # Random ones, and at most as many of units and of inputs. Checked by `make bench`.
    contractions: int = 4  # Of the third moment of the residual. Checked by `pytest tests/certificate/test_challengers.py`.
    eigenvectors: int = 3  # Of each, and of the second moment. Checked by `pytest tests/certificate/test_challengers.py`.
    followed: int = 2  # Of the best directions. Checked by `make bench`.
    periodogram: int = 48
    """Waves in each of two lists, whose sums and differences are the frequencies that are compared. Checked by `make bench`."""
    octaves: tuple[float, float] = (-1.0, 5.0)
    """Of their lengths, in white inputs. Derived: half a period to dozens between the largest and smallest of an input."""
    least_step: float = 0.01  # Share of what is explained that a step must add. Convention: two digits are enough to compare.
    steps: int = 8  # Of directions, frequencies and factors. Checked by `pytest tests/certificate/test_challengers.py`.
    waves: int = 192  # Checked by `make bench`.
    upper_units: int = 64  # Random units of a second layer. Checked by `pytest tests/certificate/test_challengers.py`.
    trees: int = 20  # Checked by `pytest tests/certificate/test_challengers.py`.
    tree_levels: int = 2  # Of splits: interactions of two inputs. Convention: small trees, many of them.
    tree_share: float = 0.3  # Of its best fit that a tree adds. Checked by `pytest tests/certificate/test_challengers.py`.
    scales: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)  # Derived: octaves of frequencies, in white inputs.
    bound_tol: float = 1e-6  # By which the capital may exceed what a bound takes. Derived: a bound of six digits.
    bets: tuple[float, ...] = (0.9, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005)  # Derived: shares of 1/b, about octaves.


OPTIONS = ChallengerOptions()

LEAST_LEFT = 1e-12
"""Share of a capital that a bet leaves at least. Derived: 16 such shares are far from the smallest double."""

ROWS_PER_PRODUCT = 16
"""Rows whose bets are multiplied before a logarithm is taken. Derived: as above; a logarithm costs a dozen products."""

Differences = Callable[[Array, Array], Array]
"""(white inputs, outputs of the network there) -> outputs of the challenger less these."""


class Challenger(NamedTuple):
    """A name, what a challenger adds to the network's outputs, and, if known, what it adds to the rows that it was fitted to."""

    name: str
    adds: Differences
    fitted: Array | None = None

    def on_fitted(self, x: Array, outputs: Array) -> Array:
        """What it adds to the rows that it was fitted to."""
        return self.adds(x, outputs) if self.fitted is None else self.fitted


class Contest(NamedTuple):
    """A challenger's record: its name, the bound on what it is better by at the level asked for, as a standard deviation over
    that of y; and the capital of those who bet that it is better."""

    name: str
    bound: float
    capital: float


class BetTerms(NamedTuple):
    """The level of the bounds, and the design effect D of dependent rows: each bet is made about D times there, so that the
    logarithm of what bounds gain is divided by D. Bets that a challenger is better count in full: where one wins, what rows have
    in common may be its function."""

    level: float
    design_effect: float = 1.0


def capital_against(d: Array, mean: float, most: float, design_effect: float = 1.0, sizes: Array | float = 1.0) -> float:
    """K, the capital of bets that E d < `mean` E size, for values that count up to `most`, of rows that count as fewer by a
    factor."""
    bets = np.array(OPTIONS.bets) / max(most, TINY)
    won = np.multiply.outer(bets, mean * sizes - np.minimum(d, most))
    won += 1.0
    np.maximum(won, LEAST_LEFT, out=won)
    products = np.multiply.reduceat(won, np.arange(0, len(d), ROWS_PER_PRODUCT), axis=1)  # fewer logarithms
    gains = np.log(products).sum(axis=1) / design_effect
    return float(np.mean(np.exp(np.minimum(gains, 600.0))))


def upper_bound(d: Array, most: float, terms: BetTerms, sizes: Array | float = 1.0) -> float:
    """The smallest mean, per size, that bets at this level reject, or `most` if none is."""

    def excess(mean: float) -> float:
        """Logarithm of the capital over what rejects."""
        return float(np.log(max(terms.level * capital_against(d, mean, most, terms.design_effect, sizes), TINY)))

    if not len(d) or not np.isfinite(most):
        return most
    counted = np.minimum(d, most)
    low = high = float(counted.mean())
    below, above, step = -np.inf, excess(high), float(counted.std()) / np.sqrt(len(d))
    while above < 0.0:
        if high >= most:
            return most
        low, below, step = high, above, 4.0 * step
        high = min(most, max(low + step, float(np.nextafter(low, np.inf))))
        above = excess(high)
    return root_from_above(excess, (low, below), (high, above), OPTIONS.bound_tol)


def root_from_above(
    function: Callable[[float], float], low: tuple[float, float], high: tuple[float, float], tol: float
) -> float:
    """A place where an increasing function is at least zero and at most `tol`, between two places with values of both signs.

    Secants through both ends; the value of an end that stays twice is halved (Illinois: Dowell and Jarratt 1971).
    """
    (left, below), (right, above), kept, value = low, high, 0, high[1]
    while value > tol and left < (middle := (left * above - right * below) / (above - below)) < right:
        found = function(middle)
        if found < 0.0:
            left, below, above, kept = middle, found, above * (0.5 if kept > 0 else 1.0), 1
        else:
            right, above, value, below, kept = middle, found, found, below * (0.5 if kept < 0 else 1.0), -1
    return right


def contest(one: Challenger, fitted: FittedNetwork, met: ResidualRows, seen: ResidualRows, terms: BetTerms) -> Contest:
    """The challenger on rows that it `met` first; gains and losses count up to the largest on rows that it has `seen`."""
    before = _gains(one.on_fitted(seen.x, seen.outputs), seen)
    least = fitted.rounding_variance / fitted.output_variance
    most, worst = max(float(before.max()), least), max(float(-before.min()), least)
    starts = range(0, len(met.x), OPTIONS.rows_at_once)
    parts = (_take(met, slice(start, start + OPTIONS.rows_at_once)) for start in starts)
    d = np.clip(np.concatenate([_gains(one.adds(part.x, part.outputs), part) for part in parts]), -worst, most)
    bound = float(np.sqrt(max(upper_bound(d, most, terms), 0.0)))
    return Contest(one.name, bound, capital_against(-d, 0.0, worst))


def challengers_claim(met: Sequence[Contest], wanted: AssuranceOptions, exact: bool) -> Claim:
    """That no challenger is better by more than the resolution, and that none is better for sure."""
    if not met:
        text = "nothing but rounding is left: none predicts better." if exact else "there was none to try."
        return Claim(ClaimName.CHALLENGERS, 0.0, wanted.resolution, True, "tested", text)
    bound, best = max(one.bound for one in met), max(met, key=lambda one: one.capital)
    if best.capital >= 1.0 / wanted.level:
        return Claim(
            ClaimName.CHALLENGERS, best.capital, 1.0 / wanted.level, False, "tested",
            f"what bets won, over their stake, that unseen rows are predicted better by {best.name}.",
            decisive=best.capital >= 10.0**RULES.refuting_evidence)
    names = ", ".join(one.name for one in met)
    return Claim(
        ClaimName.CHALLENGERS, bound, wanted.resolution, bound <= wanted.resolution, "tested",
        f"none of {len(met)} challengers ({names}) predicts unseen rows better by more than {bound:.2g} standard deviations of "
        f"y, at the level {wanted.level:g}.")


class ResidualRows(NamedTuple):
    """White inputs, outputs of the network, and residuals, in standard deviations of y."""

    x: Array
    outputs: Array
    residual: Array


def _gains(more: Array, rows: ResidualRows) -> Array:
    """D of every row where so much is added, a mean over outputs."""
    return np.asarray(np.mean(more * (2.0 * rows.residual - more), axis=1))


def rows_of(fitted: FittedNetwork, source: Source, most: int) -> ResidualRows:
    """Rows of a source, at most so many, the same ones in every call."""
    part = prefix_or_all(source, most)
    x, y = part.read(0, part.size)
    outputs, unit = np.asarray(fitted.white(x)).reshape(y.shape), float(np.sqrt(fitted.output_variance))
    return ResidualRows(np.array(x), outputs / unit, (y - outputs) / unit)


def _take(rows: ResidualRows, chosen: Array | slice) -> ResidualRows:
    return ResidualRows(*(part[chosen] for part in rows))


def point_challenger(name: str, point: Point, fitted: FittedNetwork) -> Challenger:
    """Another network in place of this one."""
    coefficients = point.coefficients / float(np.sqrt(fitted.output_variance))

    def adds(x: Array, outputs: Array) -> Array:
        return np.asarray(point.features(x, point.extended(x) @ point.units.T) @ coefficients - outputs)

    return Challenger(name, adds)


class FittedChallengers(NamedTuple):
    """Families that were fitted to what the network leaves on rows that they have `seen`, and rows that they have not."""

    family: tuple[Challenger, ...]
    seen: ResidualRows
    unseen: ResidualRows
    used: ResidualRows
    fresh: ResidualRows


def fit_challengers(fitted: FittedNetwork, rng: Generator) -> FittedChallengers | None:
    """All families of what the network leaves, fitted to half of the used rows; the other half and the fresh rows are unseen.
    None where nothing but rounding is left."""
    if fitted.exact:
        return None
    used, fresh = rows_of(fitted, fitted.used, OPTIONS.rows), rows_of(fitted, fitted.problem.fresh, OPTIONS.rows)
    half = rng.permutation(len(used.x)) < len(used.x) // 2
    seen, other = _take(used, half), _take(used, ~half)
    enough = len(seen.x) >= 2 * OPTIONS.rows_per_knot
    family = residual_challengers(seen, fitted.point, rng) if enough else ()
    return FittedChallengers(family, seen, ResidualRows(*map(np.concatenate, zip(other, fresh, strict=True))), used, fresh)


def meet_challengers(
    fitted: FittedNetwork, points: Sequence[Challenger], families: FittedChallengers | None, terms: BetTerms
) -> tuple[Contest, ...]:
    """Every challenger's record: those that are networks on the fresh rows, those of the residual on rows that they have not
    seen. None where nothing but rounding is left."""
    if families is None:
        return ()
    family, seen, unseen, used, fresh = families
    of_points = (partial(contest, one, fitted, fresh, used, terms) for one in points)
    return tuple(fitted.run_parallel(*of_points, *(partial(contest, one, fitted, unseen, seen, terms) for one in family)))


def residual_challengers(seen: ResidualRows, point: Point, rng: Generator) -> tuple[Challenger, ...]:
    """All families of what the network leaves."""
    found = (ridge_function(seen, point, rng), single_wave(seen, rng), waves(seen, rng), boosted_trees(seen))
    return (*found, second_layer(seen, point, rng)) if point.width else found


def ridge_function(seen: ResidualRows, point: Point, rng: Generator) -> Challenger:
    """The profile along one direction that explains most of the residual: of units, inputs, curvature or chance, then moved by
    Gauss-Newton steps."""
    few = _first_rows(seen)
    rows = _first_directions(few, point, rng)
    return _best_ridge("a function of one direction (parallel units, another bend)", seen, [
        _Profile.fit(seen, rows[i]) for i in np.argsort(_screened_losses(few, rows))[: OPTIONS.followed]])


def single_wave(seen: ResidualRows, rng: Generator) -> Challenger:
    """The wave of most power among many frequencies, of directions and lengths by chance, then moved by Gauss-Newton steps.

    The frequencies are sums and differences of two short lists: by the addition theorems, four products of matrices are enough.
    """
    few, (half, d) = _first_rows(seen), (OPTIONS.periodogram, seen.x.shape[1])
    rows = rng.standard_normal((2 * half, d))
    rows *= (2.0 ** rng.uniform(*OPTIONS.octaves, len(rows)) / np.linalg.norm(rows, axis=1))[:, None]
    phases, power = few.x.astype(np.float32) @ rows.T.astype(np.float32), np.zeros((2, half, half))
    (c, other_c), (s, other_s) = (np.split(part, 2, axis=1) for part in (np.cos(phases), np.sin(phases)))
    for r in few.residual.astype(np.float32).T[:, :, None]:
        cc, cs, sc, ss = ((r * own).T @ other for own in (c, s) for other in (other_c, other_s))
        power += [(cc - ss) ** 2 + (cs + sc) ** 2, (cc + ss) ** 2 + (sc - cs) ** 2]
    frequencies = np.stack([rows[:half, None] + rows[half:], rows[:half, None] - rows[half:]]).reshape(-1, d)
    strongest = np.argsort(-power, axis=None)[: OPTIONS.followed]
    return _best_ridge("a wave along one direction", seen, [_Wave.fit(seen, frequencies[i]) for i in strongest])


def _first_rows(seen: ResidualRows) -> ResidualRows:
    return _take(seen, slice(OPTIONS.screened_rows))


@runtime_checkable
class _Ridge(Protocol):
    """A function of one direction, fitted to a residual."""

    @property
    def row(self) -> Array: ...

    @property
    def loss(self) -> float: ...

    @property
    def fitted(self) -> Array:
        """Its values on the rows that it was fitted to."""
        ...

    def __call__(self, x: Array) -> Array: ...

    def refit(self, rows: ResidualRows, row: Array) -> Self:
        """Along another direction."""
        ...

    def step(self, inputs: Array, residual: Array) -> Array:
        """How the direction moves, by the rows that it was fitted to, with inputs in single precision."""
        ...


Ridge = TypeVar("Ridge", bound=_Ridge)


def _best_ridge(name: str, rows: ResidualRows, begun: Sequence[Ridge]) -> Challenger:
    """The best of some functions after Gauss-Newton steps of their directions."""
    inputs = rows.x.astype(np.float32)
    best = min((_moved(rows, inputs, one) for one in begun), key=lambda one: one.loss)
    return Challenger(name, lambda x, outputs: best(x), best.fitted)


def _moved(rows: ResidualRows, inputs: Array, here: Ridge) -> Ridge:
    """The function after Gauss-Newton steps of its direction, as long as these explain more."""
    whole = float(np.sum(rows.residual**2))
    for _ in range(OPTIONS.steps):
        ahead = here.refit(rows, here.row + here.step(inputs, rows.residual))
        gained = here.loss - ahead.loss
        here = ahead if gained > 0.0 else here
        if not gained > OPTIONS.least_step * (whole - here.loss):
            break
    return here


def _row_step(inputs: Array, slope: Array, rest: Array) -> tuple[Array, Array]:
    """Normal equations of a step of the direction: slope times inputs are fitted to what is left."""
    scaled = inputs * np.sqrt(np.sum(slope**2, axis=1)).astype(inputs.dtype)[:, None]
    return np.dot(scaled.T, scaled).astype(float), inputs.T @ np.sum(slope * rest, axis=1).astype(inputs.dtype)


def _solve_step(gram: Array, moment: Array) -> Array:
    gram[np.diag_indices(len(gram))] += np.trace(gram) / len(gram) * 1e-6 + 1e-300
    return np.asarray(solve_spd(gram, moment.astype(float)))


class _Wave(NamedTuple):
    """A cosine and a sine of row·x: the row, their heights (2, outputs), what they leave, and their values (rows, 2)."""

    row: Array
    heights: Array
    loss: float
    columns: Array

    @staticmethod
    def fit(rows: ResidualRows, row: Array) -> _Wave:
        """Least squares for the residual."""
        columns = _cosine_and_sine(rows.x @ row)
        gram, moment = columns.T @ columns, columns.T @ rows.residual
        heights = solve_spd(gram + np.eye(2), moment)
        loss = float(np.sum(rows.residual**2) - np.sum(heights * (2.0 * moment - gram @ heights)))
        return _Wave(row, heights, loss, columns)

    @property
    def fitted(self) -> Array:
        return np.asarray(self.columns @ self.heights)

    def __call__(self, x: Array) -> Array:
        return np.asarray(_cosine_and_sine(x @ self.row) @ self.heights)

    def refit(self, rows: ResidualRows, row: Array) -> _Wave:
        return _Wave.fit(rows, row)

    def step(self, inputs: Array, residual: Array) -> Array:
        """How the frequency moves."""
        slope = self.columns[:, ::-1] * [-1.0, 1.0] @ self.heights
        return _solve_step(*_row_step(inputs, slope, residual - self.fitted))


def _cosine_and_sine(t: Array) -> Array:
    return np.column_stack([np.cos(t), np.sin(t)])


def _first_directions(rows: ResidualRows, point: Point, rng: Generator) -> Array:
    """Of units, of inputs, by chance, and of the second and third moments of the residual, which profiles bend."""
    d, most, r = rows.x.shape[1], OPTIONS.directions, rows.residual.sum(axis=1)
    chosen = [point.units[:most, :d], np.eye(d)[:most], rng.standard_normal((most, d))]
    for weights in (r, *(r * (rows.x @ u) for u in rng.standard_normal((OPTIONS.contractions, d)))):
        values, vectors = np.linalg.eigh((rows.x * weights[:, None]).T @ rows.x)
        chosen.append(vectors.T[np.argsort(-np.abs(values))[: OPTIONS.eigenvectors]])
    stacked = np.vstack(chosen)
    lengths = np.linalg.norm(stacked, axis=1)
    return np.asarray(stacked[lengths > 0.0] / lengths[lengths > 0.0, None])


def _knots(t: Array, rows: int) -> Array:
    """Quantiles, no more than so many rows allow."""
    count = max(3, min(OPTIONS.knots, rows // OPTIONS.rows_per_knot))
    return np.unique(np.quantile(t, np.linspace(0.0, 1.0, count)))


def _screened_losses(few: ResidualRows, rows: Array) -> Array:
    """What profiles along each of these directions leave, with knots in common: white inputs spread alike in all directions."""
    t = few.x @ rows.T
    return _fit_profiles(_place(_knots(t, len(t)), t), few.residual)[1]


class _Places(NamedTuple):
    """Of values t of several directions: the knot to the left, and how far the way to the next; beyond the ends, the ends."""

    left: Array
    share: Array
    knots: int


def _place(knots: Array, t: Array) -> _Places:
    left = np.zeros(t.shape, dtype=np.int8)
    for knot in knots[1:-1]:  # few: a search takes four times as long
        left += t >= knot
    left = left.astype(int)
    wide = np.diff(knots)[left] if len(knots) > 1 else np.ones(t.shape)
    return _Places(left, np.clip((t - knots[left]) / wide, 0.0, 1.0), len(knots))


def _fit_profiles(at: _Places, residual: Array) -> tuple[Array, Array]:
    """Values at the knots (directions, knots, outputs) by least squares for the residual, for every direction, and what they
    leave. One row of zeros per knot: shrinkage."""
    count, directions = at.knots, at.left.shape[1]
    places = (at.left + count * np.arange(directions)).ravel()

    def sums(weights: Array | None) -> Array:
        return np.bincount(places, None if weights is None else weights.ravel(), count * directions).reshape(directions, count)

    total, one, two = sums(None), sums(at.share), sums(at.share**2)
    gram, i = np.zeros((directions, count, count)), np.arange(count)
    gram[:, i, i] = total - 2.0 * one + two
    gram[:, i[1:], i[1:]] += two[:, :-1]
    gram[:, i[:-1], i[1:]] = gram[:, i[1:], i[:-1]] = (one - two)[:, :-1]
    moment = np.empty((directions, count, residual.shape[1]))
    for output, r in enumerate(residual.T):
        whole, right = sums(np.broadcast_to(r[:, None], at.share.shape)), sums(at.share * r[:, None])
        moment[:, :, output] = whole - right
        moment[:, 1:, output] += right[:, :-1]
    values = np.linalg.solve(gram + np.eye(count), moment)
    return values, np.sum(residual**2) - np.sum(values * (2.0 * moment - gram @ values), axis=(1, 2))


class _Profile(NamedTuple):
    """A piecewise linear function of one direction: unit row, knots, values there (knots, outputs), what it leaves, and the
    places of the rows among the knots."""

    row: Array
    knots: Array
    values: Array
    loss: float
    places: _Places

    @staticmethod
    def fit(rows: ResidualRows, row: Array) -> _Profile:
        """Least squares for the residual, the knots at quantiles."""
        row = row / np.linalg.norm(row)
        t = rows.x @ row
        knots = _knots(t, len(t))
        at = _place(knots, t[:, None])
        (values,), (loss,) = _fit_profiles(at, rows.residual)
        return _Profile(row, knots, values, float(loss), at)

    @property
    def fitted(self) -> Array:
        return self._values_at(self.places)

    def __call__(self, x: Array) -> Array:
        return self._values_at(_place(self.knots, (x @ self.row)[:, None]))

    def refit(self, rows: ResidualRows, row: Array) -> _Profile:
        return _Profile.fit(rows, row)

    def step(self, inputs: Array, residual: Array) -> Array:
        """How the direction moves, across itself."""
        wide = np.maximum(np.diff(self.knots, append=np.inf), 1e-12)
        slopes = np.diff(self.values, axis=0, append=self.values[-1:]) / wide[:, None]
        gram, moment = _row_step(inputs, slopes[self.places.left[:, 0]], residual - self.fitted)
        across = np.eye(len(gram)) - np.outer(self.row, self.row)
        return _solve_step(across @ gram @ across, across @ moment)

    def _values_at(self, at: _Places) -> Array:
        right = np.minimum(at.left[:, 0] + 1, len(self.knots) - 1)
        return np.asarray((1.0 - at.share) * self.values[at.left[:, 0]] + at.share * self.values[right])


def waves(seen: ResidualRows, rng: Generator) -> Challenger:
    """Cosines of random frequencies at every scale."""
    d, count = seen.x.shape[1], _feature_count(seen, OPTIONS.waves)
    scales = np.resize(np.array(OPTIONS.scales), count) / np.sqrt(d)
    rows, phases = scales[:, None] * rng.standard_normal((count, d)), rng.uniform(0.0, 2.0 * np.pi, count)
    single, shifts = rows.astype(np.float32), phases.astype(np.float32)  # five digits are plenty
    return _ridge_regression("waves in all directions", seen, lambda x: np.cos(x.astype(np.float32) @ single.T + shifts))


def second_layer(seen: ResidualRows, point: Point, rng: Generator) -> Challenger:
    """Random units on top of those that were found."""
    hidden = point.activation(point.extended(seen.x) @ point.units.T)
    means, spreads = hidden.mean(axis=0), np.maximum(hidden.std(axis=0), float(np.finfo(np.float32).tiny))
    count = _feature_count(seen, OPTIONS.upper_units)
    rows = rng.standard_normal((count, point.width)) / (np.sqrt(max(1, point.width)) * spreads)
    shifts = (rng.standard_normal(len(rows)) - rows @ means).astype(np.float32)

    def features(x: Array) -> Array:
        below = point.activation(point.extended(x) @ point.units.T).astype(np.float32)
        return np.asarray(point.activation(below @ rows.astype(np.float32).T + shifts))

    return _ridge_regression("a second layer", seen, features)


def _feature_count(seen: ResidualRows, most: int) -> int:
    return max(len(OPTIONS.scales), min(most, len(seen.x) // OPTIONS.rows_per_knot))


def _ridge_regression(name: str, seen: ResidualRows, features: Callable[[Array], Array]) -> Challenger:
    """A linear function of features, with the penalty of least generalised cross-validation."""
    n, shown = len(seen.x), features(seen.x)
    values, vectors = np.linalg.eigh((shown.T @ shown).astype(np.float64))
    values, along = np.maximum(values, 0.0), vectors.T @ (shown.T @ seen.residual)
    total = float(np.sum(seen.residual**2))
    best = (np.inf, np.zeros((len(values), seen.residual.shape[1])))
    for penalty in n * 10.0 ** np.arange(-4.0, 3.0):
        shrunk = along / (values + penalty)[:, None]
        left = total - float(np.sum(shrunk * (2.0 * along - values[:, None] * shrunk)))
        free = n - float(np.sum(values / (values + penalty)))
        best = min(best, (left / free**2, vectors @ shrunk), key=lambda one: one[0])
    coefficients = best[1]
    return Challenger(name, lambda x, outputs: np.asarray(features(x) @ coefficients), shown @ coefficients)


class _Trees(NamedTuple):
    """For every inner node of every tree, level by level, the input that it asks and the largest value that goes left; values of
    the leaves (trees, leaves, outputs)."""

    inputs: Array
    largest: Array
    values: Array

    def __call__(self, x: Array) -> Array:
        """The sum of all trees."""
        trees, leaves, outputs = self.values.shape
        leaf = np.zeros((len(x), trees), dtype=int)
        for level in range(OPTIONS.tree_levels):
            nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
            right = x[:, self.inputs[:, nodes]] > self.largest[:, nodes]
            leaf = 2 * leaf + np.take_along_axis(right, leaf[:, :, None], axis=2)[:, :, 0]
        return np.asarray(self.values.reshape(-1, outputs)[leaf + leaves * np.arange(trees)].sum(axis=1))


def boosted_trees(seen: ResidualRows) -> Challenger:
    """A sum of small trees, each a share of what fits best to what those before it leave."""
    few = _first_rows(seen)
    cuts = np.quantile(few.x, np.linspace(0.0, 1.0, OPTIONS.knots + 1)[1:-1], axis=0)
    codes, left, grown = sum((few.x > cut).astype(int) for cut in cuts), few.residual.copy(), []
    for _ in range(OPTIONS.trees):
        inputs, asked, values, leaf = _grown(codes, left)
        left -= values[leaf]
        grown.append((inputs, np.vstack([cuts, np.full(few.x.shape[1], np.inf)])[asked, inputs], values))
    trees = _Trees(*map(np.stack, zip(*grown, strict=True)))
    return Challenger("boosted trees", lambda x, outputs: trees(x))


def _grown(codes: Array, left: Array) -> tuple[Array, Array, Array, Array]:
    """Of the tree whose splits, one level after the other, explain most: inputs and cuts of its nodes, values of its leaves,
    which are shrunk, and the leaf of every row. Inputs are given by the number of cuts below them."""
    (n, d), m, bins = codes.shape, left.shape[1], OPTIONS.knots
    node, inputs, cuts = np.zeros(n, dtype=int), np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    places, weights = codes + bins * np.arange(d), [None, *(np.repeat(r, d) for r in left.T)]
    for level in range(OPTIONS.tree_levels):
        nodes = 2**level
        at = (places + (d * bins) * node[:, None]).ravel()
        parts = (np.bincount(at, weight, nodes * d * bins) for weight in weights)
        counts, *sums = (np.cumsum(part.reshape(nodes, d, bins), axis=2) for part in parts)
        others = counts[:, :, -1:] - counts
        gains = sum(own**2 / np.maximum(counts, 1) + (own[:, :, -1:] - own) ** 2 / np.maximum(others, 1) for own in sums)
        gains = np.where(np.minimum(counts, others) >= OPTIONS.rows_per_knot, gains, 0.0).reshape(nodes, -1)
        asked, cut = np.divmod(np.argmax(gains, axis=1), bins)
        inputs, cuts = np.append(inputs, asked), np.append(cuts, cut)
        node = 2 * node + (codes[np.arange(n), asked[node]] > cut[node])
    leaves = 2**OPTIONS.tree_levels
    size = np.bincount(node, minlength=leaves) + OPTIONS.rows_per_knot
    values = np.stack([np.bincount(node, r, leaves) / size for r in left.T], axis=1).reshape(leaves, m)
    return inputs, cuts, OPTIONS.tree_share * values, node
