"""Every command speaks in text, in one JSON object with documented keys, at length, or not at all."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import laybare as lb
from laybare import cli
from laybare.cli import checking
from laybare.cli.results import WRITERS
from laybare.cli.wording import for_standard_error, in_command_line_words
from laybare.planted import PlantedTarget, polynomial_top, threshold_layer
from laybare.studies import real_data

DOCS = Path(__file__).parents[2] / "docs"
CALLS = {
    "audit": "audit truth.safetensors --budgets 50,200 --defences round:2",
    "check": "check table.csv --target price --drop-columns id --drop-missing",
    "compare": "compare truth.safetensors truth.safetensors",
    "completion": "completion bash",
    "demo": "demo --width 4 --queries 600",
    "extract": "extract truth.safetensors",
    "plan": "plan --rows 1e6 --dim 5 --width 3 --workers 2",
    "recover": "recover table.csv --target price --drop-columns id --drop-missing",
    "recover-layer": "recover-layer rare.npz --width 2",
    "reproduce": "reproduce --list",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, samples of it in a table with a text column and holes, a rare layer, a module with a model."""
    folder = tmp_path_factory.mktemp("data")
    truth, rng = lb.random_network(4, 3, rng=1), np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    truth.save(folder / "truth.safetensors")
    np.savez(folder / "data.npz", x=x, y=truth(x))
    rows = [f"house {i},{','.join(map(repr, row.tolist()))},{'NA' if i == 7 else repr(float(y))}" for i, (row, y) in enumerate(
        zip(x, truth(x), strict=True))]
    (folder / "table.csv").write_text("\n".join(["id,area,rooms,[red]age[/],x" + chr(27) + ",price", *rows]) + "\n")
    target = PlantedTarget(threshold_layer(4, 2, lb.relu, 2.0, rng=rng), polynomial_top(2, 2, rng=rng))
    x = rng.standard_normal((6000, 4))
    np.savez(folder / "rare.npz", x=x, y=target(x))
    return folder


@pytest.fixture(autouse=True)
def here(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In that folder; rates are not measured for every call, and the demonstration trains from one start."""
    monkeypatch.setattr(real_data, "retrain", partial(real_data.retrain, starts=1))
    kinds = ("reading", "least squares", "gradients", "products", "normal equations", "other features")
    monkeypatch.setattr(checking, "measured_rates", lambda *sizes: checking.Rates(dict.fromkeys(kinds, 1e9), 1e9))
    monkeypatch.chdir(data)
    return data


def run(line: str, *options: str) -> Result:
    return CliRunner().invoke(cli.commands, [*shlex.split(line), *options], env={"COLUMNS": "100"}, catch_exceptions=False)


def documented(command: str) -> set[str]:
    """Keys that the page lists under `laybare COMMAND`, the common ones with them."""
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    tables = dict(re.findall(r"^### (.+?)\n(.*?)(?=^#|\Z)", page, re.DOTALL | re.MULTILINE))
    common = [text for heading, text in tables.items() if f"`{command}`" in heading]
    return {key for text in common for key in re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)}


@pytest.mark.parametrize("command", CALLS)
def test_json_has_the_documented_keys(command: str) -> None:
    given = json.loads(run(CALLS[command], "--json").stdout)
    assert set(given) == documented(command)
    assert given["command"] == command and given["version"] == lb.__version__


@pytest.mark.parametrize("command", CALLS)
def test_quiet_says_nothing(command: str) -> None:
    result = run(CALLS[command], "--quiet")
    assert result.exit_code == 0
    if command == "plan":
        assert float(result.output) > 0  # there is no verdict: the seconds are the answer
    else:
        assert result.output == ""


@pytest.mark.parametrize(("line", "meant"), [("recove table.csv", "recover"), ("reproduce lins", "lines")])
def test_what_is_misspelt_is_answered_with_what_was_meant(line: str, meant: str) -> None:
    result = run(line)
    assert result.exit_code == 2 and f"did you mean {meant}?" in result.output
    assert "did you mean" not in run("zzzzzz").output


def test_every_command_is_called_here() -> None:
    assert set(cli.COMMANDS) == set(CALLS)


@pytest.mark.parametrize(("command", "more"), [("check", "noise alone"), ("plan", "rates of one core")])
def test_verbose_says_more(command: str, more: str) -> None:
    assert more in run(CALLS[command], "--verbose").stdout and more not in run(CALLS[command]).stdout


def test_check_speaks_the_words_of_the_command_line() -> None:
    said = run(CALLS["check"]).stdout
    assert "299 samples of 4 inputs" in said and "HighThreshold(" not in said


def test_verbose_says_what_it_takes_to_run_it_again() -> None:
    said = run(CALLS["recover"], "--verbose")
    assert "fingerprint" in said.stdout and f"version: laybare {lb.__version__}" in said.stdout
    assert "certifying" in said.stderr and "refining" in said.stderr


def test_columns_have_their_names_and_names_are_text() -> None:
    said = run(CALLS["recover"]).stdout
    assert re.search(r"unit +readout +bias +area +rooms +\[red\]…e\[/\] +x\? *$|area +rooms", said, re.MULTILINE)
    assert "[red" in said and chr(27) not in said
    assert "from 299 samples" in said


def test_units_have_the_same_numbers_in_the_table_and_in_the_sentences() -> None:
    said = run(CALLS["recover"]).stdout
    listed = re.findall(r"^ +(\d+) +[+-]\d", said, re.MULTILINE)
    assert listed and listed == re.findall(r"^unit (\d+) bends", said, re.MULTILINE) and listed[0] == "1"


def test_claims_say_which_side_is_right() -> None:
    claims = json.loads(run(CALLS["recover"], "--json").stdout)["claims"]
    assert {claim["direction"] for claim in claims} == {"at most", "at least"}
    assert set(claims[0]) == {"name", "value", "threshold", "direction", "passed", "kind", "explanation", "statement"}


def test_errors_are_wrapped_for_a_terminal_and_one_line_for_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "laybare: trail.csv does not exist. There is nothing to open. Check the path."
    monkeypatch.setenv("COLUMNS", "40")
    assert for_standard_error(sentence) == sentence
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    shown = for_standard_error(sentence).splitlines()
    assert max(map(len, shown)) <= 40 and " ".join(shown) == sentence


@pytest.mark.parametrize(("message", "meant"), [
    ("Name the outputs with target=, and call the inputs x.", "Name the outputs with --target, and call the inputs x."),
    ("width=0.", "--width 0."),
    ("Give drop_missing=True, or drop='a'.", "Give --drop-missing, or --drop-columns 'a'."),
    ("Use TensorInit() here.", "Use --method tensor-init here."),
    ("Use GeneralReLU(activation=...), which fits.", "Use --method general-relu with --activation, which fits."),
    ("Give lb.Gaussian() or lb.Symmetric().", "Give --law gaussian or --law symmetric."),
    ("Give lb.leaky_relu(0.1).", "Give leaky_relu(0.1)."),
    ("Use HighThreshold(activation=step).", "Use laybare recover-layer with --activation step."),
    ("Write recover_layer(source, HighThreshold(activation=step)).", "Write laybare recover-layer."),
    ("Give a law such as law=lb.Gaussian(0, 0.04).", "Give a law such as --law normal:0,0.2."),
    ("Give it with dim=.", "Give it with --dim."),
    ("Name the groups (groups=), or give others.", "Name the groups (--groups), or give others."),
])
def test_messages_have_the_words_of_the_command_line(message: str, meant: str) -> None:
    assert in_command_line_words(message) == meant


@pytest.mark.parametrize("ending", [".safetensors", ".json", ".npz", ".onnx"])
def test_every_command_reads_every_file_of_a_network(ending: str, tmp_path: Path) -> None:
    truth = lb.random_network(4, 3, rng=0)
    path = tmp_path / f"network{ending}"
    WRITERS[ending](truth, str(path))
    result = CliRunner().invoke(cli.commands, ["extract", str(path), "--out", str(tmp_path / "copy.json"), "--quiet"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(cli.commands, ["compare", str(path), str(tmp_path / "copy.json"), "--tol", "1e-6"])
    assert result.exit_code == 0, result.output


def test_pickles_of_torch_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK")
    result = CliRunner().invoke(cli.commands, ["compare", str(tmp_path / "model.pt"), str(tmp_path / "model.pt")])
    assert "is a pickle" in str(result.exception)


def test_a_recovery_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    truth, x = lb.random_network(4, 2, rng=0), np.random.default_rng(0).standard_normal((600, 4))
    np.savez(tmp_path / "data.npz", x=x, y=truth(x))
    call = ["recover", str(tmp_path / "data.npz"), "--width", "2", "--checkpoint", str(tmp_path / "kept"), "--quiet"]
    assert [CliRunner().invoke(cli.commands, call).exit_code for _ in range(2)] == [0, 0]
    assert (tmp_path / "kept" / "checkpoint.json").exists()
