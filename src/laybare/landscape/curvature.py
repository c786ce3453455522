"""Is this a minimum? Gradient norm and smallest Hessian eigenvalue on the domain, by Lanczos on Hessian products.

Lanczos with full orthogonalisation, started in the tangent space, which it never leaves. Its smallest Ritz value is never below
the smallest eigenvalue, and some eigenvalue lies within `residual` of it; after as many steps as there are dimensions it is
exact. Time: one Hessian product a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.landscape.objective import Local, Objective
from laybare.shapes import Array

STEPS = 150
"""Lanczos steps at most."""

TOL, SURE = 1e-5, 0.1
"""Residual of the smallest Ritz pair at which Lanczos stops: relative to the largest Ritz value, and to the smallest itself."""

FLAT = 1e-6
"""Eigenvalues above -FLAT times the largest count as not negative: rounding and unfinished Lanczos stay below."""


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
        return self.smallest < -FLAT * max(abs(self.largest), abs(self.smallest))


def second_order(objective: Objective, point: Array, *, rng: Generator, steps: int = STEPS) -> SecondOrder:
    """Gradient norm and extreme curvatures at a point of the domain."""
    local = Local(objective, point)
    smallest, largest, residual, direction = _lanczos(local, rng, steps)
    return SecondOrder(local.gradient_norm, smallest, largest, residual, direction)


def _lanczos(local: Local, rng: Generator, steps: int) -> tuple[float, float, float, Array]:
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
        if norm <= 1e-12 * scale or (step >= 10 and residual <= min(TOL * scale, SURE * abs(float(values[0])))):
            break
        off.append(norm)
        basis.append(image / norm)
    direction: Array = (vectors[:, 0] @ np.array(basis)[: len(values)]).reshape(shape)
    return float(values[0]), float(values[-1]), residual, direction
