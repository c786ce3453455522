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
from laybare.source.numpy_files import ArrayPair, read_blocks, read_npz
from laybare.source.protocol import Law
from laybare.source.samples import Samples
from laybare.source.sums import Schedule
from laybare.source.table_files import read_csv, read_parquet


def open_samples(
    path: str | PathLike[str],
    target: str | Sequence[str] = "y",
    *,
    law: Law = Gaussian(),
    schedule: Schedule = Schedule(),
) -> Samples:
    """Samples from disk.

    Parameters
    ----------
    path : a file .npz, .csv or .parquet, a directory of .npy blocks (x_000.npy, y_000.npy, ...; x.npy, y.npy; or folders x
        and y with 0.npy, 1.npy, ...), of Parquet files with the same columns, a Zarr group, or the log of an Oracle
    target : name of the outputs: an array of the .npz, a block name, or one or several columns ("a,b" or a sequence)
    law, schedule : as in Samples

    Arrays that lie uncompressed on disk are memory-mapped; tables are parsed into memory. What is larger than
    `schedule.keep_bytes`, and everything where the schedule has an engine, is read block by block instead, as are Zarr groups and
    directories of Parquet files: memory is then that of a few blocks, and workers read for themselves. Nothing is ever unpickled.
    """
    place = Path(path)
    targets = [name.strip() for name in target.split(",")] if isinstance(target, str) else list(target)
    read = _reader(place)
    try:
        x, y = read(place, targets)
    except OSError as error:
        raise InvalidInput(
            f"{place} cannot be read ({error.strerror or error}).", "The system refused.",
            "Check the path and its permissions.", path=str(place)) from None
    if schedule.engine is not None or _bytes(x) + _bytes(y) > schedule.keep_bytes:
        x, y = staying(x), staying(y)
    return Samples(x, y, law, schedule)


def _bytes(array: Array | Stacked | DiskArray) -> int:
    return 8 * math.prod(array.shape)


def _one(read: Callable[[Path, str], ArrayPair]) -> Callable[[Path, Sequence[str]], ArrayPair]:
    """For files of whole arrays, where one array holds all the outputs."""

    def reader(path: Path, targets: Sequence[str]) -> ArrayPair:
        if len(targets) != 1:
            raise InvalidInput(
                f"{len(targets)} targets were named for {path}.", "One array holds all the outputs there, one a column.",
                "Name that array.", targets=list(targets))
        return read(path, targets[0])

    return reader


_READERS: dict[str, Callable[[Path, Sequence[str]], ArrayPair]] = {
    ".npz": _one(read_npz), ".csv": read_csv, ".parquet": read_parquet}


def _reader(path: Path) -> Callable[[Path, Sequence[str]], ArrayPair]:
    if path.is_dir():
        kinds = (is_log, _one(read_log)), (is_zarr, _one(read_zarr)), (is_dataset, read_dataset)
        return next((read for is_it, read in kinds if is_it(path)), _one(read_blocks))
    if not path.exists():
        raise InvalidInput(f"{path} does not exist.", "There is nothing to open.", "Check the path.", path=str(path))
    if path.suffix.lower() not in _READERS:
        raise InvalidInput(
            f"{path} ends in {path.suffix or 'nothing'}.",
            f"Known endings are {', '.join(_READERS)}; directories of .npy files are opened as a whole.",
            "Convert it, or give the arrays to Samples.", suffix=path.suffix)
    return _READERS[path.suffix.lower()]
