"""ReLU units one by one, exactly: where only unit i is active, f = c₀ + q_i(X_i), and a straight line if P is linear in X_i.

Rows with y ≠ c₀ are given to the unit with the largest margin, as long as all other margins are clearly negative. A least
absolute deviations line through them ignores the few that were given wrongly, so that without noise the fit becomes exact as
soon as most rows are right: c_i w_i and c_i t_i to all digits, for any set of products in P. A top that is not linear in X_i (a
deep one) leaves residuals, which is how it is told.
Source: in place of the refinement of Goel and Panigrahy (2019), section 2.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.lowest_layer.activity import Baseline
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.shapes import Array
from laybare.source import Rows, Source
from laybare.source.selection import closest_rows

MARGINS = (0.6, 0.3, 0.15, 0.1)
"""How far below their thresholds all other units must be, round by round: the directions get better as it falls."""

MOST_ROWS = 20_000
REWEIGHTED = 30
ON_THE_LINE = 1e-9
"""Residuals below this share of the largest deviation are rounding."""

ROWS_A_NUMBER = 3
"""Rows that a line needs for each of its numbers."""


class UnitLines(NamedTuple):
    """c_i (w_i·x - t_i): half-spaces, slopes c (k,) of either sign, rows behind each line, share of them that lie on it."""

    spaces: HalfSpaces
    slopes: Array
    rows: Array
    on_line: Array

    @property
    def exact(self) -> bool:
        """Whether every unit has its line and all of its rows lie on it."""
        return bool((self.on_line > 0.99).all())


def active_rows(source: Source, rule: Baseline, limit: int = MOST_ROWS) -> Rows:
    """The first `limit` active rows."""
    return closest_rows(source, lambda x, y: np.where(rule.active(y), 0.0, np.inf), limit)


def local_lines(rows: Rows, rule: Baseline, start: HalfSpaces) -> UnitLines:
    """Lines through the rows (all of them active) of each unit of `start`, given out anew after every round."""
    spaces, outputs = start, rows.y - rule.value
    for margin in MARGINS:
        given = rows_of_units(spaces, rows.x, margin)
        fits = [_line(rows.x[mine], outputs[mine], spaces.weights[i]) for i, mine in enumerate(given)]
        weights = np.array([w if fit is None else fit.weights for w, fit in zip(spaces.weights, fits, strict=True)])
        thresholds = np.array([t if fit is None else fit.threshold for t, fit in zip(spaces.thresholds, fits, strict=True)])
        spaces = HalfSpaces(weights, thresholds)
    return UnitLines(
        spaces, np.array([0.0 if fit is None else fit.slope for fit in fits]),
        np.array([0 if fit is None else fit.rows for fit in fits]),
        np.array([0.0 if fit is None else fit.on_line for fit in fits]))


def noisy_lines(source: Source, rule: Baseline, lines: UnitLines, limit: int = MOST_ROWS) -> UnitLines:
    """Least squares on rows chosen by x alone, so that label noise does not bias the lines: only unit i's margin is positive."""
    near = closest_rows(source, lambda x, y: np.where((lines.spaces.margins(x) > 0).any(axis=1), 0.0, np.inf), limit)
    weights, thresholds, slopes = lines.spaces.weights.copy(), lines.spaces.thresholds.copy(), lines.slopes.copy()
    counts = lines.rows.copy()
    for i, mine in enumerate(rows_of_units(lines.spaces, near.x, MARGINS[-1])):
        column = _column(near.y[mine] - rule.value)
        if mine.sum() < ROWS_A_NUMBER * (near.x.shape[1] + 1):
            continue
        theta = np.linalg.lstsq(_extended(near.x[mine]), (near.y[mine] - rule.value)[:, column], rcond=None)[0]
        slopes[i] = np.linalg.norm(theta[:-1]) * (1.0 if theta[:-1] @ weights[i] >= 0 else -1.0)
        weights[i], thresholds[i], counts[i] = theta[:-1] / slopes[i], -theta[-1] / slopes[i], mine.sum()
    return UnitLines(HalfSpaces(weights, thresholds), slopes, counts, lines.on_line)


def rows_of_units(spaces: HalfSpaces, x: Array, margin: float) -> list[Array]:
    """Rows of each unit: its margin is the largest, and all others are below -margin."""
    margins = spaces.margins(x)
    best = np.argmax(margins, axis=1)
    others = margins.copy()
    others[np.arange(len(x)), best] = -np.inf
    alone = others.max(axis=1, initial=-np.inf) < -margin
    return [alone & (best == i) for i in range(len(spaces.weights))]


class _Line(NamedTuple):
    weights: Array
    threshold: float
    slope: float
    rows: int
    on_line: float


def _line(x: Array, outputs: Array, towards: Array) -> _Line | None:
    """Least absolute deviations of one output on (x, 1), polished on the rows that lie on it; None if there are too few rows."""
    if len(x) < ROWS_A_NUMBER * (x.shape[1] + 1):
        return None
    x1, r = _extended(x), outputs[:, _column(outputs)]
    scale = float(np.abs(r).max(initial=0.0))
    theta: Array = np.linalg.lstsq(x1, r, rcond=None)[0]
    for _ in range(REWEIGHTED):
        weight = 1.0 / np.sqrt(np.maximum(np.abs(r - x1 @ theta), 1e-12 * scale))
        theta = np.linalg.lstsq(x1 * weight[:, None], r * weight, rcond=None)[0]
    on_line = np.abs(r - x1 @ theta) <= ON_THE_LINE * scale
    if on_line.sum() > x.shape[1] + 1:
        theta = np.linalg.lstsq(x1[on_line], r[on_line], rcond=None)[0]
        on_line = np.abs(r - x1 @ theta) <= ON_THE_LINE * scale
    slope = float(np.linalg.norm(theta[:-1])) * (1.0 if theta[:-1] @ towards >= 0 else -1.0)
    if slope == 0.0:
        return None
    return _Line(theta[:-1] / slope, -float(theta[-1]) / slope, slope, len(x), float(on_line.mean()))


def _extended(x: Array) -> Array:
    return np.column_stack([x, np.ones(len(x))])


def _column(outputs: Array) -> int:
    """The output that moves most."""
    return int(np.argmax(np.abs(outputs).sum(axis=0))) if len(outputs) else 0
