"""A box that queries never leave, and the uniform law inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.shapes import Array
from laybare.source.affine import Affine
from laybare.source.laws import Symmetric
from laybare.source.protocol import Law, Source


class Span(NamedTuple):
    """The part of a line that lies in a box: from `start` to `stop`; empty if start > stop."""

    start: float
    stop: float


@dataclass(frozen=True, eq=False)
class Box:
    """All x with low <= x <= high, coordinate by coordinate; `low` and `high` (dim,), finite, low < high."""

    low: Array
    high: Array

    @classmethod
    def of(cls, given: Any, dim: int) -> Box:
        """From (low, high), two numbers or two arrays; a sentence if that is no box in this dimension."""
        try:
            low, high = (np.array(np.broadcast_to(np.asarray(end, dtype=np.float64), (dim,))) for end in given)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"The box {given!r} cannot be read ({error}).", f"It bounds inputs of dimension {dim}.",
                f"Give (low, high): two numbers, or two arrays of shape ({dim},).", dim=dim) from None
        wrong = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
        if len(wrong):
            at = int(wrong[0])
            raise InvalidInput(
                f"The box goes from {low[at]:g} to {high[at]:g} in coordinate {at}.",
                "Inputs are drawn inside it, so it must be finite and have room.",
                "Give finite ends with low < high; leave out inputs that must not change.", coordinate=at)
        low.setflags(write=False)
        high.setflags(write=False)
        return cls(low, high)

    @property
    def middle(self) -> Array:
        """The centre of the box."""
        return self.low + (self.high - self.low) / 2

    def outside(self, x: Array) -> Array:
        """Numbers of the rows of x that do not lie inside."""
        return np.flatnonzero(~((x >= self.low) & (x <= self.high)).all(axis=1))

    def check(self, x: Array) -> None:
        """Refuse points outside."""
        rows = self.outside(x)
        if len(rows):
            row, axis = int(rows[0]), int(np.argmax((x[rows[0]] < self.low) | (x[rows[0]] > self.high)))
            raise InvalidInput(
                f"Point {row} has {x[row, axis]:g} in coordinate {axis} (counted from 0); {len(rows)} of {len(x)} points lie "
                "outside of the box.", f"The box allows {self.low[axis]:g} to {self.high[axis]:g} there, and is never left.",
                "Ask inside, or give a larger box.", row=row, coordinate=axis, outside=len(rows))

    def span(self, point: Array, direction: Array) -> Span:
        """All t for which point + t * direction lies inside."""
        moving = direction != 0
        if ((point < self.low) | (point > self.high))[~moving].any():
            return Span(np.inf, -np.inf)
        ends = np.sort([(end - point)[moving] / direction[moving] for end in (self.low, self.high)], axis=0)
        return Span(float(ends[0].max(initial=-np.inf)), float(ends[1].min(initial=np.inf)))


@dataclass(frozen=True, eq=False)
class Uniform:
    """Independent inputs, each uniform between the ends of its coordinate.

    A Gaussian cut off at the sides would be neither normal nor, in many dimensions, anywhere near the middle of the box; the
    uniform law looks at all of it and is whitened exactly. After whitening it is symmetric about 0.
    """

    box: Box

    def check(self, dim: int) -> None:
        """Refuse a box of another dimension."""
        if len(self.box.low) != dim:
            raise InvalidInput(
                f"The box has {len(self.box.low)} coordinates.", f"The inputs have dimension {dim}.",
                "Give a box of that dimension.", dim=dim)

    def whitening(self, source: Source) -> Affine:
        """By the mean and variance of the law; no pass."""
        return Affine(self.box.middle, np.diag(np.sqrt(12.0) / (self.box.high - self.box.low)))

    def white(self) -> Law:
        """Symmetric about 0."""
        return Symmetric()

    def complete(self) -> Law:
        """Nothing is left to estimate."""
        return self

    def draw(self, rows: int, dim: int, rng: Generator) -> Array:
        """Independent inputs (rows, dim); clipped, since the sum may round to a point just outside."""
        x: Array = self.box.low + (self.box.high - self.box.low) * rng.random((rows, dim))
        return np.clip(x, self.box.low, self.box.high, out=x)
