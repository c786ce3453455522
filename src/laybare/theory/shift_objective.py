"""The objective of Theorem 8, and why it does not do what is claimed for it.

For u = e^a, disjoint 0/1 rows and c_S ≥ 0, g(z) = e^{-|z|²/2} E[f e^{z·x}] = E[f(x + z)] = Σ_S c_S exp(|U_S|/2 + Σ_{U_S} z),
U_S the coordinates that S selects. The paper maximises h(z) = g(z) - λ|z|₁ - γ|z|². But g grows exponentially along every
block, so h is unbounded above; and at an interior local maximum with value a > 0 on a block of s coordinates, ∂h = 0 gives A =
λ + 2γa for A = ∂g/∂z, and the second derivative along the block, s A ≤ 2γ. Hence a ≤ 1/s - λ/(2γ) < 1/s, against the closing
claim z_j ≥ 1. Ascent in a box ends at its boundary with several blocks, or at 0.

The Hessian of g at 0 is E[f(xxᵀ - I)], whose entries are larger inside blocks than across: `cliques` reads the units off it.
Source: Goel and Panigrahy (2019), Theorem 8, Lemmas 21 to 23, appendix D.2.
"""

from __future__ import annotations

import numpy as np

from laybare.networks.polynomials import Polynomial
from laybare.shapes import Array, Sums
from laybare.source import Source


def shifted_mean(top: Polynomial, weights: Array, z: Array) -> float:
    """g(z) = E[f(x + z)] of f = P(e^{w·x}), exact."""
    m = top.exponents @ weights
    return float(top.coefficients @ np.exp(np.sum(m**2, axis=1) / 2 + m @ z))


def empirical_shifted_mean(source: Source, z: Array) -> float:
    """e^{-|z|²/2} times the average of y e^{z·x}."""

    def weighted(x: Array, y: Array) -> Sums:
        return (np.asarray(y[:, 0] @ np.exp(x @ z - z @ z / 2)),)

    return float(source.sum(weighted, stage="shifted mean")[0]) / source.size


def penalised(top: Polynomial, weights: Array, z: Array, sparsity: float, size: float) -> tuple[float, Array]:
    """h(z) = g(z) - λ|z|₁ - γ|z|² and its gradient (for z without zeros), exact."""
    m = top.exponents @ weights
    terms = top.coefficients * np.exp(np.sum(m**2, axis=1) / 2 + m @ z)
    value = float(terms.sum()) - sparsity * float(np.abs(z).sum()) - size * float(z @ z)
    return value, np.asarray(m.T @ terms - sparsity * np.sign(z) - 2 * size * z)
