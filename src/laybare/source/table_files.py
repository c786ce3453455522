"""Tables with named columns: CSV and TSV text, compressed or not, and Parquet if pyarrow is installed.

Some columns are outputs, some may be left out, all others are inputs.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import Stacked
from laybare.source.columns import Columns
from laybare.source.numpy_files import ArrayPair, refuse_pickle

CHUNK = 1 << 14
"""Rows that are parsed at a time: a few megabytes."""

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
"""Endings that stand after that of the table, and the module that opens them."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""Cells that hold nothing, in small letters."""


class ColumnChoice(NamedTuple):
    """Which columns are outputs, which are left out, and whether rows with missing cells are."""

    targets: Sequence[str]
    dropped: Sequence[str] = ()
    drop_missing: bool = False


class Header(NamedTuple):
    """The columns of a file: all of them, those that are read, what stands between them; which of those read are outputs."""

    names: list[str]
    kept: list[int]
    outputs: list[int]
    delimiter: str = ","

    @property
    def columns(self) -> Columns:
        read = [self.names[i] for i in self.kept]
        return Columns(
            tuple(name for i, name in enumerate(read) if i not in self.outputs), tuple(read[i] for i in self.outputs))


def read_csv(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """Columns of numbers under a header; commas, semicolons or tabs between them, gzip, bzip2 or xz around them."""
    try:
        with _opened(path) as file:
            line = file.readline()
            delimiter = "\t" if ".tsv" in path.suffixes else max(",;\t", key=line.count)
            names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
            _check_header(path, names)
            header = chosen(path, names, wanted)._replace(delimiter=delimiter)
            return _stack((_parse(path, lines, header, wanted) for lines in _chunks(file)), header, path)
    except UnicodeDecodeError as error:
        if path.read_bytes()[:1] == b"\x80":
            refuse_pickle(str(path))
        raise InvalidInput(
            f"{path} is no text ({error.reason} at byte {error.start}).", "A CSV file is UTF-8 text.",
            "Save it as CSV in UTF-8, or open it under its own ending.", path=str(path)) from None
    except (EOFError, ArithmeticError, ValueError, OSError) as error:
        if isinstance(error, InvalidInput) or path.suffix.lower() not in COMPRESSED:
            raise
        raise InvalidInput(
            f"{path} is no readable {path.suffix[1:]} file ({error}).", "It is truncated, damaged or of another kind.",
            "Compress it again, or give the table as it is.", path=str(path)) from None


def _opened(path: Path) -> TextIOWrapper:
    """The table as text, unpacked if its ending says so."""
    if path.suffix.lower() not in COMPRESSED:
        return path.open(encoding="utf-8-sig", newline="")
    unpack: Callable[..., Any] = import_module(COMPRESSED[path.suffix.lower()]).open
    return cast(TextIOWrapper, unpack(path, "rt", encoding="utf-8-sig", newline=""))


def read_parquet(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """Numeric columns, batch by batch; a missing value becomes NaN, which Samples refuses by its row."""
    pyarrow, parquet = parquet_reader(path)
    try:
        with parquet.ParquetFile(path) as file:
            header = chosen(path, file.schema_arrow.names, wanted)
            read = [header.names[i] for i in header.kept]
            check_types(path, [column for column in file.schema_arrow if column.name in read])
            return _stack((_numbers(batch) for batch in file.iter_batches(CHUNK, columns=read)), header, path)
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


def chosen(path: Path, names: Sequence[str], wanted: ColumnChoice) -> Header:
    """Which columns are read, and which of those are outputs; refuses a table without them, or without anything else."""
    for asked, option in ((wanted.targets, "target="), (wanted.dropped, "drop=")):
        missing = [name for name in asked if name not in names]
        if missing:
            raise InvalidInput(
                f"{path} has no column {missing[0]}.", f"Its columns are {', '.join(names[:20])}{', ...' * (len(names) > 20)}.",
                f"Name {'the output columns' if option == 'target=' else 'columns that are there'} with {option}.",
                missing=missing, columns=list(names))
    kept = [i for i, name in enumerate(names) if name not in wanted.dropped or name in wanted.targets]
    if len(kept) == len(set(wanted.targets)):
        raise InvalidInput(
            f"{path} has only the target {', '.join(wanted.targets)}.", "There is no column left for the inputs.",
            "Give a file with input columns.", columns=list(names))
    return Header(list(names), kept, [kept.index(names.index(target)) for target in wanted.targets])


def _stack(chunks: Iterable[Array], header: Header, path: Path) -> ArrayPair:
    """Inputs and outputs of all chunks; chunks stay where they are."""
    x, y, outputs = [], [], header.outputs
    for chunk in chunks:
        x.append(np.delete(chunk, outputs, axis=1))
        y.append(chunk[:, outputs] if len(outputs) > 1 else chunk[:, outputs[0]].copy())
    if not x:
        raise InvalidInput(
            f"{path} has a header and no rows.", "There is nothing to learn from.", "Give samples.", path=str(path))
    return ArrayPair(Stacked(x), Stacked(y), header.columns)


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


def _parse(path: Path, lines: list[str], header: Header, wanted: ColumnChoice) -> Array:
    """Numbers of the columns that are read. Where all are and none is missing, NumPy reads the text by itself."""
    try:
        if len(header.kept) < len(header.names) or wanted.drop_missing:
            return _cell_by_cell(lines, header, missing=wanted.drop_missing)
        chunk = np.loadtxt(lines, delimiter=header.delimiter, comments=None, quotechar='"', ndmin=2)
    except (ValueError, IndexError) as error:
        _find_bad_cell(path, header, str(error), missing=wanted.drop_missing)
    if chunk.shape[1] != len(header.names):
        _find_bad_cell(path, header, f"{chunk.shape[1]} cells a line", missing=False)
    return chunk


def _cell_by_cell(lines: list[str], header: Header, *, missing: bool) -> Array:
    rows = []
    for cells in csv.reader(lines, delimiter=header.delimiter):
        if len(cells) != len(header.names):
            raise ValueError(f"{len(cells)} cells")
        read = [cells[i] for i in header.kept]
        rows.append(["nan" if missing and cell.strip().lower() in MISSING else cell for cell in read])
    return np.array(rows, dtype=np.float64)


def _find_bad_cell(path: Path, header: Header, otherwise: str, *, missing: bool) -> NoReturn:
    """Read the file once more, slowly, and say where it goes wrong."""
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=header.delimiter)
        next(reader)
        for cells in reader:
            if cells and len(cells) != len(header.names):
                raise InvalidInput(
                    f"Line {reader.line_num} of {path} has {len(cells)} cells and the header has {len(header.names)}.",
                    "Every row has one number a column.", "Mend that line.", line=reader.line_num)
            for i in header.kept if cells else ():
                _check_cell(path, reader.line_num, header.names[i], cells[i], missing=missing)
    raise InvalidInput(f"{path} cannot be read as a table of numbers ({otherwise}).", "Every cell must hold one.",
                       "Mend the file.", path=str(path))


def _check_cell(path: Path, line: int, name: str, cell: str, *, missing: bool) -> None:
    empty = cell.strip().lower() in MISSING
    if _is_number(cell) or (missing and empty):
        return
    do = "Fill it in, or leave out such rows with drop_missing=True." if empty else (
        f"Mend that cell, or leave out the column with drop={name!r}.")
    raise InvalidInput(
        f"Line {line} of {path} has {cell.strip()!r} in column {name}.", "That is no number.", do, line=line, column=name,
        cell=cell)


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
