"""All kinks of a function along a line, their number unknown: about four queries each.

Between two linear pieces there are one or more kinks. A single one is where the two lines intersect, at t*. It is single only if
the right line holds just right of t* and the left line just left of it. (Asking at t* alone is wrong: two kinks with jumps of
opposite signs make the outer lines intersect outside of both, where f agrees with the prediction.) A point on neither line
belongs to a piece in between: one more point beside it gives that piece, and two gaps instead of one. No grid is needed, and the
distances of kinks may differ by any factor along the line.

Two kinks closer than rounding can resolve are taken for one; further lines separate them. Nothing here assumes a single layer:
the function may bend anywhere, as long as it is linear in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lines.line import KINK, Intersection, Line, LinearPiece, LineValues, intersect, on_same_line, separation
from laybare.lines.query import QueryContext
from laybare.numerics.shapes import Array

LineFunction: TypeAlias = Callable[[Array], LineValues]
"""Values at places t (n,) of a line."""

Point: TypeAlias = tuple[float, Array, float]
"""A place, the values there (outputs,), and their standard deviation."""


class Kink(NamedTuple):
    """A place t with its standard deviation, and the jump of the slope there (outputs,)."""

    t: float
    sd: float
    jump: Array


@dataclass(frozen=True, eq=False)
class LineProfile:
    """A function along a line: its kinks in order, and the linear pieces between them, one more than kinks."""

    line: Line
    kinks: tuple[Kink, ...]
    pieces: tuple[LinearPiece, ...]

    @property
    def places(self) -> Array:
        """The t of all kinks."""
        return np.array([kink.t for kink in self.kinks])


@dataclass
class _Gap:
    """The gap between two neighbouring pieces: points on neither, whether it was asked in, whether it is closed."""

    unassigned: list[Point] = field(default_factory=list)
    asked: bool = False
    closed: bool = False


def answers_along(context: QueryContext, line: Line) -> LineFunction:
    """The answers along a line, with the standard deviations of their rounding."""

    def along(t: Array) -> LineValues:
        x = line(t)
        y = context.queries.ask(x, "kinks")
        return LineValues(y, context.rounding.sd(x, y))

    return along


def read_profile(context: QueryContext, line: Line, *, max_queries: int = 100_000) -> LineProfile:
    """All kinks and pieces between the two ends of a line."""
    along = answers_along(context, line)
    ends = [end_piece(along, line, line.low), end_piece(along, line, line.high)]
    return find_kinks(along, line, ends, max_queries=max_queries)


def end_piece(along: LineFunction, line: Line, end: float) -> LinearPiece:
    """The piece at one end of the line: three points, moved towards the end until they lie on one line.

    NotSeparated for a line that begins at a boundary: it has no length on that side.
    """
    if abs(end) <= KINK.min_end * line.scale:
        raise NotSeparated(
            f"A line ends {abs(end):.1e} away from the point that it starts from.",
            "It began at a boundary, and three points there coincide.", "Use another line.", end=end)
    share = 1.0
    while True:
        t = np.sort(end * (1.0 - share * np.array(KINK.end_points)))
        y, sd = along(t)
        outer = LinearPiece(t[[0, 2]], y[[0, 2]], sd[[0, 2]])
        if outer.contains(float(t[1]), y[1], float(sd[1])) or share < 1e-6:
            return LinearPiece(t, y, sd)
        share /= 16.0


def piece_around(along: LineFunction, line: Line, t: float) -> LinearPiece:
    """The piece around a place on the line: three points, moved towards it until they lie on one line."""
    half = KINK.end_points[-1] * line.scale
    while True:
        places = t + half * np.array([-1.0, 0.0, 1.0])
        y, sd = along(places)
        outer = LinearPiece(places[[0, 2]], y[[0, 2]], sd[[0, 2]])
        if outer.contains(t, y[1], float(sd[1])) or half < KINK.tiny_piece * line.scale:
            return LinearPiece(places, y, sd)
        half /= 16.0


def find_kinks(along: LineFunction, line: Line, pieces: list[LinearPiece], *, max_queries: int = 100_000) -> LineProfile:
    """The kinks between the first and the last of the given linear pieces, which are in their order along the line.

    `max_queries` ends the search in a function that is not piecewise linear and has no last kink.
    """
    pieces, gaps, asked, checked = list(pieces), [_Gap() for _ in pieces[1:]], 0, 2 * KINK.min_weak_kinks
    while True:
        _merge_pieces(pieces, gaps)
        plans = [(g, _next_point(line, pieces[g], pieces[g + 1], gaps[g])) for g in range(len(gaps)) if not gaps[g].closed]
        plans = [(g, t) for g, t in plans if t is not None]
        if not plans:
            return _as_profile(line, pieces)
        if len(pieces) >= checked:
            checked = 2 * len(pieces)
            _check_separations(pieces)
            _check_lengths(line, pieces)
        places = np.array([t for _, t in plans])
        asked += len(places)
        _check_queries(asked, max_queries, len(pieces))
        try:
            y, sd = along(places)
        except BudgetExhausted as ended:
            ended.values["kinks"] = len(pieces) - 1
            raise
        for (g, t), value, error in reversed(list(zip(plans, y, sd, strict=True))):
            _insert_point(pieces, gaps, g, (t, value, float(error)))


def _as_profile(line: Line, pieces: list[LinearPiece]) -> LineProfile:
    meetings = [intersect(a, b) for a, b in pairwise(pieces)]
    places = [float(np.clip(m.t, a.high, b.low)) for m, (a, b) in zip(meetings, pairwise(pieces), strict=True)]
    return LineProfile(line, tuple(Kink(t, m.sd, m.jump) for t, m in zip(places, meetings, strict=True)), tuple(pieces))


def _check_separations(pieces: list[LinearPiece]) -> None:
    """Refuse to split rounding into pieces: then most kinks are hardly visible, and true kinks are not."""
    weak = sum(separation(a, b) < KINK.weak_sds for a, b in pairwise(pieces))
    if weak >= KINK.min_weak_kinks and weak > KINK.min_weak_share * len(pieces):
        raise NotSeparated(
            f"{weak} of {len(pieces) - 1} kinks are hardly larger than the rounding of the answers.",
            "Either the answers are coarser than was measured, or the function is curved.",
            "Look at the answers along a short segment.", weak=weak, pieces=len(pieces))


def _check_lengths(line: Line, pieces: list[LinearPiece]) -> None:
    """Refuse to follow a curve by ever shorter pieces."""
    ends = np.array([piece.low for piece in pieces])
    short = int(np.sum(np.diff(ends) < KINK.tiny_piece * line.scale))
    if short >= KINK.min_tiny_pieces:
        raise AssumptionViolated(
            f"{short} of {len(pieces)} pieces along a line are shorter than {KINK.tiny_piece:g} of its scale: "
            "the function is curved there.",
            "Units with a smooth but steep bend have no kinks.", "Use a method for samples and give the activation.",
            kind="smooth", pieces=len(pieces))


def _check_queries(asked: int, max_queries: int, pieces: int) -> None:
    if asked > max_queries:
        raise AssumptionViolated(
            f"{asked} queries along one line have found {pieces} linear pieces and no end.",
            "A network of ReLU-like units has finitely many.", "If the units are smooth, use a method for samples.",
            asked=asked, pieces=pieces)


def _merge_pieces(pieces: list[LinearPiece], gaps: list[_Gap]) -> None:
    """Merge neighbours on one line; dissolve pieces of two points of which one lies on a neighbour: they spanned a kink."""
    g = 0
    while g < len(gaps):
        left, right = pieces[g], pieces[g + 1]
        if gaps[g].closed:
            g += 1
        elif on_same_line(left, right):
            pieces[g : g + 2] = [left.with_points(right.t, right.y, right.sd)]
            del gaps[g]
        elif len(right.t) == 2 and g + 1 < len(gaps) and left.contains(right.low, right.y[0], float(right.sd[0])):
            pieces[g : g + 2] = [left.with_points(right.t[0], right.y[0], right.sd[0])]
            gaps[g + 1] = _Gap([*gaps[g].unassigned, _point(right, 1), *gaps[g + 1].unassigned])
            del gaps[g]
        elif len(left.t) == 2 and g > 0 and right.contains(left.high, left.y[1], float(left.sd[1])):
            pieces[g : g + 2] = [right.with_points(left.t[1], left.y[1], left.sd[1])]
            gaps[g - 1] = _Gap([*gaps[g - 1].unassigned, _point(left, 0), *gaps[g].unassigned])
            del gaps[g]
            g -= 1
        else:
            gaps[g].unassigned = _assign_points(pieces, g, gaps[g].unassigned)
            g += 1


def _point(piece: LinearPiece, i: int) -> Point:
    return float(piece.t[i]), piece.y[i], float(piece.sd[i])


def _next_point(line: Line, left: LinearPiece, right: LinearPiece, gap: _Gap) -> float | None:
    """Where to ask next in a gap; None closes it."""
    a, b = left.high, right.low
    narrow = b - a <= KINK.narrow_gap * max(abs(a), abs(b))
    if gap.unassigned and narrow:
        gap.closed = True
        return None
    if gap.unassigned:
        return _second_point(left, right, gap.unassigned[0])
    m = intersect(left, right)
    t = float(np.clip(m.t, a, b))
    if np.abs(left.value(t) - right.value(t)).max() > KINK.rounding_sds * np.hypot(left.sd_at(t), right.sd_at(t)):
        gap.closed = narrow
        return None if gap.closed else line.midpoint(a, b)
    length = min(b - a + min(a - left.low, right.high - b), line.scale + abs(t))
    away = max(_resolution(m, left, right), KINK.test_distance * length)
    enough = max(4.0 * away, KINK.merge_distance * length)
    if b - a > enough and not a < m.t < b:
        return line.midpoint(a, b)
    if b - t > enough:
        return t + away
    if t - a > enough:
        return t - away
    gap.closed = gap.asked or narrow
    return None if gap.closed else line.midpoint(a, b)


def _resolution(m: Intersection, left: LinearPiece, right: LinearPiece) -> float:
    """The distance from the intersection at which the two lines differ by more than rounding."""
    size = float(np.abs(m.jump).max())
    noise = max(float(left.sd[-1]), float(right.sd[0]))
    return 2.0 * KINK.rounding_sds * (m.sd + noise / size) if size > 0.0 else np.inf


def _second_point(left: LinearPiece, right: LinearPiece, point: Point) -> float:
    """A second place beside a point on neither line: as near as rounding allows, so that it hardly ever spans a kink."""
    t, y, sd = point
    seen = min(float(np.abs(y - piece.value(t)).max()) for piece in (left, right))
    below, above = t - left.high, right.low - t
    share = float(np.clip(sd / max(KINK.slope_accuracy * seen, 1e-300), KINK.min_second_point, KINK.max_second_point))
    return t + share * above if above >= below else t - share * below


def _insert_point(pieces: list[LinearPiece], gaps: list[_Gap], g: int, point: Point) -> None:
    """Give a new point to the left piece, to the right piece, or to a new piece between them."""
    points = _assign_points(pieces, g, [*gaps[g].unassigned, point])
    if len(points) < 2:
        gaps[g] = _Gap(points, asked=True)
        return
    t, y, sd = (np.array(column) for column in zip(*points, strict=True))
    first = int(np.argmin(np.diff(t)))
    pieces.insert(g + 1, LinearPiece(t[first : first + 2], y[first : first + 2], sd[first : first + 2]))
    gaps[g : g + 1] = [_Gap(points[:first]), _Gap(points[first + 2 :])]


def _assign_points(pieces: list[LinearPiece], g: int, points: list[Point]) -> list[Point]:
    """Add points of a gap to the neighbours they lie on; return the others."""
    points = sorted(points, key=lambda entry: entry[0])
    while points and _containing_side(pieces[g], pieces[g + 1], points[0]) == "left":
        pieces[g] = pieces[g].with_points(*points.pop(0))
    while points and _containing_side(pieces[g], pieces[g + 1], points[-1]) == "right":
        pieces[g + 1] = pieces[g + 1].with_points(*points.pop())
    return points


def _containing_side(left: LinearPiece, right: LinearPiece, point: Point) -> str:
    """The piece that a point lies on; if both, the one that is known better there."""
    on_left, on_right = left.contains(*point), right.contains(*point)
    if on_left and on_right:
        return "left" if left.sd_at(point[0]) <= right.sd_at(point[0]) else "right"
    return "left" if on_left else "right" if on_right else ""
