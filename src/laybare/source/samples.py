"""Samples: pairs (x, y) in memory, in memory maps or on disk; and the arrays that they are made of.

What is accepted as numbers, arrays in several pieces or on disk, names of columns, missing values.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from laybare.errors import InvalidInput, LaybareError
from laybare.numerics.checks import as_reals, check_dtype, check_instance, check_whole
from laybare.numerics.shapes import Array
from laybare.source.laws import Gaussian, as_law
from laybare.source.protocol import Law, Rows
from laybare.source.sums import Schedule, block_rows
from laybare.source.views import ArraySource


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How files are read."""

    attempts: int = 2
    """Times that a block is read before the error is raised: a network disk may fail once. Checked by `pytest
    tests/source/test_disk_arrays.py`."""
    pause: float = 0.1  # Seconds between two attempts. Checked by `pytest tests/source/test_disk_arrays.py`.
    chunk_rows: int = 1 << 14  # Rows that are parsed or checked at a time. Derived: a few megabytes for tables of usual width.


FILES = FileOptions()


class DiskArray(ABC):
    """An array on disk whose rows are read when they are needed; the object holds a path and no data."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in error messages."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop as stored."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        """Rows as checked float64; a failure is raised with the name of the file, after a second attempt."""
        start, stop, _ = rows.indices(self.shape[0])
        if start >= stop:
            return np.empty((0, *self.shape[1:]))
        for attempt in range(FILES.attempts):
            try:
                values = self.rows(start, stop)
                break
            except LaybareError:
                raise
            except Exception as error:  # a damaged file makes readers fail in many ways
                if attempt == FILES.attempts - 1:
                    raise InvalidInput(
                        f"{self.name} cannot be read ({type(error).__name__}: {str(error).strip()[:200]}).",
                        "It is truncated, damaged or out of reach.", "Write it or copy it again, and call again.",
                        block=self.name) from None
                time.sleep(FILES.pause)
        return check_block(values, stop - start, self.name).reshape(stop - start, *self.shape[1:])


def check_block(values: Array, rows: int, name: str) -> Array:
    """Rows as float64 with two axes; an error names the block if rows are missing or a value is not finite."""
    if values.ndim not in (1, 2) or len(values) != rows:
        raise InvalidInput(
            f"{name} is an array of shape {values.shape}.", f"{rows} rows were expected.",
            "Write that block again, or correct the chunks of the array.", shape=values.shape, rows=rows)
    block = as_float64(values).reshape(rows, -1)
    with np.errstate(all="ignore"):
        clean = bool(np.isfinite(block.sum())) or bool(np.isfinite(block).all())
    if not clean:
        row, column = (int(at) for at in np.argwhere(~np.isfinite(block))[0])
        raise InvalidInput(
            f"{name} has {block[row, column]} in column {column}, row {row} of those that were read (counted from 0).",
            "One such value spoils every sum.", "Correct that block, or leave the row out.", row=row, column=column)
    return block


@dataclass(frozen=True, eq=False)
class StackedArrays:
    """Arrays one below the other, not copied; only slices of rows that cross a border are concatenated."""

    parts: Sequence[Array | DiskArray]

    @property
    def on_disk(self) -> bool:
        """Whether every part stays on disk."""
        return all(isinstance(part, DiskArray) for part in self.parts)

    @cached_property
    def ends(self) -> Array:
        """Index after the last row of each part."""
        return np.cumsum([len(part) for part in self.parts])

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.ends[-1]), *self.parts[0].shape[1:])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self.ends, start, side="right"))
        pieces = []
        while start < stop:
            offset = int(self.ends[first]) - len(self.parts[first])
            pieces.append(self.parts[first][start - offset : stop - offset])
            start, first = int(self.ends[first]), first + 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [self.parts[0][:0]])


AnyArray: TypeAlias = Array | StackedArrays | DiskArray


def as_numeric(name: str, given: Any) -> AnyArray:
    """The array behind `given`, not copied if it is one already; raises InvalidInput if it does not hold real numbers."""
    if isinstance(given, StackedArrays):
        return StackedArrays([_whole(as_numeric(name, part)) for part in given.parts])
    if isinstance(given, DiskArray):
        check_dtype(name, given.dtype)
        return given
    return as_reals(name, given)


def _whole(part: AnyArray) -> Array | DiskArray:
    return part if isinstance(part, DiskArray) else np.asarray(part)


def as_float64(block: Array) -> Array:
    """A block as C-contiguous, aligned float64; not copied if it is that already."""
    return np.require(block, np.float64, ["C_CONTIGUOUS", "ALIGNED"])


class ColumnNames(NamedTuple):
    """Names of the inputs and of the outputs; empty if there are none."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class ArrayPair(NamedTuple):
    """Inputs and outputs of a file, with their names if it has any."""

    x: AnyArray
    y: AnyArray
    columns: ColumnNames = ColumnNames()


def is_dask(given: Any) -> bool:
    """Whether this is a Dask array, data frame or series; Dask is not imported."""
    return type(given).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(given, "__dask_graph__")


def column_names(x: Any, y: Any) -> ColumnNames:
    """The names of data frames and series; names that are not text do not count."""
    return ColumnNames(_names(x), _names(y))


def _names(given: Any) -> tuple[str, ...]:
    listed = getattr(given, "columns", None)
    given_names = [getattr(given, "name", None)] if listed is None else list(listed)
    names = tuple(name for name in given_names if isinstance(name, str))
    return names if len(names) == len(given_names) else ()


def drop_incomplete_rows(x: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Both without the rows that have a NaN in either; unchanged if there is none."""
    x, y = as_numeric("x", x), as_numeric("y", y)
    if x.shape[0] != y.shape[0]:
        return x, y  # Samples raises the error
    step = FILES.chunk_rows
    starts = range(0, x.shape[0], step)
    kept = [_complete(x[start : start + step], y[start : start + step]) for start in starts]
    if all(rows.all() for rows in kept):
        return x, y
    if not any(rows.any() for rows in kept):
        raise InvalidInput(
            f"All {x.shape[0]:,} rows miss a value.", "No row is left.", "Fill them in, or leave out columns.", rows=x.shape[0])
    x, y = (StackedArrays([np.asarray(part[start : start + step])[rows] for start, rows in zip(starts, kept, strict=True)])
            for part in (x, y))
    return x, y


def _complete(x: Array, y: Array) -> Array:
    return np.asarray(~np.isnan(x).any(axis=1) & ~np.isnan(y.reshape(len(y), -1)).any(axis=1))


def row_keys(x: Array) -> list[bytes]:
    """A 16-byte hash of every row."""
    return [blake2b(row, digest_size=16).digest() for row in np.ascontiguousarray(x)]


@dataclass(frozen=True, eq=False)
class Samples(ArraySource):
    """Given pairs (x, y).

    Parameters
    ----------
    x : array (n, dim); anything that numpy reads as numbers, memory maps included
    y : array (n,) or (n, outputs)
    law : Gaussian(), Symmetric() or Unknown(): what is assumed about the inputs
    schedule : Schedule, how passes over the data are carried out
    columns : ColumnNames of inputs and outputs, for tables and reports; by default those of a data frame
    dropped : rows that were left out before, because a value is missing in them

    Nothing is copied: blocks are converted to float64 as they are read. One pass here checks that every value is finite.
    """

    x: Any = field(repr=False)
    y: Any = field(repr=False)
    law: Law = Gaussian()
    schedule: Schedule = Schedule()
    columns: ColumnNames = field(default=ColumnNames(), repr=False)
    dropped: int = 0
    exchangeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_instance("columns", self.columns, ColumnNames, "Give ColumnNames(inputs, outputs), or leave it out.")
        check_whole("dropped", self.dropped, 0)
        check_instance("schedule", self.schedule, Schedule, "Give Schedule(workers=...), or leave it out.")
        if self.columns == ColumnNames():
            object.__setattr__(self, "columns", column_names(self.x, self.y))
        x, y = as_numeric("x", self.x), as_numeric("y", self.y)
        check_shapes(x.shape, y.shape)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "law", as_law(self.law))
        self.law.check(self.dim)
        _check_values(self)

    def __repr__(self) -> str:
        inputs, outputs = (
            f"{count} {name}{'s' * (count > 1)}" for count, name in ((self.dim, "input"), (self.outputs, "output")))
        dropped = f", {self.dropped:,} dropped" if self.dropped else ""
        return f"{type(self).__name__}({self.size:,} rows{dropped}, {inputs}, {outputs}, law={self.law})"

    def _repr_html_(self) -> str:
        from laybare.report.notebook import samples_html

        return samples_html(self)

    @property
    def is_portable(self) -> bool:
        """Whether these are files that a worker can read itself."""
        return all(isinstance(part, DiskArray) or (isinstance(part, StackedArrays) and part.on_disk) for part in (self.x, self.y))

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop as float64; not copied if they are that already."""
        return Rows(as_float64(self.x[start:stop]), as_float64(self.y[start:stop]).reshape(stop - start, self.outputs))


def check_shapes(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Raise InvalidInput if these cannot be inputs and outputs."""
    if len(x) != 2 or x[1] == 0:
        raise InvalidInput(
            f"x has shape {x}.", "Inputs are rows of numbers, one row per sample.",
            "Give shape (n, dim); for one input column x.reshape(-1, 1).", shape=x)
    if len(y) not in (1, 2) or 0 in y[1:]:
        raise InvalidInput(
            f"y has shape {y}.", "Outputs are one number or one row per sample.", "Give shape (n,) or (n, outputs).", shape=y)
    if x[0] != y[0]:
        raise InvalidInput(
            f"x has {x[0]} rows and y has {y[0]}.", "Every input has one output.", "Give arrays of the same length.",
            lengths=(x[0], y[0]))
    if x[0] < 2:
        raise InvalidInput(
            f"There {'is' if x[0] == 1 else 'are'} {x[0]} row{'s' * (x[0] != 1)}.", "At least two are needed.",
            "Give more samples.", size=x[0])


def _check_values(samples: Samples) -> None:
    """One pass: every value finite, not all inputs equal, not all outputs equal."""
    first = Rows(*(part.copy() for part in samples.read(0, 1)))
    rows = block_rows(samples.dim + samples.outputs)
    varies, names = {"x": False, "y": False}, {"x": samples.columns.inputs, "y": samples.columns.outputs}
    for start in range(0, samples.size, rows):
        block = samples.read(start, min(start + rows, samples.size))
        for name, values, reference in zip(varies, block, first, strict=True):
            _check_finite(name, values, start, names[name])
            varies[name] = varies[name] or bool((values != reference).any())
    for name, does in varies.items():
        if not does:
            raise constant_data_error(name, samples.size)


def constant_data_error(name: str, size: int) -> InvalidInput:
    """The error for inputs or outputs that do not vary."""
    return InvalidInput(
        f"All {size} rows of {name} are the same.", "A constant carries no information about hidden units.",
        f"Give samples in which {name} varies.", size=size)


def _check_finite(name: str, values: Array, start: int, names: tuple[str, ...]) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):  # one fast reduction; a NaN or an infinity cannot leave it finite
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = start + int(bad[0][0]), int(bad[0][1])
        place = f"{names[column]} (rows are" if len(names) == values.shape[1] else f"{column} (both are"
        held = values[tuple(bad[0])]
        of_files = "; drop_missing=True leaves such rows of a file out" if names and np.isnan(held) else ""
        raise InvalidInput(
            f"{name} is {held} in row {row}, column {place} counted from 0).",
            "One such value spoils every sum.", f"Drop that row or fill it in{of_files}.", row=row, column=column)
