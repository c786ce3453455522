"""Lines until fresh lines show nothing unknown.

The first line is read completely. Every further line starts where the book is exact and is asked at its two ends only: a unit
that is not in the book and crosses the line adds a·(n·x - h) to the answer at the end, so the prediction fails there. Only then
are the kinks of what is left looked for, and only the pieces beside them measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted, LaybareError, NotSeparated
from laybare.lines.asking import Purpose, Purse
from laybare.lines.book import Book, LineUnits
from laybare.lines.gradients import read_gradients
from laybare.lines.jumps import first_book, home, units_of
from laybare.lines.kinks import Along, Bends, find_kinks
from laybare.lines.line import Line, line_through, random_line, random_ray
from laybare.lines.recognise import FirstLook, first_look
from laybare.lines.straight import SIGMAS, LinePoints, Straight, scatter
from laybare.shapes import Array
from laybare.source.rounding import Rounding

FARTHEST = 1e5
"""Reach of a line in units of its scale; kinks beyond it are hyperplanes that no usual input comes near."""

COARSENESS = 0.01
"""The reach with coarse answers is COARSENESS / √(unit of rounding): farther out, rounding hides what happens near the middle."""

COARSER, RETRIES = 8.0, 3
"""If the first line splits rounding into pieces, rounding is taken to be so much coarser, and the line is read again."""

NEARBY, AT_HOME = 1e-6, 4.0
"""Around the book's point f is that of the book, within this share of the line's scale; a kink within a few times as much says
that it is not."""

BARREN = 12
"""Lines in a row that contradict the book and bring no unit, after which the book is wrong (fine answers: two are rare)."""

UNSEEN = 3
"""Units that a budget is advised for, at least: too small a budget ends before any is seen."""

FOLLOWED, LOOKS, FOLLOW_STEP = 5, 3, 1e-3
"""Units of the first line that are looked at far away, how often if they do not bend there, and the step across their
hyperplanes, in units of the inputs' scale."""

NO_ROOM = 1e-12
"""Share of a line's scale at which an end is no end."""

ENDS = (0.0, 0.02, 0.1)
"""Points of an end piece, relative to its distance from the middle of the line."""


Watch: TypeAlias = Callable[[Bends, Rounding], int]
"""Looks at the kinks of a first line before anything is measured, and tells how many queries that took."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Lines in a row that must show nothing new, how many lines there may be at all, and queries for the kinks of one."""

    quiet: int = 4
    most_lines: int = 40
    most_kinks: int = 100_000


@dataclass(frozen=True, eq=False)
class Reading:
    """The book after all lines, the rounding of the answers, the lines looked at, and how many at the end showed nothing new.

    `kinks` counts the kinks of the first line, `short` holds the sentence with which the budget ended, if it did; `lost`: lines
    bend at the book's own point, where no unit is, so that its gradient is wrong, or contradict the book again and again;
    `barren` counts those that did so last and brought no unit.
    """

    book: Book
    rounding: Rounding
    first: Line
    lines: int
    quiet: int
    kinks: int
    patience: Patience = Patience()
    short: BudgetExhausted | None = None
    lost: bool = False
    barren: int = 0

    def with_book(self, book: Book) -> Reading:
        """The same with a better book."""
        return replace(self, book=book)

    def ended(self, by: BudgetExhausted) -> Reading:
        """The same, ended by the budget."""
        return replace(self, short=by)


def needed(dim: int, units: int) -> int:
    """Queries that a network with so many units takes: a gradient a piece, five queries a kink, and the checks; rarely more."""
    units = max(units, UNSEEN)
    return int(1.1 * ((units + 1) * (dim + 1) + 8 * units + 60))


def _too_few(purse: Purse, dim: int, units: int, least: str) -> BudgetExhausted:
    enough = max(needed(dim, units), (purse.budget or 0) + dim)
    return BudgetExhausted(
        f"{purse.total} of {purse.budget} queries have shown {least}{units} units and measured none.",
        f"Every unit takes dim + 1 = {dim + 1} queries and a few more.",
        f"Grant {least}{enough:,} queries.", units=units, spent=purse.total, needed=enough)


def _unclear(purse: Purse, dim: int, bends: Bends) -> LaybareError:
    """Why the first gradient could not be had."""
    if purse.left is not None and purse.left < dim:
        return _too_few(purse, dim, len(bends.kinks), "")
    return NotSeparated(
        f"The gradient around the first point does not agree with the slope along the line, after {purse.total} queries.",
        "The function may be curved, or bend on surfaces that are no hyperplanes of one layer.",
        "Try another seed; if it fails again, use a method for samples.", kinks=len(bends.kinks))


def read_lines(
    purse: Purse, dim: int, patience: Patience | None = None, *, spread: float = 1.0, watch: Watch | None = None, rng: Generator
) -> Reading:
    """Read a black box line by line. The box of the purse is never left. `watch` may refuse it after the first kinks."""
    try:
        reading = _some_line(partial(_first_line, purse, dim, patience, spread, watch=watch, rng=rng))
    except BudgetExhausted as error:
        raise _too_few(purse, dim, int(error.values.get("kinks", error.values.get("units", 0))), "at least ") from None
    if reading.short is not None:
        return reading
    try:
        while reading.quiet < reading.patience.quiet and reading.lines < reading.patience.most_lines and not reading.lost:
            reading = _next_line(purse, reading, rng)
    except BudgetExhausted as error:
        return replace(reading, short=error)
    return reading


def _some_line(first_line: Callable[..., Reading]) -> Reading:
    """The first line that can be measured: near-coincident kinks and coarse answers may spoil one."""
    for _ in range(RETRIES - 1):
        try:
            return first_line(picky=True)
        except NotSeparated:
            continue
    return first_line(picky=False)


def _first_line(
    purse: Purse, dim: int, patience: Patience | None, spread: float, *, watch: Watch | None, picky: bool, rng: Generator
) -> Reading:
    """The first line, read completely or as far as the budget goes."""
    line = random_line(dim, FARTHEST * spread * np.sqrt(dim), spread, purse.box, rng=rng)
    look = first_look(purse, line)
    patience = patience or _patience(purse, look.rounding)
    reach = line.scale * float(np.clip(COARSENESS / np.sqrt(max(look.rounding.unit, look.rounding.absolute)), 20.0, FARTHEST))
    line = replace(line, low=max(line.low, -reach), high=min(line.high, reach))
    bends, rounding = _first_bends(purse, line, look, patience)
    if watch is not None:
        purse.count(watch(bends, rounding), "checks")
    gradients = read_gradients(purse, None, bends, rounding, np.zeros(len(bends.pieces), dtype=bool), picky=picky, rng=rng)
    if not gradients.good.any():
        raise _unclear(purse, dim, bends)
    book = first_book(bends, gradients)
    book = book.with_units(units_of(bends, gradients, book, 0))
    ended = purse.left is not None and purse.left < dim and not gradients.good.all()
    short = _too_few(purse, dim, len(bends.kinks), "") if ended else None
    if short is not None and not len(book.units):
        raise short
    return Reading(book, rounding, replace(line, point=book.point), 1, 0, len(bends.kinks), patience, short)


def _check_hyperplanes(purse: Purse, book: Book, rounding: Rounding, spread: float, rng: Generator) -> None:
    """Refuse a deep network: far from its kink a unit of a single layer still bends, a surface that turns does not."""
    units = book.units
    for i in rng.permutation(len(units))[:FOLLOWED]:
        if purse.box is not None or (purse.left is not None and purse.left < 3 * LOOKS):
            return
        if not any(_bends_far(purse, book, int(i), rounding, spread, rng) for _ in range(LOOKS)):
            raise AssumptionViolated(
                f"A kink that was followed leaves its hyperplane, after {purse.total} queries.",
                "A unit of a single hidden layer bends on all of its hyperplane: there is more than one layer.",
                "Use Lines(depth=None).", kind="deep")


def _bends_far(purse: Purse, book: Book, i: int, rounding: Rounding, spread: float, rng: Generator) -> bool:
    """Whether f bends across the hyperplane of unit i at the foot of a random point; True if rounding would hide that."""
    normal, distance = book.units.normals[i], book.units.distances[i]
    x = spread * rng.standard_normal(len(normal))
    x += (distance - (x - book.point) @ normal) * normal
    unsure = 10.0 * float(np.linalg.norm(x - book.point) * book.units.normal_sd[i] + book.units.distance_sd[i])
    step = max(FOLLOW_STEP * spread, unsure)
    points = x + step * np.array([[-1.0], [0.0], [1.0]]) * normal
    y = purse.ask(points, "checks")
    noise = 2.0 * SIGMAS * np.sqrt(6.0) * float(rounding.sd(points, y).max())
    hidden = noise > 0.01 * step * float(np.abs(book.units.readouts[i]).max())
    return bool(hidden or np.abs(y[0] - 2.0 * y[1] + y[2]).max() > noise)


def _first_bends(purse: Purse, line: Line, look: FirstLook, patience: Patience) -> tuple[Bends, Rounding]:
    """The kinks of the first line. If they turn out to be rounding, it is coarser than the first look could tell."""
    rounding = look.rounding
    along = _along(purse, None, line, rounding)
    ends = [end_piece(along, line, line.low), end_piece(along, line, line.high)]
    steep = max(float(np.abs(end.slope).max()) for end in ends) * np.sqrt(len(line.point))
    rounding = replace(rounding, steepness=max(rounding.steepness, steep))
    for _ in range(RETRIES):
        pieces = [replace(piece, sd=rounding.sd(line(piece.t), piece.y)) for piece in (ends[0], *look.pieces, ends[1])]
        try:
            bends = find_kinks(_along(purse, None, line, rounding), line, pieces, most=patience.most_kinks)
        except NotSeparated:
            rounding = rounding.coarser(COARSER)
        else:
            return bends, rounding.coarser(max(1.0, 2.0 * scatter(bends.pieces)))
    raise AssumptionViolated(
        f"The answers along a line scatter by more than {rounding.inner / rounding.unit:.0f} units of their last digit.",
        "They are noisy, or the function is curved; lines need a piecewise-linear black box.", "Use a method for samples.",
        kind="noisy")


def _patience(purse: Purse, rounding: Rounding) -> Patience:
    """A long line meets nearly every unit; lines that end at a box or where rounding begins do not."""
    if purse.box is not None:
        return Patience(quiet=100, most_lines=2000)
    return Patience(quiet=4 if rounding.fine else 8)


def _next_line(purse: Purse, reading: Reading, rng: Generator) -> Reading:
    """One more line: quiet, or with units that go into the book."""
    first = reading.first
    return follow(purse, reading, random_ray(first, first.high - first.low, purse.box, rng=rng), rng=rng)


def toward(purse: Purse, reading: Reading, target: Array, *, rng: Generator) -> Reading:
    """One more line, through a point whose answer contradicts the book."""
    first = reading.first
    line = line_through(first.point, target - first.point, first.high - first.low, first.scale, purse.box)
    return follow(purse, reading, line, rng=rng)


def follow(purse: Purse, reading: Reading, line: Line, *, rng: Generator) -> Reading:
    """Look at both ends of a line through the book's point; read it if the book does not predict them."""
    book = reading.book
    along = _along(purse, book, line, reading.rounding, "checks")
    ends = np.array([line.low, line.high])
    y, sd = along(ends)
    silent = np.abs(y).max(axis=1) <= 2.0 * SIGMAS * sd
    if silent.all():
        return replace(reading, lines=reading.lines + 1, quiet=reading.quiet + 1)
    if reading.lines == 1:
        _check_hyperplanes(purse, book, reading.rounding, reading.first.scale / np.sqrt(len(book.point)), rng)
    along = _along(purse, book, line, reading.rounding)
    try:
        seeds = _seeds(along, line, silent, book.gradient_sd, y.shape[1])
        bends = find_kinks(along, line, seeds, most=reading.patience.most_kinks)
    except NotSeparated:
        return replace(reading, rounding=reading.rounding.coarser(COARSER), lines=reading.lines + 1, quiet=0)
    if any(abs(kink.t) < AT_HOME * NEARBY * line.scale for kink in bends.kinks):
        return replace(reading, lines=reading.lines + 1, quiet=0, lost=True)
    more = book.with_units(_measured(purse, reading, bends, rng))
    barren = 0 if len(more.units) > len(book.units) else reading.barren + 1
    lost = barren >= BARREN and reading.rounding.fine
    return replace(reading, book=more, lines=reading.lines + 1, quiet=0, lost=lost, barren=barren)


def _measured(purse: Purse, reading: Reading, bends: Bends, rng: Generator) -> LineUnits:
    known = np.zeros(len(bends.pieces), dtype=bool)
    known[home(bends)] = True
    gradients = read_gradients(purse, reading.book, bends, reading.rounding, known, rng=rng)
    return units_of(bends, gradients, reading.book, reading.lines)


def _along(purse: Purse, book: Book | None, line: Line, rounding: Rounding, purpose: Purpose = "kinks") -> Along:
    """What the book does not explain along a line."""

    def along(t: Array) -> LinePoints:
        x = line(t)
        y = purse.ask(x, purpose)
        sd = rounding.sd(x, y)
        return LinePoints(y, sd) if book is None else LinePoints(y - book(x), np.hypot(sd, book.sd(x)))

    return along


def end_piece(along: Along, line: Line, end: float) -> Straight:
    """The last piece at one end of the line: three points, nearer to the end until they lie on one line.

    NotSeparated for an end without room: a line that begins at a wall has nothing on that side.
    """
    if abs(end) <= NO_ROOM * line.scale:
        raise NotSeparated(
            f"A line ends {abs(end):.1e} away from the point through which it was laid.",
            "It began at a wall, and three points there are one.", "Another line serves.", end=end)
    share = 1.0
    while True:
        t = np.sort(end * (1.0 - share * np.array(ENDS)))
        y, sd = along(t)
        outer = Straight(t[[0, 2]], y[[0, 2]], sd[[0, 2]])
        if outer.holds(float(t[1]), y[1], float(sd[1])) or share < 1e-6:
            return Straight(t, y, sd)
        share /= 16.0


def _seeds(along: Along, line: Line, silent: Array, slope_sd: float, outputs: int) -> list[Straight]:
    """The piece around t = 0, where value and slope are those of the book, and the ends at which it is wrong."""
    near = NEARBY * line.scale
    pieces = [Straight(np.array([-near, near]), np.zeros((2, outputs)), np.full(2, near * max(slope_sd, 1e-300)))]
    if not silent[0]:
        pieces.insert(0, end_piece(along, line, line.low))
    if not silent[1]:
        pieces.append(end_piece(along, line, line.high))
    return pieces
