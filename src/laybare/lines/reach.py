"""Where inputs can reach: points of floor 1 at which known layers have wanted features. No query is asked.

Above the first floor the features of a layer cannot be chosen freely: h = relu(W h' + b) with h' ≥ 0. Whether some h is
reached, and from where, is a linear program once it is said which units are active, and a mixed-integer one if it is not: each
unit has z ≤ h, h ≤ z + M (1 - s), 0 ≤ h ≤ M s with s in {0, 1}. Two questions are asked here. *Rays*: where does a single feature
grow while the others stay zero? Every unit that reads the features, and bends on one of these rays, shows there. *Facets*: a unit
is known for some features; where does its surface meet the wall of another one? Beyond that wall it goes on, and tells the weight.

Points are taken well inside of a cell, a region in which the same units are active, so that short lines stay in it. Cost: a few
hundredths of a second for 30 units; a program that takes longer than `SECONDS` counts as one without a solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from laybare.shapes import Array

FARTHEST, SECONDS = 1000.0, 2.0
"""Bound of the features on floor 1, in units of the inputs' scale; and of a program's time."""

INSIDE, LEAST = 1.0, 1e-5
"""Wanted and least distance of a point from the walls of its cell, in units of the inputs' scale."""

ACTIVE, VISIBLE = (3, 2, 1), 0.02
"""Features by which a surface beyond a wall is recognised, and their least size in units of the inputs' scale."""

BEYOND = 0.02
"""How far beyond a wall the continued surface is looked for, relative to the distance of all other walls."""

Layers = tuple[tuple[Array, Array], ...]


class CellPoint(NamedTuple):
    """Features h (width,) of floor 1, and the distance of all walls but those it was asked to lie on."""

    h: Array
    room: float


class Crossing(NamedTuple):
    """A segment of floor 1, from `start` along the unit vector `direction` for `reach` both ways."""

    start: Array
    direction: Array
    reach: float


@dataclass(frozen=True, eq=False)
class Reach:
    """Known layers that read the features of floor 1, all of which can be had."""

    layers: Layers
    spread: float

    def pre_activations(self, pattern: list[Array]) -> list[tuple[Array, Array]]:
        """z = A h + c of every layer, where the units of `pattern` are active."""
        A, c = np.eye(self.layers[0][0].shape[1]), np.zeros(self.layers[0][0].shape[1])
        maps = []
        for (weights, biases), on in zip(self.layers, pattern, strict=True):
            A, c = weights @ A, weights @ c + biases
            maps.append((A, c))
            A, c = np.where(on[:, None], A, 0.0), np.where(on, c, 0.0)
        return maps

    def ray(self, feature: int, sizes: tuple[float, float]) -> tuple[Array, Array] | None:
        """Two points at which a feature has the two sizes, and the others are as small as they can be."""
        others = (np.arange(len(self.layers[-1][1])) != feature).astype(float)
        ends = []
        for size in sizes:
            fixed = np.where(others > 0.0, np.nan, size)
            pattern = self._pattern(cost=others, fixed=fixed)
            inside = None if pattern is None else self._inside(pattern, None, others, fixed=(feature, size))
            if inside is None:
                return None
            ends.append(inside.h)
        return ends[0], ends[1]

    def lowest(self, row: Array) -> Array | None:
        """The point at which row·h of the top layer is as small as it can be."""
        pattern = self._pattern(cost=row)
        inside = None if pattern is None else self._inside(pattern, None, row)
        return None if inside is None else inside.h

    def facet(self, row: Array, bias: float, known: Array, feature: int) -> Crossing | None:
        """A segment across the surface row·h + bias = 0, known for some features, just beyond the wall of another one."""
        fixed = np.where(known, np.nan, 0.0)
        fixed[feature] = 0.0
        wanted = (self._pattern(equal=(np.where(known, row, 0.0), bias), fixed=fixed, on_wall=feature, least=least)
                  for least in ACTIVE if least <= known.sum())
        pattern = next((pattern for pattern in wanted if pattern is not None), None)
        if pattern is None:
            return None
        pattern[-1][feature] = True
        A, c = self.pre_activations(pattern)[-1]
        active = pattern[-1] & known
        unit, shift = row[active] @ A[active], float(row[active] @ c[active]) + bias
        walls = np.vstack([unit, A[feature]]), np.array([shift, c[feature]])
        inside = self._inside(pattern, walls, skip=feature)
        if inside is None:
            return None
        up = A[feature] / np.linalg.norm(A[feature])
        along = unit - (unit @ up) * up
        size = float(np.linalg.norm(along))
        if size <= 1e-9 * float(np.linalg.norm(unit)):
            return None
        return Crossing(inside.h + BEYOND * inside.room * up, along / size, 0.5 * inside.room)

    def _pattern(
        self, *, cost: Array | None = None, equal: tuple[Array, float] | None = None, fixed: Array | None = None,
        on_wall: int | None = None, least: int = 0,
    ) -> list[Array] | None:
        """Which units are active where the top features h have least cost·h, row·h + bias = 0, and given values (not NaN)."""
        below, counts = self.layers[0][0].shape[1], [len(b) for _, b in self.layers]
        total = below + 2 * sum(counts)
        rows, low, high = [], [], []
        upper, at, previous = np.full(total, self.spread * FARTHEST), below, 0
        lower, size = np.zeros(total), np.full(below, self.spread * FARTHEST)
        whole = np.zeros(total)
        for weights, biases in self.layers:
            m, n = weights.shape
            M = np.abs(weights) @ size + np.abs(biases)
            feature, switch = at + np.arange(m), at + m + np.arange(m)
            A = np.zeros((3 * m, total))
            i = np.arange(m)
            A[:m, previous : previous + n] = A[m : 2 * m, previous : previous + n] = -weights
            A[i, feature] = A[m + i, feature] = A[2 * m + i, feature] = 1.0
            A[m + i, switch], A[2 * m + i, switch] = M, -M
            rows.append(A)
            low.append(np.concatenate([biases, np.full(2 * m, -np.inf)]))
            high.append(np.concatenate([np.full(m, np.inf), biases + M, np.zeros(m)]))
            upper[feature], upper[switch], whole[switch] = M, 1.0, 1.0
            previous, at, size = at, at + 2 * m, M
        top = slice(previous, previous + counts[-1])
        objective = np.zeros(total)
        if cost is not None:
            objective[top] = cost
        if equal is not None:
            rows.append(np.zeros((1, total)))
            rows[-1][0, top] = equal[0]
            low.append(np.array([-equal[1]]))
            high.append(np.array([-equal[1]]))
        if fixed is not None:
            told = ~np.isnan(fixed)
            lower[top], upper[top] = np.where(told, fixed, lower[top]), np.where(told, fixed, upper[top])
        if on_wall is not None:
            weights, biases = self.layers[-1]
            before = slice(0, below) if len(self.layers) == 1 else slice(previous - 2 * counts[-2], previous - counts[-2])
            rows.append(np.zeros((1, total)))
            rows[-1][0, before] = weights[on_wall]
            low.append(-biases[[on_wall]])
            high.append(-biases[[on_wall]])
        if least:
            i, m = np.arange(counts[-1]), counts[-1]
            A = np.zeros((m + 1, total))
            A[i, previous + i], A[i, previous + m + i], A[m, previous + m + i] = 1.0, -VISIBLE * self.spread, 1.0
            rows.append(A)
            low.append(np.append(np.zeros(m), float(least)))
            high.append(np.full(m + 1, np.inf))
        found = milp(
            objective, constraints=LinearConstraint(np.vstack(rows), np.concatenate(low), np.concatenate(high)),
            integrality=whole, bounds=Bounds(lower, upper), options={"time_limit": SECONDS})
        return None if found.x is None else self._active(found.x[:below])

    def _active(self, h: Array) -> list[Array]:
        pattern = []
        for weights, biases in self.layers:
            z = weights @ h + biases
            pattern.append(z > 1e-7 * self.spread)
            h = np.maximum(z, 0.0)
        return pattern

    def _inside(
        self, pattern: list[Array], walls: tuple[Array, Array] | None, cost: Array | None = None, *,
        skip: int | None = None, fixed: tuple[int, float] | None = None,
    ) -> CellPoint | None:
        """The point of a cell that is farthest from its walls, among those on the given `walls` A h + c = 0."""
        maps = self.pre_activations(pattern)
        signs = [np.where(on, 1.0, -1.0) for on in pattern]
        if skip is not None:
            signs[-1][skip] = 0.0
        A = np.vstack([sign[:, None] * A for sign, (A, _) in zip(signs, maps, strict=True)])
        c = np.concatenate([sign * c for sign, (_, c) in zip(signs, maps, strict=True)])
        n = A.shape[1]
        upper = np.column_stack([-A, np.linalg.norm(A, axis=1)])
        upper = np.vstack([upper, np.column_stack([-np.eye(n), np.ones(n)])])
        objective = np.append(np.zeros(n), -1.0)
        if cost is not None:
            objective[:n] = 1e-3 * (np.where(pattern[-1], cost, 0.0) @ maps[-1][0])
        if fixed is not None:
            walls = maps[-1][0][[fixed[0]]], maps[-1][1][[fixed[0]]] - fixed[1]
        found = linprog(
            objective, A_ub=upper, b_ub=np.append(c, np.zeros(n)),
            A_eq=None if walls is None else np.column_stack([walls[0], np.zeros(len(walls[0]))]),
            b_eq=None if walls is None else -walls[1],
            bounds=[*[(0.0, self.spread * FARTHEST)] * n, (0.0, INSIDE * self.spread)])
        if found.status != 0 or found.x[-1] < LEAST * self.spread:
            return None
        return CellPoint(np.asarray(found.x[:-1]), float(found.x[-1]))
