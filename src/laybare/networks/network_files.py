"""Networks as files: arrays and a short description that names the activations, never code.

One hidden layer: weights, biases, readout, offset, and linear where there is one (format "network"). Several: weights.0,
weights.1, … and biases.0, … from the lowest up (format "deep network", which older versions refuse by name).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from laybare.activations import activation_named
from laybare.errors import InvalidInput
from laybare.networks.network import Layer, Network
from laybare.networks.storage import Contents, read_contents, write_contents
from laybare.numerics.shapes import Array

FORMAT, DEEP, VERSION = "network", "deep network", 1
"""Marks of a file. Convention: the version changes when an old reader would misread it."""


def save(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a safetensors file: complete or not at all, float64 bit for bit."""
    write_contents(path, contents_of(network))


def load(path: str | os.PathLike[str]) -> Network:
    """The network that `network.save(path)` wrote. Anything else is refused with the reason; nothing in a file is ever run."""
    return network_in(read_contents(path), os.fspath(path))


def contents_of(network: Network) -> Contents:
    """The network as named arrays and a description."""
    names = check_storable(network)
    linear = {} if network.linear is None else {"linear": network.linear}
    arrays = {"readout": network.readout, "offset": np.asarray(network.offset)} | linear
    outputs = None if network.readout.ndim == 1 else network.outputs
    for number, layer in enumerate(network.layers):
        ending = "" if network.depth == 1 else f".{number}"
        arrays |= {f"weights{ending}": layer.weights, f"biases{ending}": np.asarray(layer.biases)}
    if network.depth == 1:
        return Contents(arrays, {"format": FORMAT, "version": VERSION, "activation": names[0], "outputs": outputs})
    return Contents(arrays, {"format": DEEP, "version": VERSION, "activations": names, "outputs": outputs})


def network_in(contents: Contents, path: str) -> Network:
    """The network that `contents_of` described, or a sentence about what is wrong with the file at `path`."""
    arrays, description = contents
    where = f"{path} does not hold a network that this version can read"
    deep = description.get("format") == DEEP
    for key, wanted in (("format", DEEP if deep else FORMAT), ("version", VERSION)):
        _expect(where, key, description.get(key), wanted)
    naming = "activations" if deep else "activation"
    _expect(where, "description", sorted(description), sorted([naming, "format", "outputs", "version"]))
    names = description[naming] if deep else [description[naming]]
    _expect(where, "kind of activations", type(names).__name__, "list")
    _expect(where, "more than one activation", len(names) > 1, deep)
    endings = [f".{number}" for number in range(len(names))] if deep else [""]
    _check_arrays(where, arrays, endings, description["outputs"])
    try:
        layers = [
            Layer(arrays[f"weights{ending}"], arrays[f"biases{ending}"], activation_named(str(name)))
            for ending, name in zip(endings, names, strict=True)]
        return Network(layers, arrays["readout"], arrays["offset"], arrays.get("linear"))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.seen}", error.why, error.do, **error.values) from None


def check_storable(network: Network) -> list[str]:
    """The names of the activations; refused if one of them, or a black box above the layers, is a program."""
    if network.top is not None:
        raise InvalidInput(
            f"The network {network.architecture} ends in a black box.", "A file holds numbers and names, no code.",
            "Save its layers: Network(network.layers, readout).save(path) with any readout, and keep the black box.")
    for layer in network.layers:
        _check_builtin(layer)
    return [layer.activation.name for layer in network.layers]


def _check_builtin(layer: Layer) -> None:
    try:
        builtin = activation_named(layer.activation.name) == layer.activation
    except InvalidInput:
        builtin = False
    if not builtin:
        raise InvalidInput(
            f"The activation {layer.activation.name} is not built in.", "A file holds numbers and names, no code.",
            "Save the arrays weights, biases, readout and offset, and keep the activation in your program.")


def _check_arrays(where: str, arrays: dict[str, Array], endings: list[str], outputs: Any) -> None:
    """Names and shapes: each layer as wide as its biases, and as deep in inputs as the one below is wide."""
    hidden = [part + ending for part in ("biases", "weights") for ending in endings]
    _expect(where, "arrays", sorted({*arrays} - {"linear"}), sorted([*hidden, "offset", "readout"]))
    for ending in endings:
        _expect(where, f"number of dimensions of weights{ending}", arrays[f"weights{ending}"].ndim, 2)
    below = dim = arrays[f"weights{endings[0]}"].shape[1]
    for ending in endings:
        width = arrays[f"weights{ending}"].shape[0]
        _expect(where, f"shape of weights{ending}", arrays[f"weights{ending}"].shape, (width, below))
        _expect(where, f"shape of biases{ending}", arrays[f"biases{ending}"].shape, (width,))
        below = width
    tail = () if outputs is None else (outputs,)
    for name, shape in (("readout", (below, *tail)), ("offset", tail), ("linear", (dim, *tail))):
        if name in arrays:
            _expect(where, f"shape of {name}", arrays[name].shape, shape)


def _expect(where: str, what: str, found: Any, wanted: Any) -> None:
    if found != wanted or type(found) is not type(wanted):
        raise InvalidInput(
            f"{where}: {what} {found!r} instead of {wanted!r}.", "It may come from a newer laybare, or from another hand.",
            "Update laybare, or write the file again with network.save(path).", found=found, wanted=wanted)
