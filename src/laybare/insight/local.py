"""The shape of a function around a few places of a line: flat, straight, curved, or with a kink that smaller steps avoid.

Six uneven points around each place. A straight line that leaves only rounding: straight (flat, if its slope is zero). Else, a
cubic that fits a hundred times better than a line: curved. Else there is a kink or a jump inside, and the points move together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.insight.probe import Heard, Probe, ProbeLine
from laybare.shapes import Array

OFFSETS = np.array([-1.0, -0.62, -0.17, 0.24, 0.55, 1.0])
SMALLER, ROUNDS = 16.0, 4
"""How the half-width of the points around a place falls, and how often."""

BETTER = 100.0


class Shape(NamedTuple):
    """At t: "flat", "straight", "curved", "quadratic" or "unclear", with value, slope and the half-width that was looked at."""

    kind: str
    t: float
    value: float
    slope: float
    width: float


def shapes(probe: Probe, line: ProbeLine, places: Array, widths: Array) -> list[Shape]:
    """The shape at each place t of the line, looked at within these half-widths, or less where there is a kink inside."""
    found: dict[int, Shape] = {}
    for round_ in range(ROUNDS):
        open_ = [i for i in range(len(places)) if i not in found]
        if not open_:
            break
        width = SMALLER**-round_ * widths[open_]
        t = places[open_][:, None] + width[:, None] * OFFSETS
        heard = probe.line(line, t.ravel())
        for row, i in enumerate(open_):
            part = slice(row * len(OFFSETS), (row + 1) * len(OFFSETS))
            shape = _shape(Heard(heard.y[part], heard.slack[part]), float(places[i]), float(width[row]))
            if shape.kind != "unclear" or round_ == ROUNDS - 1:
                found[i] = shape
    return [found[i] for i in range(len(places))]


def _shape(heard: Heard, t: float, width: float) -> Shape:
    if not np.isfinite(heard.y).all():
        return Shape("unclear", t, np.nan, np.nan, width)
    slack = float(heard.slack.max())
    left = {degree: _left(heard.y, degree) for degree in (1, 2, 3)}
    slope, value = np.polyfit(OFFSETS, heard.y, 1)
    if left[1] <= slack:
        flat = bool((heard.y == heard.y[0]).all())
        return Shape("flat" if flat else "straight", t, float(value), float(slope / width), width)
    if left[2] <= slack and left[1] > BETTER * slack:
        return Shape("quadratic", t, float(value), float(slope / width), width)
    curved = left[3] <= max(slack, left[1] / BETTER)
    return Shape("curved" if curved else "unclear", t, float(value), float(slope / width), width)


def _left(y: Array, degree: int) -> float:
    """Largest residual of a polynomial."""
    return float(np.abs(y - np.polyval(np.polyfit(OFFSETS, y, degree), OFFSETS)).max())
