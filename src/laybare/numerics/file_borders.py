"""The border of every file format: what its library raises becomes one sentence, and only regular files are opened.

    size = check_regular(path)                         # no folder, no pipe, no device: they may never end
    with reading(path, "Parquet file", "Write it again."):
        ...                                            # whatever is raised here: InvalidInput

Readers of damaged files fail in more ways than can be listed (zlib.error, LZMAError, struct.error, OverflowError, MemoryError and
others), and in other ways with the next version. So a border takes everything but interrupts and our own errors.

Arrays in NumPy's own formats, .npy and .npz, read without running anything and without trusting a size.

We read the headers ourselves: NumPy does not map members of .npz archives, and pickled objects, absurd shapes and truncated files
are then detected in one place, before anything is allocated. Every member of an archive is compared with its checksum.
"""

from __future__ import annotations

import io
import math
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib import format as npy

from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.checks import check_memory, check_path
from laybare.numerics.shapes import Array

DAMAGED = "It is truncated, damaged or of another kind."

REASON_CHARACTERS = 200
"""Characters of a library's own message that are repeated. Convention: two lines."""


def check_regular(path: str | os.PathLike[str]) -> int:
    """The size of a regular file; anything else is refused before it is opened."""
    place = check_path("path", path)
    try:
        status = os.stat(place)
    except OSError as error:
        raise cannot_read(place, error) from None
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"{place} is a directory.", "One file is read here.", "Give the path of that file.", path=str(place))
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(
            f"{place} is not a regular file.", "A pipe or a device may never end, and cannot be checked before it is read.",
            "Copy its content into a file first.", path=str(place))
    return status.st_size


def check_whole_file_fits(path: str | os.PathLike[str]) -> None:
    """For formats that are read at once: a regular file, smaller than the memory."""
    check_memory(f"{path}", check_regular(path) / 8, "Read it on a machine with more memory.")


@contextmanager
def reading(path: str | os.PathLike[str], kind: str, do: str) -> Iterator[None]:
    """Every exception of the library that reads this kind of file becomes InvalidInput; `do` says how to write it again."""
    try:
        yield
    except LaybareError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise cannot_read(Path(path), error) from None
        reason = f"{type(error).__name__}: {error}".strip(": ")[:REASON_CHARACTERS]
        raise InvalidInput(f"{path} is not a readable {kind} ({reason}).", DAMAGED, do, path=str(path)) from None


def cannot_read(path: Path, error: OSError) -> InvalidInput:
    """The error for a file that the operating system does not give."""
    if isinstance(error, FileNotFoundError):
        return InvalidInput(f"{path} does not exist.", "There is nothing to open.", "Check the path.", path=str(path))
    return InvalidInput(
        f"{path} cannot be read ({error.strerror or error}).", "The operating system refused.",
        "Check the path and your permission to read it.", path=str(path))


def refuse_pickle(name: str) -> NoReturn:
    """Raise InvalidInput: pickles run code when they are loaded."""
    raise InvalidInput(
        f"{name} contains pickled objects, never loaded.", "Loading a pickle runs code that its author chose.",
        "Save plain arrays of numbers with numpy.savez(path, x=x, y=y).", file=name)


ZIP_HEADER_BYTES = 30
"""Bytes of a ZIP local file header before the name; bytes 26-29 hold the lengths of the name and of the extra field.
Convention: the ZIP file format."""

CHECKED_BYTES = 1 << 20
"""Bytes at a time of a checksum. Convention: a megabyte."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class Archive:
    """The members of an .npz file by name, without the ending .npy."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self.path, self._opened = path, opened
        listed = [(info.filename.removesuffix(".npy"), info) for info in opened.infolist()]
        self.members = dict(listed)
        if len(self.members) < len(listed):
            twice = sorted(name for name in self.members if sum(name == other for other, _ in listed) > 1)
            raise InvalidInput(
                f"{path} has several arrays called {twice[0]!r}.", "Arrays are identified by name.", "Write it again.",
                names=twice)

    def read(self, name: str) -> Array:
        """An array, unpacked into memory; its checksum is compared."""
        info, where = self.members[name], f"{self.path}: {self.members[name].filename}"
        check_memory(where, info.file_size / 8)
        with self._opened.open(info) as file:
            shape, fortran, dtype = read_header(file, where)
            size = dtype.itemsize * math.prod(shape)
            if size > info.file_size:
                refuse_truncated(where)
            values = file.read(size + 1)  # one more, so that the end is reached and the checksum compared
        if len(values) != size:
            refuse_truncated(where)
        return np.frombuffer(values, dtype).reshape(shape, order="F" if fortran else "C")

    def map(self, name: str) -> Array:
        """An array, memory-mapped if it is stored uncompressed; its checksum is compared first, in one pass over the file."""
        info = self.members[name]
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            return self.read(name)
        with self._opened.open(info) as file:
            while file.read(CHECKED_BYTES):
                pass
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(ZIP_HEADER_BYTES)
            lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        return map_array(self.path, info.header_offset + ZIP_HEADER_BYTES + lengths, info.filename)


@contextmanager
def open_archive(path: str | os.PathLike[str], do: str) -> Iterator[Archive]:
    """An .npz file; whatever is wrong with it, or with a member that is read meanwhile, is said in one sentence."""
    place = Path(path)
    check_regular(place)
    with reading(place, "archive", do):
        try:
            with zipfile.ZipFile(place) as opened:
                yield Archive(place, opened)
        except zipfile.BadZipFile:
            with place.open("rb") as file:
                if file.read(1) == b"\x80":
                    refuse_pickle(place.name)
            raise


def map_array(path: Path, offset: int = 0, name: str = "") -> Array:
    """The array at `offset` of a file, memory-mapped."""
    name = f"{path}: {name}" if name else str(path)
    length = check_regular(path)
    with path.open("rb") as file:
        file.seek(offset)
        shape, fortran, dtype = read_header(file, name)
        start = file.tell()
    size = dtype.itemsize * math.prod(shape)
    if length < start + size:
        refuse_truncated(name)
    if size == 0:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


def read_header(file: IO[bytes] | BufferedIOBase, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype from the header that begins here."""
    begin = file.read(npy.MAGIC_LEN)
    if begin[:1] == b"\x80":
        refuse_pickle(name)
    version = tuple(begin[-2:])
    if len(begin) < npy.MAGIC_LEN or not begin.startswith(npy.MAGIC_PREFIX) or version not in _HEADERS:
        raise InvalidInput(
            f"{name} is not an array in NumPy's format.", "Its first bytes are different.",
            "Write it again with numpy.save or numpy.savez.", file=name)
    with reading(name, "array in NumPy's format", "Write it again with numpy.save or numpy.savez."):
        shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        refuse_pickle(name)
    if dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise InvalidInput(f"The header of {name} says shape {shape}, dtype {dtype}.", "That is not an array of numbers.",
                           "Write it again.", file=name)
    return shape, fortran, dtype


def refuse_truncated(name: str) -> NoReturn:
    """Raise InvalidInput for a file that has fewer values than its header says."""
    raise InvalidInput(
        f"{name} ends before its last value.", "The file was truncated when it was written or copied.",
        "Write it or copy it again.", file=name)


def archive_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The bytes that numpy.savez writes, with any version of NumPy: some take `allow_pickle` for the name of an array."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, np.asanyarray(array), allow_pickle=False)
    return memory.getvalue()
