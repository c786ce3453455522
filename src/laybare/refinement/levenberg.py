"""Levenberg-Marquardt with variable projection, streamed: from a rough start to machine precision.

The readout, the offset and the linear part are eliminated (`normal.py`), so the damped step concerns the hidden rows only:

    (P Schur P + μ D + gauge) δ = P gradient,        D = diag(Schur)

A homogeneous unit may be rescaled against its readout without changing anything: its own row is a null direction of Schur. Rows
that must have length 1 may not move along themselves either. P projects these directions out, `gauge` puts weight on them so
that the matrix is definite, and rows are brought back to unit length after each step.

Each trial costs one cheap pass (FᵀF, FᵀR: the projected loss at the new rows); each accepted step one full pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from laybare.damping import Effort, Place, Trace, Trial, check_finite, damped_descent
from laybare.errors import InvalidInput
from laybare.levels import EPS
from laybare.linear_algebra import Precision, solve_spd
from laybare.refinement.normal import Fit, FitStatistic, Point, Step, StepStatistic
from laybare.shapes import Array, Progress
from laybare.source import Source

FAR, LARGE, LEAST_SINGLE = 1e-3, 200, 1e-5
"""Relative loss above which the normal equations may be single precision, which takes half the time, hidden numbers from which
that is seen, and the least damping that keeps such a matrix definite."""


class Refined(NamedTuple):
    """Where the solver stopped, the residual sum of squares there (least squares in the readout), and how it got there.

    `runs` from other units were made until two of them ended here; 0: no two did.
    """

    point: Point
    loss: float
    trace: Trace
    runs: int = 0

    @property
    def agreed(self) -> bool:
        return self.runs > 0


def levenberg_marquardt(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error from `start`; `scale` is the centred sum of squares of y, the unit of the relative loss."""
    _check_differentiable(start)
    end = damped_descent(
        _Dense(source, FAR * scale), start, scale, effort=effort, size=source.size, overfit=overfit(source, start),
        progress=progress)
    return Refined(end.best.point, end.best.loss, end.trace)


def overfit(source: Source, point: Point) -> float:
    """P / (N - P) for P unknowns in N equations: the share of the residual by which noise lowers it; at most P."""
    gauge = 0 if point.normals is None else point.width
    unknowns = point.units.size + point.coefficients.size - gauge
    return float(unknowns / max(1, source.size * source.outputs - unknowns))


def project(point: Point, fit: Fit) -> tuple[Point, float]:
    """The same hidden rows with the best coefficients, and the residual sum of squares there; NaN for rows that overflow.

    Where readouts have grown until their outputs are rounding, what is left of a huge residual must not pass for an exact fit.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        change = solve_spd(fit.gram, fit.moment)
        loss = float(fit.loss) - float(np.sum(change * fit.moment))  # known up to the rounding of what it is taken from
        moved = point.moved(point.units, point.coefficients + change)
    return moved, max(loss, EPS * float(fit.loss)) if np.isfinite(loss) else np.nan


class _System(NamedTuple):
    point: Point
    schur: Array
    held: Array  # P Schur P + gauge
    weight: Array  # of the damping
    gradient: Array
    back: Array  # G⁻¹ FᵀXs: how the coefficients follow the rows
    coefficients: Array
    least: float = 0.0


@dataclass(frozen=True, eq=False)
class _Dense:
    """The step rule: normal equations of all rows, then trials at the price of a least-squares fit."""

    source: Source
    far: float = np.inf
    passes: ClassVar[float] = 1.0

    def judge(self, point: Point) -> Place[Point, None]:
        return Place(*project(point, Fit(*self.source.sum(FitStatistic(point), stage="loss"))), None)

    def system(self, here: Place[Point, None]) -> _System:
        single = here.loss > self.far and here.point.units.size >= LARGE
        statistic = StepStatistic(here.point, np.float32 if single else np.float64)
        sums = Step(*self.source.sum(statistic, stage="normal equations"))
        check_finite(float(sums.loss))
        return _system(sums, here.point)._replace(least=LEAST_SINGLE if single else 0.0)

    def trial(self, system: _System, damping: float) -> Trial[Point]:
        return _trial(system, max(damping, system.least))


def reduced(
    step: Step, point: Point, coefficients: Array, dtype: Precision = np.float64
) -> tuple[Array, Array]:
    """Schur complement of the hidden rows for given coefficients, in some precision, and G⁻¹E: how the coefficients follow the
    rows."""
    k, p = point.units.shape
    q, A = len(coefficients), coefficients[:k]
    G, E, H = step.gram[:q, :q], step.gram[:q, q:], step.gram[q:, q:]
    back = solve_spd(G, E)
    schur = np.subtract(H, E.T.astype(dtype, copy=False) @ back.astype(dtype, copy=False), dtype=dtype, casting="same_kind")
    schur.reshape(k, p, k, p)[:] *= (A @ A.T).astype(dtype, copy=False)[:, None, :, None]
    return schur, back


def _system(step: Step, point: Point) -> _System:
    k, p = point.units.shape
    q, m = point.coefficients.shape
    change = solve_spd(step.gram[:q, :q], step.moment[:q])
    coefficients = point.coefficients + change
    schur, back = reduced(step, point, coefficients)
    left = (step.moment[q:] - step.gram[:q, q:].T @ change).reshape(k, p, m)
    gradient = (left * coefficients[:k, None, :]).sum(axis=2).ravel()
    weight = damping_weight(schur)
    held = with_gauge(schur, point.normals, weight.reshape(k, p))
    return _System(point, schur, held, weight, gradient, back, coefficients)


def _trial(system: _System, damping: float) -> Trial[Point]:
    point = system.point
    k, p = point.units.shape
    matrix = system.held.copy()
    matrix[np.diag_indices(k * p)] += damping * system.weight
    delta = solve_spd(matrix, tangent(system.gradient.reshape(k, p), point.normals).ravel())
    delta = _capped(point, tangent(delta.reshape(k, p), point.normals)).ravel()
    predicted = float(delta @ (2.0 * system.gradient - system.schur @ delta))
    rows = delta.reshape(k, p)
    A = system.coefficients[:k]
    coefficients = system.coefficients - system.back @ (rows[:, :, None] * A[:, None, :]).reshape(k * p, -1)
    return Trial(unit_rows(point, point.units + rows, coefficients), predicted, float(np.abs(rows).max()))


def damping_weight(schur: Array) -> Array:
    """D, the diagonal of Schur; units that are nearly dead get a whisper of the largest entry."""
    diagonal = np.diag(schur)
    return np.asarray(np.maximum(diagonal, 1e-12 * diagonal.max()))


def with_gauge(schur: Array, normals: Array | None, weight: Array) -> Array:
    """P Schur P + Σ_j (mean weight of unit j) n_j n_jᵀ, with P = I - Σ_j n_j n_jᵀ; a copy of Schur if there are no normals."""
    matrix = schur.copy()
    if normals is None:
        return matrix
    (k, p), normals = normals.shape, normals.astype(schur.dtype, copy=False)
    slabs, blocks = matrix.reshape(k, p, k * p), matrix.reshape(k, p, k, p)
    slabs -= normals[:, :, None] * (normals[:, None, :] @ slabs)
    blocks -= np.einsum("jalb,lb->jal", blocks, normals)[..., None] * normals
    j, own = np.arange(k), weight.mean(axis=1).astype(schur.dtype, copy=False)
    blocks[j, :, j, :] += own[:, None, None] * normals[:, :, None] * normals[:, None, :]
    return matrix


def _capped(point: Point, rows: Array) -> Array:
    """No row moves by more than its own length, or 1: a unit that has gone flat would otherwise be thrown out of reach."""
    if point.activation.degree is not None:
        return rows
    lengths, room = (np.linalg.norm(array, axis=1) for array in (rows, point.units))
    most = np.maximum(1.0, room)
    return np.asarray(rows * np.where(lengths > most, most / np.maximum(lengths, most), 1.0)[:, None])


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


def _check_differentiable(point: Point) -> None:
    if point.activation.degree == 0:
        raise InvalidInput(
            f"{point.activation.name} has derivative zero.", "The squared error then does not tell in which direction to move.",
            "Use HighThreshold(activation=step), which fits the active set instead.")
