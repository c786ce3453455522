"""Rows that were answered: pieces of a table as a source, and several sources one below the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array, Progress
from laybare.source.arrays import Stacked
from laybare.source.laws import Unknown
from laybare.source.protocol import Law, Rows, Source
from laybare.source.sums import Schedule
from laybare.source.views import Verbs


@dataclass(frozen=True, eq=False)
class Listed(Verbs):
    """Points (n, dim) and answers (n, outputs) that lie in pieces; float64, checked before, any number of rows."""

    x: Stacked
    y: Stacked
    law: Law = Unknown()
    schedule: Schedule = Schedule()

    @property
    def dim(self) -> int:
        return self.x.shape[1]

    @property
    def outputs(self) -> int:
        return self.y.shape[1]

    @property
    def size(self) -> int:
        return self.x.shape[0]

    @property
    def exchangeable(self) -> bool:
        return False

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """They are there."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop."""
        return Rows(self.x[start:stop], self.y[start:stop])


@dataclass(frozen=True, eq=False)
class Joined(Verbs):
    """The rows of all `parts`, in their order. Nothing is copied until it is read, and then only what crosses a border."""

    parts: tuple[Source, ...]
    law: Law = Unknown()
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        shapes = {(part.dim, part.outputs) for part in self.parts}
        if len(shapes) != 1:
            raise InvalidInput(
                f"Sources with (dim, outputs) {sorted(shapes)} were to be joined.", "Rows of one source have one shape.",
                "Give at least one source, and all of the same dim and outputs.", shapes=sorted(shapes))

    @cached_property
    def ends(self) -> Array:
        """Row number after the last row of each part."""
        return np.cumsum([part.size for part in self.parts])

    @property
    def dim(self) -> int:
        return self.parts[0].dim

    @property
    def outputs(self) -> int:
        return self.parts[0].outputs

    @property
    def size(self) -> int:
        return int(self.ends[-1])

    @property
    def exchangeable(self) -> bool:
        return False

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make every part ready as far as these rows reach into it."""
        for part, low, high in self._pieces(start, stop):
            part.ready(low, high, progress)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop."""
        pieces = [part.read(low, high) for part, low, high in self._pieces(start, stop)]
        if len(pieces) == 1:
            return pieces[0]
        nothing = Rows(np.empty((0, self.dim)), np.empty((0, self.outputs)))
        return Rows(*(np.concatenate(columns) for columns in zip(nothing, *pieces, strict=True)))

    def _pieces(self, start: int, stop: int) -> list[tuple[Source, int, int]]:
        begins = self.ends - [part.size for part in self.parts]
        both = zip(self.parts, map(int, begins), strict=True)
        cut = [(part, max(0, start - begin), min(part.size, stop - begin)) for part, begin in both]
        return [(part, low, high) for part, low, high in cut if low < high]
