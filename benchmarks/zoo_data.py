"""The data of the benchmark of real networks: what a folder holds, and the black boxes that are made of it.

A folder has for every network NAME.npz with W0, b0, W1, b1, ... (float64), which computes

    y = W_L relu(... relu(W0 x + b0) ...) + b_L

before any softmax or sigmoid, and manifest.json, an object from NAME to

    origin       where it was published (address, revision)
    what         one line: what it is for
    licence      as far as it is stated
    final        "none", "softmax" or "sigmoid": what its own runtime puts on top
    float32      whether its own arithmetic is float32
    low, high    the domain of its inputs: numbers, or a list with one for every input

onnx/NAME.onnx is the file as it was published, where there is one: its own runtime. Where onnxruntime does not open it, its
weights are read by `lb.from_onnx` and computed by NumPy in the precision of the file, and the row says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

import laybare as lb
from laybare.errors import InvalidInput
from laybare.source import Target, as_target

Array = np.ndarray
FORMS = ("float64", "runtime")


@dataclass(frozen=True)
class RealNetwork:
    """One network: its weights, its manifest, and its published file if there is one."""

    name: str
    truth: lb.Network
    about: dict[str, Any]
    onnx: Path | None

    @property
    def shape(self) -> str:
        return "-".join(map(str, (self.truth.dim, *self.truth.widths, self.truth.outputs)))

    @property
    def forms(self) -> tuple[str, ...]:
        """In float64, and in its own runtime where that is something else."""
        other = self.onnx is not None or self.about["float32"] or self.about["final"] != "none"
        return FORMS if other else FORMS[:1]

    def draw(self, rng: Generator, n: int) -> Array:
        """Inputs, uniform in the domain."""
        low, high = (np.broadcast_to(np.asarray(self.about[end], dtype=float), self.truth.dim) for end in ("low", "high"))
        return np.asarray(rng.uniform(low, high, (n, self.truth.dim)))

    def outputs(self, form: str, x: Array) -> Array:
        """What a reader of this form should find: outputs, or log-odds of every class against the first."""
        y = np.asarray(self.truth(x)).reshape(len(x), -1)
        return y[:, 1:] - y[:, :1] if form == "runtime" and self.about["final"] == "softmax" else y

    def target(self, form: str) -> Target:
        """What is asked."""
        return as_target(self.truth) if form == "float64" else self._own_runtime[0]

    @property
    def runtime(self) -> str:
        """What its own runtime is, where it is not the usual one."""
        return self._own_runtime[1]

    @cached_property
    def _own_runtime(self) -> tuple[Target, str]:
        """onnxruntime with the published file; where it does not open the file, its weights as laybare reads them."""
        if self.onnx is None:
            return as_target(partial(self._in_own_precision, self.truth)), ""
        try:
            return as_target(str(self.onnx)), ""
        except InvalidInput:
            return as_target(partial(self._in_own_precision, lb.from_onnx(self.onnx))), "lb.from_onnx, NumPy"

    def _in_own_precision(self, network: lb.Network, x: Array) -> Array:
        kind = np.float32 if self.about["float32"] else np.float64
        h = np.asarray(x, dtype=kind)
        for layer in network.layers:
            h = np.maximum(h @ layer.weights.T.astype(kind) + layer.biases.astype(kind), kind(0.0))
        y = h @ network.readout.reshape(len(h.T), -1).astype(kind) + np.ravel(network.offset).astype(kind)
        return _on_top(y, self.about["final"])


def _on_top(y: Array, final: str) -> Array:
    if final == "sigmoid":
        return np.asarray(1.0 / (1.0 + np.exp(-y)))
    if final == "softmax":
        p = np.exp(y - y.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))
    return y


def networks_in(folder: Path) -> list[RealNetwork]:
    """All networks of the manifest, the smallest first."""
    manifest = json.loads((folder / "manifest.json").read_text())
    found = [_opened(folder, name, about) for name, about in manifest.items()]
    return sorted(found, key=lambda one: sum(layer.rows.size for layer in one.truth.layers))


def _opened(folder: Path, name: str, about: dict[str, Any]) -> RealNetwork:
    with np.load(folder / f"{name}.npz") as held:
        count = sum(key.startswith("W") for key in held.files)
        parts = [(np.asarray(held[f"W{i}"], dtype=float), np.asarray(held[f"b{i}"], dtype=float).ravel()) for i in range(count)]
    *hidden, (last, offset) = parts
    layers = [lb.Layer(weights, biases, lb.relu) for weights, biases in hidden]
    truth = lb.Network(layers, last[0], float(offset[0])) if len(last) == 1 else lb.Network(layers, last.T, offset)
    onnx = folder / "onnx" / f"{name}.onnx"
    return RealNetwork(name, truth, about, onnx if onnx.is_file() else None)
