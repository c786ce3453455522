"""The ledger on disk: a crash loses nothing, the same call goes on, and nothing is asked twice."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from signalled_programs import run, start

import laybare as lb
from laybare.errors import BudgetExhausted, InvalidInput
from laybare.numerics.shapes import Array
from laybare.source.oracle.log import read_records

pytestmark = pytest.mark.usefixtures("unchecked")


class Counted:
    """A network that counts, and may change its mind with every call."""

    def __init__(self, *, noisy: bool = False) -> None:
        self.rows, self.noisy = 0, noisy

    def __call__(self, x: Array) -> Array:
        self.rows += len(x)
        return np.abs(x).sum(axis=1) + self.noisy * np.arange(self.rows, self.rows + len(x))


def asked(oracle: lb.Oracle, steps: int = 9) -> list[Array]:
    """A run of chosen and drawn queries that depends on the answers."""
    rng = np.random.default_rng(5)
    found = []
    for step in range(steps):
        x = rng.standard_normal((1 + 7 * step, oracle.dim))
        y = oracle.ask(x, purpose=f"step {step % 3}")
        found.append(y)
        found.append(oracle.ask(x[:1] + y[:1]))
        if step == 4:
            found.append(oracle.read(0, 1500).y.copy())
    return found


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("stopped", [0, 1, 4, 5, 9])
def test_the_same_call_goes_on(tmp_path: Path, stopped: int, noisy: bool) -> None:
    once = asked(lb.Oracle(Counted(noisy=noisy), 3, budget=4000))
    first = Counted(noisy=noisy)
    asked(lb.Oracle(first, 3, budget=4000, log=tmp_path), stopped)
    again = Counted(noisy=noisy)
    again.rows = first.rows  # so that the noise goes on where it was
    oracle = lb.Oracle(again, 3, budget=4000, log=tmp_path)
    for found, wanted in zip(asked(oracle), once, strict=True):
        assert_array_equal(found, wanted)
    assert again.rows == oracle.spent
    assert oracle.replayed == first.rows
    assert sum(oracle.queries.values()) == oracle.spent


def test_a_point_that_was_asked_five_times_has_five_answers(tmp_path: Path) -> None:
    point = np.ones((1, 2))
    first = lb.Oracle(Counted(noisy=True), 2, log=tmp_path)
    answers = [first.ask(point) for _ in range(5)]
    box = Counted(noisy=True)
    box.rows = 5
    again = lb.Oracle(box, 2, log=tmp_path)
    assert_array_equal([again.ask(point) for _ in range(6)][:5], answers)
    assert box.rows == 6


def test_a_log_is_samples(tmp_path: Path) -> None:
    oracle = lb.Oracle(Counted(), 3, budget=4000, log=tmp_path)
    asked(oracle)
    samples = lb.open_samples(tmp_path)
    assert samples.size == oracle.spent
    assert_array_equal(samples.y[:][:, 0], np.abs(samples.x[:]).sum(axis=1))


def test_a_log_of_probabilities_holds_probabilities_and_opens_as_log_odds(tmp_path: Path, rng: np.random.Generator) -> None:
    def box(x: Array) -> Array:
        p = 1 / (1 + np.exp(-x[:, 0]))
        return np.stack([1 - p, p], axis=1)

    x = rng.standard_normal((30, 2))
    y = lb.Oracle(box, 2, log=tmp_path).ask(x)
    assert_array_equal(lb.open_samples(tmp_path).y[:], y)
    (record,) = read_records(tmp_path / "answers.log", 2)
    assert_array_equal(record.y, box(x))


def test_the_format_is_the_one_in_the_manual(tmp_path: Path) -> None:
    """Read without the package: a line of JSON, then little-endian float64."""
    oracle = lb.Oracle(Counted(), 2, log=tmp_path)
    oracle.ask(np.array([[1.0, -2.0], [3.0, 0.5]]), purpose="by hand")
    header = json.loads((tmp_path / "log.json").read_text())
    assert (header["format"], header["dim"], header["link"]) == (1, 2, None)
    line, rest = (tmp_path / "answers.log").read_bytes().split(b"\n", 1)
    told = json.loads(line)
    assert (told["rows"], told["outputs"], told["purpose"]) == (2, 1, "by hand")
    numbers = np.frombuffer(rest[: 8 * 6], "<f8")
    assert_array_equal(numbers, [1, -2, 3, 0.5, 3, 3.5])
    assert told["crc32"] == f"{zlib.crc32(b'2 1 by hand' + rest[:48]):08x}"
    assert rest[48:49] == b"\n"
    assert not rest[49:].strip(b"\0")


@given(cut=st.integers(1, 3000))
def test_a_torn_end_is_asked_again_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("log")
    points = np.arange(60.0).reshape(30, 2)
    oracle = lb.Oracle(Counted(), 2, log=folder, batch=3)
    wanted = oracle.ask(points)
    oracle._ledger.transport.log.close()
    file = folder / "answers.log"
    whole = file.read_bytes()
    file.write_bytes(whole[: max(0, len(whole) - cut % len(whole))])
    left = sum(len(record.x) for record in read_records(file, 2))
    box = Counted()
    assert_array_equal(lb.Oracle(box, 2, log=folder, batch=3).ask(points), wanted)
    assert box.rows == 30 - left


def test_damage_further_up_is_named(tmp_path: Path) -> None:
    oracle = lb.Oracle(Counted(), 2, log=tmp_path, batch=3)
    oracle.ask(np.arange(60.0).reshape(30, 2))
    del oracle
    numbers = bytearray((tmp_path / "answers.log").read_bytes())
    numbers[200] ^= 4
    (tmp_path / "answers.log").write_bytes(numbers)
    for attempt in (lambda: lb.Oracle(Counted(), 2, log=tmp_path), lambda: lb.open_samples(tmp_path)):
        with pytest.raises(InvalidInput, match=r"record at byte \d+ of .*answers.log fails its checksum"):
            attempt()


@pytest.mark.parametrize(("other", "name"), [
    ({"rng": 1}, "seed"), ({"name": "another"}, "model"), ({"target": lb.random_network(3, 2, rng=0)}, "model"),
    ({"dim": 4}, "dim"), ({"box": (0, 1)}, "law"), ({"law": lb.Gaussian(1.0, 2.0)}, "inputs")])
def test_a_log_of_something_else_is_refused_by_name(tmp_path: Path, other: dict[str, object], name: str) -> None:
    lb.Oracle(Counted(), 3, log=tmp_path).ask(np.ones((1, 3)))
    with pytest.raises(InvalidInput, match=f"The log in .* has {name} .*, and now it is") as caught:
        lb.Oracle(**{"target": Counted(), "dim": 3, **other}, log=tmp_path)
    assert caught.value.values["name"] == name


def test_other_formats_are_refused(tmp_path: Path) -> None:
    lb.Oracle(Counted(), 3, log=tmp_path)
    for text, sentence in (('{"format": 2}', "is of format 2"), ("[]", "is not a log"), ("oh", "cannot be read")):
        (tmp_path / "log.json").write_text(text)
        with pytest.raises(InvalidInput, match=sentence):
            lb.Oracle(Counted(), 3, log=tmp_path)


def test_whoever_opens_a_log_last_has_it(tmp_path: Path) -> None:
    first = lb.Oracle(Counted(), 3, log=tmp_path)
    first.ask(np.ones((1, 3)))
    second = lb.Oracle(Counted(), 3, log=tmp_path)
    with pytest.raises(InvalidInput, match="was opened again"):
        first.ask(np.ones((2, 3)))
    second.ask(np.ones((2, 3)))
    assert second.replayed == 1


def test_an_empty_log_has_nothing_to_open(tmp_path: Path) -> None:
    lb.Oracle(Counted(), 3, log=tmp_path)
    with pytest.raises(InvalidInput, match="no answers yet"):
        lb.open_samples(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BudgetExhausted, match="cannot be written"):
        lb.Oracle(Counted(), 3, log=tmp_path / "file" / "log")


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the end of the disk."""
    box = Counted()
    oracle = lb.Oracle(box, 50, log=tmp_path, budget=5000)
    points = np.random.default_rng(0).standard_normal((2000, 50))
    oracle.ask(points[:1000])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
    try:
        with pytest.raises(BudgetExhausted, match=r"cannot be written \(File too large\).*those in the log are safe"):
            oracle.ask(points[1000:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert box.rows == oracle.spent == 1000  # room is made sure of before anything is paid
    oracle.ask(points[1000:])
    assert lb.open_samples(tmp_path).size == box.rows == 2000


RUN = """
import sys, time, numpy as np
sys.path[:0] = {path!r}
import laybare as lb
count = open({counter!r}, "ab", buffering=0)

def box(x):
    time.sleep(0.002)
    y = np.maximum(x @ np.arange(1.0, 4.0) + 0.3, 0.0) - np.maximum(x @ np.array([2.0, -1.0, 0.5]) - 0.1, 0.0)
    count.write(b"." * len(x))
    return y

oracle = lb.Oracle(box, 3, budget=3000, log={log!r}, batch=16, name="box")
rng, total = np.random.default_rng(1), np.zeros(3)
for step in range(40):
    x = rng.standard_normal((1 + step % 40, 3)) + total
    total = np.tanh((x * oracle.ask(x)).sum(axis=0))
total += oracle.read(0, 300).y.sum()
found = lb.recover(oracle, rng=0)
assert found.certificate.verdict == "verified" and found.network.width == 2
total += np.append(found.network.layer.weights, found.network.readout).reshape(-1, 2).sum(axis=1)[:3]
print(total.tobytes().hex(), oracle.spent, oracle.replayed, flush=True)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_at_any_moment(tmp_path: Path, kills: int) -> None:
    """Kills of real processes: the same network in the end, to the last bit, and no answer in the log was asked for again."""
    script = RUN.format(path=[path for path in sys.path if path], counter=str(tmp_path / "count"), log=str(tmp_path / "log"))
    plain = RUN.format(path=[path for path in sys.path if path], counter=os.devnull, log=str(tmp_path / "other"))
    wanted = run([sys.executable, "-c", plain]).stdout.split()
    rng = np.random.default_rng(int(time.time()))
    lost = 0
    for _ in range(kills):
        process = start([sys.executable, "-c", script])
        log = tmp_path / "log" / "answers.log"
        before = log.stat().st_size if log.exists() else 0
        while not log.exists() or log.stat().st_size == before:  # the process is at work
            time.sleep(0.001)
            assert process.poll() is None
        with pytest.raises(InvalidInput, match="open in another process"):
            lb.Oracle(lambda x: x, 3, budget=3000, log=tmp_path / "log", name="box")
        time.sleep(rng.uniform(0.0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        logged = sum(len(record.x) for record in read_records(log, 3))
        lost = (tmp_path / "count").stat().st_size - logged  # answered, and killed before that was written
    done = run([sys.executable, "-c", script]).stdout.split()
    assert done[:2] == wanted[:2]
    assert (tmp_path / "count").stat().st_size == int(done[1]) + lost  # whatever was in the log was not asked again
    assert lost <= 16  # one batch: of the kills at most one hits the microseconds between an answer and its record
