"""Conjugate gradients for one damped Gauss-Newton step, (JᵀJ + μD) δ = Jᵀr, J never formed.

A *metric* stands for JᵀJ: it is cheap to solve with, and so close to JᵀJ that few products are needed. With condition number κ of
one measured in the other the error of CG falls by (√κ - 1)/(√κ + 1) per product. Two kinds are in use: a Kronecker product of
small matrices (`matrix_free.py`) and the normal equations of a subsample (`subsampled.py`). Rows move in their tangent spaces.
How far CG goes, the forcing term, shrinks with the residual, so that convergence is superlinear near an exact fit.

Gradients are single precision as long as that is enough. If the residual is thousands of times its rounding, a gradient is good
to a thousandth, and a Newton step needs no more. With noise that is always so: averaged over the samples, the rounding of a
gradient is a millionth of its standard error. A single-precision run that settles or stalls is therefore final; one that ends at
its floor, or finds no step that lowers the loss, is continued in double precision.
Source: Hestenes and Stiefel (1952); Dembo, Eisenstat, Steihaug (1982) for the forcing terms; Steihaug (1983) for truncation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.numerics.levels import DIGITS_LOSS, SINGLE_LOSS
from laybare.numerics.linear_algebra import Precision
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.solver import Effort, FitScale, Rule, SolverResult, Trial, best_so_far, damped_descent, options
from laybare.solver.point import Point, Split, split, tangent, unit_rows
from laybare.solver.products import ProductStatistic, Tangents, joined
from laybare.source import Source


class Direction(NamedTuple):
    """A change of hidden rows (k, p) and coefficients (q, m)."""

    rows: Array
    coefficients: Array

    def plus(self, other: Direction, factor: float) -> Direction:
        return Direction(self.rows + factor * other.rows, self.coefficients + factor * other.coefficients)

    def dot(self, other: Direction) -> float:
        return float(np.vdot(self.rows, other.rows) + np.vdot(self.coefficients, other.coefficients))


@runtime_checkable
class Metric(Protocol):
    """An approximation of JᵀJ + μD: its damping term, and how to solve with it."""

    def damp(self, rows: Array) -> Array:
        """μD times hidden rows."""

    def solve(self, v: Direction) -> Direction:
        """Inverse times a direction; symmetric and positive definite."""


class Solution(NamedTuple):
    """The step, its products, and the gain it promises."""

    step: Direction
    products: int
    gain: float


@dataclass(frozen=True, eq=False)
class DampedSystem:
    """JᵀJ + μD on all rows of a source by single-precision products, a metric for it, and the tangents of the rows if known."""

    source: Source
    point: Point
    metric: Metric
    known: Tangents | None = None
    progress: Progress | None = None

    def apply(self, v: Direction) -> Direction:
        """(JᵀJ + μD) v, within the tangent spaces; single precision inside a block."""
        product = ProductStatistic(self.point, split(self.point, v.rows, v.coefficients), np.float32, self.known)
        rows, coefficients = joined(self.point, Split(*self.source.sum(product, stage="products")))
        return Direction(tangent(rows + self.metric.damp(v.rows), self.point.normals), coefficients)

    def solve(self, right: Direction, tolerance: float, enough: float = 0.0) -> Solution:
        """CG from zero until the residual, in the metric, has shrunk by `tolerance` or promises no more than `enough`.

        If the whole step promises no more than `enough`, it is that of the metric, without a product.
        """
        residual = Direction(tangent(right.rows, self.point.normals), right.coefficients)
        direction = z = self.metric.solve(residual)
        rho = residual.dot(z)
        if rho <= enough:
            return Solution(z, 0, rho)
        solution = Direction(np.zeros_like(right.rows), np.zeros_like(right.coefficients))
        goal, products, limits = max(tolerance**2 * rho, 0.5 * enough), 0, options.SOLVER
        while products < limits.cg_products:
            image = self.apply(direction)
            products, curvature = products + 1, direction.dot(image)
            if products > limits.cg_report_after:
                report_progress(self.progress, "refining", products, limits.cg_products, "products of a step")
            if curvature <= 0.0:
                break
            step = rho / curvature
            solution, residual = solution.plus(direction, step), residual.plus(image, -step)
            z = self.metric.solve(residual)
            rho, before = residual.dot(z), rho
            if rho <= goal:
                break
            direction = z.plus(direction, rho / before)
        return Solution(solution, products, solution.dot(right))


def newton_trial(system: DampedSystem, gradient: Split, forcing: float, enough: float = 0.0) -> Trial[Point]:
    """The damped Gauss-Newton step from a point with CG tolerance `forcing`; no product if it gains less than `enough`."""
    point, limits = system.point, options.SOLVER
    right = Direction(*joined(point, gradient))
    found = system.solve(right, max(limits.cg_tightest, min(limits.cg_forcing, forcing)), enough)
    moved = unit_rows(point, point.units + found.step.rows, point.coefficients + found.step.coefficients)
    return Trial(moved, found.gain, float(np.abs(found.step.rows).max()), found.products)


K = TypeVar("K")
Y = TypeVar("Y")


def single_then_double(
    rule: Callable[[Precision], Rule[Point, K, Y]], start: Point, scale: FitScale, *,
    effort: Effort, progress: Progress | None = None,
) -> SolverResult[Point, K]:
    """Descend by the rule in single, then if needed in double precision."""
    effort = replace(effort, floor=max(effort.floor, DIGITS_LOSS))
    coarse = replace(effort, floor=max(effort.floor, SINGLE_LOSS))
    first = damped_descent(rule(np.float32), start, scale, effort=coarse, progress=progress)
    rows = first.trace.rows
    left = effort.max_steps - (len(rows) - 1)
    if rows[-1].loss <= effort.floor or first.trace.reason not in ("floor", "flat") or left == 0:
        return first
    rest = replace(effort, max_steps=left, damping=min(rows[-1].damping, effort.damping))
    with best_so_far(first):
        last = damped_descent(rule(np.float64), first.best.point, scale._replace(passes=0), effort=rest, progress=progress)
    later = last.trace._replace(rows=last.trace.rows[1:] or last.trace.rows)  # it begins where the first run ended
    return replace(last, trace=first.trace.then(later))
