"""Second moments of exponential units that select coordinates, in closed form.

With m_S = Σ_{p∈S} w_p, E[f (x_i x_j - δ_ij)] = ρ² Σ_S c_S e^{-ρt|S|} m_i m_j e^{ρ²|m_S|²/2} for f = P(e^{ρ(w·x - t)}). For
disjoint 0/1 rows with D ones each it is ρ² Σ_{S covers i, j} c_S μ^{|S|}, μ = e^{-ρ(t - ρD/2)}; the printed exponent is garbled.
Source: Goel and Panigrahy (2019), Theorem 7, appendix D.1, corrected.
"""

from __future__ import annotations

import numpy as np

from laybare.networks.polynomials import Polynomial
from laybare.shapes import Array


def population_correlations(weights: Array, top: Polynomial, rho: float, threshold: float) -> Array:
    """E[f (xxᵀ - I)] of f = P(e^{ρ(w·x - t)}), exact, for rows of any kind (overlapping, or not 0/1)."""
    m = top.exponents @ weights
    sizes = top.exponents.sum(axis=1)
    weight = rho**2 * top.coefficients * np.exp(-rho * threshold * sizes + rho**2 * np.sum(m**2, axis=1) / 2)
    found: Array = m.T @ (weight[:, None] * m)
    return found
