"""Conjugate gradients for one damped Gauss-Newton step, (JᵀJ + μD) δ = Jᵀr, J never formed.

A *metric* stands for JᵀJ: it is cheap to solve with, and so close to JᵀJ that few products are needed. With condition number κ of
one measured in the other the error of CG falls by (√κ - 1)/(√κ + 1) a product. Two kinds are in use: a Kronecker product of small
matrices (`kronecker.py`) and the normal equations of a part of the rows (`part_newton.py`). Rows move in their tangent spaces.
How far CG goes, the forcing term, shrinks with the residual, so that convergence is superlinear near an exact fit.
Source: Hestenes and Stiefel (1952); Dembo, Eisenstat, Steihaug (1982) for the forcing terms; Steihaug (1983) for truncation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.damping import Trial
from laybare.refinement.levenberg import tangent, unit_rows
from laybare.refinement.normal import Point, Split, split
from laybare.refinement.products import ProductStatistic, Tangents, joined
from laybare.shapes import Array, Progress, tell
from laybare.source import Source

FORCING = 0.25
TIGHTEST = 1e-4
"""Single-precision products carry CG to about 1e-5; the outer iteration does the rest."""

MAX_CG = 200

MANY = 10
"""Products of a step beyond which each is told of: a step on many rows may take minutes, and a clock listens."""


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
    """JᵀJ + μD, nearly: what it adds for the damping, and how to solve with it."""

    def damp(self, rows: Array) -> Array:
        """μD times hidden rows."""

    def solve(self, v: Direction) -> Direction:
        """Inverse times a direction; symmetric and positive."""


class Solution(NamedTuple):
    """The step, the products it took, and the gain it promises."""

    step: Direction
    products: int
    gain: float


@dataclass(frozen=True, eq=False)
class DampedSystem:
    """JᵀJ + μD on all rows of a source, by single-precision products, with a metric for it; tangents of the rows, if known."""

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
        """CG from zero until the residual, measured by the metric, has shrunk by `tolerance` or promises no more than `enough`.

        If the whole step promises no more than that, it is the metric's own, without a product.
        """
        residual = Direction(tangent(right.rows, self.point.normals), right.coefficients)
        direction = z = self.metric.solve(residual)
        rho = residual.dot(z)
        if rho <= enough:
            return Solution(z, 0, rho)
        solution = Direction(np.zeros_like(right.rows), np.zeros_like(right.coefficients))
        goal, products = max(tolerance**2 * rho, 0.5 * enough), 0
        while products < MAX_CG:
            image = self.apply(direction)
            products, curvature = products + 1, direction.dot(image)
            if products > MANY:
                tell(self.progress, "refining", products, MAX_CG, "products of a step")
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


def newton_trial(
    source: Source, point: Point, gradient: Split, metric: Metric, forcing: float, enough: float = 0.0, *,
    known: Tangents | None = None, progress: Progress | None = None,
) -> Trial[Point]:
    """The damped Gauss-Newton step from a point, as exact as `forcing` says; no product if it gains less than `enough`."""
    system, right = DampedSystem(source, point, metric, known, progress), Direction(*joined(point, gradient))
    found = system.solve(right, max(TIGHTEST, min(FORCING, forcing)), enough)
    moved = unit_rows(point, point.units + found.step.rows, point.coefficients + found.step.coefficients)
    return Trial(moved, found.gain, float(np.abs(found.step.rows).max()), found.products)
