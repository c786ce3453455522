"""A straight piece of a function along a line: points that lie on one line, and how well they tell it.

The fit is weighted least squares, so that every prediction has a standard deviation: whether a further point lies on the piece,
and where two pieces meet, are then questions with error bars and not with a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array

SIGMAS = 4.0
"""Deviations in standard deviations that still count as rounding: rounding to a last digit is at most twice what `Rounding`
has for it, and a line through rounded points extrapolates that by less than three; what is measured is measured generously."""


class LinePoints(NamedTuple):
    """Values (n, outputs) along a line and their standard deviations (n,)."""

    y: Array
    sd: Array


@dataclass(frozen=True, eq=False)
class Straight:
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
        """Centre, value there, slope, and the variances of the two; nothing is known of the slope where all points are one."""
        w = 1.0 / np.maximum(self.sd, 1e-140) ** 2
        weight = w.sum()
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

    def holds(self, t: float, y: Array, sd: float) -> bool:
        """Whether the point lies on this line, up to rounding."""
        return bool(np.abs(y - self.value(t)).max() <= SIGMAS * np.hypot(self.sd_at(t), sd))

    def joined(self, t: Array | float, y: Array, sd: Array | float) -> Straight:
        """With further points."""
        every = np.concatenate([self.t, np.atleast_1d(t)])
        order = np.argsort(every, kind="stable")
        return Straight(every[order], np.vstack([self.y, y])[order], np.concatenate([self.sd, np.atleast_1d(sd)])[order])


class Meeting(NamedTuple):
    """Where two pieces meet, its standard deviation, and by how much the slope jumps there (outputs,)."""

    t: float
    sd: float
    jump: Array


def meeting(left: Straight, right: Straight) -> Meeting:
    """The t at which two lines agree: one equation per output, by least squares."""
    near = (left.high + right.low) / 2.0
    jump = right.slope - left.slope
    square = float(jump @ jump)
    if square == 0.0:
        return Meeting(np.inf, np.inf, jump)
    t = near - float(jump @ (right.value(near) - left.value(near))) / square
    return Meeting(t, float(np.hypot(left.sd_at(t), right.sd_at(t))) / np.sqrt(square), jump)


def same_line(left: Straight, right: Straight) -> bool:
    """Whether all points of each lie on the other."""
    return all(b.holds(float(a.t[i]), a.y[i], float(a.sd[i])) for a, b in ((left, right), (right, left)) for i in range(len(a.t)))


def scatter(pieces: Sequence[Straight]) -> float:
    """Root mean square of the points' distances from their lines, in standard deviations; a line takes up two points."""
    square, free = 0.0, 0
    for piece in pieces:
        off = np.array([np.abs(y - piece.value(float(t))).max() for t, y in zip(piece.t, piece.y, strict=True)]) / piece.sd
        square, free = square + float(off @ off), free + len(off) - 2
    return float(np.sqrt(square / max(free, 1)))


def contrast(left: Straight, right: Straight) -> float:
    """How far points of one piece are from the line of the other, at most, in standard deviations."""
    points = zip(map(float, right.t), right.y, right.sd, strict=True)
    return float(max(np.abs(y - left.value(t)).max() / np.hypot(left.sd_at(t), sd) for t, y, sd in points))
