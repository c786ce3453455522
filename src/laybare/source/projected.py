"""A source seen through a few directions of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

from laybare.shapes import Array, Progress
from laybare.source.protocol import Law, Rows, Source
from laybare.source.sums import Schedule
from laybare.source.views import Verbs


@dataclass(frozen=True, eq=False)
class Projected(Verbs):
    """`origin` with inputs x·basis in place of x; `basis` (dim, r), orthonormal, so that white Gaussian inputs stay so."""

    origin: Source
    basis: Array

    @property
    def dim(self) -> int:
        return int(self.basis.shape[1])

    @property
    def outputs(self) -> int:
        return self.origin.outputs

    @property
    def size(self) -> int:
        return self.origin.size

    @property
    def law(self) -> Law:
        return self.origin.law.white()

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
        """Rows start..stop, projected."""
        x, y = self.origin.read(start, stop)
        return Rows(x @ self.basis, y)
