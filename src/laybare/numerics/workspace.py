"""Large arrays that a statistic fills again for every block: allocated once per thread, not once per block.

Freed memory that is allocated again costs a page fault per 4 kB. Workers of Dask return freed memory at once (their
MALLOC_TRIM_THRESHOLD_ is small), which slows passes for normal equations: such a process keeps some of what it frees.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from functools import lru_cache

import numpy as np

from laybare.numerics.shapes import Array

_HELD = threading.local()

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Convention: the numbers of the two settings in glibc, mallopt(3)."""

KEPT_BYTES, LARGEST_KEPT_ARRAY = 1 << 28, 1 << 26
"""Bytes of freed memory that a worker keeps, and of the largest array among them. Checked by `make bench BENCH_ARGS=dask`."""


def workspace(owner: str, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """An uninitialised array, the owner's until this thread asks for it again. It must not leave the statistic."""
    held, size = _HELD.__dict__, math.prod(shape)
    flat = held.get(owner)
    if flat is None or flat.size < size or flat.dtype != dtype:
        held[owner] = flat = np.empty(size, dtype)
    space: Array = flat[:size].reshape(shape)
    return space


@lru_cache
def keep_freed_memory() -> bool:
    """On glibc, in a process that returns freed memory at once: keep up to 256 MB of it."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ or not sys.platform.startswith("linux"):
        return False
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    return tune is not None and bool(tune(M_MMAP_THRESHOLD, LARGEST_KEPT_ARRAY)) and bool(tune(M_TRIM_THRESHOLD, KEPT_BYTES))


def return_freed_memory() -> None:
    """On glibc: give freed memory back to the system. It stays with the process otherwise, and adds to what comes next."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)
