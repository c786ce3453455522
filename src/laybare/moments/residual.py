"""A source whose outputs are what a model leaves unexplained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.shapes import Array, Progress
from laybare.source.protocol import Law, Rows, Source
from laybare.source.sums import Schedule
from laybare.source.views import Verbs

CHUNK_ROWS = 4096
"""Rows at which the model is evaluated at once: hidden layers of a few hundred units stay in cache, and memory is bounded."""


@dataclass(frozen=True, eq=False)
class Residual(Verbs):
    """`origin` with y - model(x) in place of y; `model` maps x (n, d) to (n, outputs), or to (n,) for one output.

    Nothing is stored: the model is evaluated a few thousand rows at a time as they are read.
    """

    origin: Source
    model: Callable[[Array], Array]

    @property
    def dim(self) -> int:
        return self.origin.dim

    @property
    def outputs(self) -> int:
        return self.origin.outputs

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
        """Rows start..stop, the model's values subtracted."""
        x, y = self.origin.read(start, stop)
        left = np.empty(y.shape)
        for at in range(0, len(x), CHUNK_ROWS):
            some = slice(at, at + CHUNK_ROWS)
            np.subtract(y[some], self.model(x[some]).reshape(y[some].shape), out=left[some])
        return Rows(x, left)
