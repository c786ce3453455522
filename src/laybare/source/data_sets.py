"""Directories that hold one data set and stay on disk: Parquet files with the same columns, Zarr groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laybare.errors import InvalidInput
from laybare.source.arrays import Stacked
from laybare.source.columns import Columns
from laybare.source.disk_arrays import ParquetGroup, Stamp, ZarrRows
from laybare.source.numpy_files import ArrayPair
from laybare.source.table_files import ColumnChoice, check_types, chosen, parquet_reader


def is_dataset(path: Path) -> bool:
    """Whether there are Parquet files in this directory or below."""
    return next(path.rglob("*.parquet"), None) is not None


def is_zarr(path: Path) -> bool:
    """Whether this directory is a Zarr group, of format 2 or 3."""
    return any((path / name).is_file() for name in (".zgroup", "zarr.json"))


def read_dataset(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """All Parquet files of a directory, in the order of their names, row group by row group; only their ends are read here."""
    pyarrow, parquet = parquet_reader(path)
    x: list[ParquetGroup] = []
    y: list[ParquetGroup] = []
    names: list[str] = []
    columns = Columns()
    for file in sorted(path.rglob("*.parquet")):
        try:
            with parquet.ParquetFile(file) as opened:
                schema, groups = opened.schema_arrow, range(opened.num_row_groups)
                lengths = [opened.metadata.row_group(group).num_rows for group in groups]
        except (pyarrow.ArrowException, OSError) as error:
            raise InvalidInput(
                f"{file} is no readable Parquet file ({error}).", "It is truncated, damaged or of another kind.",
                "Write it again.", path=str(file)) from None
        names = names or list(schema.names)
        _check_names(file, list(schema.names), names)
        columns = chosen(file, names, wanted).columns
        check_types(file, [column for column in schema if column.name in (*columns.inputs, *columns.outputs)])
        for part, read, flat in ((x, columns.inputs, False), (y, columns.outputs, len(columns.outputs) == 1)):
            part += _groups(file, list(read), flat, lengths)
    if not x:
        raise InvalidInput(f"{path} has no rows.", "There is nothing to learn from.", "Give samples.", path=str(path))
    return ArrayPair(Stacked(x), Stacked(y), columns)


def read_zarr(path: Path, target: str) -> ArrayPair:
    """Arrays `x` and `target` of a Zarr group."""
    try:
        import zarr
    except ImportError:
        raise InvalidInput(
            f"{path} is a Zarr group and zarr is not installed.", "It is needed to read it.",
            "Run pip install 'laybare[zarr]'.", path=str(path)) from None
    try:
        group = zarr.open_group(str(path), mode="r")
        arrays: dict[str, Any] = dict(group.arrays())
    except Exception as error:  # a damaged header makes Zarr stumble in many ways
        raise InvalidInput(
            f"{path} is no readable Zarr group ({type(error).__name__}: {error}).", "It is damaged or of another kind.",
            "Write it again.", path=str(path)) from None
    missing = [name for name in ("x", target) if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or '(none)'}.",
            f"The inputs x and the target {target} are needed.",
            "Name the outputs with target=, and call the inputs x.", arrays=sorted(arrays), target=target)
    x, y = (ZarrRows(str(path), name, tuple(arrays[name].shape), arrays[name].dtype.str) for name in ("x", target))
    return ArrayPair(x, y)


def _groups(file: Path, columns: list[str], flat: bool, lengths: list[int]) -> list[ParquetGroup]:
    stamp = Stamp.of(str(file))
    return [
        ParquetGroup(str(file), group, tuple(columns), flat, length, stamp) for group, length in enumerate(lengths) if length]


def _check_names(file: Path, found: list[str], names: list[str]) -> None:
    if found != names:
        raise InvalidInput(
            f"{file} has the columns {', '.join(found[:20])}; the first file has {', '.join(names[:20])}.",
            "Files of one data set have the same columns.", "Write that file again, or move it elsewhere.", path=str(file))
