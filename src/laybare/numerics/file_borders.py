"""The border of every file format: what its library raises becomes one sentence, and only regular files are opened.

    size = check_regular(path)                         # no folder, no pipe, no device: they may never end
    with reading(path, "Parquet file", "Write it again."):
        ...                                            # whatever is raised here: InvalidInput

Readers of damaged files fail in more ways than can be listed (zlib.error, LZMAError, struct.error, OverflowError, MemoryError and
others), and in other ways with the next version. So a border takes everything but interrupts and our own errors.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.checks import check_memory, check_path

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
    return InvalidInput(
        f"{path} cannot be read ({error.strerror or error}).", "The operating system refused.",
        "Check the path and your permission to read it.", path=str(path))


def refuse_pickle(name: str) -> NoReturn:
    """Raise InvalidInput: pickles run code when they are loaded."""
    raise InvalidInput(
        f"{name} contains pickled objects, never loaded.", "Loading a pickle runs code that its author chose.",
        "Save plain arrays of numbers with numpy.savez(path, x=x, y=y).", file=name)
