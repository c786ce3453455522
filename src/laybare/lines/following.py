"""Lines followed on one floor: the hyperplanes that they have met, the gradients beside them, and what bends elsewhere.

Kinks that no known unit explains are measured, and followed far away. So are those of units that are known poorly, and of units
beside which one side has no exact gradient: what is on that side decides whether it is the active one, and a piece that happens
to be tiny tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, NotSeparated
from laybare.lines.asking import Purse
from laybare.lines.floors import Floor
from laybare.lines.kinks import Bends, find_kinks
from laybare.lines.line import Line
from laybare.lines.search import end_piece
from laybare.lines.surfaces import PieceSlope, Surface, along_line, feels, judge, read_slope, read_surface
from laybare.shapes import Array
from laybare.source.rounding import Rounding

SAME = 1e-6
"""Two surfaces whose normals and shifts differ by less are one."""

OUTLYING = 300.0
"""Gradients with a standard deviation so many times the median were measured on a tiny piece: they decide nothing."""

POOR = 3e-4
"""Standard deviation beyond which a hyperplane is measured again wherever a line meets it."""

SIDE = 10.0
"""Standard deviations of a unit's numbers within which the side of a place is open."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What lines on a floor have shown: hyperplanes, gradients, surfaces that bend; lines, and how many at the end were quiet.

    `suspects` are surfaces that could not be followed far: whether they are hyperplanes is for the gradients to say. `further`
    are the surfaces that bend: layers above may be read from them.
    """

    floor: Floor
    surfaces: tuple[Surface, ...] = ()
    suspects: tuple[Surface, ...] = ()
    slopes: tuple[PieceSlope, ...] = ()
    bent: int = 0
    lines: int = 0
    quiet: int = 0
    further: tuple[Surface, ...] = ()

    @property
    def known(self) -> tuple[Surface, ...]:
        """Hyperplanes and suspects."""
        return (*self.surfaces, *self.suspects)


def follow(purse: Purse, seen: Seen, line: Line, rounding: Rounding, *, every: bool = False, rng: Generator) -> Seen:
    """Read a line, and measure what no known unit explains; the gradients on all of its pieces if `every`."""
    along = along_line(purse, line, rounding)
    try:
        bends = find_kinks(along, line, [end_piece(along, line, line.low), end_piece(along, line, line.high)])
    except (NotSeparated, AssumptionViolated):
        return replace(seen, lines=seen.lines + 1, quiet=0)
    strange = [i for i in range(len(bends.kinks)) if not _explained(seen.known, seen.floor, bends, i)]
    strange = sorted({*_novel(purse, seen, bends, strange, rounding, rng), *_again(seen, bends)})
    beside = range(len(bends.pieces)) if every else sorted({i + d for i in strange for d in (0, 1)})
    slopes = {k: read_slope(purse, seen.floor, bends, k, rounding, rng=rng) for k in beside}
    fresh = replace(
        seen, lines=seen.lines + 1, quiet=seen.quiet + 1,
        slopes=seen.slopes + tuple(slope for slope in slopes.values() if slope is not None))
    for i in strange:
        surface = read_surface(purse, seen.floor, bends, i, slopes, rounding, rng=rng)
        if surface is None:
            continue
        if any(_same(surface, other) for other in fresh.known):
            fresh = replace(fresh, surfaces=tuple(_better(surface, other) for other in fresh.surfaces))
        else:
            fresh = _judged(purse, fresh, surface, rounding, rng)
    return fresh


def _again(seen: Seen, bends: Bends) -> list[int]:
    """Kinks of units of which another reading is worth its queries: known poorly, by coarse answers, or from one side."""
    wanted = (*(surface for surface in seen.surfaces if surface.sd > POOR), *one_sided(seen))
    return [i for i in range(len(bends.kinks)) if wanted and _explained(wanted, seen.floor, bends, i)]


def one_sided(seen: Seen) -> tuple[Surface, ...]:
    """Known surfaces beside which all exact gradients are on one side: the other one was measured on a tiny piece."""
    if not seen.known or not seen.slopes:
        return ()
    rows, shifts, sd = (np.array(numbers) for numbers in zip(*(surface[:3] for surface in seen.known), strict=True))
    h = seen.floor.features(np.array([slope.x for slope in exact_slopes(seen.slopes)]))
    side = sides_of(h, rows, shifts, sd)
    both = np.asarray((side > 0.0).any(axis=0) & (side < 0.0).any(axis=0))
    return tuple(surface for surface, told in zip(seen.known, both, strict=True) if not told)


def line_across(floor: Floor, surface: Surface, rng: Generator) -> Line:
    """A line through the place where a surface was met, in another direction."""
    toward = floor.point(rng) - surface.x
    return floor.line_through(surface.x, toward, float(np.linalg.norm(toward)))


def sides_of(h: Array, rows: Array, shifts: Array, sd: Array) -> Array:
    """The sides (n, m) of hyperplanes on which features h (n, width) are: 1, -1, or 0 where the error bar leaves it open."""
    before = h @ rows.T + shifts
    open_ = SIDE * sd * (1.0 + np.linalg.norm(h, axis=1)[:, None])
    return np.asarray(np.where(np.abs(before) > open_, np.sign(before), 0.0))


def _better(surface: Surface, known: Surface) -> Surface:
    """The surface if it is the known one read better, else that."""
    return surface if surface.sd < known.sd and _same(surface, known) else known


def _novel(purse: Purse, seen: Seen, bends: Bends, kinks: list[int], rounding: Rounding, rng: Generator) -> list[int]:
    """The kinks beside which a unit that is not known is active: one query a piece, along a direction that no known unit feels.

    There is such a direction if fewer units are known than the floor has features; else it may be any kink.
    """
    floor, known = seen.floor, np.array([s.normal for s in seen.surfaces])
    if not len(known) or len(known) >= floor.width or not kinks:
        return kinks
    blind = rng.standard_normal(floor.width)
    blind -= np.linalg.pinv(known) @ (known @ blind)
    pieces = sorted({i + d for i in kinks for d in (0, 1)})
    felt = dict(zip(pieces, feels(purse, floor, bends, pieces, blind, rounding), strict=True))
    return [i for i in kinks if felt[i] or felt[i + 1]]


def _judged(purse: Purse, seen: Seen, surface: Surface, rounding: Rounding, rng: Generator) -> Seen:
    verdict = judge(purse, seen.floor, surface, rounding, rng=rng)
    if verdict == "hyperplane":
        return replace(seen, surfaces=(*seen.surfaces, surface), quiet=0)
    if verdict == "suspect":
        return replace(seen, suspects=(*seen.suspects, surface), quiet=0)
    return replace(seen, bent=seen.bent + 1, further=(*seen.further, surface))


def _explained(surfaces: tuple[Surface, ...], floor: Floor, bends: Bends, i: int) -> bool:
    """Whether a known hyperplane passes at kink i."""
    kink, line = bends.kinks[i], bends.line
    h, u = floor.features(line(kink.t))[0], floor.matrix @ line.direction
    size = float(np.linalg.norm(h)) + 1.0
    for surface in surfaces:
        off = abs(float(surface.normal @ h) + surface.shift)
        if off <= 20.0 * surface.sd * size + (10.0 * kink.sd + 1e-9 * line.scale) * abs(float(surface.normal @ u)):
            return True
    return False


def _same(one: Surface, other: Surface) -> bool:
    sign = 1.0 if float(one.normal @ other.normal) > 0.0 else -1.0
    level = SAME + 10.0 * float(np.hypot(one.sd, other.sd))
    return bool(
        np.abs(one.normal - sign * other.normal).max() < level
        and abs(one.shift - sign * other.shift) < level * (1.0 + abs(one.shift)) * np.sqrt(len(one.normal)))


def exact_slopes(slopes: tuple[PieceSlope, ...]) -> list[PieceSlope]:
    """Those that were measured about as well as most."""
    level = OUTLYING * float(np.median([slope.sd for slope in slopes]))
    return [slope for slope in slopes if slope.sd <= level]
