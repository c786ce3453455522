"""Activations as ONNX operators.

Where ONNX has the operator and onnxruntime computes it in the precision asked for, that operator is used. Where it does not
(onnxruntime 1.31 lacks LeakyRelu, Softplus, Erf and Gelu in float64), and for activations that ONNX does not know, the file
defines a function of its own in the domain "laybare", made of operators that it has; a number such as the slope of a leaky ReLU
is its second input, in full precision (attributes of ONNX are float32). Erf and Gelu cannot be made of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from laybare.activations import (
    Activation,
    absolute,
    activation_named,
    erf,
    gelu,
    leaky_relu,
    relu,
    sigmoid,
    softplus,
    step,
    tanh,
)
from laybare.errors import InvalidInput

DOMAIN = "laybare"
OPSET, OPSET_WITH_GELU = 17, 20
IR_VERSION = 9
"""Functions need 8, Gelu's opset 9."""

STANDARD = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "absolute": "Abs", "softplus": "Softplus", "erf": "Erf",
            "gelu": "Gelu"}
ONLY_FLOAT32 = ("softplus", "erf", "gelu")
"""Standard operators that onnxruntime has in float32 alone."""


class Operator(NamedTuple):
    """What a node says: operator, domain, and the number that is its second input, if any."""

    name: str
    domain: str = ""
    number: float | None = None


def operator_of(activation: Activation, dtype: str) -> Operator:
    """The operator of an activation in float64 or float32; refused by name where there is none."""
    name, _, inside = activation.name.rstrip(")").partition("(")
    if name in STANDARD and not (dtype == "float64" and name in ONLY_FLOAT32):
        return Operator(STANDARD[name])
    if name in BODIES:
        return Operator(name, DOMAIN, float(inside) if inside else None)
    if name in STANDARD:
        raise InvalidInput(
            f"The network has {name} units.", f"onnxruntime has no operator {STANDARD[name]} in float64.",
            'Write it with dtype="float32", or save it with network.save.', operator=STANDARD[name])
    raise InvalidInput(
        f"The network has {activation.name} units.", "ONNX has no operator for it.",
        "Save its arrays, and keep the activation in your program.", activation=activation.name)


def activation_of(node: Any, number: float | None) -> Activation | None:
    """The activation that a node computes, None if it computes something else. `number` is its second input, where constant."""
    if node.domain == DOMAIN:
        return activation_named(node.op_type if number is None else f"{node.op_type}({number!r})")
    attributes = {given.name: given for given in node.attribute}
    if node.op_type == "LeakyRelu":
        return leaky_relu(attributes["alpha"].f if "alpha" in attributes else float(np.float32(0.01)))
    if node.op_type == "Gelu" and "approximate" in attributes and attributes["approximate"].s != b"none":
        return None
    names = {operator: name for name, operator in STANDARD.items()}
    return PLAIN[names[node.op_type]] if node.op_type in names else None


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

    BODIES[operator.name](node, constant, helper.np_dtype_to_tensor_dtype(kind))
    inputs = ["t"] if operator.number is None else ["t", "number"]
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


BODIES: dict[str, Callable[[Any, Any, int], None]] = {
    "leaky_relu": _leaky, "softplus": _softplus, "step": _step, "power_relu": _power, "exponential": _exponential}
PLAIN = {activation.name: activation for activation in (relu, sigmoid, tanh, absolute, softplus, erf, gelu, step)}
