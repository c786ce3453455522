"""A place of a unit's hyperplane in the features, far from all other kinks, by a linear program. No query is asked.

In a cell, a region with the same active units, every pre-activation is affine in the first features h ≥ 0. The point of the
hyperplane in the cell that is farthest from the cell's boundaries is where stencils on both sides of it may be widest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from laybare.lines.feature_space import Layers
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class ReachOptions:
    """Points that the program looks for. Lengths are in units of the inputs' scale."""

    max_feature: float = 1000.0  # bound of the first features. Checked by `laybare reproduce deep-cases`.
    clearance: float = 1.0  # wanted distance from the boundaries of a cell. Checked by `laybare reproduce deep-large`.
    min_clearance: float = 1e-5  # least distance. Checked by `laybare reproduce deep-large`.
    distance_weight: float = 0.1
    """Of the mean feature, which bounds points of open cells. Checked by `laybare reproduce deep-large`."""


REACH = ReachOptions()


def isolated_point(layers: Layers, h: Array, unit: int, spread: float) -> tuple[Array, float] | None:
    """The point of the hyperplane of a unit of the lowest of these layers, farthest from all other kinks; and how far.

    In the cell of the features h, which lie on it; not far out, where rounding is large. None if the cell is too small.
    """
    A, c = _outward_maps(layers, h, spread)
    A[unit], c[unit], n = 0.0, 0.0, len(h)
    weights, biases = layers[0]
    objective = np.append(np.full(n, REACH.distance_weight / n), -1.0)
    upper = np.block([[-A, np.linalg.norm(A, axis=1)[:, None]], [-np.eye(n), np.ones((n, 1))]])
    found = linprog(
        objective, A_ub=upper, b_ub=np.append(c, np.zeros(n)), A_eq=np.append(weights[unit], 0.0)[None], b_eq=-biases[[unit]],
        bounds=[*[(0.0, spread * REACH.max_feature)] * n, (REACH.min_clearance * spread, REACH.clearance * spread)])
    return None if found.status != 0 else (np.asarray(found.x[:-1]), float(found.x[-1]))


def _outward_maps(layers: Layers, h: Array, spread: float) -> tuple[Array, Array]:
    """A (units, first features) and c (units,): A h + c of every unit of all layers, positive inside the cell of h."""
    A, c = np.eye(len(h)), np.zeros(len(h))
    slopes, shifts = [], []
    for weights, biases in layers:
        A, c = weights @ A, weights @ c + biases
        z = weights @ h + biases
        on = z > 1e-7 * spread
        sign = np.where(on, 1.0, -1.0)
        slopes.append(sign[:, None] * A)
        shifts.append(sign * c)
        A, c, h = np.where(on[:, None], A, 0.0), np.where(on, c, 0.0), np.maximum(z, 0.0)
    return np.vstack(slopes), np.concatenate(shifts)
