"""The curvature of many parameters as a Kronecker product: for networks whose normal equations would not fit.

    M = (AAᵀ ∘ SᵀS/n) ⊗ (X̃ᵀX̃/n) · n   on the hidden rows,       FᵀF   on the coefficients,

exact for the hidden rows when slopes and inputs are uncorrelated; for whitened inputs it leaves a condition number set by the
ratio of unknowns to samples. Damping adds μ times the diagonal of the left factor. Cost: factors of k × k, p × p and q × q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.linear_algebra import Definite, definite, inner
from laybare.refinement.conjugate import Direction
from laybare.refinement.levenberg import tangent
from laybare.refinement.normal import Point
from laybare.refinement.products import Slope
from laybare.shapes import Array, Sums
from laybare.source import Source


@dataclass(frozen=True, eq=False)
class KroneckerMetric:
    """M + μD at a point, factored."""

    normals: Array | None
    weight: Array  # μ diag(AAᵀ ∘ SᵀS)
    kernel: Definite  # of AAᵀ ∘ SᵀS + μ diag
    moments: Array
    inputs: Definite  # of X̃ᵀX̃ / n
    features: Definite  # of FᵀF

    def damp(self, rows: Array) -> Array:
        return np.asarray(self.weight[:, None] * (rows @ self.moments))

    def solve(self, v: Direction) -> Direction:
        rows = self.kernel.solve(self.inputs.solve(v.rows.T).T)
        return Direction(tangent(rows, self.normals), self.features.solve(v.coefficients))


@dataclass(frozen=True, eq=False)
class KroneckerCurvature:
    """Metrics from the slopes at a point and the second moment of the inputs, X̃ᵀX̃/n, which is the same everywhere."""

    moments: Array
    size: int

    @staticmethod
    def of(source: Source) -> KroneckerCurvature:
        """One pass."""
        return KroneckerCurvature(_second_moment(source), source.size)

    def metric(self, point: Point, slope: Slope, damping: float) -> KroneckerMetric:
        A = point.coefficients[: point.width]
        kernel = (A @ A.T) * slope.slopes
        weight = damping * np.diag(kernel)
        used = self.moments if point.biases else self.moments[:-1, :-1]
        factor = definite(kernel + np.diag(weight))
        return KroneckerMetric(point.normals, weight, factor, used, definite(used), definite(self._gram(point, slope)))

    def _gram(self, point: Point, slope: Slope) -> Array:
        """FᵀF from its parts, in the order of the coefficients."""
        free = [*([-1] if point.offset else []), *(range(len(self.moments) - 1) if point.linear else [])]
        cross, inputs = slope.cross[:, free], self.size * self.moments[np.ix_(free, free)]
        return np.block([[slope.hidden, cross], [cross.T, inputs]])


def _second_moment(source: Source) -> Array:
    """X̃ᵀX̃ / n with X̃ = [x, 1]."""

    def statistic(x: Array, y: Array) -> Sums:
        X1 = np.column_stack([x, np.ones(len(x))])
        return (inner(X1, X1),)

    (total,) = source.sum(statistic, stage="second moment")
    return np.asarray(total / source.size)
