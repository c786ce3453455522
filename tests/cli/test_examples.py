"""Every --help ends with examples, and they run."""

from __future__ import annotations

import gzip
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import laybare as lb
from laybare import cli
from laybare.planted import PlantedTarget, polynomial_top, threshold_layer
from laybare.studies import STUDIES

MODEL = "import numpy as np\n\ndef predict(x):\n    return np.maximum(x @ np.ones(4), 0.0) - np.maximum(x[:, 0] - 0.5, 0.0)\n"


def examples_of(command: str) -> list[str]:
    text = CliRunner().invoke(cli.commands, [command, "--help"], env={"COLUMNS": "200"}).output
    return re.findall(r"^ +laybare (.+)$", text.partition("Examples:")[2], re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the examples talk about."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    rng = np.random.default_rng(0)
    truth = lb.random_network(4, 3, rng=1)
    x = rng.standard_normal((400, 4))
    np.savez("data.npz", x=x, y=truth(x))
    for name in ("truth", "network"):
        truth.save(f"{name}.safetensors")
    houses = lb.random_network(2, 2, rng=3)
    lines = [f"h{i},{a!r},{b!r},{'' if i == 5 else repr(float(houses(np.array([[a, b]]))[0]))}" for i, (a, b) in enumerate(
        x[:200, :2].tolist())]
    with gzip.open("houses.csv.gz", "wt") as file:
        file.write("\n".join(["id,area,age,price", *lines]) + "\n")
    target = PlantedTarget(threshold_layer(4, 3, lb.relu, 2.0, rng=rng), polynomial_top(3, 2, rng=rng))
    x = rng.standard_normal((6000, 4))
    np.savez("rare.npz", x=x, y=target(x))
    Path("sklearn_model.py").write_text(MODEL)
    return tmp_path


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_help_has_examples(command: str) -> None:
    lines = examples_of(command)
    assert lines and all(line.split()[0] == command for line in lines)


@pytest.mark.parametrize("command", [name for name in cli.COMMANDS if name != "demo"])
def test_examples_of_the_help_run(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the demonstration runs in test_cli; a study runs on the smallest of its cells."""
    monkeypatch.setitem(STUDIES, "lines", replace(STUDIES["lines"], quick=((4, 2),)))
    lines = [line.replace("0-4", "0-0") for line in examples_of(command)]
    for line in lines:
        result = CliRunner().invoke(cli.commands, shlex.split(line), catch_exceptions=False)
        assert result.exit_code in (0, 3), result.output
        for path in re.findall(r"--(?:out|report) (\S+)", line):
            assert (folder / path).exists()
