"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.testing import assert_allclose
from rich.console import Console
from signalled_programs import run as run_program
from signalled_programs import start

import laybare as lb
from laybare import cli
from laybare.cli.interrupts import STATE, keep_on_interrupt
from laybare.cli.output import Output
from laybare.cli.samples_commands import literal_method, open_with_columns
from laybare.errors import Interrupted
from laybare.methods.lines import error_bars
from laybare.networks import max_angle
from laybare.planted import PlantedTarget, polynomial_top, random_network, threshold_layer
from laybare.report import pair_units

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
STATUS = {"verified": 0, "doubtful": 3, "refuted": 4}
COMMAND = [sys.executable, "-c", "from laybare.cli import main; main()"]


@pytest.fixture(scope="module")
def truth() -> lb.Network:
    return random_network(4, 3, rng=1)


@pytest.fixture
def folder(tmp_path: Path, truth: lb.Network, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with samples and the network behind them."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((400, 4))
    np.savez("data.npz", x=x, y=truth(x))
    np.savez("few.npz", x=x[:12], y=truth(x[:12]))
    truth.save("truth.safetensors")
    Path("table.csv").write_text("a,b,y\n1,2,3\n4,,6\n7,8,9\n")
    Path("table.csv.gz").write_text("no archive")
    return tmp_path


def run(*arguments: str, columns: int = 100) -> Result:
    """Inside this process, without the handling of errors."""
    return CliRunner().invoke(cli.commands, arguments, env={"COLUMNS": str(columns)}, catch_exceptions=False)


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "COLUMNS": "100"}
    return subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=120)


def ended(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The status with which the program ends, inside this process."""
    monkeypatch.setattr(sys, "argv", ["laybare", *arguments])
    monkeypatch.setattr("laybare.cli.listen", lambda: None)  # the signals of this process are those of the tests
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def test_demo_shows_every_unit_and_writes_the_report(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("demo", "--width", "4", "--queries", "600", "--report", str(page), columns=100)
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert max(map(len, lines)) <= max(100, len(f"report: {page}"))
    assert not CONTROL.search(result.output)
    assert "hidden units recovered: 4 of 4" in lines
    recovered = [line.split() for line in lines if line.split()[:1] == ["recovered"]]
    true = [line.split() for line in lines if line.split()[1:2] == ["true"]]
    assert [int(line[0]) for line in true] == [1, 2, 3, 4]
    assert [line[2:] for line in true] == [line[2:] for line in recovered]  # the same to all digits shown
    assert max(float(line[1]) for line in recovered) < 1e-8
    (largest,) = re.findall(r"largest difference .*: (\S+)", result.output)
    assert float(largest) < 1e-8
    assert any(line.startswith("verdict: verified. Wrong on at most") for line in lines)
    assert "hidden units recovered: 4 of 4" in result.output and "checks hold (--verbose lists them)" in result.output
    assert int(re.findall(r"by Lines from (\d+) queries", result.output)[0]) < 250 + 360  # the assurance asks 358
    assert lines[-1] == f"report: {page}"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
@pytest.mark.parametrize("dim", [1, 4, 50])
def test_tables_fit_any_terminal(columns: int, dim: int, capsys: pytest.CaptureFixture[str]) -> None:
    network = random_network(dim, 3, biases=40.0, outputs=2, rng=0)
    console = Console(width=columns)
    console.print(cli._pairs_table(pair_units(network, network), dim, columns))
    above = lb.Layer(np.ones((dim, 3)), np.ones(dim))
    for given in (network, lb.Network((network.layer, above), np.ones((dim, 2)))):
        console.print(*cli.network_tables(given, columns, error_bars(1e-3, given)))
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text  # nothing cut off


@pytest.mark.parametrize("method", ["tensor-init", "tensor-init-literal"])
def test_recover_by_another_method(method: str, tmp_path: Path) -> None:
    truth = random_network(5, 3, lb.power_relu(2), biases=0, condition=2, rng=1)
    x = np.random.default_rng(0).standard_normal((4000, 5))
    np.savez(tmp_path / "data.npz", x=x, y=truth(x))
    result = run(
        "recover", str(tmp_path / "data.npz"), "--method", method, "--activation", "power_relu(2)", "--width", "3")
    assert result.exit_code == STATUS[re.findall("verdict: (.*)", result.output)[0]]
    assert "5-3-1 network of power_relu(2) units, by TensorInit" in result.output
    literal = method.endswith("literal")
    assert ("verdict: verified" in result.output) != literal and ("TensorInit, literal," in result.output) == literal


def test_recover_by_symmetric_inputs(tmp_path: Path) -> None:
    truth = random_network(5, 3, lb.leaky_relu(0.2), 4, biases=0, rng=1)
    x = np.random.default_rng(0).laplace(size=(600, 5))
    np.savez(tmp_path / "data.npz", x=x, y=truth(x))
    result = run("recover", str(tmp_path / "data.npz"), "--method", "symmetric-inputs", "--activation", "leaky_relu(0.2)")
    assert result.exit_code == 0
    assert "5-3-4 network of leaky_relu(0.2) units, by SymmetricInputs" in result.output and "verdict: verified" in result.output


def test_recover_by_general_relu(tmp_path: Path) -> None:
    truth = random_network(4, 6, rng=1)
    x = np.random.default_rng(0).standard_normal((2000, 4))
    np.savez(tmp_path / "data.npz", x=x, y=truth(x))
    result = run("recover", str(tmp_path / "data.npz"), "--method", "general-relu")
    assert result.exit_code == 0
    assert "4-6-1 network of relu units, by GeneralReLU" in result.output and "verdict: verified" in result.output


def test_recover_prints_units_and_verdict_and_saves(folder: Path, truth: lb.Network) -> None:
    result = run("recover", "data.npz", "--out", "found.safetensors", "--report", "page.html")
    assert result.exit_code == 0
    assert "verdict: verified" in result.output
    assert not CONTROL.search(result.output)
    found = lb.load("found.safetensors")
    assert lb.compare(found, truth).max_error < 1e-8
    assert f"{found.layer.weights[2, 1]:+.5f}" in result.output
    assert (folder / "page.html").exists()


def test_recover_tells_a_bad_verdict_by_its_status(folder: Path) -> None:
    result = run("recover", "data.npz", "--width", "1")
    assert result.exit_code == 4
    assert "verdict: refuted" in result.output
    assert "FAIL" in result.output


def test_recover_takes_several_outputs_of_a_table(tmp_path: Path) -> None:
    network = random_network(2, 2, lb.tanh, outputs=2, rng=3)
    x = np.random.default_rng(0).standard_normal((300, 2))
    table = np.column_stack([x, network(x)])
    np.savetxt(tmp_path / "d.csv", table, delimiter=",", header="p,q,u,v", comments="", fmt="%.17g")
    out = tmp_path / "n.safetensors"
    result = run("recover", str(tmp_path / "d.csv"), "--target", "u,v", "--activation", "tanh", "--width", "2", "--out", str(out))
    assert result.exit_code == 0
    assert "readout 0" in result.output
    assert lb.compare(lb.load(out), network).max_error < 1e-8


def test_compare_measures_and_judges(folder: Path, truth: lb.Network) -> None:
    layer = lb.Layer(2.0 * truth.layer.weights[::-1], 2.0 * truth.layer.biases[::-1])
    lb.Network(layer, 0.5 * truth.readout[::-1], 1e-3).save("other.safetensors")
    assert run("compare", "truth.safetensors", "truth.safetensors", "--tol", "0").exit_code == 0
    loose = run("compare", "other.safetensors", "truth.safetensors", "--tol", "1e-2")
    assert loose.exit_code == 0
    assert "3 of 3 units matched, largest error 1.0e-03" in loose.output
    assert run("compare", "other.safetensors", "truth.safetensors", "--tol", "1e-4").exit_code == 1


@pytest.mark.parametrize("arguments", [(), *((name,) for name in cli.COMMANDS)], ids=str)
def test_help_is_there_and_fits(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--help")
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 100


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version").output == f"laybare {lb.__version__}\n"


BAD = {
    "missing file": ("recover", "nowhere.npz"),
    "unknown target": ("recover", "data.npz", "--target", "z"),
    "unknown activation": ("recover", "data.npz", "--activation", "[bold]relu[/]"),
    "activation without slope": ("recover", "data.npz", "--activation", "step"),
    "too few samples": ("recover", "few.npz", "--width", "5"),
    "width zero": ("recover", "data.npz", "--width", "0"),
    "width of letters": ("recover", "data.npz", "--width", "many"),
    "unknown method": ("recover", "data.npz", "--method", "magic"),
    "report into nowhere": ("recover", "data.npz", "--report", "nowhere/page.html"),
    "network of unknown ending": ("recover", "data.npz", "--out", "net.txt"),
    "layer as a network": ("recover-layer", "data.npz", "--out", "layer.onnx"),
    "json and quiet": ("recover", "data.npz", "--json", "--quiet"),
    "column that is not there": ("recover", "table.csv", "--drop-columns", "q"),
    "missing cell": ("recover", "table.csv"),
    "names for an array": ("recover", "data.npz", "--drop-columns", "a"),
    "unknown law": ("recover", "data.npz", "--law", "cauchy"),
    "damaged archive": ("recover", "table.csv.gz"),
    "unknown shell": ("completion", "tcsh"),
    "literal control": ("recover", "data.npz", "--literal"),
    "target that is none": ("extract", "nowhere"),
    "box of one number": ("extract", "truth.safetensors", "--box", "1"),
    "depth of letters": ("extract", "truth.safetensors", "--depth", "deep"),
    "other dimension": ("extract", "truth.safetensors", "--dim", "7"),
    "budget too small": ("extract", "truth.safetensors", "--budget", "5"),
    "budgets of letters": ("audit", "truth.safetensors", "--budgets", "few"),
    "network onto a folder": ("recover", "data.npz", "--out", "."),
    "samples for a network": ("compare", "data.npz", "truth.safetensors"),
    "missing network": ("compare", "truth.safetensors", "nowhere"),
    "negative tolerance": ("compare", "truth.safetensors", "truth.safetensors", "--tol", "-1"),
    "no argument": ("compare",),
    "unknown command": ("conquer",),
    "no command": (),
    "wide demo": ("demo", "--width", "1000"),
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
@pytest.mark.usefixtures("folder")
def test_bad_input_is_a_sentence_and_status_2(
    arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = ended(*arguments, monkeypatch=monkeypatch)
    said = capfd.readouterr()
    assert code == 2
    assert said.out == "" if "--json" not in arguments else json.loads(said.out)["status"] == 2
    assert said.err.strip()
    assert "Traceback" not in said.err
    assert "[bold]relu[/]" in said.err or "[bold]relu[/]" not in arguments  # brackets are text, not markup
    assert not CONTROL.search(said.err)


def test_whole_program_from_a_shell(folder: Path) -> None:
    good = shell("recover", "data.npz", "--width", "3")
    assert (good.returncode, good.stderr) == (0, "")
    assert "verdict: verified" in good.stdout
    assert not CONTROL.search(good.stdout)
    bad = shell("recover", "nowhere.npz")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "laybare: nowhere.npz does not exist. There is nothing to open. Check the path.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("folder")
def test_interrupt_ends_at_once_with_status_130() -> None:
    """A command that has nothing to keep ends at once: a KeyboardInterrupt could be caught on the way."""
    program = """
import os, signal, sys
import laybare as lb
from laybare.cli import main

def interrupted(*arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.sigtimedwait([], 1.0)
    except KeyboardInterrupt:
        print("caught")

lb.compare = interrupted
sys.argv[1:] = ["compare", "truth.safetensors", "truth.safetensors"]
main()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = run_program([sys.executable, "-c", program], env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "laybare: interrupted\n")


def test_recover_layer_prints_thresholds_and_saves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    target = PlantedTarget(threshold_layer(4, 3, lb.relu, 2.0, rng=rng), polynomial_top(3, 2, rng=rng))
    x = rng.standard_normal((6000, 4))
    np.savez("data.npz", x=x, y=target(x))
    result = run("recover-layer", "data.npz", "--width", "3", "--out", "layer.npz")
    assert result.exit_code == 0
    assert result.output.count("+2.00000") == 3
    assert "verdict: verified" in result.output and "held-out R²" in result.output
    with np.load("layer.npz") as saved:
        assert saved["thresholds"] == pytest.approx(np.full(3, 2.0), abs=1e-9)
        assert max_angle(saved["weights"], target.layer.weights) < 1e-9


@pytest.mark.parametrize(("words", "sentence"), [
    (("--activation", "nothing"), "No activation is called"), (("--threshold", "2"), "without --literal")])
@pytest.mark.usefixtures("folder")
def test_options_of_recover_layer_that_mean_nothing(
    words: tuple[str, ...], sentence: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An activation that is unknown, and a threshold, which belongs to the literal form."""
    assert ended("recover-layer", "data.npz", *words, monkeypatch=monkeypatch) == 2
    assert sentence in capfd.readouterr().err


def test_recover_layer_by_the_printed_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two units in dimension 4; the printed objective needs no threshold where rows are silent."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    target = PlantedTarget(threshold_layer(4, 2, lb.relu, 2.0, rng=rng), polynomial_top(2, 2, rng=rng))
    x = rng.standard_normal((20_000, 4))
    np.savez("data.npz", x=x, y=target(x))
    result = run("recover-layer", "data.npz", "--width", "2", "--literal", "--report", "layer.html")
    assert result.exit_code == 4
    assert "HighThreshold, literal," in result.output and "verdict: refuted" in result.output
    assert "local minimum of the printed objective" in (tmp_path / "layer.html").read_text()


@pytest.mark.parametrize("ending", ["safetensors", "npz", "onnx", "json"])
def test_extract_writes_by_the_ending(ending: str, folder: Path, truth: lb.Network) -> None:
    result = run("extract", "truth.safetensors", "--out", f"found.{ending}", "--report", "page.html")
    assert result.exit_code == 0
    assert "verdict: verified" in result.output and result.output.splitlines()[-1] == "report: page.html"
    read = {"safetensors": lb.load, "npz": lb.export.from_npz, "onnx": lb.from_onnx, "json": lb.export.from_json}[ending]
    assert lb.compare(read(folder / f"found.{ending}"), truth).max_error < 1e-8
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "How it converged" not in page and "queries in" in page


@pytest.mark.parametrize("command", [("recover", "data.npz"), ("extract", "truth.safetensors")], ids=lambda command: command[0])
def test_json_is_one_object(command: tuple[str, ...], folder: Path) -> None:
    stated = json.loads(run(*command, "--json", "--out", "found.npz").output)
    assert stated["verdict"] == "verified" and stated["width"] == 3 and stated["out"] == "found.npz"
    assert bool(stated["queries"]) == (command[0] == "extract")


def test_extract_is_doubtful_where_the_budget_ends(folder: Path) -> None:
    result = run("extract", "truth.safetensors", "--budget", "55")
    assert result.exit_code == 3 and "would do" in " ".join(result.output.split())


def test_extract_asks_a_log_before_the_target(folder: Path) -> None:
    first, second = (json.loads(run("extract", "truth.safetensors", "--log", "answers", "--json").output) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert lb.open_samples("answers").size == sum(first["queries"].values())


def test_audit_prints_a_table_or_an_object(folder: Path) -> None:
    result = run("audit", "truth.safetensors", "--budgets", "20,200", "--defences", "none", "--report", "audit.html")
    assert result.exit_code == 0 and (folder / "audit.html").exists()
    assert "After" in result.output and "3 relu units" in result.output
    rows = json.loads(run("audit", "truth.safetensors", "--budgets", "20,200", "--defences", "none", "--json").output)["rows"]
    assert rows[0]["way"] != "lines" and rows[1]["verdict"] == "verified"


@pytest.mark.parametrize("method", ["general-relu", "landscape-design", "symmetric-inputs", "tensor-init"])
def test_every_paper_has_its_literal_form(method: str) -> None:
    assert literal_method(method, None, lb.leaky_relu(0.2)).search is None
    assert literal_method(method, None, lb.leaky_relu(0.2)).activation == lb.leaky_relu(0.2)


SLOW_BOX = """
import time
import laybare as lb
net = lb.random_network(20, 10, rng=0)
smooth = lb.random_network(8, 30, activation=lb.gelu, rng=0)
def box(x):
    time.sleep(0.05)
    return net(x)
box.dim = 20
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("target", "dim"), [("slow:box", "20"), ("slow:smooth", "8")])
def test_ctrl_c_keeps_what_was_found(target: str, dim: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_BOX)
    path = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    arguments = ["extract", target, "--dim", dim, "--out", "found.npz", "--log", "answers", "--json"]
    running = start([*COMMAND, *arguments], tmp_path, env={**os.environ, "PYTHONPATH": path})
    until = time.monotonic() + 60.0
    while time.monotonic() < until and _bytes(tmp_path / "answers" / "answers.log") < 200 * 8 * int(dim):
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "interrupted" in err and "Traceback" not in err
    stated = json.loads(out)
    assert stated["status"] == 130
    if "error" in stated:
        assert "nothing was found yet" in stated["error"]
    else:
        assert stated["interrupted"] and stated["verdict"] != "verified"
        assert lb.export.from_npz(tmp_path / "found.npz").width == stated["width"]


def _interrupted_at_once() -> None:
    with keep_on_interrupt(lambda event: None) as interrupts:
        box = interrupts.guarded(lambda x: x[:, 0])
        interrupts.progress(lb.numerics.shapes.Event("lines", 0, 0))
        assert box(np.ones((2, 3))).shape == (2,)
        STATE.handle(signal.SIGINT, None)
        lb.recover(lb.Oracle(box, 3), lb.Lines())


def test_ctrl_c_before_anything_was_found_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in vars(STATE).items():
        monkeypatch.setattr(STATE, name, value)
    with pytest.raises(Interrupted, match="nothing was found yet; what was answered is in the log"):
        _interrupted_at_once()


def _bytes(file: Path) -> int:
    """Bytes of answers; room that was reserved is zeros."""
    return len(file.read_bytes().rstrip(b"\0")) if file.exists() else 0


def test_losses_weights_and_groups_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, 2))
    counts = rng.poisson(np.exp(1.2 * np.maximum(x[:, 0] + 0.3, 0.0) - 0.2))
    rows = np.column_stack([x, counts, rng.uniform(0.5, 2.0, size=1500), np.arange(1500) // 3])
    np.savetxt("counts.csv", rows, delimiter=",", header="a,b,y,w,g", comments="")
    arguments = ("recover", "counts.csv", "--loss", "poisson", "--weights", "w", "--groups", "g", "--width", "1", "--json")
    said = json.loads(run(*arguments).output)
    assert said["verdict"] == "verified"


def test_weights_and_groups_are_those_of_the_rows_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row misses its outcome, another its weight: both go, and the others keep their own."""
    monkeypatch.chdir(tmp_path)
    lines = ["a,b,y,w,g", *(f"{i},{i % 7},{10 * i},{100 + i},{i // 3}" for i in range(30))]
    lines[4], lines[9] = "3,3,,103,1", "8,1,80,,2"
    Path("holes.csv").write_text("\n".join(lines), encoding="utf-8")
    reading = {"target": "y", "drop": "w", "drop_missing": True, "law": "gaussian"}
    samples, beside = open_with_columns(
        "holes.csv", reading, {"weights": "w", "groups": "g"}, Output("recover", quiet=True), "huber")
    x, y = samples.read(0, samples.size)
    assert (samples.size, samples.dropped, samples.columns.inputs, samples.columns.outputs) == (28, 2, ("a", "b"), ("y",))
    assert_allclose(y[:, 0], 10 * x[:, 0])
    assert_allclose(beside["weights"], 100 + x[:, 0])
    assert_allclose(beside["groups"], x[:, 0] // 3)


@pytest.mark.parametrize("option", ["--weights", "--groups"])
def test_a_column_beside_the_outputs_that_is_not_there_is_named_by_its_option(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("a,y\n1,2\n3,4\n", encoding="utf-8")
    said = run("recover", "few.csv", option, "age")
    assert said.exit_code == 2 and f"Invalid value for {option}: few.csv has no column age." in said.output


def test_a_table_in_the_place_of_a_network_is_told_from_one(folder: Path) -> None:
    with pytest.raises(lb.errors.InvalidInput, match=r"table\.csv holds samples\. A saved network is wanted here\."):
        run("compare", "table.csv", "truth.safetensors")
