"""Sources made of other sources or of arrays: projected inputs, combined or relabelled outputs, rows of several sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array, Progress
from laybare.source.laws import Unknown
from laybare.source.protocol import Law, Rows, Source
from laybare.source.samples import StackedArrays
from laybare.source.sums import Schedule
from laybare.source.views import ArraySource, DerivedSource, SourceMethods


@dataclass(frozen=True, eq=False)
class ProjectedInputs(DerivedSource):
    """`origin` with inputs x·basis; `basis` (dim, r) is orthonormal, so that white Gaussian inputs stay white and Gaussian."""

    basis: Array

    @property
    def dim(self) -> int:
        return int(self.basis.shape[1])

    @property
    def law(self) -> Law:
        return self.origin.law.white()

    def map_rows(self, x: Array, y: Array) -> Rows:
        return Rows(x @ self.basis, y)


@dataclass(frozen=True, eq=False)
class MixedOutputs(DerivedSource):
    """`origin` with outputs y @ matrix; `matrix` is (outputs, new outputs)."""

    matrix: Array

    @property
    def outputs(self) -> int:
        return int(self.matrix.shape[1])

    def map_rows(self, x: Array, y: Array) -> Rows:
        return Rows(x, y @ self.matrix)


@dataclass(frozen=True, eq=False)
class RelabelledOutputs(DerivedSource):
    """`origin` with one output, rule(y), such as an indicator; the rule maps (n, outputs) to (n,)."""

    rule: Callable[[Array], Array]

    @property
    def outputs(self) -> int:
        return 1

    def map_rows(self, x: Array, y: Array) -> Rows:
        return Rows(x, np.asarray(self.rule(y), dtype=float).reshape(len(x), 1))


@dataclass(frozen=True, eq=False)
class StackedRows(ArraySource):
    """Inputs (n, dim) and outputs (n, outputs) in several pieces; float64, already checked, any number of rows."""

    x: StackedArrays
    y: StackedArrays
    law: Law = Unknown()
    schedule: Schedule = Schedule()
    exchangeable: ClassVar[bool] = False

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop."""
        return Rows(self.x[start:stop], self.y[start:stop])


@dataclass(frozen=True, eq=False)
class JoinedSource(SourceMethods):
    """The rows of all `parts`, in their order. Only reads that cross a border between parts copy."""

    parts: tuple[Source, ...]
    law: Law = Unknown()
    schedule: Schedule = Schedule()
    exchangeable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        shapes = {(part.dim, part.outputs) for part in self.parts}
        if len(shapes) != 1:
            raise InvalidInput(
                f"Sources with (dim, outputs) {sorted(shapes)} cannot be joined.", "All rows of a source have the same shape.",
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

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make these rows of every part ready."""
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
