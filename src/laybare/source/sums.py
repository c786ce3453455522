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

Blocks run on several threads (`map_in_order`), their results come in order, and an interrupt never leaves a lock taken.
`concurrent.futures` takes its locks in Python code: an interrupt there can leave one taken, and the pass hangs. Here threads take
blocks from one queue and put results into another, both written in C.

An idle thread waits for the next pass and keeps its working memory (`numerics.workspace`): new threads and fresh pages would
double the time of a pass of a millisecond. The calling thread works on blocks too, so one thread less has to be woken.

Where whole tasks run at once (`run_parallel`), each does its own passes alone while the others work: two tasks that share two
cores block by block take longer than two with one core each. When one task ends, a running pass of another takes over its thread.
"""

from __future__ import annotations

import os
import sys
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_fields
from laybare.numerics.shapes import Array, Event, Progress, Statistic, Sums, report_progress
from laybare.numerics.workspace import single_blas_thread

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
    if len(starts) == 1:  # nothing to share out, nor to add up
        sums = one(0)
        report_progress(schedule.progress, stage, 1, 1)
        return sums
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


T = TypeVar("T")

_IDLE: deque[SimpleQueue[Task]] = deque()
"""Task queues of the idle threads. These threads serve every pass and end with the process."""

_BUSY: set[int] = set()
"""Threads that work on a block."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # threads do not live on in a child
    os.register_at_fork(after_in_child=_BUSY.clear)


BLOCKS_PER_THREAD = 2
"""Blocks under way per thread. Derived: one that is worked on and one that waits."""

Task = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[T]):
    """Result of the block that begins at `start`, or the error it ended with."""

    start: int
    result: T | None
    error: BaseException | None


class ThreadTeam(Generic[T]):
    """Threads that evaluate blocks until they are cancelled, beside the thread that waits for the results."""

    def __init__(self, evaluate: Callable[[int], T], threads: int) -> None:
        self.evaluate = evaluate
        self.pending: SimpleQueue[int | None] = SimpleQueue()
        self.results: SimpleQueue[TaskResult[T]] = SimpleQueue()
        self.threads = threads - 1
        self.locks: list[LockType] = []
        self.early: dict[int, TaskResult[T]] = {}

    def begin(self) -> None:
        """Start the threads. Each releases its lock when it ends; one that an interrupt keeps off the list is not waited for."""
        for _ in range(self.threads):
            lock = allocate_lock()
            lock.acquire()
            _thread_queue().put(partial(self._work, lock))
            self.locks.append(lock)

    def result(self, start: int) -> T:
        """Result of the block that begins at `start`; this thread evaluates it if no other has begun. Raises its error."""
        while start not in self.early:
            found = self._next_result()
            self.early[found.start] = found
        found = self.early.pop(start)
        if found.error is not None:
            raise found.error
        return found.result  # type: ignore[return-value]  # there is one if there is no error

    def _next_result(self) -> TaskResult[T]:
        """A finished result; else that of a block nobody has begun; else the next of the other threads."""
        with suppress(Empty):
            return self.results.get_nowait()
        try:
            start = self.pending.get_nowait()
        except Empty:
            return self.results.get()
        if start is None:  # the end mark of another thread
            self.pending.put(None)
            return self.results.get()
        found = self._evaluate(start)
        if isinstance(found.error, KeyboardInterrupt):
            raise found.error  # at once, not when it is that block's turn
        return found

    def close(self) -> None:
        """No blocks follow: threads leave when none is pending."""
        for _ in range(self.threads):
            self.pending.put(None)

    def cancel(self, *, wait: bool) -> None:
        """Drop the blocks that nobody has begun. Wait for the others, or let them end without their results."""
        with suppress(Empty):
            while True:
                self.pending.get_nowait()
        self.close()
        for lock in self.locks if wait and not sys.is_finalizing() else ():  # threads stand still when the interpreter ends
            lock.acquire()

    def _work(self, lock: LockType) -> None:
        try:
            while (start := self.pending.get()) is not None:
                self.results.put(self._evaluate(start))
        finally:
            lock.release()

    def _evaluate(self, start: int) -> TaskResult[T]:
        this = get_ident()
        nested = this in _BUSY
        try:
            _BUSY.add(this)
            return TaskResult(start, self.evaluate(start), None)
        except BaseException as error:
            return TaskResult(start, None, error)
        finally:
            if not nested:
                _BUSY.discard(this)


class BackgroundTask(Generic[T]):
    """A task whose result is needed at the end: run on another thread after `begin`, or by `result` if it was never begun."""

    def __init__(self, task: Callable[[], T], threads: int) -> None:
        self.task, self.results = task, SimpleQueue[TaskResult[T]]()
        self.waiting = [True] if threads > 1 else []  # a token: a method of this object would be a cycle, which keeps its data
        self.begun = False

    def begin(self) -> None:
        """Start it, the first time and if there may be another thread."""
        with suppress(IndexError):
            self.waiting.pop()
            _thread_queue().put(self._work)
            self.begun = True  # last: if an interrupt comes before, `result` runs the task again

    def result(self) -> T:
        """Its result; its error is raised here."""
        if not self.begun:
            return self.task()
        found = self.results.get()
        if found.error is not None:
            raise found.error
        return found.result  # type: ignore[return-value]  # there is one if there is no error

    def _work(self) -> None:
        try:
            self.results.put(TaskResult(0, self.task(), None))
        except BaseException as error:
            self.results.put(TaskResult(0, None, error))


def _thread_queue() -> SimpleQueue[Task]:
    """The task queue of an idle thread, or of a new one."""
    try:
        return _IDLE.pop()
    except IndexError:
        tasks: SimpleQueue[Task] = SimpleQueue()
        start_new_thread(_serve, (tasks,))
        return tasks


def _serve(tasks: SimpleQueue[Task]) -> None:
    np.seterr(all="ignore")  # of this thread alone, as in `recover`: results are checked where they are used
    while True:
        tasks.get()()
        _IDLE.append(tasks)


def map_in_order(evaluate: Callable[[int], T], starts: Sequence[int], threads: int) -> Generator[T, None, None]:
    """`evaluate` of every start, in their order, at most two blocks under way per thread.

    Inside a block of another pass, only the threads that pass leaves idle are used. A pass that ends early waits for the blocks
    under way, which may still read or ask; after an interrupt it does not wait.
    """
    done = 0
    while done < len(starts) and _free_threads(threads) <= 1:
        yield evaluate(starts[done])
        done += 1
    rest = starts[done:]
    if len(rest) > 1:
        yield from _map_on_team(evaluate, rest, _free_threads(threads))
    else:
        yield from map(evaluate, rest)


def _free_threads(threads: int) -> int:
    """Free threads for this task, including its own."""
    return threads - (len(_BUSY) - 1) if get_ident() in _BUSY else threads


def _map_on_team(evaluate: Callable[[int], T], starts: Sequence[int], threads: int) -> Generator[T, None, None]:
    team, waiting, wait = ThreadTeam(evaluate, threads), deque[int](), True
    try:
        team.begin()
        for start in starts:
            if len(waiting) == BLOCKS_PER_THREAD * threads:
                yield team.result(waiting.popleft())
            team.pending.put(start)
            waiting.append(start)
        team.close()
        while waiting:
            yield team.result(waiting.popleft())
        wait = False  # nothing is under way
    except KeyboardInterrupt:
        wait = False
        raise
    finally:
        team.cancel(wait=wait)
