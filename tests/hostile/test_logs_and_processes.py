"""One log and many processes: what was paid for is lost by no fork, no spawn, no thread and no kill, and damage is said."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from signalled_programs import forked, run, start

import laybare as lb
from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array
from laybare.source.oracle.log import read_records

pytestmark = [
    pytest.mark.usefixtures("unchecked"), pytest.mark.skipif(sys.platform == "win32", reason="forks and signals"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")]


class Counted:
    """A network that counts its rows."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, x: Array) -> Array:
        self.rows += len(x)
        return np.abs(x).sum(axis=1)


def logged_rows(folder: Path, dim: int = 3) -> int:
    return sum(len(record.x) for record in read_records(folder / "answers.log", dim))


@pytest.mark.parametrize("ending", ["close", "del", "nothing"])
def test_a_forked_child_takes_nothing_from_the_log(tmp_path: Path, ending: str) -> None:
    """The child has an old idea of where the log ends, and used to cut it there."""
    box = Counted()
    oracles = [lb.Oracle(box, 3, log=tmp_path)]
    points = np.random.default_rng(0).standard_normal((40, 3))
    oracles[0].ask(points[:10])
    reading, writing = os.pipe()

    def child() -> int:
        os.read(reading, 1)  # until the parent has gone on
        if ending == "close":
            oracles[0]._ledger.transport.log.close()
        elif ending == "del":
            oracles.clear()
        return 0

    def parent() -> None:
        oracles[0].ask(points[10:])
        os.write(writing, b".")

    assert forked(child, parent) == 0
    os.close(reading)
    os.close(writing)
    assert logged_rows(tmp_path) == 40
    again = lb.Oracle(box, 3, log=tmp_path)
    again.ask(points)
    assert (box.rows, again.replayed) == (40, 40)


def test_a_forked_child_that_asks_is_refused_before_it_pays(tmp_path: Path) -> None:
    box = Counted()
    oracle = lb.Oracle(box, 3, log=tmp_path)
    oracle.ask(np.ones((1, 3)))

    def child() -> int:
        assert_array_equal(oracle.ask(np.ones((1, 3)), reuse=True), [[3.0]])  # what is known needs no log
        try:
            oracle.ask(np.zeros((2, 3)))
        except InvalidInput as refusal:
            return 0 if "Only one process knows" in str(refusal) and box.rows == 1 else 2
        return 3

    assert forked(child) == 0
    oracle.ask(np.zeros((2, 3)))
    assert logged_rows(tmp_path) == 3


def test_a_child_that_outlives_its_parent_does_not_keep_the_log(tmp_path: Path) -> None:
    program = f"""
import os, sys, time
sys.path[:0] = {[path for path in sys.path if path]!r}
import laybare as lb, numpy as np
oracle = lb.Oracle(lambda x: x[:, 0], 3, log={str(tmp_path)!r}, name="box")
oracle.ask(np.ones((4, 3)))
if os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(20.0)
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True)
    oracle = lb.Oracle(lambda x: x[:, 0], 3, log=tmp_path, name="box")
    oracle.ask(np.ones((4, 3)))
    assert oracle.replayed == 4


OPEN = """
import sys
sys.path[:0] = {path!r}
import laybare as lb
try:
    lb.Oracle(len, 3, log={log!r}, name="box")
except lb.errors.InvalidInput as refusal:
    print(refusal)
"""


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_another_process_cannot_open_the_log(tmp_path: Path, kind: str) -> None:
    oracle = lb.Oracle(Counted(), 3, log=tmp_path, name="box")
    oracle.ask(np.ones((5, 3)))
    if kind == "fork":
        with pytest.raises(InvalidInput, match="open in another process"):
            _open_in_child(tmp_path)
    else:
        program = OPEN.format(path=[path for path in sys.path if path], log=str(tmp_path))
        assert "open in another process" in subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True).stdout
    oracle.ask(np.zeros((5, 3)))
    assert logged_rows(tmp_path) == 10


def _open_in_child(folder: Path) -> None:
    """Raise here what a forked child was given."""
    reading, writing = os.pipe()

    def child() -> int:
        try:
            lb.Oracle(Counted(), 3, log=folder, name="box")
        except InvalidInput as refusal:
            os.write(writing, str(refusal).encode())
        return 0

    assert forked(child) == 0
    os.close(writing)
    said = os.read(reading, 1 << 16).decode()
    os.close(reading)
    if said:
        raise InvalidInput(said, "", "")


def test_an_oracle_is_not_sent_to_another_process(tmp_path: Path) -> None:
    oracle = lb.Oracle(np.sum, 3, log=tmp_path, name="sum")
    with pytest.raises(InvalidInput, match="sent to another process"):
        pickle.dumps(oracle)


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_with_one_log_lose_nothing(tmp_path: Path, threads: int) -> None:
    box = Counted()
    oracle = lb.Oracle(box, 3, budget=10_000, log=tmp_path, batch=7)
    points = np.random.default_rng(0).standard_normal((threads, 20, 9, 3))

    def work(part: Array) -> None:
        for some in part:
            assert_array_equal(oracle.ask(some)[:, 0], np.abs(some).sum(axis=1))

    team = [threading.Thread(target=work, args=(part,)) for part in points]
    for one in team:
        one.start()
    while any(one.is_alive() for one in team):
        assert forked(lambda: 0) == 0  # forks while threads write
    for one in team:
        one.join()
    assert box.rows == oracle.spent == logged_rows(tmp_path) == threads * 180
    again = lb.Oracle(Counted(), 3, budget=10_000, log=tmp_path)
    again.ask(points.reshape(-1, 3))
    assert again.replayed == threads * 180


def test_a_hole_is_damage(tmp_path: Path) -> None:
    """What a child of version 0.2 left behind: zeros, and the records of the parent behind them."""
    oracle = lb.Oracle(Counted(), 3, log=tmp_path, batch=5)
    oracle.ask(np.random.default_rng(0).standard_normal((30, 3)))
    del oracle
    file = tmp_path / "answers.log"
    whole, ends = file.read_bytes(), [record.end for record in read_records(file, 3)]
    for first, last in ((1, 2), (0, 3), (4, 5)):
        file.write_bytes(whole[: ends[first]] + bytes(ends[last] - ends[first]) + whole[ends[last] :])
        for attempt in (lambda: lb.Oracle(Counted(), 3, log=tmp_path), lambda: lb.open_samples(tmp_path)):
            if last == 5:  # nothing follows: that is space that was reserved
                attempt()
            else:
                with pytest.raises(InvalidInput, match=rf"byte {ends[first]} of .* is a hole of \d+ zeros, and others follow"):
                    attempt()


@pytest.mark.parametrize("flips", [300, pytest.param(3000, marks=pytest.mark.slow)])
def test_flipped_bits_of_a_log_are_never_silent(tmp_path: Path, flips: int) -> None:
    """Records carry checksums: whatever bit is flipped, no answer changes and none is lost without a word."""
    oracle = lb.Oracle(Counted(), 3, log=tmp_path, batch=4)
    oracle.ask(np.random.default_rng(0).standard_normal((12, 3)), purpose="a purpose")
    del oracle
    file, rng, silent = tmp_path / "answers.log", np.random.default_rng(flips), 0
    whole = file.read_bytes()
    before = [(record.x.tobytes(), record.y.tobytes()) for record in read_records(file, 3)]
    for place, bit in zip(rng.integers(len(whole), size=flips), rng.integers(8, size=flips), strict=True):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(bit)
        file.write_bytes(damaged)
        try:
            after = [(record.x.tobytes(), record.y.tobytes()) for record in read_records(file, 3)]
        except InvalidInput:
            continue
        silent += after != before
    assert silent == 0


RUN = """
import sys, time, numpy as np
sys.path[:0] = {path!r}
import laybare as lb
count = open({counter!r}, "ab", buffering=0)

def box(x):
    count.write(b"." * len(x))
    time.sleep(0.001)
    return np.maximum(x @ np.arange(1.0, 9.0) + 0.3, 0.0) - np.maximum(x @ np.array([2.0, -1, 0.5, 1, 3, -2, 1, 1]) - 0.1, 0.0)

print("asking", flush=True)
oracle = lb.Oracle(box, 8, budget=3000, log={log!r}, batch=16, name="box")
found = lb.recover(oracle, rng=0)
print(found.network.layer.weights.tobytes().hex(), found.certificate.verdict, oracle.spent, flush=True)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_kills_while_asking(tmp_path: Path, kills: int) -> None:
    """kill -9 at random moments of the asking: rows asked twice are at most one call per kill, and the result is the same."""
    path, log, counter = [path for path in sys.path if path], tmp_path / "log", tmp_path / "count"
    plain = RUN.format(path=path, counter=os.devnull, log=str(tmp_path / "other"))
    wanted = run([sys.executable, "-c", plain]).stdout.split()[1:]
    rng, done = np.random.default_rng(40), 0
    asked_at_kill: list[int] = []
    while done < kills:
        script = RUN.format(path=path, counter=str(counter), log=str(log))
        running = start([sys.executable, "-c", script])
        assert running.stdout is not None and running.stdout.readline() == "asking\n"
        goal = (counter.stat().st_size if counter.exists() else 0) + int(rng.integers(1, 40))
        while running.poll() is None and (not counter.exists() or counter.stat().st_size < goal):
            time.sleep(0.0005)
        time.sleep(rng.uniform(0.0, 0.003))
        if running.poll() is not None:  # everything was answered: begin again with an empty log
            running.communicate()
            assert_same_end(tmp_path, wanted, asked_at_kill)
            log.rename(tmp_path / f"log {done}")
            counter.unlink()
            asked_at_kill.clear()
            continue
        running.send_signal(signal.SIGKILL)
        running.communicate()
        done += 1
        asked_at_kill.append(counter.stat().st_size - logged_rows(log, 8))
    script = RUN.format(path=path, counter=str(counter), log=str(log))
    end = run([sys.executable, "-c", script])
    assert end.stdout.split()[1:] == wanted
    assert_same_end(tmp_path, wanted, asked_at_kill)


def assert_same_end(folder: Path, wanted: list[str], asked_at_kill: list[int]) -> None:
    """Rows asked in all, less those that the run needs, are rows asked twice: at most one call of 16 for every kill."""
    twice = (folder / "count").stat().st_size - int(wanted[-1])
    print(f"{len(asked_at_kill)} kills, {twice} rows asked twice, of {wanted[-1]}")
    assert 0 <= twice <= 16 * len(asked_at_kill)
    assert all(later - earlier <= 16 for earlier, later in zip([0, *asked_at_kill], asked_at_kill, strict=False))
