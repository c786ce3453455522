"""Distinguishing matrices: whether inputs of a given law tell the pairs of hidden units apart, and how well.

For a pair i < j let p_ij(x) = (wᵢ·x)(wⱼ·x) 1{signs differ}, m_ij = E p_ij and N_ij = E[p_ij xxᵀ]. The distinguishing matrix N has
the columns svec N_ij, the augmented one, M, also the column svec E[xxᵀ]. For x ~ N(0, I), with φ the angle of wᵢ and wⱼ,

    m_ij = (φ cos φ - sin φ) |wᵢ||wⱼ| / π
    N_ij = m_ij I + [φ (wᵢwⱼᵀ + wⱼwᵢᵀ) - sin φ (|wᵢ|/|wⱼ| wⱼwⱼᵀ + |wⱼ|/|wᵢ| wᵢwᵢᵀ)] / π

so Cov(p_ij, xxᵀ) = N_ij - m_ij I. The detector is injective on what is not a pure neuron if and only if the columns of M are
independent; near-parallel weights (φ → 0) make one vanish like φ³. For other laws M is an average over the samples.

In numbers (`least_detected`): T = M B C with C svec(U) = ((AᵀUA)_ij)_{i<j} and B = [I; -mᵀ], |Bu| ≥ |u|, and

    smallest non-zero singular value of T  ≥  (1-a)² σ_min(M) σ_min(A)² / √2.

The paper's Lemma 14 has no √2. Its proof takes (Aᵀ⊗Aᵀ)_{pq,ij} and (Aᵀ⊗Aᵀ)_{pq,ji} for equal, which they are not: a rotation A by
45° has |Cᵀu| = |u|/√2.
Source: Ge, Kuditipudi, Li & Wang (2019), Definition 1, Lemma 14 (corrected), Lemma 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from laybare.moments.measurement import measure
from laybare.moments.symmetric import svec, svec_squares
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source


def distinguishing_matrices(weights: Array) -> Array:
    """N_ij - m_ij I for all pairs i < j of rows of `weights` (k, d), x ~ N(0, I): (k(k-1)/2, d, d)."""
    i, j = np.triu_indices(len(weights), 1)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    u, v = units[i], units[j]
    angle = _angles(u, v)
    outer = u[:, :, None] * v[:, None]
    squares = u[:, :, None] * u[:, None] + v[:, :, None] * v[:, None]
    pairs = angle[:, None, None] * (outer + outer.swapaxes(1, 2)) - np.sin(angle)[:, None, None] * squares
    found: Array = (norms[i] * norms[j] / np.pi)[:, None, None] * pairs
    return found


def opposite_products(weights: Array) -> Array:
    """m_ij for all pairs i < j, x ~ N(0, I): (k(k-1)/2,), none of them positive."""
    i, j = np.triu_indices(len(weights), 1)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    angle = _angles(units[i], units[j])
    found: Array = norms[i] * norms[j] / np.pi * (angle * np.cos(angle) - np.sin(angle))
    return found


def gaussian_augmented(weights: Array) -> Array:
    """M for x ~ N(0, I): (d(d+1)/2, k(k-1)/2 + 1), the last column svec(I). Without that column it is N."""
    eye = np.eye(weights.shape[1])
    N = distinguishing_matrices(weights) + opposite_products(weights)[:, None, None] * eye
    return np.column_stack([svec(N).T, svec(eye)])


def augmented_matrix(source: Source, weights: Array, rows: Array | None = None) -> Array:
    """M for the inputs of `source`, whatever their law; `rows` (q, d) restricts xxᵀ to the coordinates rows·x. One pass."""
    return measure(source, _Augmented(weights, rows), stage="distinguishing matrix")


def distinguished(augmented: Array) -> float:
    """The smallest singular value of M, its columns scaled to length 1: 0 if some pair of units cannot be told apart.

    For 9 random units of 16 inputs it was 0.06 under Laplace laws and signs, 0.02 under correlated Gaussians, 0.01 under images.
    """
    lengths = np.linalg.norm(augmented, axis=0)
    if len(augmented) < augmented.shape[1] or not lengths.all():
        return 0.0
    return float(np.linalg.svd(augmented / lengths, compute_uv=False)[-1])


def least_detected(augmented: Array, readout: Array, *, slope: float = 0.0) -> float:
    """(1-a)² σ_min(M) σ_min(A)² / √2 for A = `readout` (m, k): no singular value of T is smaller but the zeros."""
    if len(augmented) < augmented.shape[1] or len(readout) < readout.shape[1]:
        return 0.0
    least, thin = (float(np.linalg.svd(matrix, compute_uv=False)[-1]) for matrix in (augmented, readout))
    return (1 - slope) ** 2 * least * thin**2 / sqrt(2)


def population_detector(weights: Array, readout: Array, *, slope: float = 0.0) -> Array:
    """T for y = A act(Wx), W = `weights` (k, d), A = `readout` (m, k): f(U) = (1-a)² Σ_{i<j} (AᵀUA)_ij (N_ij - m_ij I)."""
    i, j = np.triu_indices(len(weights), 1)
    A = readout
    symmetric = 0.5 * (A[:, None, i] * A[None, :, j] + A[:, None, j] * A[None, :, i])
    found: Array = (1 - slope) ** 2 * svec(distinguishing_matrices(weights)).T @ svec(np.moveaxis(symmetric, 2, 0))
    return found


@dataclass(frozen=True, eq=False)
class _Augmented:
    """Moment: M, the average of svec(zzᵀ) times [p_ij, 1], z = rows·x or x."""

    weights: Array
    rows: Array | None

    @property
    def row_floats(self) -> int:
        k, q = len(self.weights), self.weights.shape[1] if self.rows is None else len(self.rows)
        return k * k + q * (q + 1)

    def __call__(self, x: Array, y: Array) -> Sums:
        i, j = np.triu_indices(len(self.weights), 1)
        t = x @ self.weights.T
        phi = svec_squares(x if self.rows is None else x @ self.rows.T)
        return phi.T @ np.minimum(t[:, i] * t[:, j], 0.0), phi.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        return np.column_stack(sums) / size


def _angles(u: Array, v: Array) -> Array:
    """Angles of pairs of unit rows; arccos loses half the digits near 0."""
    angle: Array = 2 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))
    return angle
