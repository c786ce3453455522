"""How exact answers are: measured, because every tolerance follows from it.

An answer is the true value plus rounding. What it was rounded to shows in the answers themselves: all of them are float32
numbers, or have at most k decimals, or neither (float64). How many such units the computation inside lost shows where the
function is straight: second differences of equidistant points are zero but for rounding. No query is spent on this alone.

    sd(x) = absolute + unit · |f(x)| / 2 + inner · steepness · |x|

The last part is the rounding of the sums inside the network, which may cancel in f; it is what is measured. Fails if all
answers are small whole numbers: then they look like decimals, which is what they may be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.shapes import Array

FEWEST = 8
"""Distinct answers before "all of them are float32 numbers" means anything: 2⁻²⁹ is the chance for each."""

MOST_DECIMALS = 9
SPARE = 2.0
"""The second largest of four pairs of second differences estimates the standard deviation within about this factor."""

LEAST_INNER, LEAST_COARSE = 2.0, 0.125
"""Units of rounding that the sums inside lose at least: of float64, in which the inputs themselves are rounded, and of anything
coarser. The steepness is a guess from a few slopes; a float64 tolerance may be generous."""


class AnswerError(NamedTuple):
    """Standard deviation of an answer, as absolute + unit · |answer| / 2 + inner · (size of what it was summed from)."""

    unit: float
    inner: float
    absolute: float = 0.0
    steepness: float = 0.0

    def sd(self, x: Array, y: Array) -> Array:
        """Standard deviations (n,) of answers y (n, outputs) at x (n, dim)."""
        inside = self.inner * self.steepness * np.linalg.norm(x, axis=1)
        return np.asarray(self.absolute + 0.5 * self.unit * np.abs(y).max(axis=1) + inside)

    def coarser(self, factor: float) -> AnswerError:
        """With more rounding inside."""
        return self._replace(inner=factor * self.inner)

    @property
    def name(self) -> str:
        if self.absolute > 0.0:
            return f"{round(-np.log10(2.0 * self.absolute))} decimals"
        return "float32" if self.unit > 1e-9 else "float64"


def representation(y: Array) -> AnswerError:
    """What the answers (n, outputs) were rounded to: float64, float32, or k decimals."""
    values = np.unique(y[y != 0.0])
    if len(values) < FEWEST:
        return AnswerError(2.0**-53, 2.0**-53)
    with np.errstate(over="ignore"):
        single = bool((values == values.astype(np.float32)).all())
    unit = 2.0**-24 if single else 2.0**-53
    for decimals in range(MOST_DECIMALS + 1):
        scaled = values * 10.0**decimals
        if (np.abs(scaled - np.round(scaled)) <= 4.0 * 2.0**-53 * np.abs(scaled)).all() and np.abs(scaled).max() < 2.0**50:
            return AnswerError(unit, unit, 0.5 * 10.0**-decimals)
    return AnswerError(unit, unit)


def calibrated(rounding: AnswerError, x: Array, y: Array, bends: Array, steepness: float) -> AnswerError:
    """The same with `inner` measured: `bends` (clusters, outputs) are second differences at x that should be zero.

    The largest one is not counted: a weak kink may hide in it.
    """
    outer = rounding._replace(inner=0.0).sd(x, y)
    excess = np.maximum(np.abs(bends).max(axis=1) / np.sqrt(6.0) - outer, 0.0)
    size = np.maximum(steepness * np.linalg.norm(x, axis=1), 1e-300)
    least = max(LEAST_INNER * 2.0**-53, LEAST_COARSE * rounding.unit if rounding.unit > 2.0**-53 else 0.0)
    inner = max(least, SPARE * float(np.sort(excess / size)[-2]))
    return rounding._replace(inner=inner, steepness=steepness)
