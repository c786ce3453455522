"""Programs that are sent signals, and forked children: started, signalled, and what came of it. None is waited for forever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

Program = subprocess.Popen[str]

PROGRAM = (sys.executable, "-c", "from laybare.cli import main; main()")

STARTED = "started"
"""The file that `TELLING_PROGRAM` makes once Python itself has started: until then a signal is Python's own matter."""

TELLING_PROGRAM = (sys.executable, "-c", f"open({STARTED!r}, 'x').close(); from laybare.cli import main; main()")
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


LONGEST_SECONDS = 120.0
"""A program or a child that has not ended by then hangs: it is killed, and whoever waits for it or reads from it goes on."""


def start(words: Sequence[str], folder: Path | None = None, *, seconds: float = LONGEST_SECONDS, **options: Any) -> Program:
    """A process that takes SIGINT and SIGHUP, also where this one was told to ignore them (a shell's background job, nohup)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        running: Program = subprocess.Popen(
            list(words), cwd=folder, text=True,
            **{"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGHUP, hang_up)
    watch = threading.Timer(seconds, running.kill)
    watch.daemon = True
    watch.start()
    return running


def run(words: Sequence[str], folder: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """As subprocess.run, with its output, for a process that takes SIGINT."""
    running = start(words, folder, **options)
    out, err = running.communicate()
    return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def forked(action: Callable[[], int], meanwhile: Callable[[], object] = lambda: None) -> int:
    """The status of a forked child that does this, while the parent does something else; -9 if it had to be killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = action()
        finally:
            os._exit(status)
    meanwhile()
    until = time.monotonic() + LONGEST_SECONDS
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(ended[1])


def signalled(
    words: Sequence[str], folder: Path, after: float, *, once: str = "", signals: Sequence[int] = (signal.SIGINT,),
    apart: float = 0.5
) -> Ended:
    """Start it, send the signals, and wait. The first is sent `after` seconds, counted from when the file `once` is there (of
    `TELLING_PROGRAM` from its own start).

    Its output goes to files: a pipe that nobody reads is full after 64 kB, and the program would wait.
    """
    marker = STARTED if words[:len(TELLING_PROGRAM)] == TELLING_PROGRAM else once
    (folder / STARTED).unlink(missing_ok=True)
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        running = start(words, folder, stdout=out, stderr=err)
        while marker and not (folder / marker).exists() and running.poll() is None:
            time.sleep(0.0005)
        return _signalled(running, after, signals, apart, (out, err))


def _signalled(running: Program, after: float, signals: Sequence[int], apart: float, streams: tuple[IO[str], IO[str]]) -> Ended:
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
    seconds = wall - max(0.0, _seconds_in_queue(running.pid) - queued)  # 0 if it has ended
    running.wait(timeout=60)
    out, err = (stream.seek(0) or stream.read() for stream in streams)
    return Ended(running.returncode, seconds, wall, before, out, err)


def _seconds_in_queue(process: int) -> float:
    """Seconds that the main thread waited for a processor; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
