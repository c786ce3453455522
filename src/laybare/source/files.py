"""Samples from a file or a directory, by its ending."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.arrays import DiskArray, Stacked
from laybare.source.data_sets import is_dataset, is_zarr, read_dataset, read_zarr
from laybare.source.disk_arrays import staying
from laybare.source.laws import Gaussian
from laybare.source.log_files import is_log, read_log
from laybare.source.missing import complete_rows
from laybare.source.numpy_files import ArrayPair, read_blocks, read_npz
from laybare.source.protocol import Law
from laybare.source.samples import Samples
from laybare.source.sums import Schedule
from laybare.source.table_files import COMPRESSED, ColumnChoice, read_csv, read_parquet


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
        A file .npz, .csv, .tsv (also .csv.gz, .bz2, .xz) or .parquet, a directory of .npy blocks (x_000.npy, y_000.npy, ...;
        x.npy, y.npy; or folders x and y with 0.npy, 1.npy, ...), of Parquet files with the same columns, a Zarr group, or the
        log of an Oracle.
    target : name of the outputs: an array of the .npz, a block name, or one or several columns ("a,b" or a sequence)
    drop : columns of a table that are neither inputs nor outputs ("a,b" or a sequence)
    drop_missing : leave out rows in which a number is missing; they are refused otherwise
    law, schedule : as in Samples

    Arrays that lie uncompressed on disk are memory-mapped; tables are parsed into memory. What is larger than
    `schedule.keep_bytes`, and everything where the schedule has an engine, is read block by block instead, as are Zarr groups and
    directories of Parquet files: memory is then that of a few blocks, and workers read for themselves. Nothing is ever unpickled.
    """
    place = Path(path)
    wanted = ColumnChoice(_names(target), _names(drop), drop_missing)
    read = _reader(place)
    try:
        x, y, columns = read(place, wanted)
    except OSError as error:
        raise InvalidInput(
            f"{place} cannot be read ({error.strerror or error}).", "The system refused.",
            "Check the path and its permissions.", path=str(place)) from None
    if drop_missing:
        x, y = complete_rows(x, y)
    if schedule.engine is not None or _bytes(x) + _bytes(y) > schedule.keep_bytes:
        x, y = staying(x), staying(y)
    return Samples(x, y, law, schedule, columns)


def _names(given: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else list(given)


def _bytes(array: Array | Stacked | DiskArray) -> int:
    return 8 * math.prod(array.shape)


def _one(read: Callable[[Path, str], ArrayPair]) -> Callable[[Path, ColumnChoice], ArrayPair]:
    """For files of whole arrays, where one array holds all the outputs."""

    def reader(path: Path, wanted: ColumnChoice) -> ArrayPair:
        if len(wanted.targets) != 1:
            raise InvalidInput(
                f"{len(wanted.targets)} targets were named for {path}.", "One array holds all the outputs there, one a column.",
                "Name that array.", targets=list(wanted.targets))
        if wanted.dropped:
            raise InvalidInput(
                f"drop={','.join(wanted.dropped)} was given for {path}.", "Its columns have no names; those of tables have.",
                "Leave them out of the array, or give a table.", dropped=list(wanted.dropped))
        return read(path, wanted.targets[0])

    return reader


_READERS: dict[str, Callable[[Path, ColumnChoice], ArrayPair]] = {
    ".npz": _one(read_npz), ".csv": read_csv, ".tsv": read_csv, ".parquet": read_parquet}


def _ending(path: Path) -> str:
    """What kind of file it is, below its compression."""
    packed = path.suffix.lower() in COMPRESSED and path.with_suffix("").suffix.lower() in (".csv", ".tsv")
    return (path.with_suffix("") if packed else path).suffix.lower()


def _reader(path: Path) -> Callable[[Path, ColumnChoice], ArrayPair]:
    if path.is_dir():
        kinds = (is_log, _one(read_log)), (is_zarr, _one(read_zarr)), (is_dataset, read_dataset)
        return next((read for is_it, read in kinds if is_it(path)), _one(read_blocks))
    if not path.exists():
        raise InvalidInput(f"{path} does not exist.", "There is nothing to open.", "Check the path.", path=str(path))
    if _ending(path) not in _READERS:
        raise InvalidInput(
            f"{path} ends in {path.suffix or 'nothing'}.",
            f"Known endings are {', '.join(_READERS)} ({', '.join(COMPRESSED)} may follow .csv and .tsv); "
            "directories of .npy files are opened as a whole.",
            "Convert it, or give the arrays to Samples.", suffix=path.suffix)
    return _READERS[_ending(path)]
