"""Whether a row that kinks have told is a unit of the next layer: looked for far away, under other patterns of active units.

A unit that reads the features h of known layers bends the answers wherever w·h + b = 0. A unit further up, seen from the same
features, has a row that changes as soon as another unit above the known layers does: the parts of it that are put together
are no unit, and away from the kinks that told them the answers do not bend. Where the zero of a row is crossed is known without
a query, because all below is; three queries tell whether the answers bend there (as `laybare.lines.surfaces` does on a floor).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.lines.asking import Purse
from laybare.lines.parts import Branches, Part
from laybare.lines.surfaces import ACCEPT, MOST_CHECKS, REJECT, Surface, Verdict, bends_across
from laybare.shapes import Array
from laybare.source.rounding import Rounding

GRID, SEGMENTS, HALVINGS = 40, 12, 60
"""Places on a segment between which a zero is looked for, segments that are tried for one, and halvings to find it."""


def judge_part(purse: Purse, branches: Branches, part: Part, rounding: Rounding, *, rng: Generator) -> Verdict:
    """Far checks until they decide, 3 queries each; "suspect" if random segments cross the zero of the row hardly ever."""
    score, everywhere, floor = 0, True, branches.floor
    for _ in range(MOST_CHECKS):
        x = _crossed(branches, part, rng)
        everywhere = everywhere and x is not None
        x = _crossed(branches, part, rng, beside=True) if x is None else x
        if x is None:
            return "suspect"
        slope = part.row @ branches.above(x)[1]
        normal = slope / np.linalg.norm(slope)
        surface = Surface(normal, -float(normal @ floor.features(x[None])[0]), part.surfaces[0].sd, x, (x, x))
        score += bends_across(purse, floor, surface, x, floor.inverse @ normal, rounding)
        if score >= ACCEPT or score <= REJECT:
            break
    return "bent" if score < ACCEPT else "hyperplane" if everywhere else "suspect"


def _crossed(branches: Branches, part: Part, rng: Generator, *, beside: bool = False) -> Array | None:
    """An input at which the row is zero, between two random ones; or between one and a line that has met the row."""
    for _ in range(SEGMENTS):
        start, end = branches.floor.point(rng), branches.floor.point(rng)
        if beside:
            met = part.surfaces[rng.integers(part.members)]
            end = met.x + rng.uniform(0.3, 1.0) * (met.beyond[rng.integers(2)] - met.x)
        places = start + np.linspace(0.0, 1.0, GRID)[:, None] * (end - start)
        z = branches.values(part, places)
        turns = np.flatnonzero(z[1:] * z[:-1] < 0.0)
        if len(turns):
            i = int(rng.choice(turns))
            return _zero(branches, part, *((places[i], places[i + 1]) if z[i] < 0.0 else (places[i + 1], places[i])))
    return None


def _zero(branches: Branches, part: Part, low: Array, high: Array) -> Array:
    """Where the row is zero, between an input at which it is negative and one at which it is not."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if branches.values(part, middle[None])[0] < 0.0 else (low, middle)
    return np.asarray((low + high) / 2.0)
