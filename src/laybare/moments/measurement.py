"""A moment is a statistic together with what its sums mean; every moment can be measured with its noise level.

`measure(source, moment)` is one pass. `measure_with_noise(source, moment)` is one pass as well: each block of rows is cut in two
halves whose sums are kept apart. If A and B are the estimates from the two half-samples, (A+B)/2 is the estimate and (A-B)/2 is
a draw from (nearly) the distribution of its error: mean zero, variance σ²/n, the same correlations between entries. It needs no
knowledge of the noise and tracks the true error of Hermite moments of order 3 and more within about 25 % in norm.

It fails if neighbouring rows are not independent. Halves are runs of rows, so pairs (x, -x) side by side stay together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.errors import TooFewSamples
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Moment(Protocol[T_co]):
    """A statistic, and how its sums over `size` rows are read: into an array or packed moments, things that can be subtracted.

    Reading should be linear in the averages, or nearly so where they vary little.
    """

    def __call__(self, x: Array, y: Array) -> Sums: ...

    def read(self, sums: Sums, size: int) -> T_co: ...


@dataclass(frozen=True, eq=False)
class Measurement(Generic[T]):
    """A moment and its noise: the half-difference of two half-sample estimates, of the same shape as the value."""

    value: T
    noise: T


def measure(source: Source, moment: Moment[T], *, stage: str = "moments") -> T:
    """The moment, estimated from all rows in one pass."""
    return moment.read(source.sum(moment, stage=stage), source.size)


def measure_with_noise(source: Source, moment: Moment[T], *, stage: str = "moments") -> Measurement[T]:
    """The moment and its split-half noise, in one pass."""
    *sums, rows = source.sum(Halves(moment), stage=stage)
    first, second = sums[: len(sums) // 2], sums[len(sums) // 2 :]
    if rows.min() == 0:
        raise TooFewSamples(
            f"{source.size} samples leave one half empty.", "The noise of a moment is the difference of two halves.",
            "Give at least two samples.", size=source.size)
    halves: list[Any] = [moment.read(tuple(half), int(size)) for half, size in zip((first, second), rows, strict=True)]
    whole = moment.read(tuple(one + two for one, two in zip(first, second, strict=True)), int(rows.sum()))
    share = float(rows[0] / rows.sum())  # nearly 1/2, where the factor is 1/2
    return Measurement(whole, (halves[0] - halves[1]) * float(np.sqrt(share * (1 - share))))


@dataclass(frozen=True, eq=False)
class Halves:
    """Statistic: another statistic on the first and on the second half of every block, and the number of rows of each."""

    statistic: Moment[Any]

    @property
    def row_floats(self) -> int:
        return int(getattr(self.statistic, "row_floats", 0))

    def __call__(self, x: Array, y: Array) -> Sums:
        middle = (len(x) + 1) // 2
        first, second = self.statistic(x[:middle], y[:middle]), self.statistic(x[middle:], y[middle:])
        return (*first, *second, np.array([middle, len(x) - middle]))
