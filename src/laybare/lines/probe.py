"""Parts of the first look at a black box: values on lines with their errors, local shapes, borders, tails.

**Shapes.** Six uneven points around a place. If a line leaves only rounding: linear (flat, if its slope is zero). Else, if
a cubic fits a hundred times better than a line: curved. Else there is a kink or a jump inside, and the points move together.

**Kinks** of a curved function. Fourth differences of points a step h apart fall like h⁴ where it is smooth, and like h around a
kink. So the largest ones are followed to ever smaller steps.

**Borders** of a function that is constant on pieces. Two points on both sides are brought together by bisection. In a decision
tree one input alone decides: changing it changes the answer, changing all the others does not. Step units and labels depend on
several inputs.

**Tails** of smooth functions, by their approach to an asymptote:

    tanh, sigmoid      constant far out, and exp(-2|t|) away from it
    erf                constant far out, and exp(-t²) away from it
    softplus           linear far out, and exp(-|t|) away from it
    GELU               linear far out, and exp(-t²/2) away from it

The slowest unit on the line dominates, so the tail of a sum is that of one unit. On equal steps the logarithm of the distance
falls by equal amounts if it is exponential, by growing ones if it is Gaussian. Tanh and sigmoid cannot be distinguished:
sigmoid(t) = (1 + tanh(t/2))/2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.numerics.shapes import Array
from laybare.source import Oracle, Rounding
from laybare.source.oracle.links import Identity, Link, Logit

SHAPE_OFFSETS = np.array([-1.0, -0.62, -0.17, 0.24, 0.55, 1.0])
"""Points around a place, in half-widths. Derived: six uneven points leave residuals to lines, parabolas and cubics."""

TAIL_ACTIVATIONS = {
    (True, False): ("tanh", "sigmoid"), (True, True): ("erf",), (False, False): ("softplus",), (False, True): ("gelu",)}
"""Names by (constant far out, Gaussian tail)."""


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """Numbers of the first look at a black box."""

    max_queries: int = 280  # of the whole look. Checked by `pytest tests/lines/test_first_look.py`.
    slack_sds: float = 64.0
    """Answers that differ by fewer sds of rounding agree. Checked by `pytest tests/lines/test_first_look.py`."""
    shrink: float = 16.0
    """Factor by which points that span a kink move together. Checked by `pytest tests/lines/test_first_look.py`."""
    max_shrinks: int = 3  # of clusters on the first line. Checked by `pytest tests/lines/test_read_network.py`.
    cluster_spacing: float = 0.04  # relative to scale + |t|. Checked by `pytest tests/lines/test_read_network.py`.
    linear_roundings: float = 300.0
    """Second differences of a linear piece, in units of rounding, at most: float32 sums of hundreds of terms reach a few.
    Checked by `pytest tests/lines/test_read_network.py`."""
    smooth_difference: float = 0.25
    """Relative difference of neighbouring second differences of a smooth function, at most.
    Checked by `pytest tests/lines/test_read_network.py`."""
    shape_rounds: int = 4  # sizes at which a place is looked at. Checked by `pytest tests/lines/test_first_look.py`.
    curve_gain: float = 100.0  # of a cubic over a line, for a curve. Checked by `pytest tests/lines/test_first_look.py`.
    place_half_width: float = 0.1  # relative to the distance of the place. Checked by `pytest tests/lines/test_first_look.py`.
    kink_points: int = 33  # on a line, to look for kinks where it is curved. Checked by `pytest tests/lines/test_first_look.py`.
    kink_places: int = 2  # with the largest fourth differences. Checked by `pytest tests/lines/test_first_look.py`.
    kink_zooms: int = 7  # to steps 16,000 times smaller. Derived: bends of rows of length 1,000 are smooth there.
    kink_zoom: int = 4  # factor of each. Derived: smooth fourth differences fall by 256, those of a kink by 1 to 16.
    kink_fall: float = 0.02  # share that must be left, from the second zoom on. Derived: between 1/16 and 1/256.
    kink_slacks: float = 4.0  # of rounding, that it is at least. Derived: coefficients of a fourth difference are up to 6.
    max_followed_kinks: int = 4  # tested for hyperplanes. Checked by `pytest tests/lines/test_first_look.py`.
    max_borders: int = 3  # of pieces. Checked by `pytest tests/lines/test_first_look.py`.
    max_tails: int = 3  # of smooth functions. Checked by `pytest tests/lines/test_first_look.py`.
    min_quadratic_places: int = 2
    """Of six; twice as many if answers are coarse. Checked by `pytest tests/lines/test_first_look.py`."""
    min_flat_places: int = 4  # of six. Checked by `pytest tests/lines/test_first_look.py`.
    min_linear_places: int = 2  # of six. Checked by `pytest tests/lines/test_first_look.py`.
    border_halvings: int = 14  # to 1/16,000 of the distance. Checked by `pytest tests/lines/test_first_look.py`.
    border_sideways: float = 30.0
    """Shift along a border, in distances of its sides. Checked by `pytest tests/lines/test_first_look.py`."""
    tail_extensions: int = 6  # of the distance, in search of an asymptote. Checked by `pytest tests/lines/test_first_look.py`.
    tail_growth: float = 4.0  # of the distance each time. Checked by `pytest tests/lines/test_first_look.py`.
    tail_points: int = 18  # between the middle and the asymptote. Checked by `pytest tests/lines/test_first_look.py`.
    gaussian_tail_excess: float = 0.12
    """By this share the second half of a Gaussian tail falls more than the first. Derived: 0 for exponential tails, 0.25 to 0.4
    for Gaussian ones over the six to ten digits that float64 leaves."""
    min_tail_fall: float = 4.0  # natural logarithms. Checked by `pytest tests/lines/test_first_look.py`.


LOOK = LookOptions()


class ProbeLine(NamedTuple):
    """All point + t · direction."""

    point: Array
    direction: Array

    def at(self, t: Array) -> Array:
        """Points (n, dim)."""
        return np.asarray(self.point + np.asarray(t)[..., None] * self.direction)


class ProbeValues(NamedTuple):
    """Values (n,) of the function and how far they may be off, (n,); NaN where there is no usable answer."""

    y: Array
    slack: Array


class QueriesUsedUp(Exception):
    """The queries of a look are used up; it ends with what was seen."""


class Probe:
    """Asks an oracle, up to `max_queries` in all, and sums outputs with random weights: what bends in one bends in the sum.

    Answers go through a `link` first, if one is given. No point is asked twice.
    """

    def __init__(self, oracle: Oracle, rounding: Rounding, max_queries: int, rng: Generator, link: Link = Identity()) -> None:
        self.oracle, self.rounding, self.max_queries, self.link = oracle, rounding, max_queries, link
        self.low, self.high = np.inf, -np.inf  # of all answers, before the link
        outputs = oracle.outputs
        self.weights = np.ones(1) if outputs == 1 else rng.uniform(0.5, 1.5, outputs) * rng.choice([-1.0, 1.0], outputs)

    def __call__(self, x: Array) -> ProbeValues:
        """Values at points (n, dim)."""
        if self.oracle.spent + len(x) > self.max_queries:
            raise QueriesUsedUp
        given = self.oracle.ask(x, gaps=True, reuse=True)
        self.low, self.high = min(self.low, float(np.min(given))), max(self.high, float(np.max(given)))
        y = self.link(given)
        return ProbeValues(y @ self.weights, LOOK.slack_sds * self.rounding.level(y) @ np.abs(self.weights))

    def as_log_odds(self, rng: Generator) -> Probe:
        """The same black box, with its answers as probabilities."""
        return Probe(self.oracle, replace(self.rounding, log_odds=True), self.max_queries, rng, Logit())

    def line(self, line: ProbeLine, t: Array) -> ProbeValues:
        """Values on a line."""
        return self(line.at(t))


class LocalShape(NamedTuple):
    """At t: "flat", "linear", "curved", "quadratic" or "unclear", with value, slope and the half-width that was looked at."""

    kind: str
    t: float
    value: float
    slope: float
    width: float


def local_shapes(probe: Probe, line: ProbeLine, places: Array, widths: Array) -> list[LocalShape]:
    """The shape at each place t of the line, within these half-widths, or less where there is a kink inside."""
    found: dict[int, LocalShape] = {}
    count = len(SHAPE_OFFSETS)
    for round_ in range(LOOK.shape_rounds):
        open_ = [i for i in range(len(places)) if i not in found]
        if not open_:
            break
        width = LOOK.shrink**-round_ * widths[open_]
        t = places[open_][:, None] + width[:, None] * SHAPE_OFFSETS
        y, slack = probe.line(line, t.ravel())
        for row, i in enumerate(open_):
            part = slice(row * count, (row + 1) * count)
            shape = _shape_of(ProbeValues(y[part], slack[part]), float(places[i]), float(width[row]))
            if shape.kind != "unclear" or round_ == LOOK.shape_rounds - 1:
                found[i] = shape
    return [found[i] for i in range(len(places))]


def _shape_of(values: ProbeValues, t: float, width: float) -> LocalShape:
    if not np.isfinite(values.y).all():
        return LocalShape("unclear", t, np.nan, np.nan, width)
    slack = float(values.slack.max())
    left = {degree: _polynomial_residual(values.y, degree) for degree in (1, 2, 3)}
    slope, value = np.polyfit(SHAPE_OFFSETS, values.y, 1)
    if left[1] <= slack:
        kind = "flat" if (values.y == values.y[0]).all() else "linear"
    elif left[2] <= slack and left[1] > LOOK.curve_gain * slack:
        kind = "quadratic"
    else:
        kind = "curved" if left[3] <= max(slack, left[1] / LOOK.curve_gain) else "unclear"
    return LocalShape(kind, t, float(value), float(slope / width), width)


def _polynomial_residual(y: Array, degree: int) -> float:
    """Largest residual of a polynomial."""
    return float(np.abs(y - np.polyval(np.polyfit(SHAPE_OFFSETS, y, degree), SHAPE_OFFSETS)).max())


def has_kink(probe: Probe, line: ProbeLine, places: Array) -> bool:
    """Whether a curved function has a kink between the first and the last of these places of a line."""
    t = np.linspace(places[0], places[-1], LOOK.kink_points)
    size = _fourth_differences(probe, line, t)[0]
    return any(
        _is_kink(probe, line, float(t[i + 2]), float(t[1] - t[0]))
        for i in _separate_peaks(size)[: LOOK.kink_places])


def _separate_peaks(size: Array) -> list[int]:
    """The largest values, and others that share no point with them."""
    found: list[int] = []
    for i in np.argsort(-size):
        if all(abs(int(i) - other) > 2 for other in found):
            found.append(int(i))
    return found


def _is_kink(probe: Probe, line: ProbeLine, place: float, step: float) -> bool:
    """Whether fourth differences around a place fall like the step, and not faster."""
    before, half = np.inf, LOOK.kink_zoom + 2
    for zoom in range(LOOK.kink_zooms):
        step /= LOOK.kink_zoom
        t = place + step * np.arange(-half, half + 1)
        size, slack = _fourth_differences(probe, line, t)
        i = int(np.argmax(size))
        if not size[i] > LOOK.kink_slacks * slack or (zoom > 0 and size[i] < LOOK.kink_fall * before):
            return False
        before, place = float(size[i]), float(t[i + 2])
    return True


def _fourth_differences(probe: Probe, line: ProbeLine, t: Array) -> tuple[Array, float]:
    """Their sizes at evenly spaced points, and how far the values may be off."""
    y, slack = probe.line(line, t)
    return np.abs(np.diff(y, 4)), float(slack.max())


def bisect_border(probe: Probe, first: Array, second: Array) -> tuple[Array, Array]:
    """Points on both sides of a border between two points with different answers."""
    value = probe(first[None]).y[0]
    for _ in range(LOOK.border_halvings):
        middle = (first + second) / 2
        if probe(middle[None]).y[0] == value:
            first = middle
        else:
            second = middle
    return first, second


def one_input_decides(probe: Probe, first: Array, second: Array) -> bool:
    """Whether a single input makes the step from the first to the second side: found by bisecting the set of inputs."""
    value = probe(first[None]).y[0]
    inputs = np.arange(len(first))
    while len(inputs) > 1:
        half = inputs[: len(inputs) // 2]
        inputs = half if _answer_with(probe, first, second, half) != value else inputs[len(half) :]
    others = np.delete(np.arange(len(first)), inputs)
    if _answer_with(probe, first, second, inputs) == value or _answer_with(probe, first, second, others) != value:
        return False
    aside = LOOK.border_sideways * (second - first)  # a border that is not square to this input is elsewhere there
    aside[inputs] = 0.0
    if probe.oracle.box is not None:
        aside = np.clip(first + aside, probe.oracle.box.low, probe.oracle.box.high) - first
    return bool(probe((first + aside)[None]).y[0] != _answer_with(probe, first + aside, second, inputs))


def _answer_with(probe: Probe, first: Array, second: Array, inputs: Array) -> float:
    """The answer at the first point with these inputs taken from the second."""
    point = first.copy()
    point[inputs] = second[inputs]
    return float(probe(point[None]).y[0])


class Tail(NamedTuple):
    """One end of a line: whether the function is constant there, and the excess of its second half (NaN: not seen)."""

    constant: bool
    excess: float


def measure_tail(probe: Probe, line: ProbeLine, unit: float) -> Tail | None:
    """The end of the line towards large t; None if there is no linear asymptote."""
    far = unit
    for _ in range(LOOK.tail_extensions):
        t = far * np.array([1.0, 1.31, 1.73, 2.0])
        y, slack = probe.line(line, t)
        if not np.isfinite(y).all():
            return None
        slope, value = np.polyfit(t - t[0], y, 1)
        if np.abs(value + slope * (t - t[0]) - y).max() <= slack.max() / 4:
            constant = bool(abs(slope) * far <= slack.max())
            asymptote = float(value), 0.0 if constant else float(slope)
            return Tail(constant, _tail_excess(probe, line, far, asymptote, float(slack.max())))
        far *= LOOK.tail_growth
    return None


def _tail_excess(probe: Probe, line: ProbeLine, far: float, asymptote: tuple[float, float], slack: float) -> float:
    """How much more the distance to the asymptote falls in the second half of the visible tail than in the first."""
    t = far * np.linspace(0.0, 1.0, LOOK.tail_points, endpoint=False)
    for _ in range(2):
        left = probe.line(line, t).y - asymptote[0] - asymptote[1] * (t - far)
        seen = _visible_tail(left, slack)
        if len(seen) >= 8:
            break
        if not len(seen):
            return float("nan")
        begin, end = t[max(seen[0] - 1, 0)], t[min(seen[-1] + 1, len(t) - 1)]
        t = np.linspace(begin, end, LOOK.tail_points)
    logs, places = np.log(np.abs(left[seen])), t[seen]
    if len(seen) < 5 or logs[0] - logs[-1] < LOOK.min_tail_fall:
        return float("nan")
    middle = float(np.interp(0.5 * (places[0] + places[-1]), places, logs))
    return float((middle - logs[-1]) / (logs[0] - middle) - 1.0) if logs[0] > middle else float("nan")


def _visible_tail(left: Array, slack: float) -> Array:
    """Indices of the last falling points above rounding with one sign, below a hundredth of the largest."""
    above = np.flatnonzero(np.abs(left) > slack)
    if not len(above):
        return above
    stop = int(above[-1]) + 1
    start = stop - 1
    while start > 0 and left[start - 1] * left[start] > 0 and abs(left[start - 1]) > abs(left[start]):
        start -= 1
    run: Array = np.arange(start, stop)
    small: Array = run[np.abs(left[run]) <= 1e-2 * np.abs(left).max()]
    return small
