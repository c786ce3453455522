"""Tables with named columns: CSV and TSV, compressed or not, and what pyarrow reads.

Some columns are outputs, some may be dropped, all others are inputs; the choice is made here for tables of every kind.

A file is read by pyarrow where it is installed (half of NumPy's time), else by NumPy. What pyarrow does not take is read again
cell by cell, so that the error names the cell.

Tables that pyarrow reads: Parquet, Feather and JSON lines. A missing value becomes NaN, for which Samples raises an error that
names the row.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_memory
from laybare.numerics.file_borders import check_regular, check_whole_file_fits, reading, refuse_pickle
from laybare.numerics.shapes import Array
from laybare.source.samples import FILES, ArrayPair, ColumnNames, StackedArrays

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
"""Endings of compressed tables, and the module that opens them."""

MAX_LINE_CHARACTERS = 1 << 26
"""Characters of a line. Convention: 64 million, three million numbers; a file that has no line breaks ends here."""

INDEX_NAME = re.compile(r"Unnamed: \d+|__index_level_\d+__")
"""What pandas calls an index without a name."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""Cells without a value, in lower case."""


class ColumnChoice(NamedTuple):
    """Which columns are outputs, which are dropped, and whether rows with missing values are dropped."""

    targets: Sequence[str]
    dropped: Sequence[str] = ()
    drop_missing: bool = False


class TableHeader(NamedTuple):
    """The columns of a file, which are read, which of these are outputs, the delimiter and the decimal mark."""

    names: list[str]
    kept: list[int]
    outputs: list[int]
    delimiter: str = ","
    decimal: str = "."

    @property
    def columns(self) -> ColumnNames:
        read = [self.names[i] for i in self.kept]
        return ColumnNames(
            tuple(name for i, name in enumerate(read) if i not in self.outputs), tuple(read[i] for i in self.outputs))

    def number(self, cell: str) -> str:
        """The cell with a decimal point."""
        return cell if self.decimal == "." else cell.replace(self.decimal, ".")


def read_csv(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """Numeric columns under a header, delimited by commas, semicolons or tabs, optionally compressed by gzip, bzip2 or xz."""
    check_regular(path)
    again = "Write it again as UTF-8 text with a header, compressed or not."
    with reading(path, "table", again), _text_errors(path), _opened(path) as file:
        line = _first_line(path, file)
        delimiter = "\t" if ".tsv" in path.suffixes else max(",;\t", key=line.count)
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
        _check_header(path, names)
        header = choose_columns(path, names, wanted)._replace(delimiter=delimiter)
        start = file.readline(MAX_LINE_CHARACTERS)
        header = header._replace(decimal=_decimal_mark(start, header))
        lines = _chunks(path, itertools.chain([start] if start else [], _lines(file)))
        chunks = _parsed_by_arrow(path, header, wanted) or (_parse(path, chunk, header, wanted) for chunk in lines)
        return stack_chunks(chunks, header, path)


def _decimal_mark(line: str, header: TableHeader) -> str:
    """A comma if a cell that is read is a number with a decimal comma: 0,5."""
    cells = next(csv.reader([line], delimiter=header.delimiter), [])
    commas = header.delimiter != "," and any("," in cell and _is_number(cell.replace(",", ".")) for cell in cells)
    return "," if commas else "."


def _parsed_by_arrow(path: Path, header: TableHeader, wanted: ColumnChoice) -> list[Array] | None:
    """All rows, or nothing if pyarrow is not installed or does not take the file."""
    try:
        import pyarrow
        from pyarrow import csv as tables
    except ImportError:
        return None
    read = [header.names[i] for i in header.kept]
    missing = [form for word in MISSING for form in {word, word.upper(), word.capitalize(), "NaN"}] if wanted.drop_missing else []
    try:
        with _opened(path) as file:
            batches = tables.open_csv(
                file.buffer,
                tables.ReadOptions(column_names=header.names, skip_rows=1),
                tables.ParseOptions(delimiter=header.delimiter),
                tables.ConvertOptions(
                    column_types=dict.fromkeys(read, pyarrow.float64()), include_columns=read, null_values=missing,
                    decimal_point=header.decimal))
            return [batch_values(batch) for batch in batches]
    except pyarrow.ArrowException:
        return None


@contextmanager
def _text_errors(path: Path) -> Iterator[None]:
    """Sentences for what is no text."""
    try:
        yield
    except UnicodeDecodeError as error:
        with path.open("rb") as file:
            if file.read(1) == b"\x80":
                refuse_pickle(str(path))
        raise InvalidInput(
            f"{path} is not text ({error.reason} at byte {error.start}).", "A CSV file is UTF-8 text.",
            "Save it as CSV in UTF-8, or open it under its own ending.", path=str(path)) from None


def _first_line(path: Path, file: TextIOWrapper) -> str:
    line = file.readline(MAX_LINE_CHARACTERS)
    _check_line(path, line)
    return line


def _check_line(path: Path, line: str) -> None:
    if len(line) >= MAX_LINE_CHARACTERS:
        raise InvalidInput(
            f"{path} has a line of more than {MAX_LINE_CHARACTERS:,} characters.", "A line is one row of numbers.",
            "Write one row per line.", path=str(path))


def _opened(path: Path) -> TextIOWrapper:
    """The table as text, decompressed if its ending says so."""
    if path.suffix.lower() not in COMPRESSED:
        return path.open(encoding="utf-8-sig", newline="")
    unpack: Callable[..., Any] = import_module(COMPRESSED[path.suffix.lower()]).open
    return cast(TextIOWrapper, unpack(path, "rt", encoding="utf-8-sig", newline=""))


def choose_columns(path: Path, names: Sequence[str], wanted: ColumnChoice) -> TableHeader:
    """Which columns are read, and which of those are outputs; raises InvalidInput if there are no outputs or no inputs."""
    _check_names(path, names, wanted)
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
    return TableHeader(list(names), kept, [kept.index(names.index(target)) for target in wanted.targets])


def stack_chunks(chunks: Iterable[Array], header: TableHeader, path: Path) -> ArrayPair:
    """Inputs and outputs of all chunks, not concatenated."""
    x, y, outputs = [], [], header.outputs
    for chunk in chunks:
        x.append(np.delete(chunk, outputs, axis=1))
        y.append(chunk[:, outputs[0]].copy() if len(outputs) == 1 else chunk[:, outputs])
    if not x:
        raise InvalidInput(
            f"{path} has a header and no rows.", "There are no samples.", "Give samples.", path=str(path))
    return ArrayPair(StackedArrays(x), StackedArrays(y), header.columns)


def _check_header(path: Path, names: list[str]) -> None:
    if not any(names):
        raise InvalidInput(
            f"{path} is empty.", "Its first line should name the columns.", "Give a header and samples.", path=str(path))
    if all(_is_number(name) for name in names):
        raise InvalidInput(
            f"The first line of {path} holds numbers ({', '.join(names[:3])}, ...).", "It should name the columns.",
            "Add a header line, such as x1,x2,y.", path=str(path))


def _check_names(path: Path, names: Sequence[str], wanted: ColumnChoice) -> None:
    """Every column has a name of its own; an index that pandas wrote is no input."""
    counts = Counter(names)
    twice = sorted(name for name in counts if counts[name] > 1 and name)
    if twice:
        raise InvalidInput(
            f"{path} has several columns called {twice[0]!r}.", "Columns are identified by name.", "Rename them.", columns=twice)
    unnamed = [i for i, name in enumerate(names) if not name or (INDEX_NAME.fullmatch(name) and name not in wanted.dropped)]
    if unnamed:
        raise InvalidInput(
            f"Column {unnamed[0] + 1} of {path} is {'an index' if names[unnamed[0]] else 'without a name'}.",
            "It is most likely the index of a data frame, and would be taken for an input.",
            "Write the table without it (index=False in pandas), or name it in the first line.", column=unnamed[0])


def _lines(file: TextIOWrapper) -> Iterator[str]:
    return iter(partial(file.readline, MAX_LINE_CHARACTERS), "")


def _chunks(path: Path, lines: Iterable[str]) -> Iterable[list[str]]:
    """Non-empty lines, in chunks."""
    filled = (line for line in lines if not line.isspace())
    while chunk := list(itertools.islice(filled, FILES.chunk_rows)):
        _check_line(path, max(chunk, key=len))
        yield chunk


def _parse(path: Path, lines: list[str], header: TableHeader, wanted: ColumnChoice) -> Array:
    """Values of the columns that are read; by NumPy if all columns are read, none may miss a value and decimals have a point."""
    try:
        if len(header.kept) < len(header.names) or wanted.drop_missing or header.decimal != ".":
            return _cell_by_cell(lines, header, missing=wanted.drop_missing)
        chunk = np.loadtxt(lines, delimiter=header.delimiter, comments=None, quotechar='"', ndmin=2)
    except (ValueError, IndexError) as error:
        _find_bad_cell(path, header, str(error), missing=wanted.drop_missing)
    if chunk.shape[1] != len(header.names):
        _find_bad_cell(path, header, f"{chunk.shape[1]} cells per line", missing=False)
    return chunk


def _cell_by_cell(lines: list[str], header: TableHeader, *, missing: bool) -> Array:
    rows = []
    for cells in csv.reader(lines, delimiter=header.delimiter):
        if len(cells) != len(header.names):
            raise ValueError(f"{len(cells)} cells")
        read = [header.number(cells[i]) for i in header.kept]
        rows.append(["nan" if missing and cell.strip().lower() in MISSING else cell for cell in read])
    return np.array(rows, dtype=np.float64)


def _find_bad_cell(path: Path, header: TableHeader, otherwise: str, *, missing: bool) -> NoReturn:
    """Read the file again cell by cell and raise an error that names the bad one."""
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=header.delimiter)
        next(reader)
        for cells in reader:
            if cells and len(cells) != len(header.names):
                raise InvalidInput(
                    f"Line {reader.line_num} of {path} has {len(cells)} cells and the header has {len(header.names)}.",
                    "Every row has one number per column.", "Correct that line.", line=reader.line_num)
            for i in header.kept if cells else ():
                _check_cell(path, reader.line_num, header, i, cells[i], missing=missing)
    raise InvalidInput(f"{path} cannot be read as a table of numbers ({otherwise}).", "Every cell must hold a number.",
                       "Correct the file.", path=str(path))


def _check_cell(path: Path, line: int, header: TableHeader, column: int, cell: str, *, missing: bool) -> None:
    empty, name = cell.strip().lower() in MISSING, header.names[column]
    if _is_number(header.number(cell)) or (missing and empty):
        return
    remedy = f"Correct that cell, or leave out the column with drop={name!r}."
    if header.kept.index(column) in header.outputs:
        remedy = 'Outputs are numbers: write the names of two classes as 0 and 1, and fit them with loss="bernoulli".'
    if empty:
        remedy = "Fill it in, or leave out such rows with drop_missing=True."
    raise InvalidInput(
        f"Line {line} of {path} has {cell.strip()!r} in column {name}.", "That is not a number.", remedy, line=line, column=name,
        cell=cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def batch_values(batch: Any) -> Array:
    """The columns of a batch of pyarrow side by side; missing values are NaN."""
    return np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float64) for column in batch.columns])


def read_parquet(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """Numeric columns of a Parquet file, batch by batch."""
    check_regular(path)
    parquet = arrow_module("parquet", path)
    with reading(path, "Parquet file", "Write it again."), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        check_memory(f"{path}, {file.metadata.num_rows:,} rows", file.metadata.num_rows * file.metadata.num_columns)
        header, read = _choose(path, file.schema_arrow, wanted)
        return stack_chunks(
            (batch_values(batch) for batch in file.iter_batches(FILES.chunk_rows, columns=read)), header, path)


def read_feather(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """Numeric columns of a Feather file (an Arrow file)."""
    check_whole_file_fits(path)
    feather = arrow_module("feather", path)
    with reading(path, "Feather file", "Write it again."):
        return _from_table(path, feather.read_table(path, memory_map=False), wanted)


def read_json_lines(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """Numeric columns of a file with one JSON object per line."""
    check_whole_file_fits(path)
    json = arrow_module("json", path)
    with reading(path, "file of JSON lines", 'Write one object per line, such as {"x1": 0.5, "y": 1.0}.'):
        return _from_table(path, json.read_json(path), wanted)


def arrow_module(name: str, path: Path) -> Any:
    """A part of pyarrow; an error says how to install it."""
    try:
        return import_module(f"pyarrow.{name}")
    except ImportError:
        raise InvalidInput(
            f"{path} is a table of pyarrow, which is not installed.", "It is needed to read it.",
            "Run pip install 'laybare[parquet]', or save the table as CSV.", path=str(path)) from None


def _from_table(path: Path, table: Any, wanted: ColumnChoice) -> ArrayPair:
    header, read = _choose(path, table.schema, wanted)
    return stack_chunks((batch_values(batch) for batch in table.select(read).to_batches(FILES.chunk_rows)), header, path)


def _choose(path: Path, schema: Any, wanted: ColumnChoice) -> tuple[TableHeader, list[str]]:
    """Which columns are read, and their names; raises InvalidInput for those that do not hold numbers."""
    header = choose_columns(path, schema.names, wanted)
    read = [header.names[i] for i in header.kept]
    check_types(path, [column for column in schema if column.name in read])
    return header, read


def check_types(path: Path, schema: Iterable[Any]) -> None:
    """Raise InvalidInput for columns that do not hold numbers."""
    from pyarrow import types

    for column in schema:
        if not (types.is_integer(column.type) or types.is_floating(column.type)):
            raise InvalidInput(
                f"Column {column.name} of {path} has type {column.type}.", "Inputs and outputs are numbers.",
                "Convert that column; leave it out with drop= if it is no output.", column=column.name, type=str(column.type))
