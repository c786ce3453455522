"""Parameters that the theorems ask for, μ, λ and δ, from bounds on the readouts; and from a minimum to the network.

For weights of the model, λ_min(M) ≤ aᵢ ≤ λ_max(M) with M = Σ aᵢ bᵢbᵢᵀ (nonzero eigenvalues), as aᵢ = 1/(bᵢᵀM⁺bᵢ): the spectrum
of M gives the bounds. In the notation of Theorem B.1 and with the corrected constants, α = √6|σ₄|a and β = |σ₄|a/(2√6) for G;
for F, which is G of 1/a in whitened coordinates, a is replaced by 1/a.

    Theorem 2.3   μ ≤ c/κ              λ ≥ a_max/c                    τ = c min{μ a_min/(κd), λ}
    Theorem B.1   μ ≤ c α_min/β_max    λ ≥ 4 max(μβ_max, α_max)       τ = c min{μβ_min/(κd), μβ_min²/β_max, λ}
    Theorem C.4   μ ≤ c/κ              λ ≥ 1/(c a_min)                τ = c min{μ/(κ d a_max), λ} σ_min(M)
    Theorem C.5   as C.4, and δ ≤ min{c ε |σ₄| σ_min(M)^½ / (a_max m √d κ(M)^½), τ/2} for accuracy ε

κ = a_max/a_min, c = 0.01. Below curvature -τ a point is a saddle (Proposition B.6); above it and with a small gradient it is near
a minimum (`theorem_b_1_nearness`). The δ of Theorem C.5 cannot be read in the copy we have; this one follows from Lemma C.7 and
item 3 of Theorem C.4. All are far more cautious than runs ask for: `laybare reproduce glm-fig4`.

From a minimum of a designed objective to the network: B (m, d) unit rows, b = ±b*; σ_k normalised Hermite coefficients. Even
orders never see the sign of a row; E[yx] = σ₁ B*ᵀa* does, as the rows are independent.
Source: Ge, Lee & Ma (2018), Algorithms 1 and 2 (where 2 stands for 1/σ₁ of ReLU), Lemmas 2.5 and D.2, Claim D.1,
Theorems C.4 and C.5.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.landscape.fourth_moment import coefficient
from laybare.numerics.shapes import Array

THEOREM_CONSTANT = 0.01
"""The universal constant c. Paper: Ge, Lee & Ma (2018), Theorem 2.3, for which it suffices."""


class Bounds(NamedTuple):
    """Least and largest readout, or bounds on them."""

    least: float
    most: float

    @property
    def ratio(self) -> float:
        return self.most / self.least


class DesignParameters(NamedTuple):
    """μ, λ, δ, and the curvature τ: a point with a smaller eigenvalue than -τ is a saddle."""

    mu: float
    strength: float
    ridge: float = 0.0
    curvature: float = 0.0


def theorem_2_3(bounds: Bounds, dim: int) -> DesignParameters:
    """For G, as printed."""
    c = THEOREM_CONSTANT
    mu, strength = c / bounds.ratio, bounds.most / c
    return DesignParameters(mu, strength, 0.0, c * min(mu * bounds.least / (bounds.ratio * dim), strength))


def theorem_b_1(activation: Activation, bounds: Bounds, dim: int) -> DesignParameters:
    """For G with constants of its own: a larger μ and a far smaller λ. For F give the bounds of 1/a."""
    c, fourth = THEOREM_CONSTANT, abs(coefficient(activation, 4))
    alpha, beta = Bounds(*(sqrt(6.0) * fourth * a for a in bounds)), Bounds(*(fourth * a / (2.0 * sqrt(6.0)) for a in bounds))
    mu = c * alpha.least / beta.most
    strength = 4.0 * max(mu * beta.most, alpha.most)
    flat = min(mu * beta.least / (bounds.ratio * dim), mu * beta.least**2 / beta.most, strength)
    return DesignParameters(mu, strength, 0.0, c * flat)


class NearMinimum(NamedTuple):
    """B = DP + E near an approximate minimum: bounds of Dᵢᵢ² for every readout, largest entry of E."""

    lowest: Array
    highest: Array
    rest: float


def theorem_b_1_nearness(
    activation: Activation, readout: Array, parameters: DesignParameters, gradient: float
) -> NearMinimum:
    """Theorem B.1(3), Proposition B.7: where |∇G| ≤ ε = `gradient` and no eigenvalue is below -τ, B is DP + E, P a permutation.

    (1 - 18dε²/β_min² - ε/(2λ))/(1 - μβᵢ/λ) ≤ Dᵢᵢ² ≤ (1 + ε/(2λ))/(1 - μβᵢ/λ) and |E|_∞ ≤ 3ε/β_min, with the corrected
    β = |σ₄|a/(2√6). Minima themselves (ε = 0) have Dᵢᵢ² = 1/(1 - μβᵢ/λ). The proof has 3ε/(μβ_min), as its Lemma B.5 is applied
    to μβ; but rows of the gradient give |E|_∞ ≤ 5ε/α_min, and α = 12β.
    """
    beta = abs(coefficient(activation, 4)) * np.asarray(readout) / (2.0 * sqrt(6.0))
    least, (mu, strength) = float(beta.min()), parameters[:2]
    centre, slack = 1.0 / (1.0 - mu * beta / strength), gradient / (2.0 * strength)
    low = np.maximum(1.0 - 18.0 * len(beta) * gradient**2 / least**2 - slack, 0.0)
    return NearMinimum(centre * low, centre * (1.0 + slack), 3.0 * gradient / least)


def theorem_c_4(bounds: Bounds, dim: int, smallest: float) -> DesignParameters:
    """For F, as printed; `smallest` is σ_min(M)."""
    c = THEOREM_CONSTANT
    mu, strength = c / bounds.ratio, 1.0 / (c * bounds.least)
    return DesignParameters(mu, strength, 0.0, c * min(mu / (bounds.ratio * dim * bounds.most), strength) * smallest)


def theorem_c_5(
    activation: Activation, bounds: Bounds, width: int, dim: int, spectrum: Bounds, *, accuracy: float = 0.1
) -> DesignParameters:
    """For F with width < dim; `spectrum` holds the least nonzero and the largest eigenvalue of M, `accuracy` is ε."""
    plain = theorem_c_4(bounds, dim, spectrum.least)
    c, fourth = THEOREM_CONSTANT, abs(coefficient(activation, 4))
    ridge = c * accuracy * fourth * sqrt(spectrum.least) / (bounds.most * width * sqrt(dim) * sqrt(spectrum.ratio))
    return plain._replace(ridge=min(ridge, plain.curvature / 2.0))


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
