"""ONNX files, both ways: a chain of Gemm and activations, and a MatMul beside it where there is a linear part.

*Writing.* An activation becomes an ONNX operator where onnxruntime computes it in the precision asked for. Where it does not
(onnxruntime 1.31 lacks LeakyRelu, Softplus, Erf and Gelu in float64), and for activations that ONNX does not know, the file
defines a function in the domain "laybare" from operators that it has; a parameter such as the slope of a leaky ReLU is its second
input, in full precision (attributes of ONNX are float32). Erf and Gelu cannot be made of others.

Graphs of others are read by `laybare.export.onnx_graphs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.export.chains import Chain, chain_from_network, import_optional, network_from_chain
from laybare.export.onnx_graphs import DOMAIN, STANDARD_OPERATORS, chain_from_model
from laybare.networks import Network
from laybare.networks.storage import check_ending, write_atomically
from laybare.numerics.checks import check_choice, check_path
from laybare.numerics.file_borders import check_whole_file_fits, reading

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
