"""Which of several surfaces are the units of a layer, where following them far away has not told.

A unit that random points are all on one side of cannot be followed far, and a surface of a layer above that turns rarely may
pass for one. The gradients decide: their rank is the number of units that are active anywhere, and the coefficient of every
unit vanishes on one of its sides only for the right choice. So all choices of as many surfaces as the rank says are tried; at
most one of the surfaces that were followed far is left out. No query is asked; each choice takes a pseudo-inverse.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import comb

import numpy as np

from laybare.lines.following import Seen, exact_slopes
from laybare.lines.layers import LEVELS, RELATIVE, LayerRead, signed, unsigned
from laybare.lines.surfaces import Surface
from laybare.shapes import Array

MOST, TRIED, WORK = 3000, 20_000, 2e7
"""Choices of suspects beside the same surfaces; choices in all, and these times the numbers of a layer: ten seconds."""

VANISHES = 1e-4
"""Share of its largest coefficient below which a unit is off: 1e-8 and less for the right choice."""


def chosen_layer(seen: Seen) -> LayerRead | None:
    """The layer of those surfaces and suspects that explain all gradients; None if no choice does."""
    if not seen.slopes:
        return None
    slopes = exact_slopes(seen.slopes)
    g = np.array([slope.values.T for slope in slopes])  # (n, outputs, width)
    h = seen.floor.features(np.array([slope.x for slope in slopes]))
    rank = _rank(g / np.array([slope.sd for slope in slopes])[:, None, None])
    most = min(TRIED, int(WORK / max(1, rank * seen.floor.width)))
    tried = (chosen for chosen in islice(_choices(seen, rank), most) if _separates(chosen, g, h))
    return next((read for read in (signed(unsigned(seen, chosen)) for chosen in tried) if not read.trouble), None)


def _rank(g: Array) -> int:
    """The rank of gradients (n, outputs, width) in standard deviations."""
    sizes = np.linalg.svd(g.reshape(-1, g.shape[2]), compute_uv=False)
    return int(np.sum(sizes > LEVELS * np.sqrt(len(g)) + RELATIVE * sizes[0]))


def _choices(seen: Seen, rank: int) -> Iterator[tuple[Surface, ...]]:
    surfaces = seen.surfaces
    for kept in (surfaces, *((*surfaces[:i], *surfaces[i + 1 :]) for i in range(len(surfaces)))):
        more = rank - len(kept)
        if 0 <= more <= len(seen.suspects) and rank and comb(len(seen.suspects), more) <= MOST:
            yield from ((*kept, *chosen) for chosen in combinations(seen.suspects, more))


def _separates(surfaces: tuple[Surface, ...], g: Array, h: Array) -> bool:
    """Whether every coefficient of the gradients vanishes on one side of its surface."""
    W, b = np.array([surface.normal for surface in surfaces]), np.array([surface.shift for surface in surfaces])
    c = np.abs(g @ np.linalg.pinv(W)).max(axis=1)
    ahead = h @ W.T + b > 0.0
    less = np.minimum(np.where(ahead, c, 0.0).max(axis=0), np.where(ahead, 0.0, c).max(axis=0))
    return bool((less <= VANISHES * c.max(axis=0)).all())
