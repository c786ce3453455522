"""A moment is a statistic and the way its sums are read. Every moment can be measured with its noise, within a limit of memory.

`measure_with_noise` cuts each block of rows in two halves whose sums are kept apart, in one pass. For the half-sample estimates A
and B, (A+B)/2 is the estimate, and (A-B)/2 is nearly a draw from the distribution of its error: mean zero, variance σ²/n, the
same correlations between entries. No knowledge of the noise is needed; for Hermite moments of order 3 and more it tracks the norm
of the true error within about 25 %. It fails if neighbouring rows are dependent. Halves are runs of rows, so that pairs (x, -x)
side by side stay together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.errors import BudgetExhausted, InvalidInput, TooFewSamples
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Moment(Protocol[T_co]):
    """A statistic, and how its sums over `size` rows are read: into an array or packed moments, which can be subtracted.

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


MEMORY_LIMIT = 2 << 30
"""Bytes that one result may take. Convention: 2 GiB, a quarter of the memory of a small laptop."""


def check_memory(floats: int, what: str, instead: str, limit: int = MEMORY_LIMIT) -> None:
    """Refuse `what` if its `floats` numbers take more than `limit` bytes; `instead` says what to use."""
    needed = 8 * floats
    if needed > limit:
        size, most = format_bytes(needed), format_bytes(limit)
        raise BudgetExhausted(f"{what} would take {size}.", f"The limit is {most}.", instead, bytes=needed, limit=limit)


def check_order(order: int, most: int = 12) -> None:
    """Refuse orders that are negative or so high that the rounding of He_k exceeds any signal (k! at k = 12 is 5e8)."""
    if not 0 <= order <= most:
        raise InvalidInput(
            f"Moments of order {order} were asked for.", f"Orders count from 0, and above {most} rounding drowns them.",
            "Ask for an order of 8 or less.", order=order)


def format_bytes(size: int) -> str:
    """1536 -> '1.54 kB', in decimal units."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} PB"
