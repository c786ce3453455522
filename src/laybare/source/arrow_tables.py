"""Tables that pyarrow reads: Parquet, Feather and JSON lines. A missing value becomes NaN, for which Samples raises an error that
names the row."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_memory
from laybare.numerics.file_borders import check_regular, check_whole_file_fits, reading
from laybare.source.arrays import FILES, ArrayPair
from laybare.source.table_files import ColumnChoice, TableHeader, batch_values, choose_columns, stack_chunks


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
