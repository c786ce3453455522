"""JSON text: layers from the lowest up, every number in the shortest form that reads back to the same bits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from laybare.activations import activation_named
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.networks.files import FORMAT, VERSION, check_storable
from laybare.networks.storage import put
from laybare.shapes import Array


def to_json(network: Network, path: str | os.PathLike[str] | None = None) -> str:
    """The network as JSON text; written to `path` too if there is one.

    {"format": "network", "version": 1, "dim": d, "outputs": m or null, "layers": [{"activation", "weights", "biases"}, …],
    "readout", "offset", "linear"}; outputs null means one output given as a vector, linear null that there is no linear part.
    """
    names = check_storable(network)
    layers = [
        {"activation": name, "weights": layer.weights.tolist(), "biases": np.asarray(layer.biases).tolist()}
        for name, layer in zip(names, network.layers, strict=True)]
    text = json.dumps({
        "format": FORMAT, "version": VERSION, "dim": network.dim,
        "outputs": None if network.readout.ndim == 1 else network.outputs, "layers": layers,
        "readout": network.readout.tolist(), "offset": np.asarray(network.offset).tolist(),
        "linear": None if network.linear is None else network.linear.tolist()})
    if path is not None:
        put(path, text.encode())
    return text


def from_json(source: str | os.PathLike[str]) -> Network:
    """The network in JSON text of `to_json` (text that starts with a brace), or in a file of it (anything else: a path)."""
    text, where = _text(source)
    try:
        held = json.loads(text)
        if (held["format"], held["version"]) != (FORMAT, VERSION):
            raise InvalidInput(
                f"{where} holds format {held['format']!r}, version {held['version']!r}.",
                f"This version reads {FORMAT!r}, {VERSION}.", "Update laybare, or write it again with to_json.")
        return _network(held)
    except InvalidInput:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidInput(
            f"{where} does not hold a network ({type(error).__name__}: {error}).",
            "It was cut short, or comes from another hand.", "Write it again with to_json.") from None


def _network(held: dict[str, Any]) -> Network:
    below, layers = int(held["dim"]), []
    for layer in held["layers"]:
        biases = np.array(layer["biases"], dtype=float)
        layers.append(Layer(_array(layer["weights"], len(biases), below), biases, activation_named(str(layer["activation"]))))
        below = len(biases)
    tail = () if held["outputs"] is None else (int(held["outputs"]),)
    linear = held["linear"]
    return Network(
        layers, _array(held["readout"], below, *tail), _array(held["offset"], *tail),
        None if linear is None else _array(linear, int(held["dim"]), *tail))


def _array(values: Any, *shape: int) -> Array:
    """Numbers in a given shape; nested lists cannot tell (0, 3) from (0,)."""
    array = np.array(values, dtype=float)
    return array if array.size else array.reshape(shape)


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text, and what to call it."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source, "The text"
    try:
        return Path(source).read_text(encoding="utf-8"), os.fspath(source)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{source} cannot be read ({error}).", "JSON text starts with a brace, anything else is taken for a path.",
            "Check the path.") from None
