"""What was asked of a black box, by purpose, and every answer: the only thing in this package that changes.

Answers are kept in blocks. A star (one point and one step along each axis) is kept as its centre and its steps, because the
points themselves would take dim times the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.shapes import Array

Ask: TypeAlias = Callable[[Array], Array]
Booking: TypeAlias = Callable[[str], AbstractContextManager[object]]
Purpose: TypeAlias = Literal["recognise", "kinks", "gradients", "checks", "polish", "verify"]


class AskBox(NamedTuple):
    """The inputs that may be asked: low ≤ x ≤ high in every coordinate, both (dim,)."""

    low: Array
    high: Array


class Answers(NamedTuple):
    """Points (n, dim) and answers (n, outputs)."""

    x: Array
    y: Array


class Star(NamedTuple):
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


class Purse:
    """Asks within a budget and a box, counts by purpose, keeps everything; `log_odds`: answers were probabilities."""

    def __init__(
        self, ask: Ask, *, budget: int | None = None, box: AskBox | None = None, book: Booking = nullcontext,
        log_odds: bool = False,
    ) -> None:
        self._ask = ask
        self._book = book
        self._blocks: list[Answers | Star] = []
        self.budget = budget
        self.box = box
        self.log_odds = log_odds
        self.spent: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.spent.values())

    @property
    def left(self) -> int | None:
        """Queries that may still be asked; None if there is no limit."""
        return None if self.budget is None else self.budget - self.total

    def ask(self, x: Array, purpose: Purpose) -> Array:
        """Answers (n, outputs). Points that rounding put outside of the box are moved onto it."""
        x = x if self.box is None else np.clip(x, self.box.low, self.box.high)
        y = self._paid(x, purpose)
        self._blocks.append(Answers(x, y))
        return y

    def ask_star(self, centre: Array, axes: Array, steps: Array, purpose: Purpose) -> Array:
        """Answers (n, outputs) at centre + steps[i] · e_axes[i], all inside the box."""
        star = Star(centre, axes, steps, np.empty((0, 0)))
        star = star._replace(y=self._paid(star.points, purpose))
        self._blocks.append(star)
        return star.y

    def count(self, queries: int, purpose: Purpose) -> None:
        """Queries that somebody else has asked of the same black box."""
        self.spent[purpose] = self.spent.get(purpose, 0) + queries

    def answers(self) -> Iterator[Answers]:
        """All points and answers, block by block, in the order in which they were asked."""
        for block in self._blocks:
            yield block if isinstance(block, Answers) else Answers(block.points, block.y)

    def _paid(self, x: Array, purpose: Purpose) -> Array:
        if self.left is not None and len(x) > self.left:
            raise BudgetExhausted(
                f"{len(x)} more queries were needed and {self.left} are left.",
                f"{self.total} of the {self.budget} queries that were granted are spent.", "Grant more queries.",
                spent=self.total, asked=len(x))
        with self._book(purpose):
            y = np.asarray(self._ask(x), dtype=float)
        self.count(len(x), purpose)
        y = y.reshape(len(x), -1)
        if not np.isfinite(y).all():
            raise InvalidInput(
                "The black box answered with NaN or infinity.", "Every answer is a number that the weights follow from.",
                "Look at the inputs of the last call; a box=(low, high) keeps queries where the answers are finite.")
        return y
