"""Levenberg-Marquardt with variable projection, streamed: from a rough start to machine precision.

The readout, the offset and the linear part are eliminated (`normal.py`), so the damped step concerns the hidden rows only:

    (Schur + μ D + gauge) δ = gradient,        D = diag(Schur)

A homogeneous unit may be rescaled against its readout without changing anything: its own row is a null direction of Schur.
`gauge` adds weight along that row, and the row is brought back to unit length after each step.

Each trial costs one cheap pass (FᵀF, FᵀR: the projected loss at the new rows); each accepted step one full pass. Stopping is by
progress, never by the size of the gradient: at the kinks of ReLU the empirical gradient of a stuck fit is of order 1/n.
Source: Marquardt (1963); damping after Nielsen (1999), IMM-REP-1999-05, with the factor bounded below by 1/10.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.refinement.normal import Fit, FitStatistic, Point, Step, StepStatistic
from laybare.refinement.spd import solve_spd
from laybare.refinement.trace import Trace, TraceRow
from laybare.shapes import Array, Event, Progress
from laybare.source import Source

DAMPING_LIMIT = 1e10
DAMPING_FLOOR = 1e-14
NEAR_FLOOR = 1e-26
"""Relative loss that only an exact fit reaches; from here a step that gains less than tenfold is rounding."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """When to stop. `floor` is the relative loss of rounding; `stall_gain` the least relative gain over `stall_steps` steps."""

    max_steps: int = 150
    damping: float = 1e-2
    floor: float = 1e-31
    stall_steps: int = 10
    stall_gain: float = 0.1


class Refined(NamedTuple):
    """Where the solver stopped, the residual sum of squares there (least squares in the readout), and how it got there."""

    point: Point
    loss: float
    trace: Trace


def levenberg_marquardt(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error from `start`; `scale` is the centred sum of squares of y, the unit of the relative loss."""
    _check_differentiable(start)
    begun = time.perf_counter()
    point, loss = project(start, _fit(source, start))
    _check_finite(loss)
    passes, damping, growth = 1, effort.damping, 2.0
    rows = [TraceRow(loss / scale, 0.0, damping, time.perf_counter() - begun, source.size)]
    reason = ""
    try:
        for step in range(effort.max_steps):
            reason = finished(rows, effort)
            if reason:
                break
            system = _system(Step(*source.sum(StepStatistic(point), stage="normal equations")), point)
            passes += 1
            while True:
                trial = _trial(system, point, damping)
                passes += 1
                moved, new_loss = project(trial.point, _fit(source, trial.point))
                gain = (loss - new_loss) / max(trial.predicted, np.finfo(float).tiny)
                if new_loss < loss:  # NaN compares false: a non-finite trial is a rejected trial
                    break
                damping, growth = damping * growth, growth * 2.0
                if damping > DAMPING_LIMIT:
                    break
            if damping > DAMPING_LIMIT:
                reason = "flat"
                break
            damping = max(DAMPING_FLOOR, damping * max(0.1, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3))
            growth, point, loss = 2.0, moved, new_loss
            rows.append(TraceRow(loss / scale, trial.length, damping, time.perf_counter() - begun, passes * source.size))
            if progress is not None:
                progress(Event("refining", step + 1, effort.max_steps, f"relative loss {loss / scale:.1e}"))
    except KeyboardInterrupt:
        reason = "interrupted"
    return Refined(point, loss, Trace(tuple(rows), reason or "steps"))


def project(point: Point, fit: Fit) -> tuple[Point, float]:
    """The same hidden rows with the best coefficients, and the residual sum of squares there."""
    change = solve_spd(fit.gram, fit.moment)
    return point.moved(point.units, point.coefficients + change), float(fit.loss) - float(np.sum(change * fit.moment))


class _System(NamedTuple):
    schur: Array
    gradient: Array
    back: Array  # G⁻¹ FᵀXs: how the coefficients follow the rows
    coefficients: Array


class _Trial(NamedTuple):
    point: Point
    predicted: float
    length: float


def _fit(source: Source, point: Point) -> Fit:
    return Fit(*source.sum(FitStatistic(point), stage="loss"))


def _system(step: Step, point: Point) -> _System:
    k, p = point.units.shape
    q = len(point.coefficients)
    G, E, H = step.gram[:q, :q], step.gram[:q, q:], step.gram[q:, q:]
    solved = solve_spd(G, np.hstack([step.moment[:q], E]))
    m = step.moment.shape[1]
    change, back = solved[:, :m], solved[:, m:]
    coefficients = point.coefficients + change
    A = coefficients[:k]
    schur = ((H - E.T @ back).reshape(k, p, k, p) * (A @ A.T)[:, None, :, None]).reshape(k * p, k * p)
    gradient = ((step.moment[q:] - E.T @ change).reshape(k, p, m) * A[:, None, :]).sum(axis=2).ravel()
    return _System(schur, gradient, back, coefficients)


def _trial(system: _System, point: Point, damping: float) -> _Trial:
    k, p = point.units.shape
    diagonal = np.diag(system.schur)
    weight = np.maximum(diagonal, 1e-12 * diagonal.max())
    matrix = system.schur + _gauge(point, weight)
    matrix[np.diag_indices(k * p)] += damping * weight
    delta = solve_spd(matrix, system.gradient)
    predicted = float(delta @ (2.0 * system.gradient - system.schur @ delta))
    rows = delta.reshape(k, p)
    A = system.coefficients[:k]
    coefficients = system.coefficients - system.back @ (rows[:, :, None] * A[:, None, :]).reshape(k * p, -1)
    return _Trial(unit_rows(point, point.units + rows, coefficients), predicted, float(np.abs(rows).max()))


def _gauge(point: Point, weight: Array) -> Array:
    """Weight along each unit's own row, the direction in which nothing changes for a homogeneous activation."""
    k, p = point.units.shape
    matrix = np.zeros((k, p, k, p))
    if point.activation.degree is not None:
        rows = point.units / np.maximum(np.linalg.norm(point.units, axis=1), 1e-300)[:, None]
        j = np.arange(k)
        matrix[j, :, j, :] = weight.reshape(k, p).mean(axis=1)[:, None, None] * rows[:, :, None] * rows[:, None, :]
    return matrix.reshape(k * p, k * p)


def unit_rows(point: Point, units: Array, coefficients: Array) -> Point:
    """|w| = 1 for homogeneous activations, the length going into the readout."""
    degree = point.activation.degree
    if degree is None:
        return point.moved(units, coefficients)
    lengths = np.linalg.norm(units[:, : units.shape[1] - point.biases], axis=1)
    lengths[lengths == 0.0] = 1.0
    scaled = coefficients.copy()
    scaled[: len(units)] *= lengths[:, None] ** degree
    return point.moved(units / lengths[:, None], scaled)


def finished(rows: list[TraceRow], effort: Effort) -> str:
    """Why to stop here, or nothing: at the floor (also: next to it and no longer falling fast), or without progress."""
    now = rows[-1].loss
    if now <= effort.floor or (len(rows) > 1 and now <= NEAR_FLOOR and now > 0.1 * rows[-2].loss):
        return "floor"
    back = effort.stall_steps
    return "stalled" if len(rows) > back and now > (1.0 - effort.stall_gain) * rows[-1 - back].loss else ""


def _check_differentiable(point: Point) -> None:
    if point.activation.degree == 0:
        raise InvalidInput(
            f"{point.activation.name} has derivative zero.", "The squared error then does not tell in which direction to move.",
            "Use HighThreshold(activation=step), which fits the active set instead.")


def _check_finite(loss: float) -> None:
    if not np.isfinite(loss):
        raise InvalidInput(
            f"The squared error at the start is {loss}.", "Some output of the starting network or of the data overflows.",
            "Look for huge weights or targets, or rescale y.", loss=loss)
