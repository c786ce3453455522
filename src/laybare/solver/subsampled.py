"""Gauss-Newton for many rows: gradients from all of them, the curvature from a subsample, few passes.

c·P rows determine JᵀJ/n of P parameters up to the factors (1 ± √(1/c))², as sample covariances do (Marchenko and Pastur 1967). In
the metric of the subsample, the curvature of all rows has then a condition number of at most ((1 + √(1/c)) / (1 - √(1/c)))², 4.4
for c = 8, and a product with JᵀJ brings CG nearer by a factor 2.8, for 6·n·k·d operations instead of n·P² for the matrix. The
metric eliminates the coefficients exactly, as `normal.py` does, with E = FᵀXs and G = FᵀF of the subsample:

    Schur δ = a - A∘(EᵀG⁻¹ b),      e = G⁻¹ b - G⁻¹E (δ∘A)          for (a, b) = M (δ, e)

The subsample has been fitted before (`minimise.py`), so the minimum over all rows is near. A step costs a least-squares fit (the
projected loss; the last one in double precision), a gradient, and some products with JᵀJ; one that promises less than what
settles the fit costs no product: the metric tells. The subsample may be all rows: their normal equations then serve for several
steps (Shamanskii 1967 for Newton's method), and it need not have been fitted.
Source: Byrd, Chin, Neveitt, Nocedal (2011) for curvature from a subsample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from laybare.numerics.linear_algebra import Precision, SPDFactor, factor_spd
from laybare.numerics.shapes import Array, Progress
from laybare.solver import Effort, FitScale, Iterate, Trial, options
from laybare.solver.dense import damping_weight, schur_complement, with_gauge
from laybare.solver.matrix_free import DampedSystem, Direction, GradientStatistic, ProductStatistic, Tangents, single_then_double
from laybare.solver.normal import Step, StepStatistic, project_on
from laybare.solver.point import FittedPoint, Point, Split, overfit, split, tangent
from laybare.source import Source
from laybare.source.views import fits_one_block


class ReducedNormal(NamedTuple):
    """Normal equations of a subsample at `point`, scaled up to all rows: the Schur complement with the gauge held, the weights
    of its damping, G⁻¹E, the factor of G. They may be used at a point nearby: `normals` belong to that point.
    """

    point: Point
    normals: Array | None
    schur: Array
    weight: Array
    back: Array
    features: SPDFactor


@dataclass(frozen=True, eq=False)
class ReducedMetric:
    """The metric at a damping."""

    normal: ReducedNormal
    weight: Array  # μD
    rows: SPDFactor  # of P Schur P + μD + gauge
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
class SubsampledCurvature:
    """Metrics from the normal equations of `part`, for passes over `size` rows.

    The normal equations of one point serve for the next ones as long as CG in their metric is short, `products` last time. Those
    of all rows at a point nearby may be known beforehand (`latest`).
    """

    part: Source
    size: int
    latest: ReducedNormal | None = None
    products: int = 0
    factored: ReducedMetric | None = None

    def at(self, point: Point, dtype: Precision = np.float64) -> ReducedNormal:
        """At most one pass over the subsample in the precision `dtype`: a metric need not be exact."""
        if self.latest is None or self._is_outdated(self.latest, point):
            step = Step(*self.part.sum(StepStatistic(point, dtype), stage="normal equations"))
            self.latest, self.products = reduced_normal(step, point, self.part.size / self.size, dtype), 0
        return self.latest._replace(normals=point.normals)

    def metric(self, normal: ReducedNormal, damping: float) -> ReducedMetric:
        """The metric at a damping; a factorisation at nearly the same one serves again."""
        last = self.factored
        if last is None or last.normal.schur is not normal.schur or not _share_factor(last.damping, damping):
            self.factored = metric_of(normal, damping)
            return self.factored
        return replace(last, normal=normal, weight=damping * normal.weight)

    def _is_outdated(self, normal: ReducedNormal, point: Point) -> bool:
        """Whether CG in its metric costs more than forming it again would save, or the point has moved far."""
        limits = options.SOLVER
        cost = self.part.size * (point.units.size + point.coefficients.size) // (limits.metric_cost * self.size)
        return (self.products > limits.metric_products + cost // limits.metric_steps
                or _relative_change(normal.point, point) > limits.metric_change)


def metric_of(normal: ReducedNormal, damping: float) -> ReducedMetric:
    """Factored at a damping: P³/3."""
    matrix = normal.schur.copy()
    matrix[np.diag_indices(len(matrix))] += damping * normal.weight.ravel()
    return ReducedMetric(normal, damping * normal.weight, factor_spd(matrix, matrix.dtype.type), damping)


def reduced_normal(step: Step, point: Point, share: float = 1.0, dtype: Precision = np.float64) -> ReducedNormal:
    """From the sums of a step over this share of the rows, in the precision `dtype`."""
    q, largest = len(point.coefficients), float(np.abs(point.coefficients).max(initial=0.0))
    dtype = dtype if fits_single_precision(largest) else np.float64
    schur, back = schur_complement(step, point, point.coefficients, dtype)
    schur /= dtype(share)
    weight = damping_weight(schur).astype(np.float64).reshape(point.units.shape)
    gauged = with_gauge(schur, point.normals, weight)
    return ReducedNormal(point, point.normals, gauged, weight, back, factor_spd(step.gram[:q, :q] / share))


def fits_single_precision(largest: float) -> bool:
    """Whether sums of squares of readouts up to `largest` neither overflow nor vanish in single precision."""
    return 1.0 / options.SOLVER.single_range < largest < options.SOLVER.single_range


def _relative_change(before: Point, after: Point) -> float:
    """Largest change of a hidden row or readout relative to its length; huge for units that had no readout."""
    k, tiny = before.width, 1e-150
    pairs = (before.units, after.units), (before.coefficients[:k], after.coefficients[:k])
    return max(float(np.max(np.linalg.norm(b - a, axis=1) / (np.linalg.norm(a, axis=1) + tiny))) for a, b in pairs)


def _share_factor(one: float, other: float) -> bool:
    """Whether two dampings make nearly the same metric."""
    limits = options.SOLVER
    return max(one, other) <= max(limits.metric_damping_ratio * min(one, other), limits.metric_small_damping)


def subsampled_newton(
    source: Source, curvature: SubsampledCurvature, start: Point, scale: float, *, effort: Effort = Effort(),
    progress: Progress | None = None,
) -> FittedPoint:
    """Minimise the squared error over `source` from a point where the subsample of the curvature is fitted."""
    units = FitScale(scale, source.size, overfit(source, start), unknowns=start.size)
    enough = effort.gain_tol * units.overfit

    def rule(dtype: Precision) -> _FromPart:
        return _FromPart(source, scale, curvature, dtype, enough, progress)

    end = single_then_double(rule, start, units, effort=effort, progress=progress)
    point, loss = project_on(source, end.point)
    return replace(end, point=point, loss=loss)


class _PartSystem(NamedTuple):
    here: Iterate[Point, None]
    gradient: Split
    known: Tangents | None
    normal: ReducedNormal


@dataclass(frozen=True, eq=False)
class _FromPart:
    """The step rule: least squares for the loss, a gradient and the metric of the subsample for the system, CG for the trial."""

    source: Source
    scale: float
    curvature: SubsampledCurvature
    dtype: Precision
    enough: float  # relative gain that is not worth a product
    progress: Progress | None

    @property
    def passes(self) -> float:
        return 1.0 + self.curvature.part.size / self.source.size

    def evaluate(self, point: Point) -> Iterate[Point, None]:
        return Iterate(*project_on(self.source, point, self.dtype), None)

    def system(self, here: Iterate[Point, None]) -> _PartSystem:
        statistic = GradientStatistic(here.point, self.dtype, tangents=self._one_block(here.point))
        _, rows, readout, affine, *known = self.source.sum(statistic, stage="gradient")
        return _PartSystem(
            here, Split(rows, readout, affine), Tangents(*known) if known else None, self.curvature.at(here.point, self.dtype))

    def _one_block(self, point: Point) -> bool:
        """Whether a product reads all rows as one block, so that their tangents can be kept for it."""
        direction = split(point, point.units, point.coefficients)
        return self.dtype is np.float32 and all(fits_one_block(self.source, statistic) for statistic in (
            GradientStatistic(point, self.dtype), ProductStatistic(point, direction, self.dtype)))

    def trial(self, system: _PartSystem, damping: float) -> Trial[Point]:
        forcing = float(np.sqrt(system.here.loss / self.scale))
        metric = self.curvature.metric(system.normal, damping)
        damped = DampedSystem(self.source, system.here.point, metric, system.known, self.progress)
        trial = damped.trial(system.gradient, forcing, self.enough * system.here.loss)
        self.curvature.products = trial.passes
        return trial
