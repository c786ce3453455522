"""Arrays that stay on disk: NumPy files, directories of Parquet files with the same columns, Zarr groups.

Rows are read when they are needed, by the process that needs them, and checked. Nothing is memory-mapped: memory is that of the
blocks, a file truncated meanwhile raises an error and does not crash the process, and an object here is a path with a few
numbers, which can be sent to a worker that has access to the same files.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.file_borders import check_regular, reading
from laybare.numerics.shapes import Array
from laybare.source.arrays import AnyArray, ArrayPair, ColumnNames, DiskArray, StackedArrays
from laybare.source.arrow_tables import arrow_module, check_types
from laybare.source.table_files import ColumnChoice, choose_columns


class Stamp(NamedTuple):
    """Size and modification time of a file, to detect a change between opening and reading."""

    size: int
    modified: int

    @staticmethod
    def of(path: str) -> Stamp:
        """The current stamp."""
        status = os.stat(path)
        return Stamp(status.st_size, status.st_mtime_ns)

    def check(self, path: str) -> None:
        """Raise InvalidInput if the file has changed."""
        now = Stamp.of(path)
        if now != self:
            raise InvalidInput(
                f"{path} has changed since it was opened ({self.size} bytes then, {now.size} now).",
                "All passes must read the same rows.", "Open it again, and do not change it until the end.",
                path=path)


@dataclass(frozen=True)
class NpyRows(DiskArray):
    """An array in NumPy's format: rows in C order take one read, in Fortran order one read per column."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    stamp: Stamp

    @property
    def name(self) -> str:
        return self.path

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop as stored."""
        self.stamp.check(self.path)
        width, count = int(np.prod(self.shape[1:])), stop - start
        if not self.fortran or width == 1:
            return self._numbers(start * width, count * width).reshape(count, *self.shape[1:])
        columns = [self._numbers(column * self.shape[0] + start, count) for column in range(width)]
        return np.stack(columns, axis=1)

    def _numbers(self, first: int, count: int) -> Array:
        size = self.dtype.itemsize
        return np.fromfile(self.path, self.dtype, count, offset=self.offset + first * size)


@dataclass(frozen=True)
class ParquetGroup(DiskArray):
    """Columns of one row group of a Parquet file. Each thread keeps the last group it read, since blocks are smaller."""

    path: str
    group: int
    columns: tuple[str, ...]
    shape: tuple[int, ...]
    stamp: Stamp
    dtype: np.dtype[Any] = np.dtype(np.float64)

    @property
    def name(self) -> str:
        return f"Row group {self.group} of {self.path}"

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop."""
        held = _HELD.__dict__.setdefault("groups", {})
        if held.get(self.columns, (None,))[0] != (self.path, self.group, self.stamp):
            self.stamp.check(self.path)
            held[self.columns] = (self.path, self.group, self.stamp), self._decoded()
        values: Array = held[self.columns][1][start:stop]
        return values[:, 0] if self.ndim == 1 else values

    def _decoded(self) -> Array:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
            table = file.read_row_group(self.group, columns=list(self.columns))
        columns = [table.column(name).to_numpy().astype(np.float64) for name in self.columns]
        return np.column_stack(columns)


_HELD = threading.local()


@dataclass(frozen=True)
class ZarrRows(DiskArray):
    """An array of a Zarr group. A missing chunk is an error: Zarr would return its fill value as if it were data."""

    path: str
    array: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        return f"{self.path}: {self.array}"

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop."""
        opened = _zarr_array(self.path, self.array)
        for file in self._chunks(opened, start, stop):
            if not file.exists():
                raise InvalidInput(
                    f"The chunk {file} is missing.", "Zarr would read it as if it were filled with its fill value.",
                    "Write it again, or copy it again (with write_empty_chunks=True if it is really constant).", path=str(file))
        return np.asarray(opened[start:stop])

    def _chunks(self, opened: Any, start: int, stop: int) -> list[Path]:
        """Files of the chunks that hold these rows."""
        sizes = getattr(opened, "shards", None) or opened.chunks
        first, last = start // sizes[0], -(-stop // sizes[0])
        wide = -(-self.shape[1] // sizes[1]) if len(self.shape) == 2 else 1
        places = [(row, column)[: len(self.shape)] for row in range(first, last) for column in range(wide)]
        return [Path(self.path) / self.array / opened.metadata.encode_chunk_key(place) for place in places]


@lru_cache(maxsize=16)
def _zarr_array(path: str, array: str) -> Any:
    import zarr

    return zarr.open_group(path, mode="r")[array]


def read_without_mapping(array: AnyArray) -> AnyArray:
    """The same array, read from its file instead of memory-mapped; arrays that are not mapped are unchanged."""
    return StackedArrays([_read_part(part) for part in array.parts]) if isinstance(array, StackedArrays) else _read_part(array)


def _read_part(array: Array | DiskArray) -> Array | DiskArray:
    if isinstance(array, DiskArray):
        return array
    mapped = array if isinstance(array, np.memmap) else array.base
    if not isinstance(mapped, np.memmap) or mapped.shape != array.shape or mapped.filename is None:
        return array
    path = str(mapped.filename)
    fortran = mapped.ndim > 1 and mapped.flags.f_contiguous and not mapped.flags.c_contiguous
    return NpyRows(path, int(mapped.offset), tuple(mapped.shape), mapped.dtype, fortran, Stamp.of(path))


def is_dataset(path: Path) -> bool:
    """Whether there are Parquet files in this directory or below."""
    return next(path.rglob("*.parquet"), None) is not None


def is_zarr(path: Path) -> bool:
    """Whether this directory is a Zarr group, of format 2 or 3."""
    return any((path / name).is_file() for name in (".zgroup", "zarr.json"))


def read_dataset(path: Path, wanted: ColumnChoice) -> ArrayPair:
    """All Parquet files of a directory, sorted by name, by row groups; only their metadata are read here."""
    parquet = arrow_module("parquet", path)
    x: list[ParquetGroup] = []
    y: list[ParquetGroup] = []
    names: list[str] = []
    columns = ColumnNames()
    for file in sorted(path.rglob("*.parquet")):
        check_regular(file)
        with reading(file, "Parquet file", "Write it again."), parquet.ParquetFile(file) as opened:
            schema, groups = opened.schema_arrow, range(opened.num_row_groups)
            lengths = [opened.metadata.row_group(group).num_rows for group in groups]
        names = names or list(schema.names)
        _check_names(file, list(schema.names), names)
        columns = choose_columns(file, names, wanted).columns
        check_types(file, [column for column in schema if column.name in (*columns.inputs, *columns.outputs)])
        for part, read, flat in ((x, columns.inputs, False), (y, columns.outputs, len(columns.outputs) == 1)):
            part += _groups(file, list(read), flat, lengths)
    if not x:
        raise InvalidInput(f"{path} has no rows.", "There are no samples.", "Give samples.", path=str(path))
    return ArrayPair(StackedArrays(x), StackedArrays(y), columns)


def read_zarr(path: Path, target: str) -> ArrayPair:
    """Arrays `x` and `target` of a Zarr group."""
    try:
        import zarr
    except ImportError:
        raise InvalidInput(
            f"{path} is a Zarr group and zarr is not installed.", "It is needed to read it.",
            "Run pip install 'laybare[zarr]'.", path=str(path)) from None
    with reading(path, "Zarr group", "Write it again."):
        group = zarr.open_group(str(path), mode="r")
        arrays: dict[str, Any] = dict(group.arrays())
    missing = [name for name in ("x", target) if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or '(none)'}.",
            f"The inputs x and the target {target} are needed.",
            "Name the outputs with target=, and call the inputs x.", arrays=sorted(arrays), target=target)
    x, y = (ZarrRows(str(path), name, tuple(arrays[name].shape), np.dtype(arrays[name].dtype)) for name in ("x", target))
    return ArrayPair(x, y)


def _groups(file: Path, columns: list[str], flat: bool, lengths: list[int]) -> list[ParquetGroup]:
    stamp = Stamp.of(str(file))
    return [
        ParquetGroup(str(file), group, tuple(columns), (length,) if flat else (length, len(columns)), stamp)
        for group, length in enumerate(lengths) if length]


def _check_names(file: Path, found: list[str], names: list[str]) -> None:
    if found != names:
        raise InvalidInput(
            f"{file} has the columns {', '.join(found[:20])}; the first file has {', '.join(names[:20])}.",
            "Files of one data set have the same columns.", "Write that file again, or move it elsewhere.", path=str(file))
