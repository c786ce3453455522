"""Ctrl-C keeps what was found: the first one ends the search, a second one the certificate's tests or, elsewhere, the program."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from laybare.errors import BudgetExhausted, LaybareError
from laybare.shapes import Array, Event, Progress

ASKING = "lines"
"""The stage in which units are read one by one: no more answers, and it ends with those that it has."""

CERTIFYING = "certifying"
"""The stage in which the network is there and only its certificate is not."""

TOO_EARLY = "nothing was found yet; what was answered is in the log, if there is one (--log), and the same call goes on there"


class Interrupts:
    """Whether somebody wants to stop, and how the stage under way is told.

    A solver takes a KeyboardInterrupt for its end and hands over its best. Lines end by themselves once nothing is answered.
    """

    def __init__(self, progress: Progress) -> None:
        self.wanted, self._stage, self._progress = False, "", progress

    def progress(self, event: Event) -> None:
        """Pass an event on, and remember the stage."""
        self._stage = event.stage
        self._progress(event)

    def guarded(self, ask: Callable[[Array], Any]) -> Callable[[Array], Any]:
        """A black box that answers nothing any more once somebody wants to stop."""

        def answer(x: Array) -> Any:
            if self.wanted:
                raise BudgetExhausted("The search was interrupted.", "Nothing more is asked.", "Call again to go on.")
            return ask(x)

        return answer

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal."""
        if self.wanted and self._stage != CERTIFYING:
            raise click.Abort
        self.wanted = True
        if self._stage != ASKING:
            raise KeyboardInterrupt


@contextmanager
def keeping(progress: Progress) -> Iterator[Interrupts]:
    """Inside, the first interrupt ends the search and not the program."""
    kept = Interrupts(progress)
    before = signal.signal(signal.SIGINT, kept.handle)
    try:
        yield kept
    except (LaybareError, KeyboardInterrupt) as error:
        raise (click.Abort(TOO_EARLY) if kept.wanted else error) from None
    finally:
        signal.signal(signal.SIGINT, before)
