"""An end to every search: a clock that listens to its progress, and stops it in time.

Searches end by themselves, after so many repairs and doublings of the width; how long that takes depends on the data. A search
that is stopped hands over the best that it has, and its certificate says that it was not finished.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from laybare.shapes import Event, Progress

LONGEST, LONGEST_CHOSEN = 3600.0, 600.0
"""Seconds that a recovery may take unless it is told otherwise: by a method that was given, and by those that are chosen."""


class TimeIsUp(KeyboardInterrupt):
    """The solver takes it for an interrupt, and hands over the best that it has."""


@dataclass(eq=False)
class Clock:
    """Passes events on until `seconds` are over; then a search that is under way is stopped."""

    progress: Progress | None
    end: float
    begun: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.begun

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.end

    def __call__(self, event: Event) -> None:
        if self.progress is not None:
            of = f"{self.elapsed:.0f} of {self.end - self.begun:.0f} s"
            self.progress(event._replace(detail=f"{event.detail}, {of}" if event.detail else of))
        if event.stage == "refining" and self.over:
            raise TimeIsUp


def time_is_up(progress: Progress | None) -> bool:
    """Whether a search that was stopped was stopped by its clock; else somebody waits for an answer."""
    return isinstance(progress, Clock) and progress.over
