"""From a minimum of a designed objective to the network: directions, readout, signs.

Letters: B (m, d) unit rows, b = ±b*; σ_k normalised Hermite coefficients; M = Σ aᵢ bᵢbᵢᵀ. Even orders never see the sign of a
row; E[yx] = σ₁ B*ᵀa* does, as the rows are independent.
Source: Ge, Lee & Ma (2018), Algorithms 1 and 2 (where 2 stands for 1/σ₁ of ReLU), Lemmas 2.5 and D.2, Claim D.1,
Theorems C.4 and C.5.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array


class LandscapeUnits(NamedTuple):
    """`readout` (m,) ≥ 0 and unit rows `directions` (m, d), their signs decided."""

    readout: Array
    directions: Array


def from_inverse(point: Array) -> Array:
    """Rows of B^{-T} (of the pseudo-inverse, transposed, if m < d): ±√aᵢ bᵢ / Dᵢᵢ at a minimum of F, D near 1."""
    return np.asarray(np.linalg.pinv(point).T)


def corrected_readout(dual: Array, fourth: float, *, mu: float, strength: float) -> Array:
    """aᵢ = |rowᵢ|² + μ|σ₄|/(2√6 λ) for rows of B^{-T}: D taken out exactly, the same for every unit. Ours."""
    return np.asarray(np.sum(dual**2, axis=1) + mu * abs(fourth) / (2.0 * sqrt(6.0) * strength))


def algorithm_1(directions: Array, linear: Array, first: float) -> LandscapeUnits:
    """aᵢ = |E[y⟨x, bᵢ⟩]|/σ₁ for orthonormal rows, with `linear` = E[yx] and `first` = σ₁; signs so that every aᵢ ≥ 0."""
    return _signed(directions @ linear / first, directions)


def algorithm_2(directions: Array, linear: Array, first: float) -> LandscapeUnits:
    """a = |(BBᵀ)⁻¹u|, u = B E[yx]/σ₁, for independent rows; by least squares where the paper inverts."""
    solved = np.linalg.lstsq(directions.T, linear / first, rcond=None)[0]
    return _signed(solved, directions)


def _signed(readout: Array, directions: Array) -> LandscapeUnits:
    signs = np.where(readout < 0.0, -1.0, 1.0)
    return LandscapeUnits(np.abs(readout), signs[:, None] * directions)
