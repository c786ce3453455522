"""Blocks on several threads, their results in order; an interrupt never leaves a lock taken.

`concurrent.futures` takes its locks in Python code: an interrupt there can leave one taken, and the pass hangs. Here threads
take blocks from one queue and put results into another, both written in C.

An idle thread waits for the next pass and keeps its working memory (`numerics.workspace`): new threads and fresh pages would
double the time of a pass of a millisecond. The calling thread works on blocks too, so one thread less has to be woken.

Where whole tasks run at once (`source.parallel`), each does its own passes alone while the others work: two tasks that share two
cores block by block take longer than two with one core each. When one task ends, a running pass of another takes over its thread.
"""

from __future__ import annotations

import os
import sys
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

import numpy as np

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
