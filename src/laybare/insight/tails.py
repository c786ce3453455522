"""Smooth units by their tails: how a function on a line comes near to its asymptote.

    tanh, sigmoid      constant far out, and exp(-2|t|) away from it
    erf                constant far out, and exp(-t²) away from it
    softplus           straight far out, and exp(-|t|) away from it
    GELU               straight far out, and exp(-t²/2) away from it

The unit that is slowest on the line is the last one seen, so the tail of a sum is that of one unit. On equal steps the logarithm
of the distance falls by equal amounts if it is exponential, by ever larger ones if it is Gaussian.
Tanh and sigmoid cannot be told apart: sigmoid(t) = (1 + tanh(t/2))/2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.insight.probe import Probe, ProbeLine
from laybare.shapes import Array

FARTHEST, FARTHER = 6, 4.0
"""How often, and by how much, the distance grows in search of the asymptote; what still bends then is left to other lines."""

STEPS = 18
"""Points between the middle and the asymptote."""

NAMES = {(True, False): ("tanh", "sigmoid"), (True, True): ("erf",), (False, False): ("softplus",), (False, True): ("gelu",)}
"""By (constant far out, Gaussian tail)."""

BENDS = 0.12
"""Share by which the fall of the second half of a tail exceeds that of the first: 0 for exponential tails (less where several
units mix), 0.25 to 0.4 for Gaussian ones over the six to ten digits that float64 leaves."""

LEAST_FALL = 4.0
"""Natural logarithms that a tail must fall to be judged."""


class Tail(NamedTuple):
    """One end of a line: whether the function is constant there, and by how much its approach bends (NaN: not seen)."""

    constant: bool
    bends: float


def tail(probe: Probe, line: ProbeLine, unit: float) -> Tail | None:
    """The end of the line towards large t; None if there is no straight asymptote."""
    far = unit
    for _ in range(FARTHEST):
        t = far * np.array([1.0, 1.31, 1.73, 2.0])
        y, slack = probe.line(line, t)
        if not np.isfinite(y).all():
            return None
        slope, value = np.polyfit(t - t[0], y, 1)
        if np.abs(value + slope * (t - t[0]) - y).max() <= slack.max() / 4:
            constant = bool(abs(slope) * far <= slack.max())
            return Tail(constant, _bends(probe, line, far, (float(value), 0.0 if constant else float(slope)), float(slack.max())))
        far *= FARTHER
    return None


def _bends(probe: Probe, line: ProbeLine, far: float, asymptote: tuple[float, float], slack: float) -> float:
    """How much faster the distance to the asymptote falls in the second half of what can be seen of it."""
    t = far * np.linspace(0.0, 1.0, STEPS, endpoint=False)
    for _ in range(2):
        left = probe.line(line, t).y - asymptote[0] - asymptote[1] * (t - far)
        seen = _last_run(left, slack)
        if len(seen) >= 8:
            break
        if not len(seen):
            return float("nan")
        begin, end = t[max(seen[0] - 1, 0)], t[min(seen[-1] + 1, len(t) - 1)]
        t = np.linspace(begin, end, STEPS)
    logs, places = np.log(np.abs(left[seen])), t[seen]
    if len(seen) < 5 or logs[0] - logs[-1] < LEAST_FALL:
        return float("nan")
    middle = float(np.interp(0.5 * (places[0] + places[-1]), places, logs))
    return float((middle - logs[-1]) / (logs[0] - middle) - 1.0) if logs[0] > middle else float("nan")


def _last_run(left: Array, slack: float) -> Array:
    """Numbers of the last points above rounding with one sign, and below the hundredth of where they begin: the tail alone."""
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
