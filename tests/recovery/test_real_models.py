"""Classifiers as they come: scalers in front, probabilities behind, inputs far from N(0, 1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import laybare as lb
from laybare import cli


def trained(data: str, scaler: str, hidden: tuple[int, ...], seed: int = 0) -> tuple[Any, np.ndarray]:
    """A pipeline of a scaler and an MLPClassifier, and the rows that it was trained on."""
    import warnings

    from sklearn import datasets, preprocessing
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    x, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(
            getattr(preprocessing, scaler)(), MLPClassifier(hidden, max_iter=300, random_state=seed)).fit(x, y)
    return model, x


def log_odds(model: Any, x: np.ndarray) -> np.ndarray:
    """Of every class against the first, from the weights."""
    mlp, h = model[1], model[0].transform(x)
    for weights, biases in zip(mlp.coefs_[:-1], mlp.intercepts_[:-1], strict=True):
        h = np.maximum(h @ weights + biases, 0.0)
    z = h @ mlp.coefs_[-1] + mlp.intercepts_[-1]
    return np.asarray(z if z.shape[1] == 1 else z[:, 1:] - z[:, :1])


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("scaler", ["StandardScaler", "MinMaxScaler"])
@pytest.mark.parametrize("data", ["breast_cancer", "iris"])
def test_pipelines_are_read_where_their_data_are(data: str, scaler: str, given: bool) -> None:
    model, x = trained(data, scaler, (8,))
    found = lb.recover(lb.Oracle(model, inputs=x if given else None, budget=5000))
    assert found.certificate.verdict == "verified"
    assert np.abs(found(x).reshape(len(x), -1) - log_odds(model, x)).max() < 1e-8
    said = f"like the {len(x)} rows given" if given else f"where the pipeline's {scaler} puts them"
    assert f"% of inputs {said}" in str(found)


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
