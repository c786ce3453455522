"""The layers that are known, as a piecewise-linear map: cells, affine maps in a cell, and rays through cells.

In a cell every unit of the known layers is either on or off, so that z_l(x) = G_l x + o_l with

    G_l = W_l P_{l-1} G_{l-1},   o_l = W_l P_{l-1} o_{l-1} + b_l,   P_l = diag(pattern of layer l),   G_0 = I, o_0 = 0.

A cell is carried as its patterns, not found again from a point: on a wall, where z_k = 0, a point has two cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from laybare.numerics.shapes import Array

Cell: TypeAlias = tuple[Array, ...]
"""Which units are on, (width,) booleans for every known layer, from the lowest up."""


class Wall(NamedTuple):
    """FoldedUnit `unit` of known layer `level` (from 0), whose pre-activation is zero on the wall."""

    level: int
    unit: int


class CellMaps(NamedTuple):
    """Slopes (width, dim) and shifts (width,) of the pre-activations of every known layer in one cell."""

    slopes: tuple[Array, ...]
    shifts: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class KnownLayers:
    """Rows and biases of the known layers, from the lowest up; `dim` inputs."""

    dim: int
    weights: tuple[Array, ...] = ()
    biases: tuple[Array, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.weights)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(b) for b in self.biases)

    @property
    def layers(self) -> tuple[tuple[Array, Array], ...]:
        """(weights, biases) of every layer."""
        return tuple(zip(self.weights, self.biases, strict=True))

    def below(self, depth: int) -> KnownLayers:
        """The lowest `depth` layers."""
        return KnownLayers(self.dim, self.weights[:depth], self.biases[:depth])

    def above(self, weights: Array, biases: Array) -> KnownLayers:
        """With one more layer."""
        return KnownLayers(self.dim, (*self.weights, weights), (*self.biases, biases))

    def with_top(self, weights: Array, biases: Array) -> KnownLayers:
        """With another highest layer."""
        return replace(self, weights=(*self.weights[:-1], weights), biases=(*self.biases[:-1], biases))

    def preactivations(self, x: Array) -> list[Array]:
        """z_l (n, width) of every layer."""
        found, h = [], x
        for w, b in zip(self.weights, self.biases, strict=True):
            found.append(h @ w.T + b)
            h = np.maximum(found[-1], 0.0)
        return found

    def features(self, x: Array, depth: int) -> Array:
        """h_depth (n, width): the inputs for depth 0."""
        for w, b in zip(self.weights[:depth], self.biases[:depth], strict=True):
            x = np.maximum(x @ w.T + b, 0.0)
        return x

    def pulled_back(self, z: list[Array], depth: int, g: Array) -> Array:
        """Gradients (n, dim) of Σ_k g_k h_k, h of a depth, from coefficients g (n, width) and pre-activations."""
        for w, below in zip(self.weights[:depth][::-1], z[:depth][::-1], strict=True):
            g = np.where(below > 0.0, g, 0.0) @ w
        return g

    def unit_values(self, x: Array, level: Array, unit: Array) -> tuple[Array, Array]:
        """Pre-activations (n, q) of units (n, q), chosen for every input, and their gradients (n, q, dim)."""
        z, (n, q) = self.preactivations(x), level.shape
        values, slopes = np.empty((n, q)), np.empty((n, q, x.shape[1]))
        for depth in range(self.depth):
            i, j = np.nonzero(level == depth)
            chosen = unit[i, j]
            values[i, j] = z[depth][i, chosen]
            slopes[i, j] = self.pulled_back([one[i] for one in z], depth, self.weights[depth][chosen])
        return values, slopes

    def cell(self, x: Array) -> Cell:
        """The cell of one point (dim,)."""
        return tuple(z[0] > 0.0 for z in self.preactivations(x[None]))

    def maps(self, cell: Cell) -> CellMaps:
        """The affine maps of a cell."""
        slopes: list[Array] = []
        shifts: list[Array] = []
        for w, b, on in zip(self.weights, self.biases, (None, *cell), strict=False):
            if on is None:
                slopes.append(w)
                shifts.append(b)
            else:
                open_ = w * on
                slopes.append(open_ @ slopes[-1])
                shifts.append(open_ @ shifts[-1] + b)
        return CellMaps(tuple(slopes), tuple(shifts))


class Crossing(NamedTuple):
    """The next wall along a ray, and the distance to it (infinite, and no wall, if there is none)."""

    distance: float
    wall: Wall | None


def flipped(cell: Cell, wall: Wall) -> Cell:
    """The cell on the other side of a wall."""
    on = cell[wall.level].copy()
    on[wall.unit] = ~on[wall.unit]
    return (*cell[: wall.level], on, *cell[wall.level + 1 :])


def next_crossing(maps: CellMaps, cell: Cell, x: Array, direction: Array) -> Crossing:
    """The first wall that the ray x + s·direction, s > 0, leaves the cell by.

    Only walls that the ray moves towards count: |z_k| falls on the cell's side. A point that rounding has put beyond a wall it
    moves away from is inside.
    """
    best = Crossing(np.inf, None)
    for level, (slope, shift, on) in enumerate(zip(maps.slopes, maps.shifts, cell, strict=True)):
        side = np.where(on, 1.0, -1.0)
        z, rate = side * (slope @ x + shift), side * (slope @ direction)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(rate < 0.0, np.maximum(z, 0.0) / -rate, np.inf)
        k = int(np.argmin(distance)) if len(distance) else 0
        if len(distance) and distance[k] < best.distance:
            best = Crossing(float(distance[k]), Wall(level, k))
    return best


def room_in_cell(maps: CellMaps, cell: Cell, x: Array, direction: Array) -> tuple[float, float]:
    """How far x + s·direction stays in the cell, backwards and forwards (both positive)."""
    return next_crossing(maps, cell, x, -direction).distance, next_crossing(maps, cell, x, direction).distance
