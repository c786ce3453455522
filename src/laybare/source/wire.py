"""The way to a black box and back: batches, answers that are there already, the log, and what cannot be an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput, LaybareError
from laybare.shapes import Array
from laybare.source.arrays import floats, numeric
from laybare.source.links import hard_labels
from laybare.source.log import Log
from laybare.source.replay import Replay

Ask = Callable[[Array], Any]
Count = Callable[[int], None]


class WireAnswers(NamedTuple):
    """Answers to the first of the rows that were asked, (rows, outputs), and what is wrong with the next one, if any."""

    y: Array
    finding: InvalidInput | None


class Wire:
    """Calls `ask` with at most `batch` rows at a time, from a copy that it may write to.

    An answer that a log has, or that came before a failure, is used instead of a query. A fresh one is in the log before
    anybody sees it. `count` hears of every query once, when its answer first arrives. Without `labels`, classes are refused.
    """

    def __init__(self, ask: Ask, *, batch: int | None = None, log: Log | None = None, labels: bool = True) -> None:
        self.ask, self.batch, self.log, self.labels = ask, batch, log, labels
        self.columns: int | None = None  # numbers in one answer
        self.replayed = 0
        self.waiting = Replay()
        for record in log.records() if log is not None else ():
            self.waiting.add(record.x, record.y, counted=False)

    def answers(self, x: Array, purpose: str, count: Count) -> WireAnswers:
        """Answers as they come, batch by batch. What came before a failure waits until it is asked for again."""
        parts: list[Array] = []
        finding = None
        step = self.batch or max(1, len(x))
        for start in range(0, max(1, len(x)), step):
            try:
                part, finding = self._one_call(x[start : start + step], purpose, count)
            except BaseException:
                for number, before in enumerate(parts):
                    self.waiting.add(x[number * step : number * step + len(before)], before, counted=True)
                raise
            parts.append(part)
            if finding is not None:
                break
        parts = [part for part in parts if len(part)] or parts[:1]
        return WireAnswers(np.concatenate(parts) if len(parts) > 1 else parts[0], finding)

    def _one_call(self, x: Array, purpose: str, count: Count) -> WireAnswers:
        known, saved, uncounted = self.waiting.take(x)
        count(uncounted)
        self.replayed += uncounted
        if not saved:
            return self._fresh(x, purpose, count)
        self.columns = len(saved[0])
        if known.all():
            return WireAnswers(np.array(saved), None)
        try:
            answers, finding = self._fresh(x[~known], purpose, count)
        except BaseException:
            self.waiting.add(x[known], np.array(saved), counted=True)
            raise
        both = np.full((len(x), self.columns), np.nan)
        both[known] = saved
        if finding is not None:
            self.waiting.add(x[known], np.array(saved), counted=True)
            return WireAnswers(both[:0], finding)
        both[~known] = answers
        return WireAnswers(both, None)

    def _fresh(self, x: Array, purpose: str, count: Count) -> WireAnswers:
        if self.log is not None:
            self.log.reserve(len(x), self.columns or 1)
        try:
            given = self.ask(np.array(x, order="C"))
        except LaybareError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"The black box raised {type(error).__name__} ({error}) when it was asked {len(x)} rows.",
                "Without an answer the pass cannot go on; the answers bought so far are kept.",
                "Mend it and call again: no query is paid for twice.") from error
        count(len(x))
        answers = self._usable(given, len(x))
        if self.log is not None and answers.finding is None:
            try:
                self.log.append(x, answers.y, purpose)
            except BaseException:
                self.waiting.add(x, answers.y, counted=True)
                raise
        return answers

    def _usable(self, given: Any, rows: int) -> WireAnswers:
        nothing = np.empty((0, self.columns or 0))
        try:
            y = np.asarray(numeric("The answer of the black box", given))
        except InvalidInput as finding:
            return WireAnswers(nothing, finding)
        columns = self.columns or (y.shape[1] if y.ndim == 2 else 1)
        if columns == 0 or y.shape not in ((rows, columns), (rows,) if columns == 1 else None):
            return WireAnswers(nothing, _wrong_shape(y.shape, rows, self.columns))
        refusal = None if self.labels or self.columns is not None else hard_labels(y)  # judged by the first answers
        if refusal is not None:
            return WireAnswers(nothing, refusal)
        self.columns = columns
        return WireAnswers(floats(y).reshape(rows, columns), None)


def _wrong_shape(shape: tuple[int, ...], rows: int, columns: int | None) -> InvalidInput:
    wanted = f"({rows},) or ({rows}, outputs)" if columns is None else f"({rows}, {columns}), as before"
    return InvalidInput(
        f"The black box returned an array of shape {shape} for {rows} rows.", "Every row has one answer.",
        f"Return shape {wanted}.", shape=shape, rows=rows)
