"""Progress of a recovery, and its limits.

Searches end by themselves, after a number of repairs and doublings of the width; how long that takes depends on the data. A clock
listens to the progress events and stops a search in time: it returns the best that it has, and the certificate says so. Time
depends on the machine and on what else it does, work does not: steps tell what they cost, from their sizes alone, in seconds of
the cost model (`laybare.solver.options`). A limit of work stops a search at the same step everywhere.

A step on rows that stay on disk is several passes of many seconds each; blocks of such passes are reported under the stage of the
step that waits for them, and so are the queries of a black box.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from threading import Lock
from typing import Any

from laybare.certificate import Claim, ClaimName
from laybare.numerics.shapes import Event, Progress
from laybare.source import Oracle


@dataclass(frozen=True)
class SearchLimit:
    """When a search ends with the best that it has: after wall time in `seconds`, or `work` in seconds of the cost model.

    Only steps tell of work, so that it stands for several times as many seconds where much else is done.
    """

    seconds: float
    work: float = inf


LONGEST, LONGEST_CHOSEN = SearchLimit(3600.0), SearchLimit(600.0)
"""Limits of a recovery by a given method, and by chosen ones. Convention: an hour, ten minutes; `seconds=` changes them."""

SILENT_SECONDS = 0.5
"""Seconds without an event after which blocks of a pass are reported. Convention: a bar moves before one looks twice."""


class TimeLimitReached(KeyboardInterrupt):
    """An interrupt to the solver, which returns the best that it has."""


@dataclass(eq=False)
class Clock:
    """Forwards events until a limit is reached; then it stops the search that is running."""

    progress: Progress | None
    limit: SearchLimit
    begun: float = field(default_factory=time.perf_counter)
    work: float = 0.0
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.begun

    @property
    def worked_out(self) -> bool:
        """Whether the work that was granted is done."""
        return self.work > self.limit.work

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.elapsed > self.limit.seconds

    @property
    def over(self) -> bool:
        return self.worked_out or self.late

    def claim(self, said: str) -> Claim:
        """The claim that a limit ended what `said` tells."""
        if self.worked_out:
            return Claim(
                ClaimName.WORK_LIMIT, self.work, self.limit.work, False, "proved",
                f"the work that was granted ended before {said} Work is counted from sizes: it ends here on every machine.")
        return Claim(
            ClaimName.TIME_LIMIT, self.elapsed, self.limit.seconds, False, "proved",
            f"time ended before {said} A faster machine may come further.")

    def __call__(self, event: Event) -> None:
        with self._lock:  # of runs that go on at once
            self.work += event.work
        if self.progress is not None:
            of = f"{self.elapsed:.0f} s, stops at {self.limit.seconds:.0f} s"
            self.progress(event._replace(detail=f"{event.detail}, {of}" if event.detail else of))
        if event.stage == "refining" and (self.late or (event.work and self.worked_out)):
            raise TimeLimitReached


class PassReporter:
    """Forwards events of steps, and those of blocks if there was none for a while."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._step, self._last = progress, Event("reading", 0, 0), time.monotonic()

    def step(self, event: Event) -> None:
        """An event of a step."""
        self._step = event
        self._forward(event)

    def block(self, event: Event) -> None:
        """A block of a pass, or queries; stage and detail are those of the last step."""
        if time.monotonic() - self._last > SILENT_SECONDS:
            detail = ", ".join(filter(None, (event.detail or "blocks", self._step.detail)))
            self._forward(Event(self._step.stage, event.done, event.total, detail))

    def _forward(self, event: Event) -> None:
        self._last = time.monotonic()
        self._progress(event)


def with_progress(source: Any, progress: Progress | None) -> tuple[Any, Progress | None]:
    """Attach progress reporting to a source: the source, and the function for events of steps. No change if `progress` is None.

    Passes of a cluster are not reported: a listener stays in its process.
    """
    if progress is None or source.schedule.engine is not None:
        return source, progress
    reporter = PassReporter(progress)
    schedule = replace(source.schedule, progress=reporter.block)
    return source.scheduled(schedule) if isinstance(source, Oracle) else source.with_schedule(schedule), reporter.step


def run_on_first_step(progress: Progress | None, begin: Callable[[], None]) -> Progress:
    """Forward events, and call `begin` at a solver's first step: that is on few rows, which leave a core free."""

    def forward(event: Event) -> None:
        if event.stage == "refining":
            begin()
        if progress is not None:
            progress(event)

    return forward
