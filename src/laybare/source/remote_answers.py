"""A black box that is asked on the workers of a cluster: they draw the rows and ask; one ledger here counts, keeps and logs.

`Wire` still asks for one call after another. What workers have answered ahead of that is handed out by the bytes of its rows;
anything else (chosen points, rows that a log knows in part) is asked from here. A worker that dies takes answers with it that
nobody has seen; its rows are asked again by another worker and counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from laybare.shapes import Array
from laybare.source.drawing import Drawing
from laybare.source.run_graph import new_key
from laybare.source.sums import GRAIN
from laybare.source.wire import Ask

GRAINS = 8
"""Grains of one task: a tenth of a second for a network of some size."""


class RemoteCall(NamedTuple):
    """What came back for one call: answers as they were given, or what was raised."""

    given: Any
    error: str


class RemoteTarget:
    """Asks `ask` on the workers of `engine`, ahead of the calls that will come, at most `batch` rows in a call."""

    def __init__(self, ask: Ask, drawing: Drawing, engine: Any, batch: int | None) -> None:
        self.ask, self.drawing, self.engine = ask, drawing, engine
        self.batch = min(batch or GRAIN, GRAIN)
        self.here: dict[bytes, tuple[Array, RemoteCall]] = {}

    def __call__(self, x: Array) -> Any:
        found = self.here.pop(_name(x), None)
        if found is None:
            return self.ask(x)
        if found[1].error:
            raise RuntimeError(f"{found[1].error}, on a worker")
        return found[1].given

    def window(self) -> int:
        """Rows that are asked for at a time."""
        return int(2 * GRAINS * GRAIN * self.engine.workers())

    def ahead(self, start: int, stop: int) -> None:
        """Have rows start..stop answered; start is the beginning of a grain."""
        graph: dict[Any, Any] = {}
        firsts = range(start, stop, GRAINS * GRAIN)
        for first in firsts:
            last = min(first + GRAINS * GRAIN, stop)
            graph[new_key("ask")] = (partial(_answered, self.drawing, self.ask, self.batch, first, last),)
        for first, calls in zip(firsts, self.engine.computed(graph, list(graph), retries=0), strict=True):
            spans = _spans(first, min(first + GRAINS * GRAIN, stop), self.batch)
            for (low, high), asked in zip(spans, calls, strict=True):
                x = self.drawing.rows(low, high)
                self.here[_name(x)] = (x, asked)

    def left(self) -> Iterator[tuple[Array, Array]]:
        """Rows that were answered ahead and not handed out, with their answers; they are forgotten here."""
        for x, asked in self.here.values():
            if not asked.error:
                yield x, np.asarray(asked.given, dtype=float).reshape(len(x), -1)
        self.here.clear()


def _spans(start: int, stop: int, batch: int) -> Iterator[tuple[int, int]]:
    """The calls that a ledger makes for these rows: grain by grain, at most `batch` rows in each."""
    for grain in range(start, stop, GRAIN):
        end = min(grain + GRAIN, stop)
        for low in range(grain, end, batch):
            yield low, min(low + batch, end)


def _answered(drawing: Drawing, ask: Ask, batch: int, start: int, stop: int) -> list[RemoteCall]:
    return [_one(ask, drawing.rows(low, high)) for low, high in _spans(start, stop, batch)]


def _one(ask: Ask, x: Array) -> RemoteCall:
    try:
        return RemoteCall(np.asarray(ask(x)), "")
    except Exception as error:
        return RemoteCall(None, f"{type(error).__name__}: {error}")


def _name(x: Array) -> bytes:
    return blake2b(x.tobytes(), digest_size=16).digest()
