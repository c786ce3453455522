"""`laybare extract` of networks with several layers, as ONNX files: text, --json, --quiet, --out, --report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from deep_networks import deep_network
from numpy.testing import assert_array_equal

import laybare as lb
from laybare import cli
from laybare.cli.output import network_tables
from laybare.cli.results import open_network

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


def test_layers_under_a_black_box_that_was_not_read_are_saved_and_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget, or Ctrl-C, ended after the lowest layer: that is one hidden layer, and no summary of a fit."""
    truth = lb.random_network(3, 2, rng=0)
    whole = lb.recover(lb.Oracle(truth), rng=0)
    layers = replace(whole, network=lb.Network(whole.network.layer, np.ones(2), top=lambda features: features.sum(axis=1)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lb, "recover", lambda *given, **options: layers)
    truth.save("box.safetensors")
    for ending in ("json", "npz", "safetensors"):
        result = CliRunner().invoke(cli.commands, ["extract", "box.safetensors", "--json", "--out", f"layers.{ending}"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert len(found["layers"]) == 1 and "summary" not in found
        assert_array_equal(found["layers"][0]["weights"], layers.network.layer.weights)
        assert_array_equal(open_network(f"layers.{ending}").layer.weights, layers.network.layer.weights)


def test_layers_whose_readout_is_not_known_are_said_to_be_that_and_show_none() -> None:
    rng = np.random.default_rng(0)
    x, truth = rng.standard_normal((300, 3)), lb.random_network(3, 2, rng=1)
    found = lb.recover(x, truth(x), width=2, rng=0)
    layers = [lb.Layer(rng.standard_normal(shape), np.zeros(shape[0]), lb.relu) for shape in ((2, 3), (3, 2))]
    read = replace(found, network=lb.Network(layers, np.zeros(3)))
    assert read.headline.startswith("2 layers of 2-3 relu units; what reads these is not known")
    whole = replace(found, network=lb.Network(layers, np.ones(3)))
    errors = found.certificate.standard_errors
    shown, tables = (len(list(network_tables(one.network, 100, errors))) for one in (read, whole))
    assert (shown, tables) == (2, 3)
