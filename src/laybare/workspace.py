"""Large arrays that a statistic fills again for every block: taken once a thread, not once a block.

Memory that is given back and asked for again costs a page fault for every 4 kB. Workers of Dask give everything back at once
(their MALLOC_TRIM_THRESHOLD_ is small), and a pass for normal equations took a third longer there.
"""

from __future__ import annotations

import math
import threading

import numpy as np

from laybare.shapes import Array

_HELD = threading.local()


def workspace(owner: str, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """An array with anything in it, the owner's until this thread asks for it again. It must not leave the statistic."""
    held, size = _HELD.__dict__, math.prod(shape)
    flat = held.get(owner)
    if flat is None or flat.size < size or flat.dtype != dtype:
        held[owner] = flat = np.empty(size, dtype)
    space: Array = flat[:size].reshape(shape)
    return space
