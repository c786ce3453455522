"""Levenberg-Marquardt with variable projection: from a rough start to machine precision.

The readout, the offset and the linear part are eliminated (`normal.py`), so the damped step concerns the hidden rows only:

    (P Schur P + μ D + gauge) δ = P gradient,        D = diag(Schur)

A homogeneous unit may be rescaled against its readout without changing anything: its own row is a null direction of Schur. Rows
that must have length 1 may not move along themselves either. P projects these directions out, `gauge` puts weight on them so
that the matrix is definite, and rows are brought back to unit length after each step. Each trial costs one cheap pass (FᵀF, FᵀR:
the projected loss at the new rows); each accepted step one full pass.

For searches that make thousands of short fits to few rows, `HeldRows` takes the same steps with less work for each. What is free
and affine (offset, linear part) is projected out of features and labels once, by an orthonormal basis Q of [1, x]. At hidden rows
W, with H the projected features and C the readout:

    J = S ⊗ X̃,    B an orthonormal basis of [Q, H],        Schur = (C Cᵀ) ∘ (JᵀJ - (BᵀJ)ᵀBᵀJ),        gradient = C ∘ JᵀR

A unit's own row is a null direction of Schur and orthogonal to the gradient: the damping alone keeps the matrix definite. J is
single precision while the loss is far from rounding. A readout may carry a `penalty` per squared length, which enters as further
rows √penalty·C with label zero (`search/hops.py` says why).
Source: Kaufman (1975), as `normal.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.numerics.linear_algebra import Precision, SPDFactor, factor_in_place, factor_spd, solve_one_in_place, solve_spd
from laybare.numerics.shapes import Array, Progress
from laybare.solver import Effort, FitScale, Iterate, Trial, check_finite, damped_descent, options
from laybare.solver.normal import Step, StepStatistic, project_on
from laybare.solver.point import FittedPoint, Model, Point, overfit, tangent, unit_rows
from laybare.source import Source


def levenberg_marquardt(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> FittedPoint:
    """Minimise the squared error from `start`; `scale` is the centred sum of squares of y, the unit of the relative loss."""
    _check_differentiable(start)
    rule = _Dense(source, options.SOLVER.single_above * scale)
    units = FitScale(scale, source.size, overfit(source, start), unknowns=start.size, normal=1)
    return damped_descent(rule, start, units, effort=effort, progress=progress)


class _System(NamedTuple):
    point: Point
    schur: Array
    held: Array  # P Schur P + gauge
    weight: Array  # of the damping
    gradient: Array
    back: Array  # G⁻¹ FᵀXs: how the coefficients follow the rows
    coefficients: Array
    least: float  # damping


@dataclass(frozen=True, eq=False)
class _Dense:
    """The step rule: normal equations of all rows; a trial costs a least-squares fit."""

    source: Source
    single_above: float = np.inf
    passes: ClassVar[float] = 1.0

    def evaluate(self, point: Point) -> Iterate[Point, None]:
        return Iterate(*project_on(self.source, point), None)

    def system(self, here: Iterate[Point, None]) -> _System:
        single = here.loss > self.single_above and here.point.units.size >= options.SOLVER.single_from
        statistic = StepStatistic(here.point, np.float32 if single else np.float64)
        step = Step(*self.source.sum(statistic, stage="normal equations"))
        check_finite(float(step.loss))
        return projected_system(step, here.point, options.SOLVER.single_damping if single else 0.0)

    def trial(self, system: _System, damping: float) -> Trial[Point]:
        point, (k, p), matrix = system.point, system.point.units.shape, system.held.copy()
        matrix[np.diag_indices(k * p)] += max(damping, system.least) * system.weight
        delta = solve_spd(matrix, tangent(system.gradient.reshape(k, p), point.normals).ravel())
        rows = cap_rows(point.activation, point.units, tangent(delta.reshape(k, p), point.normals))
        delta = rows.ravel()
        predicted = float(delta @ (2.0 * system.gradient - system.schur @ delta))
        follow = (rows[:, :, None] * system.coefficients[:k][:, None, :]).reshape(k * p, -1)
        moved = unit_rows(point, point.units + rows, system.coefficients - system.back @ follow)
        return Trial(moved, predicted, float(np.abs(rows).max()))


def schur_complement(
    step: Step, point: Point, coefficients: Array, dtype: Precision = np.float64
) -> tuple[Array, Array]:
    """Schur complement of the hidden rows for given coefficients, and G⁻¹E: how the coefficients follow the rows."""
    k, p = point.units.shape
    q, A = len(coefficients), coefficients[:k]
    G, E, H = step.gram[:q, :q], step.gram[:q, q:], step.gram[q:, q:]
    back = solve_spd(G, E)
    schur = np.subtract(H, E.T.astype(dtype, copy=False) @ back.astype(dtype, copy=False), dtype=dtype, casting="same_kind")
    schur.reshape(k, p, k, p)[:] *= (A @ A.T).astype(dtype, copy=False)[:, None, :, None]
    return schur, back


def projected_system(step: Step, point: Point, least: float = 0.0) -> _System:
    """The projected problem at a point, from the sums of a step there."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    change = solve_spd(step.gram[:q, :q], step.moment[:q])
    coefficients = point.coefficients + change
    schur, back = schur_complement(step, point, coefficients)
    left = (step.moment[q:] - step.gram[:q, q:].T @ change).reshape(k, p, m)
    gradient = (left * coefficients[:k, None, :]).sum(axis=2).ravel()
    weight = damping_weight(schur)
    held = with_gauge(schur, point.normals, weight.reshape(k, p))
    return _System(point, schur, held, weight, gradient, back, coefficients, least)


def damping_weight(schur: Array) -> Array:
    """D, the diagonal of Schur, for nearly dead units a tiny share of its largest entry."""
    diagonal = schur.diagonal()
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


def cap_rows(activation: Activation, units: Array, rows: Array) -> Array:
    """No unit moves by more than its own length or 1: a saturated unit would otherwise be thrown out of reach."""
    if activation.degree is not None:
        return rows
    lengths, room = (np.linalg.norm(array, axis=1) for array in (rows, units))
    most = np.maximum(1.0, room)
    return np.asarray(rows * np.where(lengths > most, most / np.maximum(lengths, most), 1.0)[:, None])


def _check_differentiable(point: Point) -> None:
    if point.activation.degree == 0:
        raise InvalidInput(
            f"{point.activation.name} has derivative zero.", "The squared error then does not show in which direction to move.",
            "Use HighThreshold(activation=step), which fits the active set instead.")


class Projected(NamedTuple):
    """Features H without their affine part, slopes of the units, the factor of HᵀH + penalty, the readout C, the residual R."""

    features: Array
    slopes: Array
    factor: SPDFactor
    readout: Array
    residual: Array

    @property
    def removal_costs(self) -> Array:
        """What the loss gains by each unit, exactly: |C_i|² over the diagonal of the inverse of HᵀH."""
        inverse = self.factor.solve(np.eye(len(self.readout)))
        return np.asarray(np.sum(self.readout**2, axis=1) / np.diag(inverse))


class _InMemorySystem(NamedTuple):
    rows: Array
    schur: Array
    gradient: Array
    weight: Array  # of the damping
    least: float


@dataclass(frozen=True, eq=False)
class HeldRows:
    """All rows of a source and what is the same for every fit; a step rule of `damped_descent` whose points are hidden rows."""

    inputs: Array
    inputs_single: Array
    affine: Array
    labels: Array
    model: Model
    scale: float
    penalty: float = 0.0
    passes: ClassVar[float] = 1.0

    @staticmethod
    def of(source: Source, model: Model, scale: float) -> HeldRows:
        """One pass. `scale` is the centred sum of squares of y, the unit of the relative loss."""
        x, y = source.read(0, source.size)
        ones = np.ones((len(x), 1))
        inputs = np.hstack([x, ones]) if model.biases else np.array(x)
        affine = np.linalg.qr(np.hstack([*([ones] if model.offset else []), *([x] if model.linear else []), x[:, :0]]))[0]
        return HeldRows(inputs, inputs.astype(np.float32), affine, y - affine @ (affine.T @ y), model, scale)

    def minimise(
        self, units: Array, effort: Effort, progress: Progress | None = None
    ) -> Iterate[Array, Projected]:
        """The minimum near hidden rows `units`."""
        scale = FitScale(self.scale, len(self.inputs), unknowns=units.size, normal=1)
        return damped_descent(self, units, scale, effort=effort, progress=progress)

    def evaluate(self, rows: Array) -> Iterate[Array, Projected]:
        values, slopes = self.model.activation.value_and_slope(self.inputs @ rows.T)
        H = values - self.affine @ (self.affine.T @ values)
        gram = H.T @ H
        gram[np.diag_indices(len(gram))] += self.penalty
        factor = factor_spd(gram)
        C = factor.solve(H.T @ self.labels)
        C = C + factor.solve(H.T @ (self.labels - H @ C) - self.penalty * C)  # once more: the factor has a tiny ridge
        R = self.labels - H @ C
        loss = float(np.sum(R * R) + self.penalty * np.sum(C * C))
        return Iterate(rows, loss, Projected(H, slopes, factor, C, R))

    def system(self, here: Iterate[Array, Projected]) -> _InMemorySystem:
        at, (k, p), limits = here.sums, here.point.shape, options.SOLVER
        single = here.loss > limits.held_single_above * self.scale
        dtype, inputs = (np.float32, self.inputs_single) if single else (np.float64, self.inputs)
        J = np.einsum("nk,np->nkp", at.slopes.astype(dtype), inputs).reshape(len(inputs), k * p)
        Z = np.linalg.solve(np.tril(at.factor.lower), (at.features * at.factor.scale).T)
        E = np.vstack([self.affine.T, Z]).astype(dtype, copy=False) @ J
        schur = J.T @ J
        schur -= E.T @ E
        schur = schur.reshape(k, p, k, p)
        schur *= (at.readout @ at.readout.T).astype(dtype)[:, None, :, None]
        gradient = np.sum((J.T @ at.residual.astype(dtype)).reshape(k, p, -1) * at.readout[:, None, :], axis=2).ravel()
        schur = schur.reshape(k * p, k * p)
        weight = damping_weight(schur).astype(float)
        return _InMemorySystem(here.point, schur, gradient.astype(float), weight, limits.single_damping if single else 0.0)

    def trial(self, system: _InMemorySystem, damping: float) -> Trial[Array]:
        matrix, damping = system.schur.copy(), max(damping, system.least)
        matrix[np.diag_indices(len(matrix))] += (damping * system.weight).astype(matrix.dtype)
        move = system.gradient.astype(matrix.dtype)
        if not factor_in_place(matrix.T):
            return Trial(np.full_like(system.rows, np.nan), np.inf)
        solve_one_in_place(matrix.T, move)
        delta = cap_rows(self.model.activation, system.rows, move.reshape(system.rows.shape).astype(float))
        predicted = float(delta.ravel() @ (system.gradient + damping * system.weight * delta.ravel()))
        return Trial(self._of_unit_length(system.rows + delta), predicted, float(np.abs(delta).max()))

    def _of_unit_length(self, rows: Array) -> Array:
        """|w| = 1 where the length of a row is free."""
        if self.model.activation.degree is None:
            return rows
        dim = rows.shape[1] - self.model.biases
        return np.asarray(rows / np.linalg.norm(rows[:, :dim], axis=1)[:, None])
