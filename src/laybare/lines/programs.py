"""Known ReLU layers as the constraints of a mixed-integer linear program.

Unit h = relu(z), z = w·h' + b, has a switch s in {0, 1} and a bound M ≥ |z|:  h ≥ z,  h ≤ z + M (1 - s),  0 ≤ h ≤ M s. The
unknowns are the features of floor 1, which may be anything from 0 to `farthest`, and for every layer its features and switches.
Cost: some hundredths of a second for 30 units; it may grow like 2 to the number of units, so that there is a limit of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from laybare.shapes import Array

SECONDS = 2.0
"""A program that takes longer counts as one without a solution."""

Layers = tuple[tuple[Array, Array], ...]
"""Weights and biases from the lowest layer up."""


class Constraint(NamedTuple):
    """Linear constraints low ≤ matrix v ≤ high on all unknowns v."""

    matrix: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Program:
    """Layers that read the features of floor 1, each of which is at most `farthest`."""

    layers: Layers
    farthest: float

    @property
    def below(self) -> int:
        """Features of floor 1."""
        return int(self.layers[0][0].shape[1])

    @property
    def total(self) -> int:
        """Unknowns."""
        return self.below + 2 * sum(len(biases) for _, biases in self.layers)

    @property
    def top(self) -> Array:
        """Numbers of the features of the highest layer; their switches follow them."""
        count = len(self.layers[-1][1])
        return self.total - 2 * count + np.arange(count)

    @property
    def read_by_top(self) -> Array:
        """Numbers of the features that the highest layer reads."""
        count = self.layers[-1][0].shape[1]
        return np.arange(count) if len(self.layers) == 1 else self.top[0] - 2 * count + np.arange(count)

    def solved(self, cost: Array, wanted: list[Constraint], fixed: Array) -> Array | None:
        """Features of floor 1 with least cost·h of the top features h, some of which have fixed values (the others are NaN)."""
        own, upper = self._layers()
        lower, whole, told = np.zeros(self.total), upper == 1.0, ~np.isnan(fixed)
        lower[self.top[told]] = upper[self.top[told]] = fixed[told]
        objective = np.zeros(self.total)
        objective[self.top] = cost
        matrix, low, high = (np.concatenate(blocks) for blocks in zip(own, *wanted, strict=True))
        found = milp(
            objective, constraints=LinearConstraint(matrix, low, high), integrality=whole, bounds=Bounds(lower, upper),
            options={"time_limit": SECONDS, "presolve": False})  # presolve prints, and gains nothing here
        return None if found.x is None else np.asarray(found.x[: self.below])

    def on_surface(self, row: Array, bias: float) -> Constraint:
        """row·h + bias = 0 for the top features h."""
        return self._equation(self.top, row, bias)

    def on_wall(self, feature: int) -> Constraint:
        """z = 0 for a unit of the highest layer."""
        weights, biases = self.layers[-1]
        return self._equation(self.read_by_top, weights[feature], float(biases[feature]))

    def active(self, least: int, size: float) -> Constraint:
        """At least so many top features are active, and those that are have at least a size."""
        count = len(self.top)
        matrix, i = np.zeros((count + 1, self.total)), np.arange(count)
        matrix[i, self.top], matrix[i, self.top + count], matrix[count, self.top + count] = 1.0, -size, 1.0
        return Constraint(matrix, np.append(np.zeros(count), float(least)), np.full(count + 1, np.inf))

    def _equation(self, at: Array, row: Array, constant: float) -> Constraint:
        matrix = np.zeros((1, self.total))
        matrix[0, at] = row
        return Constraint(matrix, np.array([-constant]), np.array([-constant]))

    def _layers(self) -> tuple[Constraint, Array]:
        """The constraints of all units, and upper bounds of all unknowns; those of switches are 1."""
        blocks, upper = [], np.full(self.below, self.farthest)
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
