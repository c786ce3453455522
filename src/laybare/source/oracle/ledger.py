"""What was asked of a black box, its answers and their number: the only mutable part of a source."""

from __future__ import annotations

import copy
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput, LaybareError
from laybare.numerics.shapes import Array
from laybare.source.oracle.links import Link
from laybare.source.oracle.transport import AnswerBatch, QueryTransport, RemoteTarget
from laybare.source.samples import StackedArrays, row_keys
from laybare.source.sums import GRAIN


class PurposeRange(NamedTuple):
    """Rows start..stop were asked for this purpose."""

    purpose: str
    start: int
    stop: int


class KnownAnswers(NamedTuple):
    """Which rows have known answers, and those answers (one row for each of them)."""

    known: Array
    y: Array


class QueryTable:
    """Points and their answers, in the order received; at most `capacity` rows, later ones are not kept.

    Rows are stored in pieces of GRAIN rows. A row never changes or moves once written, so that pieces can be read while more
    rows are added.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows = 0
        self.ranges: list[PurposeRange] = []
        self._x: list[Array] = []
        self._y: list[Array] = []
        self._numbers: dict[bytes, int] = {}  # of rows 0.._indexed
        self._indexed = 0

    def append(self, x: Array, y: Array, purpose: str) -> None:
        """Keep as many of these rows as the capacity allows."""
        x, y = x[: self.capacity - self.rows], y[: self.capacity - self.rows]
        if len(x):
            self.ranges.append(PurposeRange(purpose, self.rows, self.rows + len(x)))
        while len(x):
            at = self.rows % GRAIN
            if at == 0:
                self._x.append(np.empty((GRAIN, x.shape[1])))
                self._y.append(np.empty((GRAIN, y.shape[1])))
            now = min(GRAIN - at, len(x))
            self._x[-1][at : at + now], self._y[-1][at : at + now] = x[:now], y[:now]
            self.rows += now
            x, y = x[now:], y[now:]

    def between(self, start: int, stop: int) -> tuple[StackedArrays, StackedArrays]:
        """Rows start..stop, not copied."""
        first, last = start // GRAIN, (stop - 1) // GRAIN + 1
        cuts = [slice(max(start - at * GRAIN, 0), min(stop - at * GRAIN, GRAIN)) for at in range(first, last)]
        x, y = ([piece[cut] for piece, cut in zip(pieces[first:last], cuts, strict=True)] for pieces in (self._x, self._y))
        for piece in (*x, *y):
            piece.setflags(write=False)
        return StackedArrays(x), StackedArrays(y)

    def find(self, x: Array) -> KnownAnswers:
        """The known answers to these points; hashes of new rows are computed here, on demand."""
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


def merge_ranges(ranges: Iterable[PurposeRange], purposes: tuple[str, ...]) -> list[PurposeRange]:
    """Ranges of these purposes (of all, if none is named), adjacent ones merged."""
    runs: list[PurposeRange] = []
    for span in ranges:
        if purposes and span.purpose not in purposes:
            continue
        if runs and runs[-1].stop == span.start:
            runs[-1] = runs[-1]._replace(stop=span.stop)
        else:
            runs.append(span)
    return runs


class Ledger:
    """Asks within a budget and keeps the answers: of drawn rows in the order of the rows, of chosen points as asked.

    A call that raises is not counted, and a retry asks the same rows again; every answer is counted. If an answer to a drawn row
    cannot be used (wrong shape, not finite), those before it are kept and no more are asked: the same query would have the same
    answer and be paid for twice. Inputs are kept as well, up to `memory` bytes of drawn and as many of chosen ones.
    """

    def __init__(self, transport: QueryTransport, link: Link, budget: int, dim: int, memory: int) -> None:
        self.transport, self.link, self.budget, self.granted = transport, link, budget, budget
        self.drawn = 0  # queries at drawn rows, 0..drawn
        self.kept = 0  # rows 0..kept have usable answers; less than `drawn` only after a failure
        self.chosen = 0  # queries at points chosen by the caller
        self.outputs: int | None = None
        self.ended = False  # the black box answers no more
        self.failure: InvalidInput | None = None
        self.lock = threading.RLock()  # the black box is asked by one thread at a time
        self.queries: Counter[str] = Counter()
        self.points = QueryTable(memory // (8 * dim))
        self.ranges: list[PurposeRange] = []  # of the drawn rows
        self._purposes: list[str] = []
        self._answers = np.empty((0, 0))
        self._inputs = np.empty((0, dim))
        _LEDGERS.add(self)

    def __reduce__(self) -> Any:
        raise InvalidInput(
            "An Oracle was to be sent to another process.", "Its answers, its budget and its log belong to the one that made it.",
            "Make an Oracle there, with a log of its own; or let a cluster answer: schedule=Schedule(engine=...).")

    @property
    def spent(self) -> int:
        """Queries that were answered, by the black box or by its log."""
        return self.drawn + self.chosen

    @contextmanager
    def purpose(self, name: str) -> Iterator[None]:
        """Queries inside are counted under this name."""
        self._purposes.append(name)
        try:
            yield
        finally:
            self._purposes.pop()

    def answers(self, start: int, stop: int) -> Array:
        """Answers to rows start..stop, which have been asked; read-only."""
        return _read_only(self._answers[start:stop])

    def inputs(self, start: int, stop: int) -> Array | None:
        """Inputs of rows start..stop if they are kept; read-only."""
        return _read_only(self._inputs[start:stop]) if stop <= min(self.kept, len(self._inputs)) else None

    def ask_next(self, x: Array) -> None:
        """Ask the rows x, which follow those that are kept."""
        if self.failure is not None:
            raise copy.copy(self.failure)
        purpose = self._purposes[-1] if self._purposes else "drawn"
        try:
            y, self.failure = self._ask(x, self.kept, purpose, drawn=True)
        except BaseException:
            self._save_prefetched(purpose)
            raise
        if self.failure is not None:
            self._save_prefetched(purpose)
        y = y[: _usable_rows(y)]
        if len(y):
            self._append(x[: len(y)], y, purpose)
        if self.failure is not None:
            raise copy.copy(self.failure)

    def ask(self, x: Array, purpose: str | None, *, gaps: bool) -> Array:
        """Answers to chosen points, (n, outputs); counted and kept. With `gaps`, unusable ones are NaN instead of an error."""
        purpose = purpose or (self._purposes[-1] if self._purposes else "chosen")
        y, problem = self._ask(x, 0, purpose, drawn=False)
        usable = np.isfinite(y).all(axis=1)
        self.points.append(x[: len(y)][usable], y[usable], purpose)
        if problem is not None and (not gaps or len(y) < len(x) or problem.values.get("outside")):
            raise problem
        return y

    def _append(self, x: Array, y: Array, purpose: str) -> None:
        if len(self._answers) == 0:  # pages that are never written take no memory
            self._answers = np.empty((self.granted, y.shape[1]))
            self._inputs = np.empty((min(self.granted, self.points.capacity), x.shape[1]))
        self.ranges.append(PurposeRange(purpose, self.kept, self.kept + len(y)))
        self._inputs[self.kept : self.kept + len(x)] = x[: max(0, len(self._inputs) - self.kept)]
        self._answers[self.kept : self.kept + len(y)] = y
        self.kept += len(y)

    def _ask(self, x: Array, first: int, purpose: str, *, drawn: bool) -> AnswerBatch:
        """Outputs, NaN where an answer cannot be used, and the problem with the first of those."""
        self._check_budget(x)
        try:
            given, problem = self.transport.answers(x, purpose, partial(self._count, purpose, drawn))
        except LaybareError as error:
            if error.values.get("interrupted"):  # nothing is left to ask: whoever looks at the budget need not try
                self.budget, self.ended = self.spent, True
            error.values.update(kept=self.kept, spent=self.spent)
            raise
        if not len(given):
            return AnswerBatch(given, problem)
        y = self.link(given)
        self.outputs = y.shape[1] or self.outputs
        bad = _usable_rows(y)
        return AnswerBatch(y, problem if bad == len(y) else self.link.explain(given[bad], first + bad))

    def _save_prefetched(self, purpose: str) -> None:
        """Count and save the rows that workers answered ahead of a failed one, for when they are asked."""
        for x, y in self.transport.ask.take_unused() if isinstance(self.transport.ask, RemoteTarget) else ():
            self._count(purpose, True, len(x))
            self.transport.replay.add(x, y, counted=True)

    def _count(self, purpose: str, drawn: bool, rows: int) -> None:
        self.queries[purpose] += rows
        self.drawn, self.chosen = self.drawn + drawn * rows, self.chosen + (not drawn) * rows

    def _check_budget(self, x: Array) -> None:
        if self.spent + len(x) - self.transport.replay.counted(x) > self.budget:
            raise BudgetExhausted(
                f"{len(x)} more queries were asked for and {self.budget - self.spent} are left.",
                f"{self.spent} of the budget of {self.budget} are spent, and it is never exceeded.",
                "Give a larger budget, or work with the answers so far.",
                budget=self.budget, spent=self.spent, asked=len(x))


_LEDGERS: WeakSet[Ledger] = WeakSet()


def _free_locks() -> None:
    """In a forked child: a thread that held a lock does not live on."""
    for ledger in list(_LEDGERS):
        ledger.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)


def _usable_rows(y: Array) -> int:
    """The number of rows before the first that is not finite."""
    bad = ~np.isfinite(y).all(axis=1)
    return int(np.argmax(bad)) if bad.any() else len(y)


def _read_only(part: Array) -> Array:
    part.setflags(write=False)
    return part
