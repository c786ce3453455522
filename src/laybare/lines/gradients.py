"""Gradients of the pieces of a line, and from their differences the units: dim queries a piece.

At a kink the gradient jumps by δ ⊗ r: δ (outputs,) is the jump of the slope along the line, which the line itself has told to
many digits, and r (dim,) the normal of the unit's hyperplane, scaled so that r·u = 1. A gradient is measured by one step along
each axis from the middle of the piece, whose value is known from the line. One gradient serves the kinks on both of its sides.

**Steps are long**, because rounding counts as rounding / step: a few per cent of the piece's length. Some of them then cross
hyperplanes. Where the line has met unit i at tᵢ, the unit's part of the answer at x(τ) + s e_j is

    δᵢ relu(τ - tᵢ + s rᵢⱼ)

so a crossing is no accident but a known function of what is asked for: it is computed from the first estimate and taken off.
Only a step across one of the two kinks next to the piece says nothing about the piece; it shows as |s rᵢⱼ| ≥ |τ - tᵢ|, and the
axis is asked again backwards.

**Free check.** g·u must be the slope of the piece. If not, a unit that the line has not met was crossed: the axis is found by
halving (sums over half of the axes, with short steps) and asked again with a short step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.errors import BudgetExhausted, NotSeparated
from laybare.lines.asking import Purse
from laybare.lines.book import Book
from laybare.lines.kinks import Bends
from laybare.lines.line import room
from laybare.lines.straight import SIGMAS
from laybare.shapes import Array
from laybare.source.rounding import Rounding

STEP, COARSE_STEP = 0.03, 0.15
"""Length of a step relative to half a piece: with float64 answers, and with coarser ones. A share 2·STEP/π of the axes is asked
again."""

NEXT_TO = 0.7
"""Share of the way to the next kink beyond which a step says nothing about the piece."""

TRIES, REPAIRS, ROUNDS = 6, 3, 12
"""Axes are asked again at most so often, and pieces repaired; crossings settle in two or three rounds. A piece that still
does not agree is left to another line."""

DOUBTFUL = 0.25
"""Share of the pieces of a line that may contradict its slopes. Of a line that was read rightly a few do, where a step has
crossed a unit that the line does not meet."""


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients (pieces, dim, outputs) of what the book does not explain, their standard deviations, and the pieces that were
    measured and agree with the slope of the line."""

    centres: Array
    values: Array
    sd: Array
    normals: Array
    good: Array


class Measured:
    """The stars of a line while they are being asked: answers minus base value, and signed steps, for every piece and axis."""

    def __init__(self, bends: Bends, outputs: int, known: Array, rounding: Rounding) -> None:
        self.bends = bends
        dim, pieces = len(bends.line.point), len(bends.pieces)
        self.kinks = np.array([kink.t for kink in bends.kinks])
        self.jumps = np.array([kink.jump for kink in bends.kinks]).reshape(-1, outputs)
        self.centres, self.halves = _centres(bends)
        self.steps = np.ones((pieces, dim))
        self.rise = np.zeros((pieces, dim, outputs))
        self.noise = np.zeros((pieces, dim))
        self.asked = known.copy()
        self.known = known
        self.share = STEP if rounding.fine else COARSE_STEP


def read_gradients(
    purse: Purse, book: Book | None, bends: Bends, rounding: Rounding, known: Array, *, picky: bool = False, rng: Generator
) -> Gradients:
    """Gradients of all pieces beside a kink, and the normals r (kinks, dim).

    `known` (pieces,) marks pieces on which the book is exact: their gradient is zero, and costs nothing. BudgetExhausted is not
    raised: pieces that could not be paid for are not `good`. If `picky`, NotSeparated is raised before anything is repaired
    where coarse answers leave most pieces in doubt: a kink of the line was mistaken, and another line costs less.
    """
    state = Measured(bends, bends.pieces[0].y.shape[1], known, rounding)
    order = np.argsort(np.abs(np.arange(len(known)) - int(np.argmin(np.abs(state.centres)))), kind="stable").tolist()
    every = np.arange(len(bends.line.point))
    try:
        for k in order:
            if not known[k]:
                _ask(purse, book, state, rounding, k, every, steps=state.share * state.halves[k] * np.ones(len(every)))
                state.asked[k] = True
    except BudgetExhausted:
        pass
    values, normals = _decoded(state)
    try:
        for turn in range(TRIES):
            again = _unclear(state, normals)
            if not again:
                break
            for k, axes in again:
                _ask(purse, book, state, rounding, k, axes, steps=-state.steps[k, axes] / (2.0 if turn == 0 else 4.0))
            values, normals = _decoded(state)
        if picky and not rounding.fine:
            _check_kinks(state, values)
        for k in np.flatnonzero(state.asked & ~known):
            values, normals = _repaired(purse, book, state, rounding, int(k), values, normals=normals, rng=rng)
    except BudgetExhausted:
        values, normals = _decoded(state)
    good = state.asked & np.array([known[k] or _agrees(state, values, int(k)) for k in range(len(known))])
    sd = np.where(known, 0.0, np.sqrt(np.mean((state.noise / state.steps) ** 2, axis=1)))
    return Gradients(state.centres, values, sd, normals, good)


def _centres(bends: Bends) -> tuple[Array, Array]:
    """Where each piece is measured, and the length of a step that reaches a kink beside it, as far as that can be guessed.

    A kink at t that is far on the scale of the line mostly belongs to a hyperplane nearly parallel to it: |r| grows like t, and
    the way across the piece is shorter than the way along it by that factor.
    """
    t, line = np.array([kink.t for kink in bends.kinks]), bends.line
    if not len(t):
        return np.zeros(1), np.array([line.scale])
    first = min(line.scale + abs(t[0]), 0.5 * (t[0] - line.low))
    last = min(line.scale + abs(t[-1]), 0.5 * (line.high - t[-1]))
    centres = np.concatenate([[t[0] - first], (t[1:] + t[:-1]) / 2.0, [t[-1] + last]])
    slant = np.hypot(1.0, t / line.scale)
    right = np.append(t - centres[:-1], np.inf) / np.append(slant, 1.0)
    left = np.insert(centres[1:] - t, 0, np.inf) / np.insert(slant, 0, 1.0)
    return centres, np.minimum(left, right)


def _ask(
    purse: Purse, book: Book | None, state: Measured, rounding: Rounding, k: int, axes: Array, *, steps: Array
) -> None:
    """One step along each of the axes, from the centre of piece k; steps that would leave the box are turned or shortened."""
    line, tau = state.bends.line, float(state.centres[k])
    centre = line(tau)[0]
    if purse.box is not None:
        steps = _inside(centre, axes, steps, purse)
    y = purse.ask_star(centre, axes, steps, "gradients")
    base = state.bends.pieces[k].value(tau)
    noise = rounding.sd(centre[None], y[:1])[0]
    if book is not None:
        x = np.repeat(centre[None], len(axes), axis=0)
        x[np.arange(len(axes)), axes] += steps
        y = y - book(x)
        noise = np.hypot(noise, book.sd(centre[None])[0] * np.abs(steps).max() / (np.linalg.norm(centre - book.point) + 1e-300))
    state.rise[k, axes], state.steps[k, axes] = y - base, steps
    state.noise[k, axes] = np.hypot(noise, state.bends.pieces[k].sd_at(tau))


def _inside(centre: Array, axes: Array, steps: Array, purse: Purse) -> Array:
    assert purse.box is not None
    up, down = (purse.box.high - centre)[axes], (centre - purse.box.low)[axes]
    ahead, behind = np.where(steps > 0.0, up, down), np.where(steps > 0.0, down, up)
    size = np.abs(steps)
    turned = (size > ahead) & (behind > ahead)
    return np.where(turned, -np.sign(steps) * np.minimum(size, behind), np.sign(steps) * np.minimum(size, ahead))


def _decoded(state: Measured) -> tuple[Array, Array]:
    """Gradients (pieces, dim, outputs) and normals (kinks, dim), with the crossings of kinks of this line taken off."""
    correction = np.zeros_like(state.rise)
    square = np.maximum(np.sum(state.jumps**2, axis=1), 1e-300)
    for _ in range(ROUNDS):
        values = np.where(state.known[:, None, None], 0.0, (state.rise - correction) / state.steps[:, :, None])
        normals = np.einsum("kdm,km->kd", np.diff(values, axis=0), state.jumps) / square[:, None]
        normals[~(state.asked[1:] & state.asked[:-1])] = 0.0
        fresh = np.zeros_like(correction)
        for k in np.flatnonzero(state.asked & ~state.known):
            fresh[k] = _crossed(state, normals, int(k))
        if np.abs(fresh - correction).max(initial=0.0) <= 1e-3 * np.abs(state.noise).max(initial=0.0):
            break
        correction = fresh
    return values, normals


def _crossed(state: Measured, normals: Array, k: int) -> Array:
    """What steps across kinks of this line add to the answers of piece k, (dim, outputs); its two neighbours aside."""
    ahead = state.centres[k] - state.kinks
    shift = state.steps[k] * normals
    met = (ahead[:, None] > 0.0) != (ahead[:, None] + shift > 0.0)
    met[max(k - 1, 0) : k + 1] = False
    excess = np.where(met, np.abs(ahead[:, None] + shift), 0.0)
    return np.asarray(excess.T @ state.jumps)


def _unclear(state: Measured, normals: Array) -> list[tuple[int, Array]]:
    """Axes whose step reaches one of the two kinks beside its piece."""
    found = []
    for k in np.flatnonzero(state.asked & ~state.known):
        beside = slice(max(k - 1, 0), k + 1)
        reach = np.abs(state.steps[k] * normals[beside])
        near = (reach > NEXT_TO * np.abs(state.centres[k] - state.kinks[beside])[:, None]).any(axis=0)
        if near.any():
            found.append((int(k), np.flatnonzero(near)))
    return found


def _agrees(state: Measured, values: Array, k: int) -> bool:
    """Whether the gradient along the line is the slope of the piece."""
    line, piece = state.bends.line, state.bends.pieces[k]
    off = np.abs(line.direction @ values[k] - piece.slope).max()
    noise = float(np.linalg.norm(line.direction * state.noise[k] / state.steps[k]))
    return bool(off <= 2.0 * SIGMAS * np.hypot(noise, piece.slope_sd))


def _check_kinks(state: Measured, values: Array) -> None:
    """Refuse a line most of whose gradients contradict the slopes along it."""
    asked = np.flatnonzero(state.asked & ~state.known)
    wrong = sum(not _agrees(state, values, int(k)) for k in asked)
    if wrong > DOUBTFUL * len(asked):
        raise NotSeparated(
            f"{wrong} of {len(asked)} gradients contradict the slopes along their line.",
            "Coarse answers have put a kink where there is none, or hidden one.", "Try another line.", wrong=wrong)


def _repaired(
    purse: Purse, book: Book | None, state: Measured, rounding: Rounding, k: int, values: Array, *,
    normals: Array, rng: Generator,
) -> tuple[Array, Array]:
    """Find and ask again the axes of piece k that crossed an unknown unit, until gradient and slope agree."""
    for turn in range(REPAIRS):
        if _agrees(state, values, k):
            break
        axes = _suspects(purse, book, state, rounding, k, values, rng=rng) if turn < REPAIRS - 1 else np.arange(values.shape[1])
        if not len(axes):
            axes = np.arange(values.shape[1])
        _ask(purse, book, state, rounding, k, axes, steps=-state.steps[k, axes] / 8.0)
        values, normals = _decoded(state)
    return values, normals


def _suspects(
    purse: Purse, book: Book | None, state: Measured, rounding: Rounding, k: int, values: Array, *, rng: Generator
) -> Array:
    """Axes along which the measured gradient is wrong, by halving: a random sum over a set of axes is wrong if one of them is."""
    line, tau = state.bends.line, float(state.centres[k])
    centre, piece = line(tau)[0], state.bends.pieces[k]
    open_, found = [np.arange(len(centre))], []
    size = state.share * state.halves[k] / 16.0
    while open_:
        axes = open_.pop()
        if len(axes) == 1:
            found.append(int(axes[0]))
            continue
        for part in np.array_split(axes, 2):
            step = np.zeros(len(centre))
            step[part] = rng.choice([-1.0, 1.0], len(part)) * size / np.sqrt(len(part))
            if purse.box is not None:
                low, high = room(centre, step, purse.box)
                step *= min(1.0, high) if high >= -low else -min(1.0, -low)
            x = (centre + step)[None]
            y = purse.ask(x, "gradients")
            noise = np.hypot(rounding.sd(x, y)[0], piece.sd_at(tau))
            y = y if book is None else y - book(x)
            off = np.abs(y[0] - piece.value(tau) - step @ values[k]).max()
            if off > 2.0 * SIGMAS * (noise + float(np.linalg.norm(step * state.noise[k] / state.steps[k]))):
                open_.append(part)
        if len(found) > max(4, len(centre) // 8):
            return np.arange(len(centre))
    return np.array(found, dtype=int)
