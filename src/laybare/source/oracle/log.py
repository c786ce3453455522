"""The log of a black box: every answer is on disk before it is used.

A log is a folder with two files.

    log.json       what was asked: format, model, dim, seed, law, box, link; plain JSON
    answers.log    records, one after another: a line of JSON, then binary numbers, then a line break

The line is {"rows": n, "outputs": m, "purpose": "...", "crc32": "8 hex digits"}. After it come n*dim inputs and n*m answers as
the black box gave them (before any link): little-endian float64, row by row. The checksum is zlib.crc32 of the text
"rows outputs purpose" and those bytes. Zeros at the end of the file are reserved space.

Records are never changed or removed. What a kill leaves is the beginning of one record, then zeros or the end of the file: that
is dropped when the log is opened again, and its rows are asked again. Anything else that is no record (a wrong checksum, a hole
of zeros with records behind it, other text) is damage: the log is not opened, and the error names the byte.

Only the process that opened a log writes, cuts or closes it. A forked child has the answers that were read, and is refused when
it asks more: its own idea of where the file ends is old as soon as the parent goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput, LaybareError
from laybare.networks.network_files import replace_file
from laybare.numerics.shapes import Array
from laybare.source.oracle.links import link_named
from laybare.source.samples import ArrayPair, StackedArrays

LOG_FORMAT = 1
"""Version of the file format. Convention: raised when the format changes; other versions are rejected."""

LOG_HEADER, LOG_ANSWERS = "log.json", "answers.log"

LONGEST_HEADER = 1 << 16
"""Longest line before the numbers of a record, in bytes. Convention: purposes are a few words."""

BEGINNING = b'{"rows": '
"""How every record begins."""

RESERVED_BYTES = 1 << 18
"""Bytes reserved beyond the next record, so that small records need not reserve each its own.
Checked by `pytest tests/source/test_log.py`."""


class LogRecord(NamedTuple):
    """Points (n, dim) that were asked together, the answers (n, outputs), their purpose, and the byte where the record ends."""

    x: Array
    y: Array
    purpose: str
    end: int


def read_records(path: Path, dim: int) -> Iterator[LogRecord]:
    """The records of a file, up to its end or to one that a kill cut off; raises InvalidInput where it is damaged."""
    with path.open("rb") as file:
        begin, size = 0, os.fstat(file.fileno()).st_size
        while line := file.readline(LONGEST_HEADER):
            head = _parse_head(line)
            record = None if head is None else _record(head, file, dim, size - begin - len(line))
            if record is None:
                file.seek(begin)
                _check_cut_off(path, _without_reserved_space(file), begin, dim)
                return
            yield record
            begin = record.end


def read_log(path: Path, target: str) -> ArrayPair:
    """A log as samples: inputs, and outputs by its link. `target` is y."""
    header = read_header(path / LOG_HEADER)
    records = list(read_records(path / LOG_ANSWERS, int(header["dim"]))) if (path / LOG_ANSWERS).exists() else []
    if not records:
        raise InvalidInput(f"The log {path} has no answers yet.", "There are no samples.", "Ask first.", path=str(path))
    link = link_named(header["link"])
    outputs = [link(record.y) for record in records]
    usable = [np.isfinite(y).all(axis=1) for y in outputs]
    return ArrayPair(
        StackedArrays([record.x[rows] for record, rows in zip(records, usable, strict=True)]),
        StackedArrays([y[rows] for y, rows in zip(outputs, usable, strict=True)]))


def is_log(path: Path) -> bool:
    """Whether this folder is a log."""
    return (path / LOG_HEADER).is_file()


class RecordHead(NamedTuple):
    """The line before the numbers of a record."""

    rows: int
    outputs: int
    purpose: str
    crc32: str

    def numbers(self, dim: int) -> int:
        """Bytes of the numbers that follow."""
        return 8 * self.rows * (dim + self.outputs)

    def fits(self, numbers: bytes) -> bool:
        """Whether these are its numbers."""
        return self.crc32 == checksum(self.rows, self.outputs, self.purpose, numbers)


def _parse_head(line: bytes) -> RecordHead | None:
    """The head that a line holds; None if it holds none."""
    try:
        head = json.loads(line)
        found = RecordHead(head["rows"], head["outputs"], head["purpose"], head["crc32"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    counts = all(type(count) is int and 0 <= count < 1 << 48 for count in found[:2])
    return found if counts and isinstance(found.purpose, str) and isinstance(found.crc32, str) else None


def _record(head: RecordHead, file: IO[bytes], dim: int, left: int) -> LogRecord | None:
    """The record whose numbers begin here, where so many bytes are left; None if they are not what its head says."""
    if head.numbers(dim) >= left:
        return None
    numbers = file.read(head.numbers(dim))
    if not head.fits(numbers) or file.read(1) != b"\n":
        return None
    both = np.frombuffer(numbers, "<f8").astype(np.float64, copy=False)
    at, shape = head.rows * dim, (head.rows, head.outputs)
    return LogRecord(both[:at].reshape(head.rows, dim), both[at:].reshape(shape), head.purpose, file.tell())


def _without_reserved_space(file: IO[bytes]) -> bytes:
    return file.read().rstrip(b"\0")


def _check_cut_off(path: Path, rest: bytes, begin: int, dim: int) -> None:
    """Raise unless this is nothing, or the beginning of a record."""
    line, ended, numbers = rest.partition(b"\n")
    head = _parse_head(line)
    if not ended:
        damage = "" if BEGINNING.startswith(rest[: len(BEGINNING)]) and len(rest) < LONGEST_HEADER else "is no record"
    elif head is None:
        damage = "is no record"
    elif len(numbers) > head.numbers(dim):
        damage = "fails its checksum"
    else:
        damage = "has another size than it says" if _fits_another_size(head, numbers, dim) else ""
    if damage:
        hole = len(rest) - len(rest.lstrip(b"\0"))
        raise InvalidInput(
            f"The record at byte {begin} of {path} {f'is a hole of {hole} zeros, and others follow' if hole else damage}.",
            "The file was changed or damaged after it was written, or another program wrote to it.",
            "Restore it from a copy; or cut it at that byte, and what stood behind it is asked again.",
            path=str(path), byte=begin)


def _fits_another_size(head: RecordHead, numbers: bytes, dim: int) -> bool:
    """Whether the checksum holds for another number of rows or outputs: then the head is damaged, and nothing was cut off."""
    whole, end = numbers[:-1], numbers[-1:]
    counts = len(whole) // 8
    sizes = {(counts // (dim + head.outputs), head.outputs), (head.rows, counts // max(1, head.rows) - dim)}
    return end == b"\n" and any(head._replace(rows=rows, outputs=outputs).fits(whole) for rows, outputs in sizes)


def checksum(rows: int, outputs: int, purpose: str, numbers: bytes) -> str:
    """The checksum of a record."""
    return f"{zlib.crc32(numbers, zlib.crc32(f'{rows} {outputs} {purpose}'.encode())):08x}"


def read_header(path: Path) -> dict[str, Any]:
    """The identity of a log; raises InvalidInput for another format."""
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(header, dict) and header.get("format") == LOG_FORMAT:
            return _check_header(path, header)
        found = f"is of format {header.get('format')!r}" if isinstance(header, dict) else "is not a log"
    except InvalidInput:
        raise
    except (ValueError, RecursionError, OSError) as error:
        found = f"cannot be read ({error})"
    raise InvalidInput(
        f"{path} {found}.", f"This version reads format {LOG_FORMAT}.", "Give another folder, or use the version that wrote it.",
        path=str(path))


def _check_header(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    dim, link = header.get("dim"), header.get("link")
    if type(dim) is not int or not 1 <= dim < 1 << 31 or not (link is None or isinstance(link, str)):
        raise InvalidInput(
            f"{path} has dim {dim!r} and link {link!r}.", "A log says how many inputs every row has, and what its answers are.",
            "Restore it from a copy, or give another folder.", path=str(path))
    return header


with contextlib.suppress(ImportError):  # not on every system; there two processes must not share a log
    import fcntl


class QueryLog:
    """A log open for appending, by one object at a time: opening it again closes it for the previous owner."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.dim, self.owner = folder, int(identity["dim"]), os.getpid()
        before = _OPEN.get(folder.resolve())
        if before is not None:
            before.close()
        with _explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _check_identity(folder / LOG_HEADER, {"format": LOG_FORMAT, **identity})
            self.file: IO[bytes] = (folder / LOG_ANSWERS).open("r+b" if (folder / LOG_ANSWERS).exists() else "w+b", buffering=0)
        try:
            _lock(self.file, folder)
            self.end = max((record.end for record in self.records()), default=0)
        except BaseException:
            self.file.close()
            raise
        self.reserved = self.end
        self._truncate()
        _OPEN[folder.resolve()] = self

    def records(self) -> Iterator[LogRecord]:
        """All records, in order."""
        return read_records(self.folder / LOG_ANSWERS, self.dim)

    def reserve(self, rows: int, columns: int) -> None:
        """Reserve space on the disk for a record of this size, before its answers are paid for."""
        self._check_owner()
        needed = self.end + 8 * rows * (self.dim + columns) + 300
        if needed <= self.reserved:
            return
        with _explain_errors(self.folder, self._truncate):
            self.file.seek(self.reserved)
            _write(self.file, bytes(needed + RESERVED_BYTES - self.reserved))
        self.reserved = needed + RESERVED_BYTES

    def append(self, x: Array, y: Array, purpose: str) -> None:
        """Write one record and wait until it is on the disk."""
        self._check_owner()
        numbers = x.astype("<f8").tobytes() + y.astype("<f8").tobytes()
        head = {"rows": len(x), "outputs": y.shape[1], "purpose": purpose}
        record = json.dumps({**head, "crc32": checksum(len(x), y.shape[1], purpose, numbers)}).encode() + b"\n" + numbers + b"\n"
        with _explain_errors(self.folder, self._truncate):
            self.file.seek(self.end)
            _write(self.file, record)
            os.fsync(self.file.fileno())
        self.end += len(record)
        self.reserved = max(self.reserved, self.end)

    def close(self) -> None:
        """Release the reserved space; in another process than that which opened the log, leave it as it is."""
        if not self.file.closed:
            self._truncate()
            self.file.close()

    def leave_to_owner(self) -> None:
        """Close the copy that a forked child has of the file: it would keep the lock when the parent has gone."""
        self.file.close()

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):
            self.close()

    def _truncate(self) -> None:
        if os.getpid() == self.owner:
            self.file.truncate(self.end)
            self.reserved = self.end

    def _check_owner(self) -> None:
        if os.getpid() != self.owner:
            raise InvalidInput(
                f"Process {os.getpid()} wants to write the log in {self.folder}, which process {self.owner} opened.",
                "Only one process knows where a log ends; two would overwrite each other's answers.",
                "Ask from the process that opened it, or give every process an Oracle and a log folder of its own.",
                path=str(self.folder), owner=self.owner)


_OPEN: WeakValueDictionary[Path, QueryLog] = WeakValueDictionary()


def _leave_open_logs() -> None:
    """In a forked child: no log is its own."""
    for log in list(_OPEN.values()):
        log.leave_to_owner()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_open_logs)


def _check_identity(path: Path, identity: dict[str, Any]) -> None:
    """Write the header; or raise InvalidInput if it has another identity. The link may change: answers are stored without it."""
    if path.exists():
        header = read_header(path)
        for name, value in identity.items():
            if name != "link" and header.get(name) != value:
                raise InvalidInput(
                    f"The log in {path.parent} has {name} {header.get(name)!r}, and now it is {value!r}.",
                    "Its answers belong to other queries, or to another model.",
                    f"Give another folder, or the same {name} as before.", name=name, was=header.get(name), now=value)
        if header == identity:
            return
    replace_file(path, (json.dumps(identity, indent=1) + "\n").encode())


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except NameError:
        return
    except OSError:
        raise InvalidInput(
            f"The log in {folder} is open in another process.", "Two writers would damage it.",
            "Wait for the other process, or give another folder.", path=str(folder)) from None


def _write(file: IO[bytes], numbers: bytes) -> None:
    """Write all bytes: an unbuffered file may take fewer at once."""
    left = memoryview(numbers)
    while left:
        left = left[file.write(left) :]


@contextlib.contextmanager
def _explain_errors(folder: Path, repair: Any = None) -> Iterator[None]:
    try:
        yield
    except LaybareError:
        raise
    except ValueError as error:
        raise InvalidInput(
            f"The log in {folder} was opened again ({error}).", "Only the Oracle that opened it last may write.",
            "Continue with that one.", path=str(folder)) from None
    except OSError as error:
        if repair is not None:
            with contextlib.suppress(OSError):
                repair()
        _refuse_write(folder, error)


def _refuse_write(folder: Path, error: OSError) -> NoReturn:
    raise BudgetExhausted(
        f"The log in {folder} cannot be written ({error.strerror or error}).",
        "An answer is used only once it is on the disk; those in the log are safe.",
        "Make room or give another folder, and call again: what is in the log is not asked again.", path=str(folder)) from None
