"""Fourth moments of even units with orthonormal weights and no threshold, and which axes are their maxima.

On the sphere E[f h₄(z·x)] = Σ α_i z_i⁴ + Σ_{i<j} γ_ij z_i² z_j² in the basis of the weights, where

    α_i = u₄ Σ_{S∋i} c_S u₀^{|S|-1},      γ_ij = √6 u₂² Σ_{S∋i,j} c_S u₀^{|S|-2}.

(Printed: 6 u₂² and a further u₂ term; they come from mixing normalised and unnormalised h.) The printed condition γ_ij < α_i +
α_j only says that every local maximum is some e_i; e_i is one if and only if 2 α_i > γ_ij for all j. For u₄ < 0, such as |t|,
everything holds for -h₄ with the reversed conditions.
Source: Goel and Panigrahy (2019), Theorem 9, appendix D.3, corrected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.networks.polynomials import Polynomial
from laybare.shapes import Array
from laybare.theory.unit_coefficients import threshold_coefficient


class EvenCoefficients(NamedTuple):
    """α (k,) and γ (k, k), symmetric with zero diagonal."""

    alpha: Array
    gamma: Array

    def value(self, z: Array) -> float:
        """Σ α_i z_i⁴ + Σ_{i<j} γ_ij z_i² z_j² for z in the basis of the weights."""
        squares = z**2
        return float(self.alpha @ squares**2 + squares @ self.gamma @ squares / 2)

    @property
    def maxima(self) -> Array:
        """Which e_i are local maxima (k,)."""
        return np.asarray((2 * self.alpha[:, None] > self.gamma)[~np.eye(len(self.alpha), dtype=bool)].reshape(
            len(self.alpha), -1).all(axis=1))


def even_coefficients(top: Polynomial, activation: Activation) -> EvenCoefficients:
    """α and γ of a multilinear top over units of an even activation."""
    u0, u2, u4 = (threshold_coefficient(activation, order, 0.0) for order in (0, 2, 4))
    members = top.exponents > 0
    sizes = members.sum(axis=1)
    alpha = u4 * ((top.coefficients * u0 ** (sizes - 1.0))[sizes > 0] @ members[sizes > 0])
    pairs = (top.coefficients * u0 ** (sizes - 2.0)) * (sizes > 1)
    gamma = np.sqrt(6) * u2**2 * (members.T.astype(float) @ (pairs[:, None] * members))
    np.fill_diagonal(gamma, 0.0)
    return EvenCoefficients(alpha, gamma)
