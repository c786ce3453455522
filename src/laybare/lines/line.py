"""Lines through the input space, as far as they may be followed.

On x(t) = p + t u the unit w·x + b bends f at t = -(w·p + b)/(w·u), and nowhere else. For random p, u and unit rows this is √dim
times a ratio of normals: tails like 1/t, so that every scale of t holds some units. Lines are therefore long, and places on them
are counted by asinh(t / scale): uniform near the middle, logarithmic far out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.lines.asking import AskBox
from laybare.shapes import Array


@dataclass(frozen=True, eq=False)
class Line:
    """x(t) = point + t · direction for low ≤ t ≤ high, |direction| = 1; `scale` is the length on which f is expected to bend."""

    point: Array
    direction: Array
    low: float
    high: float
    scale: float

    def __call__(self, t: Array | float) -> Array:
        """Points (n, dim)."""
        return np.asarray(self.point + np.reshape(t, (-1, 1)) * self.direction)

    def between(self, a: float, b: float) -> float:
        """The middle of a and b on the scale of asinh."""
        middle = np.sinh((np.arcsinh(a / self.scale) + np.arcsinh(b / self.scale)) / 2.0)
        return float(np.clip(self.scale * middle, min(a, b), max(a, b)))


def line_through(point: Array, direction: Array, reach: float, scale: float, box: AskBox | None = None) -> Line:
    """The line through `point`, to ±reach or to where it leaves the box."""
    u = direction / np.linalg.norm(direction)
    low, high = -reach, reach
    if box is not None:
        inside = room(point, u, box)
        low, high = max(low, inside[0]), min(high, inside[1])
    return Line(point, u, low, high, min(scale, (high - low) / 6.0))


def room(point: Array, direction: Array, box: AskBox) -> tuple[float, float]:
    """The t for which point + t · direction is inside the box."""
    moving = direction != 0.0
    with np.errstate(divide="ignore"):
        ends = np.stack([(box.low - point)[moving], (box.high - point)[moving]]) / direction[moving]
    return float(ends.min(axis=0).max()), float(ends.max(axis=0).min())


def random_line(dim: int, reach: float, spread: float, box: AskBox | None = None, *, rng: Generator) -> Line:
    """A first line: through a Gaussian point in a random direction; in a box, through a random point, counted from the middle."""
    u = rng.standard_normal(dim)
    u /= np.linalg.norm(u)
    if box is None:
        return line_through(spread * rng.standard_normal(dim), u, reach, spread * np.sqrt(dim))
    p = box.low + (box.high - box.low) * rng.uniform(0.25, 0.75, dim)
    low, high = room(p, u, box)
    return line_through(p + (low + high) / 2.0 * u, u, reach, np.inf, box)


def random_ray(line: Line, reach: float, box: AskBox | None = None, *, rng: Generator) -> Line:
    """A further line through the same point; in a box most of them are aimed at its corners, which hold what is rarely met."""
    dim = len(line.point)
    if box is None:
        return line_through(line.point, rng.standard_normal(dim), reach, line.scale)
    corner = rng.random() < 0.8
    share = rng.integers(0, 2, dim) if corner else rng.random(dim)
    return line_through(line.point, box.low + (box.high - box.low) * share - line.point, reach, np.inf, box)
