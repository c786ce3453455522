"""Kinks of a line in a feature space, the surfaces they lie on, and whether these are hyperplanes.

The gradient with respect to the features jumps at a kink by δ ⊗ r, which gives the normal r and the offset of the surface, as for
a single layer. A unit of the next layer bends on a hyperplane of the feature space; a unit further up bends on a surface that
turns wherever it meets one. **Far check** (3 queries): does the function bend on the supposed hyperplane far away from the kink?
Near the kink the answer would always be yes, because every surface is flat locally.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from laybare.lines.feature_space import SURFACE, FeatureSpace
from laybare.lines.kinks import LineProfile
from laybare.lines.line import KINK
from laybare.lines.query import QueryContext, QueryCounter
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding

PLACES = (0.5, 0.35, 0.6, 0.45)
"""Where on a piece the gradient is measured, as shares of its length. Convention: the middle first."""

Verdict: TypeAlias = Literal["hyperplane", "undecided", "curved"]
"""Undecided: it bends wherever it was tested, but random points are all on one side of it, so it was not tested far away."""


class PieceGradient(NamedTuple):
    """The gradient (width, outputs) with respect to the features, at an input `x`, with its standard deviation, and f(x)."""

    x: Array
    values: Array
    sd: float
    answer: Array


class Surface(NamedTuple):
    """normal·h + offset = 0 with |normal| = 1, in the features of a space; `sd` of the normal's entries.

    `x` lies on it; `beyond` are two inputs on the line that has met it there, one on each side. `far`: of the kinks of that line,
    their median distance from its middle in the line's scales, at least 1: nearer places may all lie in one cell.
    """

    normal: Array
    offset: float
    sd: float
    x: Array
    beyond: tuple[Array, Array]
    far: float = 1.0

    def height(self, space: FeatureSpace, x: Array) -> float:
        """normal·h + offset at an input."""
        return float(self.normal @ space.features(x[None])[0]) + self.offset


def measure_gradient(
    context: QueryContext, space: FeatureSpace, profile: LineProfile, k: int, share: float | None = None
) -> PieceGradient | None:
    """The gradient on piece k, width + 1 queries, about twice as many for coarse answers; None if no place on it agrees with the
    slope along the line.

    `share`: the step, relative to half the piece. Longer steps are more exact and cross more surfaces.
    """
    rounding, line, piece = context.rounding, profile.line, profile.pieces[k]
    left, right = _ends_of_piece(profile, k)
    share = share or (SURFACE.step if rounding.fine else SURFACE.first_coarse_step)
    along, measure = space.matrix @ line.direction, _checked_by_mixture if rounding.fine else _checked_by_halves
    for turn in range(SURFACE.max_tries):
        tau = left + PLACES[turn] * (right - left)
        x, value = line(tau)[0], piece.value(tau)
        steps = _steps_within(space, x, share * 8.0**-turn * (right - left) / 2.0)
        slopes = measure(context, space, x, value, steps) if steps.all() else None
        if slopes is None:
            continue
        noise = np.hypot(slopes.noise, piece.sd_at(tau) / np.abs(slopes.steps))
        off = float(np.abs(along @ slopes.values - piece.slope).max())
        if off <= 2.0 * KINK.rounding_sds * np.hypot(float(np.linalg.norm(along * noise)), piece.slope_sd):
            return PieceGradient(x, slopes.values, float(np.sqrt(np.mean(noise**2))), value)
    return None


class _StepSlopes(NamedTuple):
    """Slopes (width, outputs) along the features, the steps (width,) over which they were taken, and what rounding leaves."""

    values: Array
    steps: Array
    noise: Array


def _checked_by_mixture(context: QueryContext, space: FeatureSpace, x: Array, value: Array, steps: Array) -> _StepSlopes | None:
    """Slopes over steps of which none crosses a kink: a random mixture of all changes the answer by the mixture of their changes.

    One query more. What a step has crossed counts with its weight in the mixture, and fine answers show any weight.
    """
    queries, rounding, rng = context
    y = _ask_steps(queries, space, x, steps)
    mixture = rng.dirichlet(np.ones(len(steps)))
    mixed = x + space.inverse @ (mixture * steps)
    asked = None if y is None else queries.ask_if_usable(mixed[None], "gradients")
    if y is None or asked is None:
        return None
    rise = y - value
    if np.abs((asked[0] - value) - mixture @ rise).max() > 4.0 * KINK.rounding_sds * rounding.sd(mixed[None], asked)[0]:
        return None
    return _StepSlopes(rise / steps[:, None], steps, rounding.sd(x[None], y[:1])[0] / np.abs(steps))


def _checked_by_halves(context: QueryContext, space: FeatureSpace, x: Array, value: Array, steps: Array) -> _StepSlopes | None:
    """Slopes over steps of which none crosses a kink: half of a step makes half of its change, up to rounding.

    Behind a small weight of a mixture an error of many standard deviations would hide from coarse answers; each step by itself
    hides a few. A step that is bent is taken again, an eighth as long; what is left of a bend after that counts as rounding.
    """
    queries, rounding, _ = context
    values, noise, steps = np.zeros((len(steps), len(value))), np.zeros(len(steps)), steps.copy()
    bent = np.arange(len(steps))
    for turn in range(SURFACE.max_tries):
        moves = steps[bent, None] * space.inverse.T[bent]
        y = queries.ask_if_usable(np.vstack([x + moves, x + moves / 2.0]), "gradients")
        if y is None:
            return None
        whole, half = np.split(y - value, 2)
        sd, off = float(rounding.sd(x[None], y[:1])[0]), np.abs(half - whole / 2.0).max(axis=1)
        clear = off <= 4.0 * KINK.rounding_sds * sd
        values[bent] = whole / steps[bent, None]
        noise[bent] = np.where(clear, sd, 2.0 * off) / np.abs(steps[bent])
        bent = bent[~clear]
        if not len(bent) or turn == SURFACE.max_tries - 1:
            break
        steps[bent] /= 8.0
    return _StepSlopes(values, steps, noise)


def _ask_steps(queries: QueryCounter, space: FeatureSpace, x: Array, steps: Array) -> Array | None:
    """Answers after one step along every feature; None if a class is certain at one of them."""
    if space.layers or queries.resolution is not None:
        return queries.ask_if_usable(x + steps[:, None] * space.inverse.T, "gradients")
    return queries.ask_stencil(x, np.arange(len(x)), steps, "gradients")


def _ends_of_piece(profile: LineProfile, k: int) -> tuple[float, float]:
    """Where piece k begins and ends; an outer piece is no longer than its distance from the middle of the line."""
    line, t = profile.line, [kink.t for kink in profile.kinks]
    if not t:
        return max(line.low, -2.0 * line.scale), min(line.high, 2.0 * line.scale)
    left = t[k - 1] if k > 0 else max(line.low, t[0] - 2.0 * line.scale - abs(t[0]))
    return left, t[k] if k < len(t) else min(line.high, left + 2.0 * line.scale + abs(left))


def changes_along(
    context: QueryContext, space: FeatureSpace, profile: LineProfile, pieces: list[int], direction: Array
) -> list[bool]:
    """Whether the function changes along a direction of the features, on each of some pieces: one query each."""
    queries, rounding, _ = context
    line, x, values, sds, steps = profile.line, [], [], [], []
    v = space.inverse @ (direction / np.linalg.norm(direction))
    for k in pieces:
        left, right = _ends_of_piece(profile, k)
        tau = left + PLACES[0] * (right - left)
        low, high = space.interval(line(tau)[0], v)
        step = min(0.01 * (right - left), 0.5 * max(high, -low)) * (1.0 if high >= -low else -1.0)
        x.append(line(tau)[0] + step * v)
        values.append(profile.pieces[k].value(tau))
        sds.append(profile.pieces[k].sd_at(tau))
        steps.append(step)
    y = queries.ask_if_usable(np.array(x), "checks")
    if y is None:
        return [True] * len(pieces)
    noise = np.hypot(rounding.sd(np.array(x), y), sds)
    off = np.abs(y - np.array(values)).max(axis=1)
    steepest = max(float(np.abs(piece.slope).max()) for piece in profile.pieces)
    return [bool(felt) for felt in off > 2.0 * KINK.rounding_sds * noise + SURFACE.blind_slope * np.abs(steps) * steepest]


def _steps_within(space: FeatureSpace, x: Array, size: float) -> Array:
    """One signed step for every feature, within the boundaries; 0 if there is no room."""
    slack, rates = np.maximum(space.slack(x), 0.0), space.boundaries @ space.inverse
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = -slack[:, None] / rates
    up = np.where(rates < 0.0, ends, np.inf).min(axis=0, initial=np.inf)
    down = -np.where(rates > 0.0, ends, -np.inf).max(axis=0, initial=-np.inf)
    lengths = np.minimum(size / np.linalg.norm(space.inverse, axis=0), 0.5 * np.maximum(up, down))
    return np.asarray(np.where(up >= down, 1.0, -1.0) * lengths)


def measure_surface(
    context: QueryContext, space: FeatureSpace, profile: LineProfile, i: int, gradients: dict[int, PieceGradient | None]
) -> Surface | None:
    """The surface of kink i from the gradients on its two sides, measured again with longer steps if it is inexact.

    None if one of them could not be measured, if they do not differ by a matrix of rank one, or if it stays inexact.
    """
    level = _max_normal_sd(context.rounding)
    surface = _surface_between(space, profile, i, gradients[i], gradients[i + 1])
    if surface is not None and surface.sd > level:
        again = [measure_gradient(context, space, profile, k, SURFACE.coarse_step) for k in (i, i + 1)]
        surface = _surface_between(space, profile, i, *again)
    return surface if surface is not None and surface.sd <= level else None


def _max_normal_sd(rounding: Rounding) -> float:
    return SURFACE.max_normal_sd if rounding.fine else SURFACE.rough_normal_sd


def _surface_between(
    space: FeatureSpace, profile: LineProfile, i: int, left: PieceGradient | None, right: PieceGradient | None
) -> Surface | None:
    if left is None or right is None:
        return None
    kink, line = profile.kinks[i], profile.line
    x = line(kink.t)[0]
    jump = right.values - left.values
    normal = jump @ kink.jump
    size = float(np.linalg.norm(normal))
    sd = float(np.hypot(left.sd, right.sd)) * float(np.linalg.norm(kink.jump))
    if size == 0.0:
        return None
    normal, sd = normal / size, sd / size
    rest = jump - np.outer(normal, normal @ jump)
    if np.abs(rest).max() > 1e-6 * np.abs(jump).max() + 10.0 * np.hypot(left.sd, right.sd):
        return None
    away = SURFACE.beyond * (line.scale + abs(kink.t))
    beyond = line(max(line.low, kink.t - away))[0], line(min(line.high, kink.t + away))[0]
    far = max(1.0, float(np.median(np.abs(profile.places))) / line.scale)
    return Surface(normal, -float(normal @ space.features(x[None])[0]), sd, x, beyond, far)


def classify_surface(context: QueryContext, space: FeatureSpace, surface: Surface) -> Verdict:
    """Far checks until they decide: 3 queries each, 15 for a unit that nothing hides."""
    score, everywhere = 0, True
    across = space.inverse @ surface.normal
    for _ in range(SURFACE.max_checks):
        x = _random_point_on(context, space, surface, across)
        everywhere = everywhere and x is not None
        x = _point_beside_kink(context, space, surface) if x is None else x
        score += bend_at_hyperplane(context, space, surface, x, across)
        if score >= SURFACE.accept_score or score <= SURFACE.reject_score:
            break
    return verdict_of(score, everywhere=everywhere)


def verdict_of(score: int, *, everywhere: bool) -> Verdict:
    """From hits minus misses, and whether all checks were at random points."""
    return "curved" if score < SURFACE.accept_score else "hyperplane" if everywhere else "undecided"


def _random_point_on(context: QueryContext, space: FeatureSpace, surface: Surface, across: Array) -> Array | None:
    """A random point of the hyperplane: in the input space the foot of a random point, as far out as kinks are, else between two.

    Where units bend far from the inputs' centre (trained ones may: ten times as far as inputs spread), all places near it lie in
    one cell, in which every surface is straight.
    """
    x = space.random_point(context.rng)
    if not space.layers:
        x = SURFACE.far_places * surface.far * x
        return np.asarray(x - surface.height(space, x) * across)
    side = surface.height(space, x)
    others = (space.random_point(context.rng) for _ in range(SURFACE.max_pairs))
    y = next((y for y in others if surface.height(space, y) * side < 0.0), None)
    return None if y is None else _crossing(space, surface, x, y)


def _point_beside_kink(context: QueryContext, space: FeatureSpace, surface: Surface) -> Array:
    """A point of the hyperplane between a random point and one of the surface's own line."""
    x = space.random_point(context.rng)
    side = surface.height(space, x)
    end = next(end for end in surface.beyond if surface.height(space, end) * side <= 0.0)
    return _crossing(space, surface, x, surface.x + context.rng.uniform(0.3, 1.0) * (end - surface.x))


def _crossing(space: FeatureSpace, surface: Surface, x: Array, y: Array) -> Array:
    side = surface.height(space, x)
    return np.asarray(x + side / (side - surface.height(space, y)) * (y - x))


def bend_at_hyperplane(context: QueryContext, space: FeatureSpace, surface: Surface, x: Array, across: Array) -> int:
    """1 if the function bends at a point x of the supposed hyperplane, -1 if not, 0 if it is constant there.

    It is constant where all units above are inactive; nothing can be seen then, nor where a class is certain to rounding.
    """
    unsure = 10.0 * surface.sd * float(np.linalg.norm(space.features(x[None])[0]) + 1.0)
    low, high = space.interval(x, across)
    step = min(max(SURFACE.check_step * space.spread, unsure), 0.5 * high, -0.5 * low)
    points = x + step * np.array([[-1.0], [0.0], [1.0]]) * across
    y = context.queries.ask_if_usable(points, "checks")
    if y is None:
        return 0
    noise = 2.0 * KINK.rounding_sds * context.rounding.sd(points, y).max()
    if np.abs(y[0] - 2.0 * y[1] + y[2]).max() > np.sqrt(6.0) * noise:
        return 1
    return 0 if np.abs(y[2] - y[0]).max() <= np.sqrt(2.0) * noise else -1
