"""Symmetric CP with signed coefficients, by Gauss-Newton: T ≈ Σᵢ cᵢ uᵢ^{⊗p}, p = 3 or 4, dense and small (k ≤ 40).

With G = UUᵀ the inner products of the derivatives ∂/∂uᵢ = p cᵢ sym(· ⊗ uᵢ^{p−1}) are closed forms,
    ⟨∂_{i,a}, ∂_{j,b}⟩ = p cᵢ cⱼ (G_ij^{p−1} δ_ab + (p−1) G_ij^{p−2} u_ja u_ib),   ⟨∂_{i,a}, uⱼ^{⊗p}⟩ = p cᵢ G_ij^{p−1} u_ja,
so the Jacobian (k^p × rk) is never formed. Time a step: k^p r for the misfit and (rk)³/3 for the solve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_tensor
from laybare.decomposition.components import Components, Decomposer, unit_rows
from laybare.decomposition.explanation import contract, explain_tensor, tensor_coefficients, tensor_misfit
from laybare.decomposition.least_squares import Normal, descend
from laybare.shapes import Array


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

    def normal(self, directions: Array) -> Normal:
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
        return Normal(matrix, descent)


def polish_tensor(tensor: Array, directions: Array, max_steps: int = 50) -> Array:
    """Directions of the least-squares CP near these ones. Deterministic; the residual never grows."""
    return descend(TensorFit(tensor), directions, max_steps)


@dataclass(frozen=True, kw_only=True)
class GaussNewton:
    """Symmetric CP by least squares, from the directions of `start`, or from random ones if None (then wrap it in `best_of`).

    The maximum-likelihood answer for Gaussian noise of equal size in all entries, if the start leads there; from random
    directions it also ends in local minima. Orders 3 and 4. `separation` is that of a symmetric tensor.
    """

    start: Decomposer | None = None
    max_steps: int = 200

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        dense = as_tensor(tensor, rank)
        if self.start is None:
            directions = unit_rows(rng.standard_normal((rank, dense.shape[0])))
        else:
            directions = self.start(dense, rank, rng=rng).directions
        return explain_tensor(dense, polish_tensor(dense, directions, self.max_steps))
