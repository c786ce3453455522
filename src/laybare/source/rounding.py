"""How finely the answers of a black box are resolved: float64, float32, k decimals, or noise.

Three looks, the first of them free:

1. On which grid do the answers lie? If every answer is a float32 number, or a multiple of 10^-k to the last bit, that is no
   accident (by chance, eight float64 numbers are float32 in one case of 2^232).
2. On a short straight segment, equally spaced points give third differences that vanish for every quadratic: what is left is
   rounding, of the answers and of the arithmetic behind them. Steps are shortened until the function's own curvature is gone,
   and never so far that neighbouring answers fall on the same point of the grid.
3. One point asked twice shows noise.

The third difference of independent errors of standard deviation s has standard deviation sqrt(1 + 9 + 9 + 1) s = sqrt(20) s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.shapes import Array

BINARY = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11}
"""Largest relative error of one rounding."""

DECIMALS = 9
"""More decimals than this cannot be told from float64 numbers that happen to be short."""

TELLING = 6
"""Different answers that are needed to see a grid."""

POINTS = 8
"""Points on a segment: five third differences."""

STEPS = (1e-3, 1e-5, 1e-2, 1e-7, 1e-1)
"""Steps of segments, in units of the distance between two drawn inputs, in the order in which they are tried."""

ARITHMETIC = 64.0
"""Third differences below so many roundings of an answer are the arithmetic of a network, and need no second look."""


@dataclass(frozen=True)
class Rounding:
    """Resolution of answers: an answer y is wrong by about `absolute` + `relative` * |y| (one standard deviation).

    `kind` is float64, float32, float16, "k decimals" or noise; `queries` is what it took to find out. For log-odds the levels
    are those of the probabilities, and `level` carries them over.
    """

    kind: str
    relative: float
    absolute: float
    queries: int = 0
    log_odds: bool = False

    def level(self, y: Array) -> Array:
        """Standard deviation of the error of each answer."""
        if not self.log_odds:
            return np.asarray(self.absolute + self.relative * np.abs(y))
        smaller = 1.0 / (1.0 + np.exp(np.minimum(np.abs(y), 700.0)))  # of p and 1 - p
        return np.asarray((self.absolute + self.relative) / smaller)

    @property
    def sentence(self) -> str:
        """For a report."""
        what = "Probabilities" if self.log_odds else "Answers"
        if self.kind == "noise":
            return f"{what} change when the same point is asked again, by about {self.absolute:.1e}: they are noisy."
        return f"{what} are resolved as {self.kind}: errors of about {self.absolute:.1e} + {self.relative:.1e} |y|."


def grid_of(y: Array) -> Rounding:
    """The grid that answers lie on; float64 if no coarser one holds them all, or if too few differ. Asks nothing."""
    values = np.unique(y[np.isfinite(y)])
    values = values[values != 0]
    if len(values) < TELLING:
        return Rounding("float64", BINARY["float64"], 0.0)
    if float(np.abs(values).max()) < 10.0**6:
        for decimals in range(DECIMALS + 1):
            if _are_multiples(values, decimals):
                return Rounding(f"{decimals} decimals", BINARY["float64"], 0.5 * 10.0**-decimals / np.sqrt(3.0))
    for kind, precision in (("float16", np.float16), ("float32", np.float32)):
        with np.errstate(over="ignore"):
            if np.array_equal(values, values.astype(precision)):
                return Rounding(kind, BINARY[kind], 0.0)
    return Rounding("float64", BINARY["float64"], 0.0)


def third_differences(y: Array) -> float:
    """Standard deviation of errors in answers (n, outputs) at equally spaced points on a piece without third derivative."""
    return float(np.sqrt(np.mean(np.diff(y, 3, axis=0) ** 2) / 20.0))


def measure_rounding(ask: Callable[[Array], Array], x: Array, *, log_odds: bool = False) -> Rounding:
    """Measure by about ten queries near x[0], on the way to x[1] (x is (2, dim)); more where the function bends at once.

    `ask` gives (n, outputs). With `log_odds`, answers are carried back to probabilities first, whose rounding is of one size.
    """
    asked: list[Array] = []
    levels: list[float] = []

    def answers(points: Array) -> Array:
        y = ask(points)
        asked.append(_probabilities(y) if log_odds else y)
        return asked[-1]

    again = float(np.abs(np.ptp(answers(x[[0, 0]]), axis=0)).max())
    for step in STEPS:
        y = answers(x[0] + step * np.arange(POINTS)[:, None] * (x[1] - x[0]))
        grid, scale = grid_of(np.concatenate(asked)), float(np.abs(y).max())
        if _moves(y):
            levels.append(third_differences(y))
            if min(levels) <= ARITHMETIC * (grid.absolute + grid.relative * scale):
                break
    return _judged(np.concatenate(asked), again, levels, log_odds)


def _judged(y: Array, again: float, levels: list[float], log_odds: bool) -> Rounding:
    grid, queries = grid_of(y), len(y)
    scale = float(np.abs(y).max()) or 1.0
    if again > ARITHMETIC * (grid.absolute + grid.relative * scale):
        return Rounding("noise", grid.relative, max(again / np.sqrt(2.0), *levels, 0.0), queries, log_odds)
    seen = min(levels, default=0.0)
    if grid.absolute:
        return Rounding(grid.kind, grid.relative, max(grid.absolute, seen), queries, log_odds)
    kind = next((name for name, unit in BINARY.items() if seen <= ARITHMETIC * unit * scale), "noise")
    kind = kind if BINARY.get(kind, 1.0) >= grid.relative else grid.kind
    return Rounding(kind, max(grid.relative, seen / scale), 0.0, queries, log_odds)


def _moves(y: Array) -> bool:
    """Whether neighbouring answers differ everywhere, in some output: else steps are finer than the grid."""
    return bool((np.diff(y, axis=0) != 0).all(axis=0).any())


def _are_multiples(values: Array, decimals: int) -> bool:
    return bool(np.array_equal(np.round(values, decimals), values))


def _probabilities(y: Array) -> Array:
    """From log-odds against the first class to the probabilities of the others."""
    z = np.concatenate([np.zeros((len(y), 1)), y], axis=1)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(p[:, 1:] / p.sum(axis=1, keepdims=True))
