"""Levenberg-Marquardt over unit directions, everything linear eliminated: the one loop behind all polishing.

A `Fit` knows its squared misfit and its normal equations at given directions, with coefficients or loadings already eliminated
(variable projection in Kaufman's form). The scale of a direction is not a parameter: the normal matrix gets uᵢuᵢᵀ added to its
blocks, which forbids steps along uᵢ and changes no other.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.decomposition.components import unit_rows
from laybare.shapes import Array

FIRST_DAMPING = 1e-6
HIGHEST_DAMPING = 1e6
SPENT = 1e-15
"""Stop when a step promises a smaller relative gain: it moves directions by 3e-8 of their own error."""

ROUNDING = 1e-29
"""A squared misfit below this share of the squared input is rounding."""


class Normal(NamedTuple):
    """JᵀJ (r·k, r·k) and −Jᵀ·misfit (r, k), of half the squared misfit."""

    matrix: Array
    descent: Array


@runtime_checkable
class Fit(Protocol):
    """A least-squares problem in unit directions (r, k); `energy` is the squared norm of the input."""

    @property
    def energy(self) -> float: ...

    def misfit(self, directions: Array) -> float: ...

    def normal(self, directions: Array) -> Normal: ...


def descend(fit: Fit, directions: Array, max_steps: int = 50) -> Array:
    """Directions of a nearby least-squares minimum; never a larger misfit than at the start. Quadratic end on exact input."""
    misfit, damping = fit.misfit(directions), FIRST_DAMPING
    for _ in range(max_steps):
        if misfit <= ROUNDING * fit.energy:
            return directions
        normal = fit.normal(directions)
        while damping < HIGHEST_DAMPING:
            step = _damped_step(normal, damping)
            if float(np.sum(step * normal.descent)) <= SPENT * misfit:
                return directions
            trial = unit_rows(directions + step)
            reached = fit.misfit(trial)
            if reached < misfit:
                break
            damping *= 10.0
        else:
            return directions
        directions, misfit, damping = trial, reached, damping / 10.0
    return directions


def _damped_step(normal: Normal, damping: float) -> Array:
    """Solution of (JᵀJ + damping · diag JᵀJ) step = descent; by least squares if rounding left the matrix indefinite."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    diagonal = np.diag(normal.matrix)
    matrix = normal.matrix + np.diag(damping * diagonal + 1e-15 * diagonal.max())
    try:
        step: Array = cho_solve(cho_factor(matrix, check_finite=False), normal.descent.ravel(), check_finite=False)
    except LinAlgError:
        step = np.linalg.lstsq(matrix, normal.descent.ravel(), rcond=None)[0]
    return step.reshape(normal.descent.shape)
