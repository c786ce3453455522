"""Arrays as they come: what is accepted as numbers, blocks of float64, and arrays that lie in several pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array


@dataclass(frozen=True, eq=False)
class Stacked:
    """Arrays one below the other, without copying them; only slices of rows are ever put together."""

    parts: Sequence[Array]

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


def numeric(name: str, given: Any) -> Array | Stacked:
    """The array behind `given`, not copied if it is one already; a sentence if it does not hold real numbers."""
    if isinstance(given, Stacked):
        return Stacked([np.asarray(numeric(name, part)) for part in given.parts])
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
    if array.dtype.kind not in "iuf":
        raise InvalidInput(
            f"{name} has dtype {array.dtype}.", "Only real numbers can be inputs and outputs of a network.",
            "Convert it to floats first.", dtype=str(array.dtype))
    return array


def floats(block: Array) -> Array:
    """A block as C-contiguous, aligned float64; the block itself if it is that already."""
    return np.require(block, np.float64, ["C_CONTIGUOUS", "ALIGNED"])
