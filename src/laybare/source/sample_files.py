"""Samples from files and directories, by their ending; arrays that stay on disk.

Uncompressed arrays are memory-mapped, after their checksum was compared; nothing is unpickled (`numerics.file_borders`).

Arrays that stay on disk: NumPy files, directories of Parquet files with the same columns, Zarr groups.

Rows are read when they are needed, by the process that needs them, and checked. Nothing is memory-mapped: memory is that of the
blocks, a file truncated meanwhile raises an error and does not crash the process, and an object here is a path with a few
numbers, which can be sent to a worker that has access to the same files.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_flag, check_instance, check_path, show_value
from laybare.numerics.file_borders import check_regular, map_array, open_archive, reading
from laybare.numerics.redaction import redact
from laybare.numerics.shapes import Array
from laybare.source.laws import Gaussian
from laybare.source.oracle.log import is_log, read_log
from laybare.source.protocol import Law
from laybare.source.samples import (
    AnyArray,
    ArrayPair,
    ColumnNames,
    DiskArray,
    Samples,
    StackedArrays,
    check_shapes,
    drop_incomplete_rows,
)
from laybare.source.sums import Schedule
from laybare.source.table_files import (
    COMPRESSED,
    ColumnChoice,
    arrow_module,
    check_types,
    choose_columns,
    read_csv,
    read_feather,
    read_json_lines,
    read_parquet,
)


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


def read_npz(path: Path, target: str) -> ArrayPair:
    """Arrays `x` and `target` of an archive; if there is no `x`, the only other array."""
    with open_archive(path, "Write it again with numpy.savez(path, x=x, y=y).") as archive:
        x, y = _choose(path, list(archive.members), target)
        return ArrayPair(archive.map(x), archive.map(y))


def read_blocks(path: Path, target: str) -> ArrayPair:
    """A directory with x.npy and <target>.npy, or blocks x_000.npy, <target>_000.npy, ..., mapped and stacked in order.

    Or folders x and <target> with blocks 0.npy, 1.npy, ... (Dask's npy stacks; their pickled `info` is not read).
    """
    stacks = path / "x", path / target
    folders = all(folder.is_dir() for folder in stacks)
    inputs, outputs = (_stack_blocks(folder) for folder in stacks) if folders else (_blocks(path, "x"), _blocks(path, target))
    if not inputs or inputs.keys() != outputs.keys():
        odd = sorted(inputs.keys() ^ outputs.keys())
        raise InvalidInput(
            f"The directory {path} has {len(inputs)} blocks of x and {len(outputs)} of {target}"
            + (f"; block {odd[0] or 'without a number'} has no partner." if odd else "."),
            f"The rows of x_000.npy correspond to those of {target}_000.npy, and so on.",
            "Give every block of inputs its block of outputs.", path=str(path), unpaired=odd)
    order = sorted(inputs, key=lambda number: (len(number.lstrip("0")), number.lstrip("0")))
    pairs = [ArrayPair(map_array(inputs[number]), map_array(outputs[number])) for number in order]
    for number, (x, y, _) in zip(order, pairs, strict=True):
        if x.ndim == 0 or y.ndim == 0 or x.shape[0] != y.shape[0] or x.shape[1:] != pairs[0].x.shape[1:] \
                or y.shape[1:] != pairs[0].y.shape[1:]:
            raise InvalidInput(
                f"In block {number or path.name} x has shape {x.shape} and {target} has {y.shape}; the first block has "
                f"{pairs[0].x.shape} and {pairs[0].y.shape}.", "Blocks may differ only in their number of rows.",
                "Write that block again.", block=number, shapes=(x.shape, y.shape))
    return ArrayPair(StackedArrays([np.asarray(pair.x) for pair in pairs]), StackedArrays([np.asarray(pair.y) for pair in pairs]))


def _choose(path: Path, names: list[str], target: str) -> tuple[str, str]:
    others = [name for name in names if name != target]
    x = "x" if "x" in others else others[0] if len(others) == 1 else None
    if target not in names or x is None:
        raise InvalidInput(
            f"{path} holds the arrays {', '.join(names) or '(none)'}.", f"The inputs x and the target {target} are needed.",
            "Name the outputs with target=, and call the inputs x.", arrays=names, target=target)
    return x, target


def _blocks(path: Path, name: str) -> dict[str, Path]:
    """Files of that name by their number, as text; '' for a file without a number."""
    pattern = re.compile(re.escape(name) + r"(?:_(\d+))?\.npy")
    found = ((pattern.fullmatch(file.name), file) for file in path.iterdir())
    return {match[1] or "": file for match, file in found if match}


def _stack_blocks(folder: Path) -> dict[str, Path]:
    return {file.stem: file for file in folder.iterdir() if file.suffix == ".npy" and file.stem.isdecimal()}


def open_samples(
    path: str | PathLike[str],
    target: str | Sequence[str] = "y",
    *,
    drop: str | Sequence[str] = (),
    drop_missing: bool = False,
    law: Law = Gaussian(),
    schedule: Schedule = Schedule(),
) -> Samples:
    """Samples from disk.

    Parameters
    ----------
    path
        A file .npz, .csv, .tsv (also .csv.gz, .bz2, .xz), .parquet, .feather or .jsonl (JSON lines), a directory of .npy blocks
        (x_000.npy, y_000.npy, ...; x.npy, y.npy; or folders x and y with 0.npy, 1.npy, ...), of Parquet files with the same
        columns, a Zarr group, or the log of an Oracle.
    target : name of the outputs: an array of the .npz, a block name, or one or several columns ("a,b" or a sequence)
    drop : columns of a table that are neither inputs nor outputs ("a,b" or a sequence)
    drop_missing : leave out rows with a missing value; they raise InvalidInput otherwise
    law, schedule : as in Samples

    Uncompressed arrays are memory-mapped; tables are parsed into memory. Data larger than `schedule.keep_bytes`, Zarr groups,
    directories of Parquet files, and everything if the schedule has an engine, are read block by block: memory is that of a few
    blocks, and workers read for themselves. Nothing is ever unpickled.
    """
    place = check_path("path", path)
    if re.match(r"\w+://", str(path)):
        raise InvalidInput(
            f"{redact(str(path))} is an address.", "Samples are read from files of this computer.",
            "Download it first. To ask a black box at an address, give it to Oracle (laybare extract).")
    check_instance("schedule", schedule, Schedule, "Give Schedule(workers=...), or leave it out.")
    wanted = ColumnChoice(_names("target", target), _names("drop", drop), check_flag("drop_missing", drop_missing))
    if not wanted.targets:
        raise InvalidInput("No target was named.", "It says which numbers are the outputs.", 'Give target="y", or several names.')
    both = [name for name in wanted.targets if name in wanted.dropped]
    if both:
        raise InvalidInput(
            f"{both[0]} is named as an output and as a column to leave out.", "It cannot be both.", "Take it out of one of them.")
    with reading(place, "file of samples", "Write it again."):
        x, y, columns = _reader(place)(place, wanted)
    check_shapes(x.shape, y.shape)
    rows = x.shape[0]
    if drop_missing:
        x, y = drop_incomplete_rows(x, y)
    if schedule.engine is not None or _bytes(x) + _bytes(y) > schedule.keep_bytes:
        x, y = read_without_mapping(x), read_without_mapping(y)
    return Samples(x, y, law, schedule, columns, rows - x.shape[0])


def _names(what: str, given: Any) -> list[str]:
    """Names in one text with commas, or in a sequence; each once."""
    parts = [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given
    names: list[Any] = list(parts) if isinstance(parts, Sequence) else [None]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InvalidInput(
            f"{what} is {show_value(given)}.", "It names columns or arrays, each once.",
            'Give text such as "a,b", or a list of names.')
    return names


def _bytes(array: AnyArray) -> int:
    return 8 * math.prod(array.shape)


def _single_target(read: Callable[[Path, str], ArrayPair]) -> Callable[[Path, ColumnChoice], ArrayPair]:
    """A reader for files in which one array holds all outputs."""

    def reader(path: Path, wanted: ColumnChoice) -> ArrayPair:
        if len(wanted.targets) != 1:
            raise InvalidInput(
                f"{len(wanted.targets)} targets were named for {path}.", "One array holds all outputs there, one per column.",
                "Name that array.", targets=list(wanted.targets))
        if wanted.dropped:
            raise InvalidInput(
                f"drop={','.join(wanted.dropped)} was given for {path}.", "Its columns have no names.",
                "Leave them out of the array, or give a table.", dropped=list(wanted.dropped))
        return read(path, wanted.targets[0])

    return reader


_READERS: dict[str, Callable[[Path, ColumnChoice], ArrayPair]] = {
    ".npz": _single_target(read_npz), ".csv": read_csv, ".tsv": read_csv, ".parquet": read_parquet,
    ".feather": read_feather, ".jsonl": read_json_lines}


def holds_samples(path: str) -> bool:
    """Whether a text names a file of samples or a directory; any other text names a black box."""
    return _ending(Path(path)) in (*_READERS, ".npy") or ("://" not in path and os.path.isdir(path))


def _ending(path: Path) -> str:
    """The ending of the file, without that of its compression."""
    packed = path.suffix.lower() in COMPRESSED and path.with_suffix("").suffix.lower() in (".csv", ".tsv")
    return (path.with_suffix("") if packed else path).suffix.lower()


def _reader(path: Path) -> Callable[[Path, ColumnChoice], ArrayPair]:
    if path.is_dir():
        kinds = (is_log, _single_target(read_log)), (is_zarr, _single_target(read_zarr)), (is_dataset, read_dataset)
        return next((read for is_it, read in kinds if is_it(path)), _single_target(read_blocks))
    if not path.exists():
        raise InvalidInput(f"{path} does not exist.", "There is nothing to open.", "Check the path.", path=str(path))
    check_regular(path)
    if _ending(path) not in _READERS:
        raise InvalidInput(
            f"{path} ends in {path.suffix or 'nothing'}.",
            f"Known endings are {', '.join(_READERS)} ({', '.join(COMPRESSED)} may follow .csv and .tsv); "
            "directories of .npy files are opened as a whole.",
            "Convert it, or give the arrays to Samples.", suffix=path.suffix)
    return _READERS[_ending(path)]
