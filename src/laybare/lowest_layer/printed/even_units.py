"""Even activations and orthonormal weights, with no threshold: directions of largest fourth moment, one after the other.

Every local maximum of E[f h₄(z·x)] on the sphere is a unit (`theory.even_moments` has the conditions); not every unit is one, but
the others appear once those found are projected out (deflation). For u₄ < 0, such as |t|, -h₄ is climbed.
Source: Goel and Panigrahy (2019), Theorem 9, appendix D.3, corrected.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.lowest_layer.printed.hermite_objective import correlation
from laybare.lowest_layer.printed.span import in_span
from laybare.shapes import Array
from laybare.source import Source
from laybare.theory.unit_coefficients import threshold_coefficient


def even_directions(
    source: Source, width: int, activation: Activation, *, starts: int = 3, max_steps: int = 100, rng: Generator
) -> Array:
    """Orthonormal rows (k, d) in the span that the second moment shows: ascent of ± E[f h₄(z·x)] on the sphere, best of some
    starts, then in the orthogonal complement."""
    sign = float(np.sign(threshold_coefficient(activation, 4, 0.0)))
    inside = in_span(source, width)
    found = np.zeros((0, width))
    for _ in range(width):
        _, _, rows = np.linalg.svd(found, full_matrices=True) if len(found) else (None, None, np.eye(width))
        free = rows[len(found) :]
        climbs = [_climb(inside, free, sign, max_steps, rng) for _ in range(starts)]
        found = np.vstack([found, max(climbs, key=lambda climb: climb[1])[0]])
    return found @ inside.basis.T


def _climb(source: Source, free: Array, sign: float, max_steps: int, rng: Generator) -> tuple[Array, float]:
    """The direction in the span of `free` where the ascent ends, and the value there: z ← normalised gradient plus a multiple
    of z."""
    a = rng.standard_normal(len(free))
    a /= np.linalg.norm(a)
    value, length = -np.inf, 1.0
    for _ in range(max_steps):
        at = correlation(source, a @ free)
        now, slope = sign * at.fourth, sign * free @ at.fourth_gradient
        tangent = slope - (slope @ a) * a
        size = float(np.linalg.norm(tangent))
        if size < 1e-9 * max(abs(now), 1e-300):
            break
        while length > 1e-8:
            moved = a + length * tangent / size
            moved /= np.linalg.norm(moved)
            trial = sign * correlation(source, moved @ free).fourth
            if trial > now:
                break
            length /= 2
        else:
            break
        a, value, length = moved, trial, min(1.0, 2 * length)
    return a @ free, value
