"""Samples: pairs (x, y) in memory, in memory maps or on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from laybare.errors import InvalidInput
from laybare.numerics.checks import check_instance, check_whole
from laybare.numerics.shapes import Array
from laybare.source.arrays import ColumnNames, DiskArray, StackedArrays, as_float64, as_numeric, column_names
from laybare.source.laws import Gaussian, as_law
from laybare.source.protocol import Law, Rows
from laybare.source.sums import Schedule, block_rows
from laybare.source.views import ArraySource


@dataclass(frozen=True, eq=False)
class Samples(ArraySource):
    """Given pairs (x, y).

    Parameters
    ----------
    x : array (n, dim); anything that numpy reads as numbers, memory maps included
    y : array (n,) or (n, outputs)
    law : Gaussian(), Symmetric() or Unknown(): what is assumed about the inputs
    schedule : Schedule, how passes over the data are carried out
    columns : ColumnNames of inputs and outputs, for tables and reports; by default those of a data frame
    dropped : rows that were left out before, because a value is missing in them

    Nothing is copied: blocks are converted to float64 as they are read. One pass here checks that every value is finite.
    """

    x: Any = field(repr=False)
    y: Any = field(repr=False)
    law: Law = Gaussian()
    schedule: Schedule = Schedule()
    columns: ColumnNames = field(default=ColumnNames(), repr=False)
    dropped: int = 0

    def __post_init__(self) -> None:
        check_instance("columns", self.columns, ColumnNames, "Give ColumnNames(inputs, outputs), or leave it out.")
        check_whole("dropped", self.dropped, 0)
        check_instance("schedule", self.schedule, Schedule, "Give Schedule(workers=...), or leave it out.")
        if self.columns == ColumnNames():
            object.__setattr__(self, "columns", column_names(self.x, self.y))
        x, y = as_numeric("x", self.x), as_numeric("y", self.y)
        check_shapes(x.shape, y.shape)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "law", as_law(self.law))
        self.law.check(self.dim)
        _check_values(self)

    def __repr__(self) -> str:
        inputs, outputs = (
            f"{count} {name}{'s' * (count > 1)}" for count, name in ((self.dim, "input"), (self.outputs, "output")))
        dropped = f", {self.dropped:,} dropped" if self.dropped else ""
        return f"{type(self).__name__}({self.size:,} rows{dropped}, {inputs}, {outputs}, law={self.law})"

    def _repr_html_(self) -> str:
        from laybare.report.notebook import samples_html

        return samples_html(self)

    @property
    def exchangeable(self) -> bool:
        return False

    @property
    def is_portable(self) -> bool:
        """Whether these are files that a worker can read itself."""
        return all(isinstance(part, DiskArray) or (isinstance(part, StackedArrays) and part.on_disk) for part in (self.x, self.y))

    def read(self, start: int, stop: int) -> Rows:
        """Rows start..stop as float64; not copied if they are that already."""
        return Rows(as_float64(self.x[start:stop]), as_float64(self.y[start:stop]).reshape(stop - start, self.outputs))


def check_shapes(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Raise InvalidInput if these cannot be inputs and outputs."""
    if len(x) != 2 or x[1] == 0:
        raise InvalidInput(
            f"x has shape {x}.", "Inputs are rows of numbers, one row per sample.",
            "Give shape (n, dim); for one input column x.reshape(-1, 1).", shape=x)
    if len(y) not in (1, 2) or 0 in y[1:]:
        raise InvalidInput(
            f"y has shape {y}.", "Outputs are one number or one row per sample.", "Give shape (n,) or (n, outputs).", shape=y)
    if x[0] != y[0]:
        raise InvalidInput(
            f"x has {x[0]} rows and y has {y[0]}.", "Every input has one output.", "Give arrays of the same length.",
            lengths=(x[0], y[0]))
    if x[0] < 2:
        raise InvalidInput(
            f"There {'is' if x[0] == 1 else 'are'} {x[0]} row{'s' * (x[0] != 1)}.", "At least two are needed.",
            "Give more samples.", size=x[0])


def _check_values(samples: Samples) -> None:
    """One pass: every value finite, not all inputs equal, not all outputs equal."""
    first = Rows(*(part.copy() for part in samples.read(0, 1)))
    rows = block_rows(samples.dim + samples.outputs)
    varies, names = {"x": False, "y": False}, {"x": samples.columns.inputs, "y": samples.columns.outputs}
    for start in range(0, samples.size, rows):
        block = samples.read(start, min(start + rows, samples.size))
        for name, values, reference in zip(varies, block, first, strict=True):
            _check_finite(name, values, start, names[name])
            varies[name] = varies[name] or bool((values != reference).any())
    for name, does in varies.items():
        if not does:
            raise constant_data_error(name, samples.size)


def constant_data_error(name: str, size: int) -> InvalidInput:
    """The error for inputs or outputs that do not vary."""
    return InvalidInput(
        f"All {size} rows of {name} are the same.", "A constant carries no information about hidden units.",
        f"Give samples in which {name} varies.", size=size)


def _check_finite(name: str, values: Array, start: int, names: tuple[str, ...]) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()):  # one fast reduction; a NaN or an infinity cannot leave it finite
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = start + int(bad[0][0]), int(bad[0][1])
        place = f"{names[column]} (rows are" if len(names) == values.shape[1] else f"{column} (both are"
        held = values[tuple(bad[0])]
        of_files = "; drop_missing=True leaves such rows of a file out" if names and np.isnan(held) else ""
        raise InvalidInput(
            f"{name} is {held} in row {row}, column {place} counted from 0).",
            "One such value spoils every sum.", f"Drop that row or fill it in{of_files}.", row=row, column=column)
