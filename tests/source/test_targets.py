"""Any model as a black box: the answers are those of the model, and the dimension is found out where it is known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.errors import InvalidInput
from laybare.source import as_target

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((120, 4))
    return x, x[:, 0] - np.abs(x[:, 1])


def fitted(kind: str, x: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regressor = MLPRegressor(hidden_layer_sizes=(5,), random_state=0, solver="lbfgs", max_iter=50)
    if kind in ("regressor", "pipeline"):
        return (regressor if kind == "regressor" else make_pipeline(StandardScaler(), regressor)).fit(x, y)
    classes = y > 0 if kind == "binary" else np.digitize(y, [-1, 0])
    return MLPClassifier((5,), random_state=0, solver="lbfgs", max_iter=50, alpha=1.0).fit(x, classes)


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.parametrize("kind", ["regressor", "pipeline", "binary", "three classes"])
def test_scikit_learn_models(kind: str, data: tuple[np.ndarray, np.ndarray]) -> None:
    model = fitted(kind, *data)
    oracle = lb.Oracle(model)
    answers = oracle.ask(data[0])
    assert oracle.dim == 4
    if kind in ("regressor", "pipeline"):
        assert_array_equal(answers[:, 0], model.predict(data[0]))
    else:
        logs = np.log(model.predict_proba(data[0]))
        assert_allclose(answers, logs[:, 1:] - logs[:, :1], atol=1e-12)
    other = as_target(fitted(kind, data[0], data[1] + 1))
    assert oracle.name != other.name  # a log tells them apart
    assert oracle.name == as_target(fitted(kind, *data)).name


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_models_fitted_with_names_do_not_warn(data: tuple[np.ndarray, np.ndarray]) -> None:
    model = fitted("regressor", *data)
    model.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    assert lb.Oracle(model).ask(data[0]).shape == (120, 1)


def test_models_without_weights_or_probabilities_are_refused(data: tuple[np.ndarray, np.ndarray]) -> None:
    from sklearn.linear_model import RidgeClassifier
    from sklearn.neural_network import MLPRegressor

    with pytest.raises(InvalidInput, match="has not been fitted"):
        lb.Oracle(MLPRegressor())
    with pytest.raises(InvalidInput, match="has no predict_proba"):
        lb.Oracle(RidgeClassifier().fit(data[0], data[1] > 0))


def test_networks_and_their_files(tmp_path: Path, rng: np.random.Generator) -> None:
    net = lb.random_network(5, 3, rng=0)
    net.save(tmp_path / "net.safetensors")
    x = rng.standard_normal((10, 5))
    for target in (net, str(tmp_path / "net.safetensors"), tmp_path / "net.safetensors"):
        oracle = lb.Oracle(target)
        assert_array_equal(oracle.ask(x)[:, 0], net(x))
    assert as_target(net).name != as_target(lb.random_network(5, 3, rng=1)).name


def test_a_function_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("import laybare as lb", "def f(x):", "    return x[:, 0]", "net = lb.random_network(3, 2, rng=0)")
    (tmp_path / "my_box.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    assert_array_equal(lb.Oracle("my_box:f", 2).ask(np.eye(2)), [[1.0], [0.0]])
    assert lb.Oracle("my_box:net").dim == 3
    assert lb.Oracle("my_box:f", 2).name == "my_box:f"
    for text, sentence in (("my_box:g", "cannot be imported"), ("no_such_module:f", "cannot be imported"),
                           ("nonsense", "not the name of a file"), ("a b:c", "not the name of a file"),
                           ("model.onnx", "does not exist")):
        with pytest.raises(InvalidInput, match=sentence):
            lb.Oracle(text, 2)


@pytest.mark.parametrize(("target", "sentence"), [
    ((np.ones((3, 2)), np.ones(3)), "is a tuple.*use Samples"), (np.ones(3), "is a ndarray"), (None, "is a NoneType"),
    (lb.Network, "is the class Network")])
def test_what_is_no_black_box(target: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        lb.Oracle(target, 2)


def test_dimensions() -> None:
    with pytest.raises(InvalidInput, match=r"not known.*with dim="):
        lb.Oracle(np.sum)
    with pytest.raises(InvalidInput, match="dim is 4, and the black box takes inputs of dimension 5"):
        lb.Oracle(lb.random_network(5, 3, rng=0), 4)


def test_batches_are_kept_to(rng: np.random.Generator) -> None:
    sizes = []

    def box(x: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        return x[:, 0]

    oracle = lb.Oracle(box, 2, batch=100, budget=5000)
    x = rng.standard_normal((250, 2))
    assert_array_equal(oracle.ask(x)[:, 0], x[:, 0])
    assert sizes == [100, 100, 50]
    rows = oracle.read(0, 1024)
    assert_array_equal(rows.y[:, 0], rows.x[:, 0])
    assert max(sizes) == 100


def test_a_failure_between_batches_costs_nothing(rng: np.random.Generator) -> None:
    asked = []

    def box(x: np.ndarray) -> np.ndarray:
        if len(asked) == 3 and not any(size < 0 for size in asked):
            asked.append(-1)
            raise ConnectionError("gone")
        asked.append(len(x))
        return x[:, 0]

    oracle = lb.Oracle(box, 2, batch=10, budget=45)
    x = rng.standard_normal((45, 2))
    with pytest.raises(InvalidInput, match="ConnectionError"):
        oracle.ask(x)
    assert oracle.spent == 30
    assert_array_equal(oracle.ask(x)[:, 0], x[:, 0])  # the whole budget: those that came before are not counted again
    assert sum(size for size in asked if size > 0) == oracle.spent == 45


@pytest.mark.parametrize("outputs", [1, 3])
def test_torch_modules(outputs: int, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch", reason="part of the torch extra")
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(5, outputs))
    module.train()
    oracle = lb.Oracle(module)
    x = rng.standard_normal((40, 6))
    answers = oracle.ask(x)
    assert module.training
    module.eval()
    assert_array_equal(answers, module(torch.as_tensor(x, dtype=torch.float32)).detach().double().numpy())
    assert (oracle.dim, oracle.rounding.kind) == (6, "float32")


@pytest.mark.parametrize("fixed", [None, 1, 7])
def test_onnx_files_and_sessions(fixed: int | None, tmp_path: Path, rng: np.random.Generator) -> None:
    onnx = pytest.importorskip("onnx", reason="part of the onnx extra")
    runtime = pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    weights = rng.standard_normal((4, 3)).astype(np.float32)
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Relu", ["h"], ["y"])], "net",
        [onnx.helper.make_tensor_value_info("x", kind, [fixed or "n", 4])],
        [onnx.helper.make_tensor_value_info("y", kind, [fixed or "n", 3])],
        [onnx.numpy_helper.from_array(weights, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    x = rng.standard_normal((20, 4))
    for target in (path, runtime.InferenceSession(str(path))):
        oracle = lb.Oracle(target)
        assert_allclose(oracle.ask(x), np.maximum(x.astype(np.float32) @ weights, 0), rtol=1e-6)
        assert (oracle.dim, oracle.rounding.kind) == (4, "float32")
    path.write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        lb.Oracle(path)


@pytest.mark.parametrize(("shape", "where"), [([1, 3], "inputs"), ([5, -1], "inputs"), ([5, 2], "outputs"), ([1, -1], "outputs")])
def test_a_graph_traced_with_a_fixed_batch_is_asked_by_that_many_rows(
    shape: list[int], where: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Its inputs say any number of rows, and a reshape inside says one, or five."""
    onnx = pytest.importorskip("onnx", reason="part of the onnx extra")
    pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    node, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    weights = rng.standard_normal((3, 2)).astype(np.float32)
    inside = [node("Reshape", ["x", "shape"], ["r"]), node("MatMul", ["r", "w"], ["y"])] if where == "inputs" else [
        node("MatMul", ["x", "w"], ["r"]), node("Reshape", ["r", "shape"], ["y"])]
    ends = [onnx.helper.make_tensor_value_info(name, kind, size) for name, size in (("x", ["n", 3]), ("y", None))]
    graph = onnx.helper.make_graph(
        inside, "g", ends[:1], ends[1:],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(np.array(shape), "shape")])
    path = tmp_path / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    x = rng.standard_normal((13, 3))
    oracle = lb.Oracle(path)
    assert_allclose(oracle.ask(x), x.astype(np.float32) @ weights, rtol=1e-5)
    assert_allclose(oracle.ask(x[:2]), x[:2].astype(np.float32) @ weights, rtol=1e-5)


@pytest.mark.parametrize("operator", ["Transpose", "ReduceSum"])
def test_an_onnx_graph_without_a_row_for_every_input_is_refused(operator: str, tmp_path: Path) -> None:
    """Its numbers were once put into rows as they came."""
    onnx = pytest.importorskip("onnx", reason="part of the onnx extra")
    pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, ["x"], ["y"])], "g", [onnx.helper.make_tensor_value_info("x", kind, ["n", 4])],
        [onnx.helper.make_tensor_value_info("y", kind, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(InvalidInput, match="for 20 rows"):
        lb.Oracle(tmp_path / "net.onnx").ask(np.ones((20, 4)))


def test_onnx_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InvalidInput, match=r"pip install 'laybare\[onnx\]'"):
        lb.Oracle(tmp_path / "net.onnx")


def test_a_state_dict_is_a_relu_network(rng: np.random.Generator, tmp_path: Path) -> None:
    """Names in their order as numbers: layers.10 is the readout."""
    from safetensors.numpy import save_file

    truth = lb.random_network(3, 5, outputs=2, rng=4)
    arrays = {"layers.2.weight": truth.layer.weights, "layers.2.bias": np.array(truth.layer.biases),
              "layers.10.weight": np.ascontiguousarray(truth.readout.T), "layers.10.bias": np.array(truth.offset)}
    save_file(arrays, tmp_path / "model.safetensors")
    oracle = lb.Oracle(str(tmp_path / "model.safetensors"))
    x = rng.standard_normal((20, 3))
    assert_allclose(oracle.ask(x), truth(x), atol=1e-12)
    assert any("ReLU was taken" in remark for remark in oracle.remarks)


@pytest.mark.parametrize(("extra", "sentence"), [
    ({"1.running_mean": np.zeros(5)}, "a batch normalisation"), ({"conv.weight": np.zeros((2, 1, 3, 3))}, "no linear map"),
    ({"0.weight": np.zeros((4, 3))}, "5 inputs above a map with 4 outputs")])
def test_a_state_dict_of_other_parts_is_refused_by_name(extra: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"0.weight": np.zeros((5, 3)), "2.weight": np.zeros((1, 5)), **extra}, tmp_path / "model.safetensors")
    with pytest.raises(InvalidInput, match=sentence):
        lb.Oracle(str(tmp_path / "model.safetensors"))


def _attention() -> tuple[list[Any], dict[str, np.ndarray]]:
    """Nodes as exporters write it: scores of queries and keys, a softmax, a sum of values; and the constants."""
    node = onnx_node()
    nodes = [
        node("Reshape", ["x", "rows"], ["h"]), node("Transpose", ["h"], ["keys"], perm=[0, 2, 1]),
        node("MatMul", ["h", "keys"], ["scores"]), node("Softmax", ["scores"], ["share"]),
        node("MatMul", ["share", "h"], ["mixed"]), node("Flatten", ["mixed"], ["flat"]),
        node("MatMul", ["flat", "w"], ["y"])]
    return nodes, {"rows": np.array([-1, 3, 4]), "w": np.ones((12, 1), dtype=np.float32)}


def _pooled(operator: str, **attributes: Any) -> tuple[list[Any], dict[str, np.ndarray]]:
    node, weights = onnx_node(), {"kernel": np.ones((1, 1, 2), dtype=np.float32)} if operator == "Conv" else {}
    nodes = [
        node("Reshape", ["x", "rows"], ["h"]), node(operator, ["h", *weights], ["pooled"], **attributes),
        node("Flatten", ["pooled"], ["flat"]), node("Relu", ["flat"], ["on"]),
        node("ReduceSum", ["on", "axis"], ["y"], keepdims=1)]
    return nodes, {"rows": np.array([-1, 1, 12]), "axis": np.array([1]), **weights}


def _log_probabilities() -> tuple[list[Any], dict[str, np.ndarray]]:
    node = onnx_node()
    return [node("MatMul", ["x", "w"], ["z"]), node("LogSoftmax", ["z"], ["y"])], {"w": np.ones((12, 1), dtype=np.float32)}


def onnx_node() -> Any:
    return pytest.importorskip("onnx", reason="part of the onnx extra").helper.make_node


GRAPHS = {
    "attention": _attention, "a log-softmax": _log_probabilities, "a convolution": lambda: _pooled("Conv"),
    "max-pooling": lambda: _pooled("MaxPool", kernel_shape=[2], strides=[2]),
    "average-pooling": lambda: _pooled("AveragePool", kernel_shape=[2], strides=[2])}


@pytest.mark.parametrize("called", GRAPHS)
def test_a_graph_that_is_no_chain_of_layers_is_named(called: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx", reason="part of the onnx extra")
    pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    nodes, constants = GRAPHS[called]()
    sizes = {"x": ["n", 12], "y": [3, 1]}
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, size) for name, size in sizes.items()]
    graph = onnx.helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    path = tmp_path / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    oracle = lb.Oracle(path)
    assert oracle.structure == f"The graph of net.onnx has {called}: it is no chain of fully connected layers."
    assert oracle.ask(np.ones((5, 12))).shape == (5, 1)  # it was traced with three rows
    assert "Expected shape" not in "".join(capfd.readouterr())  # which is no news with every batch
