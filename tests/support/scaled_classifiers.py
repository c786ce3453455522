"""Classifiers as people train and export them: a scaler, an MLP, probabilities; as a pipeline and as an ONNX file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np


def trained(data: str, scaler: str, hidden: tuple[int, ...], seed: int = 0) -> tuple[Any, np.ndarray]:
    """A pipeline of a scaler and an MLPClassifier, and the rows that it was trained on."""
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


def write_onnx(model: Any, path: Path) -> None:
    """The pipeline in float32: Sub and Div, or Mul and Add; Gemm, Relu, ...; Sigmoid or Softmax."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    scaler, mlp = model[0], model[1]
    held, nodes = [], []

    def constant(name: str, value: np.ndarray) -> str:
        held.append(numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
        return name

    standard = hasattr(scaler, "mean_")
    one, other = (scaler.mean_, scaler.scale_) if standard else (scaler.scale_, scaler.min_)
    nodes.append(helper.make_node("Sub" if standard else "Mul", ["x", constant("one", one)], ["moved"]))
    nodes.append(helper.make_node("Div" if standard else "Add", ["moved", constant("other", other)], ["h0"]))
    last = len(mlp.coefs_) - 1
    for i, (weights, biases) in enumerate(zip(mlp.coefs_, mlp.intercepts_, strict=True)):
        nodes.append(helper.make_node("Gemm", [f"h{i}", constant(f"w{i}", weights), constant(f"b{i}", biases)], [f"z{i}"]))
        if i < last:
            nodes.append(helper.make_node("Relu", [f"z{i}"], [f"h{i + 1}"]))
    nodes.append(helper.make_node("Sigmoid" if mlp.n_outputs_ == 1 else "Softmax", [f"z{last}"], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
            for name, size in (("x", len(mlp.coefs_[0])), ("y", mlp.n_outputs_))]
    graph = helper.make_graph(nodes, "classifier", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
