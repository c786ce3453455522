"""One layer of a deep network, read on its floor.

Hyperplanes that lines have met (`laybare.lines.following`) are units of this layer, and
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

from laybare.lines.following import Seen, exact_slopes, sides_of
from laybare.lines.surfaces import PieceSlope, Surface
from laybare.shapes import Array

LEVELS, RELATIVE = 40.0, 1e-6
"""What is below so many standard deviations, or such a share of the whole, is zero."""

MOST_SUSPECTS = {1: 100, 2: 20, 3: 10}
"""Suspects of which one, two or three at a time are tried."""

MOST_CONDITION = 1e7

DEPENDENT = "the normals of its units are not independent"

Suspect = TypeVar("Suspect")


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


def layer_of(seen: Seen) -> LayerRead:
    """The layer as far as it is known, with its signs, and what is missing; with those suspects that the gradients need.

    If the normals are not independent, or one more than the floor has features, a unit of a layer above may have been followed
    far without a turn: the one without which all gradients are explained is left out.
    """
    first = signed(unsigned(seen, seen.surfaces))
    spare = len(seen.surfaces) - seen.floor.width
    if not first.trouble or spare > 1:
        return first
    if first.trouble == DEPENDENT or spare == 1:
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
    return sides_of(h, read.weights, read.biases, read.sd)


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


