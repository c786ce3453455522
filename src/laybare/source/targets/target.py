"""A black box, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from laybare.shapes import Array


@dataclass(frozen=True)
class Target:
    """What is called with x (n, dim); its dimension, if it knows it; what a log calls it; at most how many rows a call."""

    ask: Callable[[Array], Any]
    name: str
    dim: int | None = None
    batch: int | None = None


def digest(arrays: Iterable[Any]) -> str:
    """Sixteen hex digits that tell one set of parameters from another."""
    found = blake2b(digest_size=8)
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()
