"""What can be asked: functions, networks, models of scikit-learn, torch and ONNX, files and addresses. All become a `Target`.

Of a scikit-learn classifier `predict_proba` is asked, of other estimators and pipelines `predict`. Torch modules are asked in
evaluation mode, without gradients, in their own precision. No library is imported to recognise a model: its owner has done so.

ONNX models are run by onnxruntime; what their graph says about inputs and outputs is read where onnx is installed.

Exporters put the normalisation of the inputs first (Sub, Div, Mul, Add, BatchNormalization, Scaler) and Sigmoid or Softmax last.
The first tells where the inputs are, the last what the answers are. A graph that is no chain of layers is named by its operators.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Network, load
from laybare.networks.network_files import STATE_DICT_REMARK, is_state_dict, load_state_dict
from laybare.numerics.checks import has_methods
from laybare.numerics.file_borders import check_whole_file_fits
from laybare.numerics.redaction import describe_error, redact
from laybare.numerics.shapes import Array
from laybare.source.oracle.endpoint import Endpoint
from laybare.source.oracle.links import CLASSES_ARE_NOT_ENOUGH
from laybare.source.oracle.regions import InputRegion, batch_norm_region, scaler_region

ONNX_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
LINKS_BY_OPERATOR = {"Sigmoid": "logit", "Softmax": "softmax"}
SHAPE_OPERATORS = ("Identity", "Flatten", "Reshape", "Cast", "Dropout", "Squeeze", "Unsqueeze")
"""Operators that leave the numbers as they are."""

STRUCTURES = {
    "Conv": "a convolution", "ConvTranspose": "a convolution", "MaxPool": "max-pooling", "GlobalMaxPool": "max-pooling",
    "LSTM": "a recurrent layer", "GRU": "a recurrent layer", "RNN": "a recurrent layer", "Attention": "attention",
    "AveragePool": "average-pooling", "LogSoftmax": "a log-softmax",
    "LayerNormalization": "a layer normalisation", "TreeEnsembleRegressor": "trees", "TreeEnsembleClassifier": "trees"}
"""What a graph is called that has these operators."""


class OnnxModel(NamedTuple):
    """The fields of a `Target`."""

    ask: Callable[[Array], Any]
    name: str
    dim: int | None
    batch: int | None
    region: InputRegion | None = None
    link: str | None = None
    remark: str = ""


class GraphFacts(NamedTuple):
    """What a graph says: the region of its inputs, the link of its outputs, what it is if it is no chain of layers."""

    region: InputRegion | None = None
    link: str | None = None
    remark: str = ""


def is_session(given: Any) -> bool:
    """Whether it has the methods of an onnxruntime session."""
    return has_methods(given, "run", "get_inputs", "get_outputs")


def open_file(path: Path) -> OnnxModel:
    """A model on disk, run by onnxruntime on the CPU."""
    check_whole_file_fits(path)
    try:
        import onnxruntime
    except ImportError:
        raise InvalidInput(
            f"{path} is an ONNX model, and onnxruntime is not installed.", "It runs such models.",
            "Run pip install 'laybare[onnx]'.", path=str(path)) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # of its warnings some come with every batch: a graph that was traced with other rows
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common public base
        raise InvalidInput(
            f"{path} cannot be loaded by onnxruntime ({str(error).splitlines()[0]}).",
            "It is damaged, no ONNX model, or written for an operator set that this onnxruntime no longer runs.",
            "Export it again; lb.from_onnx(path) reads the weights of a chain of layers without running it.",
            path=str(path)) from None
    name = f"{path.name} {blake2b(path.read_bytes(), digest_size=8).hexdigest()}"
    opened = open_session(session, name, _traced_batches(path))
    return opened._replace(**read_graph(path, opened.dim)._asdict())


def _traced_batches(path: Path) -> tuple[int, ...]:
    """Numbers of rows that reshapes of a graph ask for: those it was traced with; none if onnx is not installed."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        return ()
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {tensor.name: tensor for tensor in graph.initializer} | {
        node.output[0]: attribute.t for node in graph.node if node.op_type == "Constant"
        for attribute in node.attribute if attribute.name == "value"}
    shapes = [numpy_helper.to_array(constants[node.input[1]]).ravel() for node in graph.node
              if node.op_type == "Reshape" and len(node.input) > 1 and node.input[1] in constants]
    return tuple(sorted({int(shape[0]) for shape in shapes if len(shape) and shape[0] > 0}))


def open_session(session: Any, name: str | None = None, batches: tuple[int, ...] = ()) -> OnnxModel:
    """A session with one input, whose rows are flattened; of several outputs the last real one (probabilities follow labels).

    Where it does not answer every row of a call it was traced with another number of rows: it is asked by one of `batches`.
    """
    inputs = session.get_inputs()
    outputs = [output for output in session.get_outputs() if output.type in ONNX_TYPES]
    if len(inputs) != 1 or inputs[0].type not in ONNX_TYPES or not outputs:
        shown = ", ".join(f"{part.name}: {part.type}" for part in (*inputs, *session.get_outputs()))
        raise InvalidInput(
            f"The ONNX model has {shown}.", "One input and at least one output of real numbers are needed.",
            "Export it with one input tensor and without label maps (zipmap=False).")
    input_name, answer, precision = inputs[0].name, outputs[-1].name, ONNX_TYPES[inputs[0].type]
    sizes = [size if isinstance(size, int) else None for size in inputs[0].shape]
    known = len(sizes) > 1 and None not in sizes[1:]
    shape, batch = tuple(sizes[1:]) if known else (-1,), sizes[0] if sizes else None

    def run(rows: Array, size: int | None) -> Array:
        """Answers to rows, filled up to a number that the graph takes, no fewer."""
        missing = 0 if size is None else max(0, size - len(rows))
        filled = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows
        given = np.asarray(session.run([answer], {input_name: filled})[0])
        whole = given.ndim > 0 and len(given) == len(filled)  # what has no row for every input is not put into one
        return given[: len(rows)].reshape(len(rows), -1) if whole else given

    traced = list[int]()

    def ask(x: Array) -> Array:
        rows, failed = x.astype(precision).reshape(len(x), *shape), None
        if not traced:
            try:
                given = run(rows, batch)
            except Exception as error:  # its exceptions have no common public base
                given, failed = np.empty(0), error
            if given.ndim > 0 and len(given) == len(rows):
                return given
        for size in traced or (batches if batch is None else ()):
            try:
                parts = [run(rows[i : i + size], size) for i in range(0, len(rows), size)]
            except Exception:  # the same
                continue
            if all(part.ndim > 0 and len(part) == len(rows[i * size : (i + 1) * size]) for i, part in enumerate(parts)):
                traced[:] = [size]
                return np.concatenate(parts)
        if failed is not None:
            raise failed
        return given

    dim = int(np.prod([size for size in sizes[1:] if size is not None])) if known else None
    return OnnxModel(ask, name or f"ONNX session {input_name} -> {answer}", dim, batch)


def read_graph(path: Path, dim: int | None) -> GraphFacts:
    """What the graph of a file says; nothing if onnx is not installed."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        return GraphFacts()
    graph = onnx.load(str(path), load_external_data=False).graph
    constants = {tensor.name: tensor for tensor in graph.initializer} | {
        node.output[0]: attribute.t for node in graph.node if node.op_type == "Constant"
        for attribute in node.attribute if attribute.name == "value"}
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    start = next((given.name for given in graph.input if given.name not in constants), "")
    found = sorted({STRUCTURES[node.op_type] for node in nodes if node.op_type in STRUCTURES} | _products(start, nodes))
    remark = f"The graph of {path.name} has {' and '.join(found)}: it is no chain of fully connected layers." if found else ""
    last = next((node for node in reversed(nodes) if node.op_type not in SHAPE_OPERATORS), None)
    values = {name: np.asarray(numpy_helper.to_array(tensor), dtype=float) for name, tensor in constants.items()
              if tensor.data_location != 1}
    link = None if last is None else LINKS_BY_OPERATOR.get(last.op_type)
    return GraphFacts(None if dim is None else _normalisation(start, nodes, values, dim), link, remark)


def _products(start: str, nodes: list[Any]) -> set[str]:
    """What multiplies features by features: exporters write attention as matrix products with a softmax between them."""
    features, found = {start}, set[str]()
    for node in nodes:
        shared = sum(name in features for name in node.input)
        features.update(node.output if shared else ())
        found.update({node.op_type} if shared > 1 or node.op_type == "Softmax" else ())
    if found.isdisjoint(("MatMul", "Einsum")):
        return set()
    return {"attention" if "Softmax" in found else "a product of features"}


def _normalisation(start: str, nodes: list[Any], constants: dict[str, Array], dim: int) -> InputRegion | None:
    """Where the operators before the first layer put the inputs, if they scale or move each of them."""
    factor, shift, tensor, names = np.ones(dim), np.zeros(dim), start, []
    while True:
        users = [node for node in nodes if tensor in node.input]
        step = _affine_step(users[0], tensor, constants, dim) if len(users) == 1 else None
        if step is None:
            break
        factor, shift = step[0] * factor, step[0] * shift + step[1]
        tensor = users[0].output[0]
        names += [users[0].op_type] * (users[0].op_type not in SHAPE_OPERATORS)
    if not names or not np.all(factor) or (np.all(factor == 1.0) and not shift.any()):
        return None
    return InputRegion.of_scaler(-shift / factor, 1.0 / factor, f"where the graph's own {' and '.join(names)} put them")


def _affine_step(node: Any, tensor: str, constants: dict[str, Array], dim: int) -> tuple[Array, Array] | None:
    """(a, b) of an operator that maps every input to a x + b; None for another."""
    one, none = np.ones(dim), np.zeros(dim)
    if node.op_type in SHAPE_OPERATORS:
        return one, none
    attributes = {given.name: given for given in node.attribute}
    if node.op_type == "Scaler":
        scale, offset = (np.broadcast_to(np.array(attributes[name].floats), dim) for name in ("scale", "offset"))
        return scale, -scale * offset
    given = [constants[name] for name in node.input if name in constants]
    if any(array.size not in (1, dim) for array in given) or len(given) != len(node.input) - 1:
        return None
    rows = [np.broadcast_to(array.ravel(), dim) for array in given]
    if node.op_type == "BatchNormalization":
        scale, bias, mean, variance = rows
        factor = scale / np.sqrt(variance + (attributes["epsilon"].f if "epsilon" in attributes else 1e-5))
        return factor, bias - factor * mean
    first = node.input[0] == tensor
    known = {"Add": (one, rows[0]), "Mul": (rows[0], none), "Sub": (one, -rows[0]) if first else (-one, rows[0])} if rows else {}
    if node.op_type == "Div" and rows and first:
        return 1.0 / rows[0], none
    return known.get(node.op_type)


@dataclass(frozen=True)
class Target:
    """A black box: the function x (n, dim) -> answers, its name in logs, its dimension if known, its largest batch.

    What a model says about itself: `region`, where its own scaler puts inputs; `link`, what its last operator does; `remark`,
    what it is, if that is no chain of layers.
    """

    ask: Callable[[Array], Any]
    name: str
    dim: int | None = None
    batch: int | None = None
    region: InputRegion | None = None
    link: str | None = None
    remark: str = ""


def digest(arrays: Iterable[Any]) -> str:
    """A hash of parameters, 16 hex digits."""
    found = blake2b(digest_size=8)
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def is_estimator(given: Any) -> bool:
    """Whether it has the methods of a scikit-learn estimator."""
    return not isinstance(given, type) and has_methods(given, "fit", "predict", "get_params")


def sklearn_model(model: Any) -> Target:
    """A fitted model; a classifier must have probabilities."""
    name = type(model).__name__
    dim = getattr(model, "n_features_in_", None)
    if dim is None:
        raise InvalidInput(f"The {name} has not been fitted.", "It has no weights yet.", "Call fit first.", model=name)
    classifies = hasattr(model, "classes_") or getattr(model, "_estimator_type", None) == "classifier"
    if classifies and not hasattr(model, "predict_proba"):
        raise InvalidInput(
            f"The {name} predicts classes and has no predict_proba.",
            CLASSES_ARE_NOT_ENOUGH,
            "Give its decision_function as the black box, or a model with probabilities.", model=name)
    ask = _without_name_warning(model.predict_proba if classifies else model.predict)
    return Target(ask, f"{name} {digest(_parameters(model))}", int(dim), region=scaler_region(model))


def _without_name_warning(predict: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """`predict` without the warning that rows without column names were given to a model fitted with names."""

    def ask(x: Array) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*valid feature names.*")
            return predict(x)

    return ask


def _parameters(model: Any) -> list[Any]:
    """Fitted arrays of all steps: weights, means and scales."""
    steps = [step for _, step in getattr(model, "steps", [])] or [model]
    names = ("coefs_", "intercepts_", "coef_", "intercept_", "mean_", "scale_", "var_", "min_", "components_")
    found = []
    for step in steps:
        for name in names:
            value = getattr(step, name, None)
            found += value if isinstance(value, list) else [] if value is None else [value]
    return found


def is_module(given: Any) -> bool:
    """Whether it is a torch module; torch is not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


def torch_module(module: Any) -> Target:
    """A module from (n, dim) to (n,) or (n, outputs); dim is that of its first linear layer."""
    import torch

    tensors = list(module.state_dict().values())
    first = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.zeros(1))

    def ask(x: Array) -> Array:
        training = module.training
        module.eval()  # dropout would be noise
        try:
            with torch.no_grad():
                answer = module(torch.as_tensor(x, dtype=first.dtype, device=first.device))
        finally:
            module.train(training)
        if not isinstance(answer, torch.Tensor):
            raise InvalidInput(
                f"The torch module returned a {type(answer).__name__}.", "One tensor with a row for every input is needed.",
                "Wrap it in a function that returns that tensor.", returned=type(answer).__name__)
        return np.asarray((answer.double() if answer.is_floating_point() else answer).cpu().numpy())

    dims = (getattr(part, "in_features", None) for part in module.modules())
    name = f"{type(module).__name__} {digest(tensor.double().cpu().numpy() for tensor in tensors)}"
    return Target(ask, name, next((int(dim) for dim in dims if dim is not None), None), region=batch_norm_region(module))


ACCEPTED_KINDS = (
    "Give a function f(x) of x (n, dim), a network, a fitted scikit-learn model, a torch module, an ONNX session, a file "
    ".onnx or .safetensors, 'module:function', or an http(s) address; for given pairs (x, y) use Samples.")


def as_target(given: Any) -> Target:
    """The black box of any of these kinds; raises InvalidInput for anything else."""
    if isinstance(given, str | PathLike):
        return _named(str(given))
    for fits, make in _KINDS:
        if fits(given):
            return make(given)
    if inspect.isclass(given) or not callable(given):
        shown = f"the class {given.__name__}" if inspect.isclass(given) else f"a {type(given).__name__}"
        raise InvalidInput(f"The black box is {shown}.", "It is called with inputs (n, dim) and returns outputs.", ACCEPTED_KINDS)
    return Target(given, _name_of(given))


def _network(network: Network) -> Target:
    arrays = (network.layer.weights, network.layer.biases, network.readout, network.offset)
    extra = () if network.linear is None else (network.linear,)
    return Target(network, f"{network.activation.name} network {digest((*arrays, *extra))}", network.dim)


def _endpoint(endpoint: Endpoint) -> Target:
    return Target(endpoint.ask, endpoint.name, batch=endpoint.batch)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Target]], ...] = (
    (lambda given: isinstance(given, Target), lambda given: given),
    (lambda given: isinstance(given, Endpoint), _endpoint),
    (lambda given: isinstance(given, Network), _network),
    (is_module, torch_module),
    (is_session, lambda given: Target(*open_session(given))),
    (is_estimator, sklearn_model),
)


def _named(text: str) -> Target:
    if "://" in text:
        return _endpoint(Endpoint(text))
    if text.lower().endswith(".onnx"):
        return Target(*open_file(Path(text)))
    if text.lower().endswith(".safetensors"):
        own = not is_state_dict(text)
        return _network(load(text)) if own else replace(_network(load_state_dict(text)), remark=STATE_DICT_REMARK)
    if text.lower().endswith((".pt", ".pth", ".pkl", ".pickle", ".joblib")):
        raise InvalidInput(
            f"{text} is a pickle.", "Whoever opens one runs the program inside of it, so laybare does not.",
            "Export the model to ONNX (torch.onnx.export), or name a function that loads and calls it: module:function.",
            target=text)
    module, _, attribute = text.partition(":")
    if not attribute or not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise InvalidInput(
            f"The black box is {redact(text)!r}.", "That is not the name of a file, function or address.", ACCEPTED_KINDS,
            target=redact(text))
    found = named_object(text)
    target = as_target(found)
    return replace(target, name=text if target.ask is found else f"{text} {target.name}")


def named_object(text: str) -> Any:
    """What "module:name" is, imported."""
    module, _, attribute = text.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module is a program of its own, and may raise anything
        do = f"Write {module.removesuffix('.py')}:{attribute}." if module.endswith(".py") else (
            "Check both, and that the module can be imported from here (PYTHONPATH).")
        raise InvalidInput(
            f"{text!r} cannot be imported: {describe_error(error)}.", "Before the colon stands a module, after it a name in it.",
            do, target=text) from (None if isinstance(error, ImportError | AttributeError) else error)
    return found


def _name_of(given: Callable[..., Any]) -> str:
    """Module and name of a function, or of the class of a callable object."""
    if isinstance(given, np.ufunc):
        return given.__name__
    named = given if inspect.isroutine(given) else type(given)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"
