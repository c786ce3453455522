"""Rows that are not stored: drawn and computed again whenever they are read, by any worker, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from laybare.blas import single_blas_thread
from laybare.errors import InvalidInput
from laybare.shapes import Array, Progress
from laybare.source.arrays import floats, numeric
from laybare.source.drawing import Draw, Drawing
from laybare.source.laws import Gaussian, Unknown, as_law
from laybare.source.protocol import Law, Rows
from laybare.source.sums import GRAIN, Schedule
from laybare.source.views import Verbs


@dataclass(frozen=True, eq=False, init=False)
class Simulation(Verbs):
    """As many rows as are asked for, from a function that costs nothing: no budget, no ledger, no memory.

    Parameters
    ----------
    function : x (n, dim) -> (n,) or (n, outputs); pure, since it is called again in every pass, a grain of 1024 rows at a time
    dim : dimension of the inputs
    size : number of rows
    law : law the inputs are drawn from; Gaussian() means standard normal
    rng : seed or Generator, fixes every input
    schedule : Schedule; with an engine, workers draw and compute their rows themselves
    inputs : callable (rng, n) -> x (n, dim), optional; draws the inputs instead of the law, which then only describes them
    """

    function: Callable[[Array], Any] = field(repr=False)
    dim: int
    size: int
    law: Law
    schedule: Schedule
    outputs: int
    drawing: Drawing = field(repr=False)
    travels: ClassVar[bool] = True

    def __init__(
        self, function: Callable[[Array], Any], dim: int, size: int, *, law: Law = Gaussian(), rng: Generator | int = 0,
        schedule: Schedule = Schedule(), inputs: Draw | None = None,
    ) -> None:
        if dim < 1 or size < 2:
            raise InvalidInput(
                f"{size} rows of dimension {dim} were asked for.", "A simulation has at least two rows of one number.",
                "Give a larger size or dim.", size=size, dim=dim)
        law = as_law(law)
        law.check(dim)
        law = law.complete() if inputs is None else law
        key = np.random.default_rng(rng).integers(2**64, size=2, dtype=np.uint64)
        values = {
            "function": function, "dim": int(dim), "size": int(size), "law": law, "schedule": schedule,
            "drawing": Drawing(int(dim), law, None, inputs, key)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "outputs", self._grain(0).y.shape[1])

    @property
    def exchangeable(self) -> bool:
        return True

    @property
    def identity(self) -> tuple[Any, ...]:
        """What decides every row: the size, the key of the generator, and the first grain, which law and function decide."""
        return self.size, self.drawing.key, *self._grain(0)

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Nothing has to be paid for."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop, grain by grain, so that a row has the same bits in blocks of any size."""
        x, y = np.empty((stop - start, self.dim)), np.empty((stop - start, self.outputs))
        for first in range(start - start % GRAIN, stop, GRAIN):
            low, high = max(start, first), min(stop, first + GRAIN)
            for whole, part in zip((x, y), self._grain(first // GRAIN), strict=True):
                whole[low - start : high - start] = part[low - first : high - first]
        return Rows(x, y)

    def _grain(self, number: int) -> Rows:
        x = self.drawing.grain(number)
        with single_blas_thread():
            y = floats(np.asarray(numeric("function(x)", self.function(x.copy()))))
        if y.ndim not in (1, 2) or len(y) != GRAIN or not np.isfinite(y).all():
            raise InvalidInput(
                f"function(x) returned an array of shape {y.shape} for rows {number * GRAIN} to {(number + 1) * GRAIN}"
                f"{'' if np.isfinite(y).all() else ', with NaN or infinity'}.", "Every row has one finite answer.",
                f"Return shape ({GRAIN},) or ({GRAIN}, outputs).", shape=y.shape, row=number * GRAIN)
        return Rows(x, y.reshape(GRAIN, -1))


@dataclass(frozen=True, eq=False)
class Redrawn(Verbs):
    """Rows first, first + 1, ... of a drawing, whose answers are known: inputs are drawn where they are read."""

    drawing: Drawing
    first: int
    y: Array
    law: Law = Unknown()
    schedule: Schedule = Schedule()

    @property
    def dim(self) -> int:
        return self.drawing.dim

    @property
    def outputs(self) -> int:
        return int(self.y.shape[1])

    @property
    def size(self) -> int:
        return len(self.y)

    @property
    def exchangeable(self) -> bool:
        return True

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """They are paid for."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop."""
        return Rows(self.drawing.rows(self.first + start, self.first + stop), self.y[start:stop])
