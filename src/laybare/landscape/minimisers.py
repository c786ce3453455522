"""Descent to minima and saddles of an objective, and what lies in its landscape.

Deterministic descent that leaves saddles: L-BFGS from anywhere, a look at the curvature, a trust region for the last digits.

On unit rows L-BFGS works with f∘project, whose points need no constraint; the trust region works in tangent spaces with Hessian
products (Steihaug's conjugate gradients; Absil, Baker & Gallivan 2007) and converges quadratically.

Curvature: Lanczos on Hessian products with full orthogonalisation, started in the tangent space, which it never leaves. Its
smallest Ritz value is never below the smallest eigenvalue, and some eigenvalue lies within `residual` of it; after as many steps
as there are dimensions it is exact. Time: one Hessian product per step.

What lies in a landscape: distinct minima and saddles, with values, curvatures, counts, and distances from the truth.

Minima are the ends of descents. Saddles are zeros of the gradient, found by minimising |∇f|², whose own gradient is a Hessian
product, ∇²f ∇f; ends with |∇f| > 0 are left out. Critical points that differ by the order and signs of rows, or by a symmetry of
the truth, have the same value and the same smallest eigenvalue, and count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.landscape.objective import Domain, LocalDerivatives, Objective, SmoothObjective, ValueAndGradient
from laybare.networks import unsigned_error
from laybare.numerics.shapes import Array, Event, Progress


@dataclass(frozen=True, kw_only=True)
class MinimiserOptions:
    """When Lanczos, the trust region and a descent end."""

    lanczos_steps: int = 150  # Checked by `pytest tests/landscape/test_descent.py`.
    lanczos_tol: float = 1e-5  # residual over the largest Ritz value. Checked by `pytest tests/landscape`.
    lanczos_own_tol: float = 0.1  # the same over the smallest Ritz value. Checked by `pytest tests/landscape`.
    flat_curvature: float = 1e-6  # relative eigenvalue that is zero. Checked by `pytest tests/landscape/test_explorer.py`.
    first_radius: float = 0.1  # of the trust region, in rows of length 1. Checked by `pytest tests/landscape/test_descent.py`.
    max_radius: float = 2.0  # Checked by `pytest tests/landscape/test_descent.py`, if it is too small.
    max_inner_steps: int = 200  # conjugate gradients per trust-region step. Checked by `pytest tests/landscape/test_descent.py`.
    visible_decrease: float = 1e-9  # relative; rounding hides less. Checked by `pytest tests/landscape`.
    diverged_entry: float = 1e6
    """Entry of a point that only a run without a minimum reaches: an objective estimated from too few samples may fall forever.
    Checked by `pytest tests/landscape/test_descent.py`."""


OPTIONS = MinimiserOptions()


class SecondOrder(NamedTuple):
    """Gradient norm; smallest and largest eigenvalue of the Hessian, the residual of the smallest, and its direction."""

    gradient_norm: float
    smallest: float
    largest: float
    residual: float
    direction: Array

    @property
    def curved_down(self) -> bool:
        """Whether there is a direction of clearly negative curvature."""
        return self.smallest < -OPTIONS.flat_curvature * max(abs(self.largest), abs(self.smallest))


def second_order(objective: Objective, point: Array, *, rng: Generator, steps: int = OPTIONS.lanczos_steps) -> SecondOrder:
    """Gradient norm and extreme curvatures at a point of the domain."""
    local = LocalDerivatives(objective, point)
    smallest, largest, residual, direction = _lanczos(local, rng, steps)
    return SecondOrder(local.gradient_norm, smallest, largest, residual, direction)


def _lanczos(local: LocalDerivatives, rng: Generator, steps: int) -> tuple[float, float, float, Array]:
    shape = local.point.shape
    v = local.objective.domain.tangent(local.point, np.asarray(rng.standard_normal(shape))).ravel()
    basis, diagonal, off = [v / np.linalg.norm(v)], list[float](), list[float]()
    for step in range(min(steps, v.size)):
        image = local.times(basis[-1].reshape(shape)).ravel()
        diagonal.append(float(image @ basis[-1]))
        Q = np.array(basis)
        for _ in range(2):  # twice is enough (Kahan): the basis stays orthogonal to rounding
            image = image - Q.T @ (Q @ image)
        norm = float(np.linalg.norm(image))
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
        residual, scale = norm * abs(float(vectors[-1, 0])), float(np.abs(values).max())
        enough = min(OPTIONS.lanczos_tol * scale, OPTIONS.lanczos_own_tol * abs(float(values[0])))
        if norm <= 1e-12 * scale or (step >= 10 and residual <= enough):
            break
        off.append(norm)
        basis.append(image / norm)
    direction: Array = (vectors[:, 0] @ np.array(basis)[: len(values)]).reshape(shape)
    return float(values[0]), float(values[-1]), residual, direction


class StoppingPoint(NamedTuple):
    """Where a run stopped: point of the domain, value, gradient norm on the domain, evaluations of the gradient."""

    point: Array
    value: float
    gradient_norm: float
    evaluations: int


def lbfgs(objective: SmoothObjective, start: Array, *, max_steps: int = 1000, tol: float = 1e-8) -> StoppingPoint:
    """L-BFGS from `start` until no entry of the gradient exceeds `tol` times the largest one at the start, or it is far out."""
    from scipy.optimize import minimize

    domain, shape = objective.domain, start.shape
    gradient = objective.value_and_gradient(domain.project(start)).gradient
    first = max(float(np.abs(domain.pull_back(start, gradient)).max()), 1e-300)

    def f(flat: Array) -> tuple[float, Array]:
        point = flat.reshape(shape)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = objective.value_and_gradient(domain.project(point))
            return slope.value / first, domain.pull_back(point, slope.gradient).ravel() / first

    def stop_if_diverged(flat: Array) -> None:
        if not np.abs(domain.project(flat.reshape(shape))).max() < OPTIONS.diverged_entry:
            raise StopIteration

    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 20, "ftol": 0.0, "gtol": tol}
    result = minimize(f, domain.project(start).ravel(), jac=True, method="L-BFGS-B", options=options, callback=stop_if_diverged)
    point = domain.project(result.x.reshape(shape))
    slope = objective.value_and_gradient(point)
    return StoppingPoint(point, slope.value, float(np.linalg.norm(domain.tangent(point, slope.gradient))), int(result.nfev) + 2)


def trust_region(objective: Objective, start: Array, *, max_steps: int = 50, tol: float = 1e-12) -> StoppingPoint:
    """Newton steps within a trust region, until the gradient norm is below `tol` times that of a random point, or nothing gains.

    `tol` is taken relative to 1 + the gradient norm at the start.
    """
    domain = objective.domain
    here, radius, count = LocalDerivatives(objective, domain.project(start)), OPTIONS.first_radius, 1
    goal = tol * (1.0 + here.gradient_norm)
    for _ in range(max_steps):
        if here.gradient_norm <= goal or radius < 1e-14:
            break
        step, predicted = _steihaug(here, radius)
        there = LocalDerivatives(objective, domain.project(here.point + step))
        count += 1
        if predicted <= OPTIONS.visible_decrease * max(1.0, abs(here.value)):  # too small a gain to see: the gradient decides
            if there.gradient_norm >= 0.5 * here.gradient_norm:
                break
            here = there
            continue
        ratio = (here.value - there.value) / predicted
        length = float(np.linalg.norm(step))
        if not ratio >= 0.25:
            radius = 0.25 * length
        elif length > 0.9 * radius:
            radius = min(2.0 * radius, OPTIONS.max_radius)
        here = there if ratio > 0.1 else here
    return StoppingPoint(here.point, here.value, here.gradient_norm, count)


def _steihaug(local: LocalDerivatives, radius: float) -> tuple[Array, float]:
    """Conjugate gradients on the model within the ball; to its edge along negative curvature. And the predicted decrease."""
    step, image = np.zeros_like(local.point), np.zeros_like(local.point)
    residual = -local.gradient
    direction, norm = residual, float(np.linalg.norm(residual))
    goal = norm * min(0.1, norm)
    for _ in range(min(OPTIONS.max_inner_steps, local.point.size)):
        bent = local.times(direction)
        curvature = float(np.vdot(direction, bent))
        length = float(np.vdot(residual, residual)) / curvature if curvature > 0.0 else np.inf
        if curvature <= 0.0 or float(np.linalg.norm(step + length * direction)) >= radius:
            length = _length_to_boundary(step, direction, radius)
            step, image = step + length * direction, image + length * bent
            break
        step, image = step + length * direction, image + length * bent
        before, residual = float(np.vdot(residual, residual)), residual - length * bent
        after = float(np.vdot(residual, residual))
        if after <= goal**2:
            break
        direction = residual + after / before * direction
    return step, -float(np.vdot(local.gradient, step) + 0.5 * np.vdot(step, image))


def _length_to_boundary(step: Array, direction: Array, radius: float) -> float:
    """t ≥ 0 with |step + t·direction| = radius."""
    a, b, c = (float(np.vdot(*pair)) for pair in ((direction, direction), (step, direction), (step, step)))
    return (-b + float(np.sqrt(max(b * b + a * (radius**2 - c), 0.0)))) / a


ESCAPE_LENGTHS = 2.0 ** -np.arange(0, 20)
"""Lengths tried along negative curvature. Convention: the length of a row, halved up to nineteen times."""


class Minimum(NamedTuple):
    """Where a descent ended, with its second-order certificate, the saddles it left and the gradients it took.

    `bounded` is False if it diverged: the objective has no minimum that way.
    """

    point: Array
    value: float
    order: SecondOrder
    escapes: int
    evaluations: int

    @property
    def bounded(self) -> bool:
        return bool(np.abs(self.point).max() < OPTIONS.diverged_entry)


def descend(
    objective: Objective, start: Array, *, rng: Generator, max_steps: int = 1000, max_escapes: int = 20, polish: bool = True
) -> Minimum:
    """From `start` to a point with a small gradient and no negative curvature. `polish` brings the gradient to rounding."""
    end, count, escapes = lbfgs(objective, start, max_steps=max_steps), 0, 0
    while True:
        count += end.evaluations
        if not np.abs(end.point).max() < OPTIONS.diverged_entry:
            nowhere = np.zeros_like(end.point)
            return Minimum(end.point, end.value, SecondOrder(np.inf, -np.inf, np.inf, np.inf, nowhere), escapes, count)
        order = second_order(objective, end.point, rng=rng)
        away = _escape(objective, end, order) if order.curved_down and escapes < max_escapes else None
        if away is None:
            break
        end, escapes = lbfgs(objective, away, max_steps=max_steps), escapes + 1
    if polish:
        end = trust_region(objective, end.point)
        count += end.evaluations
        order = second_order(objective, end.point, rng=rng)
    return Minimum(end.point, end.value, order, escapes, count)


def _escape(objective: Objective, end: StoppingPoint, order: SecondOrder) -> Array | None:
    """The best point along the direction of most negative curvature, both ways; None if none is lower."""
    trials = (objective.domain.project(end.point + sign * t * order.direction) for t in ESCAPE_LENGTHS for sign in (1.0, -1.0))
    value, point = min(((objective.value_and_gradient(trial).value, trial) for trial in trials), key=lambda pair: pair[0])
    return point if value < end.value else None


@dataclass(frozen=True, kw_only=True)
class ExplorerOptions:
    """When a point is critical, and when two are one."""

    critical_gradient: float = 1e-5  # over that of a random point. Checked by `pytest tests/landscape/test_explorer.py`.
    same_value: float = 1e-6  # difference over the fall from the starts. Checked by `pytest tests/landscape/test_explorer.py`.
    same_curvature: float = 1e-2  # relative, of smallest eigenvalues. Checked by `pytest tests/landscape/test_explorer.py`.


EXPLORER = ExplorerOptions()


class CriticalPoint(NamedTuple):
    """One critical point up to symmetry; `kind` is "minimum", "flat minimum" (some curvature zero) or "saddle".

    `runs` ended there; `distance` is the largest row error to the truth modulo order and signs, NaN if the truth is unknown.
    """

    kind: str
    value: float
    gradient_norm: float
    smallest: float
    runs: int
    distance: float
    point: Array


@dataclass(frozen=True, eq=False)
class CriticalPoints:
    """All that was found, by rising value, and the number of runs."""

    found: tuple[CriticalPoint, ...]
    starts: int

    @property
    def minima(self) -> tuple[CriticalPoint, ...]:
        return tuple(point for point in self.found if point.kind != "saddle")

    @property
    def saddles(self) -> tuple[CriticalPoint, ...]:
        return tuple(point for point in self.found if point.kind == "saddle")

    def __str__(self) -> str:
        lines = [f"{len(self.minima)} minima and {len(self.saddles)} saddles from {self.starts} starts",
                 "kind                 value   gradient  smallest eigenvalue  runs  distance"]
        lines += [
            f"{p.kind:<13}{p.value:13.6g} {p.gradient_norm:10.1e} {p.smallest:20.3g} {p.runs:5d} {p.distance:9.2g}"
            for p in self.found]
        return "\n".join(lines)


def critical_points(
    objective: Objective, starts: int | Sequence[Array] = 20, *, saddles: bool = True, truth: Array | None = None,
    rng: Generator | int = 0, progress: Progress | None = None,
) -> CriticalPoints:
    """Distinct minima and saddles of an objective.

    Parameters
    ----------
    objective : Objective
        A population objective (`population_g`, `ReLURisk`, ...) or an empirical one.
    starts : int or sequence of arrays
        How many random starts, or the starts themselves.
    saddles : bool
        Whether to look for saddles too, from the same starts.
    truth : array (width, dim), optional
        True unit directions; those of the objective by default.
    rng : Generator or int
    progress : callable, optional
    """
    rng = np.random.default_rng(rng)
    points = _starts(objective, starts, rng)
    scale = float(np.median([LocalDerivatives(objective, objective.domain.project(point)).gradient_norm for point in points]))
    ends: list[tuple[Array, SecondOrder]] = []
    for done, point in enumerate(points):
        minimum = descend(objective, point, rng=rng)
        ends.append((minimum.point, minimum.order))
        if saddles:
            still = _find_stationary_point(objective, point)
            order = second_order(objective, still, rng=rng)
            ends += [(still, order)] if order.gradient_norm <= EXPLORER.critical_gradient * scale else []
        if progress is not None:
            progress(Event("starts", done + 1, len(points)))
    known = objective.truth if truth is None else truth
    heights = [objective.value_and_gradient(objective.domain.project(point)).value for point in points]
    fall = max(heights) - min(objective.value_and_gradient(end).value for end, _ in ends)
    return CriticalPoints(_distinct_points(objective, ends, known, fall), len(points))


@dataclass(frozen=True, eq=False)
class _SquaredGradient:
    """½|∇f|² on the domain of f; its gradient is the Hessian of f times ∇f."""

    objective: Objective

    @property
    def domain(self) -> Domain:
        return self.objective.domain

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
        local = LocalDerivatives(self.objective, point)
        return ValueAndGradient(0.5 * local.gradient_norm**2, local.times(local.gradient))


def _find_stationary_point(objective: Objective, start: Array) -> Array:
    """A minimum of |∇f|² near `start`."""
    return lbfgs(_SquaredGradient(objective), start, max_steps=1000, tol=1e-12).point


def _starts(objective: Objective, starts: int | Sequence[Array], rng: Generator) -> list[Array]:
    points = [objective.start(rng) for _ in range(starts)] if isinstance(starts, int) else [np.asarray(point) for point in starts]
    if not points:
        raise InvalidInput(
            f"starts={starts!r}.", "A landscape is explored from somewhere.", "Give a positive number, or a list of points.")
    return points


def _distinct_points(
    objective: Objective, ends: list[tuple[Array, SecondOrder]], truth: Array | None, fall: float
) -> tuple[CriticalPoint, ...]:
    found: list[CriticalPoint] = []
    for point, order in ends:
        value = objective.value_and_gradient(point).value
        same = [i for i, other in enumerate(found) if _same_point(value, order, other, fall)]
        if same:
            found[same[0]] = found[same[0]]._replace(runs=found[same[0]].runs + 1)
            continue
        distance = np.nan if truth is None else unsigned_error(objective.directions(point), truth)
        found.append(CriticalPoint(_kind(order), value, order.gradient_norm, order.smallest, 1, distance, point))
    return tuple(sorted(found, key=lambda each: each.value))


def _same_point(value: float, order: SecondOrder, other: CriticalPoint, fall: float) -> bool:
    close = abs(value - other.value) <= EXPLORER.same_value * fall
    gap = EXPLORER.same_curvature * max(abs(order.smallest), abs(other.smallest), OPTIONS.flat_curvature * order.largest)
    alike = _kind(order) == "flat minimum" or abs(order.smallest - other.smallest) <= gap
    return _kind(order) == other.kind and close and alike


def _kind(order: SecondOrder) -> str:
    if order.curved_down:
        return "saddle"
    return "minimum" if order.smallest > OPTIONS.flat_curvature * order.largest else "flat minimum"
