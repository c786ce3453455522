"""A bar while something runs: in a terminal, in a notebook, or a line for every stage where there is neither.

A callback is any function of one `Event` (stage, done, total, detail), called from the thread that works, often: at every block
of a pass and at every step of a solver. It must be quick; what it raises ends the work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, cast

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Event, Progress

REDRAW_SECONDS = 0.1
"""Seconds between two updates in a notebook. Convention: ten frames per second."""

FORECAST_SECONDS = 2.0
"""Seconds of a stage after which it says how long it takes. Convention: nobody waits for less."""


class StageClock:
    """The time that a stage has left at its pace so far: at most, since a stage may end before its own limit."""

    def __init__(self) -> None:
        self._stage, self._total, self._begun, self._first = "", 0, 0.0, 0

    def left(self, event: Event) -> str:
        """For example "at most 12 s left"; nothing for stages that have just begun or have no limit."""
        now = time.monotonic()
        if (event.stage, event.total) != (self._stage, self._total) or event.done < self._first:
            self._stage, self._total, self._begun, self._first = event.stage, event.total, now, event.done
        elapsed, done = now - self._begun, event.done - self._first
        if not event.total or done < 1 or elapsed < FORECAST_SECONDS:
            return ""
        seconds = elapsed * (event.total - event.done) / done
        return f"at most {seconds:.0f} s left" if seconds < 120.0 else f"at most {seconds / 60.0:.0f} min left"


@contextmanager
def resolve_progress(progress: Any) -> Iterator[Progress | None]:
    """What `progress=` means: nothing, a function of events, or True for a bar, which is gone afterwards."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with progress_bar(lines=True) as show:
            yield show
    elif callable(progress):
        yield cast(Progress, progress)
    else:
        raise InvalidInput(
            f"progress is {progress!r}.", "It is called at every step.", "Give a function of one event, True for a bar, or None.")


@contextmanager
def progress_bar(*, lines: bool = False) -> Iterator[Progress]:
    """A bar on stderr if that is a terminal, below the cell in a notebook; else a line for every stage, if they are wanted."""
    if _in_notebook():
        with _notebook_bar() as show:
            yield show
    elif _is_terminal():
        with _terminal_bar() as show:
            yield show
    else:
        yield _line_for_every_stage() if lines else _nothing


def count_of(event: Event) -> str:
    """How far the stage has come, and its own limit if it has one."""
    if event.total:
        return f"{event.done:,}/{event.total:,}"
    return f"{event.done:,}" if event.done else ""


def _nothing(event: Event) -> None:
    """Nobody looks."""


def _line_for_every_stage() -> Progress:
    begun, last = time.monotonic(), ""

    def show(event: Event) -> None:
        nonlocal last
        if event.stage != last:
            last = event.stage
            sys.stderr.write(f"{time.monotonic() - begun:6.1f} s  {event.stage} {count_of(event)} {event.detail}".rstrip() + "\n")
            sys.stderr.flush()

    return show


def _is_terminal() -> bool:
    from rich.console import Console

    return Console(stderr=True).is_terminal


@contextmanager
def _terminal_bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    texts = [TextColumn(text, markup=False) for text in (
        "{task.description:<11}", "{task.fields[count]:>11}", "{task.fields[detail]}")]
    columns: list[ProgressColumn] = [SpinnerColumn(), texts[0], BarColumn(24), *texts[1:], TimeElapsedColumn()]
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task, clock = bars.add_task("starting", total=None, detail="", count=""), StageClock()

        def show(event: Event) -> None:
            words = ", ".join(filter(None, (event.detail, clock.left(event))))
            bars.update(
                task, description=event.stage, completed=event.done, total=event.total or None, detail=words,
                count=count_of(event))

        yield show


def _in_notebook() -> bool:
    """Whether somebody sees HTML: a kernel is there, and not only IPython's terminal."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def _notebook_bar() -> Iterator[Progress]:
    from IPython.display import HTML, display

    begun, last, clock = time.monotonic(), 0.0, StageClock()
    place: Any = display(HTML(""), display_id=True)

    def show(event: Event) -> None:
        nonlocal last
        left = clock.left(event)
        if time.monotonic() - last > REDRAW_SECONDS:
            last = time.monotonic()
            place.update(HTML(_picture(event, last - begun, left)))

    try:
        yield show
    finally:
        place.update(HTML(""))


def _picture(event: Event, seconds: float, left: str) -> str:
    """One line of HTML; a stage without a known end has a bar that moves by itself."""
    share = f' value="{event.done}" max="{event.total}"' if event.total else ""
    words = " ".join(part for part in (count_of(event), event.detail, f"{seconds:.0f} s", left) if part)
    return f"<div><code>{escape(event.stage)}</code> <progress{share}></progress> <code>{escape(words)}</code></div>"
