"""The one pass over the data: add a statistic up over blocks of rows, in a fixed order.

A statistic is a pure function (x, y) -> tuple of arrays; `x` is (rows, dim), `y` is (rows, outputs). If it needs much memory
a row (an outer product, a Khatri-Rao block), it says so in an attribute `row_floats`, and the blocks get smaller; if its sums
are large (a Gram matrix), it says so in `sum_floats`, and the blocks get larger, so that adding them up costs little beside.

Same bits for any number of workers: the blocks depend on the data and the statistic alone, every block runs with one BLAS
thread, and the blocks are added in one fixed binary tree (pairwise summation, so rounding grows with log n).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from laybare.blas import single_blas_thread
from laybare.errors import InvalidInput
from laybare.shapes import Array, Event, Progress, Statistic, Sums

GRAIN = 1024
"""Rows of the smallest block; every block starts at a multiple of it, so that generators can address rows by it."""

KEEP_BYTES = 512 << 20
"""Rows that take no more than this are kept in memory while a network is recovered; larger data are streamed."""

LARGE_SUMS = 4
"""Times the memory of its sums that a block takes at least: adding up a Gram matrix of 1,200 columns then costs a tenth of it."""

BLOCK_BYTES = 4 << 20
"""About one core's share of a last-level cache: larger blocks gained nothing on Gram matrices of dimension 50."""

Read = Callable[[int, int], tuple[Array, Array]]


@dataclass(frozen=True)
class Schedule:
    """How a pass is carried out; never what it returns. `workers` None means one for each core.

    `block_bytes` is about what one block takes, `keep_bytes` what the rows of a problem may take to be kept in memory.
    """

    workers: int | None = None
    block_bytes: int = BLOCK_BYTES
    progress: Progress | None = None
    keep_bytes: int = KEEP_BYTES

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(
                f"{self.workers} workers were asked for.", "A pass needs at least one.",
                "Give a positive number, or None for one a core.", workers=self.workers)

    def threads(self, blocks: int) -> int:
        """Threads for that many blocks."""
        return min(self.workers or _cores(), blocks)


def add_up(read: Read, size: int, row_floats: int, statistic: Statistic, schedule: Schedule, stage: str = "pass") -> Sums:
    """Sum of `statistic` over rows 0..size, read block by block with `read(start, stop)`.

    `row_floats` counts the numbers of one row of the data itself. Memory: a few blocks a worker, log2(blocks) partial sums.
    """
    least = 8 * LARGE_SUMS * int(getattr(statistic, "sum_floats", 0))
    rows = block_rows(row_floats + int(getattr(statistic, "row_floats", 0)), max(schedule.block_bytes, least))
    starts = range(0, size, rows)
    one = partial(_one_block, read, statistic, size, rows)
    total = _Tree()
    with single_blas_thread(), closing(in_order(one, starts, schedule.threads(len(starts)))) as results:
        for done, sums in enumerate(results, start=1):
            total.add(sums)
            if schedule.progress is not None:
                schedule.progress(Event(stage, done, len(starts)))
    return total.value()


def block_rows(row_floats: int, block_bytes: int = BLOCK_BYTES) -> int:
    """Rows of a block: as many grains as fit into `block_bytes`, at least one."""
    return GRAIN * max(1, block_bytes // (8 * GRAIN * max(1, row_floats)))


def _cores() -> int:
    """Cores that this process may use; a container often has fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _one_block(read: Read, statistic: Statistic, size: int, rows: int, start: int) -> Sums:
    with single_blas_thread():  # once more for this thread: some libraries keep a limit for each
        sums = statistic(*read(start, min(start + rows, size)))
    if not isinstance(sums, tuple):
        raise InvalidInput(
            f"The statistic returned a {type(sums).__name__}.", "A statistic is a function (x, y) -> tuple of arrays.",
            "Return a tuple, with a comma even for one array: return (x.T @ x,).", returned=type(sums).__name__)
    return tuple(np.asarray(part) for part in sums)


def in_order(one: Callable[[int], Sums], starts: range, threads: int) -> Generator[Sums, None, None]:
    """Results in the order of `starts`, at most two blocks a thread under way."""
    if threads <= 1:
        yield from map(one, starts)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Sums]] = deque()
        try:
            for start in starts:
                if len(waiting) == 2 * threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(one, start))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class _Tree:
    """Pairwise summation of a stream: partial[i] holds the sum of 2^i consecutive blocks, or nothing."""

    def __init__(self) -> None:
        self.partial: list[Sums | None] = []

    def add(self, sums: Sums) -> None:
        for level, held in enumerate(self.partial):
            if held is None:
                self.partial[level] = sums
                return
            sums = _plus(held, sums, own=level > 0)  # from the second level on, held is a sum that nobody else has
            self.partial[level] = None
        self.partial.append(sums)

    def value(self) -> Sums:
        total: Sums | None = None
        for held in self.partial:
            if held is not None:
                total = held if total is None else _plus(held, total)
        return total if total is not None else ()


def _plus(left: Sums, right: Sums, *, own: bool = False) -> Sums:
    """The sum of both; into `left` if that may be overwritten."""
    shapes = [part.shape for part in left], [part.shape for part in right]
    if shapes[0] != shapes[1]:
        raise InvalidInput(
            f"The statistic returned arrays of shapes {shapes[0]} for one block and {shapes[1]} for another.",
            "Only arrays whose shape does not depend on the number of rows can be added up.",
            "Sum over the rows inside the statistic.", shapes=shapes)
    if own:
        return tuple(np.add(a, b, out=a) if a.dtype == b.dtype and a.ndim else np.asarray(a + b) for a, b in zip(
            left, right, strict=True))
    return tuple(np.asarray(a + b) for a, b in zip(left, right, strict=True))
