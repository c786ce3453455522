"""From the kinks of a line and the gradients beside them to units.

The jump of the gradient at kink i is δᵢ ⊗ rᵢ, a matrix of rank one for several outputs: δ is known from the line, r is the
projection of the jump onto it. Both sides of the hyperplane are told apart by the book's point, at which no unit is active.
"""

from __future__ import annotations

import numpy as np

from laybare.lines.book import Book, LineUnits
from laybare.lines.gradients import Gradients
from laybare.lines.kinks import Bends
from laybare.shapes import Array


def first_book(bends: Bends, gradients: Gradients) -> Book:
    """Value and gradient at the middle of the good piece that is nearest to t = 0, and no units yet."""
    k = int(np.argmin(np.where(gradients.good, np.abs(gradients.centres), np.inf)))
    tau, line = float(gradients.centres[k]), bends.line
    gradient = _with_slope(gradients.values[k], line.direction, bends.pieces[k].slope)
    units = LineUnits.none(len(line.point), gradient.shape[1])
    return Book(line(tau)[0], bends.pieces[k].value(tau), gradient, float(gradients.sd[k]), units)


def home(bends: Bends) -> int:
    """The piece around t = 0, where lines start."""
    return int(np.searchsorted([kink.t for kink in bends.kinks], 0.0))


def units_of(bends: Bends, gradients: Gradients, book: Book, number: int) -> LineUnits:
    """The units at the kinks on both sides of which the gradient is known; `number` is that of the line."""
    line = bends.line
    index = np.flatnonzero(gradients.good[1:] & gradients.good[:-1])
    if not len(index):
        return LineUnits.none(len(line.point), len(book.value))
    r = gradients.normals[index]
    r = r + (1.0 - r @ line.direction)[:, None] * line.direction
    lengths = np.linalg.norm(r, axis=1)
    jumps = np.array([bends.kinks[i].jump for i in index])
    places = np.array([bends.kinks[i].t for i in index])
    from_book = (book.point - line.point) @ r.T  # r·(x(t) - p) = t - r·(p - line.point)
    ahead = places - from_book
    side = np.where(ahead >= 0.0, 1.0, -1.0)
    sd = np.hypot(gradients.sd[index], gradients.sd[index + 1]) / np.linalg.norm(jumps, axis=1) / lengths
    slack = np.array([bends.kinks[i].sd for i in index]) / lengths
    distances = np.abs(ahead) / lengths
    return LineUnits(
        (side / lengths)[:, None] * r, distances, jumps * lengths[:, None], sd, distances * sd + slack,
        np.linalg.norm(jumps, axis=1) * lengths * sd, np.full(len(index), number))


def _with_slope(gradient: Array, u: Array, slope: Array) -> Array:
    """The gradient with its part along the line replaced by the slope, which is known better."""
    return np.asarray(gradient + np.outer(u, slope - u @ gradient))
