"""Queries to a black box: counted by purpose, kept within a budget and a box, and stored with their answers.

Answers are stored in blocks. A stencil (one step along each axis from a centre) is stored as centre and steps, because its points
would take dim times the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, InvalidInput, NotSeparated
from laybare.lines.assurance import AssurancePlan, Assured
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding

BlackBox: TypeAlias = Callable[[Array], Array]
PurposeContext: TypeAlias = Callable[[str], AbstractContextManager[object]]
Purpose: TypeAlias = Literal["recognise", "kinks", "gradients", "checks", "folds", "corners", "polish", "verify", "assurance"]


Resolution: TypeAlias = Callable[[], Rounding | None]
"""The grid of probabilities seen so far."""

LARGEST_SD = 0.1
"""Of log-odds that are used, in units of the root of their roundoff. Derived: second differences then keep half of the digits."""


class QueryBox(NamedTuple):
    """The inputs that may be asked: low ≤ x ≤ high in every coordinate, both (dim,)."""

    low: Array
    high: Array


class Answers(NamedTuple):
    """Points (n, dim) and answers (n, outputs)."""

    x: Array
    y: Array


class Stencil(NamedTuple):
    """Answers (n, outputs) at centre + steps[i] · e_axes[i]."""

    centre: Array
    axes: Array
    steps: Array
    y: Array

    @property
    def points(self) -> Array:
        x = np.repeat(self.centre[None], len(self.axes), axis=0)
        x[np.arange(len(self.axes)), self.axes] += self.steps
        return x


class QueryCounter:
    """Asks a black box, counts queries by purpose and stores all answers.

    `resolution` gives the grid of the probabilities behind log-odds; None for outputs. `reach` is how far from their middle lines
    could be asked so far.
    """

    def __init__(
        self, black_box: BlackBox, *, budget: int | None = None, box: QueryBox | None = None,
        purpose: PurposeContext = nullcontext, resolution: Resolution | None = None, assurance: AssurancePlan | None = None,
    ) -> None:
        self._black_box = black_box
        self._purpose = purpose
        self._blocks: list[Answers | Stencil] = []
        self.budget = budget
        self.box = box
        self.resolution = resolution
        self.reach = np.inf
        self.assurance = assurance
        self._fresh: list[Answers] = []
        self.spent: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.spent.values())

    @property
    def left(self) -> int | None:
        """Queries that may still be asked; None without a budget."""
        return None if self.budget is None else self.budget - self.total

    def ask(self, x: Array, purpose: Purpose) -> Array:
        """Answers (n, outputs). Points that rounding put outside the box are moved onto it."""
        x = x if self.box is None else np.clip(x, self.box.low, self.box.high)
        y = self._checked(x, purpose)
        self._blocks.append(Answers(x, y))
        return y

    def ask_usable(self, x: Array, purpose: Purpose) -> Answers:
        """Points and answers where these can be used: probabilities that are not 0 or 1 to rounding, nor nearly."""
        x = x if self.box is None else np.clip(x, self.box.low, self.box.high)
        if not len(x):
            return Answers(x, np.empty((0, 1)))
        y = self._answered(x, purpose)
        good = np.isfinite(y).all(axis=1)
        grid = None if self.resolution is None else self.resolution()
        if grid is not None:
            good &= (grid.level(np.nan_to_num(y)) <= LARGEST_SD * np.sqrt(grid.unit)).all(axis=1)
        kept = Answers(x[good], y[good])
        self._blocks.append(kept)
        return kept

    def ask_where_usable(self, x: Array, purpose: Purpose) -> Answers:
        """All points with their answers; of log-odds those that can be used."""
        return Answers(x, self.ask(x, purpose)) if self.resolution is None else self.ask_usable(x, purpose)

    def ask_if_usable(self, x: Array, purpose: Purpose) -> Array | None:
        """Answers (n, outputs); None if a class is certain to rounding at one of the points: nothing is seen there."""
        if self.resolution is None:
            return self.ask(x, purpose)
        kept = self.ask_usable(x, purpose)
        return kept.y if len(kept.x) == len(x) else None

    def ask_stencil(self, centre: Array, axes: Array, steps: Array, purpose: Purpose) -> Array:
        """Answers (n, outputs) at centre + steps[i] · e_axes[i], all inside the box."""
        stencil = Stencil(centre, axes, steps, np.empty((0, 0)))
        stencil = stencil._replace(y=self._checked(stencil.points, purpose))
        self._blocks.append(stencil)
        return stencil.y

    def ask_assurance(self, dim: int, rng: Generator) -> tuple[Answers, Assured]:
        """Fresh answers that a finished network must predict, and what it shows if it does.

        What was asked for networks before is among the answers, but counts no more: to try again until one is met is no proof.
        """
        begun = self.spent.get("assurance", 0)
        if self.assurance is None:
            return Answers(np.empty((0, dim)), np.empty((0, 1))), Assured()
        points = self.assurance.points(begun, self.total - begun, self.left, rng)
        asked = [self._ask_fresh(part) for part in np.split(points.x, [points.of_law]) if len(part)]
        earlier, self._fresh = self._fresh, [*self._fresh, *asked]
        if not self._fresh:
            return Answers(np.empty((0, dim)), np.empty((0, 1))), Assured()
        every = Answers(*(np.vstack(parts) for parts in zip(*asked, *earlier, strict=True)))
        return every, points.assured(len(asked[0].x) if asked else 0)

    def _ask_fresh(self, x: Array) -> Answers:
        return self.ask_where_usable(x, "assurance")

    def count(self, queries: int, purpose: Purpose) -> None:
        """Count queries that were asked of the same black box elsewhere."""
        self.spent[purpose] = self.spent.get(purpose, 0) + queries

    def answers(self) -> Iterator[Answers]:
        """All points and answers, block by block, in the order of asking."""
        for block in self._blocks:
            yield block if isinstance(block, Answers) else Answers(block.points, block.y)

    def _answered(self, x: Array, purpose: Purpose) -> Array:
        """Answers (n, outputs), counted, as they are."""
        self._check_budget(len(x))
        with self._purpose(purpose):
            y = np.asarray(self._black_box(x), dtype=float)
        self.count(len(x), purpose)
        return y.reshape(len(x), -1)

    def _check_budget(self, asked: int) -> None:
        if self.left is not None and asked > self.left:
            raise BudgetExhausted(
                f"{asked} more queries were needed and {self.left} are left.",
                f"{self.total} of the {self.budget} queries that were granted are spent.", "Grant more queries.",
                spent=self.total, asked=asked)

    def _checked(self, x: Array, purpose: Purpose) -> Array:
        y = self._answered(x, purpose)
        if self.resolution is not None and not np.isfinite(y).all():
            raise NotSeparated(
                "A class is certain to rounding where the black box was asked.", "Its log-odds carry no information there.",
                "Ask nearer to inputs at which several classes are possible: give inputs=, or a box.")
        if not np.isfinite(y).all():
            raise InvalidInput(
                "The black box answered with NaN or infinity.", "All weights are computed from the answers.",
                "Look at the inputs of the last call; a box=(low, high) keeps queries where the answers are finite.")
        return y


class QueryContext(NamedTuple):
    """What every measurement needs: the queries, how exact their answers are, and random numbers."""

    queries: QueryCounter
    rounding: Rounding
    rng: Generator
