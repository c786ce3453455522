"""Blocks on several threads: in order, few at a time, errors passed on, and interrupts at any moment answered."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from laybare.source.sums import BLOCKS_PER_THREAD, BackgroundTask, map_in_order


def test_results_come_in_order_though_early_blocks_take_longest() -> None:
    def one(start: int) -> int:
        time.sleep(0.02 if start == 0 else 0.0)
        return start * start

    assert list(map_in_order(one, range(0, 40, 4), 3)) == [start * start for start in range(0, 40, 4)]


def test_no_more_blocks_are_under_way_than_memory_was_planned_for() -> None:
    begun: list[int] = []
    results = map_in_order(lambda start: begun.append(start) or start, range(100), 2)  # type: ignore[func-returns-value]
    for taken, _ in zip(range(1, 20), results, strict=False):
        assert len(begun) <= taken + BLOCKS_PER_THREAD * 2
    results.close()
    assert len(begun) <= 19 + BLOCKS_PER_THREAD * 2


def test_an_error_in_a_block_is_raised_and_nothing_goes_on() -> None:
    begun: list[int] = []

    def one(start: int) -> int:
        begun.append(start)
        return 1 // (start - 3)

    with pytest.raises(ZeroDivisionError):
        list(map_in_order(one, range(1000), 2))
    count = len(begun)
    time.sleep(0.05)
    assert len(begun) == count < 20


def test_a_pass_that_is_left_early_waits_for_the_blocks_under_way() -> None:
    begun, ended = threading.Event(), threading.Event()

    def one(start: int) -> int:
        if start:
            begun.set()
            time.sleep(0.05)
            ended.set()
        else:
            assert begun.wait(10.0)  # by another thread, since this one waits here
        return start

    results = map_in_order(one, range(2), 2)
    assert next(results) == 0
    results.close()
    assert ended.is_set()


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="interrupts by a timer are POSIX")
def test_an_interrupt_does_not_wait_for_the_blocks_under_way() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    over = threading.Event()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            list(map_in_order(lambda start: over.wait(30.0), range(2), 2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        ended = over.is_set()
        over.set()
    assert not ended


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="interrupts by a timer are POSIX")
def test_interrupts_at_any_moment_are_answered() -> None:
    """One of some hundreds never was, with the locks of concurrent.futures; the timer comes again, so that the test would end."""
    block = np.ones((40, 40))
    rng, slowest = np.random.default_rng(0), 0.0

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    list(map_in_order(lambda start: start, range(12), 2))  # what is imported by the first call is no part of this
    gc.disable()  # an interrupt inside of somebody's callback there is said to be lost, and is
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for after in rng.uniform(0.0002, 0.004, size=400):
            begun = time.perf_counter()
            try:
                signal.setitimer(signal.ITIMER_REAL, after, 10.0)
                while True:
                    assert sum(float((block @ block)[0, 0]) for _ in map_in_order(lambda start: start, range(12), 2)) == 480.0
            except KeyboardInterrupt:
                slowest = max(slowest, time.perf_counter() - begun)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert slowest < 5.0


def test_threads_wait_for_the_next_pass() -> None:
    """Two passes, one after the other, are worked on by the same threads."""
    workers: list[set[int]] = []
    for _ in range(3):
        seen: set[int] = set()
        list(map_in_order(lambda start, seen=seen: seen.add(threading.get_ident()) or time.sleep(0.01), range(8), 2))
        workers.append(seen)
    assert all(len(seen) == 2 for seen in workers)
    assert threading.get_ident() in set.intersection(*workers)  # whoever asks works as well
    assert len(set.union(*workers)) <= 3  # one may still be on its way back when the next pass begins


def test_passes_within_blocks_take_the_threads_that_are_idle() -> None:
    """While both tasks work, each is alone; once one has ended, the other has help."""
    begun, other = threading.Event(), threading.Event()
    workers: list[set[int]] = []

    def passed() -> set[int]:
        return set(map_in_order(lambda start: time.sleep(0.005) or threading.get_ident(), range(8), 2))  # type: ignore[func-returns-value]

    def lane(start: int) -> None:
        if start:
            begun.set()
            other.wait(10.0)
        else:
            begun.wait(10.0)
            workers.append(passed())
            other.set()
            time.sleep(0.1)
            workers.append(passed())

    list(map_in_order(lane, range(2), 2))
    workers.append(passed())
    assert [len(seen) for seen in workers] == [1, 2, 2]


def test_a_pass_that_is_under_way_takes_over_a_thread_that_becomes_idle() -> None:
    begun, other = threading.Event(), threading.Event()
    seen: list[int] = []

    def block(start: int) -> int:
        if start == 3:
            other.set()
            time.sleep(0.1)
        time.sleep(0.005)
        return threading.get_ident()

    def lane(start: int) -> None:
        if start:
            begun.set()
            other.wait(10.0)
        else:
            begun.wait(10.0)
            seen.extend(map_in_order(block, range(16), 2))

    list(map_in_order(lane, range(2), 2))
    assert len(set(seen[:4])) == 1 and len(set(seen)) == 2


def test_what_is_begun_early_is_waited_for() -> None:
    seen: list[int] = []
    later = BackgroundTask(lambda: seen.append(threading.get_ident()) or time.sleep(0.2), 2)  # type: ignore[func-returns-value]
    begun = time.perf_counter()
    later.begin()
    later.begin()
    assert time.perf_counter() - begun < 0.15
    later.result()
    assert len(seen) == 1 and seen[0] != threading.get_ident()


def test_an_error_of_what_is_begun_early_is_raised_by_whoever_wants_it() -> None:
    later = BackgroundTask(lambda: 1 // 0, 2)
    later.begin()
    with pytest.raises(ZeroDivisionError):
        later.result()


@pytest.mark.parametrize(("threads", "begun"), [(1, True), (2, False)])
def test_what_nobody_begins_is_done_when_it_is_wanted(*, threads: int, begun: bool) -> None:
    later = BackgroundTask(threading.get_ident, threads)
    if begun:
        later.begin()
    assert later.result() == threading.get_ident()


def test_a_pass_that_nobody_finished_does_not_hold_up_the_end() -> None:
    script = (
        "import time; from laybare.source.sums import map_in_order\n"
        "left = map_in_order(lambda start: time.sleep(0.2), range(9), 2)\n"
        "next(left)")
    assert subprocess.run([sys.executable, "-c", script], timeout=60.0).returncode == 0
