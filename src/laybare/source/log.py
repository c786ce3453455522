"""Every answer of a black box on disk before it is used. What the files look like stands in `laybare.source.log_files`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn
from weakref import WeakValueDictionary

from laybare.errors import BudgetExhausted, InvalidInput, LaybareError
from laybare.shapes import Array
from laybare.source.log_files import ANSWERS, FORMAT, HEADER, Record, checksum, read_header, read_records

with contextlib.suppress(ImportError):  # not on every system; there two processes must not share a log
    import fcntl

AHEAD = 1 << 18
"""Bytes that are reserved beyond what is needed, so that small records do not reserve each for itself."""


class Log:
    """A log that is open for appending, by one object at a time: whoever opens it last has it."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.dim = folder, int(identity["dim"])
        before = _OPEN.get(folder.resolve())
        if before is not None:
            before.close()
        with _sentences(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _agree(folder / HEADER, {"format": FORMAT, **identity})
            self.file: IO[bytes] = (folder / ANSWERS).open("r+b" if (folder / ANSWERS).exists() else "w+b", buffering=0)
        try:
            _lock(self.file, folder)
            self.end = max((record.end for record in self.records()), default=0)
        except BaseException:
            self.file.close()
            raise
        self.reserved = self.end
        self._cut()
        _OPEN[folder.resolve()] = self

    def records(self) -> Iterator[Record]:
        """All records, in their order."""
        return read_records(self.folder / ANSWERS, self.dim)

    def reserve(self, rows: int, columns: int) -> None:
        """Make sure that a record of this size has room, before its answers are paid for."""
        needed = self.end + 8 * rows * (self.dim + columns) + 300
        if needed <= self.reserved:
            return
        with _sentences(self.folder, self._cut):
            self.file.seek(self.reserved)
            _write(self.file, bytes(needed + AHEAD - self.reserved))
        self.reserved = needed + AHEAD

    def append(self, x: Array, y: Array, purpose: str) -> None:
        """Write one record and wait until it is on the disk."""
        numbers = x.astype("<f8").tobytes() + y.astype("<f8").tobytes()
        told = {"rows": len(x), "outputs": y.shape[1], "purpose": purpose}
        record = json.dumps({**told, "crc32": checksum(len(x), y.shape[1], purpose, numbers)}).encode() + b"\n" + numbers + b"\n"
        with _sentences(self.folder, self._cut):
            self.file.seek(self.end)
            _write(self.file, record)
            os.fsync(self.file.fileno())
        self.end += len(record)
        self.reserved = max(self.reserved, self.end)

    def close(self) -> None:
        """Give back what was reserved."""
        if not self.file.closed:
            self._cut()
            self.file.close()

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):
            self.close()

    def _cut(self) -> None:
        self.file.truncate(self.end)
        self.reserved = self.end


_OPEN: WeakValueDictionary[Path, Log] = WeakValueDictionary()


def _agree(path: Path, identity: dict[str, Any]) -> None:
    """Write the header, or refuse one that was made for something else. The link may change: answers are kept as they came."""
    if path.exists():
        told = read_header(path)
        for name, value in identity.items():
            if name != "link" and told.get(name) != value:
                raise InvalidInput(
                    f"The log in {path.parent} has {name} {told.get(name)!r}, and now it is {value!r}.",
                    "Its answers belong to other questions, or to another model.",
                    f"Give another folder, or the same {name} as before.", name=name, was=told.get(name), now=value)
        if told == identity:
            return
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(identity, indent=1) + "\n", encoding="utf-8")
    os.replace(fresh, path)


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except NameError:
        return
    except OSError:
        raise InvalidInput(
            f"The log in {folder} is open in another process.", "Two that write to one log would damage it.",
            "Wait for the other one, or give another folder.", path=str(folder)) from None


def _write(file: IO[bytes], numbers: bytes) -> None:
    """All of it: an unbuffered file may take less at once."""
    left = memoryview(numbers)
    while left:
        left = left[file.write(left) :]


@contextlib.contextmanager
def _sentences(folder: Path, repair: Any = None) -> Iterator[None]:
    try:
        yield
    except LaybareError:
        raise
    except ValueError as error:
        raise InvalidInput(
            f"The log in {folder} was opened again ({error}).", "Only the one that opened it last may write.",
            "Go on with that one.", path=str(folder)) from None
    except OSError as error:
        if repair is not None:
            with contextlib.suppress(OSError):
                repair()
        _full(folder, error)


def _full(folder: Path, error: OSError) -> NoReturn:
    raise BudgetExhausted(
        f"The log in {folder} cannot be written ({error.strerror or error}).",
        "An answer is used only once it is on the disk; those in the log are safe.",
        "Make room or give another folder, and call again: nothing is asked twice.", path=str(folder)) from None
