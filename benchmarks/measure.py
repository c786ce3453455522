"""What a benchmark needs: a row of the table, fair timing of two rivals, the peak of memory."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypedDict

from threadpoolctl import threadpool_info


class Row(TypedDict):
    """One claim: `ratio` = baseline / ours (how many times better), which must reach `need`."""

    name: str
    ours: float
    baseline: float
    ratio: float
    need: float
    unit: str


def row(name: str, *, ours: float, baseline: float, need: float, unit: str = "s") -> Row:
    return Row(name=name, ours=ours, baseline=baseline, ratio=baseline / ours, need=need, unit=unit)


class Best(NamedTuple):
    """Fastest wall-clock seconds: of ours, and of the best baseline."""

    ours: float
    baseline: float


def race(ours: Callable[[], object], *baselines: Callable[[], object], repeats: int = 5) -> Best:
    """Best of several runs, the rivals in turn, so that a busy spell of the machine hits all. One run each to warm up."""
    runs = [[seconds(run) for run in (ours, *baselines)] for _ in range(repeats + 1)][1:]
    fastest = [min(times) for times in zip(*runs, strict=True)]
    return Best(fastest[0], min(fastest[1:]))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def blas_threads() -> int:
    """Threads that one matrix product may use now."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)


def peak_memory(run: Callable[[], object], *, own: bool = False) -> int:
    """Bytes by which the process grows at most while `run` works (Linux: resident set; elsewhere: Python's own allocations).

    `own`: all that the process has at most, without pages of files, which the system takes back when it needs them.
    """
    if not STATM.exists():
        return _traced_peak(run)
    with _sampling(_own_bytes if own else _resident_bytes) as seen:
        run()
    return max(seen) if own else max(seen) - seen[0]


STATM = Path("/proc/self/statm")
SAMPLE_SECONDS = 0.0005
"""Much shorter than one block of a pass takes."""


def _resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _own_bytes() -> int:
    _, resident, shared, *_ = map(int, STATM.read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _sampling(read: Callable[[], int]) -> Iterator[list[int]]:
    seen = [read()]
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            seen.append(read())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
        seen.append(read())


def _traced_peak(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
