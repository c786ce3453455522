"""Parts of a computation that know nothing of each other, at once.

Dense algebra between passes, and passes over few rows, keep one core only: where there are two such parts, each has one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from laybare.blas import single_blas_thread
from laybare.shapes import Event, Progress
from laybare.source.protocol import Source
from laybare.source.threads import in_order
from laybare.source.views import KeptRows


def side_by_side(source: Source, *parts: Callable[[], Any]) -> list[Any]:
    """What `parts` return, which all look at these rows: at once, each with one thread, if there are `lanes` for them."""

    def one(number: int) -> Any:
        with single_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return parts[number]()

    return list(in_order(one, range(len(parts)), min(lanes(source), len(parts))))


def until_interrupted(
    source: Source, progress: Progress | None, *parts: Callable[[Progress], Any]
) -> list[Any] | None:
    """The same for parts that tell of their steps: an interrupt of one, or of whoever hears of them, ends all of them at their
    next step, unheard. Nothing is returned then."""
    over: list[bool] = []

    def heard(event: Event) -> None:
        if over:
            raise KeyboardInterrupt
        if progress is not None:
            progress(event)

    try:
        return side_by_side(source, *(partial(part, heard) for part in parts))
    except KeyboardInterrupt:
        over.append(True)
        return None


def lanes(source: Source) -> int:
    """How many parts of a computation with these rows can run at once.

    A journal wants one pass after the other, since it gives them back in their order, and so do the workers of a cluster. Where
    rows are not kept, for want of memory, there is none for two parts at once either.
    """
    schedule = source.schedule
    alone = not isinstance(source, KeptRows) or schedule.journal is not None or schedule.engine is not None
    return 1 if alone else schedule.threads(2)
