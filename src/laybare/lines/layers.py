"""One layer of a deep network, read on its floor.

Lines show kinks; those that no known unit explains are measured, and followed far away: hyperplanes are units of this layer. Then
every gradient with respect to the floor's features is a combination of their normals, g = C W, and the coefficient of a unit
vanishes wherever it is off. So the gradients that were measured anyway tell which side of each unit is the active one, and
whether a unit is missing: then something is left of g, or a coefficient vanishes on neither side. Both need independent
normals, so a layer must not be wider than its input. A unit that is off at every measured place is not missed by this test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

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

LEVELS, RELATIVE = 40.0, 1e-6
"""What is below so many standard deviations, or such a share of the whole, is zero."""

OUTLYING = 300.0
"""Gradients with a standard deviation so many times the median were measured on a tiny piece: they decide nothing."""

MOST_SUSPECTS = {1: 100, 2: 20, 3: 10}
"""Suspects of which one, two or three at a time are tried."""

POOR = 3e-4
"""Standard deviation beyond which a hyperplane is measured again wherever a line meets it."""

SIDE = 10.0
"""Standard deviations of a unit's numbers within which the side of a place is open."""

MOST_CONDITION = 1e7

DEPENDENT = "the normals of its units are not independent"

Suspect = TypeVar("Suspect")


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


@dataclass(frozen=True, eq=False)
class LayerRead:
    """Weights (m, width) of norm 1, biases (m,), the active side of each unit decided, and the coefficients of all gradients.

    `trouble` says why the layer is not complete; empty if it is. `readout` (m, outputs) and `offset` (outputs,) are there if the
    layer is the last one: then the coefficients of active units are the same everywhere. The last `folded` units never bend: they
    stand for an affine map of the features. Beside such a map the active side of `untold` units makes no difference.
    """

    seen: Seen
    weights: Array
    biases: Array
    sd: Array
    trouble: str = ""
    readout: Array | None = None
    offset: Array | None = None
    folded: int = 0
    untold: int = 0


def follow(purse: Purse, seen: Seen, line: Line, rounding: Rounding, *, every: bool = False, rng: Generator) -> Seen:
    """Read a line, and measure what no known unit explains; the gradients on all of its pieces if `every`."""
    along = along_line(purse, line, rounding)
    try:
        bends = find_kinks(along, line, [end_piece(along, line, line.low), end_piece(along, line, line.high)])
    except (NotSeparated, AssumptionViolated):
        return replace(seen, lines=seen.lines + 1, quiet=0)
    strange = [i for i in range(len(bends.kinks)) if not _explained(seen.known, seen.floor, bends, i)]
    strange = sorted({*_novel(purse, seen, bends, strange, rounding, rng), *_poor(seen, bends)})
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


def _poor(seen: Seen, bends: Bends) -> list[int]:
    """Kinks of units that are known so poorly, by coarse answers, that another reading of them is worth its queries."""
    poor = tuple(surface for surface in seen.surfaces if surface.sd > POOR)
    return [i for i in range(len(bends.kinks)) if poor and _explained(poor, seen.floor, bends, i)]


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


def layer_of(seen: Seen) -> LayerRead:
    """The layer as far as it is known, with its signs, and what is missing; with those suspects that the gradients need.

    If the normals are not independent, a unit of a layer above was followed far without a turn, and is left out.
    """
    first = signed(unsigned(seen, seen.surfaces))
    if not first.trouble or len(seen.surfaces) > seen.floor.width:
        return first
    if first.trouble == DEPENDENT:
        fewer = (signed(unsigned(seen, (*seen.surfaces[:i], *seen.surfaces[i + 1 :]))) for i in range(len(seen.surfaces)))
        return next((read for read in fewer if not read.trouble), first)
    reads = (signed(unsigned(seen, (*seen.surfaces, *chosen))) for chosen in choices(seen.suspects))
    return next((read for read in reads if not read.trouble), first)


def choices(suspects: tuple[Suspect, ...]) -> Iterator[tuple[Suspect, ...]]:
    """All of them, then one, two, three; no more than a few hundred."""
    if suspects:
        yield suspects
    for count in (1, 2, 3):
        if len(suspects) <= MOST_SUSPECTS[count]:
            yield from combinations(suspects, count)


def unsigned(seen: Seen, surfaces: tuple[Surface, ...]) -> LayerRead:
    """The layer of these surfaces, their active sides not decided."""
    width, m = seen.floor.width, len(surfaces)
    normals = np.array([s.normal for s in surfaces]).reshape(m, width)
    shifts, sd = np.array([s.shift for s in surfaces]), np.array([s.sd for s in surfaces])
    read = LayerRead(seen, normals, shifts, sd)
    if not m:
        return replace(read, trouble="no hyperplane was found")
    if m > width:
        return replace(read, trouble=f"it is wider than its input ({m} units, {width} features): signs are not known")
    if np.linalg.cond(normals) > MOST_CONDITION:
        return replace(read, trouble=DEPENDENT)
    return read


def signed(read: LayerRead) -> LayerRead:
    """The layer with its active sides, and its readout if it is the last one; or what is missing."""
    if read.trouble:
        return read
    slopes, inverse = exact_slopes(read.seen.slopes), np.linalg.pinv(read.weights)
    g = np.array([slope.values for slope in slopes])  # (n, width, outputs)
    coefficients = np.einsum("nko,km->nmo", g, inverse)
    rest = np.abs(g - np.einsum("nmo,mk->nko", coefficients, read.weights)).max(axis=(1, 2))
    size = np.abs(coefficients).max(axis=(1, 2))
    normals_sd = np.sqrt(np.sum((np.abs(coefficients).max(axis=2) * read.sd) ** 2, axis=1))
    noise = np.hypot(np.array([s.sd for s in slopes]), normals_sd) * np.sqrt(read.seen.floor.width)
    if (rest > LEVELS * noise + RELATIVE * size.max()).any():
        return replace(read, trouble="a unit is missing, or never bends: some gradients are no combination of the known ones")
    side = sides(read, slopes)
    large = np.abs(coefficients).max(axis=2)
    level = LEVELS * noise[:, None] * np.linalg.norm(inverse, axis=0) + RELATIVE * large.max(axis=0)
    ahead, behind = (large > level) & (side > 0.0), (large > level) & (side < 0.0)
    both, none = ahead.any(axis=0) & behind.any(axis=0), ~(ahead.any(axis=0) | behind.any(axis=0))
    if both.any() or none.any():
        return replace(read, trouble=f"the active side of {int((both | none).sum())} units cannot be told: a unit is missing")
    sign = np.where(ahead.any(axis=0), 1.0, -1.0)
    signed = replace(read, weights=sign[:, None] * read.weights, biases=sign * read.biases)
    return with_readout(signed, slopes, sign * coefficients.transpose(0, 2, 1), level)


def sides(read: LayerRead, slopes: list[PieceSlope]) -> Array:
    """The sides (n, m) of all units on which gradients were measured: 1, -1, or 0 where the error bar leaves it open."""
    h = read.seen.floor.features(np.array([slope.x for slope in slopes]))
    before = h @ read.weights.T + read.biases
    open_ = SIDE * read.sd * (1.0 + np.linalg.norm(h, axis=1)[:, None])
    return np.asarray(np.where(np.abs(before) > open_, np.sign(before), 0.0))


def exact_slopes(slopes: tuple[PieceSlope, ...]) -> list[PieceSlope]:
    """Those that were measured about as well as most."""
    level = OUTLYING * float(np.median([slope.sd for slope in slopes]))
    return [slope for slope in slopes if slope.sd <= level]


def with_readout(read: LayerRead, slopes: list[PieceSlope], coefficients: Array, level: Array) -> LayerRead:
    """The readout, if the coefficients (n, outputs, m) of active units are everywhere the same."""
    side, h = sides(read, slopes), read.seen.floor.features(np.array([slope.x for slope in slopes]))
    before = h @ read.weights.T + read.biases
    readout = np.zeros((read.weights.shape[0], coefficients.shape[1]))
    for i in range(len(readout)):
        on = np.flatnonzero(side[:, i] > 0.0)
        if not len(on):
            return read
        best = on[np.argmin(level[on, i])]
        readout[i] = coefficients[best, :, i]
        off = np.abs(coefficients[on, :, i] - readout[i]).max(axis=1)
        if (off > level[on, i] + level[best, i]).any():
            return read
    exact = int(np.argmin([slope.sd for slope in slopes]))
    offset = slopes[exact].answer - np.maximum(before[exact], 0.0) @ readout
    return replace(read, readout=readout, offset=offset)


