"""Kinks of a line, and whether they lie on hyperplanes: one hidden layer or more.

The kinks of units in the first hidden layer lie on hyperplanes, and with nothing but a linear map above them the slope along a
direction changes by the same amount wherever such a hyperplane is crossed. With a second layer above, neither holds: its own
kinks bend where they meet a hyperplane below, and the change of slope depends on which units above are on. So a kink is followed
to parallel lines, ever farther away: the place and the change must be where two near readings put them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.insight.local import Shape, shapes
from laybare.insight.probe import Probe, ProbeLine
from laybare.shapes import Array

HALVINGS, SHARE = 7, 0.08
"""How often a gap between two pieces is halved, and the share of it that is looked at in its middle."""

SAME = 1e-6
"""Two changes of slope, or two places in units of what was looked at, that agree this well beside rounding are the same."""

CONCLUSIVE = 30.0
"""A second look this much closer has no other kink beside it; where rounding forbids that, a miss proves nothing."""

LEARNT = 3
"""Readings after which the way of a kink is known."""

BEGIN, GROWTH, AWAY = 0.02, 20.0, (0.5, 3.0, -3.0, 9.0, -9.0)
"""The first parallel line is this share of the room of a kink away, the next ones GROWTH times as far each; then AWAY, in typical
distances of inputs."""

NEAR, CLOSE, FINE = 0.02, 256.0, 100.0
"""Half-width of a reading around a predicted kink in typical distances, by how much a second look is closer, and what it must be
in units of rounding over change of slope, for the change to be seen to a per cent."""


class ProbeKink(NamedTuple):
    """On a line at t the slope changes by `change`; nothing else happens within `room`. Rounding moves answers by `slack`."""

    t: float
    change: float
    room: float
    slack: float


def isolated_kink(probe: Probe, line: ProbeLine, left: Shape, right: Shape) -> ProbeKink | None:
    """A kink between two straight places with different slopes, by halving; None if it cannot be had within a few steps."""
    for _ in range(HALVINGS):
        low, high = left.t + left.width, right.t - right.width
        if high <= low or np.isclose(left.slope, right.slope, rtol=1e-6, atol=1e-12):
            return None
        meet = _meeting(left, right)
        if low < meet < high and _both_hold(probe, line, left, right, meet):
            return kink_at(probe, line, meet, 0.8 * min(meet - low, high - meet))
        (middle,) = shapes(probe, line, np.array([low + 0.5 * (high - low)]), np.array([SHARE * (high - low)]))
        if middle.kind not in ("straight", "flat"):
            return None
        if np.isclose(middle.slope, left.slope, rtol=1e-6, atol=1e-12):
            left = middle
        else:
            right = middle
    return None


def lies_on_hyperplane(
    probe: Probe, line: ProbeLine, kink: ProbeKink, unit: float, rng: Generator, away: tuple[float, ...] = AWAY
) -> bool | None:
    """Follow a kink to parallel lines: False if it is missed on two of them; None if that could not be seen.

    `away` are their distances, in units of `unit`, beside the near ones from which the way of the kink is learnt.
    """
    across = rng.standard_normal(len(line.point))
    across *= unit * np.linalg.norm(line.direction) / np.linalg.norm(across)
    seen, misses = [KinkReading(0.0, kink)], 0
    window = min(NEAR * unit, 0.3 * kink.room)
    for distance in _distances(window / unit, away):
        shifted = ProbeLine(line.point + distance * across, line.direction)
        expected = _expected(seen, distance)
        found = _read(probe, shifted, expected.t, window)
        if found is not None and not _same(found, kink, None if len(seen) == 1 else expected):
            near = max(NEAR * unit / CLOSE, FINE * found.slack / abs(kink.change), 4.0 * expected.error)
            if len(seen) < LEARNT or near > NEAR * unit / CONCLUSIVE:
                return None
            found = _read(probe, shifted, expected.t, near)
            if found is not None and not _same(found, kink, expected):
                misses += 1  # one may be another kink that happens to lie here
                if misses == 2:
                    return False
                continue
        if found is None or abs(kink.change) * found.room <= 8.0 * found.slack:  # too far out to be read
            break
        seen.append(KinkReading(distance, found))
    return True if len(seen) > LEARNT and not misses else None


def _distances(window: float, away: tuple[float, ...]) -> list[float]:
    """At least two near ones, from which the way of a kink is learnt."""
    steps = max(2, int(np.ceil(np.log(away[0] / (BEGIN * window)) / np.log(GROWTH))))
    return [*(away[0] / GROWTH ** (steps - step) for step in range(steps)), *away]


def kink_at(probe: Probe, line: ProbeLine, t: float, room: float) -> ProbeKink | None:
    """The kink at t, read twice: seen from near by, two that are close together fall apart."""
    far, near = _read(probe, line, t, room), _read(probe, line, t, room / CLOSE)
    if far is None or near is None or not _same(near, far, None):
        return None
    return far


class KinkReading(NamedTuple):
    """The kink on the parallel line at this distance."""

    distance: float
    kink: ProbeKink


class Expected(NamedTuple):
    """Where a kink should be, and how well that is known."""

    t: float
    error: float


def _expected(seen: list[KinkReading], distance: float) -> Expected:
    """On the straight line through the first reading and the farthest, each of which rounding may have moved."""
    first, last = seen[0], max(seen, key=lambda reading: abs(reading.distance))
    if len(seen) == 1:
        return Expected(first.kink.t, 0.0)
    share = distance / last.distance
    error = (first.kink.slack + abs(share) * (first.kink.slack + last.kink.slack)) / abs(first.kink.change)
    return Expected(first.kink.t + share * (last.kink.t - first.kink.t), error + SAME * abs(share) * last.kink.room)


def _same(found: ProbeKink, kink: ProbeKink, expected: Expected | None) -> bool:
    """Whether the change of slope and, if it is told, the place agree to SAME and rounding."""
    slope = SAME * abs(kink.change) + found.slack / found.room + kink.slack / kink.room
    if abs(found.change - kink.change) > slope:
        return False
    return expected is None or abs(found.t - expected.t) <= expected.error + found.slack / abs(kink.change) + SAME * found.room


def _read(probe: Probe, line: ProbeLine, t: float, width: float) -> ProbeKink | None:
    """The kink between two pairs of points around t (a change of 0 where there is none); None if an answer is missing."""
    at = t + width * np.array([-1.0, -0.4, 0.4, 1.0])
    y, slack = probe.line(line, at)
    if not np.isfinite(y).all():
        return None
    slopes = (y[1] - y[0]) / (at[1] - at[0]), (y[3] - y[2]) / (at[3] - at[2])
    change = float(slopes[1] - slopes[0])
    meet = (y[1] - slopes[0] * at[1] - y[2] + slopes[1] * at[2]) / (change or np.inf)
    return ProbeKink(float(meet), change, width, float(slack.max()))


def _meeting(left: Shape, right: Shape) -> float:
    return (left.value - left.slope * left.t - right.value + right.slope * right.t) / (right.slope - left.slope)


def _both_hold(probe: Probe, line: ProbeLine, left: Shape, right: Shape, meet: float) -> bool:
    """Whether each piece still holds just before the place where they meet: a single kink, not two."""
    at = np.array([meet - 0.05 * (meet - left.t), meet + 0.05 * (right.t - meet)])
    y, slack = probe.line(line, at)
    told: Array = np.array([left.value + left.slope * (at[0] - left.t), right.value + right.slope * (at[1] - right.t)])
    reach = np.array([(at[0] - left.t) / left.width, (right.t - at[1]) / right.width])
    return bool((np.abs(y - told) <= slack * (1 + np.abs(reach))).all())
