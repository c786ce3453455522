"""Reachable features: points of the first feature space at which known layers have wanted features. No query is asked.

Above the first layer features cannot be chosen freely: h = relu(W h' + b) with h' ≥ 0. Whether some h is reached, and from where,
is a linear program once the active units are given, and a mixed-integer one if not. Unit h = relu(z), z = w·h' + b, has a switch
s in {0, 1} and a bound M ≥ |z|:  h ≥ z,  h ≤ z + M (1 - s),  0 ≤ h ≤ M s. The unknowns are the first features, from 0 to
`farthest`, and the features and switches of every layer. Some hundredths of a second for 30 units; the time may grow like
2^units, so it is limited.

Questions: where does a single feature grow while the others stay zero? (A unit that bends anywhere bends on one of these lines.)
Where does the surface of a unit that is known for some features meet the boundary of another feature? (Beyond it the surface
continues, and gives that weight.) Where is a combination of features smallest?

Points are taken well inside a cell, a region with the same active units, so that short lines stay in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from laybare.lines.feature_space import Layers
from laybare.numerics.native_output import printing_to_stderr
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class ReachOptions:
    """Points that the programs look for. Lengths are in units of the inputs' scale."""

    max_seconds: float = 2.0  # of a program; a longer one counts as infeasible. Checked by `laybare reproduce deep-cases`.
    max_feature: float = 1000.0  # bound of the first features. Checked by `laybare reproduce deep-cases`.
    clearance: float = 1.0  # wanted distance from the boundaries of a cell. Checked by `pytest tests/lines/test_last_layers.py`.
    min_clearance: float = 1e-5  # least distance. Checked by `pytest tests/lines/test_last_layers.py`.
    min_cheap_clearance: float = 1e-3
    """Least distance of a point of least cost. Checked by `pytest tests/lines/test_last_layers.py`."""
    cost_weight: float = 100.0  # of cost against distance. Checked by `pytest tests/lines/test_last_layers.py`.
    distance_weight: float = 0.1
    """Of the mean feature, which bounds points of open cells. Checked by `laybare reproduce deep-large`."""
    active_counts: tuple[int, ...] = (3, 2, 1)
    """Features that identify a surface. Checked by `pytest tests/lines/test_last_layers.py`."""
    min_active_size: float = 0.02  # of these features. Checked by `pytest tests/lines/test_last_layers.py`.
    beyond_share: float = 0.02
    """Of the clearance: segments lie beyond a boundary. Checked by `pytest tests/lines/test_last_layers.py`."""
    across_share: float = 0.5  # of the clearance: half a segment's length. Checked by `pytest tests/lines/test_last_layers.py`.


REACH = ReachOptions()

Pattern = list[Array]
"""Which units of every layer are active."""


class Constraint(NamedTuple):
    """Linear constraints low ≤ matrix v ≤ high on all unknowns v."""

    matrix: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class ReluProgram:
    """The mixed-integer program of layers that read the first features, each of which is at most `farthest`."""

    layers: Layers
    farthest: float

    @property
    def first_features(self) -> int:
        """The number of first features."""
        return int(self.layers[0][0].shape[1])

    @property
    def total(self) -> int:
        """The number of unknowns."""
        return self.first_features + 2 * sum(len(biases) for _, biases in self.layers)

    @property
    def top(self) -> Array:
        """Indices of the features of the highest layer; their switches follow them."""
        count = len(self.layers[-1][1])
        return self.total - 2 * count + np.arange(count)

    @property
    def read_by_top(self) -> Array:
        """Indices of the features that the highest layer reads."""
        count = self.layers[-1][0].shape[1]
        return np.arange(count) if len(self.layers) == 1 else self.top[0] - 2 * count + np.arange(count)

    def solve(self, cost: Array, wanted: list[Constraint], fixed: Array) -> Array | None:
        """First features with least cost·h of the top features h, some of which have fixed values (the others are NaN)."""
        own, upper = self._layer_constraints()
        lower, whole, given = np.zeros(self.total), upper == 1.0, ~np.isnan(fixed)
        lower[self.top[given]] = upper[self.top[given]] = fixed[given]
        objective = np.zeros(self.total)
        objective[self.top] = cost
        matrix, low, high = (np.concatenate(blocks) for blocks in zip(own, *wanted, strict=True))
        with printing_to_stderr():
            found = milp(
                objective, constraints=LinearConstraint(matrix, low, high), integrality=whole, bounds=Bounds(lower, upper),
                options={"time_limit": REACH.max_seconds, "presolve": False})  # presolve prints, and gains nothing here
        return None if found.x is None else np.asarray(found.x[: self.first_features])

    def on_surface(self, row: Array, bias: float) -> Constraint:
        """row·h + bias = 0 for the top features h."""
        return self._equation(self.top, row, bias)

    def on_boundary(self, feature: int) -> Constraint:
        """z = 0 for a unit of the highest layer."""
        weights, biases = self.layers[-1]
        return self._equation(self.read_by_top, weights[feature], float(biases[feature]))

    def active(self, least: int, size: float) -> Constraint:
        """At least `least` top features are active, and the active ones have at least a size."""
        count = len(self.top)
        matrix, i = np.zeros((count + 1, self.total)), np.arange(count)
        matrix[i, self.top], matrix[i, self.top + count], matrix[count, self.top + count] = 1.0, -size, 1.0
        return Constraint(matrix, np.append(np.zeros(count), float(least)), np.full(count + 1, np.inf))

    def _equation(self, at: Array, row: Array, constant: float) -> Constraint:
        matrix = np.zeros((1, self.total))
        matrix[0, at] = row
        return Constraint(matrix, np.array([-constant]), np.array([-constant]))

    def _layer_constraints(self) -> tuple[Constraint, Array]:
        """The constraints of all units, and upper bounds of all unknowns; those of switches are 1."""
        blocks, upper = [], np.full(self.first_features, self.farthest)
        size, previous = upper, 0
        for weights, biases in self.layers:
            m, n = weights.shape
            at = len(upper)
            size = np.abs(weights) @ size + np.abs(biases) + 1.0 + self.farthest
            matrix, i = np.zeros((3, m, self.total)), np.arange(m)
            matrix[:2, :, previous : previous + n] = -weights
            matrix[:, i, at + i] = 1.0
            matrix[1, i, at + m + i], matrix[2, i, at + m + i] = size, -size
            none = np.full(m, np.inf)
            low, high = np.concatenate([biases, -none, -none]), np.concatenate([none, biases + size, np.zeros(m)])
            blocks.append(Constraint(matrix.reshape(3 * m, -1), low, high))
            upper, previous = np.concatenate([upper, size, np.ones(m)]), at
        return Constraint(*(np.concatenate(parts) for parts in zip(*blocks, strict=True))), upper


class FeatureSegment(NamedTuple):
    """A segment of the first feature space, from `start` along the unit vector `direction` for `reach` both ways."""

    start: Array
    direction: Array
    reach: float


class _Cell(NamedTuple):
    """z = A h + c of every unit of all layers, of those of the highest one, and which units are active."""

    every: tuple[Array, Array]
    top: tuple[Array, Array]
    pattern: Pattern


@dataclass(frozen=True, eq=False)
class Reachability:
    """Known layers that read the first features, which can be chosen freely."""

    layers: Layers
    spread: float

    def single_feature_points(self, feature: int, sizes: tuple[float, float]) -> tuple[Array, Array] | None:
        """Two points at which a feature has the two sizes, and the others are as small as they can be."""
        ends = [self._at_size(feature, size) for size in sizes]
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])

    def minimum_point(self, row: Array) -> Array | None:
        """The point at which row·h of the top features h is as small as it can be."""
        found = self._program.solve(row, [], np.full(len(row), np.nan))
        return None if found is None else self._cheapest(self._cell(self._pattern(found)), None, row)

    def segment_beyond(self, row: Array, bias: float, known: Array, feature: int) -> FeatureSegment | None:
        """A segment across the surface row·h + bias = 0, known for some features, just beyond the boundary of another one."""
        row, fixed = np.where(known, row, 0.0), np.where(known, np.nan, 0.0)
        program = self._program
        wanted = [program.on_surface(row, bias), program.on_boundary(feature)]
        tries = (
            program.solve(np.zeros(len(row)), [*wanted, program.active(least, REACH.min_active_size * self.spread)], fixed)
            for least in REACH.active_counts if least <= known.sum())
        found = next((found for found in tries if found is not None), None)
        return None if found is None else self._across(self._pattern(found), row, bias, feature)

    def isolated_point(self, h: Array, unit: int) -> tuple[Array, float] | None:
        """The point of the hyperplane of a unit of the lowest layer here, farthest from all other kinks; and how far.

        In the cell of the features h, which lie on it; not far out, where rounding is large.
        """
        weights, biases = self.layers[0]
        cost = np.full(len(h), REACH.distance_weight / len(h))
        return self._inside(self._cell(self._pattern(h)), (weights[[unit]], biases[[unit]]), cost, skip=unit)

    def _at_size(self, feature: int, size: float) -> Array | None:
        others = (np.arange(len(self.layers[-1][1])) != feature).astype(float)
        found = self._program.solve(others, [], np.where(others > 0.0, np.nan, size))
        if found is None:
            return None
        cell = self._cell(self._pattern(found))
        return self._cheapest(cell, (cell.top[0][[feature]], cell.top[1][[feature]] - size), others)

    def _cheapest(self, cell: _Cell, equations: tuple[Array, Array] | None, cost: Array) -> Array | None:
        """The point of a cell with least cost·h of the top features, but well inside."""
        gradient = np.where(cell.pattern[-1], cost, 0.0) @ cell.top[0]
        inside = self._inside(cell, equations, REACH.cost_weight * gradient, least=REACH.min_cheap_clearance)
        return None if inside is None else inside[0]

    def _across(self, pattern: Pattern, row: Array, bias: float, feature: int) -> FeatureSegment | None:
        pattern[-1][feature] = True
        cell = self._cell(pattern)
        A, c = cell.top
        on = np.where(pattern[-1], row, 0.0)
        unit, shift = on @ A, float(on @ c) + bias
        equations = np.vstack([unit, A[feature]]), np.array([shift, c[feature]])
        inside = self._inside(cell, equations, skip=len(cell.every[1]) - len(row) + feature)
        if inside is None:
            return None
        up = A[feature] / np.linalg.norm(A[feature])
        along = unit - (unit @ up) * up
        size, (h, room) = float(np.linalg.norm(along)), inside
        if size <= 1e-9 * float(np.linalg.norm(unit)):
            return None
        return FeatureSegment(h + REACH.beyond_share * room * up, along / size, REACH.across_share * room)

    @property
    def _program(self) -> ReluProgram:
        return ReluProgram(self.layers, REACH.max_feature * self.spread)

    def _pattern(self, h: Array) -> Pattern:
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
        self, cell: _Cell, equations: tuple[Array, Array] | None = None, cost: Array | None = None, *, skip: int | None = None,
        least: float = REACH.min_clearance,
    ) -> tuple[Array, float] | None:
        """The point of a cell farthest from its boundaries, among those with A h + c = 0 for the given equations, and how far."""
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
            A_eq=None if equations is None else np.column_stack([equations[0], np.zeros(len(equations[0]))]),
            b_eq=None if equations is None else -equations[1],
            bounds=[*[(0.0, self.spread * REACH.max_feature)] * n, (least * self.spread, REACH.clearance * self.spread)])
        if found.status != 0:
            return None
        return np.asarray(found.x[:-1]), float(found.x[-1])
