"""Levenberg-Marquardt with variable projection, streamed: from a rough start to machine precision.

The readout, the offset and the linear part are eliminated (`normal.py`), so the damped step concerns the hidden rows only:

    (P Schur P + μ D + gauge) δ = P gradient,        D = diag(Schur)

A homogeneous unit may be rescaled against its readout without changing anything: its own row is a null direction of Schur. Rows
that must have length 1 may not move along themselves either. P projects these directions out, `gauge` puts weight on them so
that the matrix is definite, and rows are brought back to unit length after each step.

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
from laybare.linear_algebra import solve_spd
from laybare.refinement.normal import Fit, FitStatistic, Point, Step, StepStatistic
from laybare.refinement.trace import Trace, TraceRow
from laybare.shapes import Array, Event, Progress
from laybare.source import Source

DAMPING_LIMIT = 1e10
DAMPING_FLOOR = 1e-14
SOLVED_ALREADY = 1e-29
"""Relative loss at which a start is exact: a step would only stir its rounding."""

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
    """Where the solver stopped, the residual sum of squares there (least squares in the readout), and how it got there.

    `agreed` says that a second run, from other units, ended at the same loss.
    """

    point: Point
    loss: float
    trace: Trace
    agreed: bool = False


def levenberg_marquardt(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error from `start`; `scale` is the centred sum of squares of y, the unit of the relative loss."""
    _check_differentiable(start)
    begun = time.perf_counter()
    point, loss = project(start, _fit(source, start))
    check_finite(loss)
    passes, damping, growth = 1, effort.damping, 2.0
    rows = [TraceRow(loss / scale, 0.0, damping, time.perf_counter() - begun, source.size)]
    reason = ""
    try:
        for step in range(effort.max_steps):
            reason = finished(rows, effort)
            if reason:
                break
            sums = Step(*source.sum(StepStatistic(point), stage="normal equations"))
            check_finite(float(sums.loss))
            system = _system(sums, point)
            passes += 1
            while True:
                trial = _trial(system, point, damping)
                passes += 1
                moved, new_loss = project(trial.point, _fit(source, trial.point))
                if new_loss < loss:  # NaN compares false: a non-finite trial is a rejected trial
                    break
                damping, growth = damping * growth, growth * 2.0
                if damping > DAMPING_LIMIT:
                    break
            if damping > DAMPING_LIMIT:
                check_finite(float(_fit(source, point).loss))
                reason = "flat"
                break
            damping = eased(damping, loss - new_loss, trial.predicted)
            growth, point, loss = 2.0, moved, new_loss
            rows.append(TraceRow(loss / scale, trial.length, damping, time.perf_counter() - begun, passes * source.size))
            if progress is not None:
                progress(Event("refining", step + 1, effort.max_steps, f"relative loss {loss / scale:.1e}"))
    except KeyboardInterrupt:
        reason = "interrupted"
    return Refined(point, loss, Trace(tuple(rows), reason or "steps"))


def project(point: Point, fit: Fit) -> tuple[Point, float]:
    """The same hidden rows with the best coefficients, and the residual sum of squares there; NaN for rows that overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        change = solve_spd(fit.gram, fit.moment)
        loss = float(fit.loss) - float(np.sum(change * fit.moment))  # at an exact fit rounding may take it below zero
        moved = point.moved(point.units, point.coefficients + change)
    return moved, max(loss, 0.0) if np.isfinite(loss) else np.nan


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
    matrix = _with_gauge(system.schur, point.normals, weight.reshape(k, p))
    matrix[np.diag_indices(k * p)] += damping * weight
    delta = solve_spd(matrix, tangent(system.gradient.reshape(k, p), point.normals).ravel())
    delta = _capped(point, tangent(delta.reshape(k, p), point.normals)).ravel()
    predicted = float(delta @ (2.0 * system.gradient - system.schur @ delta))
    rows = delta.reshape(k, p)
    A = system.coefficients[:k]
    coefficients = system.coefficients - system.back @ (rows[:, :, None] * A[:, None, :]).reshape(k * p, -1)
    return _Trial(unit_rows(point, point.units + rows, coefficients), predicted, float(np.abs(rows).max()))


def _with_gauge(schur: Array, normals: Array | None, weight: Array) -> Array:
    """P Schur P + Σ_j (mean weight of unit j) n_j n_jᵀ, with P = I - Σ_j n_j n_jᵀ; a copy of Schur if there are no normals."""
    matrix = schur.copy()
    if normals is None:
        return matrix
    k, p = normals.shape
    blocks = matrix.reshape(k, p, k, p)
    blocks -= normals[:, :, None, None] * np.einsum("ja,jalb->jlb", normals, blocks)[:, None]
    blocks -= np.einsum("jalb,lb->jal", blocks, normals)[..., None] * normals
    j = np.arange(k)
    blocks[j, :, j, :] += weight.mean(axis=1)[:, None, None] * normals[:, :, None] * normals[:, None, :]
    return matrix


def _capped(point: Point, rows: Array) -> Array:
    """No row moves by more than its own length, or 1: a unit that has gone flat would otherwise be thrown out of reach."""
    if point.activation.degree is not None:
        return rows
    lengths, room = (np.linalg.norm(array, axis=1) for array in (rows, point.units))
    return np.asarray(rows * np.minimum(1.0, np.maximum(1.0, room) / np.maximum(lengths, 1e-300))[:, None])


def tangent(rows: Array, normals: Array | None) -> Array:
    """Rows without their parts along the normals."""
    if normals is None:
        return rows
    return np.asarray(rows - np.sum(rows * normals, axis=1)[:, None] * normals)


def unit_rows(point: Point, units: Array, coefficients: Array) -> Point:
    """|w| = 1 where rows have a fixed length; for homogeneous activations the length goes into the readout."""
    if point.normals is None:
        return point.moved(units, coefficients)
    dim = units.shape[1] - point.biases
    lengths = np.linalg.norm(units[:, :dim], axis=1)[:, None]
    lengths[lengths == 0.0] = 1.0
    degree = point.activation.degree
    if degree is None:
        return point.moved(np.hstack([units[:, :dim] / lengths, units[:, dim:]]), coefficients)
    scaled = coefficients.copy()
    scaled[: len(units)] *= lengths**degree
    return point.moved(units / lengths, scaled)


def eased(damping: float, gained: float, predicted: float) -> float:
    """Damping after an accepted step: less if the loss fell by half of what was predicted or more, else more (Nielsen 1999)."""
    ratio = 1.0 if gained >= predicted else gained / predicted
    return max(DAMPING_FLOOR, damping * max(0.1, 1.0 - (2.0 * ratio - 1.0) ** 3))


def finished(rows: list[TraceRow], effort: Effort) -> str:
    """Why to stop here, or nothing: at the floor (also: next to it and no longer falling fast), or without progress."""
    now = rows[-1].loss
    floor = max(effort.floor, SOLVED_ALREADY) if len(rows) == 1 else effort.floor
    if now <= floor or (len(rows) > 1 and now <= NEAR_FLOOR and now > 0.1 * rows[-2].loss):
        return "floor"
    back = effort.stall_steps
    return "stalled" if len(rows) > back and now > (1.0 - effort.stall_gain) * rows[-1 - back].loss else ""


def _check_differentiable(point: Point) -> None:
    if point.activation.degree == 0:
        raise InvalidInput(
            f"{point.activation.name} has derivative zero.", "The squared error then does not tell in which direction to move.",
            "Use HighThreshold(activation=step), which fits the active set instead.")


def check_finite(loss: float) -> None:
    """Refuse to go on from a loss that is no number."""
    if not np.isfinite(loss):
        raise InvalidInput(
            f"The squared error is {loss}.", "Some block of the data is no longer finite, or an output of the network overflows.",
            "Look for NaN in the data, for huge weights or targets, or rescale y.", loss=loss)
