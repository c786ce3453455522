"""Arrays that stay on disk: rows are read when they are needed, by whichever process needs them, and checked as they are read.

Nothing is mapped. So memory is what the blocks take, a file that is cut off while it is read is a sentence and not a crash, and
an object here is a path with a few numbers, which can be sent to a worker that sees the same files.
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
from laybare.shapes import Array
from laybare.source.arrays import DiskArray, Stacked


class Stamp(NamedTuple):
    """Size and time of the last change of a file: what is read later must be what was opened."""

    size: int
    changed: int

    @staticmethod
    def of(path: str) -> Stamp:
        """As it is now."""
        status = os.stat(path)
        return Stamp(status.st_size, status.st_mtime_ns)

    def check(self, path: str) -> None:
        """Refuse a file that has changed."""
        now = Stamp.of(path)
        if now != self:
            raise InvalidInput(
                f"{path} has changed since it was opened ({self.size} bytes then, {now.size} now).",
                "Passes over different rows do not add up to anything.", "Open it again, and leave it alone until the end.",
                path=path)


@dataclass(frozen=True)
class NpyRows(DiskArray):
    """An array in NumPy's format: rows in C order in one read, in Fortran order one read a column."""

    path: str
    offset: int
    lengths: tuple[int, ...]
    kind: str
    fortran: bool
    stamp: Stamp

    @property
    def name(self) -> str:
        return self.path

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lengths

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.kind)

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop as they lie there."""
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
    """Columns of one row group of a Parquet file. The last group that a thread has read is kept, since blocks are smaller."""

    path: str
    group: int
    columns: tuple[str, ...]
    flat: bool
    length: int
    stamp: Stamp

    @property
    def name(self) -> str:
        return f"Row group {self.group} of {self.path}"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,) if self.flat else (self.length, len(self.columns))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop."""
        held = _HELD.__dict__.setdefault("groups", {})
        if held.get(self.columns, (None,))[0] != (self.path, self.group, self.stamp):
            self.stamp.check(self.path)
            held[self.columns] = (self.path, self.group, self.stamp), self._decoded()
        values: Array = held[self.columns][1][start:stop]
        return values[:, 0] if self.flat else values

    def _decoded(self) -> Array:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            table = file.read_row_group(self.group, columns=list(self.columns))
        columns = [table.column(name).to_numpy().astype(np.float64) for name in self.columns]
        return np.column_stack(columns)


_HELD = threading.local()


@dataclass(frozen=True)
class ZarrRows(DiskArray):
    """An array of a Zarr group. A chunk that is not there is refused: Zarr would give its fill value, as if it were data."""

    path: str
    array: str
    lengths: tuple[int, ...]
    kind: str

    @property
    def name(self) -> str:
        return f"{self.path}: {self.array}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lengths

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.kind)

    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop."""
        opened = _zarr_array(self.path, self.array)
        for file in self._chunks(opened, start, stop):
            if not file.exists():
                raise InvalidInput(
                    f"The chunk {file} is not there.", "Zarr reads a missing chunk as if it were full of its fill value.",
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


def staying(array: Array | Stacked | DiskArray) -> Array | Stacked | DiskArray:
    """The same array, read instead of mapped, if it is a mapped file; others as they are."""
    return Stacked([_read_part(part) for part in array.parts]) if isinstance(array, Stacked) else _read_part(array)


def _read_part(array: Array | DiskArray) -> Array | DiskArray:
    if isinstance(array, DiskArray):
        return array
    mapped = array if isinstance(array, np.memmap) else array.base
    if not isinstance(mapped, np.memmap) or mapped.shape != array.shape or mapped.filename is None:
        return array
    path = str(mapped.filename)
    fortran = mapped.ndim > 1 and mapped.flags.f_contiguous and not mapped.flags.c_contiguous
    return NpyRows(path, int(mapped.offset), tuple(mapped.shape), mapped.dtype.str, fortran, Stamp.of(path))
