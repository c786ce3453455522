"""The resolution of a black box's answers: float64, float32, k decimals, or noise.

Three tests, the first without queries:

1. The grid of the answers. If every answer is a float32 number, or a multiple of 10^-k to the last bit, that is no accident
   (eight float64 numbers are all float32 by chance with probability 2^-232).
2. On a short segment the residual of the best quadratic is rounding, of the answers and of the arithmetic behind them. Steps
   are shortened until the function's own curvature is gone, but not so far that neighbouring answers fall on one point of the
   grid. They are uneven: along even steps, roundings can repeat and look like a straight line.
3. One point asked twice shows noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from laybare.numerics.shapes import Array

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11}
"""Largest relative error of one rounding."""

_PRECISIONS = {"float16": np.float16, "float32": np.float32}


@dataclass(frozen=True, kw_only=True)
class RoundingOptions:
    """How the resolution of answers is measured."""

    max_decimals: int = 9
    """Largest number of decimals that is detected. Derived: float64 answers of order 1 with more decimals than this come close to
    the 16 digits of any float64 number."""
    grid_ratio: float = 16.0
    """Decimals are detected if their step is at least this multiple of the unit roundoff of the answers. Checked by `pytest
    tests/source/test_rounding.py`."""
    min_values: int = 6
    """Different answers needed to detect a grid. Derived: by chance all of them are float32 with probability 2^-174."""
    steps: tuple[float, ...] = (1e-3, 1e-5, 1e-2, 1e-7, 1e-1)
    """Steps of segments in units of the distance between two drawn inputs, in the order in which they are tried. Checked by
    `pytest tests/source/test_rounding.py`."""
    arithmetic: float = 64.0
    """Residuals up to this multiple of the answer's rounding are attributed to the arithmetic of a network. Checked by `pytest
    tests/source/test_rounding.py`."""
    inner_factor: float = 2.0
    """Safety factor of the inner rounding: the second largest of four pairs of second differences estimates the standard
    deviation within about this factor. Checked by `pytest tests/source/test_rounding.py`."""
    min_inner_float64: float = 2.0
    """Least inner rounding in units of float64 roundoff, by which the inputs themselves are rounded; generous, since the
    steepness is estimated from a few slopes. Checked by `pytest tests/lines`."""
    min_inner_coarse: float = 0.125
    """The same for coarser answers, in units of their own roundoff. Checked by `pytest tests/lines`."""


OPTIONS = RoundingOptions()

SEGMENT = np.cumsum(0.5 + (np.arange(8) * 0.6180339887498949) % 1.0)
"""Positions of eight points on a segment, in steps; uneven by the golden ratio. A quadratic leaves five degrees of freedom."""


@dataclass(frozen=True)
class Rounding:
    """Resolution of answers: the error of an answer y at x has the standard deviation

        absolute + relative · |y| + inner · steepness · |x|

    The last term is the rounding of the sums inside a network, which may cancel in y; it is 0 unless measured by
    `calibrate_rounding`. `kind` is float64, float32, float16, "k decimals" or noise; `unit` is the unit roundoff of that kind;
    `queries` is the number that the measurement took. For log-odds, absolute and relative are those of the probabilities;
    `level` and `sd` convert them. Log-odds far below and far above 0 are `lossy` if the digits of the smaller class end at the
    roundoff of 1.
    """

    kind: str
    unit: float
    relative: float
    absolute: float = 0.0
    inner: float = 0.0
    steepness: float = 0.0
    queries: int = 0
    log_odds: bool = False
    lossy: tuple[bool, bool] = (True, True)

    def level(self, y: Array) -> Array:
        """Standard deviation of every answer, without the inner term."""
        if not self.log_odds:
            return np.asarray(self.absolute + self.relative * np.abs(y))
        over = 1.0 + np.exp(np.minimum(np.abs(y), 700.0))  # one over the smaller of p and 1 - p
        ends = np.where(y < 0.0, *self.lossy)
        return np.asarray(self.absolute * over + self.relative * np.where(ends, over, 2.0 + np.abs(y)))

    def sd(self, x: Array, y: Array) -> Array:
        """Standard deviations (n,) of the worst output, for answers y (n, outputs) at x (n, dim)."""
        inside = self.inner * self.steepness * np.linalg.norm(x, axis=1)
        return np.asarray(self.level(y).max(axis=1) + inside)

    def coarser(self, factor: float) -> Rounding:
        """With the inner rounding multiplied by `factor`."""
        return replace(self, inner=factor * self.inner)

    @property
    def fine(self) -> bool:
        """Whether the answers are float64 numbers with all their digits."""
        return self.unit < 1e-9 and self.absolute == 0.0

    @property
    def sentence(self) -> str:
        """A sentence for a report."""
        what = "Probabilities" if self.log_odds else "Answers"
        if self.kind == "noise":
            return f"{what} scatter by about {self.absolute:.1e} + {self.relative:.1e} |y|: they are noisy."
        constant = f"{self.absolute:.1e} + " if self.absolute else ""
        return f"{what} are resolved as {self.kind}: errors of about {constant}{self.relative:.1e} |y|."


def detect_grid(y: Array) -> Rounding:
    """The grid of answers: float64 if no coarser grid holds them all, or if too few differ. No queries."""
    values = _different(y)
    if len(values) < OPTIONS.min_values:
        return Rounding("float64", UNIT_ROUNDOFF["float64"], UNIT_ROUNDOFF["float64"])
    kind = next((name for name, precision in _PRECISIONS.items() if _fits_precision(values, precision)), "float64")
    step = OPTIONS.grid_ratio * UNIT_ROUNDOFF[kind] * float(np.abs(values).max())
    finest = int(min(OPTIONS.max_decimals, -np.log10(step))) if step > 0.0 else OPTIONS.max_decimals
    for decimals in range(finest + 1):
        if np.array_equal(np.round(values, decimals).astype(_PRECISIONS.get(kind, np.float64)), values):
            return Rounding(f"{decimals} decimals", UNIT_ROUNDOFF[kind], UNIT_ROUNDOFF[kind], 0.5 * 10.0**-decimals)
    return Rounding(kind, UNIT_ROUNDOFF[kind], UNIT_ROUNDOFF[kind])


def shows_grid(y: Array) -> bool:
    """Whether enough answers differ for `detect_grid` to find a grid."""
    return len(_different(y)) >= OPTIONS.min_values


def _different(y: Array) -> Array:
    values: Array = np.unique(y[np.isfinite(y)])
    return np.asarray(values[values != 0])


def calibrate_rounding(rounding: Rounding, x: Array, y: Array, bends: Array, steepness: float) -> Rounding:
    """`rounding` with `inner` measured from second differences `bends` (n, outputs) at x that should be zero; n is at least two.

    The largest one is not used: a weak kink may hide in it. One rounding is at most `unit`, and half of it on average.
    """
    outer = replace(rounding, relative=0.5 * rounding.unit, inner=0.0, steepness=steepness)
    excess = np.maximum(np.abs(bends).max(axis=1) / np.sqrt(6.0) - outer.sd(x, y), 0.0)
    size = np.maximum(steepness * np.linalg.norm(x, axis=1), 1e-300)
    coarse = OPTIONS.min_inner_coarse * rounding.unit if rounding.unit > UNIT_ROUNDOFF["float64"] else 0.0
    least = max(OPTIONS.min_inner_float64 * UNIT_ROUNDOFF["float64"], coarse)
    return replace(outer, inner=max(least, OPTIONS.inner_factor * float(np.sort(excess / size)[-2])))


def residual_sd(t: Array, y: Array, degree: int = 2) -> float:
    """Residual standard deviation of a polynomial fit in t (n,) to answers (n, outputs): their error if it fits the function.

    Averaged over outputs; n must exceed degree + 1. Least squares, with t mapped to [-1, 1].
    """
    scaled = 2.0 * (t - t.min()) / np.ptp(t) - 1.0
    basis = np.linalg.qr(np.vander(scaled, degree + 1))[0]
    centred = y - y.mean(axis=0)  # saves digits where the mean is large
    left = centred - basis @ (basis.T @ centred)
    return float(np.sqrt(np.sum(left**2) / (left.shape[1] * (len(t) - degree - 1))))


def measure_rounding(ask: Callable[[Array], Array], x: Array) -> Rounding:
    """Measure by about ten queries near x[0], towards x[1] (x is (2, dim)); by up to 42 where the function is strongly curved.

    `ask` returns (n, outputs): for a classifier probabilities, not log-odds, since their rounding has one size.
    """
    asked = [ask(x[[0, 0]])]
    again = float(np.abs(np.ptp(asked[0], axis=0)).max())
    levels: list[float] = []
    for step in OPTIONS.steps:
        y = ask(x[0] + step * SEGMENT[:, None] * (x[1] - x[0]))
        asked.append(y)
        grid, scale = detect_grid(np.concatenate(asked)), float(np.abs(y).max())
        if _all_differ(y):
            levels.append(residual_sd(SEGMENT, y))
            if min(levels) <= OPTIONS.arithmetic * (grid.absolute + grid.relative * scale):
                break
    return _classify(np.concatenate(asked), again, levels)


def _classify(y: Array, again: float, levels: list[float]) -> Rounding:
    grid = replace(detect_grid(y), queries=len(y))
    scale = float(np.abs(y).max()) or 1.0
    fine = OPTIONS.arithmetic * (grid.absolute + grid.relative * scale)
    if again > fine:
        return replace(grid, kind="noise", absolute=float(np.median(levels or [again / np.sqrt(2.0)])))
    lowest = [*sorted(levels)[:2], 0.0, 0.0]
    seen = lowest[0] if lowest[0] <= fine else lowest[1]  # above arithmetic, the lowest may be low by chance
    if grid.absolute or seen <= OPTIONS.arithmetic * grid.unit * scale:
        return grid if grid.absolute else replace(grid, relative=max(grid.relative, seen / scale))
    kind = next((name for name, unit in UNIT_ROUNDOFF.items() if seen <= OPTIONS.arithmetic * unit * scale), "noise")
    return replace(grid, kind=kind, unit=UNIT_ROUNDOFF.get(kind, grid.unit), relative=seen / scale)


def _all_differ(y: Array) -> bool:
    """Whether all neighbouring answers differ, in some output; else the steps are finer than the grid."""
    return bool((np.diff(y, axis=0) != 0).all(axis=0).any())


def _fits_precision(values: Array, precision: type) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(values, values.astype(precision))
