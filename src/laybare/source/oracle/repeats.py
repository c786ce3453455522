"""The same inputs asked again: does a black box have one answer for an input?

Some inputs are asked again at the end, in one call and in reverse order. Where all answers are the same, up to rounding, the
answers have no noise. Where they are not, the same call is made once more, then in the other order, and a few rows alone:

    the same call, other answers                                       noise, several models at random, or a drift (noisy)
    the same call, the same answers; others alone or in another order  answers depend on the rows beside them (batch)
    all calls agree, with other answers than before to most inputs     the black box has changed since (changed)
    all calls agree, with other answers than before to a few inputs    now and then it is answered otherwise (sometimes)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from laybare.numerics.shapes import Array
from laybare.source.oracle.oracle import Oracle
from laybare.source.rounding import Rounding, detect_grid

RepeatKind: TypeAlias = Literal["same", "batch", "changed", "sometimes", "noisy"]


@dataclass(frozen=True, kw_only=True)
class RepeatOptions:
    """How many inputs are asked again."""

    rows: int = 16  # Derived: a shift of one standard deviation of the noise is then seen at four of its standard errors.
    first_share: float = 0.5  # of them are the first that were asked, the others lie between. Checked by `pytest tests/hostile`.
    alone: int = 3  # rows that are asked alone, if answers differ. Checked by `pytest tests/hostile`.
    changed_share: float = 0.5  # of the inputs have other answers if the box has changed. Convention: most of them.
    max_budget_share: float = 0.05  # of the budget. Convention: a twentieth.
    roundings: float = 64.0
    """Roundings by which the same answer may differ in another batch. Derived: as `RoundingOptions.arithmetic`."""


REPEATS = RepeatOptions()


class RepeatedAnswers(NamedTuple):
    """Answers (n, outputs) to the same inputs: as first given, and near the end. `tol` (n,) is their rounding.

    Where they differ: `again`, the same call once more, `turned`, the same rows in the other order, and `alone`, its first rows
    in calls of their own; None if not asked.
    """

    first: Array
    last: Array
    tol: Array
    again: Array | None = None
    alone: Array | None = None
    turned: Array | None = None

    @property
    def differing(self) -> int:
        """The number of inputs with another answer."""
        return int(np.sum(_apart(self.first, self.last) > self.tol))

    @property
    def kind(self) -> RepeatKind:
        if not self.differing:
            return "same"
        if self.again is None or self.alone is None or (_apart(self.last, self.again) > self.tol).any():
            return "noisy"
        others = (self.alone, self.last if self.turned is None else self.turned)
        if any((_apart(self.last[: len(other)], other) > self.tol[: len(other)]).any() for other in others):
            return "batch"
        return "changed" if self.differing > REPEATS.changed_share * len(self.first) else "sometimes"

    @property
    def variance(self) -> float:
        """Of the noise, from the differences of answers to the same inputs."""
        rounds = [self.first, self.last, *(() if self.again is None else (self.again,))]
        return float(np.mean(np.var(np.stack(rounds), axis=0, ddof=1)))

    @property
    def degrees_of_freedom(self) -> int:
        return int(self.first.size * (1 if self.again is None else 2))


def reserved_queries(oracle: Oracle) -> int:
    """Queries of the budget that are left for asking again, with the further calls where answers differ."""
    return min(3 * REPEATS.rows + REPEATS.alone, int(REPEATS.max_budget_share * oracle.budget))


def ask_again(oracle: Oracle, x: Array, first: Array) -> RepeatedAnswers | None:
    """Ask some inputs again that were answered with `first`, as far as the budget goes; None if it is spent."""
    count = min(len(x), oracle.budget - oracle.spent, REPEATS.rows)
    if count < 1:
        return None
    x, first = x[:count], first[:count]
    last = _asked(oracle, x)
    usable = np.isfinite(last).all(axis=1) & np.isfinite(first).all(axis=1)
    if not usable.any():
        return None
    x, first, last = x[usable], first[usable], last[usable]
    tol = _rounding(oracle, x, np.vstack([first, last]))
    repeats = RepeatedAnswers(first, last, tol)
    if not repeats.differing or oracle.budget - oracle.spent < len(x):
        return repeats
    order = np.argsort(-_apart(first, last), kind="stable")  # those that differ most, first
    again, left = _asked(oracle, x)[order], oracle.budget - oracle.spent
    repeats = RepeatedAnswers(first[order], last[order], tol[order], again)
    alone = min(REPEATS.alone, left)
    if not alone:
        return repeats
    repeats = repeats._replace(alone=np.vstack([_asked(oracle, x[[i]]) for i in order[:alone]]))
    return repeats if left - alone < len(x) else repeats._replace(turned=_asked(oracle, x[::-1])[::-1][order])


def ask_earlier_queries_again(oracle: Oracle) -> RepeatedAnswers | None:
    """Ask again what was asked before: half of it the first queries, half spread over all of them."""
    oracle = oracle.as_given
    answered = oracle.answered()
    first = min(answered.size, int(REPEATS.first_share * REPEATS.rows))
    spread = np.linspace(min(first, answered.size - 1), answered.size - 1, REPEATS.rows - first).astype(int)
    rows = [answered.read(int(i), int(i) + 1) for i in np.unique([*range(first), *spread])]
    x, y = np.vstack([row.x for row in rows]), np.vstack([row.y for row in rows])
    if oracle.box is not None:  # which may be younger than the first points
        inside = np.setdiff1d(np.arange(len(x)), oracle.box.outside(x))
        x, y = x[inside], y[inside]
    return ask_again(oracle, x, y)


def _asked(oracle: Oracle, x: Array) -> Array:
    """Answers to one call with the rows in reverse order, in the order of x."""
    return np.asarray(oracle.ask(x[::-1], purpose="asked again", gaps=True)[::-1])


def _apart(one: Array, other: Array) -> Array:
    return np.asarray(np.abs(one - other).max(axis=1))


def _rounding(oracle: Oracle, x: Array, y: Array) -> Array:
    """Differences (n,) that rounding explains. Sums inside of a network grow with its input, and may cancel in the answer."""
    resolution = oracle.resolution
    grid: Rounding = detect_grid(y) if resolution is None else resolution() or detect_grid(y)
    size = np.linalg.norm(x - np.median(x, axis=0), axis=1)
    inside = grid.unit * float(np.median(np.abs(y))) * size / max(float(np.median(size)), 1e-300)
    level = grid.level(y).max(axis=1)
    return np.asarray(REPEATS.roundings * (np.maximum(level[: len(x)], level[len(x) :]) + inside))
