"""ONNX files, both ways: a chain of Gemm and activations, and a MatMul beside it where there is a linear part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from laybare.errors import InvalidInput
from laybare.export.chains import Chain, chain_of, extra, network_from
from laybare.export.onnx_operators import (
    DOMAIN,
    IR_VERSION,
    OPSET,
    OPSET_WITH_GELU,
    Operator,
    function_of,
    operator_of,
)
from laybare.export.onnx_reader import chain_in
from laybare.networks import Network
from laybare.networks.storage import put

INPUT, OUTPUT = "x", "y"


def to_onnx(network: Network, path: str | os.PathLike[str], dtype: Literal["float64", "float32"] = "float64") -> None:
    """Write an ONNX file whose input x (n, dim) gives y (n, outputs).

    In float64 every weight keeps its bits and `from_onnx` gives the network back. Erf and Gelu are refused in float64:
    onnxruntime has no such operators; other activations that it lacks are written as functions of those that it has
    (`laybare.export.onnx_operators`).
    """
    extra("onnx", "to write an ONNX file")
    put(path, _model(chain_of(network), dtype).SerializeToString())


def from_onnx(path: str | os.PathLike[str]) -> Network:
    """The network in an ONNX file: linear maps (Gemm, or MatMul and Add) with activations between them, in float64.

    Operators that only change the form of the rows (Identity, Dropout, Flatten, Cast between float types) are passed over;
    anything else is refused by name. Weights outside of the file are not fetched.
    """
    onnx = extra("onnx", "to read an ONNX file")
    try:
        model = onnx.load_model_from_string(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read ({error.strerror or error}).", "Nothing was loaded.", "Check the path.") from None
    except Exception as error:  # protobuf's DecodeError, whose module differs from version to version
        raise InvalidInput(
            f"{path} is no ONNX file ({error}).", "It was cut short, damaged, or is another kind of file.",
            "Export the model again.") from None
    return network_from(chain_in(model, os.fspath(path)))


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
    arrays |= {f"number.{i}": np.array(op.number) for i, op in enumerate(operators) if op.number is not None}
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
