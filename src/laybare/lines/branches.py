"""The last layer of a deep network, from kinks under any pattern of active units below.

Above floor 1 there need not be inputs at which all units are active, and a unit may bend only where some are not. But the layers
below are known, so at every input of floor 1 the features h that the last layer reads are known, and their derivative B with
respect to the features of floor 1. A kink of unit (w, b) has the normal Bᵀw, and is on w·h + b = 0: it tells w where B has rows,
at the units that are active there, and b. Two such parts belong to one unit if they are proportional where both are known;
together they make the row. Every measured gradient is then

    g = Bᵀ (Σⱼ aⱼ [zⱼ > 0] wⱼ + v),

linear in a and v, and v = 0 if all signs are right: v is a combination of aⱼ wⱼ, whose coefficients are 0, or -1 where the
sign is wrong. This needs independent rows (no more units than features), and that nothing lies above: otherwise parts disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, NotSeparated
from laybare.lines.asking import Purse
from laybare.lines.floors import Floor
from laybare.lines.kinks import Bends, find_kinks
from laybare.lines.layers import LayerRead, Seen, exact_slopes
from laybare.lines.line import Line
from laybare.lines.search import end_piece
from laybare.lines.surfaces import PieceSlope, Surface, along_line, read_slope, surface_at
from laybare.shapes import Array
from laybare.source.rounding import Rounding

AGREE = 1e-4
"""Relative difference up to which two parts are proportional; errors are 1e-9 times the condition of B."""

NEARBY = 1e-7
"""Relative distance of a kink from the zero of a known unit up to which it is that unit's."""

COMMON, MEMBERS = 3, 2
"""Numbers that two parts must have in common, the bias among them, and parts of which a unit consists at least."""

ROUND, ROUNDS = 30, 8
"""Lines between two looks at what is known, beyond those along the features, and how many looks there are."""

POINTS, BOOST = 60, 4.0
"""Random points among which two are looked for that a unit lies between, and by how much features are raised that make another
one active, in logarithms."""

FITS, SIGN = 1e-5, 1e-3
"""Relative misfit of all gradients, and distance of the coefficients of v from 0 and -1, of a last layer."""

Layers = tuple[tuple[Array, Array], ...]


class Part(NamedTuple):
    """A row, known where `on`, its bias, the surface that it was read from, and of how many kinks it was made."""

    row: Array
    on: Array
    bias: float
    surface: Surface
    members: int = 1


@dataclass(frozen=True, eq=False)
class Branches:
    """What lines on floor 1 have shown of the last layer, above the known `layers` that read this floor's features."""

    floor: Floor
    layers: Layers
    parts: tuple[Part, ...] = ()
    slopes: tuple[PieceSlope, ...] = ()
    lines: int = 0

    def above(self, x: Array) -> tuple[list[Array], Array]:
        """At one input: pre-activations of the known layers, and B, (features, width)."""
        h, B, before = self.floor.features(x[None])[0], np.eye(self.floor.width), []
        for weights, biases in self.layers:
            z = weights @ h + biases
            before.append(z)
            h, B = np.maximum(z, 0.0), np.where(z[:, None] > 0.0, weights @ B, 0.0)
        return before, B

    @property
    def whole(self) -> list[Part]:
        return [part for part in self.parts if part.on.all() and part.members >= MEMBERS]


def read_last_layer(
    purse: Purse, floor: Floor, layers: Layers, rounding: Rounding, targets: tuple[Line, ...] = (), *, rng: Generator
) -> LayerRead | None:
    """Lines on floor 1 until the layer explains all gradients; None if it does not, or is not the last one."""
    branches = Branches(floor, layers)
    for line in targets:
        branches = _follow(purse, branches, line, rounding, rng)
    for turn in range(ROUNDS):
        for _ in range(floor.width + ROUND if turn == 0 else ROUND):
            aimed = _aimed(branches, rng) if branches.lines > floor.width and branches.lines % 3 else None
            branches = _follow(purse, branches, aimed or floor.line(branches.lines, rng), rounding, rng)
        read = _last(branches)
        if read is not None:
            return read
        if turn > 0 and sum(part.members for part in branches.whole) < len(branches.parts):
            return None
    return None


def _aimed(branches: Branches, rng: Generator) -> Line | None:
    """A line across a unit that is known in part, where a feature is active that its row is not known for."""
    open_ = [part for part in branches.parts if part.members >= MEMBERS and not part.on.all()]
    if not open_:
        return None
    part = open_[rng.integers(len(open_))]
    feature, floor = int(rng.choice(np.flatnonzero(~part.on))), branches.floor
    _, B = branches.above(part.surface.x)
    rows = branches.layers[-1][0][feature] if len(branches.layers) == 1 else B[feature]
    found: list[tuple[float, Array]] = []
    for _ in range(POINTS):
        size = floor.spread * np.exp(rng.standard_normal())
        x = floor.lifted(size * np.exp(rng.standard_normal(floor.width) + BOOST * rng.random() * np.sign(rows)), rng)
        h = np.maximum(branches.above(x)[0][-1], 0.0)
        if h[feature] > 0.0:
            height = float(part.row @ h + part.bias)
            other = next((y for there, y in found if there * height < 0.0), None)
            if other is not None:
                return floor.line_through(x, other - x, float(np.linalg.norm(other - x)))
            found.append((height, x))
    if len(found) < 2:
        return None
    x, y = found[0][1], found[-1][1]
    return floor.line_through(x, y - x, float(np.linalg.norm(y - x)))


def _follow(purse: Purse, branches: Branches, line: Line, rounding: Rounding, rng: Generator) -> Branches:
    along, floor = along_line(purse, line, rounding), branches.floor
    try:
        bends = find_kinks(along, line, [end_piece(along, line, line.low), end_piece(along, line, line.high)])
    except (NotSeparated, AssumptionViolated):
        return replace(branches, lines=branches.lines + 1)
    strange = [i for i in range(len(bends.kinks)) if not _explained(branches, bends, i)]
    slopes = {k: read_slope(purse, floor, bends, k, rounding, rng=rng) for k in sorted({i + d for i in strange for d in (0, 1)})}
    parts = list(branches.parts)
    for i in strange:
        left, right = slopes[i], slopes[i + 1]
        surface = None if left is None or right is None else surface_at(floor, bends, i, left, right, rounding)
        part = None if surface is None else _part(branches, surface)
        if part is not None:
            parts = _joined(parts, part)
    seen = tuple(slope for slope in slopes.values() if slope is not None)
    return replace(branches, parts=tuple(parts), slopes=branches.slopes + seen, lines=branches.lines + 1)


def _explained(branches: Branches, bends: Bends, i: int) -> bool:
    x = bends.line(bends.kinks[i].t)[0]
    before, _ = branches.above(x)
    h = np.maximum(before[-1], 0.0)
    rest = [np.abs(z) for z in before] + [np.array([abs(part.row @ h + part.bias) for part in branches.whole])]
    size = 1.0 + float(np.linalg.norm(branches.floor.features(x[None])))
    return bool(min(float(z.min(initial=np.inf)) for z in rest) <= NEARBY * size)


def _part(branches: Branches, surface: Surface) -> Part | None:
    """What a kink tells of a row of the last layer."""
    before, B = branches.above(surface.x)
    on = before[-1] > 0.0
    if not on.any() or np.linalg.matrix_rank(B[on], tol=1e-6) < on.sum():
        return None
    row = np.zeros(len(on))
    row[on] = np.linalg.lstsq(B[on].T, surface.normal, rcond=None)[0]
    if np.abs(B.T @ row - surface.normal).max() > AGREE:
        return None
    size = float(np.linalg.norm(row))
    return Part(row / size, on, -float(row @ np.maximum(before[-1], 0.0)) / size, surface)


def _joined(parts: list[Part], part: Part) -> list[Part]:
    """The parts with one more, which may join others to one."""
    for i, other in enumerate(parts):
        together = _together(other, part)
        if together is not None:
            return _joined(parts[:i] + parts[i + 1 :], together)
    return [*parts, part]


def _together(one: Part, other: Part) -> Part | None:
    both = one.on & other.on
    a, b = np.append(one.row[both], one.bias), np.append(other.row[both], other.bias)
    if len(a) < COMMON:
        return None
    factor = float(a @ b) / float(b @ b)
    if np.abs(a - factor * b).max() > AGREE * np.abs(a).max():
        return None
    row = np.where(one.on, one.row, factor * other.row)
    size = float(np.linalg.norm(row))
    return Part(row / size, one.on | other.on, one.bias / size, one.surface, one.members + other.members)


def _last(branches: Branches) -> LayerRead | None:
    """The layer with signs and readout, if it explains every gradient."""
    units, slopes = branches.whole, exact_slopes(branches.slopes)
    if not units or len(units) > len(units[0].row):
        return None
    W, b = np.array([unit.row for unit in units]), np.array([unit.bias for unit in units])
    if np.linalg.cond(W) > 1e7:
        return None
    places = [branches.above(slope.x) for slope in slopes]
    h = np.maximum(np.array([before[-1] for before, _ in places]), 0.0)
    active = h @ W.T + b > 0.0
    weight = 1.0 / np.array([slope.sd for slope in slopes])
    A = np.vstack([w * np.hstack([B.T @ (on * W.T), B.T]) for (_, B), on, w in zip(places, active, weight, strict=True)])
    y = np.vstack([w * slope.values for slope, w in zip(slopes, weight, strict=True)])
    solved = np.linalg.lstsq(A, y, rcond=1e-13)[0]
    off = np.abs(A @ solved - y) / np.repeat(weight, branches.floor.width)[:, None]
    a, v = solved[: len(W)], solved[len(W) :]
    if off.max() > FITS * np.abs(a).max():
        return None
    share = np.sum((np.linalg.pinv(W).T @ v) * a, axis=1) / np.sum(a * a, axis=1)
    wrong = np.abs(share + 1.0) < SIGN
    if (~wrong & (np.abs(share) > SIGN)).any():
        return None
    sign = np.where(wrong, -1.0, 1.0)
    W, b = sign[:, None] * W, sign * b
    best = int(np.argmax(weight))
    offset = slopes[best].answer - np.maximum(W @ h[best] + b, 0.0) @ a
    surfaces = tuple(unit.surface for unit in units)
    seen = Seen(branches.floor, surfaces, (), tuple(slopes), 0, branches.lines, branches.lines)
    return LayerRead(seen, W, b, np.array([s.sd for s in surfaces]), "", a, offset)
