"""Gauss-Newton without normal equations, for networks with more than about 2000 hidden parameters.

Each step solves (JᵀJ + μD) δ = Jᵀr by conjugate gradients, J never formed. A *metric* stands for JᵀJ: it is cheap to solve with,
and so close to JᵀJ that few products are needed. With condition number κ of one measured in the other the error of CG falls by
(√κ - 1)/(√κ + 1) per product. The metric here is a Kronecker product; that of `subsampled.py` is the normal equations of a part:

    M = (AAᵀ ∘ SᵀS/n) ⊗ (X̃ᵀX̃/n) · n   on the hidden rows,       FᵀF   on the coefficients,

exact for the hidden rows when slopes and inputs are uncorrelated; for whitened inputs it leaves a condition number set by the
ratio of unknowns to samples. Damping adds μ times the diagonal of the left factor. Cost: factors of k × k, p × p and q × q.
While the fit is far off, a subsample is enough; the last steps see all rows. The pass that gives the loss of a trial also gives
the gradient of the next step. Rows move in their tangent spaces. How far CG goes, the forcing term, shrinks with the residual, so
that convergence is superlinear near an exact fit.

Letters as in `normal.py`, but X̃ = [x, 1] always, and the coefficients are split into the readout A (k, m) and an affine part
B (d+1, m), so that f = act(U) A + X̃ B. A direction is (D, E_A, E_B): D moves the hidden rows, E the coefficients:

    J(D, E) = (S ∘ X̃Dᵀ) A + act(U) E_A + X̃ E_B          (n, m)
    Jᵀr     = ((S ∘ rAᵀ)ᵀ X̃,  act(U)ᵀ r,  X̃ᵀ r)

Everything that meets X̃ is gathered into one product forwards and one backwards: about 6·n·k·d operations in all, and X̃ is read
twice. Within a block all but X̃ lies transposed, a row for every unit: what is done number by number then runs along the samples,
in a fifth of the time that twenty columns take.

Gradients and products are single precision as long as that is enough; blocks are added up in double. If the residual is thousands
of times its rounding, a gradient is good to a thousandth, and a Newton step needs no more. With noise that is always so: averaged
over the samples, the rounding of a gradient is a millionth of its standard error. A single-precision run that settles or stalls
is therefore final; one that ends at its floor, or finds no step that lowers the loss, is continued in double precision.
Source: Hestenes and Stiefel (1952); Dembo, Eisenstat, Steihaug (1982) for the forcing terms; Steihaug (1983) for truncation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.numerics.levels import DIGITS_LOSS, ROUNDING_LOSS, SINGLE_LOSS
from laybare.numerics.linear_algebra import Precision, SPDFactor, factor_spd, inner
from laybare.numerics.shapes import Array, Progress, Sums, report_progress
from laybare.numerics.workspace import workspace
from laybare.solver import Effort, FitScale, Iterate, Rule, Trial, best_so_far, damped_descent, options
from laybare.solver.normal import InPrecision, doubles, images, project_on, unit_of, with_ones
from laybare.solver.point import FittedPoint, Point, Split, overfit, split, tangent, unit_rows
from laybare.source import Source


class Slope(NamedTuple):
    """Loss, Jᵀr in three parts, and the small matrices of the preconditioner: SᵀS, act(U)ᵀact(U), act(U)ᵀX̃."""

    loss: Array
    rows: Array
    readout: Array
    affine: Array
    slopes: Array
    hidden: Array
    cross: Array


class Tangents(NamedTuple):
    """act(U) and act'(U) of all rows (k, n): what every product at a point begins with. For rows that are read as one block."""

    values: Array
    slopes: Array


def joined(point: Point, parts: Split) -> tuple[Array, Array]:
    """(rows, coefficients) of the model from the full form, what is not free left out. The transpose of `split`."""
    rows = parts.rows if point.biases else parts.rows[:, :-1]
    free = [parts.readout, *([parts.affine[-1:]] if point.offset else []), *([parts.affine[:-1]] if point.linear else [])]
    return rows, np.vstack(free)


@dataclass(frozen=True, eq=False)
class GradientStatistic(InPrecision):
    """(x, y) -> (RᵀR, then Jᵀr in the three parts of a Split): two products.

    With `curvature` the small matrices of a `Slope` follow, by a larger second product. With `tangents` the `Tangents` of the
    block follow: they are no sums, so the source must be a single block.
    """

    point: Point
    dtype: Precision = np.float64
    tangents: bool = False
    curvature: bool = False

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + (5 + self.curvature) * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m = self.point, self.point.width, y.shape[1]
        at, unit = split(point, point.units, point.coefficients), unit_of(point, y, self.dtype)
        X1, A = with_ones(point, x, self.dtype), (at.readout / unit).astype(self.dtype, copy=False)
        ahead = images(X1, at.rows, at.affine.T / unit)
        H, slopes = point.activation.value_and_slope(ahead[:k])
        B = workspace("back", (k + m + self.curvature * k, len(x)), self.dtype)
        R = np.subtract((y.T / unit).astype(self.dtype, copy=False), ahead[k:], out=B[k : k + m])
        R -= np.dot(A.T, H)
        np.multiply(slopes, _pulled_back(A, R), out=B[:k])
        B[k + m :] = H[: self.curvature * k]
        back = np.dot(B, X1)
        loss = np.asarray(unit**2 * np.einsum("on,on->", R, R, dtype=np.float64))
        rows, readout, affine = doubles(back[:k], np.dot(H, R.T), back[k : k + m].T)
        gradient = loss, unit**2 * rows, unit * readout, unit * affine
        if self.curvature:
            return *gradient, *doubles(np.dot(slopes, slopes.T), np.dot(H, H.T), back[k + m :])
        return (*gradient, H, slopes) if self.tangents else gradient


@dataclass(frozen=True, eq=False)
class ProductStatistic(InPrecision):
    """(x, y) -> JᵀJ(D, E) in the three parts of a Split; a third less work if the tangents of the rows are `known`."""

    point: Point
    direction: Split
    dtype: Precision = np.float64
    known: Tangents | None = None

    @property
    def row_floats(self) -> int:
        return int(self.point.units.shape[1]) + 6 * self.point.width

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k, m, v = self.point, self.point.width, y.shape[1], self.direction
        at, unit = split(point, point.units, point.coefficients), unit_of(point, self.point.coefficients, self.dtype)
        X1, A = with_ones(point, x, self.dtype), (at.readout / unit).astype(self.dtype, copy=False)
        if self.known is None:
            ahead = images(X1, at.rows, v.rows, v.affine.T / unit)
            (H, slopes), ahead = point.activation.value_and_slope(ahead[:k]), ahead[k:]
        else:
            (H, slopes), ahead = self.known, images(X1, v.rows, v.affine.T / unit)
        moved, image = ahead[:k], ahead[k:]
        moved *= slopes
        image += np.dot((v.readout / unit).T.astype(self.dtype, copy=False), H)
        image += np.dot(A.T, moved)
        B = workspace("back", (k + m, len(x)), self.dtype)
        np.multiply(slopes, _pulled_back(A, image), out=B[:k])
        B[k:] = image
        back = np.dot(B, X1)
        rows, readout, affine = doubles(back[:k], np.dot(H, image.T), back[k:].T)
        return unit**2 * rows, unit * readout, unit * affine


def _pulled_back(A: Array, r: Array) -> Array:
    """A r: for one output an outer product, which no matrix product is quick at."""
    return np.asarray(A * r if A.shape[1] == 1 else np.dot(A, r))


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
            if not 0.0 < curvature < np.inf:
                break
            step = rho / curvature
            solution, residual = solution.plus(direction, step), residual.plus(image, -step)
            z = self.metric.solve(residual)
            rho, before = residual.dot(z), rho
            if rho <= goal:
                break
            direction = z.plus(direction, rho / before)
        return Solution(solution, products, solution.dot(right))

    def trial(self, gradient: Split, forcing: float, enough: float = 0.0) -> Trial[Point]:
        """The damped Gauss-Newton step, by CG with tolerance `forcing`; no product if it gains less than `enough`."""
        point, limits = self.point, options.SOLVER
        right = Direction(*joined(point, gradient))
        found = self.solve(right, max(limits.cg_tightest, min(limits.cg_forcing, forcing)), enough)
        moved = unit_rows(point, point.units + found.step.rows, point.coefficients + found.step.coefficients)
        return Trial(moved, found.gain, float(np.abs(found.step.rows).max()), found.products)


K = TypeVar("K")
Y = TypeVar("Y")


def single_then_double(
    rule: Callable[[Precision], Rule[Point, K, Y]], start: Point, scale: FitScale, *,
    effort: Effort, progress: Progress | None = None,
) -> Iterate[Point, K]:
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
        last = damped_descent(rule(np.float64), first.point, scale._replace(passes=0), effort=rest, progress=progress)
    later = last.trace._replace(rows=last.trace.rows[1:] or last.trace.rows)  # it begins where the first run ended
    return replace(last, trace=first.trace.then(later))


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


def matrix_free_newton(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> FittedPoint:
    """Minimise the squared error from `start` without forming normal equations; `scale` as in `levenberg_marquardt`.

    Ends with 12 digits where fits are exact: the last bits are not worth their products.
    """
    effort = replace(effort, floor=max(effort.floor, ROUNDING_LOSS))
    wanted = options.SOLVER.far_rows * start.size
    if 2 * wanted >= source.size:
        return _descend(source, start, scale, effort, progress)
    part, far = source.take(wanted), replace(effort, floor=max(effort.floor, options.SOLVER.far_loss))
    begun = _descend(part, start, scale * part.size / source.size, far, progress)
    full = _descend(source, begun.point, scale, effort, progress)
    return replace(full, trace=begun.trace.then(full.trace))


def _descend(source: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> FittedPoint:
    (moments,) = source.sum(_second_moment, stage="second moment")

    def rule(dtype: Precision) -> _ByProducts:
        return _ByProducts(source, scale, np.asarray(moments / source.size), dtype, progress)

    point, _ = project_on(source, start)
    units = FitScale(scale, source.size, overfit(source, point), passes=2, unknowns=point.size)
    return single_then_double(rule, point, units, effort=effort, progress=progress)


def _second_moment(x: Array, y: Array) -> Sums:
    """(x, y) -> X̃ᵀX̃ with X̃ = [x, 1]."""
    X1 = np.column_stack([x, np.ones(len(x))])
    return (inner(X1, X1),)


@dataclass(frozen=True, eq=False)
class _ByProducts:
    """The step rule: CG from products; the pass that evaluates a point also gives its gradient. `moments` are X̃ᵀX̃/n."""

    source: Source
    scale: float
    moments: Array
    dtype: Precision
    progress: Progress | None
    passes: ClassVar[float] = 0.0

    def evaluate(self, point: Point) -> Iterate[Point, Slope]:
        slope = Slope(*self.source.sum(GradientStatistic(point, self.dtype, curvature=True), stage="gradient"))
        return Iterate(point, float(slope.loss), slope)

    def system(self, here: Iterate[Point, Slope]) -> Iterate[Point, Slope]:
        return here

    def trial(self, system: Iterate[Point, Slope], damping: float) -> Trial[Point]:
        slope, forcing = system.sums, float(np.sqrt(system.loss / self.scale))
        metric = self._metric(system.point, slope, damping)
        damped = DampedSystem(self.source, system.point, metric, progress=self.progress)
        return damped.trial(Split(slope.rows, slope.readout, slope.affine), forcing)

    def _metric(self, point: Point, slope: Slope, damping: float) -> KroneckerMetric:
        A = point.coefficients[: point.width]
        kernel = (A @ A.T) * slope.slopes
        weight = damping * np.diag(kernel)
        used = self.moments if point.biases else self.moments[:-1, :-1]
        factor = factor_spd(kernel + np.diag(weight))
        return KroneckerMetric(point.normals, weight, factor, used, factor_spd(used), factor_spd(self._gram(point, slope)))

    def _gram(self, point: Point, slope: Slope) -> Array:
        """FᵀF from its parts, in the order of the coefficients."""
        free = [*([-1] if point.offset else []), *(range(len(self.moments) - 1) if point.linear else [])]
        cross, inputs = slope.cross[:, free], self.source.size * self.moments[np.ix_(free, free)]
        return np.block([[slope.hidden, cross], [cross.T, inputs]])
