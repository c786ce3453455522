"""Gauss-Newton by conjugate gradients, for networks whose normal equations would not fit: above about 2000 parameters.

Each outer step solves (JᵀJ + μM) δ = Jᵀr by preconditioned CG, J never formed (`products.py`). The preconditioner is

    M = (AAᵀ ∘ SᵀS/n) ⊗ (X̃ᵀX̃/n) · n   on the hidden rows,       FᵀF   on the coefficients,

exact for the hidden rows when slopes and inputs are uncorrelated; for whitened inputs it leaves a condition number set by the
ratio of unknowns to samples. For homogeneous activations rows move in their tangent spaces only.

The forcing term (how far CG goes) shrinks with the residual, min(0.1, √relative loss), so that convergence is superlinear near an
exact fit; far away ten iterations do. While the fit is far off, a part of the samples is enough; the last steps see all of them.
Slopes are taken in single precision until they need more; a step is judged by the pass that also gives the slope of the next one.
Source: Dembo, Eisenstat, Steihaug (1982) for the forcing terms; Steihaug (1983) for truncation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg

from laybare.damping import Effort, Place, Trial, damped_descent
from laybare.levels import DIGITS_LOSS, SINGLE_LOSS
from laybare.refinement.levenberg import Refined, project, spare_equations, tangent, unit_rows
from laybare.refinement.normal import Fit, FitStatistic, Point
from laybare.refinement.products import Precision, ProductStatistic, Slope, SlopeStatistic, Split, joined, split
from laybare.shapes import Array, Progress, Sums
from laybare.source import Source

FORCING = 0.1
TIGHTEST = 1e-4
"""Single-precision products carry CG to about 1e-5; the outer iteration does the rest."""

MAX_CG = 200
FAR = 1e-2
"""Relative loss above which a sub-sample decides the step."""

ENOUGH = 4
"""Samples a parameter in a sub-sample."""

Factor: TypeAlias = tuple[Array, bool]


class Direction(NamedTuple):
    """A change of hidden rows (k, p) and coefficients (q, m)."""

    rows: Array
    coefficients: Array

    def plus(self, other: Direction, factor: float) -> Direction:
        return Direction(self.rows + factor * other.rows, self.coefficients + factor * other.coefficients)

    def dot(self, other: Direction) -> float:
        return float(np.vdot(self.rows, other.rows) + np.vdot(self.coefficients, other.coefficients))


def newton_cg(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error from `start` without forming normal equations; `scale` as in `levenberg_marquardt`."""
    part = _part(source, start)
    far = replace(effort, floor=max(effort.floor, FAR))
    if part.size < source.size:
        begun = _descend(part, start, scale * part.size / source.size, far, progress)
        full = _descend(source, begun.point, scale, effort, progress)
        return full._replace(trace=begun.trace.then(full.trace))
    return _descend(source, start, scale, effort, progress)


def _descend(source: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> Refined:
    """Slopes in single precision for as long as they lead somewhere, then in double."""
    effort = replace(effort, floor=max(effort.floor, DIGITS_LOSS))
    moments = _second_moment(source)
    point, _ = project(start, Fit(*source.sum(FitStatistic(start), stage="loss")))
    single = _Products(source, scale, moments, np.float32)
    coarse = replace(effort, floor=max(effort.floor, SINGLE_LOSS))
    spare = spare_equations(source, start)
    end = damped_descent(single, point, scale, effort=coarse, size=source.size, before=2, spare=spare, progress=progress)
    best, trace = end.best, end.trace
    left = effort.max_steps - (len(trace.rows) - 1)
    if trace.loss > effort.floor and trace.finished and left > 0:
        rest = replace(effort, max_steps=left, damping=min(trace.rows[-1].damping, effort.damping))
        double = replace(single, dtype=np.float64)
        end = damped_descent(double, best.point, scale, effort=rest, size=source.size, spare=spare, progress=progress)
        best, trace = end.best, trace.then(end.trace._replace(rows=end.trace.rows[1:] or end.trace.rows))
    return Refined(best.point, best.loss, trace)


@dataclass(frozen=True, eq=False)
class _Products:
    """The step rule: CG from products; the pass that judges a point also gives its slope."""

    source: Source
    scale: float
    moments: Array
    dtype: Precision
    passes: ClassVar[int] = 0

    def judge(self, point: Point) -> Place[Point, Slope]:
        slope = Slope(*self.source.sum(SlopeStatistic(point, self.dtype), stage="gradient"))
        return Place(point, float(slope.loss), slope)

    def system(self, here: Place[Point, Slope]) -> Place[Point, Slope]:
        return here

    def trial(self, system: Place[Point, Slope], damping: float) -> Trial[Point]:
        point, loss, slope = system.point, system.loss, system.sums
        gradient = Direction(*joined(point, Split(slope.rows, slope.readout, slope.affine)))
        tolerance = max(TIGHTEST, min(FORCING, float(np.sqrt(loss / self.scale))))
        delta, count = _System.of(self.source, point, slope, self.moments, damping).solve(gradient, tolerance)
        moved = unit_rows(point, point.units + delta.rows, point.coefficients + delta.coefficients)
        return Trial(moved, delta.dot(gradient), float(np.abs(delta.rows).max()), count)


@dataclass(frozen=True, eq=False)
class _System:
    """JᵀJ + μM at a point, and the factors of M."""

    source: Source
    point: Point
    weight: Array  # μ diag(AAᵀ ∘ SᵀS)
    kernel: Factor  # of AAᵀ ∘ SᵀS + μ diag
    moments: Array
    inputs: Factor  # of X̃ᵀX̃ / n
    features: Factor  # of FᵀF

    @staticmethod
    def of(source: Source, point: Point, slope: Slope, moments: Array, damping: float) -> _System:
        A = point.coefficients[: point.width]
        kernel = (A @ A.T) * slope.slopes
        weight = damping * np.diag(kernel)
        used = moments if point.biases else moments[:-1, :-1]
        features = _factor(_gram(point, slope, source, moments))
        return _System(source, point, weight, _factor(kernel + np.diag(weight)), used, _factor(used), features)

    def apply(self, v: Direction) -> Direction:
        """(JᵀJ + μM) v, within the tangent spaces; single precision inside a block."""
        product = ProductStatistic(self.point, split(self.point, v.rows, v.coefficients), np.float32)
        rows, coefficients = joined(self.point, Split(*self.source.sum(product, stage="products")))
        return Direction(tangent(rows + self.weight[:, None] * (v.rows @ self.moments), self.point.normals), coefficients)

    def precondition(self, v: Direction) -> Direction:
        rows = scipy.linalg.cho_solve(self.kernel, scipy.linalg.cho_solve(self.inputs, v.rows.T).T)
        return Direction(tangent(rows, self.point.normals), scipy.linalg.cho_solve(self.features, v.coefficients))

    def solve(self, right: Direction, tolerance: float) -> tuple[Direction, int]:
        """CG from zero until the preconditioned residual has shrunk by `tolerance`; the iterations it took."""
        residual = Direction(tangent(right.rows, self.point.normals), right.coefficients)
        direction = z = self.precondition(residual)
        solution = Direction(np.zeros_like(right.rows), np.zeros_like(right.coefficients))
        rho = residual.dot(z)
        goal = tolerance**2 * rho
        for count in range(1, MAX_CG + 1):
            image = self.apply(direction)
            curvature = direction.dot(image)
            if curvature <= 0.0:
                return solution, count
            step = rho / curvature
            solution, residual = solution.plus(direction, step), residual.plus(image, -step)
            z = self.precondition(residual)
            rho, before = residual.dot(z), rho
            if rho <= goal:
                return solution, count
            direction = z.plus(direction, rho / before)
        return solution, MAX_CG


def _gram(point: Point, slope: Slope, source: Source, moments: Array) -> Array:
    """FᵀF from its parts, in the order of the coefficients."""
    free = [*([-1] if point.offset else []), *(range(len(moments) - 1) if point.linear else [])]
    cross, inputs = slope.cross[:, free], source.size * moments[np.ix_(free, free)]
    return np.block([[slope.hidden, cross], [cross.T, inputs]])


def _factor(matrix: Array) -> Factor:
    """Cholesky factor, with as much ridge as it takes for a matrix that is singular up to rounding."""
    ridge = np.diag(np.maximum(np.diag(matrix), 1e-3 * np.trace(matrix) / len(matrix)))
    for size in (1e-13, 1e-10, 1e-7, 1e-4):
        try:
            lower: Array = scipy.linalg.cholesky(matrix + size * ridge, lower=True)
            return lower, True
        except scipy.linalg.LinAlgError:
            continue
    return np.sqrt(ridge), True


def _second_moment(source: Source) -> Array:
    """X̃ᵀX̃ / n with X̃ = [x, 1]."""

    def statistic(x: Array, y: Array) -> Sums:
        X1 = np.column_stack([x, np.ones(len(x))])
        return (X1.T @ X1,)

    (total,) = source.sum(statistic, stage="second moment")
    return np.asarray(total / source.size)


def _part(source: Source, point: Point) -> Source:
    wanted = ENOUGH * (point.units.size + point.coefficients.size)
    return source.take(wanted) if 2 * wanted < source.size else source
