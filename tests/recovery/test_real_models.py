"""Classifiers as they come: scalers in front, probabilities behind, inputs far from N(0, 1)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scaled_classifiers import log_odds, trained, write_onnx

import laybare as lb
from laybare import cli
from laybare.source import Target


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("scaler", ["StandardScaler", "MinMaxScaler"])
@pytest.mark.parametrize("data", ["breast_cancer", "iris"])
def test_pipelines_are_read_where_their_data_are(data: str, scaler: str, given: bool) -> None:
    model, x = trained(data, scaler, (8,))
    found = lb.recover(lb.Oracle(model, inputs=x if given else None, budget=5000))
    assert found.certificate.verdict == "verified"
    assert np.abs(found(x).reshape(len(x), -1) - log_odds(model, x)).max() < 1e-8
    said = f"like the {len(x)} rows given" if given else f"where the pipeline's {scaler} puts them"
    assert f"% of inputs {said}" in " ".join(str(found).split())


@pytest.mark.parametrize("scaler", ["StandardScaler", "MinMaxScaler"])
def test_two_hidden_layers_of_a_classifier_are_read_where_no_class_is_certain(scaler: str) -> None:
    model, x = trained("breast_cancer", scaler, (8, 8), 3)
    found = lb.recover(lb.Oracle(model, inputs=x, budget=5000))
    assert found.certificate.verdict == "verified"
    assert np.abs(found(x).reshape(len(x), -1) - log_odds(model, x)).max() < 1e-8


def test_confident_probabilities_keep_their_digits() -> None:
    """Softmax of three classes, log-odds of hundreds: 1e-200 has as many digits as 0.1."""
    truth = lb.random_network(4, 6, outputs=2, rng=3)

    def softmax(x: np.ndarray) -> np.ndarray:
        z = 30.0 * np.column_stack([np.zeros(len(x)), truth(x)])
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    found = lb.recover(lb.Oracle(softmax, 4))
    x = np.random.default_rng(0).standard_normal((200, 4))
    assert found.certificate.verdict == "verified"
    assert np.abs(found(x) - 30.0 * truth(x)).max() < 1e-8


def test_command_line_takes_rows_boxes_and_laws(tmp_path: Path) -> None:
    truth = lb.random_network(3, 4, rng=1)
    truth.save(tmp_path / "net.safetensors")
    rows = np.random.default_rng(0).standard_normal((50, 3))
    names = "age,height,weight"
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header=names, comments="")
    for name, row in (("low", rows.min(axis=0)), ("high", rows.max(axis=0))):
        np.savetxt(tmp_path / f"{name}.csv", row[None], delimiter=",", header=names, comments="")
    given = {
        "rows": ("--inputs", str(tmp_path / "rows.csv")),
        "files": ("--box", f"{tmp_path / 'low.csv'},{tmp_path / 'high.csv'}"),
        "named": ("--inputs", str(tmp_path / "rows.csv"), "--box", "age=-9:9", "--box", "2=-8:8"),
        "law": ("--law", "normal:1,2")}
    for options in given.values():
        result = CliRunner().invoke(cli.commands, ["extract", str(tmp_path / "net.safetensors"), *options, "--json"])
        assert json.loads(result.stdout)["verdict"] in ("verified", "doubtful"), (options, result.output)
    for wrong in (("--box", "age=1:2"), ("--box", "1"), ("--law", "uniform")):
        result = CliRunner().invoke(cli.commands, ["extract", str(tmp_path / "net.safetensors"), *wrong])
        assert result.exit_code == 2
        assert "Traceback" not in result.output


@pytest.mark.parametrize(("data", "scaler"), [("breast_cancer", "StandardScaler"), ("iris", "MinMaxScaler")])
def test_float32_files_are_read_by_one_command(data: str, scaler: str, tmp_path: Path) -> None:
    model, x = trained(data, scaler, (8,))
    write_onnx(model, tmp_path / "model.onnx")
    np.savetxt(tmp_path / "rows.csv", x, delimiter=",", header=",".join(f"c{i}" for i in range(x.shape[1])), comments="")
    out = tmp_path / "found.safetensors"
    result = CliRunner().invoke(cli.commands, [
        "extract", str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "rows.csv"), "--budget", "5000", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"like the {len(x)} rows given" in " ".join(result.output.split())
    assert np.abs(lb.load(out)(x).reshape(len(x), -1) - log_odds(model, x)).max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("scaler", ["StandardScaler", "MinMaxScaler"])
@pytest.mark.parametrize("data", ["breast_cancer", "iris"])
def test_one_layer_is_right_or_doubtful(data: str, scaler: str, as_file: bool, tmp_path: Path) -> None:
    """(8,) and (16,), five seeds: never wrong and verified; of pipelines all are right, of float32 files at least six of ten."""
    right = 0
    for hidden in (8, 16):
        for seed in range(5):
            model, x = trained(data, scaler, (hidden,), seed)
            write_onnx(model, tmp_path / "model.onnx")
            oracle = lb.Oracle(str(tmp_path / "model.onnx") if as_file else model, inputs=x, budget=5000)
            try:
                found = lb.recover(oracle)
            except lb.errors.LaybareError:
                assert as_file
                continue
            error = np.abs(found(x).reshape(len(x), -1) - log_odds(model, x)).max()
            assert error < 1e-4 or found.certificate.verdict != "verified"
            right += int(error < 1e-4)
    assert right >= (6 if as_file else 10)


def test_what_a_graph_says_is_said_where_not_all_was_read() -> None:
    truth, said = lb.random_network(6, 8, rng=0), "The graph of net.onnx has max-pooling: it is no chain of layers."
    whole, part = (lb.recover(lb.Oracle(Target(truth, "net.onnx", 6, remark=said), budget=budget)) for budget in (2000, 75))
    assert whole.certificate.verdict == "verified"
    assert said not in whole.certificate.explain()
    assert part.certificate.verdict == "doubtful"
    assert said in part.certificate.explain()
