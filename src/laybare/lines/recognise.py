"""The first look at a black box: is it made for lines at all? At most 100 queries, and those of a good box are used again.

Four clusters of four equidistant points on the first line. In a piece of a piecewise-linear function their second differences are
zero up to rounding. A cluster that bends is asked again sixteen times smaller: the kink is then mostly gone, while second
differences of a smooth function fall to 1/256 and stay equal to each other, and those of noise do not fall at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from laybare.errors import AssumptionViolated
from laybare.lines.asking import Purse
from laybare.lines.line import Line
from laybare.lines.straight import Straight
from laybare.shapes import Array
from laybare.source.rounding import Rounding, calibrated, representation, tells_grid

ANGLES = np.array([-1.05, -0.4, 0.4, 1.05])
"""Clusters at t = scale · tan(angle): evenly spread over the kinks of Gaussian units."""

FARTHER = np.array([-23.0, -11.0, -5.1, -2.3, 2.3, 5.1, 11.0, 23.0])
"""Places in units of the scale that are asked too, if the clusters do not show how answers are rounded."""

SPACING, SHRINK, SHRINKS = 0.04, 16.0, 3
"""Distance of the points of a cluster, relative to scale + |t|; how it falls, and how often."""

STRAIGHT = 300.0
"""Second differences in units of rounding that a straight piece may have: float32 sums over hundreds of terms have a few."""

EQUAL = 0.25
"""Two second differences of a smooth function next to each other differ by less than this share, once the spacing is small."""

SPAN = np.arange(4.0)


@dataclass(frozen=True, eq=False)
class FirstLook:
    """What the first clusters tell: the level of rounding, and the straight pieces they lie on, in their order."""

    rounding: Rounding
    pieces: list[Straight]
    outputs: int


@dataclass(frozen=True, eq=False)
class _Cluster:
    t: Array
    x: Array
    y: Array

    @property
    def bends(self) -> Array:
        """The two second differences, (2, outputs)."""
        return np.diff(self.y, n=2, axis=0)

    @property
    def slope(self) -> float:
        return float(np.abs(self.y[-1] - self.y[0]).max() / abs(self.t[-1] - self.t[0]))


def first_look(purse: Purse, line: Line) -> FirstLook:
    """Ask the clusters; AssumptionViolated says what was seen if lines cannot work."""
    centres = line.scale * np.tan(ANGLES)
    clusters = _ask(purse, line, centres, 1.0)
    _check_repeatable(purse, clusters)
    unit = replace(representation(_different(purse, line, clusters)), log_odds=purse.log_odds)
    good, smooth, before = [c for c in clusters if _straight(c, unit)], 0, 0
    bad = [c for c in clusters if not _straight(c, unit)]
    for round_ in range(1, SHRINKS + 1):
        if len(good) >= 2 and not smooth:
            break
        smaller = _ask(purse, line, np.array([c.t[0] for c in bad]), SHRINK**-round_)
        before, smooth = smooth, sum(_smooth(old, new, unit) for old, new in zip(bad, smaller, strict=True))
        _check_noise(bad, smaller, unit)
        good += [c for c in smaller if _straight(c, unit)]
        bad = [c for c in smaller if not _straight(c, unit)]
        if smooth >= 2 or (smooth and before):
            raise _not_straight(purse, smooth)
    if len(good) < 2:
        raise _not_straight(purse, len(bad))
    steepness = max(c.slope for c in clusters) * np.sqrt(len(line.point))
    x, y = np.vstack([c.x[1] for c in good]), np.vstack([c.y[1] for c in good])
    rounding = calibrated(unit, x, y, np.vstack([np.abs(c.bends).max(axis=0) for c in good]), steepness)
    good.sort(key=lambda c: float(c.t[0]))
    _check_steps(clusters, good, purse, line)
    return FirstLook(rounding, [Straight(c.t, c.y, rounding.sd(c.x, c.y)) for c in good], y.shape[1])


def _different(purse: Purse, line: Line, clusters: list[_Cluster]) -> Array:
    """Answers that show the grid they lie on: where no unit is active they are all the same, and others are asked farther out."""
    y = np.vstack([c.y for c in clusters])
    if tells_grid(y):
        return y
    return np.vstack([y, purse.ask(line(np.clip(line.scale * FARTHER, line.low, line.high)), "recognise")])


def _ask(purse: Purse, line: Line, centres: Array, share: float) -> list[_Cluster]:
    t = centres[:, None] + (share * SPACING * (line.scale + np.abs(centres)))[:, None] * SPAN
    y = purse.ask(line(t.ravel()), "recognise").reshape(len(t), len(SPAN), -1)
    return [_Cluster(t[i], line(t[i]), y[i]) for i in range(len(t))]


def _size(cluster: _Cluster) -> float:
    return float(np.abs(cluster.y).max() + cluster.slope * np.linalg.norm(cluster.x[0]))


def _straight(cluster: _Cluster, unit: Rounding) -> bool:
    return not _bent(cluster, unit).any()


def _bent(cluster: _Cluster, unit: Rounding) -> Array:
    """Which of the two second differences are above rounding, (2,): a single kink at the side shows in one of them alone."""
    level = 4.0 * float(unit.level(cluster.y).max())
    return np.asarray(np.abs(cluster.bends).max(axis=1) > STRAIGHT * unit.unit * _size(cluster) + level)


def _smooth(old: _Cluster, new: _Cluster, unit: Rounding) -> bool:
    """Second differences that fell by about 1/256 and are nearly equal, above rounding."""
    before, after = np.abs(old.bends).max(), np.abs(new.bends).max()
    equal = np.abs(new.bends[0] - new.bends[1]).max() <= EQUAL * after
    return bool(not _straight(new, unit) and equal and 0.2 < SHRINK**2 * after / before < 5.0)


def _check_repeatable(purse: Purse, clusters: list[_Cluster]) -> None:
    x, y = np.vstack([c.x[0] for c in clusters[:2]]), np.vstack([c.y[0] for c in clusters[:2]])
    again = purse.ask(x, "recognise")
    moved = float(np.abs(again - y).max())
    unit = representation(np.vstack([c.y for c in clusters])).unit
    if moved > STRAIGHT * unit * max(_size(c) for c in clusters):  # sums may depend on how many rows are asked at once
        raise AssumptionViolated(
            f"The same question had answers that differ by {moved:.2g}: the black box is noisy.",
            "Lines read weights from differences of answers, and need a box that repeats itself.",
            "Use a method for samples, for instance recover(oracle, RandomStart()).", kind="noisy", moved=moved)


def _check_noise(old: list[_Cluster], new: list[_Cluster], unit: Rounding) -> None:
    """Second differences that stay when the points move together, and not just beside a kink."""
    shares = [float(np.abs(b.bends).max() / np.abs(a.bends).max()) for a, b in zip(old, new, strict=True)]
    still = [share for share, b in zip(shares, new, strict=True) if share > 0.3 and _bent(b, unit).all()]
    if len(still) >= 2 and len(still) == len(new):
        level = float(np.median([np.abs(c.bends).max() for c in new])) / np.sqrt(6.0)
        raise AssumptionViolated(
            f"Neighbouring answers scatter by about {level:.2g}, however near the points are: the black box is noisy.",
            "Lines read weights from differences of answers.", "Use a method for samples, for instance RandomStart().",
            kind="noisy", level=level)


def _check_steps(clusters: list[_Cluster], good: list[_Cluster], purse: Purse, line: Line) -> None:
    """Flat wherever it is straight, and not everywhere the same."""
    if any(c.slope > 0.0 for c in good):
        return
    levels = np.vstack([c.y[0] for c in clusters])
    far = purse.ask(line(np.array([line.low, 0.9 * line.low, 0.9 * line.high, line.high])), "recognise")
    if np.ptp(levels, axis=0).max() > 0.0 and (far[0] == far[1]).all() and (far[2] == far[3]).all():
        raise AssumptionViolated(
            "The answers are constant around every point that was looked at, and differ between them: a function of steps.",
            "Steps have no slope from which a weight could be read.",
            "For step units use HighThreshold(activation=step); for labels ask for scores or probabilities instead.",
            kind="steps")


def _not_straight(purse: Purse, bent: int) -> AssumptionViolated:
    return AssumptionViolated(
        f"After {purse.total} queries the function is curved around {bent} of {len(ANGLES)} places: it is not piecewise linear.",
        "Smooth units (tanh, sigmoid, GELU, ...) have no kinks to be found by lines.",
        "Give the activation and use a method for samples, for instance recover(oracle, RandomStart(activation=tanh)).",
        kind="smooth", bent=bent)
