"""Parts of a computation that know nothing of each other, at once.

Dense algebra between passes, and passes over few rows, keep one core only: where there are two such parts, each has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from laybare.blas import single_blas_thread
from laybare.source.protocol import Source
from laybare.source.threads import in_order
from laybare.source.views import KeptRows


def side_by_side(source: Source, *parts: Callable[[], Any]) -> list[Any]:
    """What `parts` return, which all look at these rows: at once, each with one thread, if there are `lanes` for them."""

    def one(number: int) -> Any:
        with single_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return parts[number]()

    return list(in_order(one, range(len(parts)), min(lanes(source), len(parts))))


def lanes(source: Source) -> int:
    """How many parts of a computation with these rows can run at once.

    A journal wants one pass after the other, since it gives them back in their order, and so do the workers of a cluster. Where
    rows are not kept, for want of memory, there is none for two parts at once either.
    """
    schedule = source.schedule
    alone = not isinstance(source, KeptRows) or schedule.journal is not None or schedule.engine is not None
    return 1 if alone else schedule.threads(2)
