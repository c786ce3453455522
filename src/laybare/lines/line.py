"""Lines through the input space, linear pieces of a function along them, and rays.

On x(t) = p + t u the unit w·x + b bends f at t = -(w·p + b)/(w·u), and nowhere else. For random p, u and unit rows this is √dim
times a ratio of normals, with tails like 1/t: every scale of t holds some units. Lines are therefore long, and places on them
are spaced evenly in asinh(t / scale): uniform near the middle, logarithmic far out.

A linear piece is a weighted least-squares fit to points. Every prediction has a standard deviation, so whether a point lies on a
piece, and where two pieces intersect, are questions with error bars instead of tolerances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.lines.query import QueryBox, QueryCounter
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class KinkOptions:
    """Thresholds for pieces and kinks along a line. Lengths are relative to the pieces, or to the distance from t = 0."""

    rounding_sds: float = 4.0
    """A deviation of at most this many standard deviations is rounding. Derived: rounding to a last digit is at most twice the sd
    of `Rounding`, and a line through rounded points extrapolates it by about a factor of two."""
    test_distance: float = 1e-6
    """From a supposed kink: both pieces are tested there. Checked by `pytest tests/lines/test_kinks.py`."""
    merge_distance: float = 1e-4  # closer kinks may be taken for one. Checked by `pytest tests/lines/test_kinks.py`.
    narrow_gap: float = 1e-12
    """Of its distance from t = 0: a gap where nothing more is asked. Derived: its places are the same input, up to rounding."""
    min_second_point: float = 1e-3  # of a new piece, share of the gap. Checked by `pytest tests/lines/test_kinks.py`.
    max_second_point: float = 0.25  # the same, at most. Checked by `pytest tests/lines/test_kinks.py`.
    slope_accuracy: float = 1e-3  # wanted for a new piece across its gap. Checked by `pytest tests/lines/test_kinks.py`.
    weak_sds: float = 40.0  # a kink with less separation is weak. Checked by `pytest -m slow tests/lines/test_acceptance.py`.
    min_weak_kinks: int = 6  # and min_weak_share: rounding was split. Checked by `pytest tests/lines/test_read_network.py`.
    min_weak_share: float = 0.2  # of all kinks of a line. Checked by `pytest tests/lines/test_read_network.py`.
    tiny_piece: float = 1e-5  # length, in units of the line's scale. Checked by `pytest tests/lines/test_kinks.py`.
    min_tiny_pieces: int = 12
    """As many mean a curve. Derived: of 1,000 random kinks about three pairs are closer than tiny_piece."""
    min_end: float = 1e-12  # an end nearer to t = 0, in units of the scale, has no length. Derived: 4,500 float64 roundings.
    end_points: tuple[float, ...] = (0.0, 0.02, 0.1)
    """Points of an end piece, as shares of its distance from t = 0. Checked by `pytest tests/lines/test_kinks.py`."""
    min_reach: float = 1e-3  # of a line on which a class soon becomes certain. Checked by `pytest tests/recovery`.
    max_halvings: int = 10  # of a point at which a class is certain, towards the middle. Checked by `pytest tests/recovery`.
    reach_factor: float = 2.0  # by which a line is shortened until its ends can be used. Convention: bisection.
    ray_batches: int = 6  # groups in which points of a ray are asked. Checked by `pytest tests/lowest_layer`.


KINK = KinkOptions()


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

    def midpoint(self, a: float, b: float) -> float:
        """The middle of a and b on the scale of asinh."""
        middle = np.sinh((np.arcsinh(a / self.scale) + np.arcsinh(b / self.scale)) / 2.0)
        return float(np.clip(self.scale * middle, min(a, b), max(a, b)))


def line_through(point: Array, direction: Array, reach: float, scale: float, box: QueryBox | None = None) -> Line:
    """The line through `point`, to ±reach or to the border of the box."""
    u = direction / np.linalg.norm(direction)
    low, high = -reach, reach
    if box is not None:
        inside = interval_in_box(point, u, box)
        low, high = max(low, inside[0]), min(high, inside[1])
    return Line(point, u, low, high, min(scale, (high - low) / 6.0))


def interval_in_box(point: Array, direction: Array, box: QueryBox) -> tuple[float, float]:
    """The t for which point + t · direction is inside the box."""
    moving = direction != 0.0
    with np.errstate(divide="ignore"):
        ends = np.stack([(box.low - point)[moving], (box.high - point)[moving]]) / direction[moving]
    return float(ends.min(axis=0).max()), float(ends.max(axis=0).min())


def random_line(dim: int, reach: float, spread: float, box: QueryBox | None = None, *, rng: Generator) -> Line:
    """A line through a Gaussian point in a random direction; in a box, through a random point, with t = 0 in the middle."""
    u = rng.standard_normal(dim)
    u /= np.linalg.norm(u)
    if box is None:
        return line_through(spread * rng.standard_normal(dim), u, reach, spread * np.sqrt(dim))
    p = box.low + (box.high - box.low) * rng.uniform(0.25, 0.75, dim)
    low, high = interval_in_box(p, u, box)
    return line_through(p + (low + high) / 2.0 * u, u, reach, np.inf, box)


def random_direction(line: Line, reach: float, box: QueryBox | None = None, *, rng: Generator) -> Line:
    """A further line through the same point; in a box four of five aim at a corner, where rarely active units are."""
    dim = len(line.point)
    if box is None:
        return line_through(line.point, rng.standard_normal(dim), reach, line.scale)
    corner = rng.random() < 0.8
    share = rng.integers(0, 2, dim) if corner else rng.random(dim)
    return line_through(line.point, box.low + (box.high - box.low) * share - line.point, reach, np.inf, box)


def within_answers(queries: QueryCounter, line: Line) -> Line:
    """The part of a line around t = 0 on which probabilities tell log-odds; the line itself for other answers."""
    if queries.resolution is None or queries.box is not None:
        return line
    for _ in range(KINK.max_halvings):
        if len(queries.ask_usable(line.point[None], "recognise").x):
            break
        line = replace(line, point=line.point / KINK.reach_factor)
    size, ends = min(line.high - line.low, 2.0 * queries.reach), [line.low, line.high]
    for side, sign in enumerate((-1.0, 1.0)):
        t = min(abs(ends[side]), size)
        while t > KINK.min_reach * line.scale and not len(queries.ask_usable(line(sign * t), "recognise").x):
            t /= KINK.reach_factor
        ends[side] = sign * t
    queries.reach = max(-ends[0], ends[1])
    return replace(line, low=ends[0], high=ends[1], scale=min(line.scale, (ends[1] - ends[0]) / 6.0))


class LineValues(NamedTuple):
    """Values (n, outputs) along a line and their standard deviations (n,)."""

    y: Array
    sd: Array


@dataclass(frozen=True, eq=False)
class LinearPiece:
    """Points t (n,), sorted, with values y (n, outputs) and standard deviations sd (n,), that lie on one line; n ≥ 2."""

    t: Array
    y: Array
    sd: Array

    @property
    def low(self) -> float:
        return float(self.t[0])

    @property
    def high(self) -> float:
        return float(self.t[-1])

    @cached_property
    def _fit(self) -> tuple[float, Array, Array, float, float]:
        """Centre, value there, slope, and the variances of the two; the slope's is infinite where all points coincide."""
        w = 1.0 / np.maximum(self.sd, 1e-140) ** 2
        weight = w.sum()
        if not weight:
            raise InvalidInput(
                f"The answers are known to {self.sd.min():.1g} only.", "Squares of such numbers leave the range of floats.",
                "Divide the outputs of the black box by a constant.")
        best = int(np.argmin(self.sd))  # differences to the most exact point come first: they are nearly free of rounding
        centre = float(self.t[best] + w @ (self.t - self.t[best]) / weight)
        around = self.t - centre
        spread = float(w @ around**2)
        value = self.y[best] + w @ (self.y - self.y[best]) / weight
        if spread == 0.0:
            return centre, value, np.zeros_like(value), 1.0 / float(weight), np.inf
        return centre, value, (w * around) @ (self.y - value) / spread, 1.0 / float(weight), 1.0 / spread

    @property
    def slope(self) -> Array:
        """Slope of every output, (outputs,)."""
        return self._fit[2]

    @property
    def slope_sd(self) -> float:
        return float(np.sqrt(self._fit[4]))

    def value(self, t: float) -> Array:
        """The fitted line at t, (outputs,)."""
        centre, value, slope, _, _ = self._fit
        return np.asarray(value + (t - centre) * slope)

    def sd_at(self, t: float) -> float:
        """Standard deviation of the fitted line at t."""
        centre, _, _, variance, slope_variance = self._fit
        return float(np.sqrt(variance + ((t - centre) ** 2 * slope_variance if t != centre else 0.0)))

    def contains(self, t: float, y: Array, sd: float) -> bool:
        """Whether the point lies on this line, up to rounding."""
        return bool(np.abs(y - self.value(t)).max() <= KINK.rounding_sds * np.hypot(self.sd_at(t), sd))

    def with_points(self, t: Array | float, y: Array, sd: Array | float) -> LinearPiece:
        """The piece with further points."""
        every = np.concatenate([self.t, np.atleast_1d(t)])
        order = np.argsort(every, kind="stable")
        return LinearPiece(every[order], np.vstack([self.y, y])[order], np.concatenate([self.sd, np.atleast_1d(sd)])[order])


class Intersection(NamedTuple):
    """Where two pieces intersect, its standard deviation, and the jump of the slope there (outputs,)."""

    t: float
    sd: float
    jump: Array


def intersect(left: LinearPiece, right: LinearPiece) -> Intersection:
    """The t at which two lines agree: one equation per output, by least squares."""
    near = (left.high + right.low) / 2.0
    jump = right.slope - left.slope
    square = float(jump @ jump)
    if square == 0.0:
        return Intersection(np.inf, np.inf, jump)
    t = near - float(jump @ (right.value(near) - left.value(near))) / square
    return Intersection(t, float(np.hypot(left.sd_at(t), right.sd_at(t))) / np.sqrt(square), jump)


def on_same_line(left: LinearPiece, right: LinearPiece) -> bool:
    """Whether all points of each piece lie on the other."""
    return all(
        b.contains(float(a.t[i]), a.y[i], float(a.sd[i])) for a, b in ((left, right), (right, left)) for i in range(len(a.t)))


def residual_rms(pieces: Sequence[LinearPiece]) -> float:
    """Root mean square of the points' residuals, in standard deviations; a piece has n - 2 degrees of freedom."""
    square, free = 0.0, 0
    for piece in pieces:
        off = np.array([np.abs(y - piece.value(float(t))).max() for t, y in zip(piece.t, piece.y, strict=True)]) / piece.sd
        square, free = square + float(off @ off), free + len(off) - 2
    return float(np.sqrt(square / max(free, 1)))


def separation(left: LinearPiece, right: LinearPiece) -> float:
    """Largest distance of points of the right piece from the line of the left one, in standard deviations."""
    points = zip(map(float, right.t), right.y, right.sd, strict=True)
    return float(max(np.abs(y - left.value(t)).max() / np.hypot(left.sd_at(t), sd) for t, y, sd in points))


@dataclass(frozen=True, eq=False)
class Rays:
    """Rays from a point at which f is locally constant, in coordinates of spread 1: where does f first change?

    Such a function has no slope, so the place of the change is all there is to measure. Bisection finds it to the last bit, one
    query per bit. `changed` says which of the answers (n, outputs) have left the level, (n,). Rays end at the box.
    """

    queries: QueryCounter
    point: Array
    spread: Array
    changed: Callable[[Array], Array]

    def is_changed(self, points: Array) -> Array:
        """Whether f has changed at point + spread · points, (n,)."""
        return np.asarray(self.changed(self.queries.ask(self.point + points * self.spread, "kinks")))

    def lengths(self, rays: Array) -> Array:
        """How far each ray may be followed, (n,)."""
        if self.queries.box is None:
            return np.full(len(rays), np.inf)
        return np.array([interval_in_box(self.point, ray * self.spread, self.queries.box)[1] for ray in rays])

    def bisect(self, rays: Array, low: Array, high: Array, halvings: int) -> tuple[Array, Array]:
        """Brackets of the changes after bisection; f has not changed at `low` and has at `high`."""
        for _ in range(halvings):
            middle = (low + high) / 2
            beyond = self.is_changed(rays * middle[:, None])
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return low, high

    def first_change(self, ray: Array, radii: Array, halvings: int) -> float | None:
        """Coarse distance to the first change among `radii` along a ray; None if there is none within reach."""
        end, before = float(self.lengths(ray[None])[0]), 0.0
        reachable = radii if end > radii[-1] else np.append(radii[radii < end], end)
        for group in np.array_split(reachable, KINK.ray_batches):
            beyond = self.is_changed(np.outer(group, ray)) if len(group) else np.zeros(0, dtype=bool)
            if beyond.any():
                first = int(np.argmax(beyond))
                low = group[first - 1] if first else before
                _, high = self.bisect(ray[None], np.array([low]), group[[first]], halvings)
                return float(high[0])
            before = float(group[-1]) if len(group) else before
        return None
