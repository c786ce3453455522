"""The book of known units: what the function is as far as it has been read, with error bars.

Everything is counted from one point p, at which no known unit is active:

    f(x) = c + v·(x - p) + Σᵢ aᵢ relu(nᵢ·(x - p) - hᵢ),      |nᵢ| = 1,  hᵢ > 0 the distance of unit i from p.

c and v are value and gradient at p. This is the same function whatever the signs of the units are, and units that are not known
yet leave it exact around p. What a fresh line shows beyond this prediction belongs to units that are not in the book.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from laybare.activations import absolute
from laybare.networks import Layer, Network
from laybare.shapes import Array

SAME_DIRECTION = 1e-6
"""Two units on one hyperplane, up to rounding and their error bars, are one: no query can tell them apart."""


@dataclass(frozen=True, eq=False)
class LineUnits:
    """Normals (k, dim) of length 1, distances (k,), readouts (k, outputs), and standard deviations of their entries.

    `normal_sd` is that of an entry of the normal, `line` the line on which the unit was found (0 is the first).
    """

    normals: Array
    distances: Array
    readouts: Array
    normal_sd: Array
    distance_sd: Array
    readout_sd: Array
    line: Array

    def __len__(self) -> int:
        return len(self.normals)

    def take(self, index: Array) -> LineUnits:
        """Some of them."""
        return LineUnits(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def joined(self, more: LineUnits) -> LineUnits:
        """These and further ones."""
        return LineUnits(*(np.concatenate([getattr(part, name) for part in (self, more)]) for name in self.__dataclass_fields__))

    @staticmethod
    def none(dim: int, outputs: int) -> LineUnits:
        """No units at all."""
        empty = np.empty(0)
        return LineUnits(np.empty((0, dim)), empty, np.empty((0, outputs)), empty, empty, empty, np.empty(0, dtype=int))


@dataclass(frozen=True, eq=False)
class Book:
    """Value c (outputs,) and gradient v (dim, outputs) at the point p, with the gradient's standard deviation, and the units."""

    point: Array
    value: Array
    gradient: Array
    gradient_sd: float
    units: LineUnits

    def __call__(self, x: Array) -> Array:
        """Predicted answers (n, outputs)."""
        away = x - self.point
        y: Array = away @ self.gradient
        if len(self.units):
            y += np.maximum(away @ self.units.normals.T - self.units.distances, 0.0) @ self.units.readouts
        y += self.value
        return y

    def sd(self, x: Array) -> Array:
        """Standard deviations (n,) of the predictions, as if errors of different units were independent."""
        away = x - self.point
        square = np.sum(away**2, axis=1)
        variance = square * self.gradient_sd**2
        if len(self.units):
            units = self.units
            active = np.maximum(away @ units.normals.T - units.distances, 0.0)
            size = np.abs(units.readouts).max(axis=1)
            moved = square[:, None] * (size * units.normal_sd) ** 2 + (size * units.distance_sd) ** 2
            variance = variance + np.sum(np.where(active > 0.0, moved + (active * units.readout_sd) ** 2, 0.0), axis=1)
        return np.asarray(np.sqrt(variance))

    def crossings(self, point: Array, direction: Array) -> Array:
        """Where the line point + t · direction meets each unit's hyperplane, (k,)."""
        with np.errstate(divide="ignore"):
            left = self.units.distances - (point - self.point) @ self.units.normals.T
            return np.asarray(left / (direction @ self.units.normals.T))

    def with_units(self, units: LineUnits) -> Book:
        """With further units; those on a known hyperplane are added to what is there, and gone if nothing is left."""
        together, keep = self.units.joined(units), list[int]()
        readouts = together.readouts.copy()
        for i in range(len(together)):
            twin = next((j for j in keep if _one_hyperplane(together, i, j)), None)
            if twin is None:
                keep.append(i)
            else:
                readouts[twin] += readouts[i]
        bound = 8.0 * together.readout_sd + 1e-9 * np.abs(together.readouts).max(axis=1)
        left = np.array([i for i in keep if np.abs(readouts[i]).max() > bound[i]], dtype=int)
        return replace(self, units=replace(together, readouts=readouts).take(left))

    def sign_free(self, *, vector: bool) -> Network:
        """The same function with |u| units, whose signs do not matter, and a linear part."""
        units = self.units
        half = units.readouts / 2.0
        biases = -units.distances - units.normals @ self.point
        linear = self.gradient + units.normals.T @ half
        offset = self.value - self.point @ self.gradient + biases @ half
        layer = Layer(units.normals.reshape(len(units), len(self.point)), biases, absolute)
        if vector:
            return Network(layer, half[:, 0], float(offset[0]), linear[:, 0])
        return Network(layer, half, offset, linear)


def _one_hyperplane(units: LineUnits, i: int, j: int) -> bool:
    level = SAME_DIRECTION + 8.0 * float(np.hypot(units.normal_sd[i], units.normal_sd[j]))
    near = SAME_DIRECTION * (1.0 + units.distances[i]) + 8.0 * float(np.hypot(units.distance_sd[i], units.distance_sd[j]))
    return bool(np.abs(units.normals[i] - units.normals[j]).max() < level and abs(units.distances[i] - units.distances[j]) < near)
