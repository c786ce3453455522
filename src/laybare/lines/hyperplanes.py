"""Hyperplanes from located kinks: one hidden layer whose answers are coarse (float32, decimals, probabilities of a classifier).

Gradients lose what rounding leaves over a short step, and a model that is carried from line to line adds the errors of all units.
A kink is located without either. Two straight fits over several answers, one on each side, meet at it, to rounding / jump,
wherever it is. So every hyperplane is measured by itself, from places as far apart as the domain:

    lines -> a kink that no known hyperplane explains -> its normal, roughly, from the slopes on both sides
    -> the same kink located at random places of the predicted hyperplane, nearer ones first while the prediction is poor
    -> normal and offset by least squares; a kink that is not there, or has another jump, is no unit of this layer

A place counts only if the jump of the slope there is the known one: a unit of a single layer has the same everywhere, a pair of
kinks in one window has not. Readouts and the linear part are then linear least squares on answers at random inputs. What is not
predicted sends lines there. The error of a hyperplane is that of a location over the width of the domain, with no step in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lines.feature_space import SURFACE, FeatureSpace, input_space
from laybare.lines.kinks import Kink, LineProfile, answers_along, end_piece, find_kinks
from laybare.lines.line import KINK, Line, line_through, random_line
from laybare.lines.model_fit import ask_random_points
from laybare.lines.partial_network import PartialNetwork, UnitEstimates
from laybare.lines.piecewise_linear import check_piecewise_linear
from laybare.lines.query import Answers, QueryContext, QueryCounter
from laybare.lines.single_layer import Patience, ReaderOptions, SingleLayerState, deep_network_error
from laybare.lines.surfaces import Surface
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding


@dataclass(frozen=True, kw_only=True)
class HyperplaneOptions:
    """Numbers of the reading of hyperplanes. Lengths are in units of the inputs' scale."""

    quiet_lines: int = 6  # in a row that show no unknown hyperplane. Checked by `pytest tests/lines/test_hyperplanes.py`.
    max_lines: int = 100  # of one search. Checked by `pytest tests/lines/test_hyperplanes.py`.
    max_first_lines: int = 8
    """Lines on which the rounding is measured, until the answers on one can be used. Checked by `pytest
    tests/lines/test_hyperplanes.py`."""
    queries_per_line: int = 3000  # for its kinks. Derived: four for each of 700 kinks.
    spreads: tuple[float, ...] = (1.0, 0.5, 2.0, 0.25, 4.0, 0.1)
    """Of random inputs, in the order in which they are tried until an answer can be used. Checked by `pytest
    tests/lines/test_hyperplanes.py`."""
    points_at_once: int = 8  # asked together for one that can be used. Convention: eight.
    halvings: float = 12.0  # of a line's ends until answers can be used. Derived: to a hundredth of the domain.
    line_reach: float = 8.0  # of a line, in units of √dim. Derived: it shows nine of ten Gaussian units.
    windows: tuple[float, ...] = (0.1, 0.025, 0.006, 0.0015)
    """Half windows in which a kink is located, the widest first: a narrow one is less exact, and seldom holds a second kink.
    Checked by `pytest tests/lines/test_hyperplanes.py`."""
    places: int = 16
    """Random places of a hyperplane of which the first is looked at that known ones leave room in the widest window, or that with
    most room; no query. Derived: with fifty units about one place in ten has that room."""
    offset_share: float = 0.2
    """Of a half window, within which four sds of the prediction must lie. Derived: the inner two of six places are there."""
    step_shares: tuple[float, ...] = (0.5, 0.15, 0.05)
    """Of half a piece, steps across the line, the longest first. Checked by `pytest tests/lines/test_hyperplanes.py`."""
    max_normal_sd: float = 0.1  # of a rough normal. Derived: its places can then be predicted over ten windows.
    extra_places: int = 4
    """Beyond the inputs, or, where a fit to all answers follows, twice as many in all. Derived: as many degrees of freedom check
    the hyperplane."""
    looks_per_place: int = 12  # before a hyperplane is given up. Convention: one place in ten shows it.
    far_share: float = 0.5  # of the way to a random place; nearer ones are no test of a surface that turns. Convention: a half.
    max_first_misses: int = 4  # the same before the first place where it is. Derived: visible at half of them, one in 16 is lost.
    max_misses: int = 6
    """Places at which the kink is not, in a row or more than those where it is. Checked by `pytest
    tests/lines/test_hyperplanes.py`."""
    max_bent: float = 3.0
    """Surfaces that were not where their hyperplane is, at places with room, beyond which there is more than one layer. Derived:
    a unit of a single layer has no such place, but for a rough normal that two kinks have mixed."""
    max_bent_share: float = 0.2  # as many more for one that is. Convention: one rough normal in five is mixed.
    max_refused: float = 2.0
    """Kinks that are on no hyperplane with one jump, for one that is, beyond which there is more than one layer. Of a single
    layer those are refused that are too near to another one, or to answers that cannot be used. Checked by `pytest
    tests/lines/test_hyperplanes.py`."""
    hidden_ratio: float = 3.0
    """Places where the kink is not, for one where it is, at most, in deep networks: layers above hide some of a hyperplane, and a
    surface that folds is met again by chance only. Checked by `pytest tests/lines/test_hyperplanes.py`."""
    jump_tol: float = 0.05  # relative, beside noise. Derived: a second unit in the window of a twentieth of the size shows.
    shrink: float = 0.7  # of the reach where answers cannot be used. Convention: half of the square.
    min_reach: float = 1e-3  # then a hyperplane is given up. Convention: a thousandth of the scale.
    explained_sds: float = 8.0  # between a kink and a known hyperplane. Checked by `pytest tests/lines/test_hyperplanes.py`.
    same: float = 1e-3
    """Hyperplanes that differ by less are one. Derived: two that are nearer are alone in a window only where they are as far
    from the domain as a window is wider than that."""
    targets: int = 3  # points not predicted that lines go through. Checked by `pytest tests/lines/test_hyperplanes.py`.
    reserve: float = 12.0
    """Queries per unit and input that are left for readouts, the fit and fresh answers. Derived: six times what readouts take."""
    answers_per_unknown: float = 2.0  # of readouts and the linear part. Convention: two equations for one.


HYPERPLANE = HyperplaneOptions()

WINDOW = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])
"""Places of six answers in a window: three on each side. Derived: a third one on each side shows a second kink there."""


class Hyperplane(NamedTuple):
    """All x with normal·x = offset, |normal| = 1; the jump (outputs,) of the slope along the normal, and standard deviations."""

    normal: Array
    offset: float
    jump: Array
    normal_sd: float
    offset_sd: float
    jump_sd: float


class LocatedKink(NamedTuple):
    """How far along a direction from where it was looked for, its standard deviation, and the jump of the slope with its sd."""

    offset: float
    sd: float
    jump: Array
    jump_sd: float


def is_straight(y: Array, noise: float) -> bool:
    """Whether nothing bends in a window."""
    return bool(np.abs(y - y[0] - (WINDOW[:, None] + 1.0) / 2.0 * (y[-1] - y[0])).max() <= 2.0 * KINK.rounding_sds * noise)


def kink_of(y: Array, noise: float, half: float) -> LocatedKink | None:
    """The one kink near the middle of a window, from straight fits on both sides; None if there is not just one."""
    (low, left), (high, right) = (_straight(WINDOW[part] * half, y[part]) for part in (slice(0, 3), slice(3, 6)))
    bent = max(float(np.abs(np.diff(y[part], n=2, axis=0)).max()) for part in (slice(0, 3), slice(3, 6)))
    jump = right - left
    size = float(np.linalg.norm(jump))
    if bent > 2.0 * KINK.rounding_sds * noise or size * half <= 5.0 * KINK.rounding_sds * noise:
        return None
    offset = -float(jump @ (high - low)) / size**2
    if abs(offset) > 0.25 * half or np.abs(high - low + offset * jump).max() > 4.0 * KINK.rounding_sds * noise:
        return None
    return LocatedKink(offset, 2.0 * noise / size, jump, 4.0 * noise / half)


def _all_usable(context: QueryContext, points: Array) -> Answers | None:
    """Answers at all of the points; None if one is outside of the box, or cannot be used."""
    box = context.queries.box
    if box is not None and ((points < box.low) | (points > box.high)).any():
        return None
    asked = context.queries.ask_usable(points, "checks")
    return asked if len(asked.x) == len(points) else None


def _straight(t: Array, y: Array) -> tuple[Array, Array]:
    """Value at 0 and slope of the line through three equidistant points."""
    slope = (y[2] - y[0]) / (t[2] - t[0])
    return y.mean(axis=0) - t[1] * slope, slope


class SlopesAcross:
    """Slopes along directions across a line, on its pieces: each piece is asked once for the kinks on both of its sides."""

    def __init__(self, context: QueryContext, profile: LineProfile) -> None:
        self.context, self.profile = context, profile
        self.others = _complement(profile.line.direction, context.rng)
        self._measured: dict[tuple[int, float], _Slopes | None] = {}

    def rough_hyperplane(self, i: int) -> Hyperplane | None:
        """The hyperplane through kink i of the line, from the slopes on both sides: about dim queries per kink.

        The jump of the gradient is J ⊗ r with r·u = 1, J the jump of the slope along the line. A mixture of the steps must give
        the mixture of their answers: if not, one of them has crossed another hyperplane, and shorter ones are taken.
        """
        line, kink = self.profile.line, self.profile.kinks[i]
        square = float(kink.jump @ kink.jump)
        for share in HYPERPLANE.step_shares:
            low = self._on_piece(i, share)
            high = None if low is None else self._on_piece(i + 1, share)
            if low is None or high is None:
                continue
            jump, sd = high.values - low.values, float(np.hypot(low.sd, high.sd))
            if sd > HYPERPLANE.max_normal_sd * np.sqrt(square):
                return None
            r = jump @ kink.jump / square
            off = np.abs(jump - np.outer(r, kink.jump)).max(initial=0.0)
            if off <= 2.0 * KINK.rounding_sds * (sd + 1e-2 * np.abs(jump).max(initial=0.0)):
                return _through(line(kink.t)[0], line.direction + r @ self.others, kink, sd / float(np.sqrt(square)))
        return None

    def _on_piece(self, k: int, share: float) -> _Slopes | None:
        """The slopes at the middle of a piece, with steps of this share of its length; None if one of them crosses a kink."""
        if (k, share) not in self._measured:
            self._measured[k, share] = self._ask(k, share)
        return self._measured[k, share]

    def _ask(self, k: int, share: float) -> _Slopes | None:
        (queries, rounding, rng), line, piece, n = self.context, self.profile.line, self.profile.pieces[k], len(self.others)
        low, high = _ends_of_piece(self.profile, k)
        t, step = 0.5 * (low + high), share * min(0.5 * (high - low), line.scale)
        x, value = line(t)[0], piece.value(t)
        mixture = rng.dirichlet(np.ones(n)) * rng.choice([-1.0, 1.0], n) * np.sqrt(n)
        asked = queries.ask_usable(np.vstack([x + step * self.others, x + step * mixture @ self.others]), "gradients")
        if len(asked.x) <= n:
            return None
        noise = float(np.hypot(rounding.sd(asked.x, asked.y).max(), piece.sd_at(t)))
        slopes = (asked.y[:n] - value) / step
        if np.abs(asked.y[n] - value - step * mixture @ slopes).max() > 4.0 * KINK.rounding_sds * noise:
            return None
        return _Slopes(slopes, noise / step)


def _ends_of_piece(profile: LineProfile, k: int) -> tuple[float, float]:
    """Where piece k begins and ends; the outer ones are no longer than the line's scale."""
    line, t = profile.line, [kink.t for kink in profile.kinks]
    low = t[k - 1] if k else max(line.low, t[0] - line.scale)
    return low, t[k] if k < len(t) else min(line.high, low + line.scale)


def _through(x: Array, normal: Array, kink: Kink, sd: float) -> Hyperplane:
    """The hyperplane through x with a normal of which the line's direction has the part 1, and the line's kink."""
    size = float(np.linalg.norm(normal))
    jump = kink.jump * size
    jump_sd = float(np.linalg.norm(jump)) * (sd / size + HYPERPLANE.jump_tol)
    return Hyperplane(normal / size, float(normal @ x) / size, jump, sd / size, kink.sd / size, jump_sd)


class _Slopes(NamedTuple):
    """Slopes (directions, outputs) and their standard deviation."""

    values: Array
    sd: float


def _complement(direction: Array, rng: Generator) -> Array:
    """Orthonormal directions (dim - 1, dim) across a unit vector."""
    d = len(direction)
    q = np.linalg.qr(np.column_stack([direction, rng.standard_normal((d, d - 1))]))[0]
    return np.asarray(q[:, 1:].T)


class _PlaneFit:
    """(h - h0)·(n + r Q) = β by least squares on located places: n the rough normal, Q directions across it, (r, β) unknown.

    h are the features of a space, those of the inputs x; of the input space they are the inputs themselves.
    """

    def __init__(
        self, rough: Hyperplane, x0: Array, space: FeatureSpace, known: Sequence[Hyperplane], rng: Generator
    ) -> None:
        self.rough, self.x0, self.space, self.across = rough, x0, space, _complement(rough.normal, rng)
        self.h0, self.known = space.features(x0[None])[0], known
        bars = np.append(np.full(space.width - 1, rough.normal_sd), rough.offset_sd)
        self.precision, self.right = np.diag(1.0 / np.maximum(bars, 1e-12) ** 2), np.zeros(space.width)
        self.places: list[_PlaneEquation] = []
        self._solve()

    def _solve(self) -> None:
        self.cov = np.linalg.inv(self.precision)
        self.estimate = self.cov @ self.right
        *r, beta = self.estimate
        normal = self.rough.normal + np.asarray(r) @ self.across
        length = float(np.linalg.norm(normal))
        self.normal, self.offset = normal / length, float((normal @ self.h0 + beta) / length)
        self.upwards = np.asarray(self.space.inverse @ self.normal)

    def height(self, x: Array) -> float:
        """How far an input is above the hyperplane, in features."""
        return float(self.normal @ self.space.features(x[None])[0]) - self.offset

    def row(self, x: Array) -> Array:
        return np.append(-self.across @ (self.space.features(x[None])[0] - self.h0), 1.0)

    def sd(self, x: Array) -> float:
        """Standard deviation of where the hyperplane is at x, along its normal."""
        row = self.row(x)
        return float(np.sqrt(row @ self.cov @ row))

    def foot(self, x: Array) -> Array:
        return np.asarray(x - self.height(x) * self.upwards)

    def random_point(self, reach: float, rng: Generator) -> Array:
        """A random input on the hyperplane, `reach` of the way to it; a space with boundaries is convex, so it is inside."""
        if not self.space.layers:
            z = self.space.random_point(rng)
            return self.foot(z if reach >= 1.0 else self.x0 + reach * z)
        x = self.space.random_point(rng)
        others = (self.space.random_point(rng) for _ in range(SURFACE.max_pairs))
        other = next((one for one in others if self.height(one) * self.height(x) < 0.0), None)
        if other is None:  # beside the kink that was met there are inputs on both sides
            low, high = self.space.interval(self.x0, self.upwards)
            other = self.x0 + HYPERPLANE.far_share * (low if self.height(x) > 0.0 else high) * self.upwards
        up, down = self.height(x), self.height(other)
        on = x + up / (up - down) * (other - x) if up * down < 0.0 else self.x0
        return self.foot(self.x0 + min(reach, 1.0) * (on - self.x0))

    def room(self, x: Array) -> float:
        """How far the nearest known hyperplane is along the normal, within its error bars, or the nearest boundary."""
        low, high = self.space.interval(x, self.upwards)
        inside = min(high, -low)
        if not self.known:
            return inside
        normals, offsets, _, normal_sd, offset_sd, _ = (np.array(column) for column in zip(*self.known, strict=True))
        bar = HYPERPLANE.explained_sds * (offset_sd + normal_sd * np.linalg.norm(x))
        off = np.abs(normals @ x - offsets) - bar
        return min(inside, float((off / np.maximum(np.abs(normals @ self.normal), 1e-12)).min()))

    def add(self, x: Array, sd: float) -> None:
        """A place of the hyperplane."""
        right = float((self.space.features(x[None])[0] - self.h0) @ self.rough.normal)
        self.places.append(_PlaneEquation(self.row(x) / sd, right / sd))
        self._count(self.places[-1], 1.0)

    def drop_worst(self) -> bool:
        """Drop the place that the others contradict most, if one is: another surface has passed there."""
        rows, right = (np.array(column) for column in zip(*self.places, strict=True))
        left = np.abs(right - rows @ self.estimate)
        free = 1.0 - np.einsum("nk,kl,nl->n", rows, self.cov, rows)
        off = left / np.sqrt(np.maximum(free, np.finfo(float).eps ** 0.5))
        worst = int(np.argmax(off))
        if off[worst] <= HYPERPLANE.explained_sds:
            return False
        self._count(self.places.pop(worst), -1.0)
        return True

    def _count(self, place: _PlaneEquation, weight: float) -> None:
        self.precision += weight * np.outer(place.row, place.row)
        self.right += weight * place.row * place.right
        self._solve()


class _PlaneEquation(NamedTuple):
    """What a place tells about a hyperplane, row · (r, β) = right, in standard deviations."""

    row: Array
    right: float


class HyperplaneReading(NamedTuple):
    """A hyperplane; None if it is not there, or could not be seen. `bent`: places with room do not show it, or another jump."""

    plane: Hyperplane | None
    bent: bool = False


def measure_hyperplane(
    context: QueryContext, rough: Hyperplane, x0: Array, space: FeatureSpace, *, known: Sequence[Hyperplane] = (),
    deep: bool = False,
) -> HyperplaneReading:
    """The hyperplane from places where its kink is located, as far apart as the domain, if it is there.

    It is a hyperplane of the features of a space, met at the input x0, and is looked for where `known` ones leave room. `deep`:
    there are layers above, which change the jump from place to place and may hide it. It then must be where it was predicted,
    within error bars: a surface that turns is met there by chance only. A hyperplane on which the jump is mostly another one
    tells that there are such layers, and is measured as one below them.
    """
    plane, hits, reach, widest = _PlaneFit(rough, x0, space, known, context.rng), 0, 1.0, 0
    misses = near_misses = unclear = changed = 0
    below = deep
    jump, sum_of_weights = rough.jump / rough.jump_sd**2, 1.0 / rough.jump_sd**2
    for _ in range(HYPERPLANE.looks_per_place * (space.width + HYPERPLANE.extra_places)):
        wanted = (space.width if below else min(space.width, HYPERPLANE.extra_places)) + HYPERPLANE.extra_places
        if hits == wanted:
            if not plane.drop_worst():
                break
            hits -= 1
        expected = None if below else KnownJump(jump / sum_of_weights, sum_of_weights**-0.5)
        found = _look_at_random_place(context, plane, expected, reach, widest)
        if not found.usable:
            reach *= HYPERPLANE.shrink
            if reach < HYPERPLANE.min_reach:
                break
        elif found.other is not None and changed + 1 >= max(hits, HYPERPLANE.max_first_misses):
            below, changed, unclear = True, changed + 1, 0
        elif found.kink is None:
            changed += found.other is not None
            misses, near_misses = misses + (found.clear and found.far), near_misses + (found.clear and not found.far)
            unclear, widest = unclear + (not found.clear), min(widest + 1, len(HYPERPLANE.windows) - 1)
            most = HYPERPLANE.max_misses if hits else HYPERPLANE.max_first_misses
            refused = misses >= most and misses > hits * (HYPERPLANE.hidden_ratio if below else 1.0)
            if refused or max(near_misses, unclear - hits) > 2 * HYPERPLANE.max_misses:
                return HyperplaneReading(None, bent=refused)
        else:
            plane.add(found.x + found.kink.offset * plane.upwards, found.kink.sd)
            reach, widest = min(1.0, reach / HYPERPLANE.shrink), max(widest - 1, 0)
            hits, jump = hits + found.far, jump + found.kink.jump / found.kink.jump_sd**2
            sum_of_weights += found.kink.jump_sd**-2
    if hits < wanted:
        return HyperplaneReading(None)
    bars = np.sqrt(np.diag(plane.cov))
    return HyperplaneReading(Hyperplane(
        plane.normal, plane.offset, jump / sum_of_weights, float(bars[:-1].max(initial=0.0)), float(bars[-1]),
        sum_of_weights**-0.5), bent=below and not deep)


class KnownJump(NamedTuple):
    """The jump (outputs,) of the slope along the normal, and its standard deviation."""

    value: Array
    sd: float

    def shows(self, half: float, noise: float) -> bool:
        """Whether a kink with this jump is seen in a window."""
        return bool(np.linalg.norm(self.value) * half > 5.0 * KINK.rounding_sds * noise)

    def agrees(self, kink: LocatedKink) -> bool:
        """Whether a kink has this jump."""
        allowed = HYPERPLANE.jump_tol * float(np.abs(self.value).max()) + 4.0 * (kink.jump_sd + self.sd)
        return bool(np.abs(kink.jump - self.value).max() <= allowed)


class Look(NamedTuple):
    """A place that was looked at, whether its answers could be used, the kink if it is there.

    `far`: as far away as it was drawn; else the prediction reached only a part of the way, and a surface that turns is there too.
    `clear`: without a kink, nothing bends there, or the prediction is poor; else others are near that hide it, or rounding does.
    `other`: a kink that is where it was predicted, with another jump than the known one, as layers above give it.
    """

    x: Array
    usable: bool
    kink: LocatedKink | None
    far: bool
    clear: bool = True
    other: LocatedKink | None = None


class _Place(NamedTuple):
    """A place of a hyperplane, the standard deviation of the prediction there, whether it is as far as drawn, and the room."""

    x: Array
    sd: float
    far: bool
    room: float


def _random_place(plane: _PlaneFit, reach: float, most: float, rng: Generator) -> _Place:
    """A random place, no farther than the prediction, with an error of at most `most`, and the answers reach."""
    x = plane.random_point(reach, rng)
    sd, far = plane.sd(x), reach >= HYPERPLANE.far_share
    if sd > most:
        x, far = plane.foot(plane.x0 + 0.9 * most / sd * (x - plane.x0)), far and most >= HYPERPLANE.far_share * sd
        sd = plane.sd(x)
    return _Place(x, sd, far, plane.room(x))


def _look_at_random_place(
    context: QueryContext, plane: _PlaneFit, jump: KnownJump | None, reach: float, widest: int
) -> Look:
    """A random place of the hyperplane where known ones leave room; windows get smaller until nothing else bends there."""
    windows = plane.space.spread * np.array(HYPERPLANE.windows[widest:])
    most = HYPERPLANE.offset_share * float(windows[0]) / 4.0
    place = _random_place(plane, reach, most, context.rng)
    for _ in range(HYPERPLANE.places - 1):
        if place.room >= windows[0]:
            break
        place = max(place, _random_place(plane, reach, most, context.rng), key=lambda one: one.room)
    x, sd, far, room = place
    if sd > most:
        return Look(x, True, None, far=False)
    seen, other = False, None
    for half in windows[windows <= max(room, windows[-1])]:
        if sd > HYPERPLANE.offset_share * half / 4.0:
            break
        asked = _all_usable(context, x + half * WINDOW[:, None] * plane.upwards)
        if asked is None:
            continue
        seen, noise = True, float(context.rounding.sd(asked.x, asked.y).max())
        if jump is not None and not jump.shows(half, noise):
            break
        kink = kink_of(asked.y, noise, half)
        if kink is None and is_straight(asked.y, noise):
            return Look(x, True, None, far)
        if kink is None:
            continue
        there = abs(kink.offset) <= HYPERPLANE.explained_sds * (sd + kink.sd)
        if there if jump is None else jump.agrees(kink):
            return Look(x, True, kink, far)
        other = kink if there else other
    return Look(x, seen, None, far, clear=False, other=other)


def same_hyperplane(a: Hyperplane, b: Hyperplane) -> bool:
    """Whether two are one, up to `same`: two units that are nearer have no place where either is alone in a window."""
    side = 1.0 if float(a.normal @ b.normal) >= 0.0 else -1.0
    tol = HYPERPLANE.same + HYPERPLANE.explained_sds * (a.normal_sd + b.normal_sd + a.offset_sd + b.offset_sd)
    near = abs(a.offset - side * b.offset) <= tol * (1.0 + abs(a.offset))
    return bool(near and np.linalg.norm(a.normal - side * b.normal) <= tol)


def usable_line(queries: QueryCounter, dim: int, spread: float, point: Array | None = None, *, rng: Generator) -> Line:
    """A line in a random direction through a point, or a random one; of log-odds as much of it as can be used.

    A class may be certain in most of the domain, and at its middle: the line begins where an answer was usable, and ends before
    the nearest of some places, twice as far each time, where none is.
    """
    scale = float(spread * np.sqrt(dim))
    line = random_line(dim, HYPERPLANE.line_reach * scale, spread, queries.box, rng=rng)
    if point is not None or queries.resolution is not None:
        point = _usable_point(queries, dim, spread, rng) if point is None else point
        line = line_through(point, line.direction, HYPERPLANE.line_reach * scale, scale, queries.box)
    if queries.resolution is None:
        return line
    low, high = (_usable_end(queries, line, end) for end in (line.low, line.high))
    return replace(line, low=low, high=high, scale=min(line.scale, (high - low) / 6.0))


def _usable_point(queries: QueryCounter, dim: int, spread: float, rng: Generator) -> Array:
    """A random input whose answer can be used; the last one that was tried if none can."""
    for share in HYPERPLANE.spreads:
        x = share * spread * rng.standard_normal((HYPERPLANE.points_at_once, dim))
        if queries.box is not None:
            x = queries.box.low + (queries.box.high - queries.box.low) * rng.random(x.shape)
        usable = queries.ask_usable(x, "recognise").x
        if len(usable):
            return np.asarray(usable[0])
    return np.asarray(x[0])


def _usable_end(queries: QueryCounter, line: Line, end: float) -> float:
    """The farthest place towards an end up to which answers can be used."""
    t = end * 2.0 ** -np.arange(HYPERPLANE.halvings, -1.0, -1.0)
    for _ in range(2):
        x = line(t)
        usable = {tuple(row) for row in queries.ask_usable(x, "recognise").x}
        good = np.array([tuple(row) in usable for row in x])
        first = len(t) if good.all() else int(np.argmin(good))
        if first in (0, len(t)):
            break
        t = np.linspace(t[first - 1], t[first], HYPERPLANE.points_at_once, endpoint=False)
    return float(t[max(first - 1, 0)])


class HyperplaneSearch:
    """Hyperplanes found so far, and how many kinks of lines were followed in vain."""

    def __init__(self, context: QueryContext, dim: int, spread: float) -> None:
        self.context, self.dim, self.spread = context, dim, spread
        self.planes: list[Hyperplane] = []
        self.met: list[Array] = []  # where
        self.lines = self.quiet = self.refused = self.bent = 0

    @property
    def scale(self) -> float:
        """The length on which the answers bend."""
        return float(self.spread * np.sqrt(self.dim))

    def search(self) -> None:
        """Lines until several in a row bring nothing new, or no more queries are left than readouts and fresh answers take."""
        self.quiet, most = 0, self.lines + HYPERPLANE.max_lines
        while self.quiet < HYPERPLANE.quiet_lines and self.lines < most and not self._must_end():
            self.follow(usable_line(self.context.queries, self.dim, self.spread, rng=self.context.rng))

    def follow(self, line: Line) -> int:
        """The number of new hyperplanes at the kinks of a line."""
        self._refresh_rounding()
        self.lines += 1
        along = answers_along(self.context, line)
        try:
            ends = [end_piece(along, line, end) for end in (line.low, line.high)]
            profile = find_kinks(along, line, ends, max_queries=HYPERPLANE.queries_per_line)
        except (NotSeparated, AssumptionViolated):
            return 0
        before, across = len(self.planes), SlopesAcross(self.context, profile)
        for i, kink in enumerate(profile.kinks):
            x = line(kink.t)[0]
            if not self._explained(x, line.direction, kink.sd):
                self._add(across.rough_hyperplane(i), x)
        self.quiet = 0 if len(self.planes) > before else self.quiet + bool(profile.kinks)
        return len(self.planes) - before

    def look_at(self, targets: Array) -> bool:
        """Whether lines through points that are not predicted show an unknown hyperplane."""
        queries, rng = self.context.queries, self.context.rng
        return any(
            self.follow(usable_line(queries, self.dim, self.spread, target, rng=rng)) for target in targets[: HYPERPLANE.targets])

    def located(self) -> tuple[Surface, ...]:
        """The hyperplanes, for a reading of several layers."""
        return tuple(
            Surface(normal, -offset, sd, x, (x - self.spread * normal, x + self.spread * normal))
            for (normal, offset, _, sd, _, _), x in zip(self.planes, self.met, strict=True))

    def _is_deep(self) -> bool:
        """Whether too many kinks are on no hyperplane, or on none that could be seen."""
        known = len(self.planes)
        return (
            self.bent > HYPERPLANE.max_bent + HYPERPLANE.max_bent_share * known
            or self.refused > HYPERPLANE.max_refused * max(known, self.dim))

    def _must_end(self) -> bool:
        left = self.context.queries.left
        return bool(self.planes) and left is not None and left < HYPERPLANE.reserve * (len(self.planes) + self.dim + 1)

    def model(self) -> PartialNetwork:
        """The function with these units: readouts and the linear part by least squares on answers at random inputs."""
        dim, planes, origin = self.dim, self.planes, np.zeros(self.dim)
        k, outputs = len(planes), len(planes[0].jump)
        side = np.array([1.0 if plane.offset > 0.0 else -1.0 for plane in planes])
        normals = side[:, None] * np.array([plane.normal for plane in planes])
        distances = np.array([abs(plane.offset) for plane in planes])
        count, left = int(HYPERPLANE.answers_per_unknown * (k + dim + 1)), self.context.queries.left
        count = count if left is None else min(count, left)
        asked = ask_random_points(self.context, dim, count, self.spread, "polish")
        features = np.hstack([np.maximum(asked.x @ normals.T - distances, 0.0), asked.x, np.ones((len(asked.x), 1))])
        weight = 1.0 / self.context.rounding.sd(asked.x, asked.y)
        jumps, bars = np.array([plane.jump for plane in planes]), np.array([plane.jump_sd for plane in planes])
        prior = np.hstack([np.diag(1.0 / bars), np.zeros((k, dim + 1))])
        matrix = np.vstack([weight[:, None] * features, prior])
        right = np.vstack([weight[:, None] * asked.y.reshape(-1, outputs), jumps / bars[:, None]])
        solution = np.linalg.lstsq(matrix, right, rcond=None)[0]
        sds = np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)))
        units = UnitEstimates(
            normals, distances, solution[:k], np.array([plane.normal_sd for plane in planes]),
            np.array([plane.offset_sd for plane in planes]), sds[:k])
        return PartialNetwork(origin, solution[-1].reshape(outputs), solution[k:-1], float(sds[k:-1].max()), units)

    def _add(self, rough: Hyperplane | None, x: Array) -> None:
        plane, bent = HyperplaneReading(None) if rough is None else measure_hyperplane(
            self.context, rough, x, input_space(self.dim, self.spread), known=self.planes)
        self.bent += bent
        self.refused += plane is None
        if plane is not None and not any(same_hyperplane(plane, known) for known in self.planes):
            self.planes.append(plane)
            self.met.append(x)
        if self._is_deep():
            raise deep_network_error(self.context.queries.total, self.located())

    def _explained(self, x: Array, u: Array, sd: float) -> bool:
        """Whether a known hyperplane passes through a place of a line, within error bars along the line."""
        for plane in self.planes:
            bar = plane.offset_sd + plane.normal_sd * float(np.linalg.norm(x)) + sd * abs(float(plane.normal @ u))
            if abs(float(plane.normal @ x) - plane.offset) <= HYPERPLANE.explained_sds * bar:
                return True
        return False

    def _refresh_rounding(self) -> None:
        """Whether small probabilities keep their digits shows only once some were seen."""
        queries, rounding, _ = self.context
        grid = None if queries.resolution is None else queries.resolution()
        if grid is not None:
            self.context = self.context._replace(rounding=replace(rounding, lossy=grid.lossy))


class LocatedReader:
    """Reads one hidden layer by hyperplanes from located kinks."""

    search: HyperplaneSearch
    first: Line | None = None

    def __init__(self, queries: QueryCounter, dim: int, options: ReaderOptions, rng: Generator) -> None:
        self.queries, self.dim, self.options, self.rng = queries, dim, options, rng

    def read(self) -> SingleLayerState:
        """The units on all lines until several in a row bring nothing new, or as many as the budget allows.

        If it is called again, further lines are looked at.
        """
        ended = None
        if self.first is None:
            self.first, rounding = self._rounding()
            self.search = HyperplaneSearch(QueryContext(self.queries, rounding, self.rng), self.dim, self.options.spread)
        try:
            self.search.search()
        except BudgetExhausted as error:
            ended = error
        if not self.search.planes:
            raise ended or NotSeparated(
                f"{self.search.lines} lines have met no hyperplane on which the answers bend.",
                "Either the function is linear, or the answers are too coarse for its units.", "Use a method for samples.")
        return self._state(self.first, ended)

    def look_at(self, state: SingleLayerState, targets: Array) -> SingleLayerState:
        """With the units that lines through points which contradict the model have shown; inconsistent if there are none."""
        if not self.search.look_at(targets):
            return replace(state, lines=self.search.lines, inconsistent=True)
        return self._state(state.first, None)

    def _state(self, line: Line, ended: BudgetExhausted | None) -> SingleLayerState:
        search = self.search
        return SingleLayerState(
            search.model(), search.context.rounding, line, search.lines, search.quiet, len(search.planes), self.options,
            Patience(), ended)

    def _rounding(self) -> tuple[Line, Rounding]:
        """A line whose answers can be used, and how exact they are."""
        failed: NotSeparated | None = None
        for _ in range(HYPERPLANE.max_first_lines):
            line = usable_line(self.queries, self.dim, self.options.spread, rng=self.rng)
            try:
                return line, check_piecewise_linear(self.queries, line).rounding
            except NotSeparated as error:
                failed = error
        assert failed is not None
        raise failed
