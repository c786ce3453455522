"""Deterministic descent on an objective: L-BFGS from anywhere, a trust region for the last digits and out of saddles.

On unit rows L-BFGS works with f∘project, whose points need no constraint; the trust region works in tangent spaces with Hessian
products (Steihaug's conjugate gradients; Absil, Baker & Gallivan 2007) and converges quadratically.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.landscape.objective import Local, Objective, SmoothObjective
from laybare.shapes import Array

FIRST_RADIUS, MOST_RADIUS = 0.1, 2.0
INNER_STEPS = 200
FAR = 1e6
"""Entries that only a run without a minimum reaches: an objective estimated from too few samples may fall forever."""

VISIBLE = 1e-9
"""Predicted decrease below which rounding of the value, a difference of larger numbers, hides it."""


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
    first = max(float(np.abs(domain.pull(start, objective.slope(domain.project(start)).gradient)).max()), 1e-300)

    def f(flat: Array) -> tuple[float, Array]:
        point = flat.reshape(shape)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = objective.slope(domain.project(point))
            return slope.value / first, domain.pull(point, slope.gradient).ravel() / first

    def stop_far_out(flat: Array) -> None:
        if not np.abs(domain.project(flat.reshape(shape))).max() < FAR:
            raise StopIteration

    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 20, "ftol": 0.0, "gtol": tol}
    result = minimize(f, domain.project(start).ravel(), jac=True, method="L-BFGS-B", options=options, callback=stop_far_out)
    point = domain.project(result.x.reshape(shape))
    slope = objective.slope(point)
    return StoppingPoint(point, slope.value, float(np.linalg.norm(domain.tangent(point, slope.gradient))), int(result.nfev) + 2)


def trust_region(objective: Objective, start: Array, *, max_steps: int = 50, tol: float = 1e-12) -> StoppingPoint:
    """Newton steps within a trust region, until the gradient norm is below `tol` times that of a random point, or nothing gains.

    `tol` is taken relative to 1 + the gradient norm at the start.
    """
    domain = objective.domain
    here, radius, count = Local(objective, domain.project(start)), FIRST_RADIUS, 1
    goal = tol * (1.0 + here.gradient_norm)
    for _ in range(max_steps):
        if here.gradient_norm <= goal or radius < 1e-14:
            break
        step, predicted = _steihaug(here, radius)
        there = Local(objective, domain.project(here.point + step))
        count += 1
        if predicted <= VISIBLE * max(1.0, abs(here.slope.value)):  # too small a gain to see: the gradient decides
            if there.gradient_norm >= 0.5 * here.gradient_norm:
                break
            here = there
            continue
        ratio = (here.slope.value - there.slope.value) / predicted
        length = float(np.linalg.norm(step))
        radius = 0.25 * length if not ratio >= 0.25 else min(2.0 * radius, MOST_RADIUS) if length > 0.9 * radius else radius
        here = there if ratio > 0.1 else here
    return StoppingPoint(here.point, here.slope.value, here.gradient_norm, count)


def _steihaug(local: Local, radius: float) -> tuple[Array, float]:
    """Conjugate gradients on the model within the ball; to its edge along negative curvature. And the predicted decrease."""
    step, image = np.zeros_like(local.point), np.zeros_like(local.point)
    residual = -local.gradient
    direction, norm = residual, float(np.linalg.norm(residual))
    goal = norm * min(0.1, norm)
    for _ in range(min(INNER_STEPS, local.point.size)):
        bent = local.times(direction)
        curvature = float(np.vdot(direction, bent))
        length = float(np.vdot(residual, residual)) / curvature if curvature > 0.0 else np.inf
        if curvature <= 0.0 or float(np.linalg.norm(step + length * direction)) >= radius:
            length = _to_edge(step, direction, radius)
            step, image = step + length * direction, image + length * bent
            break
        step, image = step + length * direction, image + length * bent
        before, residual = float(np.vdot(residual, residual)), residual - length * bent
        after = float(np.vdot(residual, residual))
        if after <= goal**2:
            break
        direction = residual + after / before * direction
    return step, -float(np.vdot(local.gradient, step) + 0.5 * np.vdot(step, image))


def _to_edge(step: Array, direction: Array, radius: float) -> float:
    """t ≥ 0 with |step + t·direction| = radius."""
    a, b, c = (float(np.vdot(*pair)) for pair in ((direction, direction), (step, direction), (step, step)))
    return (-b + float(np.sqrt(max(b * b + a * (radius**2 - c), 0.0)))) / a
