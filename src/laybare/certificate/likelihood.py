"""How much more likely one network makes the samples than another, whatever the noise is like.

For noise of one size the doubled log-likelihood ratio is LR = (N - p) log(loss of the narrower / loss of the wider). If noise is
larger in some places, or has outliers, units follow it there, and LR overrates them. So every row's gain g_n is looked at: for
noise of one size Σ g_n² is 4 LR, so that

    W = 4 (Σ g_n)² / Σ g_n²

is LR again; where noise is f times the average it is LR / f, and if all the gain comes from ten rows it is at most 40. Gains are
those of a Student-t likelihood with 4 degrees of freedom, so that a large residual counts by its number of rows, not by its size.

f itself is the mean square of the wider fit's residual, weighted by the squared difference e of the two networks:
f = Σ r² e² / (σ² Σ e²). LR / f trusts the few rows that W does not: a unit may be missing if LR / f says so, it is missing or
needed only if W says so too.
Source: Vuong (1989), Econometrica 57, for the test of Σ g_n against its own spread; the scaling is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.refinement.normal import Point
from laybare.shapes import Array, Sums
from laybare.source import Source

FREEDOM = 4.0


class Gain(NamedTuple):
    """`counted`: W; `local`: f, at least one."""

    counted: float
    local: float


@dataclass(frozen=True, eq=False)
class _Gains:
    """(z, y) -> Σ g_n, Σ g_n², Σ r² e² and Σ e² of the wider point over the narrower, residuals in units of `sigma`."""

    narrow: Point
    wide: Point
    sigma: float

    @property
    def row_floats(self) -> int:
        return 2 * (self.narrow.width + self.wide.width) + 6 * int(self.wide.coefficients.shape[1])

    def __call__(self, x: Array, y: Array) -> Sums:
        before, after = (self._residual(point, x, y) for point in (self.narrow, self.wide))
        gains, e = _surprise(before) - _surprise(after), (before - after) ** 2
        return tuple(np.asarray(part.sum()) for part in (gains, gains * gains, after**2 * e, e))

    def _residual(self, point: Point, x: Array, y: Array) -> Array:
        return np.asarray((y - point.features(x, point.extended(x) @ point.units.T) @ point.coefficients) / self.sigma)


def _surprise(r: Array) -> Array:
    return np.asarray((FREEDOM + 1.0) * np.log1p(r * r / FREEDOM).sum(axis=1))


def robust_gain(source: Source, narrow: Point, wide: Point, variance: float) -> Gain:
    """W and f of the wider point over the narrower; W is 0 if it gains nothing. `variance`: the wider one's noise. One pass."""
    statistic = _Gains(narrow, wide, float(np.sqrt(variance)))
    total, squares, noise, apart = (float(part) for part in source.sum(statistic, stage="certificate"))
    counted = 4.0 * total**2 / max(squares, 1e-300) if total > 0.0 else 0.0
    return Gain(counted, max(1.0, noise / max(apart, 1e-300)))
