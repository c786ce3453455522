"""A deep ReLU black box read layer by layer, by the surfaces of its units.

    lines -> kinks that no known unit explains -> surfaces followed (`FoldedSurface`) -> units of the layer
    -> orientation of the layer below (fact c) -> rows without the linear part (fact b) -> the layer is known
    -> is the output affine in the two highest layers? readout, joint fit, fresh answers; else the next layer

Missing units show as answers that are not predicted: lines between such an input and its neighbours cross their surfaces. A unit
that is found late is put into its layer, and what lies above is stacked again, with the folds at the new unit measured.
Continues Rolnick and Kording (2020): surfaces bend where they meet lower units. Rows as null vectors, orientation as one linear
system and meeting points without queries are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted
from laybare.lines.assurance import Assured
from laybare.lines.deep_fit import DeepParameters, WeightErrors, fit_all_layers, weight_errors
from laybare.lines.folds.corners import find_corners
from laybare.lines.folds.facts import (
    NullVector,
    Orientation,
    RowsAbove,
    cell_matrix,
    global_row,
    hold_open,
    null_vector,
    of_one_unit,
    solve_orientation,
    solve_row,
)
from laybare.lines.folds.fit import FreeRows, Readout, fit_free_rows, fit_readout, without_unused
from laybare.lines.folds.fold_options import FoldOptions
from laybare.lines.folds.given import GivenLayer, located_row, row_space
from laybare.lines.folds.probe import BentPlace, SurfaceProbe
from laybare.lines.folds.stack import KnownLayers
from laybare.lines.folds.surface import FoldedSurface
from laybare.lines.line import Line, line_through, random_line
from laybare.lines.model_fit import FIT
from laybare.lines.piecewise_linear import check_piecewise_linear, with_steepness
from laybare.lines.query import Answers, BlackBox, PurposeContext, QueryCounter
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.source import Samples, Unknown
from laybare.source.rounding import Rounding


@dataclass(eq=False)
class FoldedUnit:
    """A unit of a layer: its surface, and its row from the base cell with the weights that are open."""

    surface: FoldedSurface
    null: NullVector

    @property
    def points(self) -> Array:
        return np.array(self.surface.points)

    def value(self, x: Array) -> Array:
        """z (n,) at inputs, in the scale of the base normal, NaN where what is open takes part."""
        return self.surface.value(x)

    def is_same(self, other: FoldedUnit) -> bool:
        """Whether the other one's surface is a piece of the same: where the row is told at its points, else by ranks."""
        size = np.linalg.norm(self.surface.solution.row) * (1.0 + np.linalg.norm(other.points, axis=1))
        off = np.abs(self.value(other.points)) / size
        if (off <= 1e-8).sum() >= 3:
            return True
        if (off > 1e-6).sum() >= 3:
            return False
        (first, slope), (second, slope2) = (self.surface.features_along(surface) for surface in (self.surface, other.surface))
        return of_one_unit(first, second, (slope, slope2), self.surface.probe.options.rank)

    def folds_nowhere(self) -> bool:
        """Whether all weights that are told are zero: a surface of the layer below, or a flat piece of any."""
        width = len(self.surface.side)
        return width > 0 and bool((np.abs(self.null.row[:width]) < 1e-7 * np.abs(self.null.row).max()).all())

    @property
    def open_share(self) -> float:
        return float(self.null.open[: len(self.surface.side)].mean()) if len(self.surface.side) else 0.0


@dataclass(eq=False)
class LayerState:
    """Units found on one layer, above the layers that were known when it was read; `highest` if the answers show none above."""

    known: KnownLayers
    units: list[FoldedUnit] = field(default_factory=list)
    begun: int = 0
    lines: int = 0
    refused: int = 0
    orientation: Orientation | None = None
    closes: Array = field(default_factory=lambda: np.empty(0))
    open: Array = field(default_factory=lambda: np.empty((0, 0), dtype=bool))
    free: FreeRows = FreeRows(np.empty(0, dtype=int), np.empty((0, 0)))
    always_on: int = 0
    grown: int = 0
    highest: bool = False


class Cornered(NamedTuple):
    """Widths of the layers whose corners were asked, how many, and whether these are all."""

    widths: tuple[int, ...] = ()
    asked: int = 0
    every: bool = False


@dataclass(frozen=True)
class LayerReport:
    """What is known of one layer.

    Attributes
    ----------
    units : units read; `always_on` more were added for a linear part that no turned unit explains
    closes : largest singular-value ratio of a unit's null vector: rounding if the layers below are complete (NaN: not stacked)
    orientation : distance of the orientation bits from 0 and 1 (infinite: not told, NaN: not asked)
    open : (unit, feature) pairs whose weight no answer tells; without a network, whose surfaces were not seen to meet
    lines, refused : lines followed for this layer, and surfaces that were not of it
    """

    units: int
    always_on: int
    closes: float
    orientation: float
    open: tuple[tuple[int, int], ...]
    lines: int
    refused: int


@dataclass(frozen=True, eq=False)
class FoldsResult:
    """A black box read by folds.

    Attributes
    ----------
    network : the whole network, or None if layers are missing
    layers : the layers that are known, from the lowest up; the highest may be oriented arbitrarily if the network is None
    reports : one for every layer that was begun
    complete : fresh answers are predicted
    fresh : largest misfit of fresh answers relative to the largest answer (NaN without a network)
    limit : of `fresh`, if the network is right
    queries : what was spent on what
    rounding : what the answers were rounded to
    failure : what is missing, in a sentence; empty if complete
    error_bar : largest standard deviation of a weight that is told, relative to its row (NaN if not computed)
    cornered : the corners that were asked
    ended : the budget, the time or the user ended the reading
    needed : if it ended, about how many queries the layer it ended in would have taken in all
    assured : fresh answers at inputs of the law, all of them predicted, if the reading has asked them
    """

    network: Network | None
    layers: tuple[Layer, ...]
    reports: tuple[LayerReport, ...]
    complete: bool
    fresh: float
    queries: dict[str, int]
    rounding: Rounding
    failure: str
    ended: bool
    needed: int | None = None
    error_bar: float = np.nan
    cornered: Cornered = Cornered()
    limit: float = FoldOptions().predicted
    assured: Assured = Assured()

    def above(self, basis: Array) -> FoldsResult:
        """The same on inputs x (n, dim), where `x @ basis` was read."""
        network = None if self.network is None else Network(
            _reading(self.network.layers, basis), self.network.readout, self.network.offset)
        return replace(self, network=network, layers=_reading(self.layers, basis))


def _reading(layers: tuple[Layer, ...], basis: Array) -> tuple[Layer, ...]:
    return (Layer(layers[0].weights @ basis.T, layers[0].biases), *layers[1:]) if layers else layers


@dataclass(eq=False)
class FoldReader:
    """Reads layer after layer with one probe; `known` are the layers so far, `levels` what was seen on each."""

    probe: SurfaceProbe
    known: KnownLayers
    progress: Progress | None = None
    levels: list[LayerState] = field(default_factory=list)
    waiting: list[BentPlace] = field(default_factory=list)
    lower: list[FoldedUnit] = field(default_factory=list)
    line_bends: bool = False
    cornered: Cornered = Cornered()
    verified: bool = False

    def say(self, detail: str) -> None:
        units = sum(len(level.units) for level in self.levels)
        report_progress(self.progress, f"layer {len(self.levels)}", units, 0, f"{detail}; {self.probe.queries.total} queries")

    # Lines, and the kinks on them that no known unit explains.

    def line(self) -> Line:
        p = self.probe
        return random_line(p.dim, p.options.reach * p.scale * np.sqrt(p.dim), p.scale, rng=p.rng)

    def places_on(self, line: Line) -> list[BentPlace]:
        """The kinks of a line that no known unit explains, with their normals."""
        profile = self.probe.read_line(line)
        self.line_bends = profile is not None and len(profile.kinks) > 0
        if profile is None or not profile.kinks:
            return []
        x = line(np.array([kink.t for kink in profile.kinks]))
        strange = [i for i in range(len(x)) if not self.explained(x[i], line.direction)]
        self.say(f"a line with {len(x)} kinks, {len(strange)} not explained")
        places = [self.probe.bent_place(profile, i) for i in strange]
        return [place for place in places if place is not None and place.sd <= self.probe.options.sharp]

    def explained(self, x: Array, u: Array) -> bool:
        """Whether a point of a line lies on the surface of a unit that is known, up to `explained` along the line."""
        tol, known = self.probe.options.explained * self.probe.scale, self.known
        cell = known.cell(x)
        maps = known.maps(cell)
        for slope, shift in zip(maps.slopes, maps.shifts, strict=True):
            if (np.abs(slope @ x + shift) <= tol * np.abs(slope @ u) + 1e-13).any():
                return True
        for unit in self.levels[-1].units if len(self.levels) > known.depth else ():
            z = unit.value(x[None])[0]
            normal = cell_matrix(known, maps, cell, unit.surface.side)[:-1] @ unit.surface.solution.row
            if abs(z) <= tol * abs(float(normal @ u)) + 1e-13 * np.linalg.norm(normal):  # False for NaN
                return True
        return False

    # Layers that another reading has given.

    def accept(self, layers: Sequence[GivenLayer]) -> None:
        """Go on above given layers, their units located again; the highest may lack units and active sides."""
        for index, given in enumerate(layers):
            highest, rows = index == len(layers) - 1, np.column_stack([given.weights, given.biases])
            bends = len(rows) - given.always_on
            found = [located_row(self.probe, self.known, row, trusted=given.complete) for row in rows[:bends]]
            if given.complete and any(unit is None for unit in found):
                return
            units = [FoldedUnit(unit.surface, unit.surface.null_vector()) for unit in found if unit is not None]
            level = LayerState(self.known, units, self.probe.queries.total)
            self.levels.append(level)
            self.say(f"{len(units)} of {bends} given units are where they should be")
            if not given.complete:
                self.read_layer(level)
                self.assemble()
                return
            kept = rows[bends:] if not highest else rows[:0]
            stacked = np.vstack([*(unit.row for unit in found if unit is not None), kept])
            level.always_on, level.closes = len(kept), np.array([unit.null.closes for unit in units])
            level.open = np.zeros((len(stacked), stacked.shape[1] - 1), dtype=bool)
            self.known = self.known.above(stacked[:, :-1], stacked[:, -1])

    # One layer.

    def read_layer(self, level: LayerState | None = None) -> int:
        """Follow surfaces until lines bring nothing new; the number of units. `level` if some of them are known."""
        options, quiet = self.probe.options, 0
        if level is None:
            level = LayerState(self.known, begun=self.probe.queries.total)
            self.levels.append(level)
        self._try(level, self.waiting)
        self._demote()
        while quiet < options.quiet_lines and level.lines < options.most_lines:
            before = len(level.units)
            places = self.places_on(self.line())
            level.lines += 1
            self.waiting += places
            self._try(level, places)
            quiet = 0 if self._demote() or len(level.units) > before else quiet + self.line_bends
        self._drop_units_above(level)
        self.waiting = [place for place in self.waiting if not self.explained(place.x, place.normal)]
        return len(level.units)

    def _drop_units_above(self, level: LayerState) -> None:
        """Units that fold at others of the layer are of a layer further up; they were found before these others."""
        for unit in list(level.units):
            if unit.surface.folds_at([other.surface for other in level.units if other is not unit]):
                level.units.remove(unit)
                level.refused += 1
                self.waiting.append(unit.surface.base)

    def climb(self) -> bool:
        """Read one more layer and stack it; whether there is anything new, in it or, found late, below it."""
        before = sum(len(level.units) for level in self.levels)
        if self.read_layer():
            self.assemble()
            self._complete_below()
            return True
        self.levels.pop()
        return sum(len(level.units) for level in self.levels) > before

    def _complete_below(self) -> None:
        """Look for units that the layer below lacks, while rows of the highest layer do not close over it.

        Seen from one cell a surface is that of a row also where it folds at a unit that is not known, on one side of that unit.
        Its null vector over the whole layer below does not close if points are on both sides: the unit's surface is between
        two of them. Rows that are left open so are no rows; they wait for the next layer.
        """
        options = self.probe.options
        for _ in range(options.returns):
            level = self.levels[-1]
            loose = [unit for unit, closes in zip(level.units, level.closes, strict=True) if closes > options.oriented]
            if not loose or len(self.levels) == 1:
                return
            self.say(f"{len(loose)} of {len(level.units)} rows do not close: a unit is missing below")
            if not any(self._found_between_points(loose) for _ in range(options.looks)):
                break
        level = self.levels[-1]
        kept = [unit for unit, closes in zip(level.units, level.closes, strict=True) if closes <= options.oriented]
        if 0 < len(kept) < len(level.units):
            self.waiting += [unit.surface.base for unit in level.units if unit not in kept]
            level.units, self.known = kept, self._without_always_on(len(self.levels) - 1)
            level.known = self.known
            self.assemble()

    def _found_between_points(self, loose: list[FoldedUnit]) -> bool:
        """Whether a line through two points of a surface shows a unit of the layer below."""
        points = loose[self.probe.rng.integers(len(loose))].points
        one, other = points[self.probe.rng.choice(len(points), size=2, replace=False)]
        return self._insert(len(self.levels) - 2, self.places_on(_chord(one, other)))

    def _try(self, level: LayerState, places: list[BentPlace]) -> None:
        """Follow the surfaces at places that are not explained meanwhile."""
        for place in places:
            if self.explained(place.x, place.normal):
                continue
            unit = self.follow(level.known, place)
            if unit is None:
                level.refused += 1
            elif unit.folds_nowhere():
                self.lower.append(unit)
            elif not self._merged(level, unit):
                if unit.surface.folds_at([other.surface for other in level.units], highest=level.highest):
                    level.refused += 1
                else:
                    level.units.append(unit)

    def follow(self, known: KnownLayers, place: BentPlace) -> FoldedUnit | None:
        """The unit whose surface passes through a place, if it is of the layer above the known ones."""
        surface = FoldedSurface(self.probe, known, place)
        if not surface.stays_flat() or not surface.explore() or not surface.verify():
            return None
        unit = FoldedUnit(surface, surface.null_vector())
        useless = unit.folds_nowhere() and unit.open_share >= 0.5
        return None if useless or unit.null.closes > self.probe.options.closes else unit

    def _merged(self, level: LayerState, unit: FoldedUnit) -> bool:
        """Whether it is a unit that was found already: points of one lie on the other, or weights agree; points are joined."""
        for i, old in enumerate(level.units):
            if old.is_same(unit) or unit.is_same(old):
                surface = old.surface.joined(unit.surface)
                surface.explore()
                merged = FoldedUnit(surface, surface.null_vector())
                if merged.null.closes <= self.probe.options.closes:
                    level.grown += merged.null.open.sum() < old.null.open.sum()
                    level.units[i] = merged
                return True
        return False

    def _demote(self) -> bool:
        """Give units that fold at no unit of the layer below to that layer, and stack what lies above it again."""
        units, self.lower, index = self.lower, [], len(self.levels) - 2
        before = len(self.levels[index].units) if index >= 0 else 0
        for unit in units:
            below = self.levels[index]
            moved = unit.surface.above(below.known)
            again = FoldedUnit(moved, moved.null_vector())
            if again.null.closes <= self.probe.options.closes and not self._merged(below, again):
                below.units.append(again)
        if index < 0 or len(self.levels[index].units) == before:
            return False
        self.rebuild(index)
        self.known = self._without_always_on(index + 1)
        return True

    # From units to a known layer.

    def assemble(self) -> None:
        """Orient the layer below by the units of the highest one, and stack their rows on it."""
        level = self.levels[-1]
        if self.known.depth:
            self._drop_unused(level)
            self._orient(solve_orientation(self._rows_above(level), self.known.weights[-1], self.levels[-2].open))
        rows, opened, closes, free = [], [], [], []
        for unit in level.units:
            x = unit.points
            null = null_vector(np.hstack([self.known.features(x, self.known.depth), np.ones((len(x), 1))]), unit.surface.errors)
            row, directions = null.row, np.empty((len(null.row), 0))
            if null.open.any() or null.gap < 1e-9:
                row, directions = self._held_row(unit)
            rows.append(row / np.linalg.norm(row[:-1]))
            opened.append(np.abs(directions[:-1]).max(axis=1, initial=0.0) > 1e-6)
            free.append(directions.T)
            closes.append(null.closes)
        level.free = FreeRows(np.repeat(np.arange(len(free)), [len(one) for one in free]), np.vstack(free))
        level.open, level.closes, level.always_on, stacked = np.array(opened), np.array(closes), 0, np.array(rows)
        self.known = self.known.above(stacked[:, :-1], stacked[:, -1])
        self.say(f"{len(rows)} units stacked, null vectors close to {level.closes.max():.1e}, {level.open.sum()} weights open")

    def _held_row(self, unit: FoldedUnit) -> tuple[Array, Array]:
        """A row in the oriented features for a unit that leaves weights open, and the directions that are free.

        Where no open feature takes part the unit's value is known, and the row is fitted to it. Where one does, the unit is on
        the side on which it is at the wall of that feature, and stays there (`hold_open`).
        """
        near = unit.points[self.probe.rng.integers(len(unit.points), size=1000)]
        x = np.vstack([unit.points, near + 0.1 * self.probe.inputs(1000), self._near_units(8000)])
        z = unit.value(x)
        told = ~np.isnan(z)
        features = np.hstack([self.known.features(x, self.known.depth), np.ones((len(x), 1))])
        solution = solve_row(features[told], z[told], self.probe.options.rank)
        x, side = unit.surface.held_sides(x)
        row, f = solution.row, np.hstack([self.known.features(x, self.known.depth), np.ones((len(x), 1))])
        used = np.zeros(len(x), dtype=bool)
        for _ in range(self.probe.options.held_rounds):
            wrong = np.flatnonzero((side * (f @ row) <= 0.0) & ~used)
            if not len(wrong):
                break
            used[wrong[: self.probe.options.held_points]] = True
            row = hold_open(solution.row, solution.free, f[used], side[used], self.probe.options)
        return row, solution.free

    def _drop_unused(self, level: LayerState) -> None:
        """Drop units of the layer below at which no surface folds: pieces of other surfaces that were taken for theirs."""
        width = level.known.weights[-1].shape[0]
        rows = np.array([unit.null.row[:width] / np.abs(unit.null.row).max() for unit in level.units])
        opened = np.array([unit.null.open[:width] for unit in level.units])
        keep = (np.abs(rows) >= 1e-7).any(axis=0) | opened.all(axis=0)
        if keep.all():
            return
        below = self.levels[-2]
        below.units = [unit for unit, kept in zip(below.units, keep, strict=True) if kept]
        below.open, below.closes = below.open[keep], below.closes[keep]
        self.known = level.known = level.known.with_top(level.known.weights[-1][keep], level.known.biases[-1][keep])
        for unit in level.units:
            unit.surface = unit.surface.above(self.known, [(*cell[:-1], cell[-1][keep]) for cell in unit.surface.cells])
            unit.null = unit.surface.null_vector()

    def _rows_above(self, level: LayerState) -> RowsAbove:
        """What the units of a layer tell about the orientation of the layer below."""
        width = level.known.weights[-1].shape[0]
        c, linear, told, passed = [], [], [], []
        for unit in level.units:
            a, b, _ = global_row(level.known, unit.surface.side, unit.null.row)
            scale = 1.0 / (np.abs(a).max() or np.abs(b).max())  # one that reads no unit is linear below
            c.append(scale * a)
            linear.append(scale * b)
            told.append(~unit.null.open[width:-1] & (unit.null.gap > self.probe.options.rank))
            passed.append(unit.null.open[:width])
        return RowsAbove(np.array(c), np.array(linear), np.array(told), np.array(passed))

    def _orient(self, orientation: Orientation, *, last: bool = False) -> None:
        """Turn units of the highest known layer, give open weights what was told about them, add units that are always on.

        The bias of these keeps them on all over the domain, and far beyond.
        """
        below, turn = self.levels[self.known.depth - 1], np.where(orientation.turned, -1.0, 1.0)
        weights = self.known.weights[-1] * turn[:, None] + np.where(below.open, orientation.skips, 0.0)
        biases = self.known.biases[-1] * turn
        _, s, vt = np.linalg.svd(orientation.rest, full_matrices=False)
        rank = int((s > self.probe.options.oriented).sum())
        rank = rank if last or rank <= self.probe.options.most_always_on else 0
        if rank:
            z = self.known.features(self._near_units(2000), self.known.depth - 1) @ vt[:rank].T
            side = np.where(z.mean(axis=0) < 0.0, -1.0, 1.0)  # the one that needs the smaller bias
            weights = np.vstack([weights, side[:, None] * vt[:rank]])
            biases = np.concatenate([biases, 30.0 * np.abs(z).max(axis=0)])
            below.open = np.vstack([below.open, np.zeros((rank, weights.shape[1]), dtype=bool)])
            below.always_on += rank
        below.orientation = orientation
        self.known = self.known.with_top(weights, biases)
        self.say(f"layer {self.known.depth} oriented: bits {orientation.distance:.1e} from 0 and 1, {orientation.turned.sum()} "
                 f"turned, {orientation.open.sum()} not told, {rank} always on")

    def _near_units(self, n: int) -> Array:
        """Inputs of the domain, and as many beside points of the units' surfaces."""
        p = self.probe
        on = np.vstack([unit.points for level in self.levels for unit in level.units])
        on = on[p.rng.integers(len(on), size=n)]
        return np.vstack([p.inputs(n), on + p.scale * 10.0 ** p.rng.uniform(-2.0, 0.0, (n, 1)) * p.rng.standard_normal(on.shape)])

    # Units that are found late.

    def rebuild(self, index: int) -> None:
        """Stack the layers from one up again, after a unit was found there: units above may fold at it.

        If that is interrupted, all is as it was before the unit was found.
        """
        known, before = self.known, [
            replace(level, units=[replace(unit) for unit in level.units[: len(level.closes) if i < self.known.depth else None]])
            for i, level in enumerate(self.levels)]
        try:
            self._stack_again(index)
        except (BudgetExhausted, KeyboardInterrupt):
            self.known, self.levels = known, before
            raise

    def _stack_again(self, index: int) -> None:
        levels, self.known = self.levels, self._without_always_on(index)
        try:
            for i in range(index, len(levels)):
                self.levels, level = levels[: i + 1], levels[i]
                level.known = self.known
                before, level.units = level.units, [unit for unit in map(self._again, level.units) if unit is not None]
                if not level.units:
                    self.waiting += [unit.surface.base for unit in before]
                    del levels[i + 1 :]
                    return
                self.assemble()
        finally:
            self.levels = levels

    def _again(self, unit: FoldedUnit) -> FoldedUnit | None:
        """A unit above layers that have changed: the folds that are new are measured; None if it does not close any more."""
        surface = unit.surface.above(self.known)
        surface.explore()
        again = FoldedUnit(surface, surface.null_vector())
        return again if again.null.closes <= self.probe.options.closes and not again.folds_nowhere() else None

    def _without_always_on(self, depth: int) -> KnownLayers:
        """The lowest layers, the highest of them without the units that were added to it because they are always on."""
        known = self.known.below(depth)
        if depth == 0 or not self.levels[depth - 1].always_on:
            return known
        below, kept = self.levels[depth - 1], len(self.levels[depth - 1].units)
        below.open, below.always_on = below.open[:kept], 0
        return known.with_top(known.weights[-1][:kept], known.biases[-1][:kept])

    def look_at(self, x: Array, missed: Array) -> bool:
        """Lines between inputs whose answers are not predicted and near ones that are: a unit is missing in between.

        Both may be corners of the same wall; a line that ends beside one does not lie in it. There is no such line where no
        answer is predicted.
        """
        p, right, lines = self.probe, np.delete(x, missed, axis=0), list[Line]()
        nearest = missed[np.argsort(np.linalg.norm(x[missed], axis=1))][: p.options.looks * p.options.targets]
        for i in p.rng.permutation(nearest)[: p.options.targets] if len(right) else ():
            near = np.argsort(np.linalg.norm(right - x[i], axis=1))
            beside = x[i] + p.scale * 10.0 ** p.rng.uniform(-3.0, -1.0) * p.rng.standard_normal(p.dim) / np.sqrt(p.dim)
            lines.append(_chord(right[near[p.rng.integers(min(len(near), 3))]], beside))
        return self.look_along(lines)

    def look_along(self, lines: list[Line]) -> bool:
        """Whether a unit of any layer is found at the unexplained kinks of lines; it is then stacked, with what lies above."""
        for line in lines:
            places = self.places_on(line)
            for index in range(len(self.levels) - 1, -1, -1):
                if places and self._insert(index, places):
                    return True
        return False

    def _insert(self, index: int, places: list[BentPlace]) -> bool:
        full, levels, level = self.known, self.levels, self.levels[index]
        before = len(level.units) + level.grown
        self.known, self.levels = level.known, levels[: index + 1]
        try:
            self._try(level, places)
        finally:
            self.known, self.levels, self.lower = full, levels, []
        if len(level.units) + level.grown == before:
            return False
        self.rebuild(index)
        while len(self.levels) > 1 and not self.levels[-1].units:  # none closes over the new unit: the layer is read again
            self.levels.pop()
        return True

    # The end.

    def complete(self, highest: bool = False) -> DeepParameters | None:
        """The network, if the output is affine in the highest layers; units that are missing are looked for.

        Where most answers are missed there is a layer above, unless the layer is known to be the highest.
        """
        options = self.probe.options
        for _ in range(options.returns):
            fitted = self.fresh(2 * sum(self.known.weights[-1].shape) + 42, "polish", aimed=options.aimed)
            readout = fit_readout(self.known, *fitted)
            seen, missed = fitted, readout.missed
            self.say(f"output affine up to {readout.misfit:.1e}, {len(missed)} of {len(fitted.x)} answers missed")
            if len(missed) > 0.5 * len(fitted.x) and not highest:
                return None
            self.levels[-1].highest = True
            if not len(missed):
                seen, missed = self._first_missed(readout)
            if not len(missed):
                if self.look_along([self.line() for _ in range(options.last_lines)]):
                    continue
                break
            if self._is_found(seen, missed, readout):
                continue
            if len(self.levels[-1].free.units):
                readout, missed = self._fit_free_rows(readout)
            if len(missed):
                break
        else:  # the last look found a unit, which the readout does not know
            readout = fit_readout(self.known, *fitted)
        missed = self._missed(self.known, readout, fitted)
        if len(missed) > options.given_up * len(fitted.x):
            return None
        kept = np.setdiff1d(np.arange(len(fitted.x)), missed)
        return self.finish(readout, Answers(fitted.x[kept], fitted.y[kept]))

    def _is_found(self, seen: Answers, missed: Array, readout: Readout) -> bool:
        """Whether a missing unit is found beside missed answers; if not beside these, beside any that was asked so far."""
        looks = range(self.probe.options.looks)
        if any(self.look_at(seen.x, missed) for _ in looks):
            return True
        every = self.asked()
        more = self._missed(self.known, readout, every)
        return len(more) > len(missed) and any(self.look_at(every.x, more) for _ in looks)

    def _first_missed(self, readout: Readout) -> tuple[Answers, Array]:
        """Answers, and which of them are not predicted: of all that were asked so far, then fresh ones, then corners."""
        for ask in (self.asked, self._fresh_once, self.corners):
            answers = ask()
            missed = self._missed(self.known, readout, answers)
            self.say(f"{len(missed)} of {len(answers.x)} answers missed")
            if len(missed):
                break
        return answers, missed

    def _fit_free_rows(self, readout: Readout) -> tuple[Readout, Array]:
        """Fit free rows of the highest layer to answers, more of which are asked where their open weights take part.

        Those that are not predicted are fitted, and some others; then those that are not predicted meanwhile, until a batch of
        fresh ones is, or little is gained. Returns the readout, and the answers that are not predicted.
        """
        options, free = self.probe.options, self.levels[-1].free
        most = options.free_sample * (sum(self.known.weights[-1].shape) + len(free.units) + 1)
        chosen = self.probe.rng.permutation(self.probe.queries.total)[:most]  # counted from the first answer
        best, seen, idle = (self.known, readout), self.asked(), 0
        missed = self._missed(*best, seen)
        for _ in range(options.free_batches):
            if idle == options.free_rounds:
                break
            self._ask_at_open_features(seen.x[missed])
            seen = self.asked()
            missed = self._missed(*best, seen)
            if not len(missed):
                break
            chosen = np.union1d(chosen, len(seen.x) - 1 - self.probe.rng.permutation(missed)[:most])
            some = Answers(*(part[len(seen.x) - 1 - chosen] for part in seen))
            tried = fit_free_rows(best[0], free, some, best[1], options)
            wrong = self._missed(*tried, seen)
            self.say(f"{len(free.units)} free directions fitted to {len(some.x)} of {len(seen.x)} answers, "
                     f"{len(missed)} were missed, {len(wrong)} are now")
            idle = 0 if 2 * len(wrong) <= len(missed) else idle + 1
            if len(wrong) < len(missed):
                best, missed = tried, wrong
            else:
                chosen = np.union1d(chosen, len(seen.x) - 1 - self.probe.rng.permutation(wrong)[:most])
        self.known, readout = best
        return readout, missed

    def _missed(self, known: KnownLayers, readout: Readout, answers: Answers) -> Array:
        return np.flatnonzero(self._off(readout(known, answers.x), answers) > self.probe.options.oriented)

    def _ask_at_open_features(self, missed: Array) -> None:
        """Answers at inputs at which open features take part, and beside some that are missed."""
        p, opened = self.probe, self.levels[-1].open.any(axis=0)
        x = self._near_units(p.options.held_points)
        on = self.known.features(x, self.known.depth - 1)[:, opened] > 0.0
        chosen = [p.rng.permutation(np.flatnonzero(one))[: p.options.free_answers] for one in on.T]
        beside = missed[p.rng.integers(len(missed), size=p.options.free_beside * bool(len(missed)))]
        beside = beside + p.scale * 10.0 ** p.rng.uniform(-2.0, -0.5, (len(beside), 1)) * p.rng.standard_normal(beside.shape)
        p.answers(np.vstack([x[np.unique(np.concatenate([np.empty(0, dtype=int), *chosen]))], beside]), "polish")

    def _off(self, predicted: Array, answers: Answers) -> Array:
        """Differences (n,) of answers, relative to their own size and to that of all in the domain."""
        x, y = answers
        if not len(x):
            return np.empty(0)
        near = np.linalg.norm(x, axis=1) <= max(self.probe.options.spreads) * self.probe.scale * np.sqrt(self.probe.dim)
        size = np.abs(y).max(axis=1)
        return np.asarray(np.abs(y - predicted).max(axis=1) / (size + size[near].max(initial=1e-300)))

    def contradictions(self, network: DeepParameters) -> int:
        """How many of all answers a network does not predict."""
        return self._misfit_of_all(network)[0]

    def _misfit_of_all(self, network: DeepParameters) -> tuple[int, float]:
        """How many of all answers a network does not predict, and by how much it is off in the mean."""
        asked = self.asked()
        off = self._off(network(asked.x), asked)
        return int((off > self.probe.options.predicted).sum()), float(off.mean())

    def asked(self, most: int | None = None) -> Answers:
        """All answers so far, or the latest of them."""
        parts, left = list[Answers](), np.inf if most is None else most
        for block in reversed(list(self.probe.queries.answers())):
            if left <= 0:
                break
            parts.append(block)
            left -= len(block.x)
        return Answers(*(np.vstack(part) for part in zip(*parts, strict=True)))

    def _fresh_once(self) -> Answers:
        """Fresh answers; what was missed among them stays among all answers that were asked."""
        n, self.verified = 0 if self.verified else self.probe.options.fresh, True
        return self.fresh(n, "verify", aimed=self.probe.options.aimed)

    def corners(self) -> Answers:
        """Answers at corners of the layers below the highest, where these have not been asked yet."""
        p, below = self.probe, self.known.below(self.known.depth - 1)
        x = np.empty((0, p.dim))
        if below.depth and self.cornered.widths != below.widths:
            most = int(min(p.options.corner_share * p.queries.total, p.options.corner_floats / p.dim**2))
            radius = p.options.corner_reach * p.scale * np.sqrt(p.dim)
            found = find_corners(below, radius, most, p.rng, steps=p.options.corner_steps)
            x, self.cornered = found.x, Cornered(below.widths, len(found.x), found.every)
        return Answers(x, p.answers(x, "corners").y) if len(x) else Answers(x, np.empty((0, 1)))

    def fresh(self, n: int, purpose: str, aimed: int = 0) -> Answers:
        """Answers at random inputs, and at pairs on both sides of every unit's surface: random inputs may hardly ever meet it."""
        p = self.probe
        x = p.inputs(n)
        if aimed:
            units = [unit.points for level in self.levels for unit in level.units]
            on = np.vstack([points[p.rng.integers(len(points), size=aimed)] for points in units])
            away = p.scale * 10.0 ** p.rng.uniform(-1.5, 0.0, (len(on), 1)) * p.rng.standard_normal(on.shape) / np.sqrt(p.dim)
            x = np.vstack([x, on + away, on - away])
        return Answers(x, p.answers(x, purpose).y)

    def finish(self, readout: Readout, fitted: Answers) -> DeepParameters:
        """Orientation of the highest layer, its readout, and the joint fit to the answers so far that are predicted."""
        options, known, opened = self.probe.options, self.known, self.levels[-1].open
        (k, below), outputs = known.weights[-1].shape, readout.readout.shape[1]
        scale = np.maximum(np.abs(readout.readout).max(axis=0), 1e-300)
        above = RowsAbove((readout.readout / scale).T, (readout.below / scale).T, np.ones((outputs, below), dtype=bool),
                          np.zeros((outputs, k), dtype=bool))
        for orientation in self._orientations(above, *fitted):
            self.known, self.levels[-1].open, self.levels[-1].always_on = known, opened, 0
            self._orient(orientation, last=True)
            network, off = self._with_readout(*fitted)
            if off <= options.oriented:
                break
        self.say(f"{off:.1e} before the joint fit of {network.size} parameters")
        answers = Samples(*self._answers_of_fit(network), Unknown())
        prior = options.prior_misfits * max(off, options.free_levels[1])
        refined = fit_all_layers(network, answers, self.probe.rounding.sd, prior=prior).parameters
        whole, kept = without_unused(min(network, refined, key=self._misfit_of_all))
        below = np.ones(self.probe.dim, dtype=bool)
        for level, used in zip(self.levels, kept, strict=True):
            level.open, below = level.open[used][:, below], used
        return whole

    def _answers_of_fit(self, network: DeepParameters) -> Answers:
        """The latest answers that a network predicts roughly, as many as a fit has time for, and enough of them."""
        options, outputs = self.probe.options, len(network.offset)
        enough = int(options.fit_share * network.size / outputs) + 50
        seen = self.asked(max(int(FIT.max_multiplications / network.size**2 / outputs), enough))
        if len(seen.x) < enough:
            more = self.fresh(enough - len(seen.x), "polish")
            seen = Answers(np.vstack([seen.x, more.x]), np.vstack([seen.y, more.y]))
        kept = self._off(network(seen.x), seen) <= options.oriented
        return Answers(seen.x[kept], seen.y[kept])

    def _orientations(self, above: RowsAbove, x: Array, y: Array) -> Iterator[Orientation]:
        """Of the highest layer, the most told first: all of it; with what the features of open weights add to the outputs as a
        part that is always on; nothing."""
        known, opened = self.known, self.levels[-1].open
        told = solve_orientation(above, known.weights[-1], opened)
        yield told
        if opened.any():
            turn = np.where(told.turned, -1.0, 1.0)
            turned = known.with_top(known.weights[-1] * turn[:, None], known.biases[-1] * turn)
            part = fit_readout(turned, x, y).below.T * np.asarray(opened.any(axis=0))
            yield told._replace(skips=np.zeros_like(told.skips), rest=part / max(float(np.abs(part).max()), 1e-300))
        width = len(known.biases[-1])
        yield Orientation(np.zeros(width, dtype=bool), np.inf, np.ones(width, dtype=bool), np.zeros(opened.shape), above.linear)

    def weight_errors(self, network: DeepParameters) -> WeightErrors | None:
        """What the answers tell about every weight; None if there are too many."""
        answers = self._answers_of_fit(network)
        if network.size > self.probe.options.most_weights or len(answers.x) * len(network.offset) < network.size:
            return None
        return weight_errors(network, Samples(*answers, Unknown()), self.probe.rounding.sd)

    def _with_readout(self, x: Array, y: Array) -> tuple[DeepParameters, float]:
        h = np.hstack([self.known.features(x, self.known.depth), np.ones((len(x), 1))])
        size = np.abs(h).max(axis=0)
        size[size == 0.0] = 1.0
        solution = np.linalg.lstsq(h / size, y, rcond=1e-14)[0] / size[:, None]
        network = DeepParameters(self.known.layers, solution[:-1], solution[-1])
        return network, float(np.abs(network(x) - y).max() / np.abs(y).max())


def read_folds(
    ask: BlackBox, dim: int, *, scale: float = 1.0, depth: int = 12, budget: int | None = None, seconds: float | None = None,
    options: FoldOptions = FoldOptions(), purpose: PurposeContext = nullcontext, given: Sequence[GivenLayer] = (),
    progress: Progress | None = None, rng: Generator,
) -> FoldsResult:
    """Read a ReLU network of any depth and shape out of a noiseless black box, layer by layer.

    Parameters
    ----------
    ask : answers x (n, dim) with (n,) or (n, outputs)
    scale : the domain is about `scale` in every coordinate, around 0
    depth : hidden layers at most
    budget, seconds : queries and wall time at most; what was read until then is given back
    given : layers that another reading has given, from the lowest up
    purpose, progress : bookkeeping of queries, and a listener

    Returns
    -------
    FoldsResult
        The network, or the layers that were read, with what is missing. AssumptionViolated if the box is noisy, smooth or made
        of steps.
    """
    basis = row_space(given, dim)
    if basis is not None:
        found = read_folds(
            lambda v: ask(v @ basis.T), basis.shape[1], scale=scale, depth=depth, budget=budget, seconds=seconds, options=options,
            purpose=purpose, given=(given[0]._replace(weights=given[0].weights @ basis), *given[1:]), progress=progress, rng=rng)
        left = None if budget is None else budget - sum(found.queries.values())
        probe = SurfaceProbe(QueryCounter(ask, budget=left, purpose=purpose), found.rounding, options, dim, scale, rng)
        return _fitted_to_all_inputs(found.above(basis), probe)
    queries = QueryCounter(ask, budget=budget, purpose=purpose)
    rounding = _rounding(queries, random_line(dim, options.reach * scale * np.sqrt(dim), scale, rng=rng), rng)
    rounding = with_steepness(queries, rounding, scale * rng.standard_normal((options.steep, dim)))
    until = np.inf if seconds is None else monotonic() + seconds
    reader = FoldReader(SurfaceProbe(queries, rounding, options, dim, scale, rng, until), KnownLayers(dim), progress)
    network, fresh, failure, ended = None, np.nan, "", False
    try:
        reader.accept(given)
        while network is None and len(reader.levels) < depth and reader.climb():
            network = reader.complete()
        if network is None and reader.levels:
            network = reader.complete(highest=True)
        if network is not None:
            x, y = reader.fresh(options.last_fresh, "verify")
            fresh = float(np.abs(network(x) - y).max() / np.abs(y).max())
            missed = reader.contradictions(network)
            failure = (
                f"fresh answers are predicted to {fresh:.1e} only" if fresh > options.predicted else
                f"{missed} of {reader.probe.queries.total} answers are not predicted: a unit is missing" if missed else "")
        else:
            units = [len(level.units) for level in reader.levels]
            failure = f"units {units} were read, and answers are not predicted: units are missing, or hidden by what lies above"
    except (BudgetExhausted, KeyboardInterrupt) as reason:
        ended, failure = True, _where_it_ended(reader, str(reason) or "Interrupted.")
        _assemble_partial(reader)
    return _result(reader, network, fresh, failure, ended)


def _fitted_to_all_inputs(found: FoldsResult, probe: SurfaceProbe) -> FoldsResult:
    """A network that was read in the span of its lowest rows, fitted to answers at all inputs, which alone tell what these rows
    are outside of that span; then it must predict fresh ones."""
    if found.network is None:
        return found
    network, options = found.network, probe.options
    rows = tuple((layer.weights, np.asarray(layer.biases)) for layer in network.layers)
    read = DeepParameters(rows, network.readout.reshape(len(network.readout), -1), np.atleast_1d(network.offset))
    try:
        x = probe.inputs(int(options.fit_share * read.size / len(read.offset)) + 50)
        answers = Samples(x, probe.answers(x, "polish").y, Unknown())
        x = probe.inputs(options.last_fresh)
        y = probe.answers(x, "verify").y
    except BudgetExhausted as ended:
        return replace(found, complete=False, ended=True, failure=str(ended))
    size = np.abs(y).max()
    prior = options.prior_misfits * max(float(np.abs(read(x) - y).max() / size), options.free_levels[1])
    fitted = fit_all_layers(read, answers, found.rounding.sd, prior=prior).parameters
    misfits = [float(np.abs(one(x) - y).max() / size) for one in (fitted, read)]
    best, fresh = (fitted if misfits[0] <= misfits[1] else read), min(misfits)
    failure = found.failure or (f"fresh answers are predicted to {fresh:.1e} only" if fresh > options.predicted else "")
    layers = tuple(Layer(w, b) for w, b in best.layers)
    spent = dict(found.queries)
    for name, count in probe.queries.spent.items():
        spent[name] = spent.get(name, 0) + count
    return replace(
        found, network=network_from(layers, best.readout, best.offset), layers=layers, fresh=max(found.fresh, fresh),
        complete=not failure, failure=failure, queries=spent)


def _where_it_ended(reader: FoldReader, reason: str) -> str:
    if not reader.levels:
        return f"ended before the first layer. {reason}"
    units = len(reader.levels[-1].units)
    return (
        f"ended in layer {len(reader.levels)}, of which {units} units were read; if it is as wide as what it reads, about "
        f"{_needed(reader):,} queries would do for the layers so far. {reason}")


def _needed(reader: FoldReader) -> int:
    """Queries for the layers so far, the last one as wide as its input, at what each of its units has taken."""
    level, total = reader.levels[-1], reader.probe.queries.total
    units, inputs = len(level.units), level.known.weights[-1].shape[0] if level.known.depth else level.known.dim
    return total + int((total - level.begun) / max(units, 1)) * max(inputs - units, 1)


def _assemble_partial(reader: FoldReader) -> None:
    """Stack the units of a layer that was not finished; it asks nothing."""
    if reader.levels and reader.levels[-1].units and len(reader.levels) > reader.known.depth:
        reader.known = reader.levels[-1].known
        reader.assemble()


def _result(reader: FoldReader, network: DeepParameters | None, fresh: float, failure: str, ended: bool) -> FoldsResult:
    known = reader.known.layers if network is None else network.layers
    errors = None if network is None else reader.weight_errors(network)
    layers = tuple(Layer(w, b) for w, b in known)
    whole = None if network is None else network_from(layers, network.readout, network.offset)
    reports = tuple(_report(level) for level in reader.levels)
    if errors is not None:
        reports = tuple(
            replace(report, open=tuple(sorted({*report.open} & {*pairs})))  # neither surfaces tell it nor answers
            for report, pairs in zip(reports, errors.open, strict=True))
    queries = reader.probe.queries
    needed = _needed(reader) if ended and reader.levels else None
    return FoldsResult(
        whole, layers, reports, not failure, fresh, dict(queries.spent), reader.probe.rounding, failure, ended, needed,
        np.nan if errors is None else errors.largest, reader.cornered)


def network_from(layers: tuple[Layer, ...], readout: Array, offset: Array) -> Network:
    """The network; one output is a vector, as everywhere."""
    return Network(layers, readout[:, 0], float(offset[0])) if readout.shape[1] == 1 else Network(layers, readout, offset)


def _report(level: LayerState) -> LayerReport:
    turned = np.nan if level.orientation is None else level.orientation.distance
    pairs = tuple((int(m), int(k)) for m, k in np.argwhere(level.open))
    closes = float(level.closes.max()) if len(level.closes) else np.nan
    return LayerReport(len(level.units), level.always_on, closes, turned, pairs, level.lines, level.refused)


def _rounding(queries: QueryCounter, line: Line, rng: Generator) -> Rounding:
    """How the answers are rounded; a line on which they are constant says nothing, and others are tried."""
    for _ in range(5):
        try:
            return check_piecewise_linear(queries, line).rounding
        except AssumptionViolated:
            line = random_line(len(line.point), line.high, line.scale / np.sqrt(len(line.point)), rng=rng)
    return check_piecewise_linear(queries, line).rounding


def _chord(start: Array, end: Array) -> Line:
    """The line through two points, half their distance further on both sides."""
    length = float(np.linalg.norm(end - start))
    return line_through((start + end) / 2.0, end - start, length, length / 4.0)
