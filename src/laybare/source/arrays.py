"""Arrays as they come: what is accepted as numbers, blocks of float64, and arrays that lie in several pieces."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from laybare.errors import InvalidInput, LaybareError
from laybare.shapes import Array


@runtime_checkable
class DiskArray(Protocol):
    """An array whose rows are read from disk when they are asked for; it has a path, and no numbers."""

    @property
    def name(self) -> str:
        """What a sentence calls it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its numbers."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Array:
        """Rows start..stop as they lie there."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        """Rows as float64, looked at; what goes wrong is told with the name of the file, after a second try."""
        start, stop, _ = rows.indices(self.shape[0])
        if start >= stop:
            return np.empty((0, *self.shape[1:]))
        for attempt in range(ATTEMPTS):
            try:
                values = self.rows(start, stop)
                break
            except LaybareError:
                raise
            except Exception as error:  # a damaged file makes readers stumble in many ways
                if attempt == ATTEMPTS - 1:
                    raise InvalidInput(
                        f"{self.name} cannot be read ({type(error).__name__}: {str(error).strip()[:200]}).",
                        "It is truncated, damaged or out of reach.", "Write it or copy it again, and call again.",
                        block=self.name) from None
                time.sleep(0.1)
        return checked_rows(values, stop - start, self.name).reshape(stop - start, *self.shape[1:])


ATTEMPTS = 2
"""A disk that does not answer once may answer again."""


def checked_rows(values: Array, rows: int, name: str) -> Array:
    """Rows as float64 with two axes; refused by the name of their block if some are missing or a number is not finite."""
    if values.ndim not in (1, 2) or len(values) != rows:
        raise InvalidInput(
            f"{name} came as an array of shape {values.shape}.", f"{rows} rows were announced.",
            "Write that block again, or correct the chunks of the array.", shape=values.shape, rows=rows)
    block = floats(values).reshape(rows, -1)
    with np.errstate(all="ignore"):
        clean = bool(np.isfinite(block.sum())) or bool(np.isfinite(block).all())
    if not clean:
        row, column = (int(at) for at in np.argwhere(~np.isfinite(block))[0])
        raise InvalidInput(
            f"{name} has {block[row, column]} in column {column}, row {row} of those that were read (counted from 0).",
            "One such number spoils every sum it enters.", "Mend that block, or leave the row out.", row=row, column=column)
    return block


@dataclass(frozen=True, eq=False)
class Stacked:
    """Arrays one below the other, without copying them; only slices of rows are ever put together."""

    parts: Sequence[Array | DiskArray]

    @property
    def on_disk(self) -> bool:
        """Whether every part stays on disk."""
        return all(isinstance(part, DiskArray) for part in self.parts)

    @cached_property
    def ends(self) -> Array:
        """Row number after the last row of each part."""
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


def numeric(name: str, given: Any) -> Array | Stacked | DiskArray:
    """The array behind `given`, not copied if it is one already; a sentence if it does not hold real numbers."""
    if isinstance(given, Stacked):
        return Stacked([_whole(numeric(name, part)) for part in given.parts])
    if isinstance(given, DiskArray):
        _check_dtype(name, given.dtype)
        return given
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        masked = int(np.ma.getmaskarray(given).sum())
        raise InvalidInput(
            f"{name} has {masked} masked entries.", "Missing values are not guessed.", "Drop those rows or fill them in.",
            masked=masked)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"{name} is no array ({error}).", "Rows of different length have no columns.", "Give an array of numbers.") from None
    _check_dtype(name, array.dtype)
    return array


def _check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} has dtype {dtype}.", "Only real numbers can be inputs and outputs of a network.",
            "Convert it to floats first.", dtype=str(dtype))


def _whole(part: Array | Stacked | DiskArray) -> Array | DiskArray:
    return part if isinstance(part, DiskArray) else np.asarray(part)


def floats(block: Array) -> Array:
    """A block as C-contiguous, aligned float64; the block itself if it is that already."""
    return np.require(block, np.float64, ["C_CONTIGUOUS", "ALIGNED"])
