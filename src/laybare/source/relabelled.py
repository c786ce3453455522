"""A source whose output is a function of what it was: an indicator, a logarithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.shapes import Array, Progress
from laybare.source.protocol import Law, Rows, Source
from laybare.source.sums import Schedule
from laybare.source.views import Verbs


@dataclass(frozen=True, eq=False)
class Relabelled(Verbs):
    """`origin` with one output, rule(y) for y (n, outputs) -> (n,), computed as rows are read."""

    origin: Source
    rule: Callable[[Array], Array]

    @property
    def dim(self) -> int:
        return self.origin.dim

    @property
    def outputs(self) -> int:
        return 1

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
        """Rows start..stop with their new output."""
        x, y = self.origin.read(start, stop)
        return Rows(x, np.asarray(self.rule(y), dtype=float).reshape(len(x), 1))
