"""A source whose outputs are linear combinations of the outputs of another."""

from __future__ import annotations

from dataclasses import dataclass

from laybare.shapes import Array, Progress
from laybare.source.protocol import Law, Rows, Source
from laybare.source.sums import Schedule
from laybare.source.views import Verbs


@dataclass(frozen=True, eq=False)
class Mixed(Verbs):
    """`origin` with y @ matrix in place of y; `matrix` is (outputs, new outputs). Nothing is stored."""

    origin: Source
    matrix: Array

    @property
    def dim(self) -> int:
        return self.origin.dim

    @property
    def outputs(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def size(self) -> int:
        return self.origin.size

    @property
    def law(self) -> Law:
        return self.origin.law

    @property
    def schedule(self) -> Schedule:
        return self.origin.schedule

    @property
    def exchangeable(self) -> bool:
        return self.origin.exchangeable

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Make the origin ready."""
        self.origin.ready(start, stop, progress)

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, their outputs mixed."""
        x, y = self.origin.read(start, stop)
        return Rows(x, y @ self.matrix)
