"""One surface followed through the cells of the known layers, fold by fold, until its row is known.

The row from a base cell is known up to some free directions (`solve_row`). In a cell where none of them changes normal or shift,
the surface is known and is crossed without a query. A ray walks on it as a geodesic: straight in a cell, unfolded at walls. At
the first wall behind which the surface is not known, one number is missing (fact a), and one kink measures it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from laybare.lines.folds.facts import (
    NullVector,
    RowSolution,
    cell_matrix,
    meeting_points,
    null_vector,
    solve_row,
    surface_features,
    weights_of_rows,
)
from laybare.lines.folds.probe import BentPlace, Place, SurfaceProbe
from laybare.lines.folds.stack import Cell, CellMaps, KnownLayers, Wall, flipped, next_crossing, room_in_cell
from laybare.lines.line import Line
from laybare.numerics.shapes import Array


class Fold(NamedTuple):
    """A wall that a ray meets at x, moving along `tangent`; the surface is known in `cell` and not known in `beyond`."""

    x: Array
    tangent: Array
    normal: Array
    slope: Array
    wall: Wall
    cell: Cell
    beyond: Cell
    before: float
    after: float

    @property
    def quality(self) -> float:
        """How much room there is to measure, relative to how flatly the wall is met."""
        return min(self.before, self.after) * abs(float(self.slope @ self.tangent)) / float(np.linalg.norm(self.slope))


class Stop(NamedTuple):
    """A point of the surface in a cell where it is known, and the number of walls that the ray has crossed."""

    x: Array
    normal: Array
    cell: Cell
    crossed: int


class Beyond(NamedTuple):
    """A place that a surface has if it does not fold at another one, and its distance from that one."""

    x: Array
    normal: Array
    cell: Cell
    room: float


@dataclass(eq=False)
class FoldedSurface:
    """The surface of one unit, as far as it was followed; `points` lie on it, each with its cell and the sd of its place."""

    probe: SurfaceProbe
    known: KnownLayers
    base: BentPlace
    points: list[Array] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    sds: list[float] = field(default_factory=list)
    wins: int = 0
    fails: int = 0

    def __post_init__(self) -> None:
        self.cell = self.known.cell(self.base.x)
        self.side = np.where(self.cell[-1], 1.0, -1.0) if self.known.depth else np.empty(0)
        if not self.points:
            self._add(self.base.x, self.cell, self.base.place_sd)
        self.solution = self.solve()

    def _add(self, x: Array, cell: Cell, sd: float) -> None:
        self.points.append(x)
        self.cells.append(cell)
        self.sds.append(sd)

    def above(self, known: KnownLayers, cells: list[Cell] | None = None) -> FoldedSurface:
        """The same located points above other layers, in the cells that these have there."""
        cells = [known.cell(x) for x in self.points] if cells is None else cells
        return FoldedSurface(self.probe, known, self.base, [*self.points], cells, [*self.sds])

    def joined(self, other: FoldedSurface) -> FoldedSurface:
        """With the points of another piece of the same surface."""
        return FoldedSurface(
            self.probe, self.known, self.base, self.points + other.points, self.cells + other.cells, self.sds + other.sds)

    @property
    def errors(self) -> Array:
        """Relative errors (n,) of the points' places: where what lies above hardly passes the unit on, they are large."""
        away = np.linalg.norm(np.array(self.points), axis=1)
        return np.asarray(np.array(self.sds) / (self.probe.scale + away) + np.finfo(float).eps)

    def solve(self) -> RowSolution:
        """The row from the base normal and all points that were located."""
        maps = self.known.maps(self.cell)
        base = cell_matrix(self.known, maps, self.cell, self.side)
        n = self.base.normal
        points = surface_features(self.known, self.side, np.array(self.points))
        size = np.linalg.norm(points, axis=1, keepdims=True)
        weight = 30.0 * weights_of_rows(self.errors, points.shape[1] + self.probe.options.spare)[:, None]
        matrix = np.vstack([base, weight * points / size])
        right = np.concatenate([n, [-float(n @ self.base.x)], np.zeros(len(points))])
        return solve_row(matrix, right, self.probe.options.rank)

    def plane(self, maps: CellMaps, cell: Cell) -> tuple[Array, float, float]:
        """Normal and shift in a cell, and how far the free directions move them, relative to the normal."""
        matrix = cell_matrix(self.known, maps, cell, self.side)
        plane = matrix @ self.solution.row
        free = matrix @ self.solution.free
        size = float(np.linalg.norm(plane[:-1]))
        return plane[:-1], float(plane[-1]), float(np.abs(free).max(initial=0.0)) / max(size, 1e-300)

    def ray(self, x: Array, cell: Cell, direction: Array, length: float) -> Fold | Stop:
        """Walk on the surface until it is not known, or for a length, or out of reach; asks nothing."""
        maps, crossed, known = self.known.maps(cell), 0, self.known
        n, _, _ = self.plane(maps, cell)
        t = _tangent(direction, n)
        while True:
            distance, wall = next_crossing(maps, cell, x, t)
            left = min(length, _room_in_ball(x, t, self.probe.options.reach * self.probe.scale * np.sqrt(known.dim)))
            if wall is None or distance >= left or crossed >= self.probe.options.ray_cells:
                return Stop(x + min(0.5 * distance, left) * t, n, cell, crossed)
            q, beyond = x + distance * t, flipped(cell, wall)
            g = maps.slopes[wall.level][wall.unit]
            next_maps = known.maps(beyond)
            n2, shift2, free = self.plane(next_maps, beyond)
            if free <= self.probe.options.undetermined and np.linalg.norm(n2) < 1e-9:
                return Stop(x + 0.5 * distance * t, n, cell, crossed)
            if free > self.probe.options.undetermined:
                after = next_crossing(next_maps, beyond, q, t).distance
                return Fold(q, t, n, g, wall, cell, beyond, distance, min(after, self.probe.scale))
            t = _unfolded(t, n, n2, g)
            x = q - (n2 @ q + shift2) / (n2 @ n2) * n2
            length, crossed, cell, maps, n = length - distance, crossed + 1, beyond, next_maps, n2

    def start(self) -> tuple[Array, Cell, Array]:
        """A located point, and a direction: half of them towards a unit whose weight is free."""
        rng, i = self.probe.rng, int(self.probe.rng.integers(len(self.points)))
        x, cell = self.points[i], self.cells[i]
        direction = rng.standard_normal(self.known.dim)
        if self.known.depth and rng.random() < 0.7:
            maps = self.known.maps(cell)
            free = np.flatnonzero(np.abs(self.solution.free[: len(self.side)]).max(axis=1, initial=0.0) > 1e-3)
            if len(free):
                k = int(rng.choice(free))
                g = maps.slopes[-1][k]
                z = float(g @ x + maps.shifts[-1][k])
                direction = -np.sign(z) * g / max(float(np.linalg.norm(g)), 1e-300) + 0.3 * direction / np.sqrt(self.known.dim)
        return x, cell, direction

    def stays_flat(self) -> bool:
        """Whether the surface is flat up to the walls of its first cell; most that are not are refused after a dozen queries.

        A unit of the layer folds at walls that are known and nowhere else; a surface further up folds inside, at units that are
        not known. Wald's test of places near the walls, in random directions; a normal too poor to predict them is not tested.
        """
        options, score = self.probe.options, 0.0
        if not self.known.depth or self.base.sd > 0.1 * options.on_surface * options.window:
            return True
        for _ in range(options.flat_looks):
            place = self.place_near_wall()
            if place is None and self.probe.was_constant:
                continue
            score += options.flat_ratio(hit=place is not None)
            if score <= options.flat_refuse:
                return False
        return True

    def place_near_wall(self) -> Place | None:
        """The surface near a wall of its first cell, in a random direction, if it is where it is when it is flat."""
        maps, n = self.known.maps(self.cell), self.base.normal
        t = _tangent(self.probe.rng.standard_normal(self.known.dim), n)
        distance = min(next_crossing(maps, self.cell, self.base.x, t).distance, self.probe.scale)
        return self._hit(self.base.x + self.probe.options.flat_share * distance * t, self.cell, maps, n, np.inf)

    def explore(self) -> bool:
        """Measure fold after fold until nothing free can be met; False if the surface is not where it should be too often."""
        options, barren = self.probe.options, 0
        while self.solution.free.shape[1]:
            if barren < options.barren_rays:
                rays = [self.ray(*self.start(), length=np.inf) for _ in range(options.rays)]
                folds = [ray for ray in rays if isinstance(ray, Fold) and ray.quality > 1e-7 * self.probe.scale]
            else:
                folds = self.computed_folds()
                if not folds:
                    break
            if not folds:
                barren += options.rays
                continue
            if self.measure(max(folds, key=lambda fold: fold.quality)):
                self.wins, barren = self.wins + 1, 0
                self.solution = self.solve()
            else:
                self.fails += 1
                barren += 1
            if self.fails > 2 + self.wins // 2:
                return self.wins > 2 * len(self.side) // 3
        return True

    def computed_folds(self) -> list[Fold]:
        """Folds at walls of units whose weights are free, by fact (d)."""
        free = np.flatnonzero(np.abs(self.solution.free[: len(self.side)]).max(axis=1, initial=0.0) > 1e-3)
        for k in self.probe.rng.permutation(free):
            starts = np.vstack([self.probe.inputs(self.probe.options.meetings), np.array(self.points)])
            met = meeting_points(self.gradients, partial(self._wall, int(k)), starts)
            met = met[np.linalg.norm(met, axis=1) <= self.probe.options.reach * self.probe.scale * np.sqrt(self.known.dim)]
            near = np.argsort(np.linalg.norm(met, axis=1))[: 2 * self.probe.options.rays]
            folds = [fold for fold in (self._fold_at(q, int(k)) for q in met[near]) if fold is not None]
            if folds:
                return folds
        return []

    def gradients(self, x: Array) -> tuple[Array, Array]:
        """Gradients (n, dim) and values (n,) of the row at inputs, what is free being zero."""
        known, row, width = self.known, self.solution.row, len(self.side)
        if not known.depth:
            return np.broadcast_to(row[:-1], x.shape), x @ row[:-1] + row[-1]
        z = known.preactivations(x)
        met = self.side * z[-1] < 0.0
        below = known.features(x, known.depth - 1)
        c = np.where(met, -self.side * row[:width], 0.0)
        values = (c * z[-1]).sum(axis=1) + below @ row[width:-1] + row[-1]
        return known.pulled_back(z, known.depth - 1, c @ known.weights[-1] + row[width:-1]), values

    def _wall(self, k: int, x: Array) -> tuple[Array, Array]:
        z, known = self.known.preactivations(x), self.known
        g = np.broadcast_to(known.weights[-1][k], (len(x), known.weights[-1].shape[1]))
        return known.pulled_back(z, known.depth - 1, g), z[-1][:, k]

    def _fold_at(self, q: Array, k: int) -> Fold | None:
        """The fold at a meeting point: the surface must be known on the side on which unit k is as at the base."""
        if np.linalg.norm(q) > self.probe.options.reach * self.probe.scale * np.sqrt(self.known.dim):
            return None
        on = self.known.cell(q)[-1].copy()
        on[k] = self.side[k] > 0.0
        cell = (*self.known.cell(q)[:-1], on)
        maps, wall = self.known.maps(cell), Wall(self.known.depth - 1, k)
        normal, _, free = self.plane(maps, cell)
        g = maps.slopes[-1][k]
        size = float(np.linalg.norm(normal))
        if free > self.probe.options.undetermined or size < 1e-9:
            return None
        out = g - (g @ normal) / size**2 * normal
        if np.linalg.norm(out) < 1e-6 * np.linalg.norm(g):
            return None
        t = -self.side[k] * out / np.linalg.norm(out)
        beyond = flipped(cell, wall)
        before = next_crossing(maps, cell, q, -t).distance
        after = next_crossing(self.known.maps(beyond), beyond, q, t).distance
        fold = Fold(q, t, normal, g, wall, cell, beyond, min(before, self.probe.scale), min(after, self.probe.scale))
        return fold if fold.quality > 1e-6 * self.probe.scale else None

    def measure(self, fold: Fold) -> bool:
        """One fold: the surface before the wall, the kink beyond it, and one more point of the new piece."""
        g, n, t = fold.slope, fold.normal, fold.tangent
        v = n - (n @ g) / (g @ g) * g
        if np.linalg.norm(v) < self.probe.options.slant * np.linalg.norm(n):
            return False
        v /= np.linalg.norm(v)
        maps, beyond = self.known.maps(fold.cell), self.known.maps(fold.beyond)
        for share, wide in self.probe.options.shares:
            x0 = fold.x - share * fold.before * t
            before = self._hit(x0, fold.cell, maps, v, share * fold.before)
            if before is None:
                continue
            x1 = fold.x + share * fold.after * t
            back, ahead = room_in_cell(beyond, fold.beyond, x1, v)
            low, high = -min(wide * share * fold.after, 0.9 * back), min(wide * share * fold.after, 0.9 * ahead)
            if high - low < 1e-9 * self.probe.scale:
                continue
            several = share == self.probe.options.shares[-1][0]
            place = self.probe.kinks_within(x1, v, low, high, before.jump, several)
            if place is None:
                continue
            y1 = x1 + place.offset * v
            if self._confirmed(fold, y1, beyond, place.sd):
                self._add(x0 + before.offset * v, fold.cell, before.sd)
                return True
        return False

    def _confirmed(self, fold: Fold, y: Array, maps: CellMaps, sd: float) -> bool:
        """One more point of the piece on which x of the fold and y lie: twice as far, along the geodesic."""
        away = y - fold.x
        left = next_crossing(maps, fold.beyond, y, away).distance
        further = y + min(0.5 * left, 1.0) * away
        g, n = fold.slope, fold.normal
        e = -float(n @ away) / float(g @ away)
        n2 = n + e * g
        size = float(np.linalg.norm(n2))
        place = self._hit(further, fold.beyond, maps, n2 / size, float(np.linalg.norm(away)))
        if place is None:
            return False
        self._add(y, fold.beyond, sd)
        self._add(further + place.offset * n2 / size, fold.beyond, place.sd)
        return True

    def _hit(self, x: Array, cell: Cell, maps: CellMaps, v: Array, most: float) -> Place | None:
        half = self._half(x, cell, maps, v, most)
        return self.probe.hits(x, v, half) if half > 1e-10 * self.probe.scale else None

    def _half(self, x: Array, cell: Cell, maps: CellMaps, v: Array, most: float) -> float:
        """Half of a window around a point of the surface, inside the cell."""
        room = min(room_in_cell(maps, cell, x, v))
        return min(0.3 * room, 0.3 * most, self.probe.options.window * self.probe.scale)

    def verify(self) -> bool:
        """Look at the surface at places all over the domain until a sequential test decides, and points are enough for a fit.

        Wald's test of a share of hits `hit_share` against `false_share`: what lies above may hide a unit of this layer, and a
        surface that is not what the row says is met by chance only, or in one cell.
        """
        options, score, missed, looks = self.probe.options, 0.0, 0, 0
        hit, miss = options.log_ratio(hit=True), options.log_ratio(hit=False)
        for _ in range(options.most_looks + 2 * self.solution.row.size):
            living = self.solution.row.size - self.solution.free.shape[1]
            if score >= options.accept and len(self.points) >= living + options.spare:
                return missed <= options.few_misses * looks or not self.folds_at_unknown_unit()
            if score <= options.refuse:
                return False
            stop = self._far_stop()
            if stop is None:
                score, missed, looks = score + miss, missed + 1, looks + 1
                continue
            place = self._met(stop)
            if place is None and self.probe.was_constant:
                continue
            score = min(score + (miss if place is None else hit), 2.0 * options.accept)
            missed, looks = missed + (place is None), looks + 1
            if place is not None:
                v = stop.normal / np.linalg.norm(stop.normal)
                self._add(stop.x + place.offset * v, stop.cell, place.sd)
        return score >= options.accept and not self.folds_at_unknown_unit()

    def folds_at(self, others: Sequence[FoldedSurface], *, highest: bool = False) -> bool:
        """Whether it folds where it meets units that are said to be of its layer: then it is of a layer further up.

        The row of a unit further up holds in one cell of those units only, so that all points are on one side of each. Points on
        both sides of most of them show that it does not fold there; else places just beyond are looked at, by Wald's test. If it
        is left open, a surface that crosses none of many is taken for one further up: read there, it would fold nowhere. Nothing
        is further up than the `highest` layer.
        """
        sides = [np.sign(other.value(np.array(self.points))) for other in others]
        crossed = sum(bool((side > 0.0).any() and (side < 0.0).any()) for side in sides)
        if 2 * crossed >= len(others):
            return False
        options, score = self.probe.options, 0.0
        places = list(self._beyond(others))
        for i in self.probe.rng.permutation(len(places))[: options.most_looks]:
            stop = places[i]
            place = self._hit(stop.x, stop.cell, self.known.maps(stop.cell), stop.normal / np.linalg.norm(stop.normal), stop.room)
            if place is None and self.probe.was_constant:
                continue
            score += options.log_ratio(hit=place is not None)
            if not options.refuse < score < options.accept:
                break
        alone = not highest and not crossed and len(others) >= options.many_others
        return score <= options.refuse or (score < options.accept and alone)

    def _beyond(self, others: Sequence[FoldedSurface]) -> Iterator[Beyond]:
        """Places of the surface just beyond those of others, straight on from located points and in their cells."""
        for x, cell in zip(self.points, self.cells, strict=True):
            maps = self.known.maps(cell)
            n, _, unsure = self.plane(maps, cell)
            if unsure > self.probe.options.undetermined or not n.any():
                continue
            for other in others:
                g, shift, open_ = other.plane(maps, cell)
                z = float(g @ x + shift)
                out = g - (g @ n) / (n @ n) * n
                size = float(np.linalg.norm(out))
                if open_ > self.probe.options.undetermined or size < self.probe.options.slant * np.linalg.norm(g):
                    continue
                t, distance = -np.sign(z) * out / size, abs(z) / size
                room = next_crossing(maps, cell, x, t).distance
                further = min(0.5 * (room - distance), distance, self.probe.scale)
                if further > 1e-6 * self.probe.scale:
                    yield Beyond(x + (distance + further) * t, n, cell, further)

    def _met(self, stop: Stop) -> Place | None:
        """The kink at a place of the surface, if it is there."""
        return self._hit(stop.x, stop.cell, self.known.maps(stop.cell), stop.normal / np.linalg.norm(stop.normal), np.inf)

    def folds_at_unknown_unit(self) -> bool:
        """Whether the surface folds where no known unit is: then it is of a layer further up.

        A surface that is not met where its row says is either hidden there by what lies above, or has folded at a unit that is
        not known. On a ray from a place where it is met to one where it is not, the last place where it is met is found by
        bisection. Around that place goes a loop: every surface that passes through crosses it an even number of times, and so
        does one that folds; one that ends there makes the number odd. The first to be two ahead decides.
        """
        votes = 0
        for _ in range(self.probe.options.fold_rays):
            start, length = self.start(), self.probe.scale * np.sqrt(self.known.dim) * self.probe.rng.uniform(0.1, 3.0)
            end = self._place(start, length)
            if end is not None and not self._is_met(end):
                votes += self._vote_at_end(start, length)
            if abs(votes) >= 2:
                break
        return votes > 0

    def _place(self, start: tuple[Array, Cell, Array], length: float) -> Stop | None:
        """Where a ray on the surface is after a length; None if the surface is not known there."""
        stop = self.ray(*start, length=length)
        return stop if isinstance(stop, Stop) and np.linalg.norm(stop.normal) > 1e-9 else None

    def _is_met(self, stop: Stop) -> bool:
        """Whether the surface is met at a place, in a window or in a much smaller one, in which it is alone."""
        maps, v = self.known.maps(stop.cell), stop.normal / np.linalg.norm(stop.normal)
        half = self._half(stop.x, stop.cell, maps, v, np.inf)
        sizes = [size for size in (half, half / 30.0) if size > 1e-10 * self.probe.scale]
        return any(self.probe.hits(stop.x, v, size) is not None for size in sizes)

    def _vote_at_end(self, start: tuple[Array, Cell, Array], length: float) -> int:
        """1 if the surface folds at the last place of a ray where it is met, -1 if it ends there, 0 if that is not known."""
        low, high = 0.0, length
        for _ in range(self.probe.options.fold_halvings):
            stop = self._place(start, (low + high) / 2.0)
            low, high = ((low + high) / 2.0, high) if stop is not None and self._is_met(stop) else (low, (low + high) / 2.0)
        last, gone = self._place(start, low), self._place(start, high)
        if low == 0.0 or last is None or gone is None:
            return 0
        t, n = gone.x - last.x, last.normal / np.linalg.norm(last.normal)
        t = 2.0 * (t - (t @ n) * n)
        n *= np.linalg.norm(t)
        count, centre = 0, (last.x + gone.x) / 2.0
        for middle, along in ((t, n), (n, t), (-t, n), (-n, t)):
            size = float(np.linalg.norm(along))
            profile = self.probe.read_line(Line(centre + middle, along / size, -size, size, size / 3.0), 60) if size else None
            if profile is None:
                return 0
            count += len(profile.kinks)
        return 0 if count < 3 else 1 if count % 2 == 0 else -1

    def _far_stop(self) -> Stop | None:
        """A place of the surface: between two inputs of the domain on both sides of it, or at the end of a ray on it."""
        probe = self.probe
        x = probe.inputs(32)
        z = self.value(x)
        above, below = x[z > 0.0], x[z < 0.0]
        if len(above) and len(below):
            stop = self._between(above[0], below[0])
            if stop is not None:
                return stop
        length = probe.scale * np.sqrt(self.known.dim) * probe.rng.uniform(0.1, 3.0)
        ray = self.ray(*self.start(), length=length)
        return ray if isinstance(ray, Stop) and np.linalg.norm(ray.normal) > 1e-9 else None

    def value(self, x: Array) -> Array:
        """The row at inputs (n,), NaN where what is free takes part."""
        features = surface_features(self.known, self.side, x)
        unsure = np.abs(features @ self.solution.free).max(axis=1, initial=0.0) > 1e-6 * np.linalg.norm(features, axis=1)
        return np.where(unsure, np.nan, features @ self.solution.row)

    def features_along(self, other: FoldedSurface) -> tuple[Array, Array]:
        """Features (n, unknowns), from this base, at the points of a surface, and their slopes along random directions there."""
        x, rng, known = np.array(other.points), self.probe.rng, self.known
        slopes = [
            rng.standard_normal(known.dim) @ cell_matrix(known, known.maps(cell), cell, self.side)[:-1] for cell in other.cells]
        return surface_features(known, self.side, x), np.array(slopes)

    def held_sides(self, x: Array) -> tuple[Array, Array]:
        """Inputs at which an open feature takes part, and the sign of the row there: that at the wall of the feature.

        The surface does not meet the wall of an open feature, so that its unit has one sign on the wall and beyond it.
        """
        features, free = surface_features(self.known, self.side, x), self.solution.free
        side, width = np.zeros(len(x)), len(self.side)
        for k in np.flatnonzero(np.abs(free[:width]).max(axis=1, initial=0.0) > 1e-6):
            beyond = np.flatnonzero(features[:, k] > 0.0)
            start = np.array(self.points)[self.probe.rng.integers(len(self.points), size=min(len(beyond), 200))]
            at_wall = np.sign(self.value(self._before_wall(int(k), start, x[beyond[: len(start)]])))
            side[beyond] += np.nanmean(at_wall) if np.isfinite(at_wall).any() else 0.0
        held = side != 0.0
        return x[held], np.sign(side[held])

    def _before_wall(self, k: int, before: Array, beyond: Array) -> Array:
        """Points just before the wall of unit k of the highest known layer, between inputs before and beyond it."""
        for _ in range(50):
            middle = 0.5 * (before + beyond)
            over = (surface_features(self.known, self.side, middle)[:, k] > 0.0)[:, None]
            before, beyond = np.where(over, before, middle), np.where(over, middle, beyond)
        return before

    def _between(self, above: Array, below: Array) -> Stop | None:
        for _ in range(50):
            middle = (above + below) / 2.0
            z = self.value(middle[None])[0]
            if np.isnan(z):
                return None
            above, below = (middle, below) if z > 0.0 else (above, middle)
        x = (above + below) / 2.0
        cell = self.known.cell(x)
        normal, shift, free = self.plane(self.known.maps(cell), cell)
        size = float(np.linalg.norm(normal))
        if free > self.probe.options.undetermined or size < 1e-9:
            return None
        return Stop(x - (normal @ x + shift) / size**2 * normal, normal, cell, 1)

    def null_vector(self) -> NullVector:
        """Fact (b) for all points. Where several rows have the same zeros: the one from the base, what is free being open."""
        self.solution = self.solve()
        null = null_vector(surface_features(self.known, self.side, np.array(self.points)), self.errors)
        if null.gap > self.probe.options.rank:
            return null
        row, free = self.solution.row, self.solution.free
        opened = np.abs(free).max(axis=1, initial=0.0) > 1e-6
        return null._replace(row=row / np.linalg.norm(row), open=opened)


def _tangent(direction: Array, normal: Array) -> Array:
    t = direction - (direction @ normal) / (normal @ normal) * normal
    return np.asarray(t / np.linalg.norm(t))


def _unfolded(t: Array, n: Array, n2: Array, g: Array) -> Array:
    """The direction behind a fold: the part along the ridge stays, the part across it keeps its length and leads away from it."""
    out, out2 = g - (g @ n) / (n @ n) * n, g - (g @ n2) / (n2 @ n2) * n2
    size, size2 = np.linalg.norm(out), np.linalg.norm(out2)
    if size < 1e-12 or size2 < 1e-12:
        return _tangent(t, n2)
    across = float(t @ out) / size
    t2 = t - across * out / size + across * out2 / size2
    return np.asarray(t2 / np.linalg.norm(t2))


def _room_in_ball(x: Array, t: Array, radius: float) -> float:
    """How far x + s t stays in the ball around 0; 0 if it has left."""
    along, square = float(x @ t), radius**2 - float(x @ x)
    return 0.0 if square < 0.0 else -along + float(np.sqrt(along**2 + square))
