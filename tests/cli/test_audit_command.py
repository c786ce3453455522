"""`laybare audit` and `laybare extract`: formats, headers, modules of the current folder, and Ctrl-C at any moment."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from signalled_programs import ENVIRONMENT, PROGRAM, start

import laybare as lb
from laybare import cli
from laybare.report.audit_formats import validate_document

TRUTH = lb.random_network(3, 2, rng=1)
SOURCE = Path(lb.__file__).parent
SECRET = "s3cr3t-Passw0rd"


class Handler(BaseHTTPRequestHandler):
    """A server as they are: a key, other fields, 429 now and then, and latency."""

    asked = 0

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        Handler.asked += 1
        time.sleep(0.01)
        status = 403 if self.headers["X-Api-Key"] != SECRET else 429 if Handler.asked % 5 == 0 else 200
        answer = {"predictions": [{"score": float(y)} for y in TRUTH(np.array(rows))]} if status == 200 else {"detail": "no"}
        text = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), "Retry-After": "0"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *given: Any) -> None:
        """Quiet."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/predict"
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TRUTH.save("truth.safetensors")
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(cli.commands, words, env={"COLUMNS": "100"}, catch_exceptions=False)


@pytest.mark.parametrize(
    ("form", "mark"), [("html", "<!doctype html>"), ("json", '{\n "format"'), ("md", "# The model"), ("sarif", '{\n "$schema"')])
def test_formats(folder: Path, form: str, mark: str) -> None:
    printed = run("audit", "truth.safetensors", "--budgets", "100", "--defences", "none", "--format", form)
    assert printed.exit_code == 0 and printed.output.startswith(mark)
    run("audit", "truth.safetensors", "--budgets", "100", "--defences", "cap:5", "--report", f"a.{form}")
    assert (folder / f"a.{form}").read_text().startswith(mark)


def test_what_is_printed_has_one_table_of_defences_and_no_pictures(folder: Path) -> None:
    """Rich makes a picture of ":100:" unless it is told not to."""
    said = run("audit", "truth.safetensors", "--budgets", "100", "--defences", "cap:100,round:2,label").output
    assert re.search(r"^cap:100 ", said, re.MULTILINE) and "row  " not in said
    assert run("audit", "truth.safetensors", "--budgets", "100", "--report", "a:100:.md").output.count("a:100:.md")
    assert (folder / "a:100:.md").exists() and all(ord(letter) < 0x1F000 for letter in said)


def test_an_endpoint_as_it_is(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "key").write_text(SECRET + "\n")
    monkeypatch.setenv("MY_KEY", SECRET)
    shape = ["--dim", "3", "--request", '{"instances": "$x"}', "--response", "predictions[*].score", "--batch", "64"]
    for header in ("X-Api-Key=@key", "X-Api-Key=$MY_KEY", f"X-Api-Key={SECRET}"):
        done = run("audit", url, *shape, "--budgets", "100", "--header", header, "--json", "--report", "a.html")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert found["verdict"] == "exact copy" and found["defences"] == []
        assert SECRET not in done.output + (folder / "a.html").read_text()


def test_a_wrong_key_is_refused_with_the_reason(folder: Path, url: str) -> None:
    words = ["audit", url, "--dim", "3", "--request", '{"instances": "$x"}', "--header", "X-Api-Key=wrong1"]
    done = subprocess.run([*PROGRAM, *words], env={**ENVIRONMENT, "no_proxy": "*"}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and "status 403" in done.stderr and '{"detail": "no"}' in done.stderr


def test_options_of_addresses_are_for_addresses(folder: Path) -> None:
    done = run("audit", "truth.safetensors", "--header", f"X={SECRET}", "--rate", "3")
    assert done.exit_code == 2 and "--header, --rate: only for an http(s) address" in done.output and SECRET not in done.output
    for header in ("X", "X=@nowhere", "X=$NOT_SET_ANYWHERE"):
        assert run("audit", "http://x/", "--dim", "2", "--header", header).exit_code == 2


def test_modules_of_the_current_folder_are_found(folder: Path) -> None:
    """As uvicorn does, although the program itself stands elsewhere."""
    (folder / "mymod_here.py").write_text("def f(x):\n    return abs(x[:, 0]) + x[:, 1]\n")
    program = ["-P", *PROGRAM[1:]]  # -P: the current folder is not on the path by itself
    done = subprocess.run(
        [PROGRAM[0], *program, "extract", "mymod_here:f", "--dim", "2", "--budget", "500", "--quiet"], cwd=folder,
        env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_the_help_names_every_environment_variable() -> None:
    said = run("--help").output
    files = [file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")]
    named = {name for text in files for name in re.findall(r"\b_?LAYBARE_[A-Z_]+\b", text)}
    assert len(named) >= 3 and all(name in said for name in named)
    assert "LAYBARE_TOKEN" in run("audit", "--help").output and "LAYBARE_TOKEN" in run("extract", "--help").output


NOISY_BOX = """
import time
import numpy as np
import laybare as lb
net, noise = lb.random_network(3, 2, rng=1), np.random.default_rng(0)
def f(x):
    time.sleep(0.1)
    return net(x) + 0.3 * noise.standard_normal(len(x))
"""
"""No budget is enough, so that every attack is tried with every budget: the audit is never over before the signal comes."""

MOMENTS = 20
APART = 0.6
"""Seconds between two of them. Convention: from the first question to the fourth budget on a machine that does little else."""


@pytest.fixture(scope="module")
def tally() -> Iterator[list[int]]:
    done: list[int] = []
    yield done
    print(f"\n{len(done)} audits interrupted, {len(done)} times status 130; rows done: {sorted(done)}")


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_ctrl_c_at_any_moment_ends_with_130(tmp_path: Path, moment: int, tally: list[int]) -> None:
    """What is done is on the page, in every number the same as in the JSON, and the page says that it was interrupted."""
    (tmp_path / "noisybox.py").write_text(NOISY_BOX)
    words = ["audit", "noisybox:f", "--dim", "3", "--budgets", "4,10,30,100,1000,3000,10000", "--report", "a.json", "--json",
             "--log", "log"]
    running = start([*PROGRAM, *words], tmp_path)
    while not (tmp_path / "log").exists() and running.poll() is None:
        time.sleep(0.02)
    time.sleep(APART * moment)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert running.returncode == 130, err
    assert "Traceback" not in err and "interrupt" in err
    rows = 0
    if (tmp_path / "a.json").exists():
        stated, page = json.loads(out), json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
        validate_document(page, "audit-1")
        rows = len(page["rows"])
        assert page["interrupted"] and stated["rows"] == page["rows"]
        assert [row["budget"] for row in page["rows"]] == [4, 10, 30, 100, 1000, 3000, 10_000][:rows]
    tally.append(rows)
