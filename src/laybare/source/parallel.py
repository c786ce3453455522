"""Independent tasks over the same rows, run at once.

Dense algebra between passes, and passes over few rows, use one core only: two such tasks then have one core each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from laybare.numerics.shapes import Event, Progress
from laybare.numerics.workspace import single_blas_thread
from laybare.source.protocol import Source
from laybare.source.threads import map_in_order
from laybare.source.views import RowsInMemory


def run_parallel(source: Source, *tasks: Callable[[], Any]) -> list[Any]:
    """Results of `tasks`, which read these rows: at once, each on one thread, as far as `max_parallel_tasks` allows."""

    def run(number: int) -> Any:
        with single_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return tasks[number]()

    return list(map_in_order(run, range(len(tasks)), min(max_parallel_tasks(source), len(tasks))))


def run_until_interrupted(source: Source, progress: Progress | None, *tasks: Callable[[Progress], Any]) -> list[Any]:
    """The same for tasks that report their steps. An interrupt in any task stops all tasks."""
    interrupted: list[bool] = []

    def report(event: Event) -> None:
        if interrupted:
            raise KeyboardInterrupt
        if progress is not None:
            progress(event)

    try:
        return run_parallel(source, *(partial(task, report) for task in tasks))
    except KeyboardInterrupt:
        interrupted.append(True)
        raise


def max_parallel_tasks(source: Source) -> int:
    """How many tasks over these rows can run at once.

    One if there is a journal, which gives passes back in their order, if there is a cluster, or if the rows are not in memory:
    then there is no memory for two tasks either.
    """
    schedule = source.schedule
    alone = not isinstance(source, RowsInMemory) or schedule.journal is not None or schedule.engine is not None
    return 1 if alone else schedule.threads(2)
