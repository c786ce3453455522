"""Arrays in .npy and .npz files: memory-mapped where they lie uncompressed, never unpickled.

We read the headers ourselves: NumPy maps no members of .npz archives, and one place can then refuse objects and truncation.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

import numpy as np
from numpy.lib import format as npy

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import DiskArray, Stacked
from laybare.source.columns import Columns

LOCAL_HEADER = 30
"""Bytes of a ZIP local file header before the name; bytes 26-29 hold the lengths of the name and of the extra field."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayPair(NamedTuple):
    """Inputs and outputs as they lie in a file, with their names where it has any."""

    x: Array | Stacked | DiskArray
    y: Array | Stacked | DiskArray
    columns: Columns = Columns()


def read_npz(path: Path, target: str) -> ArrayPair:
    """Arrays `x` and `target` of an archive; without an `x`, the only other array is taken for it."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            x, y = _choose(path, list(members), target)
            return ArrayPair(_member(path, archive, members[x]), _member(path, archive, members[y]))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        if _starts_like_pickle(path):
            refuse_pickle(path.name)
        raise InvalidInput(
            f"{path} is no readable archive ({error}).", "It is truncated, damaged or of another kind.",
            "Write it again with numpy.savez(path, x=x, y=y).", path=str(path)) from None


def read_blocks(path: Path, target: str) -> ArrayPair:
    """A directory with x.npy and <target>.npy, or blocks x_000.npy, <target>_000.npy, ..., mapped and stacked in their order.

    Blocks may also lie in folders x and <target> as 0.npy, 1.npy, ... (Dask's npy stacks; their pickled `info` is not read).
    """
    stacks = path / "x", path / target
    folders = all(folder.is_dir() for folder in stacks)
    inputs, outputs = (_stack_blocks(folder) for folder in stacks) if folders else (_blocks(path, "x"), _blocks(path, target))
    if not inputs or inputs.keys() != outputs.keys():
        odd = sorted(inputs.keys() ^ outputs.keys())
        raise InvalidInput(
            f"The directory {path} has {len(inputs)} blocks of x and {len(outputs)} of {target}"
            + (f"; block {odd[0] or 'without a number'} has no partner." if odd else "."),
            f"Rows of x_000.npy belong to rows of {target}_000.npy, and so on.",
            "Give every block of inputs its block of outputs.", path=str(path), unpaired=odd)
    order = sorted(inputs, key=lambda number: (len(number.lstrip("0")), number.lstrip("0")))
    pairs = [ArrayPair(_mapped(inputs[number]), _mapped(outputs[number])) for number in order]
    for number, (x, y, _) in zip(order, pairs, strict=True):
        if x.ndim == 0 or y.ndim == 0 or x.shape[0] != y.shape[0] or x.shape[1:] != pairs[0].x.shape[1:] \
                or y.shape[1:] != pairs[0].y.shape[1:]:
            raise InvalidInput(
                f"In block {number or path.name} x has shape {x.shape} and {target} has {y.shape}; the first block has "
                f"{pairs[0].x.shape} and {pairs[0].y.shape}.", "Blocks are stacked, so only their number of rows may differ.",
                "Write that block again.", block=number, shapes=(x.shape, y.shape))
    return ArrayPair(Stacked([np.asarray(pair.x) for pair in pairs]), Stacked([np.asarray(pair.y) for pair in pairs]))


def refuse_pickle(name: str) -> NoReturn:
    """Pickles run code when they are loaded."""
    raise InvalidInput(
        f"{name} contains pickled objects, never loaded.", "Loading a pickle runs whatever code its author put there.",
        "Save plain arrays of numbers with numpy.savez(path, x=x, y=y).", file=name)


def _choose(path: Path, names: list[str], target: str) -> tuple[str, str]:
    others = [name for name in names if name != target]
    x = "x" if "x" in others else others[0] if len(others) == 1 else None
    if target not in names or x is None:
        raise InvalidInput(
            f"{path} holds the arrays {', '.join(names) or '(none)'}.", f"The inputs x and the target {target} are needed.",
            "Name the outputs with target=, and call the inputs x.", arrays=names, target=target)
    return x, target


def _blocks(path: Path, name: str) -> dict[str, Path]:
    """Files of that name by their number, as text; '' for the one without a number."""
    pattern = re.compile(re.escape(name) + r"(?:_(\d+))?\.npy")
    found = ((pattern.fullmatch(file.name), file) for file in path.iterdir())
    return {match[1] or "": file for match, file in found if match}


def _stack_blocks(folder: Path) -> dict[str, Path]:
    return {file.stem: file for file in folder.iterdir() if file.suffix == ".npy" and file.stem.isdecimal()}


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array of an archive: mapped if it is stored as it is, else unpacked (which checks its checksum)."""
    if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
        with path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(LOCAL_HEADER)
            lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        return _mapped(path, info.header_offset + LOCAL_HEADER + lengths, info.filename)
    with archive.open(info) as file:
        shape, fortran, dtype = _header(file, f"{path}: {info.filename}")
        size = dtype.itemsize * math.prod(shape)
        numbers = file.read(size + 1)  # one more, so that the end is seen and the checksum compared
    if len(numbers) != size:
        _truncated(f"{path}: {info.filename}")
    return np.frombuffer(numbers, dtype).reshape(shape, order="F" if fortran else "C")


def _mapped(path: Path, offset: int = 0, name: str = "") -> Array:
    """The array that starts at `offset`, mapped into memory."""
    name = f"{path}: {name}" if name else str(path)
    with path.open("rb") as file:
        file.seek(offset)
        shape, fortran, dtype = _header(file, name)
        start = file.tell()
    size = dtype.itemsize * math.prod(shape)
    if path.stat().st_size < start + size:
        _truncated(name)
    if size == 0:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


def _header(file: IO[bytes] | BufferedIOBase, name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and dtype of the array that begins here."""
    begin = file.read(npy.MAGIC_LEN)
    if begin[:1] == b"\x80":
        refuse_pickle(name)
    version = tuple(begin[-2:])
    if len(begin) < npy.MAGIC_LEN or not begin.startswith(npy.MAGIC_PREFIX) or version not in _HEADERS:
        raise InvalidInput(
            f"{name} is no array of numbers in NumPy's format.", "Its first bytes say so.",
            "Write it again with numpy.save or numpy.savez.", file=name)
    try:
        shape, fortran, dtype = _HEADERS[version](file)
    except Exception as error:  # a damaged header makes NumPy's parser stumble in many ways
        raise InvalidInput(
            f"The header of {name} cannot be read ({error}).", "The file is damaged.", "Write it again.", file=name) from None
    if dtype.hasobject:
        refuse_pickle(name)
    if dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise InvalidInput(f"The header of {name} tells of shape {shape}, dtype {dtype}.", "That is no array of numbers.",
                           "Write it again.", file=name)
    return shape, fortran, dtype


def _truncated(name: str) -> NoReturn:
    raise InvalidInput(
        f"{name} ends before its last number.", "The file was cut off when it was written or copied.",
        "Write it or copy it again.", file=name)


def _starts_like_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"\x80"
