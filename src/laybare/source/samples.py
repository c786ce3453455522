"""Samples in memory or in memory maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array, Progress
from laybare.source.arrays import DiskArray, Stacked, floats, numeric
from laybare.source.columns import Columns, columns_of
from laybare.source.laws import Gaussian, as_law
from laybare.source.protocol import Law, Rows
from laybare.source.sums import Schedule, block_rows
from laybare.source.views import OfArrays


@dataclass(frozen=True, eq=False)
class Samples(OfArrays):
    """Pairs (x, y) that are already there.

    Parameters
    ----------
    x : array (n, dim); anything that numpy reads as numbers, memory maps included
    y : array (n,) or (n, outputs)
    law : Gaussian(), Symmetric() or Unknown(): what is assumed about the inputs
    schedule : Schedule, how passes over the data are carried out
    columns : Columns, names of inputs and outputs, for tables and reports; data frames bring their own

    Nothing is copied: blocks are converted to float64 as they are read. One pass here checks that every number is finite.
    """

    x: Any = field(repr=False)
    y: Any = field(repr=False)
    law: Law = Gaussian()
    schedule: Schedule = Schedule()
    columns: Columns = field(default=Columns(), repr=False)

    def __post_init__(self) -> None:
        if self.columns == Columns():
            object.__setattr__(self, "columns", columns_of(self.x, self.y))
        x, y = numeric("x", self.x), numeric("y", self.y)
        check_shapes(x.shape, y.shape)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "law", as_law(self.law))
        self.law.check(self.dim)
        _check_values(self)

    @property
    def exchangeable(self) -> bool:
        return False

    @property
    def travels(self) -> bool:
        """Whether these are files that a worker can read for itself."""
        return all(isinstance(part, DiskArray) or (isinstance(part, Stacked) and part.on_disk) for part in (self.x, self.y))

    def ready(self, start: int, stop: int, progress: Progress | None) -> None:
        """Samples are there and have no price."""

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop as float64; views of the arrays where they are that already."""
        return Rows(floats(self.x[start:stop]), floats(self.y[start:stop]).reshape(stop - start, self.outputs))


def check_shapes(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Refuse what cannot be inputs and outputs."""
    if len(x) != 2 or x[1] == 0:
        raise InvalidInput(
            f"x has shape {x}.", "Inputs are rows of numbers, one row a sample.",
            "Give shape (n, dim); for one input column x.reshape(-1, 1).", shape=x)
    if len(y) not in (1, 2) or 0 in y[1:]:
        raise InvalidInput(
            f"y has shape {y}.", "Outputs are one number a sample, or one row.", "Give shape (n,) or (n, outputs).", shape=y)
    if x[0] != y[0]:
        raise InvalidInput(
            f"x has {x[0]} rows and y has {y[0]}.", "Every input has one output.", "Give arrays of the same length.",
            lengths=(x[0], y[0]))
    if x[0] < 2:
        raise InvalidInput(
            f"There {'is' if x[0] == 1 else 'are'} {x[0]} row{'s' * (x[0] != 1)}.", "Nothing can be learnt from fewer than two.",
            "Give more samples.", size=x[0])


def _check_values(samples: Samples) -> None:
    """One pass: every number finite, not all inputs equal, not all outputs equal."""
    first = Rows(*(part.copy() for part in samples.read(0, 1)))
    rows = block_rows(samples.dim + samples.outputs)
    varies = {"x": False, "y": False}
    for start in range(0, samples.size, rows):
        block = samples.read(start, min(start + rows, samples.size))
        for name, values, reference in zip(varies, block, first, strict=True):
            _check_finite(name, values, start)
            varies[name] = varies[name] or bool((values != reference).any())
    for name, does in varies.items():
        if not does:
            raise constant(name, samples.size)


def constant(name: str, size: int) -> InvalidInput:
    """The refusal of inputs or outputs that do not vary."""
    return InvalidInput(
        f"All {size} rows of {name} are the same.", "A constant tells nothing about hidden units.",
        f"Give samples in which {name} varies.", size=size)


def _check_finite(name: str, values: Array, start: int) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):  # one fast reduction; a NaN or an infinity cannot leave it finite
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = start + int(bad[0][0]), int(bad[0][1])
        raise InvalidInput(
            f"{name} is {values[tuple(bad[0])]} in row {row}, column {column} (counted from 0).",
            "One such number spoils every sum it enters.", "Drop that row or fill it in.", row=row, column=column)
