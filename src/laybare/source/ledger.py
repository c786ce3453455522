"""What has been asked of a black box, what came back and what it cost: the only thing about a source that changes."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import floats, numeric

Ask = Callable[[Array], Any]


class Answers(NamedTuple):
    """Usable answers to the first of the rows that were asked, (rows, outputs), and what is wrong with the next one, if any."""

    y: Array
    finding: InvalidInput | None


class Ledger:
    """Buys answers within a budget and keeps those to drawn rows, in their order.

    A call of `f` that raises has answered nothing: it is not counted, and a retry asks the same rows again. Whatever was returned
    is counted. If it cannot be used (wrong shape, not finite), the answers before it are kept and no more are bought: the same
    question has the same answer, and would be paid for twice.
    """

    def __init__(self, f: Ask, budget: int) -> None:
        self.f = f
        self.budget = budget
        self.drawn = 0  # queries at the rows of the source: rows 0..drawn
        self.kept = 0  # rows 0..kept have usable answers; fewer than drawn only after a refusal
        self.chosen = 0  # queries at points chosen by the caller
        self.outputs: int | None = None
        self.refusal: InvalidInput | None = None
        self.lock = threading.Lock()  # f is asked by one thread at a time
        self._answers = np.empty((0, 0))

    @property
    def spent(self) -> int:
        """Queries that were answered."""
        return self.drawn + self.chosen

    def answers(self, start: int, stop: int) -> Array:
        """Answers to rows start..stop, which have been bought; read-only."""
        part = self._answers[start:stop]
        part.setflags(write=False)
        return part

    def buy(self, x: Array) -> None:
        """Ask about the rows after those that are kept."""
        if self.refusal is not None:
            raise copy.copy(self.refusal)
        self._check_budget(len(x))
        y, self.refusal = self._ask(x, first=self.kept)
        if len(y):
            self._keep(y)
        self.drawn += len(x)
        if self.refusal is not None:
            raise copy.copy(self.refusal)

    def ask(self, x: Array) -> Array:
        """Answers to chosen points, (n, outputs); counted, not kept."""
        self._check_budget(len(x))
        y, finding = self._ask(x, first=0)
        self.chosen += len(x)
        if finding is not None:
            raise finding
        return y

    def _keep(self, y: Array) -> None:
        if len(self._answers) == 0:
            self._answers = np.empty((self.budget, y.shape[1]))  # pages that are never written to take no memory
        self._answers[self.kept : self.kept + len(y)] = y
        self.kept += len(y)

    def _check_budget(self, rows: int) -> None:
        if self.spent + rows > self.budget:
            raise BudgetExhausted(
                f"{rows} more queries were asked for and {self.budget - self.spent} are left.",
                f"{self.spent} of the budget of {self.budget} are spent, and it is never exceeded.",
                "Grant a larger budget, or work with the answers that are there.",
                budget=self.budget, spent=self.spent, asked=rows)

    def _ask(self, x: Array, first: int) -> Answers:
        rows = len(x)
        try:
            given = self.f(x)
        except Exception as error:
            raise InvalidInput(
                f"The black box raised {type(error).__name__} ({error}) when it was asked {rows} rows.",
                f"Without an answer the pass cannot go on; the {self.kept} answers bought so far are kept.",
                "Mend it and call again: no query is paid for twice.", kept=self.kept, spent=self.spent) from error
        return self._usable(given, rows, first)

    def _usable(self, given: Any, rows: int, first: int) -> Answers:
        nothing = np.empty((0, 0))
        try:
            y = numeric("The answer of the black box", given)
        except InvalidInput as finding:
            return Answers(nothing, finding)
        outputs = self.outputs or (y.shape[1] if y.ndim == 2 else 1)
        if outputs == 0 or y.shape not in ((rows, outputs), (rows,) if outputs == 1 else None):
            return Answers(nothing, _wrong_shape(y.shape, rows, self.outputs))
        self.outputs = outputs
        y = floats(np.asarray(y)).reshape(rows, outputs)
        bad = np.argwhere(~np.isfinite(y))
        if not len(bad):
            return Answers(y, None)
        row, output = (int(i) for i in bad[0])
        return Answers(y[:row], InvalidInput(
            f"The black box answered {y[row, output]} to query {first + row}, output {output} (counted from 0).",
            f"Answers must be finite; the {self.kept + row} before it are kept.",
            "Mend the black box, or work with the answers that are there: take() the rows before this one.",
            row=first + row, output=output))


def _wrong_shape(shape: tuple[int, ...], rows: int, outputs: int | None) -> InvalidInput:
    wanted = f"({rows},) or ({rows}, outputs)" if outputs is None else f"({rows}, {outputs}), as before"
    return InvalidInput(
        f"The black box returned an array of shape {shape} for {rows} rows.", "Every row has one answer.",
        f"Return shape {wanted}.", shape=shape, rows=rows)
