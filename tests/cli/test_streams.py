"""The program and the world: closed pipes, full disks, completion, how long the help takes, interrupts."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import BashComplete
from signalled_programs import ENVIRONMENT, start

import laybare as lb
from laybare.cli import commands

COMMAND = [sys.executable, "-c", "from laybare.cli import main; main()"]
HELP_SECONDS = 0.4

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    truth = lb.random_network(4, 3, rng=1)
    x = np.random.default_rng(0).standard_normal((300, 4))
    np.savez(tmp_path / "data.npz", x=x, y=truth(x))
    return tmp_path / "data.npz"


def test_a_reader_that_has_gone_is_no_error(data: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "recover", str(data)], env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["--verbose", "--json"])
def test_a_full_disk_is_a_sentence(data: Path, form: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "recover", str(data), form], env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2 and "No space left on device" in done.stderr and "Traceback" not in done.stderr


def test_the_package_is_the_program() -> None:
    words = [sys.executable, "-m", "laybare", "--version"]
    said = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == f"laybare {lb.__version__}\n"


def test_help_is_quick() -> None:
    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    times = []
    for _ in range(3):
        before = cpu()
        subprocess.run([*COMMAND, "--help"], env=ENVIRONMENT, capture_output=True, check=True, timeout=60)
        times.append(cpu() - before)
    assert min(times) < HELP_SECONDS  # 0.11 measured; compiled modules may be missing the first time


def completed(said: str) -> list[str]:
    return [line.partition(",")[2] for line in said.split()]


@pytest.mark.parametrize(("words", "expected"), [
    ("laybare rec", ["recover", "recover-layer"]),
    ("laybare recover --method ten", ["tensor-init", "tensor-init-literal"]),
    ("laybare reproduce overw", ["overwide"]),
])
def test_completion_knows_commands_methods_and_studies(
    words: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the program answers a shell, in this process; one is asked from a shell below."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert completed(BashComplete(commands, {}, "laybare", "_LAYBARE_COMPLETE").complete()) == expected


def test_completion_from_a_shell() -> None:
    asked = {**ENVIRONMENT, "_LAYBARE_COMPLETE": "bash_complete", "COMP_WORDS": "laybare rec", "COMP_CWORD": "1"}
    done = subprocess.run(COMMAND, env=asked, capture_output=True, text=True, timeout=60)
    assert completed(done.stdout) == ["recover", "recover-layer"] and done.returncode == 0 and done.stderr == ""


def test_ctrl_c_writes_what_was_found(tmp_path: Path) -> None:
    """A network too large to be found in a second, interrupted once the solver is at work."""
    truth = lb.random_network(20, 15, rng=0)
    x = np.random.default_rng(0).standard_normal((3000, 20))
    noise = np.random.default_rng(1).standard_normal(3000)
    np.savez(tmp_path / "data.npz", x=x, y=truth(x) + noise)
    files = ["--out", "found.npz", "--report", "page.html"]
    running = start([*COMMAND, "recover", "data.npz", "--verbose", "--width", "15", *files], tmp_path)
    assert running.stderr is not None
    while "refining" not in (line := running.stderr.readline()):
        assert line
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130 and "this is what was found until then" in err and "Traceback" not in err
    assert lb.export.from_npz(tmp_path / "found.npz").dim == 20
    assert 'class="badge verified"' not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_ctrl_c_while_certifying_keeps_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("laybare.pipeline.main_loop.certify", interrupted)
    truth = lb.random_network(3, 2, rng=1)
    x = np.random.default_rng(0).standard_normal((200, 3))
    found = lb.recover(x, truth(x))
    assert lb.compare(found.network, truth).max_error < 1e-8
    assert found.certificate.verdict == "doubtful" and "interrupted" in found.certificate.explain()
    assert json.loads(json.dumps(found.provenance.seed)) == 0
