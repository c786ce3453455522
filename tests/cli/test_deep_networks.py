"""`laybare extract` of networks with several layers, as ONNX files: text, --json, --quiet, --out, --report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from deep_networks import deep_network

import laybare as lb
from laybare import cli

SHAPES = {"12-10-6-1": (12, 10, 6), "20-16-12-8-1": (20, 16, 12, 8), "6-8-6-1": (6, 8, 6)}


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[lb.Network, Path]:
    pytest.importorskip("onnxruntime")
    truth = deep_network(np.random.default_rng(1), SHAPES[request.param], outputs=None)
    path = tmp_path_factory.mktemp("models") / f"{truth.architecture}.onnx"
    lb.to_onnx(truth, path)
    return truth, path


def test_text_has_a_table_for_every_layer(model: tuple[lb.Network, Path], tmp_path: Path) -> None:
    truth, path = model
    out, page = tmp_path / "copy.safetensors", tmp_path / "page.html"
    result = CliRunner().invoke(cli.commands, ["extract", str(path), "--out", str(out), "--report", str(page)])
    assert result.exit_code == 0, result.output
    for level, width in enumerate(truth.widths):
        assert f"layer {level + 1} of {truth.depth}: {width} units" in result.output
    assert f"{truth.architecture} network of relu units" in result.output
    assert lb.compare(lb.load(out), truth).max_error < 1e-8
    assert truth.architecture in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_other_output(model: tuple[lb.Network, Path], option: str) -> None:
    truth, path = model
    result = CliRunner().invoke(cli.commands, ["extract", str(path), option])
    assert result.exit_code == 0
    if option == "--quiet":
        assert result.stdout == ""
        return
    found = json.loads(result.stdout)
    assert found["depth"] == truth.depth
    assert found["widths"] == list(truth.widths)
    assert found["verdict"] == "verified"
