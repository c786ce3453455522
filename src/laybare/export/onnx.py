"""ONNX files, both ways: a chain of Gemm and activations, and a MatMul beside it where there is a linear part.

*Writing.* An activation becomes an ONNX operator where onnxruntime computes it in the precision asked for. Where it does not
(onnxruntime 1.31 lacks LeakyRelu, Softplus, Erf and Gelu in float64), and for activations that ONNX does not know, the file
defines a function in the domain "laybare" from operators that it has; a parameter such as the slope of a leaky ReLU is its second
input, in full precision (attributes of ONNX are float32). Erf and Gelu cannot be made of others.

Graphs of others are read by `laybare.export.onnx`.

Graphs of ONNX files as chains of linear maps and activations.

Every tensor that depends on the input is followed in one of three forms: the inputs, a linear map of what lies below it, or the
chain so far. What exporters put between them is folded into the maps:

    s·z + t (Sub, Div, Mul, Add, BatchNormalization), after a map: (sW)x + sb + t; before one: (Ws)x + Wt + b
    clip(z, l, h) = l + relu(z - l) - relu(z - h): two units per unit, and the map above reads their difference
    PRelu with one slope: a leaky ReLU

Anything else is refused with the operator's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from laybare.activations import Activation, activation_named, leaky_relu, relu
from laybare.errors import InvalidInput
from laybare.export.chains import AffineMap, Chain, chain_from_network, import_optional, network_from_chain
from laybare.networks import Network
from laybare.networks.network_files import check_ending, write_atomically
from laybare.numerics.checks import check_choice, check_path
from laybare.numerics.file_borders import check_whole_file_fits, reading
from laybare.numerics.shapes import Array

DOMAIN = "laybare"
STANDARD_OPERATORS = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "absolute": "Abs", "softplus": "Softplus", "erf": "Erf", "gelu": "Gelu"}


def activation_of(node: Any, parameter: float | None) -> Activation | None:
    """The activation that a node computes, None for other nodes. `parameter` is its second input, where constant."""
    if node.domain == DOMAIN:
        return activation_named(node.op_type if parameter is None else f"{node.op_type}({parameter!r})")
    attributes = {given.name: given for given in node.attribute}
    if node.op_type == "LeakyRelu":
        return leaky_relu(attributes["alpha"].f if "alpha" in attributes else float(np.float32(0.01)))
    if node.op_type == "PRelu":
        return None if parameter is None else leaky_relu(parameter)
    if node.op_type == "Gelu" and "approximate" in attributes and attributes["approximate"].s != b"none":
        return None
    names = {operator: name for name, operator in STANDARD_OPERATORS.items()}
    return activation_named(names[node.op_type]) if node.op_type in names else None


PASS_THROUGH_OPERATORS = ("Identity", "Dropout", "Flatten", "Cast", "Reshape")
"""Operators that leave rows as they are when a model is evaluated."""


Fold = Callable[[AffineMap], AffineMap]
"""What stands before a map, made a part of it."""


class TensorPath(NamedTuple):
    """Maps and activations on the way from the input to a tensor: as many maps as activations, or one more.

    `awaits_biases`: the last map is a MatMul, and an Add may follow with biases. `folds`: what the next map takes up, the lowest
    first.
    """

    maps: tuple[AffineMap, ...] = ()
    activations: tuple[Activation, ...] = ()
    awaits_biases: bool = False
    linear: Array | None = None
    folds: tuple[Fold, ...] = ()

    @property
    def ends_in_map(self) -> bool:
        return len(self.maps) > len(self.activations)


def chain_from_model(model: Any, where: str) -> Chain:
    """The chain that the model's only input goes through to its only output."""
    graph = model.graph
    constants = _constants(graph, where)
    inputs = [given.name for given in graph.input if given.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise _refusal(where, f"{len(inputs)} inputs and {len(graph.output)} outputs", "A network has one of each.")
    paths = {inputs[0]: TensorPath()}
    for node in graph.node:
        if node.op_type == "Constant":
            continue
        known = [name for name in node.input if name in paths]
        if not known:
            raise _refusal(where, f"an operator {node.op_type} of constants alone", "Weights are read, not computed.")
        paths[node.output[0]] = _follow_node(node, [paths[name] for name in known], constants, where)
    end = paths.get(graph.output[0].name, TensorPath())
    if len(end.maps) < 2 or not end.ends_in_map:
        raise _refusal(where, f"{len(end.maps)} linear maps and {len(end.activations)} activations in a row",
                       "A network has an activation between each two linear maps, and linear outputs.")
    return Chain(end.maps, end.activations, end.linear)


def _follow_node(node: Any, paths: list[TensorPath], constants: dict[str, Array], where: str) -> TensorPath:
    """The path after one more operator."""
    path, given = paths[0], [constants[name] for name in node.input if name in constants]
    if node.op_type in PASS_THROUGH_OPERATORS and not _changes_rows(node, path, given):
        return path
    if path.linear is not None:
        raise _refusal(where, f"an operator {node.op_type} after a sum of two paths", "Outputs are linear.")
    if len(paths) == 2 and node.op_type == "Add":
        return _add_linear_path(paths[0], paths[1], where)
    if node.op_type in ("Gemm", "MatMul") and not path.ends_in_map and node.input[0] not in constants:
        following = _map(node, given, where)
        for fold in reversed(path.folds):
            following = fold(following)
        return path._replace(maps=(*path.maps, following), awaits_biases=len(given) == 1, folds=())
    if node.op_type == "Add" and path.awaits_biases and given and given[0].size in (1, len(path.maps[-1].biases)):
        biases = path.maps[-1].biases + given[0].ravel()  # what was folded into the map is there already
        return path._replace(maps=(*path.maps[:-1], path.maps[-1]._replace(biases=biases)), awaits_biases=False)
    if node.op_type == "Clip" and path.ends_in_map:
        return _clipped(path, _clip_bounds(node, constants), where)
    scaling = _scaling(node, given, constants)
    if scaling is not None and len(node.input) == len(given) + 1:
        return _scaled(path, *scaling, where)
    scalars = [float(array.flat[0]) for array in given if array.size and (array == array.flat[0]).all()]
    found = activation_of(node, scalars[0] if scalars else None) if path.ends_in_map else None
    if found is None:
        raise _refusal(where, f"an operator {node.op_type}", "It is no part of a chain of linear maps and known activations.")
    return path._replace(activations=(*path.activations, found), awaits_biases=False)


def _scaling(node: Any, given: list[Array], constants: dict[str, Array]) -> tuple[Array, Array] | None:
    """(s, t) of an operator that maps z to s·z + t, numbers or one per column; None for another."""
    rows, first = [array.ravel() for array in given], node.input[0] not in constants
    if node.op_type == "BatchNormalization" and len(rows) == 4:
        scale, bias, mean, variance = rows
        factor = scale / np.sqrt(variance + next((a.f for a in node.attribute if a.name == "epsilon"), BATCH_NORM_EPSILON))
        return factor, bias - factor * mean
    if len(rows) != 1 or max(given[0].shape, default=1) != given[0].size:
        return None
    one, none, value = np.ones(1), np.zeros(1), rows[0]
    if node.op_type == "Div":
        return (1.0 / value, none) if first else None
    known = {"Add": (one, value), "Mul": (value, none), "Sub": (one, -value) if first else (-one, value)}
    return known.get(node.op_type)


BATCH_NORM_EPSILON = 1e-5
"""Convention: ONNX's default."""


def _scaled(path: TensorPath, scale: Array, shift: Array, where: str) -> TensorPath:
    """The path with s·z + t: a part of the map below, or of the map above."""
    if not path.ends_in_map:
        return path._replace(folds=(*path.folds, partial(_fold_scaling, scale, shift, where)))
    weights, biases = path.maps[-1]
    if any(part.size not in (1, len(weights)) for part in (scale, shift)):
        raise _refusal(where, f"{max(scale.size, shift.size)} scales for {len(weights)} units", "Every unit has one.")
    scaled = AffineMap(np.broadcast_to(scale, len(weights))[:, None] * weights, scale * biases + shift)
    return path._replace(maps=(*path.maps[:-1], scaled), awaits_biases=False)


def _fold_scaling(scale: Array, shift: Array, where: str, above: AffineMap) -> AffineMap:
    dim = above.weights.shape[1]
    if any(part.size not in (1, dim) for part in (scale, shift)):
        raise _refusal(where, f"{max(scale.size, shift.size)} scales for {dim} inputs", "Every input has one.")
    return AffineMap(above.weights * scale, above.biases + above.weights @ np.broadcast_to(shift, dim))


def _clip_bounds(node: Any, constants: dict[str, Array]) -> tuple[float, float]:
    """Lower and upper bound: attributes in old files, inputs in new ones; infinite where there is none."""
    old = {a.name: a.f for a in node.attribute}
    new = [constants[name].item() if name in constants and constants[name].size == 1 else None for name in node.input[1:]]
    low, high = [*new, None, None][:2]
    return (float(old.get("min", -np.inf) if low is None else low), float(old.get("max", np.inf) if high is None else high))


def _clipped(path: TensorPath, bounds: tuple[float, float], where: str) -> TensorPath:
    """l + relu(z - l) - relu(z - h), with the bounds that are finite."""
    low = bounds[0]
    if not np.isfinite(low):
        raise _refusal(where, "an operator Clip without a lower bound", "It is no part of a chain of linear maps and known "
                       "activations.")
    (weights, biases), ends = path.maps[-1], [bound for bound in bounds if np.isfinite(bound)]
    doubled = AffineMap(np.vstack([weights] * len(ends)), np.concatenate([biases - end for end in ends]))

    def fold(above: AffineMap) -> AffineMap:
        both = [above.weights, -above.weights][: len(ends)]
        return AffineMap(np.hstack(both), above.biases + low * above.weights.sum(axis=1))

    return path._replace(
        maps=(*path.maps[:-1], doubled), activations=(*path.activations, relu), awaits_biases=False, folds=(fold,))


def _add_linear_path(one: TensorPath, other: TensorPath, where: str) -> TensorPath:
    """The sum of a chain and a linear map of the inputs without biases."""
    units, straight = (one, other) if len(one.maps) > 1 else (other, one)
    linear = len(straight.maps) == 1 and not straight.activations and straight.awaits_biases
    if len(units.maps) < 2 or not units.ends_in_map or not linear:
        raise _refusal(where, "a sum of two paths", "Only a linear map of the inputs can stand beside the units.")
    return units._replace(linear=straight.maps[0].weights.T)


def _map(node: Any, given: list[Array], where: str) -> AffineMap:
    """W and b of a Gemm or a MatMul whose first input is the path."""
    attributes = {a.name: a for a in node.attribute}
    plain = all(attributes[name].f == 1.0 for name in ("alpha", "beta") if name in attributes)
    turned = "transB" in attributes and attributes["transB"].i == 1
    if not given or given[0].ndim != 2 or not plain or ("transA" in attributes and attributes["transA"].i):
        raise _refusal(where, f"an operator {node.op_type} with other inputs or factors than weights and biases",
                       "A layer is x Wᵀ + b.")
    weights = given[0] if turned else given[0].T
    if len(given) > 1 and given[1].size not in (1, len(weights)):
        raise _refusal(where, f"{given[1].size} biases for {len(weights)} units", "Every unit has one bias.")
    biases = np.zeros(len(weights)) if len(given) == 1 else np.broadcast_to(given[1].ravel(), len(weights))
    return AffineMap(weights, biases)


def _changes_rows(node: Any, path: TensorPath, given: list[Array]) -> bool:
    """Whether a Cast leaves the floats, a Flatten another axis than the first, a Reshape anything but rows of the same length."""
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "Cast":
        return bool(attributes["to"] not in (1, 11))  # float32, float64
    if node.op_type == "Reshape":
        rows = len(given) == 1 and given[0].size == 2
        return not (rows and (not path.maps or given[0].tolist()[1] in (-1, len(path.maps[-1].weights))))
    return bool(node.op_type == "Flatten" and attributes.get("axis", 1) != 1)


def _constants(graph: Any, where: str) -> dict[str, Array]:
    """Initialisers and Constant nodes in float64; a file never points outside of itself."""
    from onnx import numpy_helper

    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t) for node in graph.node if node.op_type == "Constant" for attribute in node.attribute
        if attribute.name == "value"]
    for name, tensor in tensors:
        if tensor.data_location == 1:
            raise _refusal(where, f"weights {name} in another file", "Only this file is read.")
    try:
        return {name: np.asarray(numpy_helper.to_array(tensor), dtype=np.float64) for name, tensor in tensors}
    except (ValueError, TypeError) as error:
        raise _refusal(where, f"weights that are no numbers ({error})", "A network is made of numbers.") from None


def _refusal(where: str, seen: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{where} has {seen}.", why, "Query it instead: Oracle(target) takes any ONNX file.", part=seen)


OPSET = 17
"""Convention: of ONNX, for all operators but Gelu."""
OPSET_WITH_GELU = 20
"""Convention: of ONNX, the first with Gelu."""
IR_VERSION = 9
"""Convention: of ONNX; functions need 8, the opset of Gelu 9."""

ONLY_FLOAT32 = ("softplus", "erf", "gelu")
"""Standard operators that onnxruntime has in float32 alone."""


class Operator(NamedTuple):
    """The operator of a node, its domain, and the parameter that is its second input, if any."""

    name: str
    domain: str = ""
    parameter: float | None = None


def operator_of(activation: Activation, dtype: str) -> Operator:
    """The operator of an activation in float64 or float32; refused by name where there is none."""
    name, _, parameter = activation.name.rstrip(")").partition("(")
    if name in STANDARD_OPERATORS and not (dtype == "float64" and name in ONLY_FLOAT32):
        return Operator(STANDARD_OPERATORS[name])
    if name in FUNCTION_BODIES:
        return Operator(name, DOMAIN, float(parameter) if parameter else None)
    if name in STANDARD_OPERATORS:
        raise InvalidInput(
            f"The network has {name} units.", f"onnxruntime has no operator {STANDARD_OPERATORS[name]} in float64.",
            'Write it with dtype="float32", or save it with network.save.', operator=STANDARD_OPERATORS[name])
    raise InvalidInput(
        f"The network has {activation.name} units.", "ONNX has no operator for it.",
        "Save its arrays, and keep the activation in your program.", activation=activation.name)


def function_of(operator: Operator, dtype: str) -> Any:
    """The function of the domain "laybare" that defines an operator."""
    from onnx import helper, numpy_helper

    kind = np.dtype(dtype)
    nodes: list[Any] = []

    def constant(name: str, value: float) -> str:
        nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype=kind))))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    FUNCTION_BODIES[operator.name](node, constant, helper.np_dtype_to_tensor_dtype(kind))
    inputs = ["t"] if operator.parameter is None else ["t", "number"]
    return helper.make_function(DOMAIN, operator.name, inputs, ["y"], nodes, [helper.make_opsetid("", OPSET)])


def _leaky(node: Any, constant: Any, kind: int) -> None:
    on = node("Greater", ["t", constant("zero", 0.0)], "on")
    node("Where", [on, "t", node("Mul", ["number", "t"], "below")], "y")


def _softplus(node: Any, constant: Any, kind: int) -> None:
    """t₊ + log(1 + exp(-|t|))."""
    small = node("Exp", [node("Neg", [node("Abs", ["t"], "size")], "minus")], "small")
    rest = node("Log", [node("Add", [small, constant("one", 1.0)], "more")], "rest")
    node("Add", [node("Relu", ["t"], "positive"), rest], "y")


def _step(node: Any, constant: Any, kind: int) -> None:
    node("Cast", [node("Greater", ["t", constant("zero", 0.0)], "on")], "y", to=kind)


def _power(node: Any, constant: Any, kind: int) -> None:
    node("Pow", [node("Relu", ["t"], "positive"), "number"], "y")


def _exponential(node: Any, constant: Any, kind: int) -> None:
    node("Exp", [node("Mul", ["number", "t"], "grown")], "y")


FUNCTION_BODIES: dict[str, Callable[[Any, Any, int], None]] = {
    "leaky_relu": _leaky, "softplus": _softplus, "step": _step, "power_relu": _power, "exponential": _exponential}


INPUT, OUTPUT = "x", "y"


def to_onnx(network: Network, path: str | os.PathLike[str], dtype: Literal["float64", "float32"] = "float64") -> None:
    """Write an ONNX file whose input x (n, dim) gives y (n, outputs).

    In float64 every weight keeps its bits and `from_onnx` gives the network back. Erf and Gelu are refused in float64:
    onnxruntime has no such operators; other activations that it lacks are written as functions of those that it has.
    """
    import_optional("onnx", "to write an ONNX file")
    check_choice("dtype", dtype, ("float64", "float32"))
    write_atomically(check_ending(path, ".onnx"), _model(chain_from_network(network), dtype).SerializeToString())


def from_onnx(path: str | os.PathLike[str]) -> Network:
    """The network in an ONNX file: linear maps (Gemm, or MatMul and Add) with activations between them, in float64.

    Operators that only change the form of the rows (Identity, Dropout, Flatten, Cast between float types) are passed over.
    Scales and shifts of the inputs or of units (Sub, Div, Mul, Add, BatchNormalization) become part of the map beside them, and
    Clip becomes two ReLU units per unit. Anything else is refused by name. Weights outside of the file are not fetched.
    """
    onnx, place = import_optional("onnx", "to read an ONNX file"), check_path("path", path)
    check_whole_file_fits(place)
    with reading(place, "ONNX file of a network", "Export the model again."):
        model = onnx.load_model_from_string(place.read_bytes())
        return network_from_chain(chain_from_model(model, str(place)))


def _model(chain: Chain, dtype: str) -> Any:
    from onnx import helper

    operators = [operator_of(activation, dtype) for activation in chain.activations]
    own = {operator.name: operator for operator in operators if operator.domain == DOMAIN}
    opset = OPSET_WITH_GELU if any(operator.name == "Gelu" for operator in operators) else OPSET
    versions = [helper.make_opsetid("", opset)] + [helper.make_opsetid(DOMAIN, 1)] * bool(own)
    return helper.make_model(
        _graph(chain, operators, dtype), producer_name="laybare", opset_imports=versions, ir_version=IR_VERSION,
        functions=[function_of(operator, dtype) for operator in own.values()])


def _graph(chain: Chain, operators: list[Operator], dtype: str) -> Any:
    from onnx import helper, numpy_helper

    kind = np.dtype(dtype)
    arrays = {f"weights.{i}": given.weights for i, given in enumerate(chain.maps)}
    arrays |= {f"biases.{i}": given.biases for i, given in enumerate(chain.maps)}
    arrays |= {f"number.{i}": np.array(op.parameter) for i, op in enumerate(operators) if op.parameter is not None}
    nodes, current = [], INPUT
    for i in range(len(chain.maps)):
        last = i == len(operators)
        name = "units" if last and chain.linear is not None else OUTPUT if last else f"before.{i}"
        nodes.append(helper.make_node("Gemm", [current, f"weights.{i}", f"biases.{i}"], [name], transB=1))
        if not last:
            number = [f"number.{i}"] if f"number.{i}" in arrays else []
            nodes.append(helper.make_node(operators[i].name, [name, *number], [f"after.{i}"], domain=operators[i].domain))
            current = f"after.{i}"
    if chain.linear is not None:
        arrays["linear"] = chain.linear
        nodes.append(helper.make_node("MatMul", [INPUT, "linear"], ["beside"]))
        nodes.append(helper.make_node("Add", ["units", "beside"], [OUTPUT]))
    held = [numpy_helper.from_array(np.asarray(array, dtype=kind, order="C"), name) for name, array in arrays.items()]
    form = helper.np_dtype_to_tensor_dtype(kind)
    ends = [
        helper.make_tensor_value_info(name, form, ["n", size])
        for name, size in ((INPUT, chain.maps[0].weights.shape[1]), (OUTPUT, len(chain.maps[-1].biases)))]
    return helper.make_graph(nodes, "network", ends[:1], ends[1:], held)
