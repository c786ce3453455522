"""Floors of a deep ReLU network: where the layers below are known, and what lies above is a black box of their features.

Where every unit of the known layers is active, their features are affine in the input, h = M x + s, and this region is a convex
polyhedron: the walls are the units themselves. Inside it the answers are a function of h alone, one floor up:

    g(h) = f(x),      x = x₀ + M⁺(h - h₀),

so lines, gradients and checks on a floor are asked at inputs, and read in its coordinates. Floor 0 is the input space, without
walls. A floor exists if the rows of every layer below are independent (no layer wider than its input), and if there are
inputs at which all units below are active; of floor 1 the second is always true. What bends only where some unit below is
inactive is not seen from a floor above 1; fresh answers of the whole network show that something is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.optimize import linprog

from laybare.errors import NotSeparated
from laybare.lines.line import Line
from laybare.shapes import Array

REACH = 1e3
"""How far lines go, in units of the scale on which the function bends: one unit in a thousand bends farther out."""

WIDE = 1.3
"""Spread of log h of the points that lines are laid through: some features are near zero, and one of them is often far ahead."""

INSIDE = 1e-6
"""Share of the way to a wall that is left."""

CORNER = 1e-3
"""How near to h = 0 lines along a feature start, in units of the inputs' scale."""

SHRINKS = 8

BLUR, CLEAR = 5.0, 4.0
"""Standard deviations of a layer's numbers that its walls are kept away from, and how far beyond that points begin."""


@dataclass(frozen=True, eq=False)
class Floor:
    """Features h = matrix x + shift, (k, dim) and (k,), where walls x + wall_shifts > 0; `spread` is the scale of the inputs.

    `layers` are the layers below, as (weights, biases) from the lowest up. Where a wall is, is known up to `blurs` (1 + |x|):
    beyond the true wall a unit below is off, and its kink would be taken for one of this floor.
    """

    matrix: Array
    shift: Array
    inverse: Array
    walls: Array
    wall_shifts: Array
    blurs: Array
    spread: float
    layers: tuple[tuple[Array, Array], ...] = ()

    @property
    def width(self) -> int:
        """Features."""
        return len(self.shift)

    def features(self, x: Array) -> Array:
        """h at inputs (n, dim), (n, width)."""
        return np.asarray(x @ self.matrix.T + self.shift)

    def room(self, x: Array, direction: Array) -> tuple[float, float]:
        """The t for which x + t · direction is within the walls."""
        slack, rate, blur = self.slack(x), self.walls @ direction, self.blurs * np.linalg.norm(direction)
        with np.errstate(divide="ignore", invalid="ignore"):
            down, up = -slack / (rate + blur), -slack / (rate - blur)
        return float(down[rate > -blur].max(initial=-np.inf)), float(up[rate < blur].min(initial=np.inf))

    def slack(self, x: Array) -> Array:
        """How far an input is surely within each wall, (walls,)."""
        return np.asarray(self.walls @ x + self.wall_shifts - self.blurs * (1.0 + np.linalg.norm(x)))

    def point(self, rng: Generator) -> Array:
        """A random input within the walls, (dim,)."""
        dim = self.matrix.shape[1]
        if not self.layers:
            return np.asarray(self.spread * rng.standard_normal(dim))
        size = self.spread * np.exp(0.7 * rng.standard_normal())
        return self.lifted(size * np.exp(WIDE * rng.standard_normal(len(self.walls))), rng)

    @cached_property
    def _lowest_inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(self.layers[0][0]))

    def lifted(self, margins: Array, rng: Generator) -> Array:
        """An input at which the unit of every wall is at least at its margin; on floor 1, exactly."""
        lowest, biases = self._lowest_inverse, self.layers[0][1]
        margins = np.maximum(margins, CLEAR * self.blurs * (1.0 + self.spread))
        if len(self.layers) == 1:
            return np.asarray(lowest @ (margins - biases))
        matrix, shift = self._from_floor_1()
        cost = rng.uniform(0.5, 1.5, len(biases))
        for _ in range(SHRINKS):
            below, above = margins[: len(biases)], margins[len(biases) :]
            found = linprog(cost, A_ub=-matrix, b_ub=shift - above, bounds=np.column_stack([below, np.full(len(below), np.inf)]))
            if found.status == 0:
                return np.asarray(lowest @ (found.x - biases))
            margins = margins / 4.0
        raise NotSeparated(
            f"No input was found at which all units of the {len(self.layers)} known layers are active.",
            "What lies above is read from there.", "The layers that are known are the result.", layers=len(self.layers))

    def _from_floor_1(self) -> tuple[Array, Array]:
        """The pre-activations of the second and higher layers as functions of the first one's features."""
        matrix, shift = np.eye(len(self.layers[0][1])), np.zeros(len(self.layers[0][1]))
        rows, shifts = [], []
        for weights, biases in self.layers[1:]:
            matrix, shift = weights @ matrix, weights @ shift + biases
            rows.append(matrix)
            shifts.append(shift)
        return np.vstack(rows), np.concatenate(shifts)

    def line(self, number: int, rng: Generator) -> Line:
        """Line `number` of this floor. On floor 1 the first ones start near h = 0, one along every feature; others are random.

        A unit that bends for some h > 0 has a bias and a weight of different signs, or a bias of zero: so it bends on one of the
        axes. Above floor 0 random lines pass through two random points, from wall to wall.
        """
        dim = self.matrix.shape[1]
        if not self.layers:
            return self.line_through(self.point(rng), rng.standard_normal(dim), self.spread * np.sqrt(dim))
        if len(self.layers) == 1 and number < self.width:
            corner = CORNER * self.spread * rng.uniform(0.5, 1.5, self.width)
            return self.line_through(self.lifted(corner, rng), self.inverse[:, number], self.spread)
        point = self.point(rng)
        toward = self.point(rng) - point
        return self.line_through(point, toward, float(np.linalg.norm(toward)))

    def line_through(self, point: Array, direction: Array, scale: float) -> Line:
        """A line through a point within the walls, up to the walls."""
        u = direction / np.linalg.norm(direction)
        low, high = self.room(point, u)
        low, high = max(low * (1.0 - INSIDE), -REACH * scale), min(high * (1.0 - INSIDE), REACH * scale)
        return Line(point, u, low, high, min(scale, (high - low) / 6.0))

    def above(self, weights: Array, biases: Array, sd: Array | None = None) -> Floor:
        """The floor on top of a layer that reads this one's features; `sd` (units,) of its numbers, if they are not exact."""
        matrix, shift = weights @ self.matrix, weights @ self.shift + biases
        return Floor(
            matrix, shift, np.linalg.pinv(matrix), np.vstack([self.walls, matrix]), np.concatenate([self.wall_shifts, shift]),
            np.concatenate([self.blurs, np.zeros(len(biases)) if sd is None else BLUR * sd]), self.spread,
            (*self.layers, (weights, biases)))


def ground(dim: int, spread: float) -> Floor:
    """The input space."""
    return Floor(np.eye(dim), np.zeros(dim), np.eye(dim), np.empty((0, dim)), np.empty(0), np.empty(0), spread)
