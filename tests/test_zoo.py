"""The benchmark of real networks: how a folder is read, how a result is judged, and one run of every solver that can run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import laybare as lb

PLACE = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, imported as its own folder would."""
    monkeypatch.syspath_prepend(str(PLACE))
    return importlib.import_module("zoo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one classifier, 3-4-2, as the format says."""
    rng = np.random.default_rng(0)
    arrays = {"W0": rng.standard_normal((4, 3)), "b0": np.zeros(4), "W1": rng.standard_normal((2, 4)), "b1": np.ones(2)}
    np.savez(tmp_path / "small_3_4_2.npz", **arrays)
    about = {"origin": "here", "what": "a test", "licence": "ours", "final": "softmax", "float32": True}
    (tmp_path / "manifest.json").write_text(json.dumps({"small_3_4_2": {**about, "low": [-2, -2, -2], "high": 2}}))
    return tmp_path


def run(zoo: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["zoo.py", *arguments])
    return int(zoo.main())


def test_a_folder_is_measured_and_written(zoo: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, page = folder / "rows.json", folder / "table.md"
    given = ("--folder", str(folder), "--form", "float64", "--solver", "laybare", "L-BFGS", "--cpu", "20", "--queries", "3000")
    assert run(zoo, monkeypatch, *given, "--out", str(out), "--table", str(page)) == 0
    ours, control = json.loads(out.read_text())
    assert ours["verdict"] == "verified" and ours["layers"] == [[4, 4, 4]] and ours["function"] < 1e-9
    assert control["verdict"] == "no claim" and control["queries"] == ours["queries"]
    assert "| small_3_4_2 | 3-4-2 | float64 | laybare | verified | 4/4 |" in page.read_text()


def test_own_runtime_is_judged_by_log_odds(zoo: ModuleType, folder: Path) -> None:
    data = importlib.import_module("zoo_data")
    network = data.networks_in(folder)[0]
    x = network.draw(np.random.default_rng(3), 50)
    assert network.forms == ("float64", "runtime") and np.abs(x).max() <= 2.0
    p = network.target("runtime").ask(x)
    assert p.dtype == np.float32
    np.testing.assert_allclose(np.log(p[:, 1:] / p[:, :1]), network.outputs("runtime", x), atol=1e-5)


def test_a_file_that_onnxruntime_does_not_open_is_computed_here_and_the_row_says_so(zoo: ModuleType, folder: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="part of the onnx extra")
    pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    data = importlib.import_module("zoo_data")
    truth = data.networks_in(folder)[0].truth
    file = folder / "onnx" / "small_3_4_2.onnx"
    file.parent.mkdir()
    lb.to_onnx(truth, file, dtype="float32")
    assert data.networks_in(folder)[0].runtime == ""
    model = onnx.load(str(file))
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = 1  # as of images: Gemm takes none
    file.write_bytes(model.SerializeToString())
    network = data.networks_in(folder)[0]
    x = network.draw(np.random.default_rng(3), 50)
    assert network.runtime == "lb.from_onnx, NumPy"
    p = network.target("runtime").ask(x)
    np.testing.assert_allclose(np.log(p[:, 1:] / p[:, :1]), network.outputs("runtime", x), atol=1e-5)
    row = importlib.import_module("zoo_objective").row_of(
        network, "runtime", "laybare", importlib.import_module("zoo_objective").score(network, "runtime", truth),
        {"verdict": "verified", "queries": 1, "cpu": 0.0})
    assert "| runtime (lb.from_onnx, NumPy) | laybare |" in zoo.line(row)


def scored(folder: Path, change: Any) -> Any:
    data, objective = importlib.import_module("zoo_data"), importlib.import_module("zoo_objective")
    network = data.networks_in(folder)[0]
    return objective.score(network, "float64", change(network.truth))


def test_units_are_judged_whatever_their_order_and_scale(zoo: ModuleType, folder: Path) -> None:
    def turned(net: lb.Network) -> lb.Network:
        order, scale = np.array([2, 0, 3, 1]), np.array([0.5, 3.0, 1.0, 7.0])
        layer = lb.Layer(net.layer.weights[order] * scale[:, None], net.layer.biases[order] * scale, lb.relu)
        return lb.Network(layer, net.readout[order] / scale[:, None], net.offset)

    same = scored(folder, turned)
    assert same.whole and same.layers == [(4, 4, 4)] and same.unit_error < 1e-12


def test_wrong_units_and_wrong_signs_are_not_right(zoo: ModuleType, folder: Path) -> None:
    def moved(net: lb.Network) -> lb.Network:
        return lb.Network(lb.Layer(net.layer.weights, net.layer.biases + 0.1 * np.eye(4)[0], lb.relu), net.readout, net.offset)

    def flipped(net: lb.Network) -> lb.Network:
        signs = np.array([-1.0, 1.0, 1.0, 1.0])
        return lb.Network(
            lb.Layer(net.layer.weights * signs[:, None], net.layer.biases * signs, lb.relu), net.readout, net.offset)

    for change in (moved, flipped):
        judged = scored(folder, change)
        assert judged.layers == [(3, 4, 4)] and judged.function > 1e-3 and not judged.whole
