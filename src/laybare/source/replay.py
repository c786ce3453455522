"""Answers that are there before they are asked for: read from a log, or received by a call that failed half-way."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array
from laybare.source.answered import row_keys


class Saved(NamedTuple):
    """One answer as it came; `counted` if it has been counted as a query already."""

    answer: Array
    counted: bool


class Taken(NamedTuple):
    """Which rows had an answer waiting, those answers, and how many of them have not been counted yet."""

    known: Array
    answers: list[Array]
    uncounted: int


class Replay:
    """Every answer is given out once, to the point it belongs to, in the order in which it came.

    So a point that was asked five times, to see whether the answers differ, has five answers here, and the sixth is asked for.
    """

    def __init__(self) -> None:
        self._saved: dict[bytes, deque[Saved]] = {}

    def add(self, x: Array, answers: Array, *, counted: bool) -> None:
        """Keep these for when their points are asked for."""
        for key, answer in zip(row_keys(x), answers, strict=True):
            self._saved.setdefault(key, deque()).append(Saved(answer, counted))

    def counted(self, x: Array) -> int:
        """How many of these rows have an answer waiting that has been counted already."""
        if not self._saved:
            return 0
        heads = (self._saved.get(key) for key in set(row_keys(x)))
        return sum(saved.counted for head in heads if head for saved in head)

    def known(self, x: Array) -> Array:
        """Which of these rows have an answer waiting."""
        if not self._saved:
            return np.zeros(len(x), dtype=bool)
        return np.array([key in self._saved for key in row_keys(x)], dtype=bool)

    def take(self, x: Array) -> Taken:
        """Give out what is here for these rows."""
        known = np.zeros(len(x), dtype=bool)
        if not self._saved:
            return Taken(known, [], 0)
        taken: list[Saved] = []
        for row, key in enumerate(row_keys(x)):
            waiting = self._saved.get(key)
            if waiting:
                taken.append(waiting.popleft())
                known[row] = True
                if not waiting:
                    del self._saved[key]
        return Taken(known, [saved.answer for saved in taken], sum(not saved.counted for saved in taken))
