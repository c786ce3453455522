"""JSON text (every number in the shortest form that reads back to the same bits) and NumPy archives (arrays by name)."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from laybare.activations import activation_named
from laybare.errors import InvalidInput
from laybare.export.chains import as_network
from laybare.networks import Layer, Network
from laybare.networks.network_files import FORMAT, VERSION, check_storable, contents_of, network_in
from laybare.networks.storage import KEY, Contents, check_ending, write_atomically
from laybare.numerics.checks import as_reals, check_path, check_whole
from laybare.numerics.file_borders import archive_bytes, check_whole_file_fits, open_archive, reading
from laybare.numerics.shapes import Array


def to_json(network: Network, path: str | os.PathLike[str] | None = None) -> str:
    """The network as JSON text; written to `path` too if there is one.

    {"format": "network", "version": 1, "dim": d, "outputs": m or null, "layers": [{"activation", "weights", "biases"}, …],
    "readout", "offset", "linear"}; outputs null means one output given as a vector, linear null that there is no linear part.
    """
    names = check_storable(as_network(network))
    place = None if path is None else check_ending(path, ".json")
    layers = [
        {"activation": name, "weights": layer.weights.tolist(), "biases": np.asarray(layer.biases).tolist()}
        for name, layer in zip(names, network.layers, strict=True)]
    text = json.dumps({
        "format": FORMAT, "version": VERSION, "dim": network.dim,
        "outputs": None if network.readout.ndim == 1 else network.outputs, "layers": layers,
        "readout": network.readout.tolist(), "offset": np.asarray(network.offset).tolist(),
        "linear": None if network.linear is None else network.linear.tolist()})
    if place is not None:
        write_atomically(place, text.encode())
    return text


def from_json(source: str | os.PathLike[str]) -> Network:
    """The network in JSON text of `to_json` (text that starts with a brace), or in a file of it (anything else: a path)."""
    text, where = _text(source)
    with reading(where, "network in JSON", "Write it again with to_json."):
        held = json.loads(text)
        if (held["format"], held["version"]) != (FORMAT, VERSION):
            raise InvalidInput(
                f"{where} holds format {held['format']!r}, version {held['version']!r}.",
                f"This version reads {FORMAT!r}, {VERSION}.", "Update laybare, or write it again with to_json.")
        try:
            return _network(held)
        except InvalidInput as error:
            raise InvalidInput(
                f"{where} does not hold a network: {error.seen}", error.why, "Write it again with to_json.",
                **error.values) from None


def _network(held: dict[str, Any]) -> Network:
    dim = below = check_whole("dim", held["dim"])
    layers: list[Layer] = []
    if not held["layers"]:
        raise InvalidInput("No layers.", "A network has at least one.", "Write it again with to_json.")
    for layer in held["layers"]:
        width = len(layer["biases"])
        weights, biases = _array("weights", layer["weights"], width, below), _array("biases", layer["biases"], width)
        layers.append(Layer(weights, biases, activation_named(layer["activation"])))
        below = width
    tail = () if held["outputs"] is None else (check_whole("outputs", held["outputs"]),)
    linear = held["linear"]
    return Network(
        layers, _array("readout", held["readout"], below, *tail), _array("offset", held["offset"], *tail),
        None if linear is None else _array("linear", linear, dim, *tail))


def _array(name: str, values: Any, *shape: int) -> Array:
    """Numbers in a given shape; nested lists cannot tell (0, 3) from (0,)."""
    array = as_reals(name, values)
    array = array if array.size else array.reshape(shape)
    if array.shape != shape:
        raise InvalidInput(
            f"{name} has shape {array.shape}, and the sizes around it say {shape}.", "They contradict each other.",
            "Write it again with to_json.", name=name, shapes=(array.shape, shape))
    return array.astype(float)


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """The text, and what to call it."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source, "The text"
    try:
        path = check_path("source", source)
    except InvalidInput as error:
        raise InvalidInput(
            error.seen, "JSON text starts with a brace, anything else is taken for a path.", "Check the path.") from None
    check_whole_file_fits(path)
    with reading(path, "file of JSON text", "Write it again with to_json."):
        return path.read_text(encoding="utf-8"), str(path)


def to_npz(network: Network, path: str | os.PathLike[str]) -> None:
    """Write weights, biases, readout, offset (and linear) as an .npz file that `numpy.load` opens; float64 bit for bit.

    Several layers are weights.0, weights.1, … from the lowest up.
    """
    arrays, description = contents_of(as_network(network))
    place = check_ending(path, ".npz")
    write_atomically(place, archive_bytes(arrays | {KEY: np.array(json.dumps(description, sort_keys=True))}))


def from_npz(path: str | os.PathLike[str]) -> Network:
    """The network that `to_npz` wrote. Anything else is refused with the reason; no pickle is ever loaded."""
    with open_archive(check_path("path", path), "Write it again with to_npz, or open it with load.") as archive:
        arrays = {name: archive.read(name) for name in archive.members}
    try:
        description = json.loads(str(arrays.pop(KEY)))
        if not isinstance(description, dict):
            raise ValueError
    except (KeyError, ValueError, RecursionError):
        raise InvalidInput(
            f"{path} has no description of a network (its arrays: {', '.join(sorted(arrays)) or 'none'}).",
            "Which array would be which part of a network is not known.",
            "Build Layer(weights, biases, activation) and Network(layers, readout) from its arrays.") from None
    return network_in(Contents(arrays, description), os.fspath(path))
