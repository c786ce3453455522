"""The pure-neuron detector for x ~ N(0, I) in closed form: the distinguishing matrices of every pair of neurons.

With φ the angle of wᵢ and wⱼ,

    m_ij = E[(wᵢ·x)(wⱼ·x) 1{signs differ}]     = (φ cos φ - sin φ) |wᵢ||wⱼ| / π
    N_ij = E[(wᵢ·x)(wⱼ·x) xxᵀ 1{signs differ}] = m_ij I + [φ (wᵢwⱼᵀ + wⱼwᵢᵀ) - sin φ (|wᵢ|/|wⱼ| wⱼwⱼᵀ + |wⱼ|/|wᵢ| wᵢwᵢᵀ)] / π

so Cov((wᵢ·x)(wⱼ·x) 1{signs differ}, xxᵀ) = N_ij - m_ij I. The detector is injective on what is not a pure neuron if and only if
these matrices are independent; near-parallel weights (φ → 0) make one vanish like φ³.
Source: Ge, Kuditipudi, Li & Wang (2019), Lemma 19 and Definition 2.
"""

from __future__ import annotations

import numpy as np

from laybare.moments.symmetric import svec
from laybare.shapes import Array


def distinguishing_matrices(weights: Array) -> Array:
    """N_ij - m_ij I for all pairs i < j of rows of `weights` (k, d): (k(k-1)/2, d, d)."""
    i, j = np.triu_indices(len(weights), 1)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    u, v = units[i], units[j]
    angle = 2 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))  # arccos loses half the digits near 0
    outer = u[:, :, None] * v[:, None]
    squares = u[:, :, None] * u[:, None] + v[:, :, None] * v[:, None]
    pairs = angle[:, None, None] * (outer + outer.swapaxes(1, 2)) - np.sin(angle)[:, None, None] * squares
    found: Array = (norms[i] * norms[j] / np.pi)[:, None, None] * pairs
    return found


def population_detector(weights: Array, readout: Array, *, slope: float = 0.0) -> Array:
    """T for y = A act(Wx), W = `weights` (k, d), A = `readout` (m, k): f(U) = (1-a)² Σ_{i<j} (AᵀUA)_ij (N_ij - m_ij I)."""
    i, j = np.triu_indices(len(weights), 1)
    A = readout
    symmetric = 0.5 * (A[:, None, i] * A[None, :, j] + A[:, None, j] * A[None, :, i])
    found: Array = (1 - slope) ** 2 * svec(distinguishing_matrices(weights)).T @ svec(np.moveaxis(symmetric, 2, 0))
    return found
