"""Checkpoints: a call that is killed goes on to the same bits, and a folder of something else is refused by name."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from signalled_programs import start

import laybare as lb
from laybare.numerics.shapes import Array, Sums
from laybare.source import checkpoint
from laybare.source.checkpoint import Journal, fingerprint, with_checkpoint

TRUTH = lb.random_network(4, 3, rng=1)


def samples(seed: int = 2, schedule: lb.source.Schedule = lb.source.Schedule()) -> lb.Samples:
    x = np.random.default_rng(seed).standard_normal((1000, 4))
    return lb.Samples(x, TRUTH(x), schedule=schedule)


def assert_same(one: lb.Recovery, other: lb.Recovery) -> None:
    assert_array_equal(one.network.layer.weights, other.network.layer.weights)
    assert_array_equal(one.network.layer.biases, other.network.layer.biases)
    assert_array_equal(one.network.readout, other.network.readout)
    assert [(claim.name, claim.value) for claim in one.certificate.checks] == [
        (claim.name, claim.value) for claim in other.certificate.checks]


@pytest.fixture
def every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes of a millisecond are written down too."""
    monkeypatch.setattr(checkpoint, "JOURNAL", checkpoint.JournalOptions(max_write_share=np.inf))


def test_a_second_call_replays_the_first(tmp_path: Path, every_pass: None) -> None:
    plain = lb.recover(samples(), width=3, rng=0)
    first = lb.recover(samples(), width=3, rng=0, checkpoint=tmp_path / "state")
    files = sorted((tmp_path / "state").glob("pass-*.safetensors"))
    assert len(files) > 20
    for path in files[15:]:
        path.unlink()  # as if it had been killed after fifteen passes
    files[4].unlink()  # and one of them had been too quick to be written
    second = lb.recover(samples(), width=3, rng=0, checkpoint=tmp_path / "state")
    assert_same(plain, first)
    assert_same(plain, second)


def test_only_long_passes_are_written(tmp_path: Path) -> None:
    book = Journal(tmp_path, {"data": "some"})
    book.recall_or_run(lambda: (np.zeros(2),), ("quick",))
    assert not list(tmp_path.glob("pass-*"))
    book.recall_or_run(lambda: (time.sleep(0.05), (np.arange(3.0), np.asarray(2)))[1], ("slow",))
    again = Journal(tmp_path, {"data": "some"})
    again.recall_or_run(lambda: (np.zeros(2),), ("quick",))
    numbers, one = again.recall_or_run(pytest.fail, ("slow",))
    assert again.replayed == 1 and numbers.tolist() == [0.0, 1.0, 2.0] and one.shape == () and one == 2


@pytest.mark.parametrize(("change", "name"), [
    ({"source": samples(seed=9)}, "data"), ({"source": samples(schedule=lb.source.Schedule(block_bytes=1 << 15))}, "block_bytes"),
    ({"width": 4}, "width"), ({"rng": 1}, "rng"), ({"method": lb.RandomStart(biases=False)}, "method"),
    ({"source": lb.Samples(samples().x, samples().y, law=lb.Unknown())}, "law")])
def test_a_folder_of_something_else_is_refused_by_what_differs(change: dict[str, Any], name: str, tmp_path: Path) -> None:
    call: dict[str, Any] = {"source": samples(), "width": 3, "rng": 0, "method": None}

    def begin(source: lb.Source, rng: int, **given: Any) -> None:
        with_checkpoint(source, tmp_path, verb="recover", rng=np.random.default_rng(rng), **given)

    begin(**call)
    begin(**call)
    with pytest.raises(lb.errors.InvalidInput, match=f"has {name} "):
        begin(**(call | change))


def test_another_version_is_refused(tmp_path: Path) -> None:
    with_checkpoint(samples(), tmp_path, verb="recover")
    header = json.loads((tmp_path / checkpoint.JOURNAL_HEADER).read_text())
    (tmp_path / checkpoint.JOURNAL_HEADER).write_text(json.dumps(header | {"version": "laybare 0.0.1"}))
    with pytest.raises(lb.errors.InvalidInput, match=r"has version 'laybare 0\.0\.1'"):
        with_checkpoint(samples(), tmp_path, verb="recover")


def test_a_damaged_pass_is_refused_and_can_be_deleted(tmp_path: Path, every_pass: None) -> None:
    lb.refine(samples(), TRUTH, rng=0)  # functions that are checked while testing have another name before their first call
    first = lb.refine(samples(), TRUTH, rng=0, checkpoint=tmp_path)
    path = sorted(tmp_path.glob("pass-*"))[2]
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(lb.errors.InvalidInput, match=r"pass-000002.*checksum"):
        lb.refine(samples(), TRUTH, rng=0, checkpoint=tmp_path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(lb.errors.InvalidInput, match="pass-000002"):
        lb.refine(samples(), TRUTH, rng=0, checkpoint=tmp_path)
    path.unlink()
    assert_same(first, lb.refine(samples(), TRUTH, rng=0, checkpoint=tmp_path))


def test_a_pass_about_something_else_is_refused(tmp_path: Path, every_pass: None) -> None:
    Journal(tmp_path, {}).recall_or_run(lambda: (np.zeros(1),), ("one stage", 3))
    with pytest.raises(lb.errors.InvalidInput, match=r"another pass.*one stage"):
        Journal(tmp_path, {}).recall_or_run(lambda: (np.zeros(1),), ("one stage", 4))


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(
    tmp_path: Path, every_pass: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lb.refine(samples(), TRUTH, rng=0)

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    book = tmp_path / "state"
    with_checkpoint(samples(), book, verb="refine", start=TRUTH, rng=np.random.default_rng(0))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(lb.errors.BudgetExhausted, match="No space left on device"):
            lb.refine(samples(), TRUTH, rng=0, checkpoint=book)
    assert [path.name for path in book.iterdir()] == [checkpoint.JOURNAL_HEADER]
    assert_same(first, lb.refine(samples(), TRUTH, rng=0, checkpoint=book))


def test_an_oracle_needs_a_log(tmp_path: Path) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="no log"):
        lb.recover(lb.Oracle(TRUTH, budget=2000), lb.RandomStart(), 3, checkpoint=tmp_path / "state")
    calls = []

    def ask(x: Array) -> Array:
        calls.append(len(x))
        return np.asarray(TRUTH(x))

    found = [
        lb.recover(
            lb.Oracle(ask, 4, budget=2000, log=tmp_path / "log"), lb.RandomStart(), 3, rng=0, checkpoint=tmp_path / "state")
        for _ in range(2)]
    assert_same(*found)
    assert sum(calls) == found[0].samples_used + 16  # nothing was asked by the second call; sixteen were asked again by the first


def test_names_of_things() -> None:
    def made(factor: float) -> Any:
        def statistic(x: Array, y: Array) -> Sums:
            return (factor * x,)

        return statistic

    assert fingerprint(made(1.0)) == fingerprint(made(1.0)) != fingerprint(made(2.0))
    assert fingerprint(np.arange(3)) != fingerprint(np.arange(3.0)) != fingerprint(np.arange(3.0).reshape(1, 3))
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) != fingerprint({"a": 2, "b": 1})
    assert fingerprint(TRUTH) == fingerprint(lb.random_network(4, 3, rng=1)) != fingerprint(lb.random_network(4, 3, rng=2))
    assert fingerprint(lb.RandomStart()) != fingerprint(lb.RandomStart(biases=False))


SCRIPT = """
import sys
import numpy as np
import laybare as lb
from laybare.source import checkpoint
checkpoint.JOURNAL = checkpoint.JournalOptions(max_write_share=np.inf)
truth = lb.random_network(3, 2, rng=1)
x = np.random.default_rng(5).standard_normal((2000, 3))
y = truth(x)
found = lb.recover(x, y, lb.RandomStart(), 2, rng=0, checkpoint=sys.argv[1])
np.savez(sys.argv[2], weights=found.network.layer.weights, biases=found.network.layer.biases, readout=found.network.readout)
"""


def passes(folder: Path) -> int:
    return len(list(folder.glob("pass-*")))


def run_and_kill(folder: Path, out: Path, at: float) -> None:
    """Run the script, killed -9 as soon as so many passes were written; infinity lets it end."""
    process = start([sys.executable, "-c", SCRIPT, str(folder), str(out)], stdout=None, stderr=None)
    while process.poll() is None and passes(folder) < at:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == (0 if at == np.inf else -signal.SIGKILL)


def check_kills(tmp_path: Path, runs: int, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run without a crash, here; then as many runs as are asked for, each killed `kills` times before it may end."""
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "whole"), str(tmp_path / "whole.npz")])
    exec(SCRIPT, {})
    rng = np.random.default_rng(7)
    for number in range(runs):
        out = tmp_path / f"{number}.npz"
        for at in np.sort(rng.uniform(0.1, 0.9, kills)) * passes(tmp_path / "whole"):
            run_and_kill(tmp_path / f"{number}", out, float(at))
        run_and_kill(tmp_path / f"{number}", out, np.inf)
        with np.load(tmp_path / "whole.npz") as one, np.load(out) as other:
            for name in one:
                assert_array_equal(one[name], other[name])


def test_a_process_killed_twice_goes_on_to_the_same_bits(
    tmp_path: Path, every_pass: None, unchecked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_kills(tmp_path, 1, 2, monkeypatch)


@pytest.mark.slow
def test_twenty_killed_processes_go_on_to_the_same_bits(
    tmp_path: Path, every_pass: None, unchecked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_kills(tmp_path, 20, 1, monkeypatch)
