"""How much more likely one network makes the samples than another, whatever the noise is like.

For noise of one size the doubled log-likelihood ratio is LR = (N - p) log(loss of the narrower / loss of the wider). If noise is
larger in some places, or has outliers, units follow it there, and LR overrates them. So every row's gain g_n is looked at: for
noise of one size Σ g_n² is 4 LR, so that

    W = 4 (Σ g_n)² / Σ g_n²

is LR again; where noise is f times the average it is LR / f, and if all the gain comes from ten rows it is at most 40. Gains are
those of a Student-t likelihood with 4 degrees of freedom, so that a large residual counts by its number of rows, not by its size.
Source: Vuong (1989), Econometrica 57, for the test of Σ g_n against its own spread; the scaling is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.refinement.normal import Point
from laybare.shapes import Array, Sums
from laybare.source import Source

FREEDOM = 4.0


@dataclass(frozen=True, eq=False)
class _Gains:
    """(z, y) -> Σ g_n and Σ g_n² of the wider point over the narrower, residuals in units of `sigma`."""

    narrow: Point
    wide: Point
    sigma: float

    @property
    def row_floats(self) -> int:
        return 2 * (self.narrow.width + self.wide.width) + 4 * int(self.wide.coefficients.shape[1])

    def __call__(self, x: Array, y: Array) -> Sums:
        gains = self._surprise(self.narrow, x, y) - self._surprise(self.wide, x, y)
        return np.asarray(gains.sum()), np.asarray((gains * gains).sum())

    def _surprise(self, point: Point, x: Array, y: Array) -> Array:
        r = (y - point.features(x, point.extended(x) @ point.units.T) @ point.coefficients) / self.sigma
        return np.asarray((FREEDOM + 1.0) * np.log1p(r * r / FREEDOM).sum(axis=1))


def robust_gain(source: Source, narrow: Point, wide: Point, variance: float) -> float:
    """W of the wider point over the narrower; 0 if it gains nothing. `variance`: that of the wider one's residual. One pass."""
    total, squares = source.sum(_Gains(narrow, wide, float(np.sqrt(variance))), stage="certificate")
    return 4.0 * float(total) ** 2 / max(float(squares), 1e-300) if total > 0.0 else 0.0
