"""A chain of affine maps and activations out of an ONNX graph.

Every tensor of the graph that depends on the input is followed in one of three forms: the inputs themselves, a linear map of
what lies below it, or the chain so far. What is not such a chain is refused with the operator's name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.export.chains import Chain, Map
from laybare.export.onnx_operators import activation_of
from laybare.shapes import Array

IDLE = ("Identity", "Dropout", "Flatten", "Cast", "Reshape")
"""Operators that leave rows of numbers as they are when a model is evaluated."""


class Path(NamedTuple):
    """Maps and activations on the way from the input to a tensor: as many maps as activations, or one more.

    `open` says that the last map has no biases yet (a MatMul), which an Add may still bring.
    """

    maps: tuple[Map, ...] = ()
    activations: tuple[Activation, ...] = ()
    open: bool = False
    linear: Array | None = None

    @property
    def ends_in_map(self) -> bool:
        return len(self.maps) > len(self.activations)


def chain_in(model: Any, where: str) -> Chain:
    """The chain that the model's only input goes through to its only output."""
    graph = model.graph
    constants = _constants(graph, where)
    inputs = [given.name for given in graph.input if given.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise _refusal(where, f"{len(inputs)} inputs and {len(graph.output)} outputs", "A network has one of each.")
    paths = {inputs[0]: Path()}
    for node in graph.node:
        if node.op_type == "Constant":
            continue
        known = [name for name in node.input if name in paths]
        if not known:
            raise _refusal(where, f"an operator {node.op_type} of constants alone", "Weights are read, not computed.")
        paths[node.output[0]] = _followed(node, [paths[name] for name in known], constants, where)
    end = paths.get(graph.output[0].name, Path())
    if len(end.maps) < 2 or not end.ends_in_map:
        raise _refusal(where, f"{len(end.maps)} linear maps and {len(end.activations)} activations in a row",
                       "A network has an activation between each two linear maps, and linear outputs.")
    return Chain(end.maps, end.activations, end.linear)


def _followed(node: Any, paths: list[Path], constants: dict[str, Array], where: str) -> Path:
    """The path after one more operator."""
    path, given = paths[0], [constants[name] for name in node.input if name in constants]
    if node.op_type in IDLE and not _changes(node, path, given):
        return path
    if path.linear is not None:
        raise _refusal(where, f"an operator {node.op_type} after a sum of two paths", "Outputs are linear.")
    if len(paths) == 2 and node.op_type == "Add":
        return _beside(paths[0], paths[1], where)
    if node.op_type in ("Gemm", "MatMul") and not path.ends_in_map and node.input[0] not in constants:
        return path._replace(maps=(*path.maps, _map(node, given, where)), open=len(given) == 1)
    if node.op_type == "Add" and path.open and given and given[0].size in (1, len(path.maps[-1].biases)):
        biases = np.broadcast_to(given[0].ravel(), path.maps[-1].biases.shape)
        return path._replace(maps=(*path.maps[:-1], path.maps[-1]._replace(biases=biases)), open=False)
    numbers = [float(array.item()) for array in given if array.size == 1]
    found = activation_of(node, numbers[0] if numbers else None) if path.ends_in_map else None
    if found is None:
        raise _refusal(where, f"an operator {node.op_type}", "It is no part of a chain of linear maps and known activations.")
    return path._replace(activations=(*path.activations, found), open=False)


def _beside(one: Path, other: Path, where: str) -> Path:
    """The sum of a chain and a linear map of the inputs without biases."""
    units, straight = (one, other) if len(one.maps) > 1 else (other, one)
    if len(units.maps) < 2 or not units.ends_in_map or len(straight.maps) != 1 or straight.activations or not straight.open:
        raise _refusal(where, "a sum of two paths", "Only a linear map of the inputs can stand beside the units.")
    return units._replace(linear=straight.maps[0].weights.T)


def _map(node: Any, given: list[Array], where: str) -> Map:
    """W and b of a Gemm or a MatMul whose first input is the path."""
    attributes = {a.name: a for a in node.attribute}
    plain = all(attributes[name].f == 1.0 for name in ("alpha", "beta") if name in attributes)
    turned = "transB" in attributes and attributes["transB"].i == 1
    if not given or given[0].ndim != 2 or not plain or ("transA" in attributes and attributes["transA"].i):
        raise _refusal(where, f"an operator {node.op_type} with other inputs or factors than weights and biases",
                       "A layer is x Wᵀ + b.")
    weights = given[0] if turned else given[0].T
    biases = np.zeros(len(weights)) if len(given) == 1 else np.broadcast_to(given[1].ravel(), len(weights))
    return Map(weights, biases)


def _changes(node: Any, path: Path, given: list[Array]) -> bool:
    """Whether a Cast leaves the floats, a Flatten another axis than the first, a Reshape anything but rows of the same length."""
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "Cast":
        return bool(attributes["to"] not in (1, 11))  # float32, float64
    if node.op_type == "Reshape":
        return not (path.maps and len(given) == 1 and given[0].tolist() == [-1, len(path.maps[-1].weights)])
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
