"""Gradients of the pieces of a line, and from their differences the units: dim queries per piece.

At a kink the gradient jumps by δ ⊗ r: δ (outputs,) is the jump of the slope along the line, which the line itself gives to
many digits, and r (dim,) the normal of the unit's hyperplane, scaled so that r·u = 1. A gradient is measured by one step along
each axis from the middle of the piece, whose value is known from the line. One gradient serves the kinks on both of its sides.

**Steps are long**, because rounding counts as rounding / step: a few per cent of the piece's length. Some of them then cross
hyperplanes. Where the line has met unit i at tᵢ, the unit's part of the answer at x(τ) + s e_j is

    δᵢ relu(τ - tᵢ + s rᵢⱼ),

a known function of the unknowns: it is computed from the first estimate and subtracted. Only a step across one of the two kinks
next to the piece carries no information on the piece; it shows as |s rᵢⱼ| ≥ |τ - tᵢ|, and the axis is asked again backwards.

**Free check.** g·u must be the slope of the piece. If not, a step has crossed a unit that the line does not meet: the axis is
found by bisection (sums over half of the axes, with short steps) and asked again with a short step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.errors import BudgetExhausted, NotSeparated
from laybare.lines.kinks import LineProfile
from laybare.lines.line import KINK, interval_in_box
from laybare.lines.partial_network import PartialNetwork, UnitEstimates
from laybare.lines.query import QueryBox, QueryContext
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class GradientOptions:
    """Steps and repetitions of gradient measurements along a line."""

    step: float = 0.03
    """Step relative to half a piece, for float64 answers; a share 2·step/π of the axes is asked again.
    Checked by `laybare reproduce lines`."""
    coarse_step: float = 0.15  # the same for coarser answers. Checked by `pytest -m slow tests/lines/test_acceptance.py`.
    max_reach: float = 0.7
    """Share of the way to the next kink beyond which a step is repeated. Checked by `pytest tests/lines/test_gradients.py`."""
    max_repeats: int = 6  # of axes whose step reaches a kink. Checked by `pytest tests/lines/test_gradients.py`.
    max_repairs: int = 3  # of a gradient that contradicts its slope. Checked by `pytest tests/lines/test_gradients.py`.
    max_iterations: int = 12  # for crossings; 2 or 3 converge. Checked by `pytest tests/lines/test_gradients.py`.
    max_inconsistent_share: float = 0.25
    """Of pieces whose gradient contradicts the slope, before a line is given up.
    Checked by `pytest tests/lines/test_read_network.py`."""


GRADIENT = GradientOptions()


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients (pieces, dim, outputs) of what the model does not explain, measured at `centres`, with standard deviations.

    `normals` (kinks, dim) are the r; `consistent` marks pieces that were measured and agree with the slope of the line.
    """

    centres: Array
    values: Array
    sd: Array
    normals: Array
    consistent: Array


class GradientMeasurement:
    """The stencils of a line while they are asked: answers minus base value, and signed steps, for every piece and axis.

    `known` (pieces,) marks pieces on which the model is exact: their gradient is zero, and costs nothing.
    """

    def __init__(self, context: QueryContext, model: PartialNetwork | None, profile: LineProfile, known: Array) -> None:
        self.context, self.model, self.profile, self.known = context, model, profile, known
        outputs, dim, pieces = profile.pieces[0].y.shape[1], len(profile.line.point), len(profile.pieces)
        self.kinks = profile.places
        self.jumps = np.array([kink.jump for kink in profile.kinks]).reshape(-1, outputs)
        self.centres, self.halves = _centres_of_pieces(profile)
        self.steps = np.ones((pieces, dim))
        self.differences = np.zeros((pieces, dim, outputs))
        self.noise = np.zeros((pieces, dim))
        self.asked = known.copy()
        self.share = GRADIENT.step if context.rounding.fine else GRADIENT.coarse_step

    @property
    def measured(self) -> Array:
        """Numbers of the pieces that were asked."""
        return np.flatnonzero(self.asked & ~self.known)

    def ask(self, k: int, axes: Array, steps: Array) -> None:
        """One step along each of the axes, from the centre of piece k; steps that leave the box are turned or shortened."""
        (queries, rounding, _), piece, tau = self.context, self.profile.pieces[k], float(self.centres[k])
        centre = self.profile.line(tau)[0]
        if queries.box is not None:
            steps = _fit_into_box(centre, axes, steps, queries.box)
        y = queries.ask_stencil(centre, axes, steps, "gradients")
        noise = rounding.sd(centre[None], y[:1])[0]
        if self.model is not None:
            x = np.repeat(centre[None], len(axes), axis=0)
            x[np.arange(len(axes)), axes] += steps
            y = y - self.model(x)
            away = np.linalg.norm(centre - self.model.point) + 1e-300
            noise = np.hypot(noise, self.model.sd(centre[None])[0] * np.abs(steps).max() / away)
        self.differences[k, axes], self.steps[k, axes] = y - piece.value(tau), steps
        self.noise[k, axes] = np.hypot(noise, piece.sd_at(tau))

    def solve(self) -> tuple[Array, Array]:
        """Gradients (pieces, dim, outputs) and normals (kinks, dim), with crossings of this line's kinks subtracted."""
        correction = np.zeros_like(self.differences)
        square = np.maximum(np.sum(self.jumps**2, axis=1), 1e-300)
        for _ in range(GRADIENT.max_iterations):
            values = np.where(self.known[:, None, None], 0.0, (self.differences - correction) / self.steps[:, :, None])
            normals = np.einsum("kdm,km->kd", np.diff(values, axis=0), self.jumps) / square[:, None]
            normals[~(self.asked[1:] & self.asked[:-1])] = 0.0
            fresh = np.zeros_like(correction)
            for k in self.measured:
                fresh[k] = self._crossing_part(normals, int(k))
            if np.abs(fresh - correction).max(initial=0.0) <= 1e-3 * np.abs(self.noise).max(initial=0.0):
                break
            correction = fresh
        return values, normals

    def is_consistent(self, values: Array, k: int) -> bool:
        """Whether the gradient along the line is the slope of the piece."""
        u, piece = self.profile.line.direction, self.profile.pieces[k]
        off = np.abs(u @ values[k] - piece.slope).max()
        noise = float(np.linalg.norm(u * self.noise[k] / self.steps[k]))
        return bool(off <= 2.0 * KINK.rounding_sds * np.hypot(noise, piece.slope_sd))

    def axes_to_repeat(self, normals: Array) -> list[tuple[int, Array]]:
        """Axes whose step reaches one of the two kinks beside its piece."""
        found = []
        for k in self.measured:
            beside = slice(max(k - 1, 0), k + 1)
            reach = np.abs(self.steps[k] * normals[beside])
            near = (reach > GRADIENT.max_reach * np.abs(self.centres[k] - self.kinks[beside])[:, None]).any(axis=0)
            if near.any():
                found.append((int(k), np.flatnonzero(near)))
        return found

    def repair(self, k: int, values: Array, normals: Array) -> tuple[Array, Array]:
        """Find and ask again the axes of piece k that crossed an unknown unit, until gradient and slope agree."""
        every = np.arange(values.shape[1])
        for turn in range(GRADIENT.max_repairs):
            if self.is_consistent(values, k):
                break
            axes = self._wrong_axes(k, values) if turn < GRADIENT.max_repairs - 1 else every
            if not len(axes):
                axes = every
            self.ask(k, axes, -self.steps[k, axes] / 8.0)
            values, normals = self.solve()
        return values, normals

    def _crossing_part(self, normals: Array, k: int) -> Array:
        """What steps across kinks of this line add to the answers of piece k, (dim, outputs); without its two neighbours."""
        ahead = self.centres[k] - self.kinks
        shift = self.steps[k] * normals
        met = (ahead[:, None] > 0.0) != (ahead[:, None] + shift > 0.0)
        met[max(k - 1, 0) : k + 1] = False
        excess = np.where(met, np.abs(ahead[:, None] + shift), 0.0)
        return np.asarray(excess.T @ self.jumps)

    def _wrong_axes(self, k: int, values: Array) -> Array:
        """Axes of a wrong gradient, by bisection: a random sum over a set of axes is wrong if one of them is."""
        (queries, rounding, rng), tau = self.context, float(self.centres[k])
        centre, piece = self.profile.line(tau)[0], self.profile.pieces[k]
        open_, found = [np.arange(len(centre))], []
        size = self.share * self.halves[k] / 16.0
        while open_:
            axes = open_.pop()
            if len(axes) == 1:
                found.append(int(axes[0]))
                continue
            for part in np.array_split(axes, 2):
                step = np.zeros(len(centre))
                step[part] = rng.choice([-1.0, 1.0], len(part)) * size / np.sqrt(len(part))
                if queries.box is not None:
                    low, high = interval_in_box(centre, step, queries.box)
                    step *= min(1.0, high) if high >= -low else -min(1.0, -low)
                x = (centre + step)[None]
                y = queries.ask(x, "gradients")
                noise = np.hypot(rounding.sd(x, y)[0], piece.sd_at(tau))
                y = y if self.model is None else y - self.model(x)
                off = np.abs(y[0] - piece.value(tau) - step @ values[k]).max()
                if off > 2.0 * KINK.rounding_sds * (noise + float(np.linalg.norm(step * self.noise[k] / self.steps[k]))):
                    open_.append(part)
            if len(found) > max(4, len(centre) // 8):
                return np.arange(len(centre))
        return np.array(found, dtype=int)


def measure_gradients(
    context: QueryContext, model: PartialNetwork | None, profile: LineProfile, known: Array, *, strict: bool = False
) -> Gradients:
    """Gradients of all pieces beside a kink, and the normals r (kinks, dim); the pieces nearest to t = 0 come first.

    BudgetExhausted is not raised: pieces beyond the budget are not `consistent`. With `strict` and coarse answers NotSeparated is
    raised, before any repair, if many pieces are inconsistent: a kink was misplaced, and another line costs less.
    """
    state = GradientMeasurement(context, model, profile, known)
    order = np.argsort(np.abs(np.arange(len(known)) - int(np.argmin(np.abs(state.centres)))), kind="stable").tolist()
    every = np.arange(len(profile.line.point))
    try:
        for k in order:
            if not known[k]:
                state.ask(k, every, state.share * state.halves[k] * np.ones(len(every)))
                state.asked[k] = True
    except BudgetExhausted:
        pass
    values, normals = state.solve()
    try:
        for turn in range(GRADIENT.max_repeats):
            again = state.axes_to_repeat(normals)
            if not again:
                break
            for k, axes in again:
                state.ask(k, axes, -state.steps[k, axes] / (2.0 if turn == 0 else 4.0))
            values, normals = state.solve()
        if strict and not context.rounding.fine:
            _check_consistent(state, values)
        for k in state.measured:
            values, normals = state.repair(int(k), values, normals)
    except BudgetExhausted:
        values, normals = state.solve()
    consistent = state.asked & np.array([known[k] or state.is_consistent(values, int(k)) for k in range(len(known))])
    sd = np.where(known, 0.0, np.sqrt(np.mean((state.noise / state.steps) ** 2, axis=1)))
    return Gradients(state.centres, values, sd, normals, consistent)


def _centres_of_pieces(profile: LineProfile) -> tuple[Array, Array]:
    """Where each piece is measured, and the estimated length of a step that reaches a kink beside it.

    A kink at t that is far on the scale of the line mostly belongs to a hyperplane nearly parallel to it: |r| grows like t, and
    the way across the piece is shorter than the way along it by that factor.
    """
    t, line = profile.places, profile.line
    if not len(t):
        return np.zeros(1), np.array([line.scale])
    first = min(line.scale + abs(t[0]), 0.5 * (t[0] - line.low))
    last = min(line.scale + abs(t[-1]), 0.5 * (line.high - t[-1]))
    centres = np.concatenate([[t[0] - first], (t[1:] + t[:-1]) / 2.0, [t[-1] + last]])
    slant = np.hypot(1.0, t / line.scale)
    right = np.append(t - centres[:-1], np.inf) / np.append(slant, 1.0)
    left = np.insert(centres[1:] - t, 0, np.inf) / np.insert(slant, 0, 1.0)
    return centres, np.minimum(left, right)


def _fit_into_box(centre: Array, axes: Array, steps: Array, box: QueryBox) -> Array:
    up, down = (box.high - centre)[axes], (centre - box.low)[axes]
    ahead, behind = np.where(steps > 0.0, up, down), np.where(steps > 0.0, down, up)
    size = np.abs(steps)
    turned = (size > ahead) & (behind > ahead)
    return np.where(turned, -np.sign(steps) * np.minimum(size, behind), np.sign(steps) * np.minimum(size, ahead))


def _check_consistent(state: GradientMeasurement, values: Array) -> None:
    """Refuse a line on which many gradients contradict the slopes."""
    asked = state.measured
    wrong = sum(not state.is_consistent(values, int(k)) for k in asked)
    if wrong > GRADIENT.max_inconsistent_share * len(asked):
        raise NotSeparated(
            f"{wrong} of {len(asked)} gradients contradict the slopes along their line.",
            "Coarse answers have put a kink where there is none, or hidden one.", "Try another line.", wrong=wrong)


def initial_model(profile: LineProfile, gradients: Gradients) -> PartialNetwork:
    """Value and gradient at the centre of the consistent piece nearest to t = 0, without units."""
    k = int(np.argmin(np.where(gradients.consistent, np.abs(gradients.centres), np.inf)))
    tau, line, piece = float(gradients.centres[k]), profile.line, profile.pieces[k]
    gradient, u = gradients.values[k], line.direction
    gradient = np.asarray(gradient + np.outer(u, piece.slope - u @ gradient))  # along the line the slope is known better
    units = UnitEstimates.none(len(line.point), gradient.shape[1])
    return PartialNetwork(line(tau)[0], piece.value(tau), gradient, float(gradients.sd[k]), units)


def units_from_jumps(profile: LineProfile, gradients: Gradients, model: PartialNetwork) -> UnitEstimates:
    """The units at the kinks with consistent gradients on both sides.

    For several outputs the jump δᵢ ⊗ rᵢ is a matrix of rank one, and r its projection onto δ. The side of a hyperplane follows
    from the model's point, at which no unit is active.
    """
    line = profile.line
    index = np.flatnonzero(gradients.consistent[1:] & gradients.consistent[:-1])
    if not len(index):
        return UnitEstimates.none(len(line.point), len(model.value))
    r = gradients.normals[index]
    r = r + (1.0 - r @ line.direction)[:, None] * line.direction
    lengths = np.linalg.norm(r, axis=1)
    jumps = np.array([profile.kinks[i].jump for i in index])
    ahead = profile.places[index] - (model.point - line.point) @ r.T  # r·(x(t) - p) = t - r·(p - line.point)
    side = np.where(ahead >= 0.0, 1.0, -1.0)
    sd = np.hypot(gradients.sd[index], gradients.sd[index + 1]) / np.linalg.norm(jumps, axis=1) / lengths
    slack = np.array([profile.kinks[i].sd for i in index]) / lengths
    distances = np.abs(ahead) / lengths
    return UnitEstimates(
        (side / lengths)[:, None] * r, distances, jumps * lengths[:, None], sd, distances * sd + slack,
        np.linalg.norm(jumps, axis=1) * lengths * sd)
