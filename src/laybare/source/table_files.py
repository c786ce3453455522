"""Tables with named columns: CSV text, and Parquet if pyarrow is installed. Some columns are outputs, all others are inputs."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import Stacked
from laybare.source.numpy_files import ArrayPair, refuse_pickle

CHUNK = 1 << 14
"""Rows that are parsed at a time: a few megabytes."""


def read_csv(path: Path, targets: Sequence[str]) -> ArrayPair:
    """Columns of numbers under a header; commas, semicolons or tabs between them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
            _check_header(path, names)
            outputs = target_columns(path, names, targets)
            return _stack((_parse(path, lines, names, delimiter) for lines in _chunks(file)), outputs, path)
    except UnicodeDecodeError as error:
        if path.read_bytes()[:1] == b"\x80":
            refuse_pickle(str(path))
        raise InvalidInput(
            f"{path} is no text ({error.reason} at byte {error.start}).", "A CSV file is UTF-8 text.",
            "Save it as CSV in UTF-8, or open it under its own ending.", path=str(path)) from None


def read_parquet(path: Path, targets: Sequence[str]) -> ArrayPair:
    """Numeric columns, batch by batch; a missing value becomes NaN, which Samples refuses by its row."""
    pyarrow, parquet = parquet_reader(path)
    try:
        with parquet.ParquetFile(path) as file:
            check_types(path, file.schema_arrow)
            outputs = target_columns(path, file.schema_arrow.names, targets)
            return _stack((_numbers(batch) for batch in file.iter_batches(CHUNK)), outputs, path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(
            f"{path} is no readable Parquet file ({error}).", "It is truncated, damaged or of another kind.",
            "Write it again.", path=str(path)) from None


def parquet_reader(path: Path) -> tuple[Any, Any]:
    """The packages that read Parquet files, or what to do about it."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InvalidInput(
            f"{path} is a Parquet file and pyarrow is not installed.", "It is needed to read it.",
            "Run pip install 'laybare[parquet]'.", path=str(path)) from None
    return pyarrow, parquet


def target_columns(path: Path, names: Sequence[str], targets: Sequence[str]) -> list[int]:
    """Places of the output columns; refuses a table without them, or without anything else."""
    missing = [target for target in targets if target not in names]
    if missing:
        raise InvalidInput(
            f"{path} has no column {missing[0]}.", f"Its columns are {', '.join(names[:20])}{', ...' * (len(names) > 20)}.",
            "Name the output columns with target=.", missing=missing, columns=list(names))
    if len(set(names)) == len(set(targets)):
        raise InvalidInput(
            f"{path} has only the target {', '.join(targets)}.", "There is no column left for the inputs.",
            "Give a file with input columns.", columns=list(names))
    return [names.index(target) for target in targets]


def _stack(chunks: Iterable[Array], outputs: list[int], path: Path) -> ArrayPair:
    """Inputs and outputs of all chunks; chunks stay where they are."""
    x, y = [], []
    for chunk in chunks:
        x.append(np.delete(chunk, outputs, axis=1))
        y.append(chunk[:, outputs] if len(outputs) > 1 else chunk[:, outputs[0]].copy())
    if not x:
        raise InvalidInput(
            f"{path} has a header and no rows.", "There is nothing to learn from.", "Give samples.", path=str(path))
    return ArrayPair(Stacked(x), Stacked(y))


def _check_header(path: Path, names: list[str]) -> None:
    if not any(names):
        raise InvalidInput(
            f"{path} is empty.", "Its first line should name the columns.", "Give a header and samples.", path=str(path))
    if all(_is_number(name) for name in names):
        raise InvalidInput(
            f"The first line of {path} holds numbers ({', '.join(names[:3])}, ...).", "It should name the columns.",
            "Add a header line, such as x1,x2,y.", path=str(path))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(
            f"{path} has several columns called {twice[0]!r}.", "Columns are told apart by name.", "Rename them.", columns=twice)


def _chunks(file: Iterable[str]) -> Iterable[list[str]]:
    """Non-empty lines, many at a time."""
    lines = (line for line in file if not line.isspace())
    while chunk := list(itertools.islice(lines, CHUNK)):
        yield chunk


def _parse(path: Path, lines: list[str], names: list[str], delimiter: str) -> Array:
    try:
        chunk = np.loadtxt(lines, delimiter=delimiter, comments=None, quotechar='"', ndmin=2)
    except ValueError as error:
        _find_bad_cell(path, names, delimiter, str(error))
    if chunk.shape[1] != len(names):
        _find_bad_cell(path, names, delimiter, f"{chunk.shape[1]} cells a line")
    return chunk


def _find_bad_cell(path: Path, names: list[str], delimiter: str, otherwise: str) -> NoReturn:
    """Read the file once more, slowly, and say where it goes wrong."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        next(reader)
        for cells in reader:
            if cells and len(cells) != len(names):
                raise InvalidInput(
                    f"Line {reader.line_num} of {path} has {len(cells)} cells and the header has {len(names)}.",
                    "Every row has one number a column.", "Mend that line.", line=reader.line_num)
            for name, cell in zip(names, cells, strict=False):
                if not _is_number(cell):
                    raise InvalidInput(
                        f"Line {reader.line_num} of {path} has {cell.strip()!r} in column {name}.", "That is no number.",
                        "Mend that cell, or leave out the column.", line=reader.line_num, column=name, cell=cell)
    raise InvalidInput(f"{path} cannot be read as a table of numbers ({otherwise}).", "Every cell must hold one.",
                       "Mend the file.", path=str(path))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def check_types(path: Path, schema: Any) -> None:
    """Refuse columns that hold no numbers."""
    from pyarrow import types

    for column in schema:
        if not (types.is_integer(column.type) or types.is_floating(column.type)):
            raise InvalidInput(
                f"Column {column.name} of {path} has type {column.type}.", "Inputs and outputs are numbers.",
                "Convert that column or leave it out.", column=column.name, type=str(column.type))


def _numbers(batch: Any) -> Array:
    return np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float64) for column in batch.columns])
