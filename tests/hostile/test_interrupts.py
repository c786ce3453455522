"""Ctrl-C at any moment: the status of an interrupt, within a second, no traceback, and what was found is saved."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hostile_server import hostile_server
from signalled_programs import ENVIRONMENT, PROGRAM, TELLING_PROGRAM, Ended, run, signalled, start

import laybare as lb
from laybare.cli.interrupts import STATE, keep_on_interrupt, note, results_saved
from laybare.errors import Interrupted
from laybare.numerics.shapes import Event

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.skipif(sys.platform == "win32", reason="signals")]

LIMIT = 1.0
"""Seconds within which an interrupt is answered (issue 40)."""

BOXES = """
import time
import numpy as np
W = np.random.default_rng(3).standard_normal((30, 20))
A = np.random.default_rng(4).standard_normal(30)
V, U = np.random.default_rng(5).standard_normal((6, 8)), np.random.default_rng(6).standard_normal((4, 6))

def slow(x):
    time.sleep(0.03)
    return np.maximum(x @ W.T + 0.3, 0.0) @ A

def deep(x):
    time.sleep(0.03)
    return np.maximum(np.maximum(x @ V.T + 0.3, 0.0) @ U.T - 0.2, 0.0).sum(axis=1)

def very_slow(x):
    open("asked", "w").close()
    time.sleep(30.0)
    return x[:, 0]

def noisy(x):
    time.sleep(0.02)
    return np.tanh(x @ W[:3, :8].T) @ A[:3] + 0.05 * np.sin(1e5 * x.sum(axis=1))
"""

DASK = """
import sys, logging, warnings
import numpy as np
warnings.simplefilter("ignore")
logging.getLogger("distributed").setLevel(logging.CRITICAL)
if __name__ == "__main__":
    try:
        import dask.array as da
        import laybare as lb
        x = np.random.default_rng(0).standard_normal((20000, 20))
        y = lb.random_network(20, 15, rng=0)(x) + np.random.default_rng(1).standard_normal(20000)
        source = lb.DaskSamples(da.from_array(x, chunks=(5000, 20)), da.from_array(y, chunks=5000))
        found = lb.recover(source, lb.RandomStart(), width=15, rng=0)
        found.network.save("found.safetensors")
        sys.exit(130 if found.interrupted else 0)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    truth = lb.random_network(20, 15, rng=0)
    x = np.random.default_rng(0).standard_normal((6000, 20))
    np.savez(tmp_path / "data.npz", x=x, y=truth(x) + np.random.default_rng(1).standard_normal(6000))
    (tmp_path / "boxes.py").write_text(BOXES)
    (tmp_path / "dask_program.py").write_text(DASK)
    return tmp_path


JSON = ("--json", "--out", "found.npz")
CALLS: dict[str, tuple[str, ...]] = {
    "recover": (*PROGRAM, "recover", "data.npz", "--width", "15", *JSON),
    "choose": (*PROGRAM, "recover", "data.npz", *JSON),
    "extract": (*PROGRAM, "extract", "boxes:slow", "--dim", "20", *JSON),
    "rounds": (*PROGRAM, "extract", "boxes:noisy", "--dim", "8", "--budget", "30000", *JSON),
    "audit": (*PROGRAM, "audit", "boxes:slow", "--dim", "20", "--budgets", "100,300,1000,3000", "--json"),
    "deep": (*PROGRAM, "extract", "boxes:deep", "--dim", "8", "--depth", "all", *JSON),
    "dask": (sys.executable, "dask_program.py"),
}
LONGEST = 25.0
"""Seconds of a run within which signals are sent, if it takes longer."""


def check_end(name: str, end: Ended, folder: Path) -> str:
    """What became of the run: over before the signal, nothing found yet, or something found; asserts that it is as promised."""
    if name == "dask":
        found = (folder / "found.safetensors").exists()
        assert end.before or end.status in (130, -signal.SIGINT) or found, end
        return "over" if end.before else "saved" if found else "early"
    assert not re.search(r"Traceback|Exception ignored|Error:", end.err), end.err
    if end.before or end.status in (0, 3, 4):  # it was writing its last line
        return "over"
    assert end.status == 130, end
    assert end.seconds < LIMIT, end
    if not end.out:
        assert end.err == "laybare: interrupted\n", end  # before a command had begun
        return "early"
    stated = json.loads(end.out)
    if "error" in stated:
        assert "nothing was found yet" in stated["error"] and not (folder / "found.npz").exists()
        return "early"
    assert stated["interrupted"]
    if name == "audit":
        assert stated["rows"] or "before its first budget" in stated["headline"]
    else:
        assert lb.export.from_npz(folder / "found.npz").width == stated["width"]
    return "saved"


def run_at(name: str, after: float, folder: Path) -> tuple[str, Ended]:
    for old in folder.glob("found.*"):
        old.unlink()
    end = signalled(CALLS[name], folder, after)
    return check_end(name, end, folder), end


@pytest.mark.parametrize(("name", "after"), [("recover", 2.5), ("extract", 3.0), ("audit", 6.0)])
def test_ctrl_c_at_a_moment(name: str, after: float, folder: Path) -> None:
    run_at(name, after, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_at_random_moments(name: str, folder: Path) -> None:
    """15 moments of each of 7 calls, 105 in all, spread over the time that a run takes; the counts are in docs/validation.md."""
    running, begun = start(CALLS[name], folder), time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        running.communicate(timeout=LONGEST)
    running.kill()
    running.communicate()
    latest = min(time.monotonic() - begun, LONGEST)
    moments = np.random.default_rng([40, list(CALLS).index(name)]).uniform(0.2, 1.0, size=15) * latest
    ends = [run_at(name, float(after), folder) for after in moments]
    counts = {kind: sum(end[0] == kind for end in ends) for kind in ("early", "saved", "over")}
    answered = [end for kind, end in ends if kind != "over"]
    slowest, wall = (max((getattr(end, part) for end in answered), default=0.0) for part in ("seconds", "wall"))
    print(f"{name}: {counts} in a run of {latest:.0f} s; slowest answer {slowest:.2f} s, {wall:.2f} s with waiting for others")


EARLY = (*TELLING_PROGRAM, *CALLS["recover"][len(PROGRAM):])
"""A recovery that is signalled before it has begun."""


@pytest.mark.parametrize("after", [0.0, 0.03, 0.1, 0.25])
def test_the_first_half_second(after: float, folder: Path) -> None:
    """While Python itself starts SIGINT is Python's, however long that takes; from `main` on it is a status and a line."""
    end = signalled(EARLY, folder, after)
    assert end.status in (130, -signal.SIGINT) and end.seconds < LIMIT
    assert "in main" not in end.err and (end.status != 130 or "interrupted" in end.err), end.err


@pytest.mark.slow
def test_the_first_half_second_at_forty_moments(folder: Path) -> None:
    ends = [signalled(EARLY, folder, float(after)) for after in np.linspace(0.0, 0.6, 40)]
    silent = [end for end in ends if "Traceback" not in end.err]
    print(f"{len(silent)} of 40 without a traceback, {sum(end.status == 130 for end in ends)} with status 130")
    assert all("in main" not in end.err for end in ends)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_saves_what_ctrl_c_saves(number: int, folder: Path) -> None:
    running = start((*PROGRAM, "recover", "data.npz", "--width", "15", "--verbose", "--out", "found.npz"), folder)
    assert running.stderr is not None
    while "refining" not in running.stderr.readline():
        assert running.poll() is None
    time.sleep(0.3)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 128 + number and "this is what was found until then" in err and "Traceback" not in err
    assert lb.export.from_npz(folder / "found.npz").dim == 20


def test_a_second_ctrl_c_leaves_at_once(folder: Path) -> None:
    twice = (signal.SIGINT, signal.SIGINT)
    end = signalled((*PROGRAM, "extract", "boxes:slow", "--dim", "20"), folder, 3.0, signals=twice, apart=0.35)
    assert end.status == 130 and end.seconds < LIMIT and "Traceback" not in end.err


def test_a_call_of_thirty_seconds_is_not_waited_for(folder: Path) -> None:
    end = signalled((*PROGRAM, "extract", "boxes:very_slow", "--dim", "3", "--json"), folder, 0.1, once="asked")
    assert end.status == 130 and end.seconds < LIMIT and "nothing was found yet" in end.err


@pytest.mark.parametrize("path", ["silent", "drip"])
def test_an_endpoint_under_way_is_not_waited_for(path: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "no_proxy", "*")
    with hostile_server() as server:
        running = start((*PROGRAM, "extract", f"{server.url}/{path}", "--dim", "2"), folder)
        while not server.requests:
            assert running.poll() is None
            time.sleep(0.01)
        time.sleep(0.1)
        sent = time.monotonic()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "nothing was found yet" in err and len(server.requests) == 1
    assert time.monotonic() - sent < 4.0  # of the 30 seconds that it may take; a busy machine takes some


def test_a_long_computation_of_a_library_is_not_waited_for(folder: Path) -> None:
    """Python handles no signal inside of one long call; a thread answers, and nothing has been found yet.

    The singular values take 30 seconds on one core, more on a busy one: the answer came before their end.
    """
    program = """
import sys, numpy as np
import laybare as lb
from laybare.cli import main
a = np.random.default_rng(0).standard_normal((4000, 4000))
lb.recover = lambda *given, **options: (print("begun", file=sys.stderr, flush=True), np.linalg.svd(a))
sys.argv[1:] = ["recover", "data.npz"]
main()
"""
    running = start((sys.executable, "-c", program), folder)
    assert running.stderr is not None
    while "begun" not in running.stderr.readline():
        assert running.poll() is None
    time.sleep(0.2)
    sent = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "nothing was found yet" in err and time.monotonic() - sent < 10.0


def test_python_s_own_last_steps_are_not_waited_for(folder: Path) -> None:
    """Threads of an abandoned pass can keep them from ending; here something else does."""
    program = """
import atexit, os, signal, sys, time
import laybare as lb
from laybare.cli import main

def interrupted(*given, **options):
    atexit.register(time.sleep, 100.0)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10.0)

lb.recover = interrupted
sys.argv[1:] = ["recover", "data.npz"]
main()
"""
    begun = time.monotonic()
    done = run((sys.executable, "-c", program), folder)
    assert done.returncode == 130 and "nothing was found yet" in done.stderr and time.monotonic() - begun < 60.0


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_standard_streams(closed: int, folder: Path) -> None:
    """As `laybare ... >&-` of a shell: no file may be opened in the place of a closed stream."""
    truth = lb.random_network(4, 3, rng=1)
    x = np.random.default_rng(0).standard_normal((300, 4))
    np.savez(folder / "small.npz", x=x, y=truth(x))
    words = [*PROGRAM, "recover", "small.npz", "--out", "found.npz"]
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", *words], cwd=folder, env=ENVIRONMENT, capture_output=True,
        text=True, timeout=120)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert lb.compare(lb.export.from_npz(folder / "found.npz"), truth).max_error < 1e-6


def test_a_reader_of_errors_that_has_gone_is_no_error(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, "recover", "nowhere.npz"], cwd=folder, env=ENVIRONMENT, stderr=writing, timeout=60)
    os.close(writing)
    assert done.returncode == 2


def test_an_ignored_signal_stays_ignored(folder: Path) -> None:
    """nohup, and background jobs of scripts, ignore signals that are meant for others."""
    program = "import signal; from laybare.cli.interrupts import listen; listen(); print(repr(signal.getsignal(signal.SIGHUP)))"
    words = ["/bin/sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", sys.executable, "-c", program]
    said = run(words, folder)
    assert "SIG_IGN" in said.stdout


# the states of a program, one signal at a time


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    for name, value in vars(STATE).items():
        monkeypatch.setattr(STATE, name, value)
    return lambda: STATE.handle(signal.SIGINT, None)


def test_an_interrupt_that_a_library_swallowed_is_raised_again(state: Callable[[], None]) -> None:
    with keep_on_interrupt(lambda event: None) as interrupts:
        interrupts.progress(Event("refining", 1, 2))
        with suppress(KeyboardInterrupt):  # as a destructor does
            state()
        with pytest.raises(Interrupted):
            interrupts.progress(Event("refining", 2, 2))


def test_what_is_certified_is_not_lost(state: Callable[[], None]) -> None:
    with keep_on_interrupt(lambda event: None) as interrupts:
        interrupts.progress(Event("certified", 0, 0))
        state()
    assert interrupts.wanted and STATE.act is note
    results_saved()
    assert STATE.act is note and STATE.status == 130


def test_an_interrupted_audit_keeps_its_budgets() -> None:
    """Through the library: an interrupt in the second budget leaves the first."""
    truth, asked = lb.random_network(3, 2, rng=0), []

    def box(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        if sum(asked) > 1130:
            raise KeyboardInterrupt
        return truth(x) + 0.1 * np.sin(1e6 * x.sum(axis=1))

    found = lb.audit(box, (60, 3000), dim=3)
    assert [row.budget for row in found.rows] == [60] and found.interrupted
    asked.append(2000)
    with pytest.raises(KeyboardInterrupt):
        lb.audit(box, (60, 3000), dim=3)


def test_an_interrupt_in_the_second_method_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from laybare.pipeline import portfolio

    monkeypatch.setattr(portfolio, "_may_improve", lambda *given, **options: True)
    truth = lb.random_network(3, 2, rng=1)
    x = np.random.default_rng(0).standard_normal((400, 3))

    def progress(event: Event) -> None:
        if event.stage == "method" and event.done == 2:
            raise Interrupted

    found = lb.recover(x, truth(x) + 0.3 * np.random.default_rng(1).standard_normal(400), progress=progress)
    assert found.network.dim == 3 and not found.interrupted
