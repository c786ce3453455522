"""Which rows are active, and what the rows show in which one unit alone is active.

Activity. Under a high threshold all units are inactive in most rows, and f = c₀ = P(0, …, 0) there. Noiseless outputs of step and
ReLU units tie exactly, and the tie is c₀ as long as it holds more than half of the rows. With label noise there are no ties: c₀
and the noise are the centre and the spread of the bulk, and a row is active beyond five spreads.

Lines. Where only unit i is active, f = c₀ + q_i(X_i): a straight line in x for ReLU units if P is linear in X_i. Active rows are
assigned to the unit with the largest margin, as long as all other margins are clearly negative. A least absolute deviations line
ignores the few rows that are assigned wrongly, so without noise the fit is exact as soon as most rows are right: c_i w_i and
c_i t_i to all digits, for any products in P. A top that is not linear in X_i (a deep one) leaves residuals.

Levels. Step and ReLU units have the same active set, whatever lies above them; the outputs of rows with one active unit tell them
apart. Under steps they tie at P(0, …, 1, …, 0); under units that rise from zero they do not.
Source: lines are in place of the refinement of Goel and Panigrahy (2019), section 2.1; levels are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.errors import AssumptionViolated
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array, Sums
from laybare.source import Rows, Source
from laybare.source.derived import RelabelledOutputs
from laybare.source.views import rows_with_smallest_key


@dataclass(frozen=True, kw_only=True)
class ActivityOptions:
    """How the baseline is read, and how lines are fitted to the rows of single units."""

    baseline_rows: int = 20_000  # rows from which the baseline is read. Checked by `pytest tests/lowest_layer`.
    min_silent_share: float = 0.5  # of rows at the baseline. Derived: only one output can hold more than half of the rows.
    max_noisy_ties: float = 0.01  # share of the most frequent noisy output. Checked by `pytest tests/lowest_layer`.
    silent_sds: float = 5.0  # noise that counts as silence. Derived: a normal row in 1.7 million lies beyond.
    margins: tuple[float, ...] = (0.6, 0.3, 0.15, 0.1)
    """How far below their thresholds all other units must be, round by round; it falls as the directions get better. The last
    one exceeds the error of the boundaries."""

    max_rows: int = 20_000  # active rows that lines are fitted to. Checked by `pytest tests/lowest_layer`.
    reweightings: int = 30  # steps of least absolute deviations. Checked by `pytest tests/lowest_layer`.
    rounding: float = 1e-9  # residuals over the largest deviation of a row on its line. Checked by `pytest tests/lowest_layer`.
    rows_per_parameter: int = 3  # fewest rows for a line. Checked by `pytest tests/lowest_layer`.


ACTIVITY = ActivityOptions()


@dataclass(frozen=True, eq=False)
class Baseline:
    """c₀, the largest |y - c₀| of silent rows and the noise, (outputs,) each; the share of silent rows."""

    value: Array
    tol: Array
    noise: Array
    silent: float

    @property
    def exact(self) -> bool:
        """Whether the outputs tie exactly: no label noise."""
        return not self.noise.any()

    def active(self, y: Array) -> Array:
        """Rows in which some output is not at the baseline, (n,) of bools."""
        return np.asarray((np.abs(y - self.value) > self.tol).any(axis=1))


def is_silent(activation: Activation) -> bool:
    """Whether units are exactly zero below their thresholds."""
    return not activation(np.array([-1e-3, -1.0, -30.0])).any()


def find_baseline(source: Source) -> Baseline:
    """c₀ from the first rows; refused if it does not hold more than half of them."""
    y = source.read(0, min(source.size, ACTIVITY.baseline_rows)).y
    middle = np.median(y, axis=0)
    tol = ROUNDING * (np.abs(middle) + np.abs(y).max(axis=0))
    silent = float(np.mean((np.abs(y - middle) <= tol).all(axis=1)))
    if silent > ACTIVITY.min_silent_share:
        return Baseline(middle, tol, np.zeros(len(middle)), silent)
    most = float(np.unique(y, axis=0, return_counts=True)[1].max()) / len(y)
    if most <= ACTIVITY.max_noisy_ties:
        return _noisy_baseline(y)
    raise AssumptionViolated(
        f"The most frequent output holds {most:.0%} of {len(y):,} rows.",
        "A high threshold keeps all units inactive in more than half of the rows, and only then is that output the baseline.",
        "Use TensorInit or RandomStart for units that are often active, or a smooth activation if y has no ties by nature.",
        share=most, rows=len(y))


def given_baseline(source: Source, value: float) -> Baseline:
    """A known baseline, such as that of labels: no noise, and it may hold fewer than half of the rows."""
    y = source.read(0, min(source.size, ACTIVITY.baseline_rows)).y
    tol = ROUNDING * (abs(value) + np.abs(y).max(axis=0))
    silent = float(np.mean((np.abs(y - value) <= tol).all(axis=1)))
    return Baseline(np.full(source.outputs, value), tol, np.zeros(source.outputs), silent)


def _noisy_baseline(y: Array) -> Baseline:
    """Centre and spread of the bulk: means of the rows within 2 spreads of the last centre, until nothing changes."""
    centre = np.median(y, axis=0)
    spread = np.median(np.abs(y - centre), axis=0) / 0.6745
    for _ in range(30):
        near = np.abs(y - centre) <= 2.0 * spread
        count = np.maximum(near.sum(axis=0), 1)
        centre = np.sum(y * near, axis=0) / count
        spread = np.sqrt(np.sum((y - centre) ** 2 * near, axis=0) / count / 0.7737)  # variance of N(0, 1) cut at ±2
    silent = float(np.mean((np.abs(y - centre) <= ACTIVITY.silent_sds * spread).all(axis=1)))
    if not silent > ACTIVITY.min_silent_share or not (spread > 0).all():
        raise AssumptionViolated(
            f"No output repeats, and {silent:.0%} of {len(y):,} rows lie within {ACTIVITY.silent_sds:g} spreads of the bulk.",
            "A high threshold keeps all units inactive in most rows, whose noisy outputs gather around one value.",
            "Use a smooth activation if that is what the units have, or data with less noise.", share=silent, rows=len(y))
    return Baseline(centre, ACTIVITY.silent_sds * spread, spread, silent)


def label_active_rows(source: Source, rule: Baseline) -> Source:
    """`source` with y = 1 in active rows and 0 in silent ones: a union of half-spaces, whatever lies above the layer."""
    return RelabelledOutputs(source, lambda y: rule.active(y).astype(float))


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


def read_active_rows(source: Source, rule: Baseline) -> Rows:
    """The first `ACTIVITY.max_rows` active rows."""
    return rows_with_smallest_key(source, lambda x, y: np.where(rule.active(y), 0.0, np.inf), ACTIVITY.max_rows)


def fit_unit_lines(rows: Rows, rule: Baseline, start: HalfSpaces) -> UnitLines:
    """Lines through the active rows of each unit of `start`; rows are assigned anew in every round."""
    spaces, outputs = start, rows.y - rule.value
    for margin in ACTIVITY.margins:
        assigned = assign_rows(spaces, rows.x, margin)
        fits = [_fit_line(rows.x[mine], outputs[mine], spaces.weights[i]) for i, mine in enumerate(assigned)]
        weights = np.array([w if fit is None else fit.weights for w, fit in zip(spaces.weights, fits, strict=True)])
        thresholds = np.array([t if fit is None else fit.threshold for t, fit in zip(spaces.thresholds, fits, strict=True)])
        spaces = HalfSpaces(weights, thresholds)
    return UnitLines(
        spaces, np.array([0.0 if fit is None else fit.slope for fit in fits]),
        np.array([0 if fit is None else fit.rows for fit in fits]),
        np.array([0.0 if fit is None else fit.on_line for fit in fits]))


def refit_noisy_lines(source: Source, rule: Baseline, lines: UnitLines) -> UnitLines:
    """Least squares on rows chosen by x alone, so that label noise does not bias the lines: only unit i's margin is positive."""
    near = rows_with_smallest_key(
        source, lambda x, y: np.where((lines.spaces.margins(x) > 0).any(axis=1), 0.0, np.inf), ACTIVITY.max_rows)
    weights, thresholds, slopes = lines.spaces.weights.copy(), lines.spaces.thresholds.copy(), lines.slopes.copy()
    counts = lines.rows.copy()
    for i, mine in enumerate(assign_rows(lines.spaces, near.x, ACTIVITY.margins[-1])):
        column = _largest_output(near.y[mine] - rule.value)
        if mine.sum() < ACTIVITY.rows_per_parameter * (near.x.shape[1] + 1):
            continue
        theta = np.linalg.lstsq(_with_ones(near.x[mine]), (near.y[mine] - rule.value)[:, column], rcond=None)[0]
        slopes[i] = np.linalg.norm(theta[:-1]) * (1.0 if theta[:-1] @ weights[i] >= 0 else -1.0)
        weights[i], thresholds[i], counts[i] = theta[:-1] / slopes[i], -theta[-1] / slopes[i], mine.sum()
    return UnitLines(HalfSpaces(weights, thresholds), slopes, counts, lines.on_line)


def assign_rows(spaces: HalfSpaces, x: Array, margin: float) -> list[Array]:
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


def _fit_line(x: Array, outputs: Array, towards: Array) -> _Line | None:
    """Least absolute deviations of one output on (x, 1), then least squares on the rows that lie on it; None for too few rows."""
    if len(x) < ACTIVITY.rows_per_parameter * (x.shape[1] + 1):
        return None
    x1, r = _with_ones(x), outputs[:, _largest_output(outputs)]
    scale = float(np.abs(r).max(initial=0.0))
    theta: Array = np.linalg.lstsq(x1, r, rcond=None)[0]
    for _ in range(ACTIVITY.reweightings):
        weight = 1.0 / np.sqrt(np.maximum(np.abs(r - x1 @ theta), 1e-12 * scale))
        theta = np.linalg.lstsq(x1 * weight[:, None], r * weight, rcond=None)[0]
    on_line = np.abs(r - x1 @ theta) <= ACTIVITY.rounding * scale
    if on_line.sum() > x.shape[1] + 1:
        theta = np.linalg.lstsq(x1[on_line], r[on_line], rcond=None)[0]
        on_line = np.abs(r - x1 @ theta) <= ACTIVITY.rounding * scale
    slope = float(np.linalg.norm(theta[:-1])) * (1.0 if theta[:-1] @ towards >= 0 else -1.0)
    if slope == 0.0:
        return None
    return _Line(theta[:-1] / slope, -float(theta[-1]) / slope, slope, len(x), float(on_line.mean()))


def _with_ones(x: Array) -> Array:
    return np.column_stack([x, np.ones(len(x))])


def _largest_output(outputs: Array) -> int:
    """The output that moves most."""
    return int(np.argmax(np.abs(outputs).sum(axis=0))) if len(outputs) else 0


class SingleUnitRows(NamedTuple):
    """Fresh rows with one active unit, and how many of them have the level of that unit as output."""

    rows: int
    tied: int

    @property
    def share(self) -> float:
        """Share of rows that tie; NaN if there are none."""
        return self.tied / self.rows if self.rows else float("nan")


def count_single_unit_rows(used: Source, fresh: Source, rule: Baseline, spaces: HalfSpaces) -> SingleUnitRows:
    """Count on `fresh` the rows that tie at the level of their unit, the median of its rows in `used`."""
    rows, margin = read_active_rows(used, rule), ACTIVITY.margins[-1]
    levels = np.array([
        np.median(rows.y[mine], axis=0) if mine.any() else np.full(used.outputs, np.nan)
        for mine in assign_rows(spaces, rows.x, margin)])

    def count(x: Array, y: Array) -> Sums:
        active = rule.active(y)
        mine = np.array(assign_rows(spaces, x[active], margin))
        gaps = np.abs(y[active] - levels[mine.argmax(axis=0)])
        tied = (gaps <= rule.tol).all(axis=1)
        alone = mine.any(axis=0)
        return np.asarray(alone.sum()), np.asarray((tied & alone).sum())

    alone, tied = fresh.sum(count, stage="lone units")
    return SingleUnitRows(int(alone), int(tied))
