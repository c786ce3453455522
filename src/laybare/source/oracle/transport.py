"""How queries reach a black box: in batches, from earlier answers where there are any, through the log, or on a cluster.

Answers may be known before they are asked for: read from a log, or received by a call that failed halfway. On a cluster, workers
draw rows and ask ahead of the calls; the ledger in this process counts, keeps and logs. Their answers are found by a hash of the
rows; everything else (chosen points, rows partly in a log) is asked from this process. If a worker dies with answers that nobody
has seen, another worker asks its rows again; they are counted once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.redaction import describe_error, message_of
from laybare.numerics.shapes import Array
from laybare.source.dask_engine import CLUSTER, new_key
from laybare.source.oracle.links import hard_label_error
from laybare.source.oracle.log import QueryLog
from laybare.source.samples import as_float64, as_numeric, row_keys
from laybare.source.simulation import InputStream
from laybare.source.sums import GRAIN

ANSWERS_ARE_LOGGED = "The answers so far are in the log: the same call goes on there and repeats at most the call under way."
ANSWERS_ARE_NOT_LOGGED = "There is no log (log=): once this process ends, the same call asks everything again."


class SavedAnswer(NamedTuple):
    """One answer as received; `counted` if it was already counted as a query."""

    answer: Array
    counted: bool


class ReplayedAnswers(NamedTuple):
    """Which rows had a saved answer, those answers, and how many of them were not yet counted."""

    known: Array
    answers: list[Array]
    uncounted: int


class ReplayBuffer:
    """Saved answers. Each is given out once, to its own point, in the order received.

    A point that was asked five times to measure noise has five answers; the sixth is asked for.
    """

    def __init__(self) -> None:
        self._saved: dict[bytes, deque[SavedAnswer]] = {}

    def add(self, x: Array, answers: Array, *, counted: bool) -> None:
        """Save answers until their points are asked for."""
        for key, answer in zip(row_keys(x), answers, strict=True):
            self._saved.setdefault(key, deque()).append(SavedAnswer(answer, counted))

    def counted(self, x: Array) -> int:
        """How many saved answers of these rows were already counted."""
        if not self._saved:
            return 0
        heads = (self._saved.get(key) for key in set(row_keys(x)))
        return sum(saved.counted for head in heads if head for saved in head)

    def known(self, x: Array) -> Array:
        """Which of these rows have a saved answer."""
        if not self._saved:
            return np.zeros(len(x), dtype=bool)
        return np.array([key in self._saved for key in row_keys(x)], dtype=bool)

    def take(self, x: Array) -> ReplayedAnswers:
        """Give out the saved answers of these rows."""
        known = np.zeros(len(x), dtype=bool)
        if not self._saved:
            return ReplayedAnswers(known, [], 0)
        taken: list[SavedAnswer] = []
        for row, key in enumerate(row_keys(x)):
            queue = self._saved.get(key)
            if queue:
                taken.append(queue.popleft())
                known[row] = True
                if not queue:
                    del self._saved[key]
        return ReplayedAnswers(known, [saved.answer for saved in taken], sum(not saved.counted for saved in taken))


Ask = Callable[[Array], Any]
Count = Callable[[int], None]


class AnswerBatch(NamedTuple):
    """Answers to the first of the rows that were asked, (rows, outputs), and the problem with the next one, if any."""

    y: Array
    problem: InvalidInput | None


class QueryTransport:
    """Calls `ask` with at most `batch` rows at a time, on a copy that it may overwrite.

    A saved answer, from the log or from before a failure, replaces a query. A new answer is in the log before it is returned.
    `count` is called once for every query, when its answer first arrives. If `labels` is False, hard labels are rejected.
    """

    def __init__(self, ask: Ask, *, batch: int | None = None, log: QueryLog | None = None, labels: bool = True) -> None:
        self.ask, self.batch, self.log, self.labels = ask, batch, log, labels
        self.columns: int | None = None  # values per answer
        self.replayed = 0
        self.replay = ReplayBuffer()
        for record in log.records() if log is not None else ():
            self.replay.add(record.x, record.y, counted=False)

    @property
    def cost_of_a_new_call(self) -> str:
        """What the same call asks again, in this process and in a new one."""
        return ANSWERS_ARE_LOGGED if self.log is not None else ANSWERS_ARE_NOT_LOGGED

    def answers(self, x: Array, purpose: str, count: Count) -> AnswerBatch:
        """Answers as received, batch by batch. Those received before a failure are saved for the next call."""
        parts: list[Array] = []
        problem = None
        step = self.batch or max(1, len(x))
        for start in range(0, max(1, len(x)), step):
            try:
                part, problem = self._call(x[start : start + step], purpose, count)
            except BaseException:
                for number, before in enumerate(parts):
                    self.replay.add(x[number * step : number * step + len(before)], before, counted=True)
                raise
            parts.append(part)
            if problem is not None:
                break
        parts = [part for part in parts if len(part)] or parts[:1]
        return AnswerBatch(np.concatenate(parts) if len(parts) > 1 else parts[0], problem)

    def _call(self, x: Array, purpose: str, count: Count) -> AnswerBatch:
        known, saved, uncounted = self.replay.take(x)
        count(uncounted)
        self.replayed += uncounted
        if not saved:
            return self._ask_fresh(x, purpose, count)
        self.columns = len(saved[0])
        if known.all():
            return AnswerBatch(np.array(saved), None)
        try:
            answers, problem = self._ask_fresh(x[~known], purpose, count)
        except BaseException:
            self.replay.add(x[known], np.array(saved), counted=True)
            raise
        both = np.full((len(x), self.columns), np.nan)
        both[known] = saved
        if problem is not None:
            self.replay.add(x[known], np.array(saved), counted=True)
            return AnswerBatch(both[:0], problem)
        both[~known] = answers
        return AnswerBatch(both, None)

    def _ask_fresh(self, x: Array, purpose: str, count: Count) -> AnswerBatch:
        if self.log is not None:
            self.log.reserve(len(x), self.columns or 1)
        try:
            given = self.ask(np.array(x, order="C"))
        except LaybareError as error:
            raise error.with_advice(self.cost_of_a_new_call) from error.__cause__
        except Exception as error:
            raise InvalidInput(
                f"The black box raised {describe_error(error)} when it was asked {len(x)} rows.",
                "The pass needs these answers; those received so far are kept.",
                f"Correct it and call again. {self.cost_of_a_new_call}") from error
        count(len(x))
        answers = self._check_answers(given, len(x))
        if self.log is not None and answers.problem is None:
            try:
                self.log.append(x, answers.y, purpose)
            except BaseException:
                self.replay.add(x, answers.y, counted=True)
                raise
        return answers

    def _check_answers(self, given: Any, rows: int) -> AnswerBatch:
        nothing = np.empty((0, self.columns or 0))
        try:
            y = np.asarray(as_numeric("The answer of the black box", given))
        except InvalidInput as problem:
            return AnswerBatch(nothing, problem)
        columns = self.columns or (y.shape[1] if y.ndim == 2 else 1)
        if columns == 0 or y.shape not in ((rows, columns), (rows,) if columns == 1 else None):
            return AnswerBatch(nothing, _shape_error(y.shape, rows, self.columns))
        error = None if self.labels or self.columns is not None else hard_label_error(y)  # decided by the first answers
        if error is not None:
            return AnswerBatch(nothing, error)
        self.columns = columns
        return AnswerBatch(as_float64(y).reshape(rows, columns), None)


def _shape_error(shape: tuple[int, ...], rows: int, columns: int | None) -> InvalidInput:
    wanted = f"({rows},) or ({rows}, outputs)" if columns is None else f"({rows}, {columns}), as before"
    return InvalidInput(
        f"The black box returned an array of shape {shape} for {rows} rows.", "Every row has one answer.",
        f"Return shape {wanted}.", shape=shape, rows=rows)


class RemoteCall(NamedTuple):
    """Result of one call: the answers as received, or the error text."""

    given: Any
    error: str


class RemoteTarget:
    """Calls `ask` on the workers of `engine`, ahead of the calls of the ledger, with at most `batch` rows each."""

    def __init__(self, ask: Ask, stream: InputStream, engine: Any, batch: int | None) -> None:
        self.ask, self.stream, self.engine = ask, stream, engine
        self.batch = min(batch or GRAIN, GRAIN)
        self.prefetched: dict[bytes, tuple[Array, RemoteCall]] = {}

    def __call__(self, x: Array) -> Any:
        found = self.prefetched.pop(_hash_rows(x), None)
        if found is None:
            return self.ask(x)
        if found[1].error:
            raise RuntimeError(f"{found[1].error}, on a worker")
        return found[1].given

    def prefetch_rows(self) -> int:
        """Rows that are prefetched at a time: two tasks per worker thread."""
        return int(2 * _task_rows() * self.engine.workers())

    def prefetch(self, start: int, stop: int) -> None:
        """Let workers answer rows start..stop; `start` is a multiple of GRAIN."""
        graph: dict[Any, Any] = {}
        step = _task_rows()
        firsts = range(start, stop, step)
        for first in firsts:
            last = min(first + step, stop)
            graph[new_key("ask")] = (partial(_ask_on_worker, self.stream, self.ask, self.batch, first, last),)
        for first, calls in zip(firsts, self.engine.compute(graph, list(graph), retries=0), strict=True):
            spans = _spans(first, min(first + step, stop), self.batch)
            for (low, high), asked in zip(spans, calls, strict=True):
                x = self.stream.rows(low, high)
                self.prefetched[_hash_rows(x)] = (x, asked)

    def take_unused(self) -> Iterator[tuple[Array, Array]]:
        """Rows that were prefetched and not used, with their answers; removes them."""
        for x, asked in self.prefetched.values():
            if not asked.error:
                yield x, np.asarray(asked.given, dtype=float).reshape(len(x), -1)
        self.prefetched.clear()


def _task_rows() -> int:
    return CLUSTER.grains_per_call * GRAIN


def _spans(start: int, stop: int, batch: int) -> Iterator[tuple[int, int]]:
    """The calls that a ledger makes for these rows: at most `batch` rows each, none across a multiple of GRAIN."""
    for grain in range(start, stop, GRAIN):
        end = min(grain + GRAIN, stop)
        for low in range(grain, end, batch):
            yield low, min(low + batch, end)


def _ask_on_worker(stream: InputStream, ask: Ask, batch: int, start: int, stop: int) -> list[RemoteCall]:
    return [_ask_once(ask, stream.rows(low, high)) for low, high in _spans(start, stop, batch)]


def _ask_once(ask: Ask, x: Array) -> RemoteCall:
    try:
        return RemoteCall(np.asarray(ask(x)), "")
    except Exception as error:
        return RemoteCall(None, f"{type(error).__name__}: {message_of(error)}")


def _hash_rows(x: Array) -> bytes:
    return blake2b(x.tobytes(), digest_size=16).digest()
