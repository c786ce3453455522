"""Least-squares joint diagonalisation of a stack: A_l ≈ Σᵢ λ_lᵢ uᵢuᵢᵀ, loadings λ eliminated.

The loadings of all slices share one projection, off the span of the uⱼuⱼᵀ, so with G = UUᵀ and H = G∘G
    ⟨∂_{i,a}, ∂_{j,b}⟩ = (ΛᵀΛ)_ij · (2 G_ij δ_ab + 2 u_ja u_ib − 4 Σ_mn u_ma G_im (H⁻¹)_mn G_jn u_nb).
Unlike FFDIAG it minimises a fixed distance, so it is the maximum-likelihood answer for equal noise in all slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.decomposition.components import powers
from laybare.decomposition.explanation import loadings
from laybare.decomposition.least_squares import Normal, descend
from laybare.shapes import Array


@dataclass(frozen=True, eq=False)
class StackFit:
    """The misfit of a stack of symmetric matrices, loadings eliminated."""

    slices: Array

    @property
    def energy(self) -> float:
        return float(np.sum(self.slices**2))

    def misfit(self, directions: Array) -> float:
        return float(np.sum(self._left(directions, loadings(self.slices, directions)) ** 2))

    def normal(self, directions: Array) -> Normal:
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
        return Normal(matrix.reshape(rank * dim, rank * dim), descent)

    def _left(self, directions: Array, weights: Array) -> Array:
        left: Array = self.slices.reshape(len(self.slices), -1) - weights @ powers(directions, 2)
        return left


def polish_stack(slices: Array, directions: Array, max_steps: int = 50) -> Array:
    """Directions of the least-squares joint diagonalisation near these ones. Deterministic; the residual never grows."""
    return descend(StackFit(slices), directions, max_steps)
