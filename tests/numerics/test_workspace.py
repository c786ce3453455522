"""Arrays that are taken once a thread: the same memory for the same owner, nobody else's for another."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from laybare.numerics.workspace import keep_freed_memory, return_freed_memory, workspace


def test_the_same_memory_serves_again_as_long_as_it_is_enough() -> None:
    first = workspace("test", (6, 4), np.float64)
    again = workspace("test", (3, 5), np.float64)
    assert again.shape == (3, 5) and np.shares_memory(first, again)
    larger = workspace("test", (7, 4), np.float64)
    assert larger.shape == (7, 4) and not np.shares_memory(first, larger)


def test_owners_precisions_and_threads_do_not_share() -> None:
    mine = workspace("test", (6, 4), np.float64)
    assert not np.shares_memory(mine, workspace("another", (6, 4), np.float64))
    single = workspace("test", (6, 4), np.float32)
    assert single.dtype == np.float32 and not np.shares_memory(mine, single)
    mine = workspace("test", (6, 4), np.float64)
    theirs: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: theirs.append(workspace("test", (6, 4), np.float64)))
    thread.start()
    thread.join()
    assert not np.shares_memory(mine, theirs[0])


FAULTS = """
import resource, sys
import numpy as np
from laybare.numerics.workspace import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(2):
    np.ones(1 << 17)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(80):
    np.ones(1 << 17)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Page faults of arrays of one megabyte: too small for huge pages, of which one fault brings 512 at once."""


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.confstr("CS_GNU_LIBC_VERSION") is None, reason="glibc's setting")
def test_a_worker_that_gives_everything_back_is_told_to_keep_some() -> None:
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    given, kept = (
        int(subprocess.run(
            [sys.executable, "-c", FAULTS, how], env=environment, capture_output=True, check=True, timeout=120).stdout)
        for how in ("give", "keep"))
    assert given > 5000 and kept < 500


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    keep_freed_memory.cache_clear()
    assert not keep_freed_memory()
    keep_freed_memory.cache_clear()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no malloc_trim")
def test_freed_memory_is_given_back() -> None:
    """One array that is kept lies above those that are freed: glibc alone returns nothing below it."""

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    arrays = [np.ones(12_000) for _ in range(1000)]  # 96 MB, each below the size that is mapped by itself
    kept = arrays[-1]
    del arrays
    before = resident()
    return_freed_memory()
    assert resident() < before - 60e6
    assert kept[0] == 1.0
