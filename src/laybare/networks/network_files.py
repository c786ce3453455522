"""Networks as files: arrays and a short description that names the activations, never code.

One hidden layer: weights, biases, readout, offset, and linear where there is one (format "network"). Several: weights.0,
weights.1, … and biases.0, … from the lowest up (format "deep network", which older versions refuse by name).

A torch `state_dict` in a safetensors file: the weights of an MLP, in the order of their names.

Such a file has arrays NAME.weight (out, in) and NAME.bias (out,), and no word about activations: ReLU is taken between the maps,
and that is said. Anything but a chain of matrices is refused by the name of its array.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from laybare.activations import activation_named, relu
from laybare.errors import InvalidInput
from laybare.networks.network import Layer, Network
from laybare.networks.storage import Contents, read_contents, write_contents
from laybare.numerics.checks import check_path
from laybare.numerics.file_borders import check_whole_file_fits, reading
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


STATE_DICT_REMARK = "A state_dict names no activations: ReLU was taken between its linear maps, and linear outputs."

NOT_LINEAR = {"running_mean": "a batch normalisation", "in_proj_weight": "attention", "weight_ih": "a recurrent layer"}
"""Endings of names that belong to other parts than linear maps."""


def is_state_dict(path: str | os.PathLike[str]) -> bool:
    """Whether a safetensors file has arrays called NAME.weight; False for what cannot be opened."""
    from safetensors import safe_open

    try:
        check_whole_file_fits(path)
        with safe_open(os.fspath(path), framework="np") as file:
            return not file.metadata() and any(name.endswith("weight") for name in file.keys())  # noqa: SIM118
    except Exception:  # its exceptions have no common public base; whoever reads the file says what is wrong
        return False


def load_state_dict(path: str | os.PathLike[str]) -> Network:
    """The ReLU network of a state_dict that safetensors.torch.save_file wrote."""
    from safetensors import safe_open

    place = check_path("path", path)
    check_whole_file_fits(place)
    with reading(place, "safetensors file of a state_dict", "Write it again with safetensors.torch.save_file."), safe_open(
        place, framework="np"
    ) as file:
        arrays = {name: np.asarray(file.get_tensor(name), dtype=np.float64) for name in file.keys()}  # noqa: SIM118
    return network_of_state_dict(arrays, str(place))


def network_of_state_dict(arrays: Mapping[str, Array], where: str) -> Network:
    """The network of arrays NAME.weight and NAME.bias."""
    for ending, part in NOT_LINEAR.items():
        named = next((name for name in arrays if ending in name), None)
        if named is not None:
            raise _refused(where, f"{named}, which belongs to {part}")
    weights = sorted((name for name in arrays if name.endswith("weight")), key=_natural)
    maps = [(arrays[name], arrays.get(name.removesuffix("weight") + "bias")) for name in weights]
    bent = next((name for name in weights if arrays[name].ndim != 2), None)
    if bent is not None:
        raise _refused(where, f"{bent} of shape {arrays[bent].shape}, which is no linear map")
    if len(maps) < 2:
        raise _refused(where, f"{len(maps)} linear maps")
    for name, (lower, _), (upper, _) in zip(weights[1:], maps, maps[1:], strict=False):
        if upper.shape[1] != len(lower):
            raise _refused(where, f"{name} with {upper.shape[1]} inputs above a map with {len(lower)} outputs")
    *hidden, (last, offset) = maps
    layers = [Layer(w, np.zeros(len(w)) if b is None else b, relu) for w, b in hidden]
    shift = np.zeros(len(last)) if offset is None else offset
    return Network(layers, last[0], float(shift[0])) if len(last) == 1 else Network(layers, last.T, shift)


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: layers.10 follows layers.9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _refused(where: str, seen: str) -> InvalidInput:
    return InvalidInput(
        f"{where} has {seen}.", "A state_dict is read as a chain of linear maps with ReLU between them.",
        "Export the model to ONNX (torch.onnx.export), or name a function that loads and calls it: module:function.", part=seen)
