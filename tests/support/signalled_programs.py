"""Programs that are sent signals: started, signalled at a given moment, and what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAM = (sys.executable, "-c", "from laybare.cli import main; main()")
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ended:
    """Exit status, seconds from the (last) signal to the end, whether the program had ended before, and what it printed.

    `seconds` leaves out the time in which the program could run and other programs had the processor; `wall` does not.
    """

    status: int
    seconds: float
    wall: float
    before: bool
    out: str
    err: str


def start(words: Sequence[str], folder: Path, **options: object) -> subprocess.Popen[str]:
    """A process that takes SIGINT, also where this one was told to ignore it (a background job of a shell)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            list(words), cwd=folder, env=ENVIRONMENT, text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})  # type: ignore[call-overload,no-any-return]
    finally:
        signal.signal(signal.SIGINT, before)


def signalled(
    words: Sequence[str], folder: Path, after: float, *, signals: Sequence[int] = (signal.SIGINT,), apart: float = 0.5
) -> Ended:
    """Start it, send the signals, the first after so many seconds, and wait for its end."""
    running = start(words, folder)
    time.sleep(after)
    before = running.poll() is not None
    sent, queued = time.monotonic(), 0.0
    for number, one in enumerate(signals):
        if number:
            time.sleep(apart)
        sent, queued = time.monotonic(), _seconds_in_queue(running.pid)
        running.send_signal(one)
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)  # its numbers are there until it is waited for
    wall = time.monotonic() - sent
    seconds = wall - (_seconds_in_queue(running.pid) - queued)
    out, err = running.communicate(timeout=60)
    return Ended(running.returncode, seconds, wall, before, out, err)


def _seconds_in_queue(process: int) -> float:
    """Seconds that the main thread waited for a processor; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
