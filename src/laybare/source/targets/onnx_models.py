"""ONNX files and sessions (extra [onnx])."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.targets.target import Target

PRECISIONS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


def is_session(given: Any) -> bool:
    """Whether it behaves as an inference session of onnxruntime does."""
    return all(callable(getattr(given, name, None)) for name in ("run", "get_inputs", "get_outputs"))


def onnx_file(path: Path) -> Target:
    """A model on disk, run by onnxruntime on the CPU."""
    if not path.is_file():
        raise InvalidInput(f"{path} does not exist.", "There is no model to ask.", "Check the path.", path=str(path))
    try:
        import onnxruntime
    except ImportError:
        raise InvalidInput(
            f"{path} is an ONNX model, and onnxruntime is not installed.", "It runs such models.",
            "pip install 'laybare[onnx]'.", path=str(path)) from None
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's own exceptions have no common public base
        raise InvalidInput(
            f"{path} cannot be loaded ({str(error).splitlines()[0]}).", "It is damaged or no ONNX model.", "Export it again.",
            path=str(path)) from None
    return onnx_session(session, f"{path.name} {blake2b(path.read_bytes(), digest_size=8).hexdigest()}")


def onnx_session(session: Any, name: str | None = None) -> Target:
    """A session with one input (n, dim); of several outputs the last with real numbers (after a label come probabilities)."""
    inputs = session.get_inputs()
    outputs = [output for output in session.get_outputs() if output.type in PRECISIONS]
    if len(inputs) != 1 or inputs[0].type not in PRECISIONS or not outputs:
        shown = ", ".join(f"{part.name}: {part.type}" for part in (*inputs, *session.get_outputs()))
        raise InvalidInput(
            f"The ONNX model has {shown}.", "One input and at least one output of real numbers are needed.",
            "Export it with one tensor of inputs and without maps of labels (zipmap=False).")
    told, answer, precision = inputs[0].name, outputs[-1].name, PRECISIONS[inputs[0].type]
    shape = list(inputs[0].shape)

    def ask(x: Array) -> Array:
        return np.asarray(session.run([answer], {told: x.astype(precision)})[0])

    whole = [size if isinstance(size, int) else None for size in shape]
    return Target(ask, name or f"ONNX session {told} -> {answer}", whole[-1] if len(whole) == 2 else None, whole[0])
