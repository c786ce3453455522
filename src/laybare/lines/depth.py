"""One hidden layer or more: kinks of a line followed to parallel lines.

The kinks of units in the first hidden layer lie on hyperplanes, and with nothing but a linear map above them the slope along a
direction changes by the same amount wherever such a hyperplane is crossed. With a second layer above, neither holds: its own
kinks turn where they meet a hyperplane below, and the change of slope depends on the active units above. So a kink is followed to
parallel lines, ever farther away: its place and its change must be what two near readings predict. A kink that is missed on two
lines belongs to a deeper network. About thirty queries per kink, before any gradient is measured.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.lines.kinks import LineProfile
from laybare.lines.probe import LocalShape, Probe, ProbeLine, QueriesUsedUp, local_shapes
from laybare.lines.single_layer import deep_network_error
from laybare.numerics.shapes import Array
from laybare.source import Oracle, Rounding


@dataclass(frozen=True, kw_only=True)
class DepthOptions:
    """Numbers of the test whether kinks stay on hyperplanes. Distances are in typical distances of inputs."""

    gap_halvings: int = 7  # of a gap between two pieces. Checked by `pytest tests/lines/test_first_look.py`.
    gap_share: float = 0.08  # half-width of the look at the middle of a gap. Checked by `pytest tests/lines/test_first_look.py`.
    same_kink: float = 1e-6  # relative difference of slope changes or places. Checked by `pytest tests/lines/test_first_look.py`.
    conclusive_ratio: float = 30.0
    """A miss counts after a look this much closer. Checked by `pytest tests/lines/test_first_look.py`."""
    min_readings: int = 3  # before the hyperplane is known. Checked by `pytest tests/lines/test_first_look.py`.
    first_distance: float = 0.02  # of parallel lines, share of the window. Checked by `pytest tests/lines/test_first_look.py`.
    distance_growth: float = 20.0  # from one parallel line to the next. Checked by `pytest tests/lines/test_first_look.py`.
    far_distances: tuple[float, ...] = (0.5, 3.0, -3.0, 9.0, -9.0)  # Checked by `pytest tests/lines/test_first_look.py`.
    reading_half_width: float = 0.02  # around a predicted kink. Checked by `pytest tests/lines/test_first_look.py`.
    second_look_ratio: float = 256.0  # how much closer the second look is. Checked by `pytest tests/lines/test_first_look.py`.
    min_half_width_roundings: float = 100.0
    """Of the second look, in units of rounding over the change of slope. Derived: the change is then seen to one per cent."""
    max_total_queries: int = 290
    """Within which a deep network is recognised. Checked by `pytest tests/pipeline/test_guess_activation.py`."""
    min_line_cost: int = 200
    """Queries; cheaper first lines are not probed. Checked by `pytest tests/pipeline/test_guess_activation.py`."""
    planar_kinks: int = 3  # as many mean one layer. Checked by `pytest tests/pipeline/test_guess_activation.py`.
    probe_distances: tuple[float, ...] = (3.0, -3.0)
    """Of the early probe. Checked by `pytest tests/pipeline/test_guess_activation.py`."""
    window_share: float = 0.8  # of the way to the next kink. Checked by `pytest tests/pipeline/test_guess_activation.py`.


DEPTH = DepthOptions()


class ProbeKink(NamedTuple):
    """On a line at t the slope changes by `change`, and nowhere else within `room`. Rounding moves answers by `slack`."""

    t: float
    change: float
    room: float
    slack: float


class KinkReading(NamedTuple):
    """The kink on the parallel line at this distance."""

    distance: float
    kink: ProbeKink


class ExpectedKink(NamedTuple):
    """Where a kink should be, and how well that is known."""

    t: float
    error: float


class DepthProbe:
    """Refuses a deep network behind an oracle by the kinks of its first line; looks once."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle, self._done = oracle, False

    def __call__(self, profile: LineProfile, rounding: Rounding) -> int:
        """The number of queries that it spent."""
        oracle, before = self._oracle, self._oracle.spent
        expensive = before + len(profile.pieces) * oracle.dim > DEPTH.min_line_cost
        if not self._done and expensive and oracle.dim > 1 and oracle.budget > before + DEPTH.max_total_queries:
            most = max(DEPTH.max_total_queries, before + DEPTH.min_line_cost // 2)
            with oracle.purpose("checks"), suppress(QueriesUsedUp):
                self._follow_kinks(profile, Probe(oracle, rounding, most, np.random.default_rng(0)))
        self._done = True
        return oracle.spent - before

    def _follow_kinks(self, profile: LineProfile, probe: Probe) -> None:
        line, unit = ProbeLine(profile.line.point, profile.line.direction), float(profile.line.scale)
        rng, stayed = np.random.default_rng(0), 0
        for t, room in _isolated_first(profile):
            kink = read_kink(probe, line, t, DEPTH.window_share * room)
            stays = None if kink is None else stays_on_hyperplane(probe, line, kink, unit, rng, DEPTH.probe_distances)
            if stays is False:
                raise deep_network_error(self._oracle.spent)
            stayed += stays is True
            if stayed == DEPTH.planar_kinks:
                return


def _isolated_first(profile: LineProfile) -> list[tuple[float, float]]:
    """Kinks with the distance to their neighbours; those that are near t = 0 and isolated come first."""
    line, t = profile.line, profile.places
    gaps: Array = np.diff(np.concatenate([[line.low], t, [line.high]]))
    room = np.minimum(gaps[1:], gaps[:-1])
    order = np.argsort(-room / (line.scale + np.abs(t)) ** 2)
    return [(float(t[i]), float(room[i])) for i in order]


def isolate_kink(probe: Probe, line: ProbeLine, left: LocalShape, right: LocalShape) -> ProbeKink | None:
    """A kink between two linear places with different slopes, by bisection; None if a few steps do not isolate one."""
    for _ in range(DEPTH.gap_halvings):
        low, high = left.t + left.width, right.t - right.width
        if high <= low or np.isclose(left.slope, right.slope, rtol=1e-6, atol=1e-12):
            return None
        meet = _intersection(left, right)
        if low < meet < high and _both_hold(probe, line, left, right, meet):
            return read_kink(probe, line, meet, 0.8 * min(meet - low, high - meet))
        (middle,) = local_shapes(probe, line, np.array([low + 0.5 * (high - low)]), np.array([DEPTH.gap_share * (high - low)]))
        if middle.kind not in ("linear", "flat"):
            return None
        if np.isclose(middle.slope, left.slope, rtol=1e-6, atol=1e-12):
            left = middle
        else:
            right = middle
    return None


def stays_on_hyperplane(
    probe: Probe, line: ProbeLine, kink: ProbeKink, unit: float, rng: Generator, away: tuple[float, ...] = DEPTH.far_distances
) -> bool | None:
    """Follow a kink to parallel lines: False if it is missed on two of them; None if that could not be seen.

    `away` are their distances, in units of `unit`, beside the near ones from which the hyperplane is learnt.
    """
    across = rng.standard_normal(len(line.point))
    across *= unit * np.linalg.norm(line.direction) / np.linalg.norm(across)
    seen, misses = [KinkReading(0.0, kink)], 0
    width = DEPTH.reading_half_width * unit
    window = min(width, 0.3 * kink.room)
    for distance in _distances(window / unit, away):
        shifted = ProbeLine(line.point + distance * across, line.direction)
        expected = _expected_kink(seen, distance)
        found = _read_once(probe, shifted, expected.t, window)
        if found is not None and not _is_same_kink(found, kink, None if len(seen) == 1 else expected):
            near = max(
                width / DEPTH.second_look_ratio, _shift(DEPTH.min_half_width_roundings * found.slack, kink),
                4.0 * expected.error)
            if len(seen) < DEPTH.min_readings or near > width / DEPTH.conclusive_ratio:
                return None
            found = _read_once(probe, shifted, expected.t, near)
            if found is not None and not _is_same_kink(found, kink, expected):
                misses += 1  # one may be another kink that happens to lie here
                if misses == 2:
                    return False
                continue
        if found is None or abs(kink.change) * found.room <= 8.0 * found.slack:  # too far out to be read
            break
        seen.append(KinkReading(distance, found))
    return True if len(seen) > DEPTH.min_readings and not misses else None


def _distances(window: float, away: tuple[float, ...]) -> list[float]:
    """At least two near ones, from which the hyperplane is learnt, then the far ones."""
    steps = max(2, int(np.ceil(np.log(away[0] / (DEPTH.first_distance * window)) / np.log(DEPTH.distance_growth))))
    return [*(away[0] / DEPTH.distance_growth ** (steps - step) for step in range(steps)), *away]


def read_kink(probe: Probe, line: ProbeLine, t: float, room: float) -> ProbeKink | None:
    """The kink at t, read twice: from near by, two close ones come apart."""
    far, near = _read_once(probe, line, t, room), _read_once(probe, line, t, room / DEPTH.second_look_ratio)
    if far is None or near is None or not _is_same_kink(near, far, None):
        return None
    return far


def _expected_kink(seen: list[KinkReading], distance: float) -> ExpectedKink:
    """On the straight line through the first reading and the farthest, each of which rounding may have moved."""
    first, last = seen[0], max(seen, key=lambda reading: abs(reading.distance))
    if len(seen) == 1:
        return ExpectedKink(first.kink.t, 0.0)
    share = distance / last.distance
    error = _shift(first.kink.slack + abs(share) * (first.kink.slack + last.kink.slack), first.kink)
    t = first.kink.t + share * (last.kink.t - first.kink.t)
    return ExpectedKink(t, error + DEPTH.same_kink * abs(share) * last.kink.room)


def _shift(error: float, kink: ProbeKink) -> float:
    """How far an error of the answers moves a kink; infinite if its slope does not change, as on a step of quantised answers."""
    return error / abs(kink.change) if kink.change else math.inf


def _is_same_kink(found: ProbeKink, kink: ProbeKink, expected: ExpectedKink | None) -> bool:
    """Whether the change of slope and, if it is given, the place agree up to rounding."""
    slope = DEPTH.same_kink * abs(kink.change) + found.slack / found.room + kink.slack / kink.room
    if abs(found.change - kink.change) > slope:
        return False
    if expected is None:
        return True
    return abs(found.t - expected.t) <= expected.error + _shift(found.slack, kink) + DEPTH.same_kink * found.room


def _read_once(probe: Probe, line: ProbeLine, t: float, width: float) -> ProbeKink | None:
    """The kink between two pairs of points around t (a change of 0 where there is none); None if an answer is missing."""
    at = t + width * np.array([-1.0, -0.4, 0.4, 1.0])
    y, slack = probe.line(line, at)
    if not np.isfinite(y).all():
        return None
    slopes = (y[1] - y[0]) / (at[1] - at[0]), (y[3] - y[2]) / (at[3] - at[2])
    change = float(slopes[1] - slopes[0])
    meet = (y[1] - slopes[0] * at[1] - y[2] + slopes[1] * at[2]) / (change or np.inf)
    return ProbeKink(float(meet), change, width, float(slack.max()))


def _intersection(left: LocalShape, right: LocalShape) -> float:
    return (left.value - left.slope * left.t - right.value + right.slope * right.t) / (right.slope - left.slope)


def _both_hold(probe: Probe, line: ProbeLine, left: LocalShape, right: LocalShape, meet: float) -> bool:
    """Whether each piece still holds just before the place where they meet: a single kink, not two."""
    at = np.array([meet - 0.05 * (meet - left.t), meet + 0.05 * (right.t - meet)])
    y, slack = probe.line(line, at)
    predicted: Array = np.array([left.value + left.slope * (at[0] - left.t), right.value + right.slope * (at[1] - right.t)])
    reach = np.array([(at[0] - left.t) / left.width, (right.t - at[1]) / right.width])
    return bool((np.abs(y - predicted) <= slack * (1 + np.abs(reach))).all())
