"""What has been asked of a black box, what came back and what it cost: the only thing about a source that changes."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput, LaybareError
from laybare.shapes import Array
from laybare.source.answered import Stretch, Table
from laybare.source.links import Link
from laybare.source.remote_answers import RemoteTarget
from laybare.source.wire import Wire, WireAnswers


class Ledger:
    """Buys answers within a budget and keeps them: those to drawn rows in the order of the rows, those to chosen points as asked.

    A call that raises has answered nothing: it is not counted, and a retry asks the same rows again. Whatever was returned
    is counted. If answers to drawn rows cannot be used (wrong shape, not finite), those before are kept and no more are bought:
    the same question has the same answer, and would be paid for twice. Inputs are kept as well, up to `memory` bytes of drawn
    and as much of chosen ones.
    """

    def __init__(self, wire: Wire, link: Link, budget: int, dim: int, memory: int) -> None:
        self.wire, self.link, self.budget = wire, link, budget
        self.drawn = 0  # queries at the rows of the source: rows 0..drawn
        self.kept = 0  # rows 0..kept have usable answers; fewer than drawn only after a refusal
        self.chosen = 0  # queries at points chosen by the caller
        self.outputs: int | None = None
        self.refusal: InvalidInput | None = None
        self.lock = threading.RLock()  # the black box is asked by one thread at a time
        self.queries: Counter[str] = Counter()
        self.points = Table(memory // (8 * dim))
        self.stretches: list[Stretch] = []  # of the drawn rows
        self._purposes: list[str] = []
        self._answers = np.empty((0, 0))
        self._inputs = np.empty((0, dim))

    @property
    def spent(self) -> int:
        """Queries that were answered, by the black box or by its log."""
        return self.drawn + self.chosen

    @contextmanager
    def purpose(self, name: str) -> Iterator[None]:
        """What is asked inside is booked under this name."""
        self._purposes.append(name)
        try:
            yield
        finally:
            self._purposes.pop()

    def answers(self, start: int, stop: int) -> Array:
        """Answers to rows start..stop, which have been bought; read-only."""
        return _frozen(self._answers[start:stop])

    def inputs(self, start: int, stop: int) -> Array | None:
        """Inputs of rows start..stop if they are kept; read-only."""
        return _frozen(self._inputs[start:stop]) if stop <= min(self.kept, len(self._inputs)) else None

    def buy(self, x: Array) -> None:
        """Ask about the rows after those that are kept."""
        if self.refusal is not None:
            raise copy.copy(self.refusal)
        purpose = self._purposes[-1] if self._purposes else "drawn"
        try:
            y, self.refusal = self._ask(x, self.kept, purpose, drawn=True)
        except BaseException:
            self._set_aside(purpose)
            raise
        if self.refusal is not None:
            self._set_aside(purpose)
        y = y[: _usable_rows(y)]
        if len(y):
            self._keep(x[: len(y)], y, purpose)
        if self.refusal is not None:
            raise copy.copy(self.refusal)

    def ask(self, x: Array, purpose: str | None, *, gaps: bool) -> Array:
        """Answers to chosen points, (n, outputs); counted and kept. With `gaps`, unusable ones are NaN instead of an error."""
        purpose = purpose or (self._purposes[-1] if self._purposes else "chosen")
        y, finding = self._ask(x, 0, purpose, drawn=False)
        usable = np.isfinite(y).all(axis=1)
        self.points.append(x[: len(y)][usable], y[usable], purpose)
        if finding is not None and (not gaps or len(y) < len(x)):
            raise finding
        return y

    def _keep(self, x: Array, y: Array, purpose: str) -> None:
        if len(self._answers) == 0:  # pages that are never written to take no memory
            self._answers = np.empty((self.budget, y.shape[1]))
            self._inputs = np.empty((min(self.budget, self.points.room), x.shape[1]))
        self.stretches.append(Stretch(purpose, self.kept, self.kept + len(y)))
        self._inputs[self.kept : self.kept + len(x)] = x[: max(0, len(self._inputs) - self.kept)]
        self._answers[self.kept : self.kept + len(y)] = y
        self.kept += len(y)

    def _ask(self, x: Array, first: int, purpose: str, *, drawn: bool) -> WireAnswers:
        """Outputs, NaN where an answer cannot be used, and what is wrong with the first of those."""
        self._check_budget(x)
        try:
            given, finding = self.wire.answers(x, purpose, partial(self._count, purpose, drawn))
        except LaybareError as error:
            error.values.update(kept=self.kept, spent=self.spent)
            raise
        if not len(given):
            return WireAnswers(given, finding)
        y = self.link(given)
        self.outputs = y.shape[1] or self.outputs
        bad = _usable_rows(y)
        return WireAnswers(y, finding if bad == len(y) else self.link.why(given[bad], first + bad))

    def _set_aside(self, purpose: str) -> None:
        """Rows that workers answered ahead of one that failed: they are counted, and handed out when they are asked for."""
        for x, y in self.wire.ask.left() if isinstance(self.wire.ask, RemoteTarget) else ():
            self._count(purpose, True, len(x))
            self.wire.waiting.add(x, y, counted=True)

    def _count(self, purpose: str, drawn: bool, rows: int) -> None:
        self.queries[purpose] += rows
        self.drawn, self.chosen = self.drawn + drawn * rows, self.chosen + (not drawn) * rows

    def _check_budget(self, x: Array) -> None:
        if self.spent + len(x) - self.wire.waiting.counted(x) > self.budget:
            raise BudgetExhausted(
                f"{len(x)} more queries were asked for and {self.budget - self.spent} are left.",
                f"{self.spent} of the budget of {self.budget} are spent, and it is never exceeded.",
                "Grant a larger budget, or work with the answers that are there.",
                budget=self.budget, spent=self.spent, asked=len(x))


def _usable_rows(y: Array) -> int:
    """How many rows there are before the first that is not finite."""
    bad = ~np.isfinite(y).all(axis=1)
    return int(np.argmax(bad)) if bad.any() else len(y)


def _frozen(part: Array) -> Array:
    part.setflags(write=False)
    return part
