"""A third or higher layer of a deep network, from kinks under any pattern of active units below.

Above floor 1 there need not be inputs at which all units are active, and a unit may bend only where some are not. But the layers
below are known, so lines on floor 1 tell parts of rows (`laybare.lines.parts`), and it is known without a query where to
look next (`laybare.lines.reach`): along single features, where every unit that bends shows if inputs can reach it; beyond the
wall of a feature that a row is not known for; and towards the ends of a direction that the answers feel and no known unit
explains. If nothing lies above the layer, one readout explains all gradients (`laybare.lines.last_layer`). Otherwise parts of
units further up are among them, which far checks tell (`laybare.lines.crossings`), and the rows of the active units explain
every gradient (`laybare.lines.middle_layer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, NotSeparated
from laybare.lines.asking import Purse
from laybare.lines.crossings import judge_part
from laybare.lines.floors import Floor
from laybare.lines.following import Seen
from laybare.lines.kinks import find_kinks
from laybare.lines.last_layer import Explanation, explanation, layer_read
from laybare.lines.layers import LayerRead, choices
from laybare.lines.line import Line
from laybare.lines.middle_layer import feature_gradients, independent, middle_read
from laybare.lines.partial_rows import completed
from laybare.lines.parts import MEMBERS, Branches, Part
from laybare.lines.programs import Layers
from laybare.lines.reach import Facet
from laybare.lines.search import end_piece
from laybare.lines.surfaces import Verdict, along_line, read_slope, read_surface
from laybare.shapes import Array
from laybare.source.rounding import Rounding

ROUND, ROUNDS = 30, 8
"""Random lines between two looks at what is known, and how many looks there are."""

CHOICES, INDEPENDENT = 30, 12
"""Choices among parts of which it is not known whether they are units, and among those that cannot all be."""

RAY = (0.01, 5.0)
"""Sizes of a feature between which a line along it is laid, in units of the inputs' scale."""


def read_upper_layer(
    purse: Purse, below: Seen, layers: Layers, rounding: Rounding, targets: tuple[Line, ...] = (), *, rng: Generator
) -> LayerRead | None:
    """Lines on floor 1, beyond those of the layer `below`, until a layer explains all gradients; None if none does."""
    search = _Search(purse, rounding, rng)
    floor = below.floor
    branches = begun(below, layers)
    first = [floor.line(number, rng) for number in range(floor.width)] if len(layers) == 1 else []
    branches = search.followed(branches, (*targets, *first, *_rays(branches)))
    told = None
    for turn in range(ROUNDS):
        branches = search.followed(branches, (floor.line(floor.width, rng) for _ in range(ROUND)))
        branches = search.followed(branches, _facets(branches, search.tried))
        told = explanation(branches)
        if told is None and turn > 0 and len(branches.open) > len(layers[-1][1]):  # too many for this layer: others lie above
            gradients = feature_gradients(branches)
            reads = (middle_read(branches, units, gradients, rng=rng) for units in search.units(branches))
            read = next((read for read in reads if read is not None), None)
            if read is not None:
                return read
        if told is None or branches.open:
            whole = next((ways for ways in completed(branches) if explanation(ways) is not None), None) if turn > 0 else None
            if whole is None:
                continue
            branches, told = whole, explanation(whole)
            assert told is not None
        if not len(told.folded):
            return layer_read(branches, told)
        known = len(branches.parts)
        branches = search.followed(branches, _toward_folded(branches, told))
        if len(branches.parts) == known:
            return layer_read(branches, told)
    return None if told is None else layer_read(branches, told)


def begun(below: Seen, layers: Layers) -> Branches:
    """What the lines that were laid for the layer below have told already."""
    branches = Branches(below.floor, layers, slopes=below.slopes)
    for surface in below.further:
        if not branches.explained(surface.x):
            branches = branches.with_surface(surface)
    return branches


@dataclass(frozen=True, eq=False)
class _Search:
    """Follows lines with one purse, and remembers which facets were crossed and which parts are units."""

    purse: Purse
    rounding: Rounding
    rng: Generator
    tried: set[tuple[bytes, int]] = field(default_factory=set)
    verdicts: dict[bytes, Verdict] = field(default_factory=dict)

    def followed(self, branches: Branches, lines: Iterable[Line]) -> Branches:
        for line in lines:
            branches = _follow(self.purse, branches, line, self.rounding, self.rng)
        return branches

    def units(self, branches: Branches) -> Iterator[list[Part]]:
        """The parts that are units of this layer and not of one further up, with some of those of which this is not known."""
        for part in branches.whole:
            if part.mark not in self.verdicts:
                self.verdicts[part.mark] = judge_part(self.purse, branches, part, self.rounding, rng=self.rng)
        certain, unsure = ([p for p in branches.whole if self.verdicts[p.mark] == v] for v in ("hyperplane", "suspect"))
        unsure.sort(key=lambda part: -part.members)
        for sure in islice(independent(certain), INDEPENDENT):
            yield from ([*sure, *unsure[:count]] for count in range(len(unsure) + 1))
            yield from ([*sure, *chosen] for chosen in islice(choices(tuple(unsure)), CHOICES))


def _rays(branches: Branches) -> Iterator[Line]:
    """Lines along which a single feature of the highest known layer grows: a unit that bends anywhere bends on one of them,
    unless inputs cannot reach it."""
    small, large = (size * branches.floor.spread for size in RAY)
    for feature in range(len(branches.layers[-1][1])):
        ends = branches.reach.ray(feature, (small, large))
        if ends is not None:
            yield _line_between(branches.floor, *ends)


def _facets(branches: Branches, tried: set[tuple[bytes, int]]) -> Iterator[Line]:
    """Lines across units that are known in part, beyond the wall of a feature that their rows are not known for."""
    alone = len(branches.open) <= len(branches.layers[-1][1])
    for part in branches.open:
        for feature in np.flatnonzero(~part.on) if alone or part.members >= MEMBERS else ():
            if (part.mark, int(feature)) not in tried:
                tried.add((part.mark, int(feature)))
                facet = branches.reach.facet(part.row, part.bias, part.on, int(feature))
                if facet is not None:
                    yield _line_across(branches.floor, facet)


def _toward_folded(branches: Branches, told: Explanation) -> Iterator[Line]:
    """Lines between the places where what no known unit explains is largest and smallest: if it bends, then there."""
    for row in told.folded:
        low, high = branches.reach.lowest(row), branches.reach.lowest(-row)
        if low is not None and high is not None:
            yield _line_between(branches.floor, low, high)


def _line_between(floor: Floor, start: Array, end: Array) -> Line:
    """From wall to wall, through two points of floor 1."""
    x, y = (floor.inverse @ (h - floor.shift) for h in (start, end))
    return floor.line_through(x, y - x, float(np.linalg.norm(y - x)))


def _line_across(floor: Floor, facet: Facet) -> Line:
    """A short line."""
    direction = floor.inverse @ facet.direction
    size = float(np.linalg.norm(direction))
    reach = facet.reach * size
    return Line(floor.inverse @ (facet.start - floor.shift), direction / size, -reach, reach, reach / 3.0)


def _follow(purse: Purse, branches: Branches, line: Line, rounding: Rounding, rng: Generator) -> Branches:
    along, floor = along_line(purse, line, rounding), branches.floor
    branches = replace(branches, lines=branches.lines + 1, quiet=branches.quiet + 1)
    try:
        bends = find_kinks(along, line, [end_piece(along, line, line.low), end_piece(along, line, line.high)])
    except (NotSeparated, AssumptionViolated):
        return branches
    strange = [i for i, kink in enumerate(bends.kinks) if not branches.explained(line(kink.t)[0])]
    slopes = {k: read_slope(purse, floor, bends, k, rounding, rng=rng) for k in sorted({i + d for i in strange for d in (0, 1)})}
    known = len(branches.parts)
    for i in strange:
        surface = read_surface(purse, floor, bends, i, slopes, rounding, rng=rng)
        branches = branches if surface is None else branches.with_surface(surface)
    seen = tuple(slope for slope in slopes.values() if slope is not None)
    return replace(branches, slopes=branches.slopes + seen, quiet=0 if len(branches.parts) > known else branches.quiet)
