"""Levenberg-Marquardt on few rows, held in memory: for searches that make thousands of short fits.

The same steps as `dense.py`, with less work for each. What is free and affine (offset, linear part) is projected out of features
and labels once, by an orthonormal basis Q of [1, x]. At hidden rows W, with H the projected features and C the readout:

    J = S ⊗ X̃,    B an orthonormal basis of [Q, H],        Schur = (C Cᵀ) ∘ (JᵀJ - (BᵀJ)ᵀBᵀJ),        gradient = C ∘ JᵀR

A homogeneous unit's own row is a null direction of Schur and orthogonal to the gradient, so that the damping alone keeps the
matrix definite. J is single precision while the loss is far from rounding. A readout may carry a `penalty` per squared length,
which enters as further rows √penalty·C with label zero (`search/hops.py` says why).
Source: Kaufman (1975), as `normal.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from laybare.numerics.lapack import factor_in_place, solve_one_in_place
from laybare.numerics.linear_algebra import SPDFactor, factor_spd
from laybare.numerics.shapes import Array, Progress
from laybare.solver import Effort, FitScale, Iterate, SolverResult, Trial, damped_descent, options
from laybare.solver.dense import cap_rows
from laybare.solver.point import Model
from laybare.source import Source


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

    def with_penalty(self, penalty: float) -> HeldRows:
        """The same with another penalty."""
        return replace(self, penalty=penalty)

    def minimise(
        self, units: Array, effort: Effort, progress: Progress | None = None
    ) -> SolverResult[Array, Projected]:
        """The minimum near hidden rows `units`."""
        return damped_descent(self, units, FitScale(self.scale, len(self.inputs)), effort=effort, progress=progress)

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
        diagonal = np.diag(schur).astype(float)
        weight = np.maximum(diagonal, 1e-12 * diagonal.max())
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
