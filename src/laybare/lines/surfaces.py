"""Kinks of a line on a floor, the surfaces they lie on, and whether these are hyperplanes.

The gradient with respect to the floor's features jumps at a kink by δ ⊗ r, from which the normal r and the offset of the surface
follow, as for a single layer. A unit of the next layer bends on a hyperplane of the floor; a unit further up bends on a surface
that turns wherever it meets one. **Far check** (3 queries): walk along the supposed hyperplane, far away from the kink, and look
whether the function bends there. Looking near the kink would say nothing, because every surface is flat locally.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.lines.asking import Purse
from laybare.lines.floors import Floor
from laybare.lines.kinks import Along, Bends
from laybare.lines.line import Line
from laybare.lines.straight import SIGMAS, LinePoints
from laybare.shapes import Array
from laybare.source.rounding import Rounding

STEP, COARSE_STEP, TRIES = 1e-3, 0.05, 4
"""Steps of a gradient relative to half a piece, with float64 and with coarser answers; a piece is tried so often, with an eighth
of the step each time. Longer steps are more exact and cross more surfaces."""

PLACES = np.array([0.5, 0.35, 0.6, 0.45])
"""Where on a piece the gradient is measured."""

APART = 1e-4
"""Distance of the outer points of a far check, in units of the inputs' scale."""

PAIRS, BEYOND = 20, 3.0
"""Random points among which one on the other side of a hyperplane is looked for, and how far beyond it a line is followed."""

WELL = 1e-7
"""Standard deviation of a normal beyond which a surface is left to another line, with float64 answers."""

BLIND = 1e-7
"""Slopes along a direction that known units do not feel are zero up to this share of the others: their normals have errors."""

ACCEPT, REJECT, MOST_CHECKS = 5, -3, 30
"""Hits minus misses at which a surface is taken for a hyperplane, or not. Units of the next layer are hit unless what lies above
hides them (one time in ten), others hardly ever: a wrong answer takes 1e-6."""


Verdict: TypeAlias = Literal["hyperplane", "suspect", "bent"]


class PieceSlope(NamedTuple):
    """The gradient (width, outputs) with respect to the features, at an input `x`, with its standard deviation, and f(x)."""

    x: Array
    values: Array
    sd: float
    answer: Array


class Surface(NamedTuple):
    """normal·h + shift = 0 with |normal| = 1, in the features of a floor; `sd` of the normal's entries.

    `x` is on it; `beyond` are two inputs on the line that has met it there, one on each side.
    """

    normal: Array
    shift: float
    sd: float
    x: Array
    beyond: tuple[Array, Array]


def along_line(purse: Purse, line: Line, rounding: Rounding) -> Along:
    """Answers along a line, with their rounding."""

    def along(t: Array) -> LinePoints:
        x = line(t)
        y = purse.ask(x, "kinks")
        return LinePoints(y, rounding.sd(x, y))

    return along


def read_slope(
    purse: Purse, floor: Floor, bends: Bends, k: int, rounding: Rounding, *, share: float | None = None, rng: Generator
) -> PieceSlope | None:
    """The gradient on piece k, width + 1 queries; None if no place on it agrees with the slope along the line."""
    line, piece = bends.line, bends.pieces[k]
    left, right = _ends(bends, k)
    share = share or (STEP if rounding.fine else COARSE_STEP)
    for turn in range(TRIES):
        tau = left + PLACES[turn] * (right - left)
        x = line(tau)[0]
        steps = _steps(floor, x, share * 8.0**-turn * (right - left) / 2.0)
        if not steps.all():
            continue
        y = _star(purse, floor, x, steps)
        values = (y - piece.value(tau)) / steps[:, None]
        noise = np.hypot(rounding.sd(x[None], y[:1])[0], piece.sd_at(tau)) / np.abs(steps)
        along = floor.matrix @ line.direction
        off = float(np.abs(along @ values - piece.slope).max())
        within = off <= 2.0 * SIGMAS * np.hypot(float(np.linalg.norm(along * noise)), piece.slope_sd)
        if within and _adds_up(purse, floor, x, steps, y, piece.value(tau), rounding=rounding, rng=rng):
            return PieceSlope(x, values, float(np.sqrt(np.mean(noise**2))), piece.value(tau))
    return None


def _star(purse: Purse, floor: Floor, x: Array, steps: Array) -> Array:
    """Answers at one step for every feature."""
    if not floor.layers:
        return purse.ask_star(x, np.arange(len(x)), steps, "gradients")
    return purse.ask(x + steps[:, None] * floor.inverse.T, "gradients")


def _adds_up(
    purse: Purse, floor: Floor, x: Array, steps: Array, answers: Array, value: Array, *, rounding: Rounding, rng: Generator
) -> bool:
    """Whether a random mixture of all steps gives the mixture of their answers: a step across a kink does not. One query."""
    mixture = rng.dirichlet(np.ones(len(steps)))
    mixed = x + floor.inverse @ (mixture * steps)
    y = purse.ask(mixed[None], "gradients")
    off = np.abs((y[0] - value) - mixture @ (answers - value)).max()
    return bool(off <= 4.0 * SIGMAS * rounding.sd(mixed[None], y)[0])


def _ends(bends: Bends, k: int) -> tuple[float, float]:
    """Where piece k begins and ends; the outer pieces no longer than what lies between them and the middle of the line."""
    line, t = bends.line, [kink.t for kink in bends.kinks]
    if not t:
        return max(line.low, -2.0 * line.scale), min(line.high, 2.0 * line.scale)
    left = t[k - 1] if k > 0 else max(line.low, t[0] - 2.0 * line.scale - abs(t[0]))
    return left, t[k] if k < len(t) else min(line.high, left + 2.0 * line.scale + abs(left))


def feels(purse: Purse, floor: Floor, bends: Bends, pieces: list[int], blind: Array, rounding: Rounding) -> list[bool]:
    """Whether the function changes along a direction of the features, on each of some pieces: one query each."""
    line, x, values, sds, steps = bends.line, [], [], [], []
    v = floor.inverse @ (blind / np.linalg.norm(blind))
    for k in pieces:
        left, right = _ends(bends, k)
        tau = left + PLACES[0] * (right - left)
        low, high = floor.room(line(tau)[0], v)
        step = min(0.01 * (right - left), 0.5 * max(high, -low)) * (1.0 if high >= -low else -1.0)
        x.append(line(tau)[0] + step * v)
        values.append(bends.pieces[k].value(tau))
        sds.append(bends.pieces[k].sd_at(tau))
        steps.append(step)
    y = purse.ask(np.array(x), "checks")
    noise = np.hypot(rounding.sd(np.array(x), y), sds)
    off = np.abs(y - np.array(values)).max(axis=1)
    steepest = max(float(np.abs(piece.slope).max()) for piece in bends.pieces)
    return [bool(felt) for felt in off > 2.0 * SIGMAS * noise + BLIND * np.abs(steps) * steepest]


def _steps(floor: Floor, x: Array, size: float) -> Array:
    """One signed step for every feature, within the walls; 0 if there is no room."""
    slack, rates = np.maximum(floor.slack(x), 0.0), floor.walls @ floor.inverse
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = -slack[:, None] / rates
    up = np.where(rates < 0.0, ends, np.inf).min(axis=0, initial=np.inf)
    down = -np.where(rates > 0.0, ends, -np.inf).max(axis=0, initial=-np.inf)
    lengths = np.minimum(size / np.linalg.norm(floor.inverse, axis=0), 0.5 * np.maximum(up, down))
    return np.asarray(np.where(up >= down, 1.0, -1.0) * lengths)


def read_surface(
    purse: Purse, floor: Floor, bends: Bends, i: int, slopes: dict[int, PieceSlope | None], rounding: Rounding, *,
    rng: Generator,
) -> Surface | None:
    """The surface of kink i from the gradients on its two sides, measured again by longer steps if they leave it unsure.

    None if one of them could not be measured, if they do not differ by a matrix of rank one, or if it stays unsure.
    """
    sides = [slopes[i], slopes[i + 1]]
    surface = _surface(floor, bends, i, *sides)
    if surface is not None and surface.sd > _well(rounding):
        again = [read_slope(purse, floor, bends, k, rounding, share=COARSE_STEP, rng=rng) for k in (i, i + 1)]
        surface = _surface(floor, bends, i, *again)
    return surface if surface is not None and surface.sd <= _well(rounding) else None


def _well(rounding: Rounding) -> float:
    return float(WELL * max(1.0, rounding.unit / 2.0**-53) ** 0.5)


def _surface(floor: Floor, bends: Bends, i: int, left: PieceSlope | None, right: PieceSlope | None) -> Surface | None:
    if left is None or right is None:
        return None
    kink, x, line = bends.kinks[i], bends.line(bends.kinks[i].t)[0], bends.line
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
    away = BEYOND * (line.scale + abs(kink.t))
    beyond = line(max(line.low, kink.t - away))[0], line(min(line.high, kink.t + away))[0]
    return Surface(normal, -float(normal @ floor.features(x[None])[0]), sd, x, beyond)


def judge(purse: Purse, floor: Floor, surface: Surface, rounding: Rounding, *, rng: Generator) -> Verdict:
    """Far checks until they decide: 3 queries each, 15 for a unit that nothing hides.

    "suspect": it bends wherever it was looked at, but random points are all on one side of it, so that it was not followed far.
    """
    score, everywhere = 0, True
    across = floor.inverse @ surface.normal
    for _ in range(MOST_CHECKS):
        x = _between(floor, surface, across, rng)
        everywhere = everywhere and x is not None
        x = _beside(floor, surface, rng) if x is None else x
        score += bends_across(purse, floor, surface, x, across, rounding)
        if score >= ACCEPT or score <= REJECT:
            break
    return "bent" if score < ACCEPT else "hyperplane" if everywhere else "suspect"


def _between(floor: Floor, surface: Surface, across: Array, rng: Generator) -> Array | None:
    """A random point of the hyperplane within the walls: on floor 0 the foot of a random point, else between two of them."""
    x = floor.point(rng)
    side = _height(floor, surface, x)
    if not floor.layers:
        return np.asarray(x - side * across)
    others = (floor.point(rng) for _ in range(PAIRS))
    y = next((y for y in others if _height(floor, surface, y) * side < 0.0), None)
    return None if y is None else _crossing(floor, surface, x, y)


def _beside(floor: Floor, surface: Surface, rng: Generator) -> Array:
    """A point of the hyperplane between a random point and one of the surface's own line."""
    x = floor.point(rng)
    side = _height(floor, surface, x)
    end = next(end for end in surface.beyond if _height(floor, surface, end) * side <= 0.0)
    return _crossing(floor, surface, x, surface.x + rng.uniform(0.3, 1.0) * (end - surface.x))


def _crossing(floor: Floor, surface: Surface, x: Array, y: Array) -> Array:
    side = _height(floor, surface, x)
    return np.asarray(x + side / (side - _height(floor, surface, y)) * (y - x))


def _height(floor: Floor, surface: Surface, x: Array) -> float:
    return float(surface.normal @ floor.features(x[None])[0]) + surface.shift


def bends_across(purse: Purse, floor: Floor, surface: Surface, x: Array, across: Array, rounding: Rounding) -> int:
    """1 if the function bends where the hyperplane is supposed to be, -1 if not, 0 if it does not change there at all.

    Where all units above are off, nothing can be seen.
    """
    unsure = 10.0 * surface.sd * float(np.linalg.norm(floor.features(x[None])[0]) + 1.0)
    low, high = floor.room(x, across)
    step = min(max(APART * floor.spread, unsure), 0.5 * high, -0.5 * low)
    points = x + step * np.array([[-1.0], [0.0], [1.0]]) * across
    y = purse.ask(points, "checks")
    noise = 2.0 * SIGMAS * rounding.sd(points, y).max()
    if np.abs(y[0] - 2.0 * y[1] + y[2]).max() > np.sqrt(6.0) * noise:
        return 1
    return 0 if np.abs(y[2] - y[0]).max() <= np.sqrt(2.0) * noise else -1
