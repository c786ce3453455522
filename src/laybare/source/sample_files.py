"""Samples from files and directories, by their ending; here the readers of .npy and .npz.

Uncompressed arrays are memory-mapped, after their checksum was compared; nothing is unpickled (`numerics.numpy_files`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_flag, check_instance, check_path, show_value
from laybare.numerics.file_borders import check_regular, reading
from laybare.numerics.numpy_files import map_array, open_archive
from laybare.source.arrays import AnyArray, ArrayPair, StackedArrays, drop_incomplete_rows
from laybare.source.arrow_tables import read_feather, read_json_lines, read_parquet
from laybare.source.disk_arrays import is_dataset, is_zarr, read_dataset, read_without_mapping, read_zarr
from laybare.source.laws import Gaussian
from laybare.source.oracle.log import is_log, read_log
from laybare.source.protocol import Law
from laybare.source.samples import Samples
from laybare.source.sums import Schedule
from laybare.source.table_files import COMPRESSED, ColumnChoice, read_csv


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
    check_instance("schedule", schedule, Schedule, "Give Schedule(workers=...), or leave it out.")
    wanted = ColumnChoice(_names("target", target), _names("drop", drop), check_flag("drop_missing", drop_missing))
    if not wanted.targets:
        raise InvalidInput("No target was named.", "It says which numbers are the outputs.", 'Give target="y", or several names.')
    with reading(place, "file of samples", "Write it again."):
        x, y, columns = _reader(place)(place, wanted)
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
