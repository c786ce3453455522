"""Where inputs can reach: points of floor 1 at which known layers have wanted features. No query is asked.

Above the first floor features cannot be chosen freely: h = relu(W h' + b) with h' ≥ 0. Whether some h is reached, and from where,
is a linear program once it is said which units are active, and a mixed-integer one if it is not (`laybare.lines.programs`).
Three questions are asked. *Rays*: where does a single feature grow while the others stay zero? A unit that reads the features,
and bends anywhere, bends on one of these. *Facets*: a unit is known for some features; where does its surface meet the wall of
another one? Beyond that wall it goes on, and tells the weight. *Ends*: where is a combination of features smallest?

Points are taken well inside of a cell, a region in which the same units are active, so that short lines stay in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from laybare.lines.programs import Layers, Program
from laybare.shapes import Array

FARTHEST = 1000.0
"""Bound of the features on floor 1, in units of the inputs' scale."""

INSIDE, LEAST, NEAR, COST = 1.0, 1e-5, 1e-3, 100.0
"""Wanted and least distance of a point from the walls of its cell, in units of the inputs' scale; the least one of a point that
should be cheap, and what a unit of its cost counts against a unit of distance."""

OUT = 0.1
"""What the mean of the features counts against a unit of distance, for a place that should not be far out: a cell is often open,
and all of its points at the wanted distance are equally good otherwise."""

ACTIVE, VISIBLE = (3, 2, 1), 0.02
"""Features by which a surface beyond a wall is recognised, and their least size in units of the inputs' scale."""

BEYOND, ACROSS = 0.02, 0.5
"""How far beyond a wall the continued surface is looked for, and for how long, relative to the distance of all other walls."""

Pattern = list[Array]
"""Which units of every layer are active."""


class Facet(NamedTuple):
    """A segment of floor 1, from `start` along the unit vector `direction` for `reach` both ways."""

    start: Array
    direction: Array
    reach: float


class _Cell(NamedTuple):
    """z = A h + c of every unit of all layers, of those of the highest one, and which units are active."""

    every: tuple[Array, Array]
    top: tuple[Array, Array]
    pattern: Pattern


@dataclass(frozen=True, eq=False)
class Reach:
    """Known layers that read the features of floor 1, all of which can be had."""

    layers: Layers
    spread: float

    def ray(self, feature: int, sizes: tuple[float, float]) -> tuple[Array, Array] | None:
        """Two points at which a feature has the two sizes, and the others are as small as they can be."""
        ends = [self._at_size(feature, size) for size in sizes]
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])

    def lowest(self, row: Array) -> Array | None:
        """The point at which row·h of the top features h is as small as it can be."""
        found = self._program.solved(row, [], np.full(len(row), np.nan))
        return None if found is None else self._cheapest(self._cell(self._active(found)), None, row)

    def facet(self, row: Array, bias: float, known: Array, feature: int) -> Facet | None:
        """A segment across the surface row·h + bias = 0, known for some features, just beyond the wall of another one."""
        row, fixed = np.where(known, row, 0.0), np.where(known, np.nan, 0.0)
        program = self._program
        wanted = [program.on_surface(row, bias), program.on_wall(feature)]
        tries = (
            program.solved(np.zeros(len(row)), [*wanted, program.active(least, VISIBLE * self.spread)], fixed)
            for least in ACTIVE if least <= known.sum())
        found = next((found for found in tries if found is not None), None)
        return None if found is None else self._across(self._active(found), row, bias, feature)

    def beside(self, h: Array, unit: int) -> tuple[Array, float] | None:
        """The point of a unit's hyperplane, a unit of the lowest of these layers, farthest from all else that bends; and how far.

        In the cell of features h on floor 1, which are on it; not far out, where rounding is large.
        """
        weights, biases = self.layers[0]
        cost = np.full(len(h), OUT / len(h))
        return self._inside(self._cell(self._active(h)), (weights[[unit]], biases[[unit]]), cost, skip=unit)

    def _at_size(self, feature: int, size: float) -> Array | None:
        others = (np.arange(len(self.layers[-1][1])) != feature).astype(float)
        found = self._program.solved(others, [], np.where(others > 0.0, np.nan, size))
        if found is None:
            return None
        cell = self._cell(self._active(found))
        return self._cheapest(cell, (cell.top[0][[feature]], cell.top[1][[feature]] - size), others)

    def _cheapest(self, cell: _Cell, walls: tuple[Array, Array] | None, cost: Array) -> Array | None:
        """The point of a cell with least cost·h of the top features, but well inside."""
        gradient = np.where(cell.pattern[-1], cost, 0.0) @ cell.top[0]
        inside = self._inside(cell, walls, COST * gradient, least=NEAR)
        return None if inside is None else inside[0]

    def _across(self, pattern: Pattern, row: Array, bias: float, feature: int) -> Facet | None:
        pattern[-1][feature] = True
        cell = self._cell(pattern)
        A, c = cell.top
        on = np.where(pattern[-1], row, 0.0)
        unit, shift = on @ A, float(on @ c) + bias
        walls = np.vstack([unit, A[feature]]), np.array([shift, c[feature]])
        inside = self._inside(cell, walls, skip=len(cell.every[1]) - len(row) + feature)
        if inside is None:
            return None
        up = A[feature] / np.linalg.norm(A[feature])
        along = unit - (unit @ up) * up
        size, (h, room) = float(np.linalg.norm(along)), inside
        if size <= 1e-9 * float(np.linalg.norm(unit)):
            return None
        return Facet(h + BEYOND * room * up, along / size, ACROSS * room)

    @property
    def _program(self) -> Program:
        return Program(self.layers, FARTHEST * self.spread)

    def _active(self, h: Array) -> Pattern:
        pattern = []
        for weights, biases in self.layers:
            z = weights @ h + biases
            pattern.append(z > 1e-7 * self.spread)
            h = np.maximum(z, 0.0)
        return pattern

    def _cell(self, pattern: Pattern) -> _Cell:
        A, c = np.eye(self.layers[0][0].shape[1]), np.zeros(self.layers[0][0].shape[1])
        maps = []
        for (weights, biases), on in zip(self.layers, pattern, strict=True):
            A, c = weights @ A, weights @ c + biases
            maps.append((A, c))
            A, c = np.where(on[:, None], A, 0.0), np.where(on, c, 0.0)
        return _Cell((np.vstack([A for A, _ in maps]), np.concatenate([c for _, c in maps])), maps[-1], pattern)

    def _inside(
        self, cell: _Cell, walls: tuple[Array, Array] | None = None, cost: Array | None = None, *, skip: int | None = None,
        least: float = LEAST,
    ) -> tuple[Array, float] | None:
        """The point of a cell that is farthest from its walls, among those with A h + c = 0 for the given ones, and how far."""
        sign = np.where(np.concatenate(cell.pattern), 1.0, -1.0)
        if skip is not None:
            sign[skip] = 0.0
        A, c = sign[:, None] * cell.every[0], sign * cell.every[1]
        n = A.shape[1]
        objective = np.append(np.zeros(n), -1.0)
        if cost is not None:
            objective[:n] = cost
        upper = np.block([[-A, np.linalg.norm(A, axis=1)[:, None]], [-np.eye(n), np.ones((n, 1))]])
        found = linprog(
            objective, A_ub=upper, b_ub=np.append(c, np.zeros(n)),
            A_eq=None if walls is None else np.column_stack([walls[0], np.zeros(len(walls[0]))]),
            b_eq=None if walls is None else -walls[1],
            bounds=[*[(0.0, self.spread * FARTHEST)] * n, (least * self.spread, INSIDE * self.spread)])
        if found.status != 0:
            return None
        return np.asarray(found.x[:-1]), float(found.x[-1])
