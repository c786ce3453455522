"""Large arrays that a statistic fills again for every block: taken once a thread, not once a block.

Memory that is given back and asked for again costs a page fault for every 4 kB. Workers of Dask give everything back at once
(their MALLOC_TRIM_THRESHOLD_ is small), and a pass for normal equations took half as long again there: such a process is told to
keep some of what it frees.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from functools import lru_cache

import numpy as np

from laybare.shapes import Array

_HELD = threading.local()

TRIM, MMAP, KEPT, LARGEST = -1, -3, 1 << 28, 1 << 26
"""glibc's numbers for the two settings (mallopt(3)); bytes of freed memory that a worker keeps; up to which size of an array."""


def workspace(owner: str, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """An array with anything in it, the owner's until this thread asks for it again. It must not leave the statistic."""
    held, size = _HELD.__dict__, math.prod(shape)
    flat = held.get(owner)
    if flat is None or flat.size < size or flat.dtype != dtype:
        held[owner] = flat = np.empty(size, dtype)
    space: Array = flat[:size].reshape(shape)
    return space


@lru_cache
def keep_freed_memory() -> bool:
    """In a process that was told to give freed memory back at once, and where the C library is glibc: keep up to 256 MB of it."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ or not sys.platform.startswith("linux"):
        return False
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    return tune is not None and bool(tune(MMAP, LARGEST)) and bool(tune(TRIM, KEPT))
