"""Blocks on several threads, their results in order; whoever interrupts finds no lock half taken.

`concurrent.futures` takes its locks in Python code: an interrupt there can leave one taken, and a pass in some hundreds of
interrupted ones never came back. Here threads take their blocks from a queue and answer into another, both written in C.

A thread that has nothing left to do waits for the next pass, with the memory that it worked in (`laybare.workspace`): a pass of a
millisecond would spend as much again on new threads and on pages that were given back. Whoever asks for a pass works on it as
well: one thread less is woken, and has to wake it.

Where whole parts of a computation run at once, each does its own passes alone as long as the others are at work: two that share
two cores block by block take longer than two that have one each. A pass that is under way when another part ends takes over its
thread.
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

T = TypeVar("T")

_IDLE: deque[SimpleQueue[Task]] = deque()
"""Where threads that wait for work take it from. They are whoever needs them next's, and end with the process."""

_BUSY: set[int] = set()
"""Threads that work on a block."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # threads do not live on in a child
    os.register_at_fork(after_in_child=_BUSY.clear)


AHEAD = 2
"""Blocks under way for each thread: one that is worked on and one that waits."""

Task = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What became of the block that begins at `start`: its result, or the error it ended with."""

    start: int
    result: T | None
    error: BaseException | None


class Team(Generic[T]):
    """Threads that work on blocks until they are dismissed, beside whoever waits for the results."""

    def __init__(self, one: Callable[[int], T], threads: int) -> None:
        self.one = one
        self.asked: SimpleQueue[int | None] = SimpleQueue()
        self.answers: SimpleQueue[Answer[T]] = SimpleQueue()
        self.threads = threads - 1
        self.working: list[LockType] = []
        self.early: dict[int, Answer[T]] = {}

    def begin(self) -> None:
        """Start the threads. Each lets its lock go when it ends; one that an interrupt keeps off the list is not waited for."""
        for _ in range(self.threads):
            lock = allocate_lock()
            lock.acquire()
            _hired().put(partial(self._work, lock))
            self.working.append(lock)

    def result(self, start: int) -> T:
        """Of the block that begins at `start`, which this thread does itself if nobody has begun it; an error is raised here."""
        while start not in self.early:
            answer = self._next_answer()
            self.early[answer.start] = answer
        answer = self.early.pop(start)
        if answer.error is not None:
            raise answer.error
        return answer.result  # type: ignore[return-value]  # there is one if there is no error

    def _next_answer(self) -> Answer[T]:
        """One that is there; or that of a block which nobody has begun; or the next of the others."""
        with suppress(Empty):
            return self.answers.get_nowait()
        try:
            start = self.asked.get_nowait()
        except Empty:
            return self.answers.get()
        if start is None:  # that was for another
            self.asked.put(None)
            return self.answers.get()
        answer = self._answer(start)
        if isinstance(answer.error, KeyboardInterrupt):
            raise answer.error  # at once, not when it is that block's turn
        return answer

    def no_more(self) -> None:
        """Nothing will be asked after this: threads leave as soon as they find nothing left to do."""
        for _ in range(self.threads):
            self.asked.put(None)

    def dismiss(self, *, wait: bool) -> None:
        """Take back what nobody has begun; and wait for what somebody has, or let it end unheard."""
        with suppress(Empty):
            while True:
                self.asked.get_nowait()
        self.no_more()
        for lock in self.working if wait and not sys.is_finalizing() else ():  # threads stand still when the interpreter ends
            lock.acquire()

    def _work(self, lock: LockType) -> None:
        try:
            while (start := self.asked.get()) is not None:
                self.answers.put(self._answer(start))
        finally:
            lock.release()

    def _answer(self, start: int) -> Answer[T]:
        this = get_ident()
        within = this in _BUSY
        try:
            _BUSY.add(this)
            return Answer(start, self.one(start), None)
        except BaseException as error:
            return Answer(start, None, error)
        finally:
            if not within:
                _BUSY.discard(this)


class Later(Generic[T]):
    """Something that is wanted in the end, done on another thread as soon as somebody says that one is idle; else when it is
    wanted."""

    def __init__(self, task: Callable[[], T], threads: int) -> None:
        self.task, self.answers = task, SimpleQueue[Answer[T]]()
        self.waiting = [True] if threads > 1 else []  # a token: a method of this object would be a cycle, which keeps its data
        self.begun = False

    def begin(self) -> None:
        """Only the first time, and only where there may be another thread."""
        with suppress(IndexError):
            self.waiting.pop()
            _hired().put(self._work)
            self.begun = True  # last: what an interrupt here begins unheard is done when it is wanted

    def result(self) -> T:
        """What it returned; or its error is raised."""
        if not self.begun:
            return self.task()
        answer = self.answers.get()
        if answer.error is not None:
            raise answer.error
        return answer.result  # type: ignore[return-value]  # there is one if there is no error

    def _work(self) -> None:
        try:
            self.answers.put(Answer(0, self.task(), None))
        except BaseException as error:
            self.answers.put(Answer(0, None, error))


def _hired() -> SimpleQueue[Task]:
    """The queue of a thread that does what it is given, one thing after the other."""
    try:
        return _IDLE.pop()
    except IndexError:
        tasks: SimpleQueue[Task] = SimpleQueue()
        start_new_thread(_serve, (tasks,))
        return tasks


def _serve(tasks: SimpleQueue[Task]) -> None:
    while True:
        tasks.get()()
        _IDLE.append(tasks)


def in_order(one: Callable[[int], T], starts: Sequence[int], threads: int) -> Generator[T, None, None]:
    """`one` of every start, in their order, at most two under way for each thread; within a block of another pass, on no more
    threads than that leaves idle.

    A pass that ends early waits for the blocks under way, which may still read or ask; whoever interrupts does not wait.
    """
    alone = 0
    while alone < len(starts) and _idle(threads) <= 1:
        yield one(starts[alone])
        alone += 1
    rest = starts[alone:]
    if len(rest) > 1:
        yield from _by_team(one, rest, _idle(threads))
    else:
        yield from map(one, rest)


def _idle(threads: int) -> int:
    """How many of so many threads this one can have, itself among them: those that are at work on what it is a part of are not
    idle."""
    return threads - (len(_BUSY) - 1) if get_ident() in _BUSY else threads


def _by_team(one: Callable[[int], T], starts: Sequence[int], threads: int) -> Generator[T, None, None]:
    team, waiting, patient = Team(one, threads), deque[int](), True
    try:
        team.begin()
        for start in starts:
            if len(waiting) == AHEAD * threads:
                yield team.result(waiting.popleft())
            team.asked.put(start)
            waiting.append(start)
        team.no_more()
        while waiting:
            yield team.result(waiting.popleft())
        patient = False  # nothing is under way
    except KeyboardInterrupt:
        patient = False
        raise
    finally:
        team.dismiss(wait=patient)
