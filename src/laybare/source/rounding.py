"""How finely the answers of a black box are resolved: float64, float32, k decimals, or noise.

Three looks, the first of them free:

1. On which grid do the answers lie? If every answer is a float32 number, or a multiple of 10^-k to the last bit, that is no
   accident (by chance, eight float64 numbers are float32 in one case of 2^232).
2. On a short straight segment the best quadratic leaves only rounding, of the answers and of the arithmetic behind them.
   Steps are shortened until the function's own shape is gone, and never so far that neighbouring answers fall on the same
   point of the grid. They are uneven: along even ones, roundings can repeat themselves and look like a straight line.
3. One point asked twice shows noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from laybare.shapes import Array

BINARY = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11}
"""Largest relative error of one rounding."""

_PRECISIONS = {"float16": np.float16, "float32": np.float32}

DECIMALS = 9
"""More decimals than this cannot be told from float64 numbers that happen to be short."""

COARSER = 16.0
"""Decimals are seen as such only if they are so many times coarser than the numbers that hold them."""

TELLING = 6
"""Different answers that are needed to see a grid."""

UNEVEN = np.cumsum(0.5 + (np.arange(8) * 0.6180339887498949) % 1.0)
"""Places of eight points on a segment, in steps; five degrees of freedom are left beside a quadratic."""

STEPS = (1e-3, 1e-5, 1e-2, 1e-7, 1e-1)
"""Steps of segments, in units of the distance between two drawn inputs, in the order in which they are tried."""

ARITHMETIC = 64.0
"""Residuals below so many roundings of an answer are the arithmetic of a network, and need no second look."""

SPARE = 2.0
"""The second largest of four pairs of second differences estimates the standard deviation within about this factor."""

LEAST_INNER, LEAST_COARSE = 2.0, 0.125
"""Units of rounding that the sums inside lose at least: of float64, in which the inputs themselves are rounded, and of anything
coarser. The steepness is a guess from a few slopes; a float64 tolerance may be generous."""


@dataclass(frozen=True)
class Rounding:
    """Resolution of answers: the error of an answer y at x has the standard deviation

        absolute + relative · |y| + inner · steepness · |x|

    The last part is the rounding of the sums inside a network, which may cancel in y; it is 0 unless it was
    measured (`calibrated`). `kind` is float64, float32, float16, "k decimals" or noise; `unit` is one rounding of that kind,
    `queries` what it took to find out. For log-odds the levels are those of the probabilities; `level` and `sd` carry them over.
    """

    kind: str
    unit: float
    relative: float
    absolute: float = 0.0
    inner: float = 0.0
    steepness: float = 0.0
    queries: int = 0
    log_odds: bool = False

    def level(self, y: Array) -> Array:
        """Standard deviation of every single answer, without the part of x."""
        if not self.log_odds:
            return np.asarray(self.absolute + self.relative * np.abs(y))
        smaller = 1.0 / (1.0 + np.exp(np.minimum(np.abs(y), 700.0)))  # of p and 1 - p
        return np.asarray((self.absolute + self.relative) / smaller)

    def sd(self, x: Array, y: Array) -> Array:
        """Standard deviations (n,) of the worst output of answers y (n, outputs) at x (n, dim)."""
        inside = self.inner * self.steepness * np.linalg.norm(x, axis=1)
        return np.asarray(self.level(np.abs(y).max(axis=1)) + inside)

    def coarser(self, factor: float) -> Rounding:
        """With more rounding inside."""
        return replace(self, inner=factor * self.inner)

    @property
    def fine(self) -> bool:
        """Whether the answers are float64 numbers, with all their digits."""
        return self.unit < 1e-9 and self.absolute == 0.0

    @property
    def sentence(self) -> str:
        """For a report."""
        what = "Probabilities" if self.log_odds else "Answers"
        if self.kind == "noise":
            return f"{what} scatter by about {self.absolute:.1e} + {self.relative:.1e} |y|: they are noisy."
        return f"{what} are resolved as {self.kind}: errors of about {self.absolute:.1e} + {self.relative:.1e} |y|."


def representation(y: Array) -> Rounding:
    """What answers were rounded to: float64 if no coarser grid holds them all, or if too few differ. Asks nothing."""
    values = _different(y)
    if len(values) < TELLING:
        return Rounding("float64", BINARY["float64"], BINARY["float64"])
    kind = next((name for name, precision in _PRECISIONS.items() if _is_held(values, precision)), "float64")
    finest = min(DECIMALS, int(-np.log10(COARSER * BINARY[kind] * float(np.abs(values).max()))))
    for decimals in range(finest + 1):
        if np.array_equal(np.round(values, decimals).astype(_PRECISIONS.get(kind, np.float64)), values):
            return Rounding(f"{decimals} decimals", BINARY[kind], BINARY[kind], 0.5 * 10.0**-decimals)
    return Rounding(kind, BINARY[kind], BINARY[kind])


def tells_grid(y: Array) -> bool:
    """Whether so many answers differ that a grid would be seen."""
    return len(_different(y)) >= TELLING


def _different(y: Array) -> Array:
    values: Array = np.unique(y[np.isfinite(y)])
    return np.asarray(values[values != 0])


def calibrated(rounding: Rounding, x: Array, y: Array, bends: Array, steepness: float) -> Rounding:
    """The same with `inner` measured by second differences `bends` (n, outputs) at x that should be zero; n is at least two.

    The largest one is not counted: a weak kink may hide in it. One rounding is at most `unit`, and half of it on average.
    """
    outer = replace(rounding, relative=0.5 * rounding.unit, inner=0.0, steepness=steepness)
    excess = np.maximum(np.abs(bends).max(axis=1) / np.sqrt(6.0) - outer.sd(x, y), 0.0)
    size = np.maximum(steepness * np.linalg.norm(x, axis=1), 1e-300)
    coarse = LEAST_COARSE * rounding.unit if rounding.unit > BINARY["float64"] else 0.0
    least = max(LEAST_INNER * BINARY["float64"], coarse)
    return replace(outer, inner=max(least, SPARE * float(np.sort(excess / size)[-2])))


def residual_level(t: Array, y: Array, degree: int = 2) -> float:
    """Standard deviation of what a polynomial in t (n,) leaves of answers (n, outputs): their error where it fits the function.

    The average over outputs; n must exceed degree + 1. Least squares, with t mapped to [-1, 1].
    """
    scaled = 2.0 * (t - t.min()) / np.ptp(t) - 1.0
    basis = np.linalg.qr(np.vander(scaled, degree + 1))[0]
    centred = y - y.mean(axis=0)  # a large constant would cost digits
    left = centred - basis @ (basis.T @ centred)
    return float(np.sqrt(np.sum(left**2) / (left.shape[1] * (len(t) - degree - 1))))


def measure_rounding(ask: Callable[[Array], Array], x: Array) -> Rounding:
    """Measure by about ten queries near x[0], on the way to x[1] (x is (2, dim)); up to 42 where the function bends at once.

    `ask` gives (n, outputs). For probabilities give them, not log-odds: their rounding is of one size.
    """
    asked = [ask(x[[0, 0]])]
    again = float(np.abs(np.ptp(asked[0], axis=0)).max())
    levels: list[float] = []
    for step in STEPS:
        y = ask(x[0] + step * UNEVEN[:, None] * (x[1] - x[0]))
        asked.append(y)
        grid, scale = representation(np.concatenate(asked)), float(np.abs(y).max())
        if _moves(y):
            levels.append(residual_level(UNEVEN, y))
            if min(levels) <= ARITHMETIC * (grid.absolute + grid.relative * scale):
                break
    return _judged(np.concatenate(asked), again, levels)


def _judged(y: Array, again: float, levels: list[float]) -> Rounding:
    grid = replace(representation(y), queries=len(y))
    scale = float(np.abs(y).max()) or 1.0
    fine = ARITHMETIC * (grid.absolute + grid.relative * scale)
    if again > fine:
        return replace(grid, kind="noise", absolute=float(np.median(levels or [again / np.sqrt(2.0)])))
    lowest = [*sorted(levels)[:2], 0.0, 0.0]
    seen = lowest[0] if lowest[0] <= fine else lowest[1]  # of several that are no mere arithmetic, one may be low by luck
    if grid.absolute or seen <= ARITHMETIC * grid.unit * scale:
        return grid if grid.absolute else replace(grid, relative=max(grid.relative, seen / scale))
    kind = next((name for name, unit in BINARY.items() if seen <= ARITHMETIC * unit * scale), "noise")
    return replace(grid, kind=kind, unit=BINARY.get(kind, grid.unit), relative=seen / scale)


def _moves(y: Array) -> bool:
    """Whether neighbouring answers differ everywhere, in some output: else steps are finer than the grid."""
    return bool((np.diff(y, axis=0) != 0).all(axis=0).any())


def _is_held(values: Array, precision: type) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(values, values.astype(precision))
