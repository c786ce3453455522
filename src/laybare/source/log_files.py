"""Logs of what a black box was asked, as they lie on disk.

A log is a folder with two files.

    log.json       what was asked: format, model, dim, seed, law, box, link; plain JSON
    answers.log    records, one after another: a line of JSON, then numbers, then a line break

The line says {"rows": n, "outputs": m, "purpose": "...", "crc32": "8 hex digits"}. After it come n*dim inputs and n*m answers as
the black box gave them (before any link): little-endian float64, row by row. The checksum is zlib.crc32 of the text
"rows outputs purpose" and those bytes. Zeros at the end of the file are room that was reserved and not used.

Nothing is ever changed or taken out. A record that was being written when the process died is dropped when the log is opened
again; one that is damaged further up makes the log unreadable, and is named.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import Stacked
from laybare.source.links import link_named
from laybare.source.numpy_files import ArrayPair

FORMAT = 1
HEADER, ANSWERS = "log.json", "answers.log"


class Record(NamedTuple):
    """Points (n, dim) that were asked together, the answers (n, outputs), what for, and where the record ends."""

    x: Array
    y: Array
    purpose: str
    end: int


def read_records(path: Path, dim: int) -> Iterator[Record]:
    """The records of a file, up to the first that was not finished; refuses one that is damaged and not the last."""
    with path.open("rb") as file:
        begin = 0
        while line := file.readline(1 << 16):
            record = _record(line, file, dim)
            if record is None:
                _check_torn(path, file, begin)
                return
            yield record
            begin = record.end


def read_log(path: Path, target: str) -> ArrayPair:
    """A log as samples: inputs, and what its link makes of the answers. `target` is y."""
    header = read_header(path / HEADER)
    records = list(read_records(path / ANSWERS, int(header["dim"]))) if (path / ANSWERS).exists() else []
    if not records:
        raise InvalidInput(f"The log {path} has no answers yet.", "There is nothing to open.", "Ask first.", path=str(path))
    link = link_named(header["link"])
    outputs = [link(record.y) for record in records]
    usable = [np.isfinite(y).all(axis=1) for y in outputs]
    return ArrayPair(
        Stacked([record.x[rows] for record, rows in zip(records, usable, strict=True)]),
        Stacked([y[rows] for y, rows in zip(outputs, usable, strict=True)]))


def is_log(path: Path) -> bool:
    """Whether this folder is a log."""
    return (path / HEADER).is_file()


def _record(line: bytes, file: IO[bytes], dim: int) -> Record | None:
    """The record that begins with this line; None if it is not whole."""
    try:
        told = json.loads(line)
        rows, outputs, purpose = int(told["rows"]), int(told["outputs"]), str(told["purpose"])
        numbers = file.read(8 * rows * (dim + outputs))
        whole = told["crc32"] == checksum(rows, outputs, purpose, numbers) and file.read(1) == b"\n"
    except (ValueError, KeyError, TypeError, OverflowError, MemoryError):
        return None
    if not whole:
        return None
    both = np.frombuffer(numbers, "<f8").astype(np.float64, copy=False)
    return Record(both[: rows * dim].reshape(rows, dim), both[rows * dim :].reshape(rows, outputs), purpose, file.tell())


def _check_torn(path: Path, file: IO[bytes], begin: int) -> None:
    file.seek(begin)
    if b'\n{"rows": ' in file.read():
        raise InvalidInput(
            f"The record at byte {begin} of {path} fails its checksum, and others follow it.",
            "The file was changed or damaged after it was written.",
            "Restore it from a copy, or cut it off at that byte and ask the rest again.", path=str(path), byte=begin)


def checksum(rows: int, outputs: int, purpose: str, numbers: bytes) -> str:
    """Of a record."""
    return f"{zlib.crc32(numbers, zlib.crc32(f'{rows} {outputs} {purpose}'.encode())):08x}"


def read_header(path: Path) -> dict[str, Any]:
    """What the log was made for; refuses other formats."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(told, dict) and told.get("format") == FORMAT:
            return told
        found = f"is of format {told.get('format')!r}" if isinstance(told, dict) else "is no log"
    except ValueError as error:
        found = f"cannot be read ({error})"
    raise InvalidInput(
        f"{path} {found}.", f"This version reads format {FORMAT}.", "Give another folder, or the version that wrote it.",
        path=str(path))
