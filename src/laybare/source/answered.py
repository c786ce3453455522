"""Tables of what a black box was asked and what it answered, row by row, in pieces that never move."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array
from laybare.source.arrays import Stacked
from laybare.source.sums import GRAIN


class Stretch(NamedTuple):
    """Rows start..stop were asked for this purpose."""

    purpose: str
    start: int
    stop: int


class KnownAnswers(NamedTuple):
    """Which rows were looked up with success, and their answers (one row for each success)."""

    known: Array
    y: Array


def row_keys(x: Array) -> list[bytes]:
    """Sixteen bytes for every row; two different rows share them in no lifetime."""
    return [blake2b(row, digest_size=16).digest() for row in np.ascontiguousarray(x)]


class Table:
    """Points and their answers, in the order in which they came; at most `room` rows, later ones are not kept.

    Rows lie in pieces of a grain each. A row that is written never changes and never moves, so that whoever holds a piece may
    go on reading while more rows come.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.rows = 0
        self.stretches: list[Stretch] = []
        self._x: list[Array] = []
        self._y: list[Array] = []
        self._numbers: dict[bytes, int] = {}  # of rows 0.._indexed
        self._indexed = 0

    def append(self, x: Array, y: Array, purpose: str) -> None:
        """Keep as many of these rows as there is room for."""
        x, y = x[: self.room - self.rows], y[: self.room - self.rows]
        if len(x):
            self.stretches.append(Stretch(purpose, self.rows, self.rows + len(x)))
        while len(x):
            at = self.rows % GRAIN
            if at == 0:
                self._x.append(np.empty((GRAIN, x.shape[1])))
                self._y.append(np.empty((GRAIN, y.shape[1])))
            now = min(GRAIN - at, len(x))
            self._x[-1][at : at + now], self._y[-1][at : at + now] = x[:now], y[:now]
            self.rows += now
            x, y = x[now:], y[now:]

    def between(self, start: int, stop: int) -> tuple[Stacked, Stacked]:
        """Rows start..stop, not copied."""
        first, last = start // GRAIN, (stop - 1) // GRAIN + 1
        cuts = [slice(max(start - at * GRAIN, 0), min(stop - at * GRAIN, GRAIN)) for at in range(first, last)]
        x, y = ([piece[cut] for piece, cut in zip(pieces[first:last], cuts, strict=True)] for pieces in (self._x, self._y))
        for piece in (*x, *y):
            piece.setflags(write=False)
        return Stacked(x), Stacked(y)

    def find(self, x: Array) -> KnownAnswers:
        """The answers that are here already; keys of rows are made when they are first looked for."""
        for number, key in enumerate(self._new_keys(), start=self._indexed):
            self._numbers.setdefault(key, number)
        self._indexed = self.rows
        numbers = np.array([self._numbers.get(key, -1) for key in row_keys(x)], dtype=int)
        known = numbers >= 0
        y = [self._y[number // GRAIN][number % GRAIN] for number in numbers[known]]
        return KnownAnswers(known, np.array(y) if y else np.empty((0, 0)))

    def _new_keys(self) -> Iterable[bytes]:
        if self._indexed == self.rows:
            return []
        return row_keys(self.between(self._indexed, self.rows)[0][:])


def merged(stretches: Iterable[Stretch], purposes: tuple[str, ...]) -> list[Stretch]:
    """Stretches of these purposes (all, if none is named), neighbours put together."""
    runs: list[Stretch] = []
    for stretch in stretches:
        if purposes and stretch.purpose not in purposes:
            continue
        if runs and runs[-1].stop == stretch.start:
            runs[-1] = runs[-1]._replace(stop=stretch.stop)
        else:
            runs.append(stretch)
    return runs
