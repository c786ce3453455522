"""The one pass over the data: add a statistic up over blocks of rows, in a fixed order.

A statistic is a pure function (x, y) -> tuple of arrays; `x` is (rows, dim), `y` is (rows, outputs). If it needs much memory
a row (an outer product, a Khatri-Rao block), it says so in an attribute `row_floats`, and the blocks get smaller; if its sums
are large (a Gram matrix), it says so in `sum_floats`, and the blocks get larger, so that adding them up costs little beside. One
that works in single precision says so in `single`: rows that are kept then come as [x, 1] in single precision.

Same bits for any number of workers: the blocks depend on the data and the statistic alone, every block runs with one BLAS
thread, and the blocks are added in one fixed binary tree (pairwise summation, so rounding grows with log n).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from laybare.blas import single_blas_thread
from laybare.errors import InvalidInput
from laybare.shapes import Array, Event, Progress, Statistic, Sums
from laybare.source.threads import in_order
from laybare.source.tree import Tree

GRAIN = 1024
"""Rows of the smallest block; every block starts at a multiple of it, so that generators can address rows by it."""

KEEP_BYTES = 512 << 20
"""Rows that take no more than this are kept in memory while a network is recovered; larger data are streamed."""

LARGE_SUMS = 4
"""Times the memory of its sums that a block takes at least: adding up a Gram matrix of 1,200 columns then costs a tenth of it."""

BLOCK_BYTES = 4 << 20
"""About one core's share of a last-level cache: larger blocks gained nothing on Gram matrices of dimension 50."""

FEW_BLOCKS = 16
"""Up to so many, one block more for one core than for another is a time that is seen."""

WORTH_TWO = 1_000_000
"""Numbers from which rows that fit into one block make two: below, two threads wait for the interpreter more than they work."""

Read = Callable[[int, int], tuple[Array, Array]]


@runtime_checkable
class Engine(Protocol):
    """Whoever adds up blocks elsewhere: on the workers of a cluster."""

    def carries(self, source: Any) -> bool:
        """Whether the rows of this source can be read there."""

    def total(self, source: Any, statistic: Statistic, rows: int) -> Sums:
        """`statistic` added up over blocks of so many rows, in the tree of `laybare.source.tree`."""

    def results(self, source: Any, function: Statistic, rows: int) -> Iterator[Sums]:
        """What `function` returns for each block, in order."""


@runtime_checkable
class Once(Protocol):
    """Whoever remembers what a pass returned."""

    def once(self, run: Callable[[], Sums], about: tuple[Any, ...]) -> Sums:
        """What `run` returns, or returned when this same pass, about the same things, was carried out before a crash."""


@dataclass(frozen=True)
class Schedule:
    """How a pass is carried out; never what it returns. `workers` None means one thread for each core, or LAYBARE_THREADS.

    `block_bytes` is about what one block takes, `keep_bytes` what the rows of a problem may take to be kept in memory. With an
    `engine` (DaskEngine), rows that do not lie in this process are added up by its workers. A `journal` writes down what passes
    returned and gives it back after a crash (see `laybare.source.journal`).
    """

    workers: int | None = None
    block_bytes: int = BLOCK_BYTES
    progress: Progress | None = None
    keep_bytes: int = KEEP_BYTES
    engine: Engine | None = None
    journal: Once | None = None

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
    rows = rows_of_blocks(size, row_floats, statistic, schedule)
    starts = range(0, size, rows)
    one = partial(one_block, read, statistic, size, rows)
    total = Tree()
    with single_blas_thread(), closing(in_order(one, starts, schedule.threads(len(starts)))) as results:
        for done, sums in enumerate(results, start=1):
            total.add(sums)
            if schedule.progress is not None:
                schedule.progress(Event(stage, done, len(starts)))
    return total.value()


def rows_of_blocks(size: int, row_floats: int, statistic: Statistic, schedule: Schedule) -> int:
    """Rows of each block of a pass over `size` rows of so many numbers: the same wherever they are added up."""
    least = 8 * LARGE_SUMS * int(getattr(statistic, "sum_floats", 0))
    floats = row_floats + int(getattr(statistic, "row_floats", 0))
    if getattr(statistic, "single", False):
        floats = -(-floats // 2)
    rows = even_rows(size, block_rows(floats, max(schedule.block_bytes, least)))
    return rows if rows < size or size * floats < WORTH_TWO else GRAIN * -(-size // (2 * GRAIN))


def block_rows(row_floats: int, block_bytes: int = BLOCK_BYTES) -> int:
    """Rows of a block: as many grains as fit into `block_bytes`, at least one."""
    return GRAIN * max(1, block_bytes // (8 * GRAIN * max(1, row_floats)))


def even_rows(size: int, most: int) -> int:
    """Rows of a block, `most` at the most: few blocks are an even number of about the same size, since cores come in pairs."""
    blocks = -(-size // most)
    return most if blocks == 1 or blocks > FEW_BLOCKS else min(most, GRAIN * -(-size // (2 * GRAIN * -(-blocks // 2))))


def even_pair(rows: int) -> int:
    """So many rows, or an eighth more or fewer if two blocks of them are then of one size: neither of two threads waits."""
    even = round(rows / (2 * GRAIN)) * 2 * GRAIN
    return even if 8 * abs(even - rows) <= rows else rows


def _cores() -> int:
    """LAYBARE_THREADS, or the cores that this process may use; a container often has fewer than the machine."""
    told = os.environ.get("LAYBARE_THREADS", "").strip()
    if told:
        if not told.isdecimal() or int(told) < 1:
            raise InvalidInput(
                f"LAYBARE_THREADS is {told!r}.", "It is the number of threads of a pass.",
                "Set it to a whole number, at least 1, or unset it.", threads=told)
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_block(read: Read, statistic: Statistic, size: int, rows: int, start: int) -> Sums:
    """The statistic of the block that begins at `start`."""
    # once more for this thread: some libraries keep a limit for each; sums that overflow are no numbers, and say so by that
    with single_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        sums = statistic(*read(start, min(start + rows, size)))
    if not isinstance(sums, tuple):
        raise InvalidInput(
            f"The statistic returned a {type(sums).__name__}.", "A statistic is a function (x, y) -> tuple of arrays.",
            "Return a tuple, with a comma even for one array: return (x.T @ x,).", returned=type(sums).__name__)
    return tuple(np.asarray(part) for part in sums)
