"""All kinks of a function along a line, their number unknown: about four queries each.

Between two straight pieces there is one kink, or there are more. If there is one, it is where the two lines meet, at t*. It is
one only if the right line still holds just right of t* and the left line just left of it. (Asking at t* alone is wrong: two
kinks with jumps of opposite signs make the outer lines meet outside of both, where f agrees with the prediction.) If a point
lies on neither line, it belongs to a piece in between: one more point beside it gives that piece's line, and there are two gaps
instead of one. No grid is needed, and the scale of the kinks may differ by any factor along the line.

Two kinks that are closer than rounding can tell are taken for one; further lines show them apart. Nothing here knows about
layers: the function may bend wherever it likes, as long as it is straight in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lines.line import Line
from laybare.lines.straight import SIGMAS, LinePoints, Meeting, Straight, contrast, meeting, same_line
from laybare.shapes import Array

Along: TypeAlias = Callable[[Array], LinePoints]
"""Values at places t (n,) of a line."""

Point: TypeAlias = tuple[float, Array, float]
"""A place, the values there (outputs,), and their standard deviation."""

BESIDE, NEAR = 1e-6, 1e-4
"""How far from the meeting point the two lines are tried if rounding allows it, and how near to it they must have been seen to
hold, both relative to the pieces, and to the distances at which kinks lie (pieces at the ends of a line are as long as the line):
kinks closer than this may be taken for one."""

SHORT, LONG = 1e-3, 0.25
"""Least and largest distance of the second point of a new piece, relative to the gap. A short one hardly ever spans a kink."""

WEAK, FEW_WEAK, WEAK_SHARE = 40.0, 6, 0.2
"""Kinks below this many standard deviations are rare: a line with at least so many, and such a share of them, splits rounding."""

TINY, MANY_TINY = 1e-5, 12
"""Of a thousand random kinks on a line, about three pairs are closer than this share of its scale."""

SLOPE = 1e-3
"""Wanted accuracy of a new piece's line across its gap, relative to what is seen there."""


class Kink(NamedTuple):
    """A place t with its standard deviation, and the jump of the slope there (outputs,)."""

    t: float
    sd: float
    jump: Array


@dataclass(frozen=True, eq=False)
class Bends:
    """A line read: kinks in their order, and the straight pieces between them, one more than kinks."""

    line: Line
    kinks: tuple[Kink, ...]
    pieces: tuple[Straight, ...]


@dataclass
class _Gap:
    """What lies between two neighbouring pieces: points on neither of them, and whether anything was asked there."""

    loose: list[Point] = field(default_factory=list)
    asked: bool = False
    done: bool = False


def find_kinks(along: Along, line: Line, pieces: list[Straight], *, most: int = 100_000) -> Bends:
    """The kinks between the first and the last of the given pieces, which are straight and in their order along the line.

    `most` bounds the queries: a function that is not piecewise linear has no last kink.
    """
    pieces, gaps, asked, checked = list(pieces), [_Gap() for _ in pieces[1:]], 0, 2 * FEW_WEAK
    while True:
        _tidy(pieces, gaps)
        plans = [(g, _next_point(line, pieces[g], pieces[g + 1], gaps[g])) for g in range(len(gaps)) if not gaps[g].done]
        plans = [(g, t) for g, t in plans if t is not None]
        if not plans:
            return _read(line, pieces)
        if len(pieces) >= checked:
            checked = 2 * len(pieces)
            _check_contrast(pieces)
            _check_lengths(line, pieces)
        places = np.array([t for _, t in plans])
        asked += len(places)
        _check(asked, most, len(pieces))
        try:
            y, sd = along(places)
        except BudgetExhausted as ended:
            ended.values["kinks"] = len(pieces) - 1
            raise
        for (g, t), value, error in reversed(list(zip(plans, y, sd, strict=True))):
            _absorb(pieces, gaps, g, (t, value, float(error)))


def _read(line: Line, pieces: list[Straight]) -> Bends:
    meetings = [meeting(a, b) for a, b in pairwise(pieces)]
    places = [float(np.clip(m.t, a.high, b.low)) for m, (a, b) in zip(meetings, pairwise(pieces), strict=True)]
    return Bends(line, tuple(Kink(t, m.sd, m.jump) for t, m in zip(places, meetings, strict=True)), tuple(pieces))


def _check_contrast(pieces: list[Straight]) -> None:
    """Refuse to split rounding into pieces: most kinks then are hardly visible, and true ones are not."""
    weak = sum(contrast(a, b) < WEAK for a, b in pairwise(pieces))
    if weak >= FEW_WEAK and weak > WEAK_SHARE * len(pieces):
        raise NotSeparated(
            f"{weak} of {len(pieces) - 1} kinks are hardly larger than the rounding of the answers.",
            "Either the answers are coarser than was measured, or the function is curved.",
            "Look at the answers along a short segment.", weak=weak, pieces=len(pieces))


def _check_lengths(line: Line, pieces: list[Straight]) -> None:
    """Refuse to follow a curve by ever shorter pieces."""
    ends = np.array([piece.low for piece in pieces])
    short = int(np.sum(np.diff(ends) < TINY * line.scale))
    if short >= MANY_TINY:
        raise AssumptionViolated(
            f"{short} of {len(pieces)} pieces along a line are shorter than {TINY:g} of its scale: the function is curved there.",
            "Units with a smooth but steep bend have no kinks.", "Use a method for samples and give the activation.",
            kind="smooth", pieces=len(pieces))


def _check(asked: int, most: int, pieces: int) -> None:
    if asked > most:
        raise AssumptionViolated(
            f"{asked} queries along one line have found {pieces} straight pieces and no end.",
            "A network of ReLU-like units has finitely many.", "If the units are smooth, use a method for samples.",
            asked=asked, pieces=pieces)


def _tidy(pieces: list[Straight], gaps: list[_Gap]) -> None:
    """Join neighbours on one line; take back pieces of two points of which one belongs to a neighbour: they spanned a kink."""
    g = 0
    while g < len(gaps):
        left, right = pieces[g], pieces[g + 1]
        if gaps[g].done:
            g += 1
        elif same_line(left, right):
            pieces[g : g + 2] = [left.joined(right.t, right.y, right.sd)]
            del gaps[g]
        elif len(right.t) == 2 and g + 1 < len(gaps) and left.holds(right.low, right.y[0], float(right.sd[0])):
            pieces[g : g + 2] = [left.joined(right.t[0], right.y[0], right.sd[0])]
            gaps[g + 1] = _merged(gaps[g], gaps[g + 1], [_point(right, 1)])
            del gaps[g]
        elif len(left.t) == 2 and g > 0 and right.holds(left.high, left.y[1], float(left.sd[1])):
            pieces[g : g + 2] = [right.joined(left.t[1], left.y[1], left.sd[1])]
            gaps[g - 1] = _merged(gaps[g - 1], gaps[g], [_point(left, 0)])
            del gaps[g]
            g -= 1
        else:
            gaps[g].loose = _claimed(pieces, g, gaps[g].loose)
            g += 1


def _merged(first: _Gap, second: _Gap, points: list[Point]) -> _Gap:
    return _Gap(first.loose + points + second.loose)


def _point(piece: Straight, i: int) -> Point:
    return float(piece.t[i]), piece.y[i], float(piece.sd[i])


def _next_point(line: Line, left: Straight, right: Straight, gap: _Gap) -> float | None:
    """Where to look next in a gap; None closes it."""
    a, b = left.high, right.low
    if gap.loose:
        return _partner(left, right, gap.loose[0])
    m = meeting(left, right)
    t = float(np.clip(m.t, a, b))
    if np.abs(left.value(t) - right.value(t)).max() > SIGMAS * np.hypot(left.sd_at(t), right.sd_at(t)):
        gap.done = b - a <= 1e-12 * max(abs(a), abs(b))
        return None if gap.done else line.between(a, b)
    length = min(b - a + min(a - left.low, right.high - b), line.scale + abs(t))
    away = max(_resolution(m, left, right), BESIDE * length)
    enough = max(4.0 * away, NEAR * length)
    if b - a > enough and not a < m.t < b:
        return line.between(a, b)
    if b - t > enough:
        return t + away
    if t - a > enough:
        return t - away
    gap.done = gap.asked or b - a <= 1e-12 * max(abs(a), abs(b))
    return None if gap.done else line.between(a, b)


def _resolution(m: Meeting, left: Straight, right: Straight) -> float:
    """The distance from the meeting point at which the two lines differ by more than rounding."""
    size = float(np.abs(m.jump).max())
    noise = max(float(left.sd[-1]), float(right.sd[0]))
    return 2.0 * SIGMAS * (m.sd + noise / size) if size > 0.0 else np.inf


def _partner(left: Straight, right: Straight, point: Point) -> float:
    """A second place beside a point that lies on neither line: as near as rounding allows."""
    t, y, sd = point
    seen = min(float(np.abs(y - piece.value(t)).max()) for piece in (left, right))
    below, above = t - left.high, right.low - t
    share = float(np.clip(sd / max(SLOPE * seen, 1e-300), SHORT, LONG))
    return t + share * above if above >= below else t - share * below


def _absorb(pieces: list[Straight], gaps: list[_Gap], g: int, point: Point) -> None:
    """Give a new point to the left piece, to the right piece, or to a new piece between them."""
    points = _claimed(pieces, g, [*gaps[g].loose, point])
    if len(points) < 2:
        gaps[g] = _Gap(points, asked=True)
        return
    t, y, sd = (np.array(column) for column in zip(*points, strict=True))
    first = int(np.argmin(np.diff(t)))
    pieces.insert(g + 1, Straight(t[first : first + 2], y[first : first + 2], sd[first : first + 2]))
    gaps[g : g + 1] = [_Gap(points[:first]), _Gap(points[first + 2 :])]


def _claimed(pieces: list[Straight], g: int, points: list[Point]) -> list[Point]:
    """The points of a gap that neither neighbour takes; neighbours grow by what they take."""
    points = sorted(points, key=lambda entry: entry[0])
    while points and _owner(pieces[g], pieces[g + 1], points[0]) == "left":
        pieces[g] = pieces[g].joined(*points.pop(0))
    while points and _owner(pieces[g], pieces[g + 1], points[-1]) == "right":
        pieces[g + 1] = pieces[g + 1].joined(*points.pop())
    return points


def _owner(left: Straight, right: Straight, point: Point) -> str:
    """The piece that a point lies on; the one whose line is known better there, if it may be either."""
    on_left, on_right = left.holds(*point), right.holds(*point)
    if on_left and on_right:
        return "left" if left.sd_at(point[0]) <= right.sd_at(point[0]) else "right"
    return "left" if on_left else "right" if on_right else ""
