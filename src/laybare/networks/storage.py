"""Arrays and a description in one safetensors file: written whole or not at all, read without running anything.

The description is JSON under one key of the header (safetensors orders several keys differently from run to run, and equal
networks should give equal bytes).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput, LaybareError
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
    beside = target.parent / f".{KEY}-{secrets.token_hex(8)}.tmp"
    try:
        with _removed_afterwards(beside):
            _write_through(beside, data)
            os.replace(beside, target)
    except OSError as error:
        raise _cannot_write(path, error, len(data)) from error


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


@contextlib.contextmanager
def _removed_afterwards(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _write_through(path: Path, data: bytes) -> None:
    """Write and wait for the disk: a rename may reach it before the data otherwise."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


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
