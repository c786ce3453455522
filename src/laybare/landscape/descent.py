"""Descent that does not stop at saddles: L-BFGS, a look at the curvature, a step along it if it is negative, and so on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.landscape.curvature import SecondOrder, second_order
from laybare.landscape.objective import Objective
from laybare.landscape.smooth import FAR, StoppingPoint, lbfgs, trust_region
from laybare.shapes import Array

STRIDES = 2.0 ** -np.arange(0, 20)
"""Lengths tried along negative curvature, from one row down."""


class Minimum(NamedTuple):
    """Where a descent ended, with its second-order certificate, the saddles it left and the gradients it took.

    `bounded` is False if it ran away: the objective has no minimum that way.
    """

    point: Array
    value: float
    order: SecondOrder
    escapes: int
    evaluations: int

    @property
    def bounded(self) -> bool:
        return bool(np.abs(self.point).max() < FAR)


def descend(
    objective: Objective, start: Array, *, rng: Generator, max_steps: int = 1000, max_escapes: int = 20, polish: bool = True
) -> Minimum:
    """From `start` to a point with a small gradient and no negative curvature. `polish` brings the gradient to rounding."""
    landed, count, escapes = lbfgs(objective, start, max_steps=max_steps), 0, 0
    while True:
        count += landed.evaluations
        if not np.abs(landed.point).max() < FAR:
            nowhere = np.zeros_like(landed.point)
            return Minimum(landed.point, landed.value, SecondOrder(np.inf, -np.inf, np.inf, np.inf, nowhere), escapes, count)
        order = second_order(objective, landed.point, rng=rng)
        away = _escape(objective, landed, order) if order.curved_down and escapes < max_escapes else None
        if away is None:
            break
        landed, escapes = lbfgs(objective, away, max_steps=max_steps), escapes + 1
    if polish:
        landed = trust_region(objective, landed.point)
        count += landed.evaluations
        order = second_order(objective, landed.point, rng=rng)
    return Minimum(landed.point, landed.value, order, escapes, count)


def _escape(objective: Objective, landed: StoppingPoint, order: SecondOrder) -> Array | None:
    """The best point along the direction of most negative curvature, both ways; None if none is lower."""
    trials = (objective.domain.project(landed.point + sign * t * order.direction) for t in STRIDES for sign in (1.0, -1.0))
    value, point = min(((objective.slope(trial).value, trial) for trial in trials), key=lambda pair: pair[0])
    return point if value < landed.value else None
