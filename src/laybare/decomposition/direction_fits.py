"""Least squares over unit directions, everything linear eliminated: Levenberg-Marquardt for tensors and stacks, and shrinkage.

A `DirectionFit` gives its squared misfit and its normal equations at given directions, coefficients or loadings eliminated
(variable projection in Kaufman's form). The scale of a direction is not a parameter: uᵢuᵢᵀ is added to the diagonal blocks of the
normal matrix, which forbids steps along uᵢ and changes no other. With G = UUᵀ the Jacobian is never formed:

Tensor T ≈ Σᵢ cᵢ uᵢ^{⊗p}, p = 3 or 4, dense and small (k ≤ 40). Time per step: k^p r for the misfit and (rk)³/3 for the solve.
    ⟨∂_{i,a}, ∂_{j,b}⟩ = p cᵢ cⱼ (G_ij^{p−1} δ_ab + (p−1) G_ij^{p−2} u_ja u_ib),   ⟨∂_{i,a}, uⱼ^{⊗p}⟩ = p cᵢ G_ij^{p−1} u_ja

Stack A_l ≈ Σᵢ λ_lᵢ uᵢuᵢᵀ: the loadings of all slices share one projection, off the span of the uⱼuⱼᵀ, so with H = G∘G
    ⟨∂_{i,a}, ∂_{j,b}⟩ = (ΛᵀΛ)_ij · (2 G_ij δ_ab + 2 u_ja u_ib − 4 Σ_mn u_ma G_im (H⁻¹)_mn G_jn u_nb)
Unlike FFDIAG it minimises a fixed distance: the maximum-likelihood answer for equal noise in all slices.

Shrinkage. Directions that were estimated separately are not orthogonal even where the true ones are: each cosine g_ij = uᵢ·uⱼ
carries the noise of two estimates. If the q = r(r−1)/2 cosines are no larger than that noise, half of the error of every
direction is in them. James and Stein's positive-part factor decides how much of them to keep,
    s = max(0, 1 − (q−2) · m/(m+2) / Σ z_ij²),   z_ij = g_ij / sd(g_ij),
and the directions move by 1 − s of the way to the nearest orthogonal ones. Cosines above the noise give s ≈ 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.decomposition.components import (
    contract,
    loadings,
    powers,
    tensor_coefficients,
    tensor_misfit,
    unit_rows,
)
from laybare.numerics.levels import START_LOSS
from laybare.numerics.shapes import Array
from laybare.solver import Effort, FitScale, Iterate, Trial, damped_descent

LEAST_GAIN = 1e-15
"""Relative gain of a step below which a fit ends. Derived: it moves directions by √1e-15 = 3e-8 of their own error."""

EFFORT = Effort(damping=1e-6, damping_limit=1e6, floor=START_LOSS, stall_gain=0.0, gain_tol=LEAST_GAIN, kink_tol=LEAST_GAIN)


class NormalEquations(NamedTuple):
    """JᵀJ (r·k, r·k) and −Jᵀ·misfit (r, k), of half the squared misfit."""

    matrix: Array
    descent: Array


@runtime_checkable
class DirectionFit(Protocol):
    """A least-squares problem in unit directions (r, k); `energy` is the squared norm of the input."""

    @property
    def energy(self) -> float: ...

    def misfit(self, directions: Array) -> float: ...

    def normal(self, directions: Array) -> NormalEquations: ...


def minimise_misfit(fit: DirectionFit, directions: Array, max_steps: int = 50) -> Array:
    """Directions of a nearby least-squares minimum; the misfit never grows. Quadratic convergence on exact input."""
    effort = replace(EFFORT, max_steps=max_steps)
    end = damped_descent(_DirectionProblem(fit), directions, FitScale(max(fit.energy, np.finfo(float).tiny)), effort=effort)
    return end.point


class _DirectionSystem(NamedTuple):
    directions: Array
    normal: NormalEquations


@dataclass(frozen=True, eq=False)
class _DirectionProblem:
    """The least-squares problem as `damped_descent` sees it: unit directions that turn."""

    fit: DirectionFit
    passes: ClassVar[float] = 0.0

    def evaluate(self, point: Array) -> Iterate[Array, None]:
        return Iterate(point, self.fit.misfit(point), None)

    def system(self, here: Iterate[Array, None]) -> _DirectionSystem:
        return _DirectionSystem(here.point, self.fit.normal(here.point))

    def trial(self, system: _DirectionSystem, damping: float) -> Trial[Array]:
        step = _damped_step(system.normal, damping)
        flat = step.ravel()
        predicted = float(flat @ (2.0 * system.normal.descent.ravel() - system.normal.matrix @ flat))
        return Trial(unit_rows(system.directions + step), predicted)


def _damped_step(normal: NormalEquations, damping: float) -> Array:
    """Solution of (JᵀJ + damping · diag JᵀJ) step = descent; by least squares if rounding left the matrix indefinite."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    diagonal = np.diag(normal.matrix)
    matrix = normal.matrix + np.diag(damping * diagonal + 1e-15 * diagonal.max())
    try:
        step: Array = cho_solve(cho_factor(matrix, check_finite=False), normal.descent.ravel(), check_finite=False)
    except LinAlgError:
        step = np.linalg.lstsq(matrix, normal.descent.ravel(), rcond=None)[0]
    return step.reshape(normal.descent.shape)


@dataclass(frozen=True, eq=False)
class TensorFit:
    """The misfit of a dense symmetric tensor, coefficients eliminated."""

    tensor: Array

    @property
    def energy(self) -> float:
        return float(np.sum(self.tensor**2))

    def misfit(self, directions: Array) -> float:
        c = tensor_coefficients(self.tensor, directions)
        return float(np.sum(tensor_misfit(self.tensor, directions, c) ** 2))

    def normal(self, directions: Array) -> NormalEquations:
        u, p = directions, self.tensor.ndim
        rank, dim = u.shape
        c, gram = tensor_coefficients(self.tensor, u), u @ u.T
        near, nearer = gram ** (p - 1), gram ** (p - 2)
        pair = p * np.outer(c, c)
        matrix = np.einsum("ij,ja,ib->iajb", (p - 1) * pair * nearer, u, u, optimize=True)
        index = np.arange(dim)
        matrix[:, index, :, index] += pair * near
        # Gauge: forbid steps along the direction itself.
        matrix[np.arange(rank), :, np.arange(rank), :] += np.einsum("i,ia,ib->iab", p * c**2, u, u)
        cross = (p * c[:, None, None] * near[:, None, :] * u.T[None]).reshape(rank * dim, rank)
        matrix = matrix.reshape(rank * dim, rank * dim) - cross @ np.linalg.lstsq(gram**p, cross.T, rcond=None)[0]
        descent = p * c[:, None] * (contract(self.tensor, u, 1) - (near * c) @ u)
        return NormalEquations(matrix, descent)


def polish_tensor(tensor: Array, directions: Array, max_steps: int = 50) -> Array:
    """Directions of the least-squares CP near these ones. Deterministic; the residual never grows."""
    return minimise_misfit(TensorFit(tensor), directions, max_steps)


@dataclass(frozen=True, eq=False)
class StackFit:
    """The misfit of a stack of symmetric matrices, loadings eliminated."""

    slices: Array

    @property
    def energy(self) -> float:
        return float(np.sum(self.slices**2))

    def misfit(self, directions: Array) -> float:
        return float(np.sum(self._left(directions, loadings(self.slices, directions)) ** 2))

    def normal(self, directions: Array) -> NormalEquations:
        u, (rank, dim) = directions, directions.shape
        weights, gram = loadings(self.slices, u), u @ u.T
        pair = weights.T @ weights
        matrix = np.einsum("ij,ja,ib->iajb", 2 * pair, u, u, optimize=True)
        index, unit = np.arange(dim), np.arange(rank)
        matrix[:, index, :, index] += 2 * pair * gram
        cross = gram[:, :, None] * u[None]  # [i, m, a] = G_im u_ma
        inner = np.linalg.lstsq(gram**2, cross.transpose(1, 0, 2).reshape(rank, rank * dim), rcond=None)[0]
        seen = cross.transpose(0, 2, 1).reshape(rank * dim, rank) @ inner
        matrix -= 4 * pair[:, None, :, None] * seen.reshape(rank, dim, rank, dim)
        # Gauge: forbid steps along the direction itself.
        matrix[unit, :, unit, :] += np.einsum("i,ia,ib->iab", np.diag(pair), u, u)
        left = self._left(u, weights).reshape(self.slices.shape)
        descent = 2 * np.einsum("li,lai->ia", weights, left @ u.T)
        return NormalEquations(matrix.reshape(rank * dim, rank * dim), descent)

    def _left(self, directions: Array, weights: Array) -> Array:
        return np.asarray(self.slices.reshape(len(self.slices), -1) - weights @ powers(directions, 2))


def polish_stack(slices: Array, directions: Array, max_steps: int = 50) -> Array:
    """Directions of the least-squares joint diagonalisation near these ones. Deterministic; the residual never grows."""
    return minimise_misfit(StackFit(slices), directions, max_steps)


def shrink_to_orthogonal(tensor: Array, directions: Array) -> Array:
    """Directions of a least-squares CP of a symmetric third-order tensor, their cosines shrunk by James and Stein's factor.

    The noise per coordinate σ comes from the misfit with m = C(k+2, 3) − rk degrees of freedom; to first order around orthogonal
    directions var(g_ij) = σ²/3 (1/cᵢ² + 1/cⱼ²). Assumes noise of about equal size in all directions of the symmetric tensors.
    Source: James and Stein (1961), with variance estimated on m degrees of freedom.
    """
    rank, dim = directions.shape
    free = comb(dim + 2, 3) - rank * dim
    cosines = rank * (rank - 1) // 2
    c = tensor_coefficients(tensor, directions)
    if cosines < 3 or free < 1 or not np.all(c):
        return directions
    variance = float(np.sum(tensor_misfit(tensor, directions, c) ** 2)) / free
    excess = _cosines_over_noise(directions, c, variance / 3)
    kept = max(0.0, 1.0 - (cosines - 2) * free / (free + 2) / excess) if excess > 0 else 1.0
    goal = nearest_orthogonal(directions, c**2)
    return unit_rows(goal + kept * (directions - goal))


def nearest_orthogonal(directions: Array, weights: Array) -> Array:
    """Orthonormal rows qᵢ minimising Σᵢ weightᵢ |uᵢ − qᵢ|² (weighted Procrustes: a polar factor)."""
    left, _, right = np.linalg.svd(weights[:, None] * directions, full_matrices=False)
    return np.asarray(left @ right)


def _cosines_over_noise(directions: Array, coefficients: Array, variance: float) -> float:
    first, second = np.triu_indices(len(directions), 1)
    cosine = (directions @ directions.T)[first, second]
    noise = variance * (coefficients[first] ** -2.0 + coefficients[second] ** -2.0)
    return float(np.sum(cosine**2 / np.maximum(noise, 1e-32)))
