"""Levenberg-Marquardt over unit directions, everything linear eliminated: the step rule behind all polishing.

A `DirectionFit` knows its squared misfit and its normal equations at given directions, coefficients or loadings eliminated
(variable projection in Kaufman's form). The scale of a direction is not a parameter: the normal matrix gets uᵢuᵢᵀ added to its
blocks, which forbids steps along uᵢ and changes no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.damping import Effort, Place, Trial, damped_descent
from laybare.decomposition.components import unit_rows
from laybare.levels import START_LOSS
from laybare.shapes import Array

SPENT = 1e-15
"""Stop when a step promises a smaller relative gain: it moves directions by 3e-8 of their own error."""

EFFORT = Effort(damping=1e-6, damping_limit=1e6, floor=START_LOSS, stall_gain=0.0, settled=SPENT, rough=SPENT)


class Normal(NamedTuple):
    """JᵀJ (r·k, r·k) and −Jᵀ·misfit (r, k), of half the squared misfit."""

    matrix: Array
    descent: Array


@runtime_checkable
class DirectionFit(Protocol):
    """A least-squares problem in unit directions (r, k); `energy` is the squared norm of the input."""

    @property
    def energy(self) -> float: ...

    def misfit(self, directions: Array) -> float: ...

    def normal(self, directions: Array) -> Normal: ...


def descend(fit: DirectionFit, directions: Array, max_steps: int = 50) -> Array:
    """Directions of a nearby least-squares minimum; never a larger misfit than at the start. Quadratic end on exact input."""
    effort = replace(EFFORT, max_steps=max_steps)
    end = damped_descent(_Directions(fit), directions, max(fit.energy, np.finfo(float).tiny), effort=effort)
    end.trace.pass_on_interrupt()
    return end.best.point


class _DirectionSystem(NamedTuple):
    directions: Array
    normal: Normal


@dataclass(frozen=True, eq=False)
class _Directions:
    """The step rule: unit directions that turn."""

    fit: DirectionFit
    passes: ClassVar[float] = 0.0

    def judge(self, point: Array) -> Place[Array, None]:
        return Place(point, self.fit.misfit(point), None)

    def system(self, here: Place[Array, None]) -> _DirectionSystem:
        return _DirectionSystem(here.point, self.fit.normal(here.point))

    def trial(self, system: _DirectionSystem, damping: float) -> Trial[Array]:
        step = _damped_step(system.normal, damping)
        flat = step.ravel()
        predicted = float(flat @ (2.0 * system.normal.descent.ravel() - system.normal.matrix @ flat))
        return Trial(unit_rows(system.directions + step), predicted)


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
