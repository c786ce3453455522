"""Ctrl-C and SIGTERM: what was found is kept, what was not is not waited for, and the program ends within a second.

A signal means one of three things, whichever the program is at:

    leave     nothing would be lost: end at once
    stop      a command is at work: the first signal ends the search, a second one leaves
    note      results are being written: go on, and end with the status of an interrupt

The handler raises `Interrupted`, which is no Exception. What a handler raises can be lost, in a destructor or inside a library;
so the signal is remembered, and the next report of progress raises it again. Python runs handlers between two of its own
instructions: inside of one long call of a library a thread answers instead (`_watch`).
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from laybare.errors import BudgetExhausted, Interrupted, LaybareError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

ASKING = "lines"
"""The stage in which units are read one by one: no more answers, and it ends with those that it has."""

CERTIFYING = "certifying"
"""The stage in which the network is there and only its certificate is not."""

CERTIFIED = "certified"
"""What was found is complete, and only becomes better: from here on a search is stopped where it reports, and nowhere else."""

FRUITLESS_STAGES = frozenset({"", "reading", "looking", "first look", "moments", "landscape", "measuring"})
"""Stages in which nothing has been found yet."""

ECHO_SECONDS = 0.3
"""A second signal within these seconds is the same one. Convention: `make` and others pass on what the terminal sends to all."""

PATIENCE_SECONDS = 0.7
"""Seconds after which a signal that Python has not handled is answered by a thread. Derived: an answer within a second."""

TOO_EARLY = "nothing was found yet; what was answered is in the log, if there is one (--log), and the same call goes on there"
LATER = "one long computation is under way, and what was found is saved when it ends; Ctrl-C again leaves at once"


class SignalState:
    """The first signal that came, and what the next one does. There is one of it: signals belong to the process."""

    def __init__(self) -> None:
        self.number = 0  # of the first signal
        self.when = -1.0  # the last one was handled, on the clock `time.monotonic`
        self.fruitless = True  # whether nothing has been found
        self.listening = False
        self.act: Callable[[int, bool], None] = leave_at_once

    @property
    def status(self) -> int:
        """Exit status of a program that this signal ended. Convention: 128 + its number."""
        return 128 + (self.number or signal.SIGINT)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of all signals."""
        again, before = self.number != 0, self.when
        self.when, self.number = time.monotonic(), self.number or number
        if not again or self.when - before > ECHO_SECONDS:
            self.act(number, again)


def leave(number: int, message: str = "") -> NoReturn:
    """End the program here and now. Nothing is written any more; every log and every file is complete at any moment."""
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        shown = "\x1b[?25h" if os.isatty(2) else ""  # a progress bar hides the cursor
        os.write(2, f"{shown}laybare: {'; '.join(filter(None, ('interrupted', message)))}\n".encode())
    os._exit(128 + number)


def end_at_once(status: int) -> NoReturn:
    """End after an interrupt without Python's last steps: threads of the pass that was left may be inside a library, and Python
    would wait for them, in rare cases forever."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def leave_at_once(number: int, again: bool) -> None:
    """Nothing would be lost."""
    leave(number)


def note(number: int, again: bool) -> None:
    """Go on; the exit status says it. A second signal is not asked to wait."""
    if again:
        leave(number)


STATE = SignalState()


def listen() -> None:
    """Take the signals of this process, unless whoever started it wants them ignored (nohup, a background job)."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, STATE.handle)
    if STATE.listening:
        return
    atexit.register(_ignore)
    STATE.listening, sys.unraisablehook = True, _without_interrupts(sys.unraisablehook)
    with suppress(OSError, ValueError):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        start_new_thread(_watch, (reading,))


def _ignore() -> None:
    """The status is decided and all threads have ended: Python takes its last steps, and would give the signals back before."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _without_interrupts(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An interrupt that a destructor swallowed is raised again later; nobody needs to read about it."""

    def show(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            hook(unraisable)

    return show


def _watch(reading: int) -> None:
    """Answer signals that Python does not handle in time, because a library is inside of one long call."""
    given = False
    while numbers := os.read(reading, 512):
        if numbers[0] not in SIGNALS:
            continue
        came = time.monotonic()
        time.sleep(PATIENCE_SECONDS)
        handled = STATE.when > came - ECHO_SECONDS
        if not handled and (given or STATE.fruitless):
            leave(numbers[0], TOO_EARLY if STATE.fruitless else "")
        if not given:
            with suppress(OSError):
                os.write(2, f"laybare: interrupted; {LATER}\n".encode())
        given = True


class InterruptState:
    """A command at work: the stage that it is in, and whether somebody wants to stop.

    A solver takes an interrupt for its end and returns its best. Lines end by themselves once nothing is answered.
    """

    def __init__(self, progress: Callable[[Any], None]) -> None:
        self._stage, self._progress, self._asking = "", progress, False

    @property
    def wanted(self) -> bool:
        """Whether somebody wants to stop."""
        return STATE.number != 0

    def progress(self, event: Any) -> None:
        """Pass an event on, and remember the stage. A search that goes on although it should stop ends here."""
        self._stage = event.stage
        STATE.fruitless = STATE.fruitless and event.stage in FRUITLESS_STAGES
        if self.wanted and event.stage not in (ASKING, CERTIFYING, CERTIFIED):
            raise Interrupted(TOO_EARLY)
        self._progress(event)

    def guarded(self, ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A black box that answers nothing any more once somebody wants to stop; the call under way ends at once."""

        def answer(x: Any) -> Any:
            try:
                self._asking = True
                if not self.wanted:
                    return ask(x)
            except Interrupted:
                pass
            finally:
                self._asking = False
            if self._stage != ASKING:
                raise Interrupted(TOO_EARLY)
            raise BudgetExhausted(
                "The search was interrupted.", "Nothing more is asked.", "Call again to go on.", interrupted=True)

        return answer

    def stop(self, number: int, again: bool) -> None:
        """The signal."""
        if again and self._stage != CERTIFYING:
            leave(number)
        if self._stage not in (ASKING, CERTIFIED) or self._asking:
            raise Interrupted(TOO_EARLY)


@contextmanager
def keep_on_interrupt(progress: Callable[[Any], None]) -> Iterator[InterruptState]:
    """Inside, the first interrupt ends the search and not the program. Afterwards results are there: see `results_saved`."""
    kept, before = InterruptState(progress), STATE.act
    STATE.act = kept.stop
    try:
        yield kept
        STATE.act = note
    except (LaybareError, KeyboardInterrupt) as error:
        STATE.act = before
        raise (Interrupted(TOO_EARLY) if kept.wanted else error) from None
    except BaseException:
        STATE.act = before
        raise


def results_saved() -> None:
    """Nothing is left to keep: from here on a signal ends the program."""
    if not STATE.number:
        STATE.act = leave_at_once
