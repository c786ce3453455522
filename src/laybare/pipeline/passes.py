"""What is shown while one pass takes long: its blocks, under the stage of the step that waits for it; a black box's queries.

A solver tells of its steps. A step on rows that stay on disk is several passes of many seconds each, so that between two steps
nothing would move. Passes that are quick are not told of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from laybare.shapes import Event, Progress
from laybare.source import Oracle

LONG = 0.5
"""Seconds without a word after which the blocks of a pass are told of."""


class PassListener:
    """Hands events of steps on as they are, and those of blocks if nothing was said for a while."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._step, self._told = progress, Event("reading", 0, 0), time.monotonic()

    def step(self, event: Event) -> None:
        """A step of whoever works."""
        self._step = event
        self._tell(event)

    def block(self, event: Event) -> None:
        """A block of a pass, or queries: the stage and the detail are those of the step under way."""
        if time.monotonic() - self._told > LONG:
            detail = ", ".join(filter(None, (event.detail or "blocks", self._step.detail)))
            self._tell(Event(self._step.stage, event.done, event.total, detail))

    def _tell(self, event: Event) -> None:
        self._told = time.monotonic()
        self._progress(event)


def listened_to(source: Any, progress: Progress | None) -> tuple[Any, Progress | None]:
    """The same source, whose long passes are told of, and who is to be told of steps; both as they are if nobody listens.

    Passes of a cluster are not told of: a listener stays in its process.
    """
    if progress is None or source.schedule.engine is not None:
        return source, progress
    listener = PassListener(progress)
    schedule = replace(source.schedule, progress=listener.block)
    return source.scheduled(schedule) if isinstance(source, Oracle) else source.with_schedule(schedule), listener.step


def at_first_step(progress: Progress | None, begin: Callable[[], None]) -> Progress:
    """The same progress; a solver's first step begins what can wait until few rows are worked on, which keep one core only."""

    def heard(event: Event) -> None:
        if event.stage == "refining":
            begin()
        if progress is not None:
            progress(event)

    return heard
