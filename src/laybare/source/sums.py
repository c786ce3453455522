"""The one pass over the data: a statistic is summed over blocks of rows, in a fixed order.

A statistic is a pure function (x, y) -> tuple of arrays; x is (rows, dim), y is (rows, outputs). Optional attributes say what it
needs: `row_floats`, its memory per row (an outer product, a Khatri-Rao block): blocks get smaller. `sum_floats`, the size of its
sums (a Gram matrix): blocks get larger, so that adding them costs little. `single`: it works in single precision, and rows in
memory come as [x, 1] in single precision.

The result has the same bits on one thread, on many, and on many machines: blocks depend on the data and the statistic alone,
every block runs with one BLAS thread, and blocks are added in one fixed binary tree. Blocks 0..n are added in pairs, pairs in
pairs, and so on; a rest at the end is added from the right. A run of 2^j blocks that begins at a multiple of 2^j is one node of
that tree. So a worker may add up such a run, and the tree over the runs is the tree over the blocks, also if the last run is
shorter. Rounding errors grow with log n.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_fields
from laybare.numerics.shapes import Array, Event, Progress, Statistic, Sums
from laybare.numerics.workspace import single_blas_thread
from laybare.source.threads import map_in_order

GRAIN = 1024
"""Rows of the smallest block; every block starts at a multiple, so that counter-based generators can address rows by it.
Convention: part of the identity of drawn data, which would change with it."""


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """How rows are cut into blocks."""

    bytes: int = 4 << 20
    """Memory of one block. Larger blocks gain nothing: this is about one core's share of a last-level cache. Checked by `make
    bench BENCH_ARGS=sum-gram`."""
    sum_ratio: int = 4
    """Smallest ratio of a block's memory to that of its sums: adding a Gram matrix of 1,200 columns then costs a tenth.
    Checked by `make bench BENCH_ARGS=sum-gram`."""
    few_blocks: int = 16
    """Up to this number of blocks, their number is made even: one block more for one core than for the other shows in the time.
    Checked by `pytest tests/source/test_sums.py`."""
    split_floats: int = 1_000_000
    """Numbers in a single block from which it is cut in two; with fewer, two threads mostly wait for the interpreter.
    Checked by `pytest tests/source/test_sums.py`."""


BLOCKS = BlockOptions()

Read = Callable[[int, int], tuple[Array, Array]]


@runtime_checkable
class Engine(Protocol):
    """Sums blocks elsewhere: on the workers of a cluster."""

    def can_read(self, source: Any) -> bool:
        """Whether the workers can read the rows of this source."""

    def sum_blocks(self, source: Any, statistic: Statistic, rows: int) -> Sums:
        """`statistic` summed over blocks of `rows` rows, in the fixed tree of this module."""

    def map_blocks(self, source: Any, function: Statistic, rows: int) -> Iterator[Sums]:
        """What `function` returns for each block, in order."""


@runtime_checkable
class PassCache(Protocol):
    """Remembers what passes returned."""

    def recall_or_run(self, run: Callable[[], Sums], about: tuple[Any, ...]) -> Sums:
        """The result of `run`, or its result before a crash, if this same pass (`about`) was carried out then."""


@dataclass(frozen=True)
class Schedule:
    """How a pass is carried out; never what it returns. `workers` None means one thread for each core, or LAYBARE_THREADS.

    `block_bytes` is the memory of one block. Rows of a problem that need at most `keep_bytes` are kept in memory; larger data
    are streamed. With an `engine` (DaskEngine), its workers sum rows that are not in this process. A `journal` stores what
    passes returned and gives it back after a crash (see `laybare.source.checkpoint`).
    """

    workers: int | None = None
    block_bytes: int = BLOCKS.bytes
    progress: Progress | None = None
    keep_bytes: int = 512 << 20
    engine: Engine | None = None
    journal: PassCache | None = None

    def __post_init__(self) -> None:
        check_fields(self, workers=1)

    def threads(self, blocks: int) -> int:
        """Threads for this number of blocks."""
        return min(self.workers or _cores(), blocks)


def sum_blocks(read: Read, size: int, row_floats: int, statistic: Statistic, schedule: Schedule, stage: str = "pass") -> Sums:
    """Sum of `statistic` over rows 0..size, read block by block with `read(start, stop)`.

    `row_floats` is the number of floats in one row of the data. Memory: a few blocks per worker, log2(blocks) partial sums.
    """
    rows = plan_block_rows(size, row_floats, statistic, schedule)
    starts = range(0, size, rows)
    one = partial(evaluate_block, read, statistic, size, rows)
    total = PairwiseSum()
    with single_blas_thread(), closing(map_in_order(one, starts, schedule.threads(len(starts)))) as results:
        for done, sums in enumerate(results, start=1):
            total.add(sums)
            if schedule.progress is not None:
                schedule.progress(Event(stage, done, len(starts)))
    return total.value()


def plan_block_rows(size: int, row_floats: int, statistic: Statistic, schedule: Schedule) -> int:
    """Rows of each block of a pass over `size` rows; does not depend on where they are summed."""
    least = 8 * BLOCKS.sum_ratio * int(getattr(statistic, "sum_floats", 0))
    floats = row_floats + int(getattr(statistic, "row_floats", 0))
    if getattr(statistic, "single", False):
        floats = -(-floats // 2)
    rows = balanced_block_rows(size, block_rows(floats, max(schedule.block_bytes, least)))
    return rows if rows < size or size * floats < BLOCKS.split_floats else GRAIN * -(-size // (2 * GRAIN))


def block_rows(row_floats: int, block_bytes: int = BLOCKS.bytes) -> int:
    """Rows of a block: as many grains as fit into `block_bytes`, at least one."""
    return GRAIN * max(1, block_bytes // (8 * GRAIN * max(1, row_floats)))


def balanced_block_rows(size: int, most: int) -> int:
    """Rows of a block, at most `most`. A small number of blocks is made even and their sizes about equal: cores come in pairs."""
    blocks = -(-size // most)
    return most if blocks == 1 or blocks > BLOCKS.few_blocks else min(most, GRAIN * -(-size // (2 * GRAIN * -(-blocks // 2))))


def balance_two_blocks(rows: int) -> int:
    """The number of rows, changed by at most an eighth so that it splits into two equal blocks: neither of two threads waits."""
    even = round(rows / (2 * GRAIN)) * 2 * GRAIN
    return even if 8 * abs(even - rows) <= rows else rows


def _cores() -> int:
    """LAYBARE_THREADS, or the cores that this process may use: in a container often fewer than the machine has."""
    given = os.environ.get("LAYBARE_THREADS", "").strip()
    if given:
        if not given.isdecimal() or int(given) < 1:
            raise InvalidInput(
                f"LAYBARE_THREADS is {given!r}.", "It is the number of threads of a pass.",
                "Set it to a whole number, at least 1, or unset it.", threads=given)
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def evaluate_block(read: Read, statistic: Statistic, size: int, rows: int, start: int) -> Sums:
    """The statistic of the block that begins at `start`."""
    # Some BLAS libraries have one limit per thread. Sums that overflow become inf or NaN, which callers check.
    with single_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        sums = statistic(*read(start, min(start + rows, size)))
    if not isinstance(sums, tuple):
        raise InvalidInput(
            f"The statistic returned a {type(sums).__name__}.", "A statistic is a function (x, y) -> tuple of arrays.",
            "Return a tuple, with a comma even for one array: return (x.T @ x,).", returned=type(sums).__name__)
    return tuple(np.asarray(part) for part in sums)


class PairwiseSum:
    """Pairwise summation of blocks that come one by one: partial[i] is the sum of 2^i consecutive blocks, or None."""

    def __init__(self) -> None:
        self.partial: list[Sums | None] = []

    def add(self, sums: Sums) -> None:
        """Add the next block."""
        for level, held in enumerate(self.partial):
            if held is None:
                self.partial[level] = sums
                return
            sums = _plus(held, sums, own=level > 0)  # from level 1 on, `held` was made here and may be overwritten
            self.partial[level] = None
        self.partial.append(sums)

    def value(self) -> Sums:
        """The sum of all blocks so far."""
        total: Sums | None = None
        for held in self.partial:
            if held is not None:
                total = held if total is None else _plus(held, total)
        return total if total is not None else ()


def pairwise_sum(nodes: Iterable[Sums]) -> Sums:
    """The sum of nodes of one level, in their order; only the last may hold fewer blocks."""
    tree = PairwiseSum()
    for node in nodes:
        tree.add(node)
    return tree.value()


def _plus(left: Sums, right: Sums, *, own: bool = False) -> Sums:
    """The sum of both, written into `left` if `own`."""
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
