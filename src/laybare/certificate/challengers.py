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
from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.fitted_network import FittedNetwork
from laybare.lines.assurance import AssuranceOptions
from laybare.numerics.linear_algebra import solve_spd
from laybare.numerics.shapes import Array
from laybare.solver.point import Point
from laybare.source import Source
from laybare.source.problem import prefix_or_all


@dataclass(frozen=True, kw_only=True)
class ChallengerOptions:
    """What challengers may use."""

    rows: int = 16_384  # Used rows that residual challengers read. Checked by `make bench`.
    screened_rows: int = 2048  # Rows on which first directions are compared. Checked by `make bench`.
    knots: int = 16  # Of a profile. Checked by `pytest tests/certificate/test_challengers.py`.
    rows_per_knot: int = 10  # Derived: a profile then follows a tenth of the noise at most.
    directions: int = 16  # Random ones, and at most as many of units and of inputs. Checked by `make bench`.
    contractions: int = 4  # Of the third moment of the residual. Checked by `pytest tests/certificate/test_challengers.py`.
    eigenvectors: int = 3  # Of each, and of the second moment. Checked by `pytest tests/certificate/test_challengers.py`.
    followed: int = 2  # Of the best directions. Checked by `make bench`.
    periodogram: int = 2048  # Frequencies whose power is compared. Checked by `make bench`.
    octaves: tuple[float, float] = (-1.0, 5.0)
    """Of their lengths, in white inputs. Derived: half a period to dozens between the largest and smallest of an input."""
    steps: int = 8  # Of directions, frequencies and factors. Checked by `pytest tests/certificate/test_challengers.py`.
    waves: int = 192  # Checked by `make bench`.
    upper_units: int = 64  # Random units of a second layer. Checked by `pytest tests/certificate/test_challengers.py`.
    trees: int = 20  # Checked by `pytest tests/certificate/test_challengers.py`.
    tree_levels: int = 2  # Of splits: interactions of two inputs. Convention: small trees, many of them.
    tree_share: float = 0.3  # Of its best fit that a tree adds. Checked by `pytest tests/certificate/test_challengers.py`.
    scales: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)  # Derived: octaves of frequencies, in white inputs.
    bets: tuple[float, ...] = (0.9, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005)  # Derived: shares of 1/b, about octaves.


OPTIONS = ChallengerOptions()

Differences = Callable[[Array, Array], Array]
"""(white inputs, outputs of the network there) -> outputs of the challenger less these."""


class Challenger(NamedTuple):
    """A name, and what a challenger adds to the network's outputs."""

    name: str
    adds: Differences


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
    bets = np.array(OPTIONS.bets) / max(most, np.finfo(float).tiny)
    won = np.maximum(np.multiply.outer(bets, mean * sizes - np.minimum(d, most)), -1.0 + 1e-12)
    gains = np.log1p(won).sum(axis=1) / design_effect
    return float(np.mean(np.exp(np.minimum(gains, 600.0))))


def upper_bound(d: Array, most: float, terms: BetTerms, sizes: Array | float = 1.0) -> float:
    """The smallest mean, per size, that bets at this level reject, or `most` if none is."""
    level, effect = terms
    low, high = float(np.minimum(d, most).mean()) if len(d) else most, most
    if not len(d) or capital_against(d, high, most, effect, sizes) < 1.0 / level:
        return most
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if capital_against(d, middle, most, effect, sizes) >= 1.0 / level else (middle, high)
    return high


def contest(
    name: str, adds: Differences, fitted: FittedNetwork, met: ResidualRows, seen: ResidualRows, terms: BetTerms
) -> Contest:
    """The challenger on rows that it `met` first; gains and losses count up to the largest on rows that it has `seen`."""
    before, least = _gains(adds, seen), fitted.rounding_variance / fitted.output_variance
    most, worst = max(float(before.max()), least), max(float(-before.min()), least)
    d = np.clip(_gains(adds, met), -worst, most)
    bound = float(np.sqrt(max(upper_bound(d, most, terms), 0.0)))
    return Contest(name, bound, capital_against(-d, 0.0, worst))


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


def _gains(adds: Differences, rows: ResidualRows) -> Array:
    """D of every row, a mean over outputs."""
    more = adds(rows.x, rows.outputs)
    return np.asarray(np.mean(more * (2.0 * rows.residual - more), axis=1))


def rows_of(fitted: FittedNetwork, source: Source, most: int) -> ResidualRows:
    """Rows of a source, at most so many, the same ones in every call."""
    part = prefix_or_all(source, most)
    x, y = part.read(0, part.size)
    outputs, unit = np.asarray(fitted.white(x)).reshape(y.shape), float(np.sqrt(fitted.output_variance))
    return ResidualRows(np.array(x), outputs / unit, (y - outputs) / unit)


def _take(rows: ResidualRows, chosen: Array) -> ResidualRows:
    return ResidualRows(*(part[chosen] for part in rows))


def point_challenger(name: str, point: Point, fitted: FittedNetwork) -> Challenger:
    """Another network in place of this one."""
    coefficients = point.coefficients / float(np.sqrt(fitted.output_variance))

    def adds(x: Array, outputs: Array) -> Array:
        return np.asarray(point.features(x, point.extended(x) @ point.units.T) @ coefficients - outputs)

    return Challenger(name, adds)


def meet_challengers(
    fitted: FittedNetwork, points: Sequence[Challenger], terms: BetTerms, *, rng: Generator
) -> tuple[Contest, ...]:
    """Every challenger's record: those that are networks on the fresh rows, those of the residual on the half of the used rows
    that they were not fitted to and the fresh ones. None where nothing but rounding is left."""
    if fitted.exact:
        return ()
    used, fresh = rows_of(fitted, fitted.used, OPTIONS.rows), rows_of(fitted, fitted.problem.fresh, OPTIONS.rows)
    half = rng.permutation(len(used.x)) < len(used.x) // 2
    seen, other = _take(used, half), _take(used, ~half)
    met = ResidualRows(*(np.concatenate(pair) for pair in zip(other, fresh, strict=True)))
    found = [contest(one.name, one.adds, fitted, fresh, used, terms) for one in points]
    if len(seen.x) >= 2 * OPTIONS.rows_per_knot:
        family = residual_challengers(seen, fitted.point, rng)
        found += [contest(one.name, one.adds, fitted, met, seen, terms) for one in family]
    return tuple(found)


def residual_challengers(seen: ResidualRows, point: Point, rng: Generator) -> tuple[Challenger, ...]:
    """All families of what the network leaves."""
    found = (ridge_function(seen, point, rng), single_wave(seen, rng), waves(seen, rng), boosted_trees(seen))
    return (*found, second_layer(seen, point, rng)) if point.width else found


def ridge_function(seen: ResidualRows, point: Point, rng: Generator) -> Challenger:
    """The profile along one direction that explains most of the residual: of units, inputs, curvature or chance, then moved by
    Gauss-Newton steps."""
    few = ResidualRows(*(part[: OPTIONS.screened_rows] for part in seen))
    fits = sorted((_Profile.fit(few, row) for row in _first_directions(seen, point, rng)), key=lambda one: one.loss)
    ended = [_moved(seen, _Profile.fit(seen, one.row)) for one in fits[: OPTIONS.followed]]
    best = min(ended, key=lambda one: one.loss)
    return Challenger("a function of one direction (parallel units, another bend)", lambda x, outputs: best(x))


def single_wave(seen: ResidualRows, rng: Generator) -> Challenger:
    """The wave of most power among many frequencies, of directions and lengths by chance, then moved by Gauss-Newton steps."""
    few = ResidualRows(*(part[: OPTIONS.screened_rows] for part in seen))
    rows = rng.standard_normal((OPTIONS.periodogram, few.x.shape[1]))
    rows *= (2.0 ** rng.uniform(*OPTIONS.octaves, len(rows)) / np.linalg.norm(rows, axis=1))[:, None]
    phases, residual = few.x.astype(np.float32) @ rows.T.astype(np.float32), few.residual.astype(np.float32)
    power = np.sum((np.cos(phases).T @ residual) ** 2 + (np.sin(phases).T @ residual) ** 2, axis=1)
    ended = [_moved(seen, _Wave.fit(seen, rows[i])) for i in np.argsort(-power)[: OPTIONS.followed]]
    best = min(ended, key=lambda one: one.loss)
    return Challenger("a wave along one direction", lambda x, outputs: best(x))


@runtime_checkable
class _Ridge(Protocol):
    """A function of one direction, fitted to a residual."""

    @property
    def row(self) -> Array: ...

    @property
    def loss(self) -> float: ...

    def refit(self, rows: ResidualRows, row: Array) -> Self:
        """Along another direction."""
        ...

    def step(self, rows: ResidualRows) -> Array:
        """How the direction moves."""
        ...


Ridge = TypeVar("Ridge", bound=_Ridge)


def _moved(rows: ResidualRows, here: Ridge) -> Ridge:
    """The function after Gauss-Newton steps of its direction."""
    for _ in range(OPTIONS.steps):
        ahead = here.refit(rows, here.row + here.step(rows))
        if not ahead.loss < here.loss:
            break
        here = ahead
    return here


def _loss(residual: Array, gram: Array, moment: Array, values: Array) -> float:
    """What a function leaves, from the sums of its fit."""
    return float(np.sum(residual**2) - np.sum(values * (2.0 * moment - gram @ values)))


def _row_step(z: Array, slope: Array, rest: Array) -> Array:
    """Least squares for what is left, on slope times inputs."""
    gram = (z * (slope**2).sum(axis=1)[:, None]).T @ z
    gram += (np.trace(gram) / len(gram) * 1e-6 + 1e-300) * np.eye(len(gram))
    return np.asarray(solve_spd(gram, (z * (slope * rest).sum(axis=1)[:, None]).sum(axis=0)[:, None])[:, 0])


class _Wave(NamedTuple):
    """A cosine and a sine of row·x: the row, their heights (2, outputs), and what they leave."""

    row: Array
    heights: Array
    loss: float

    @staticmethod
    def fit(rows: ResidualRows, row: Array) -> _Wave:
        """Least squares for the residual."""
        columns = _cosine_and_sine(rows.x @ row)
        gram, moment = columns.T @ columns, columns.T @ rows.residual
        heights = solve_spd(gram + np.eye(2), moment)
        return _Wave(row, heights, _loss(rows.residual, gram, moment, heights))

    def refit(self, rows: ResidualRows, row: Array) -> _Wave:
        return _Wave.fit(rows, row)

    def __call__(self, x: Array) -> Array:
        return np.asarray(_cosine_and_sine(x @ self.row) @ self.heights)

    def step(self, rows: ResidualRows) -> Array:
        """How the frequency moves."""
        slope = _cosine_and_sine(rows.x @ self.row)[:, ::-1] * [-1.0, 1.0] @ self.heights
        return _row_step(rows.x, slope, rows.residual - self(rows.x))


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


class _Profile(NamedTuple):
    """A piecewise linear function of one direction: unit row, knots, values there (knots, outputs), and what it leaves."""

    row: Array
    knots: Array
    values: Array
    loss: float

    @staticmethod
    def fit(rows: ResidualRows, row: Array) -> _Profile:
        """Least squares for the residual, the knots at quantiles."""
        row = row / np.linalg.norm(row)
        t = rows.x @ row
        count = max(3, min(OPTIONS.knots, len(t) // OPTIONS.rows_per_knot))
        knots = np.unique(np.quantile(t, np.linspace(0.0, 1.0, count)))
        left, share = _place(knots, t)
        count, right = len(knots), np.minimum(left + 1, len(knots) - 1)

        def total(at: Array, weights: Array) -> Array:
            return np.bincount(at, weights, count)

        gram = np.diag(total(left, (1.0 - share) ** 2) + total(right, share**2))
        between = total(left, share * (1.0 - share))
        gram += np.diag(between[:-1], 1) + np.diag(between[:-1], -1)
        moment = np.stack([total(left, (1.0 - share) * r) + total(right, share * r) for r in rows.residual.T], axis=1)
        values = solve_spd(gram + np.eye(count), moment)  # one row of zeros per knot: shrinkage
        return _Profile(row, knots, values, _loss(rows.residual, gram, moment, values))

    def refit(self, rows: ResidualRows, row: Array) -> _Profile:
        return _Profile.fit(rows, row)

    def __call__(self, x: Array) -> Array:
        left, share = _place(self.knots, x @ self.row)
        right = np.minimum(left + 1, len(self.knots) - 1)
        return np.asarray((1.0 - share)[:, None] * self.values[left] + share[:, None] * self.values[right])

    def step(self, rows: ResidualRows) -> Array:
        """How the direction moves."""
        left, _ = _place(self.knots, rows.x @ self.row)
        slopes = np.diff(self.values, axis=0) / np.maximum(np.diff(self.knots), 1e-12)[:, None]
        slope = slopes[np.minimum(left, len(slopes) - 1)] if len(slopes) else np.zeros((len(left), self.values.shape[1]))
        return _row_step(rows.x - np.outer(rows.x @ self.row, self.row), slope, rows.residual - self(rows.x))


def _place(knots: Array, t: Array) -> tuple[Array, Array]:
    """The knot to the left, and how far the way to the next; beyond the ends, the ends."""
    left = np.clip(np.searchsorted(knots, t, side="right") - 1, 0, max(0, len(knots) - 2))
    wide = np.diff(knots)[left] if len(knots) > 1 else np.ones(len(t))
    return left, np.clip((t - knots[left]) / wide, 0.0, 1.0)


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
    means, spreads = hidden.mean(axis=0), np.maximum(hidden.std(axis=0), np.finfo(np.float32).tiny)
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
    return Challenger(name, lambda x, outputs: np.asarray(features(x) @ coefficients))


class _Tree(NamedTuple):
    """For every inner node, level by level, the input that it asks and the cut of that input; values of the leaves."""

    inputs: Array
    cuts: Array
    values: Array

    def leaf(self, codes: Array) -> Array:
        """The leaf of rows, whose inputs are given by the number of cuts below them."""
        node, every = np.zeros(len(codes), dtype=int), np.arange(len(codes))
        for _ in range(OPTIONS.tree_levels):
            node = 2 * node + 1 + (codes[every, self.inputs[node]] > self.cuts[node])
        return np.asarray(node - len(self.inputs))


def boosted_trees(seen: ResidualRows) -> Challenger:
    """A sum of small trees, each a share of what fits best to what those before it leave."""
    few = _take(seen, np.arange(min(len(seen.x), OPTIONS.screened_rows)))
    cuts = np.quantile(few.x, np.linspace(0.0, 1.0, OPTIONS.knots + 1)[1:-1], axis=0)

    codes, left, trees = _cuts_below(cuts, few.x), few.residual.copy(), list[_Tree]()
    for _ in range(OPTIONS.trees):
        trees.append(_grown(codes, left))
        left -= trees[-1].values[trees[-1].leaf(codes)]

    asked, places = np.unique(np.concatenate([tree.inputs for tree in trees]), return_inverse=True)
    short = [tree._replace(inputs=own) for tree, own in zip(trees, places.reshape(len(trees), -1), strict=True)]

    def adds(x: Array, outputs: Array) -> Array:
        own = _cuts_below(cuts[:, asked], x[:, asked])
        return np.asarray(sum(tree.values[tree.leaf(own)] for tree in short))

    return Challenger("boosted trees", adds)


def _cuts_below(cuts: Array, x: Array) -> Array:
    """The number of cuts (cuts, inputs) below every input."""
    return np.stack([np.searchsorted(own, column) for own, column in zip(cuts.T, x.T, strict=True)], axis=1)


def _grown(codes: Array, left: Array) -> _Tree:
    """The tree whose splits, one level after the other, explain most; its leaves are shrunk."""
    (n, d), m, bins = codes.shape, left.shape[1], OPTIONS.knots
    node, inputs, cuts = np.zeros(n, dtype=int), np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    for level in range(OPTIONS.tree_levels):
        nodes = 2**level
        at = ((node[:, None] * d + np.arange(d)) * bins + codes).ravel()
        parts = [np.bincount(at, None if r is None else np.repeat(r, d), nodes * d * bins) for r in (None, *left.T)]
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
    return _Tree(inputs, cuts, OPTIONS.tree_share * values)
