"""Whether two fits that began elsewhere are the same minimum: by what they leave, and by their outputs.

Noise makes a fit of P numbers differ from the truth by P σ² in the sum of squares over all rows: outputs of two fits that differ
by a share ε of that are, in the mean over all directions, √ε of a standard error apart. A unit more, fewer or elsewhere makes a
difference of several times P σ² per unit, since it is worth log n for each of its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.refinement.hunt import Hunt
from laybare.refinement.levenberg import Refined, overfit
from laybare.refinement.normal import Point
from laybare.refinement.pruning import parameter_count, parameters_per_unit
from laybare.shapes import Array, Sums

SAME, SAME_EARLY = 0.05, 0.5
"""That share, for losses and for the squares of what differs between outputs: a fifth of a standard error; and where steps are
dear, so that runs end early. The same minimum, reached twice, was mostly up to 0.03 away, others 0.2 and more (d=20, 6 and 10
units, 4,000 rows); on few rows there are others at 0.08."""

FOLLOWED = 3.0
"""Residual variances that a free number of a spare unit may gain by following noise: two runs differ by less than so many."""


def may_be_same(hunt: Hunt, one: Refined, other: Refined, spares: int) -> bool:
    """Whether two runs with spare units differ in their losses by no more than these make by following noise."""
    left = max(1, hunt.equations - parameter_count(one.point))
    band = max(_tolerance(hunt, one) * overfit(hunt.source, one.point), FOLLOWED * spares * parameters_per_unit(one.point) / left)
    return abs(one.loss - other.loss) <= band * one.loss


def same(hunt: Hunt, one: Refined, other: Refined) -> bool:
    """Whether two runs, once pruned, ended at the same minimum; at most one pass."""
    if one.point.width != other.point.width:
        return False
    most = _tolerance(hunt, one) * overfit(hunt.source, one.point) * min(one.loss, other.loss)
    if abs(one.loss - other.loss) > most:
        return False
    return float(hunt.source.sum(_Apart(one.point, other.point), stage="loss")[0]) <= most


def _tolerance(hunt: Hunt, found: Refined) -> float:
    return SAME_EARLY if hunt.dear(found.point) else SAME


@dataclass(frozen=True, eq=False)
class _Apart:
    """(x, y) -> the sum of squares of what differs between the outputs of two points."""

    one: Point
    other: Point

    def __call__(self, x: Array, y: Array) -> Sums:
        first, second = (p.features(x, p.extended(x) @ p.units.T) @ p.coefficients for p in (self.one, self.other))
        return (np.asarray(np.sum((first - second) ** 2)),)
