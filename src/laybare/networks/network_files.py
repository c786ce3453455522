"""Networks as files: arrays and a short description that names the activations, never code.

A safetensors file is written whole or not at all, and read without running anything. The description is JSON under one key of the
header (safetensors orders several keys differently from run to run, and equal networks should give equal bytes).

One hidden layer: weights, biases, readout, offset, and linear where there is one (format "network"). Several: weights.0,
weights.1, … and biases.0, … from the lowest up (format "deep network", which older versions refuse by name).

A torch `state_dict` in a safetensors file has the weights of an MLP, in the order of their names: arrays NAME.weight (out, in)
and NAME.bias (out,), and no word about activations: ReLU is taken between the maps, and that is said. Anything but a chain of
matrices is refused by the name of its array.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laybare.activations import activation_named, relu
from laybare.errors import BudgetExhausted, InvalidInput, LaybareError
from laybare.networks.network import Layer, Network
from laybare.numerics.checks import check_path
from laybare.numerics.file_borders import check_whole_file_fits, reading
from laybare.numerics.shapes import Array

KEY = "laybare"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MAX_HEADER_BYTES = 1 << 20
"""Bytes of a header. Convention: a network has a few hundred; safetensors itself would parse one of 100 MB."""


class Contents(NamedTuple):
    """What a file held."""

    arrays: dict[str, Array]
    description: dict[str, Any]


WRITERS = {
    ".safetensors": "network.save(path)", ".onnx": "lb.to_onnx(network, path)", ".npz": "lb.export.to_npz(network, path)",
    ".json": "lb.export.to_json(network, path)", ".html": "found.report(path)",
    ".pt": "torch.save(lb.to_torch(network).state_dict(), path)", ".pth": "torch.save(lb.to_torch(network).state_dict(), path)"}
"""Endings of files, and what writes them."""

OTHER_ENDINGS = (
    ".txt", ".csv", ".tsv", ".npy", ".pkl", ".pickle", ".joblib", ".h5", ".hdf5", ".mat", ".parquet", ".zip", ".md", ".pdf",
    ".png", ".svg", ".xml", ".xlsx", ".docx", ".tex", ".sarif")
"""Endings that promise a format in which neither networks nor pages are written."""


def check_ending(path: str | os.PathLike[str], *own: str) -> Path:
    """A path whose ending does not promise another format than those that are written, whose endings are `own`."""
    place = check_path("path", path)
    ending = place.suffix.lower()
    if ending not in own and (ending in WRITERS or ending in OTHER_ENDINGS):
        known, named = ending in WRITERS, " or ".join(filter(None, (", ".join(own[:-1]), own[-1])))
        raise InvalidInput(
            f"{place} ends in {ending}, and what is written here is a {named} file.",
            "Whoever opens it would trust its ending." if known else "Nothing is written in that format here.",
            f"Use {WRITERS[ending]}, or give a path that ends in {named}." if known else f"Give a path that ends in {named}.",
            ending=ending)
    return place


def write_contents(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write `contents` to `path`, which holds either the old file or the complete new one at any moment."""
    from safetensors.numpy import save

    check_ending(path, ".safetensors")
    # safetensors writes the memory as it lies: an array in column order would come back scrambled
    arrays = {name: np.asarray(array, dtype="<f8", order="C") for name, array in contents.arrays.items()}
    write_atomically(path, save(arrays, {KEY: json.dumps(contents.description, sort_keys=True)}))


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Make `data` the content of the file `path`, in one move: no reader finds half of it, and a failure leaves no trace."""
    target = Path(os.path.realpath(check_path("path", path)))  # through a link, as open() would
    if target.exists() and not target.is_file():  # a rename onto a device would take its place
        kind = "a directory" if target.is_dir() else "a device or a pipe"
        raise InvalidInput(f"{path} is {kind}.", "What is written here is one file.", "Give the name of a file.")
    try:
        replace_file(target, data)
    except OSError as error:
        raise _cannot_write(path, error, len(data)) from error


def replace_file(target: Path, data: bytes) -> None:
    """The whole file or nothing, on the disk when this returns: a rename may reach it before the data otherwise."""
    beside = target.parent / f".{KEY}-{secrets.token_hex(8)}.tmp"
    try:
        with open(beside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def read_contents(path: str | os.PathLike[str]) -> Contents:
    """Arrays and description of a file that `write_contents` wrote; everything else is refused."""
    from safetensors import safe_open

    path = check_path("path", path)
    check_whole_file_fits(path)
    with reading(path, "safetensors file", "Fetch it again, or write it again with network.save(path)."):
        _check_start(path)
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            names = sorted(file.keys())
            if KEY not in metadata:
                raise InvalidInput(
                    f"{path} is a safetensors file without the mark of laybare (its arrays: {_some(names)}).",
                    "Which array would be which part of a network is not known.",
                    "Build Layer(weights, biases, activation) and Network(layer, readout) from its arrays.", names=names)
            for name in names:
                _check_type(path, name, file.get_slice(name).get_dtype())
            return Contents({name: file.get_tensor(name) for name in names}, _description(path, metadata[KEY]))


def _cannot_write(path: str | os.PathLike[str], error: OSError, size: int) -> LaybareError:
    reason = error.strerror or str(error)
    if error.errno in NO_SPACE:
        return BudgetExhausted(
            f"{path} was not written: {reason} ({size:,} bytes were needed).", "What was there before is unchanged.",
            "Free some space or save to another disk.", bytes=size)
    return InvalidInput(
        f"{path} was not written: {reason}.", "What was there before is unchanged.",
        "Give a path in a directory that exists and that you may write to.", errno=error.errno)


def _check_start(path: Path) -> None:
    """Refuse what is known to be something else, and absurd headers."""
    with open(path, "rb") as file:
        start = file.read(16)
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER_BYTES or len(start) < 8:
        _refuse_kind(path, start)
        raise InvalidInput(
            f"{path} is not a safetensors file (its first 8 bytes announce a header of {length:,} bytes).",
            f"A network has one of at most {MAX_HEADER_BYTES:,}.", "Give a file written by network.save(path).", header=length)


def _refuse_kind(path: Path, start: bytes) -> None:
    """A sentence for the kinds of file that people take for a saved network."""
    inside = _zip_names(path) if start.startswith(b"PK") else []
    if any(name.endswith(".pkl") for name in inside) or _is_pickle(path, start):
        kind = "a PyTorch file, which is a zip archive with a pickle in it" if inside else "a pickle"
        raise InvalidInput(
            f"{path} is {kind}.", "Loading a pickle can run any code, so laybare never does.",
            "If you trust it, open it with the program that wrote it and save the arrays, or use from_torch or from_sklearn.")
    if inside:
        raise InvalidInput(f"{path} is a zip archive ({_some(inside)}).", "A network is saved as a safetensors file.",
                           "If it is an .npz file, read it with from_npz.", names=inside)


def _is_pickle(path: Path, start: bytes) -> bool:
    """Protocols 2 and later have a mark; older ones are recognised by taking the operations apart, without doing them."""
    import pickletools

    if start[:1] == b"\x80" or path.stat().st_size > MAX_HEADER_BYTES:
        return start[:1] == b"\x80"
    data = path.read_bytes()
    try:
        return [place for _, _, place in pickletools.genops(data)][-1] == len(data) - 1
    except (ValueError, IndexError):
        return False


def _zip_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return ["damaged"]


def _check_type(path: str | os.PathLike[str], name: str, kind: str) -> None:
    if kind != "F64":
        raise InvalidInput(
            f"{name} in {path} has type {kind}.", "Networks are saved in float64 (F64), bit for bit.",
            "Convert the arrays, build the network from them and save it again.", name=name, kind=kind)


def _description(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict):
        raise InvalidInput(f"The description in {path} is not a JSON object ({text[:60]!r}).",
                           "It names the activation.", "Write the file again with network.save(path).")
    return description


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "none"


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
