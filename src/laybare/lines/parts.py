"""Parts of rows: what a kink tells of a unit above layers that are known, and how such parts are put together.

At every input of floor 1 the features h that the layer reads are known, and their derivative B with respect to the features of
floor 1. A kink of unit (w, b) has the normal Bᵀw, and is on w·h + b = 0: it tells w where B has rows, at the features that are
active there, and b. Two such parts belong to one unit if they are proportional where both are known; together they know more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from laybare.lines.floors import Floor
from laybare.lines.programs import Layers
from laybare.lines.reach import Reach
from laybare.lines.surfaces import PieceSlope, Surface
from laybare.shapes import Array

AGREE = {2: 1e-6, 3: 1e-4}
"""Relative difference up to which two parts are proportional, by how many numbers they have in common, the bias among them (three
means three or more). Errors are 1e-9 times the condition of B."""

MEMBERS = 2
"""Kinks of which a unit consists at least: a single one may be that of a unit further up."""

NEARBY = 1e-7
"""Relative distance of a kink from the zero of a known unit up to which it is that unit's."""


class Part(NamedTuple):
    """A row, known where `on`, its bias, and the surfaces of the kinks that it was made of."""

    row: Array
    on: Array
    bias: float
    surfaces: tuple[Surface, ...]

    @property
    def members(self) -> int:
        """Kinks."""
        return len(self.surfaces)

    @property
    def mark(self) -> bytes:
        """The same for the same knowledge."""
        numbers = np.round(np.abs(np.append(self.row[self.on], self.bias)), 5)
        return bytes(self.on.tobytes() + numbers.tobytes())


@dataclass(frozen=True, eq=False)
class Branches:
    """What lines on floor 1 have shown of the last layer, above the known `layers` that read this floor's features."""

    floor: Floor
    layers: Layers
    parts: tuple[Part, ...] = ()
    slopes: tuple[PieceSlope, ...] = ()
    lines: int = 0
    quiet: int = 0

    def above(self, x: Array) -> tuple[list[Array], Array]:
        """At one input: pre-activations of the known layers, and B, (features, width)."""
        h, B, before = self.floor.features(x[None])[0], np.eye(self.floor.width), []
        for weights, biases in self.layers:
            z = weights @ h + biases
            before.append(z)
            h, B = np.maximum(z, 0.0), np.where(z[:, None] > 0.0, weights @ B, 0.0)
        return before, B

    def values(self, part: Part, x: Array) -> Array:
        """row·h + bias of a part at inputs (n, dim); NaN where a feature is active that it is not known for."""
        h = self.floor.features(x)
        for weights, biases in self.layers:
            h = np.maximum(h @ weights.T + biases, 0.0)
        return np.where((h[:, ~part.on] > 0.0).any(axis=1), np.nan, h @ part.row + part.bias)

    @property
    def reach(self) -> Reach:
        """Which features inputs can reach."""
        return Reach(self.layers, self.floor.spread)

    @property
    def whole(self) -> list[Part]:
        """Units that are known."""
        return [part for part in self.parts if part.on.all() and part.members >= MEMBERS]

    @property
    def open(self) -> list[Part]:
        """Parts that are neither whole nor explained by one that is."""
        whole = self.whole
        return [part for part in self.parts if not any(part is unit or self._on(unit, part.surfaces[0].x) for unit in whole)]

    def with_surface(self, surface: Surface) -> Branches:
        """With what one more kink tells, if anything."""
        part = part_of(self, surface)
        return self if part is None else replace(self, parts=tuple(joined(list(self.parts), part)))

    def explained(self, x: Array) -> bool:
        """Whether a unit of a known layer, or a part that is known where x is, has its zero at x."""
        before, _ = self.above(x)
        size = 1.0 + float(np.linalg.norm(self.floor.features(x[None])))
        if min(float(np.abs(z).min()) for z in before) <= NEARBY * size:
            return True
        active = before[-1] > 0.0
        return any(
            part.members >= MEMBERS and not active[~part.on].any() and self._on(part, x) for part in self.parts)

    def _on(self, part: Part, x: Array) -> bool:
        h = np.maximum(self.above(x)[0][-1], 0.0)
        size = 1.0 + float(np.linalg.norm(self.floor.features(x[None])))
        return abs(float(part.row @ h) + part.bias) <= NEARBY * size


def part_of(branches: Branches, surface: Surface) -> Part | None:
    """What a kink tells of a row; None if it is no kink of this layer."""
    before, B = branches.above(surface.x)
    on = before[-1] > 0.0
    if not on.any() or np.linalg.matrix_rank(B[on], tol=1e-6) < on.sum():
        return None
    row = np.zeros(len(on))
    row[on] = np.linalg.lstsq(B[on].T, surface.normal, rcond=None)[0]
    if np.abs(B.T @ row - surface.normal).max() > AGREE[3]:
        return None
    size = float(np.linalg.norm(row))
    return Part(row / size, on, -float(row @ np.maximum(before[-1], 0.0)) / size, (surface,))


def joined(parts: list[Part], part: Part) -> list[Part]:
    """The parts with one more, which may join others to one."""
    for i, other in enumerate(parts):
        together = _together(other, part)
        if together is not None:
            return joined(parts[:i] + parts[i + 1 :], together)
    return [*parts, part]


def _together(one: Part, other: Part) -> Part | None:
    both = one.on & other.on
    a, b = np.append(one.row[both], one.bias), np.append(other.row[both], other.bias)
    if len(a) < min(AGREE):
        return None
    factor = float(a @ b) / float(b @ b)
    if np.abs(a - factor * b).max() > AGREE[min(len(a), max(AGREE))] * np.abs(a).max():
        return None
    row = np.where(one.on, one.row, factor * other.row)
    size = float(np.linalg.norm(row))
    return Part(row / size, one.on | other.on, one.bias / size, one.surfaces + other.surfaces)
