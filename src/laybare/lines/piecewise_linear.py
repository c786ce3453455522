"""Is a black box piecewise linear along a line, and how exact are its answers? At most 100 queries, most of which are used again.

Four clusters of four equidistant points on the first line. Inside a linear piece their second differences are zero up to
rounding. A cluster that bends is asked again sixteen times smaller: a kink is then mostly outside, while second differences of a
smooth function fall to 1/256 and stay equal to each other, and those of noise do not fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from laybare.errors import AssumptionViolated
from laybare.lines.line import Line, LinearPiece
from laybare.lines.probe import LOOK
from laybare.lines.query import QueryCounter
from laybare.numerics.shapes import Array
from laybare.source.rounding import Rounding, calibrate_rounding, detect_grid, shows_grid

CLUSTER_ANGLES = np.array([-1.05, -0.4, 0.4, 1.05])
"""Clusters are at t = scale · tan(angle). Derived: evenly spread over the kinks of Gaussian units, whose t is Cauchy."""

FAR_PLACES = np.array([-23.0, -11.0, -5.1, -2.3, 2.3, 5.1, 11.0, 23.0])
"""Places in units of the scale, asked where the clusters do not show the rounding. Checked by `pytest tests/lines`."""

SPAN = np.arange(4.0)
"""Points of a cluster. Derived: two second differences tell a kink from a curve."""


class LineCheck(NamedTuple):
    """The rounding of the answers, and the linear pieces that the clusters lie on, in their order."""

    rounding: Rounding
    pieces: list[LinearPiece]


@dataclass(frozen=True, eq=False)
class _Cluster:
    t: Array
    x: Array
    y: Array

    @property
    def second_differences(self) -> Array:
        """(2, outputs)."""
        return np.diff(self.y, n=2, axis=0)

    @property
    def bend(self) -> float:
        """The largest second difference."""
        return float(np.abs(self.second_differences).max())

    @property
    def slope(self) -> float:
        return float(np.abs(self.y[-1] - self.y[0]).max() / abs(self.t[-1] - self.t[0]))

    @property
    def size(self) -> float:
        """Size of the answers and of the terms that they are sums of."""
        return float(np.abs(self.y).max() + self.slope * np.linalg.norm(self.x[0]))


def check_piecewise_linear(queries: QueryCounter, line: Line) -> LineCheck:
    """Ask the clusters; AssumptionViolated if the function is noisy, smooth or constant on pieces."""
    centres = line.scale * np.tan(CLUSTER_ANGLES)
    clusters = _ask_clusters(queries, line, centres, 1.0)
    _check_repeatable(queries, clusters)
    grid = None if queries.resolution is None else queries.resolution()
    unit = detect_grid(_distinct_answers(queries, line, clusters)) if grid is None else grid
    good, smooth, before = [c for c in clusters if _is_linear(c, unit)], 0, 0
    bad = [c for c in clusters if not _is_linear(c, unit)]
    for round_ in range(1, LOOK.max_shrinks + 1):
        if len(good) >= 2 and not smooth:
            break
        smaller = _ask_clusters(queries, line, np.array([c.t[0] for c in bad]), LOOK.shrink**-round_)
        before, smooth = smooth, sum(_is_smooth(old, new, unit) for old, new in zip(bad, smaller, strict=True))
        _check_noise(bad, smaller, unit)
        good += [c for c in smaller if _is_linear(c, unit)]
        bad = [c for c in smaller if not _is_linear(c, unit)]
        if smooth >= 2 or (smooth and before):
            raise _smooth_error(queries, smooth)
    if len(good) < 2:
        raise _smooth_error(queries, len(bad))
    steepness = max(c.slope for c in clusters) * np.sqrt(len(line.point))
    x, y = np.vstack([c.x[1] for c in good]), np.vstack([c.y[1] for c in good])
    bends = np.vstack([np.abs(c.second_differences).max(axis=0) for c in good])
    rounding = calibrate_rounding(unit, x, y, bends, steepness)
    good.sort(key=lambda c: float(c.t[0]))
    _check_steps(clusters, good, queries, line)
    return LineCheck(rounding, [LinearPiece(c.t, c.y, rounding.sd(c.x, c.y)) for c in good])


def _distinct_answers(queries: QueryCounter, line: Line, clusters: list[_Cluster]) -> Array:
    """Answers that show their grid; where no unit is active all are the same, and others are asked farther out, then beside the
    line, along the inputs."""
    y, dim = np.vstack([c.y for c in clusters]), len(line.point)
    beside = line.point + line.scale * FAR_PLACES[:, None] * np.eye(dim)[np.arange(len(FAR_PLACES)) % dim]
    beside = beside if queries.box is None else np.clip(beside, queries.box.low, queries.box.high)
    for further in (line(np.clip(line.scale * FAR_PLACES, line.low, line.high)), beside):
        if shows_grid(y):
            break
        y = np.vstack([y, queries.ask(further, "recognise")])
    return y


def _ask_clusters(queries: QueryCounter, line: Line, centres: Array, share: float) -> list[_Cluster]:
    t = centres[:, None] + (share * LOOK.cluster_spacing * (line.scale + np.abs(centres)))[:, None] * SPAN
    y = queries.ask(line(t.ravel()), "recognise").reshape(len(t), len(SPAN), -1)
    return [_Cluster(t[i], line(t[i]), y[i]) for i in range(len(t))]


def _is_linear(cluster: _Cluster, unit: Rounding) -> bool:
    return not _above_rounding(cluster, unit).any()


def _above_rounding(cluster: _Cluster, unit: Rounding) -> Array:
    """Which of the two second differences exceed rounding, (2,): a kink at the side shows in one of them only."""
    level = 4.0 * float(unit.level(cluster.y).max())
    largest = np.abs(cluster.second_differences).max(axis=1)
    return np.asarray(largest > LOOK.linear_roundings * unit.unit * cluster.size + level)


def _is_smooth(old: _Cluster, new: _Cluster, unit: Rounding) -> bool:
    """Whether second differences fell by about 1/256 and are nearly equal, above rounding."""
    first, second = new.second_differences
    equal = np.abs(first - second).max() <= LOOK.smooth_difference * new.bend
    return bool(not _is_linear(new, unit) and equal and 0.2 < LOOK.shrink**2 * new.bend / old.bend < 5.0)


def _check_repeatable(queries: QueryCounter, clusters: list[_Cluster]) -> None:
    x, y = np.vstack([c.x[0] for c in clusters[:2]]), np.vstack([c.y[0] for c in clusters[:2]])
    again = queries.ask(x, "recognise")
    moved = float(np.abs(again - y).max())
    grid = None if queries.resolution is None else queries.resolution()
    unit = detect_grid(np.vstack([c.y for c in clusters])).unit if grid is None else grid.unit
    if moved > LOOK.linear_roundings * unit * max(c.size for c in clusters):  # sums may depend on the number of rows per call
        raise AssumptionViolated(
            f"The same question had answers that differ by {moved:.2g}: the black box is noisy.",
            "Lines compute weights from differences of answers, so equal questions must have equal answers.",
            "Use a method for samples, for instance recover(oracle, RandomStart()).", kind="noisy", moved=moved)


def _check_noise(old: list[_Cluster], new: list[_Cluster], unit: Rounding) -> None:
    """Refuse second differences that stay when the points move together, and not just beside a kink."""
    shares = [b.bend / a.bend for a, b in zip(old, new, strict=True)]
    still = [share for share, b in zip(shares, new, strict=True) if share > 0.3 and _above_rounding(b, unit).all()]
    if len(still) >= 2 and len(still) == len(new):
        level = float(np.median([c.bend for c in new])) / np.sqrt(6.0)
        raise AssumptionViolated(
            f"Neighbouring answers scatter by about {level:.2g}, however near the points are: the black box is noisy.",
            "Lines compute weights from differences of answers.", "Use a method for samples, for instance RandomStart().",
            kind="noisy", level=level)


def _check_steps(clusters: list[_Cluster], good: list[_Cluster], queries: QueryCounter, line: Line) -> None:
    """Refuse a function that is constant on every piece, but not everywhere the same."""
    if any(c.slope > 0.0 for c in good):
        return
    levels = np.vstack([c.y[0] for c in clusters])
    far = queries.ask(line(np.array([line.low, 0.9 * line.low, 0.9 * line.high, line.high])), "recognise")
    if np.ptp(levels, axis=0).max() > 0.0 and (far[0] == far[1]).all() and (far[2] == far[3]).all():
        raise AssumptionViolated(
            "The answers are constant around every point that was looked at, and differ between them: a function of steps.",
            "Steps have no slope from which a weight could be computed.",
            "For step units use HighThreshold(activation=step); for labels ask for scores or probabilities instead.",
            kind="steps")


def _smooth_error(queries: QueryCounter, bent: int) -> AssumptionViolated:
    return AssumptionViolated(
        f"After {queries.total} queries the function is curved around {bent} of {len(CLUSTER_ANGLES)} places: "
        "it is not piecewise linear.",
        "Smooth units (tanh, sigmoid, GELU, ...) have no kinks to be found by lines.",
        "Give the activation and use a method for samples, for instance recover(oracle, RandomStart(activation=tanh)).",
        kind="smooth", bent=bent)


def with_steepness(queries: QueryCounter, rounding: Rounding, x: Array) -> Rounding:
    """The steepest slope between neighbours among random inputs: a line where hardly a unit is on shows too little."""
    y, far = queries.ask(x, "recognise"), np.roll(x, 1, axis=0)
    slopes = np.abs(y - np.roll(y, 1, axis=0)).max(axis=1) / np.linalg.norm(x - far, axis=1)
    return replace(rounding, steepness=max(rounding.steepness, float(slopes.max()) * np.sqrt(x.shape[1])))
