"""Shapes as types. They cost nothing in use; the tests check them with beartype.

Letters: n samples, d input dimension (dim), k hidden units (width), m outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Weights: TypeAlias = Float[np.ndarray, "k d"]
Biases: TypeAlias = Float[np.ndarray, " k"]
Square: TypeAlias = Float[np.ndarray, "d d"]
Sums: TypeAlias = tuple[Array, ...]
Statistic: TypeAlias = Callable[[Array, Array], Sums]


class Event(NamedTuple):
    """One tick of progress: `done` of `total` in `stage`; total 0 means that the end is not known.

    `work` is what was done since the last tick that has any, in seconds of the cost model: from sizes, not from a clock.
    """

    stage: str
    done: int
    total: int
    detail: str = ""
    work: float = 0.0


Progress: TypeAlias = Callable[[Event], None]


def report_progress(progress: Progress | None, stage: str, done: int = 0, total: int = 0, detail: str = "") -> None:
    """One tick, if anybody listens."""
    if progress is not None:
        progress(Event(stage, done, total, detail))
