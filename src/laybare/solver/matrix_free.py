"""Gauss-Newton without normal equations, for networks with more than about 2000 hidden parameters.

Each step solves (JᵀJ + μD) δ = Jᵀr by CG (`cg.py`) in a Kronecker metric,

    M = (AAᵀ ∘ SᵀS/n) ⊗ (X̃ᵀX̃/n) · n   on the hidden rows,       FᵀF   on the coefficients,

exact for the hidden rows when slopes and inputs are uncorrelated; for whitened inputs it leaves a condition number set by the
ratio of unknowns to samples. Damping adds μ times the diagonal of the left factor. Cost: factors of k × k, p × p and q × q.
While the fit is far off, a subsample is enough; the last steps see all rows. The pass that gives the loss of a trial also gives
the gradient of the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from laybare.numerics.levels import ROUNDING_LOSS
from laybare.numerics.linear_algebra import Precision, SPDFactor, factor_spd, inner
from laybare.numerics.shapes import Array, Progress, Sums
from laybare.solver import Effort, FitScale, Iterate, Trial, best_so_far, options
from laybare.solver.cg import DampedSystem, Direction, newton_trial, single_then_double
from laybare.solver.normal import project_on
from laybare.solver.point import FittedPoint, Point, Split, overfit, tangent
from laybare.solver.products import Slope, SlopeStatistic
from laybare.source import Source


@dataclass(frozen=True, eq=False)
class KroneckerMetric:
    """M + μD at a point, factored."""

    normals: Array | None
    weight: Array  # μ diag(AAᵀ ∘ SᵀS)
    kernel: SPDFactor  # of AAᵀ ∘ SᵀS + μ diag
    moments: Array
    inputs: SPDFactor  # of X̃ᵀX̃ / n
    features: SPDFactor  # of FᵀF

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
        factor = factor_spd(kernel + np.diag(weight))
        return KroneckerMetric(point.normals, weight, factor, used, factor_spd(used), factor_spd(self._gram(point, slope)))

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


def matrix_free_newton(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> FittedPoint:
    """Minimise the squared error from `start` without forming normal equations; `scale` as in `levenberg_marquardt`.

    Ends with 12 digits where fits are exact: the last bits are not worth their products.
    """
    effort = replace(effort, floor=max(effort.floor, ROUNDING_LOSS))
    wanted = options.SOLVER.far_rows * (start.units.size + start.coefficients.size)
    if 2 * wanted >= source.size:
        return _descend(source, start, scale, effort, progress)
    part, far = source.take(wanted), replace(effort, floor=max(effort.floor, options.SOLVER.far_loss))
    begun = _descend(part, start, scale * part.size / source.size, far, progress)
    full = _descend(source, begun.point, scale, effort, progress)
    return full._replace(trace=begun.trace.then(full.trace))


def _descend(source: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> FittedPoint:
    curvature = KroneckerCurvature.of(source)

    def rule(dtype: Precision) -> _ByProducts:
        return _ByProducts(source, scale, curvature, dtype, progress)

    point, _ = project_on(source, start)
    units = FitScale(scale, source.size, overfit(source, point), passes=2)
    with best_so_far(view=FittedPoint.of):
        return FittedPoint.of(single_then_double(rule, point, units, effort=effort, progress=progress))


@dataclass(frozen=True, eq=False)
class _ByProducts:
    """The step rule: CG from products; the pass that evaluates a point also gives its gradient."""

    source: Source
    scale: float
    curvature: KroneckerCurvature
    dtype: Precision
    progress: Progress | None
    passes: ClassVar[float] = 0.0

    def evaluate(self, point: Point) -> Iterate[Point, Slope]:
        slope = Slope(*self.source.sum(SlopeStatistic(point, self.dtype), stage="gradient"))
        return Iterate(point, float(slope.loss), slope)

    def system(self, here: Iterate[Point, Slope]) -> Iterate[Point, Slope]:
        return here

    def trial(self, system: Iterate[Point, Slope], damping: float) -> Trial[Point]:
        slope, forcing = system.sums, float(np.sqrt(system.loss / self.scale))
        gradient = Split(slope.rows, slope.readout, slope.affine)
        metric = self.curvature.metric(system.point, slope, damping)
        return newton_trial(DampedSystem(self.source, system.point, metric, progress=self.progress), gradient, forcing)
