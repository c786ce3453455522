"""Everything that asks: kinks of a line, the normal of a surface beside a kink, and where a surface is met in a short window."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lines.folds.fold_options import FoldOptions
from laybare.lines.kinks import LineProfile, end_piece, find_kinks
from laybare.lines.line import KINK, Line, LineValues
from laybare.lines.query import QueryCounter
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding

FOUR = np.array([-1.0, -0.5, 0.5, 1.0])
"""Places of four answers in a window: two on each side of its middle."""


class Place(NamedTuple):
    """A kink met along a direction: how far from where it was looked for, its standard deviation, and the jump of the slope."""

    offset: float
    sd: float
    jump: Array


class BentPlace(NamedTuple):
    """A point at which f bends, the normal of the surface there (unit length) with the sd of its entries, the room around, and
    the sd of the point."""

    x: Array
    normal: Array
    sd: float
    room: float
    place_sd: float = 0.0


@dataclass(eq=False)
class SurfaceProbe:
    """Asks with one queries."""

    queries: QueryCounter
    rounding: Rounding
    options: FoldOptions
    dim: int
    scale: float
    rng: Generator
    until: float = np.inf
    was_constant: bool = False

    def inputs(self, n: int) -> Array:
        """Random inputs (n, dim) of the domain, of several scales."""
        dim = self.dim
        return np.asarray(self.scale * self.rng.standard_normal((n, dim)) * self.rng.choice(self.options.spreads, (n, 1)))

    def answers(self, x: Array, purpose: str) -> LineValues:
        if monotonic() > self.until:
            raise BudgetExhausted("The time that was granted is used up.", "Units read so far are kept.", "Grant more time.")
        y = self.queries.ask(x, purpose)  # type: ignore[arg-type]
        return LineValues(y, self.rounding.sd(x, y))

    def read_line(self, line: Line, most: int = 100_000) -> LineProfile | None:
        """All kinks of a line; None if they cannot be told apart."""
        def along(t: Array) -> LineValues:
            return self.answers(line(t), "kinks")

        try:
            return find_kinks(along, line, [end_piece(along, line, end) for end in (line.low, line.high)], max_queries=most)
        except (NotSeparated, AssumptionViolated):
            return None

    def locate(self, x: Array, direction: Array, half: float, purpose: str = "checks") -> Place | None:
        """The kink in x ± half·direction, if there is a single one near the middle: 4 queries. None if nothing bends there.

        Two answers on each side give two lines; they meet at the kink. The outputs must agree on where.
        """
        if not half > 0.0:
            return None
        y, sd = self.answers(x + half * FOUR[:, None] * direction, purpose)
        noise = float(sd.max())
        self.was_constant = bool(np.abs(y[-1] - y[0]).max() <= 4.0 * noise)
        left, right = (y[1] - y[0]) / (0.5 * half), (y[3] - y[2]) / (0.5 * half)
        return _meeting(y[1] + 0.5 * half * left, y[2] - 0.5 * half * right, left, right, noise, half)

    def hits(self, x: Array, direction: Array, half: float) -> Place | None:
        """The kink if it is where it was looked for, up to `on_surface` of the window."""
        place = self.locate(x, direction, half)
        if place is None or abs(place.offset) > self.options.on_surface * half + KINK.rounding_sds * place.sd:
            return None
        return place

    def kinks_within(self, x: Array, direction: Array, low: float, high: float, wanted: Array, several: bool) -> Place | None:
        """The kink of x + s·direction, low < s < high, whose jump is the wanted one: 6 queries if it is alone there."""
        length = high - low
        t = np.array([low, low + 0.1 * length, high - 0.1 * length, high])
        y, sd = self.answers(x + t[:, None] * direction, "folds")
        left, right = (y[1] - y[0]) / (t[1] - t[0]), (y[3] - y[2]) / (t[3] - t[2])
        place = _meeting(y[0] - low * left, y[3] - high * right, left, right, float(sd.max()), length)
        if place is not None and t[1] < place.offset < t[2] and self._same(place.jump, wanted, sd.max() / (0.1 * length)):
            away = min(0.02 * length, 0.5 * (place.offset - t[1]), 0.5 * (t[2] - place.offset))
            away = max(away, 4.0 * place.sd)
            s = place.offset + np.array([-away, away])
            z, sd2 = self.answers(x + s[:, None] * direction, "folds")
            off = max(np.abs(z[0] - y[0] - (s[0] - low) * left).max(), np.abs(z[1] - y[3] - (s[1] - high) * right).max())
            if off <= 40.0 * max(float(sd.max()), float(sd2.max())):
                return place
        return self._among_several(x, direction, low, high, wanted) if several else None

    def _same(self, jump: Array, wanted: Array, noise: float) -> bool:
        return bool(np.abs(jump - wanted).max() <= self.options.same_jump * np.abs(wanted).max() + 8.0 * noise)

    def _among_several(self, x: Array, direction: Array, low: float, high: float, wanted: Array) -> Place | None:
        middle = (low + high) / 2.0
        profile = self.read_line(Line(x + middle * direction, direction, low - middle, high - middle, (high - low) / 6.0), 40)
        if profile is None:
            return None
        same = []
        for i, kink in enumerate(profile.kinks):
            noise = profile.pieces[i].slope_sd + profile.pieces[i + 1].slope_sd
            if self._same(kink.jump, wanted, noise) and noise < 0.05 * np.abs(wanted).max():
                same.append(Place(kink.t + middle, kink.sd, kink.jump))
        return same[0] if len(same) == 1 else None

    def bent_place(self, profile: LineProfile, i: int) -> BentPlace | None:
        """The normal of the surface at kink i of a line, from the gradients on both sides: 2·dim queries, or twice that.

        The jump of the gradient is δ ⊗ r with r·u = 1; δ, the jump of the slope along the line, is known. A mixture of all steps
        must give the mixture of their answers (one query a side): a step across another surface does not.
        """
        line, kink = profile.line, profile.kinks[i]
        gaps = _gaps(profile, i)
        others = _complement(line.direction, self.rng)
        square = float(kink.jump @ kink.jump)
        for share in (0.2, 0.02, 0.002):
            sides = [self._slopes(profile, i + (sign > 0), kink.t + sign * 0.5 * gap, share * 0.5 * gap, others)
                     for sign, gap in zip((-1.0, 1.0), gaps, strict=True)]
            if any(side is None for side in sides):
                continue
            (low, low_sd), (high, high_sd) = sides  # type: ignore[misc]
            jump = high - low
            r = jump @ kink.jump / square
            sd = float(np.hypot(low_sd, high_sd)) / np.sqrt(square)
            allowed = (1e-6 * (1.0 + np.abs(r).max(initial=0.0)) + 10.0 * sd) * np.sqrt(square)
            if np.abs(jump - np.outer(r, kink.jump)).max(initial=0.0) > allowed:
                continue
            normal = line.direction + r @ others
            size = float(np.linalg.norm(normal))
            return BentPlace(line(kink.t)[0], normal / size, sd / size, min(gaps) / size, kink.sd / size)
        return None

    def _slopes(self, profile: LineProfile, k: int, t: float, step: float, others: Array) -> tuple[Array, float] | None:
        """Slopes (dim - 1, outputs) along directions across the line, on piece k at t."""
        x, piece = profile.line(t)[0], profile.pieces[k]
        value, n = piece.value(t), len(others)
        if not n:
            return np.empty((0, len(value))), 0.0
        mixture = self.rng.dirichlet(np.ones(n)) * self.rng.choice([-1.0, 1.0], n)
        y, sd = self.answers(np.vstack([x + step * others, x + step * mixture @ others]), "gradients")
        noise = float(np.hypot(sd.max(), piece.sd_at(t)))
        slopes = (y[:n] - value) / step
        if np.abs(y[n] - value - step * mixture @ slopes).max() > 4.0 * KINK.rounding_sds * noise:
            return None
        return slopes, noise / step


def _meeting(left0: Array, right0: Array, left: Array, right: Array, noise: float, half: float) -> Place | None:
    """Where two lines, given by their values at 0 and their slopes, meet."""
    jump = right - left
    size = float(np.linalg.norm(jump))
    if size * half <= 20.0 * noise:
        return None
    apart = right0 - left0
    offset = -float(jump @ apart) / size**2
    if np.abs(apart + offset * jump).max() > 40.0 * noise * (1.0 + abs(offset) / half):
        return None
    return Place(offset, 4.0 * noise / size, jump)


def _gaps(profile: LineProfile, i: int) -> tuple[float, float]:
    """Lengths of the pieces on both sides of kink i."""
    t, line = [kink.t for kink in profile.kinks], profile.line
    left = t[i] - (t[i - 1] if i else max(line.low, t[i] - 2.0 * line.scale))
    right = (t[i + 1] if i + 1 < len(t) else min(line.high, t[i] + 2.0 * line.scale)) - t[i]
    return min(left, line.scale), min(right, line.scale)


def _complement(direction: Array, rng: Generator) -> Array:
    """Orthonormal directions (dim - 1, dim) across a unit vector."""
    d = len(direction)
    q = np.linalg.qr(np.column_stack([direction, rng.standard_normal((d, d - 1))]))[0]
    return np.asarray(q[:, 1:].T)
