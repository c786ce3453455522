"""The curvature of all rows from that of some: a Gauss-Newton step at the price of a few gradients, however many rows there are.

n₁ = c·P rows know JᵀJ/n of P parameters up to the factors (1 ± √(1/c))², as sample covariances do (Marchenko and Pastur 1967). In
the metric of the part, the curvature of all rows has then a condition number of at most ((1 + √(1/c)) / (1 - √(1/c)))², 4.4 for
c = 8, and a product with JᵀJ brings CG nearer by a factor 2.8, at a price of 6·n·k·d operations instead of n·P² for the matrix.

The metric eliminates the coefficients exactly, as `normal.py` does, with E = FᵀXs and G = FᵀF of the part:

    Schur δ = a - A∘(EᵀG⁻¹ b),      e = G⁻¹ b - G⁻¹E (δ∘A)          for (a, b) = M (δ, e)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from laybare.linear_algebra import Definite, Precision, definite
from laybare.refinement.conjugate import Direction
from laybare.refinement.levenberg import damping_weight, reduced, tangent, with_gauge
from laybare.refinement.normal import Point, Step, StepStatistic
from laybare.shapes import Array
from laybare.source import Source

FRESH, SERVES = 4, 4
"""Products that CG takes in a metric that is fresh, and steps that one should serve: beyond FRESH + price / SERVES it is formed
again."""

PRODUCT = 20
"""Unknowns for which the normal equations cost as much as a product with JᵀJ on as many rows (6 operations a number, at a third
of the speed)."""

ALIKE, LITTLE = 4.0, 1e-4
"""Dampings that differ by no more than this factor, or are no larger than that, share a factor."""

ANY_SIZE = 1e12
"""Readouts beyond it, or below one over it, have squares that single precision does not hold."""

FAR = 3.0
"""Largest relative change of a row or readout after which nothing is left of the curvature. Rows of length one change by 2 at
most: what is meant are units that had hardly a readout."""


class PartNormal(NamedTuple):
    """Normal equations of a part, scaled up to all rows, at `point`: the Schur complement with the gauge held and the weights of
    its damping, G⁻¹E, the factor of G.

    `normals` are those of the point where they are used, which may have moved on a little.
    """

    point: Point
    normals: Array | None
    schur: Array
    weight: Array
    back: Array
    features: Definite


@dataclass(frozen=True, eq=False)
class PartMetric:
    """The metric at a damping."""

    normal: PartNormal
    weight: Array  # μD
    rows: Definite  # of P Schur P + μD + gauge
    damping: float  # of the factor

    def damp(self, rows: Array) -> Array:
        return np.asarray(self.weight * rows)

    def solve(self, v: Direction) -> Direction:
        (k, p), A = self.weight.shape, self.normal.point.coefficients[: len(self.weight)]
        back, normals = self.normal.back, self.normal.normals
        pulled = ((back.T @ v.coefficients).reshape(k, p, -1) * A[:, None, :]).sum(axis=2)
        right = tangent(v.rows - pulled, normals).ravel()
        rows = tangent(self.rows.solve(right).reshape(k, p), normals)
        follow = back @ (rows[:, :, None] * A[:, None, :]).reshape(k * p, -1)
        return Direction(rows, self.normal.features.solve(v.coefficients) - follow)


@dataclass(eq=False)
class PartCurvature:
    """Metrics from the normal equations of `part`, for passes over `size` rows. Those of one point serve for the next ones, as
    long as CG in their metric is short: `used` tells how many products it took."""

    part: Source
    size: int
    latest: PartNormal | None = None
    products: int = 0
    factored: PartMetric | None = None

    def at(self, point: Point, dtype: Precision = np.float64) -> PartNormal:
        """At most one pass over the part, in single precision if `dtype` says so: a metric need not be exact."""
        if self.latest is None or self.products > FRESH + self._price(point) // SERVES or _moved(self.latest.point, point) > FAR:
            step = Step(*self.part.sum(StepStatistic(point, dtype), stage="normal equations"))
            self.latest, self.products = normal_of(step, point, self.part.size / self.size, dtype), 0
        return self.latest._replace(normals=point.normals)

    def metric(self, normal: PartNormal, damping: float) -> PartMetric:
        """The metric at a damping; a factor at nearly the same one serves again."""
        last = self.factored
        if last is None or last.normal.schur is not normal.schur or not _alike(last.damping, damping):
            self.factored = metric_of(normal, damping)
            return self.factored
        return replace(last, normal=normal, weight=damping * normal.weight)

    def used(self, products: int) -> None:
        self.products = products

    def _price(self, point: Point) -> int:
        """Of the normal equations, in products with all rows."""
        return self.part.size * (point.units.size + point.coefficients.size) // (PRODUCT * self.size)


def metric_of(normal: PartNormal, damping: float) -> PartMetric:
    """Factored at a damping: P³/3."""
    matrix = normal.schur.copy()
    matrix[np.diag_indices(len(matrix))] += damping * normal.weight.ravel()
    return PartMetric(normal, damping * normal.weight, definite(matrix, matrix.dtype.type), damping)


def normal_of(step: Step, point: Point, share: float = 1.0, dtype: Precision = np.float64) -> PartNormal:
    """From the sums of a step over such a share of the rows; the matrix and its factors are of precision `dtype`."""
    q, largest = len(point.coefficients), float(np.abs(point.coefficients).max(initial=0.0))
    dtype = dtype if 1.0 / ANY_SIZE < largest < ANY_SIZE else np.float64
    schur, back = reduced(step, point, point.coefficients, dtype)
    schur /= dtype(share)
    weight = damping_weight(schur).astype(np.float64).reshape(point.units.shape)
    gauged = with_gauge(schur, point.normals, weight)
    return PartNormal(point, point.normals, gauged, weight, back, definite(step.gram[:q, :q] / share))


def _moved(before: Point, after: Point) -> float:
    """Largest change of a hidden row or of its readout, as a share of its length; huge for units that had no readout."""
    k, tiny = before.width, 1e-150
    pairs = (before.units, after.units), (before.coefficients[:k], after.coefficients[:k])
    return max(float(np.max(np.linalg.norm(b - a, axis=1) / (np.linalg.norm(a, axis=1) + tiny))) for a, b in pairs)


def _alike(one: float, other: float) -> bool:
    """Whether two dampings make nearly the same metric."""
    return max(one, other) <= max(ALIKE * min(one, other), LITTLE)
