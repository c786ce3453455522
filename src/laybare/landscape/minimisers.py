"""Deterministic descent that leaves saddles: L-BFGS from anywhere, a look at the curvature, a trust region for the last digits.

On unit rows L-BFGS works with f∘project, whose points need no constraint; the trust region works in tangent spaces with Hessian
products (Steihaug's conjugate gradients; Absil, Baker & Gallivan 2007) and converges quadratically.

Curvature: Lanczos on Hessian products with full orthogonalisation, started in the tangent space, which it never leaves. Its
smallest Ritz value is never below the smallest eigenvalue, and some eigenvalue lies within `residual` of it; after as many steps
as there are dimensions it is exact. Time: one Hessian product per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.landscape.objective import LocalDerivatives, Objective, SmoothObjective
from laybare.numerics.shapes import Array


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
