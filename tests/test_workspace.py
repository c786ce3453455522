"""Arrays that are taken once a thread: the same memory for the same owner, nobody else's for another."""

from __future__ import annotations

import threading

import numpy as np

from laybare.workspace import workspace


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
