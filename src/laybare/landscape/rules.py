"""What μ, λ and δ the theorems ask for, from bounds on the readouts.

For weights of the model, λ_min(M) ≤ aᵢ ≤ λ_max(M) with M = Σ aᵢ bᵢbᵢᵀ (nonzero eigenvalues), as aᵢ = 1/(bᵢᵀM⁺bᵢ): the spectrum
of M gives the bounds. In the notation of Theorem B.1 and with the corrected constants, α = √6|σ₄|a and β = |σ₄|a/(2√6) for G;
for F, which is G of 1/a in whitened coordinates, a is replaced by 1/a.

    Theorem 2.3   μ ≤ c/κ              λ ≥ a_max/c                    τ = c min{μ a_min/(κd), λ}
    Theorem B.1   μ ≤ c α_min/β_max    λ ≥ 4 max(μβ_max, α_max)       τ = c min{μβ_min/(κd), μβ_min²/β_max, λ}
    Theorem C.4   μ ≤ c/κ              λ ≥ 1/(c a_min)                τ = c min{μ/(κ d a_max), λ} σ_min(M)
    Theorem C.5   as C.4, and δ ≤ min{c ε |σ₄| σ_min(M)^½ / (a_max m √d κ(M)^½), τ/2} for accuracy ε

κ = a_max/a_min, c = 0.01. Below curvature -τ a point is a saddle (Propositions B.6 and B.7). The δ of Theorem C.5 cannot be read
in the copy we have; this one follows from Lemma C.7 and item 3 of Theorem C.4. All are far more cautious than runs ask for:
`laybare reproduce glm-fig4`.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from laybare.activations import Activation
from laybare.landscape.operators import coefficient

SMALL = 0.01
"""The universal constant c that, by the paper, suffices."""


class Bounds(NamedTuple):
    """Least and largest readout, or bounds on them."""

    least: float
    most: float

    @property
    def ratio(self) -> float:
        return self.most / self.least


class Parameters(NamedTuple):
    """μ, λ, δ, and the curvature τ that tells saddles from minima."""

    mu: float
    strength: float
    ridge: float
    curvature: float


def theorem_2_3(bounds: Bounds, dim: int, c: float = SMALL) -> Parameters:
    """For G, as printed."""
    mu, strength = c / bounds.ratio, bounds.most / c
    return Parameters(mu, strength, 0.0, c * min(mu * bounds.least / (bounds.ratio * dim), strength))


def theorem_b_1(activation: Activation, bounds: Bounds, dim: int, c: float = SMALL) -> Parameters:
    """For G with constants of its own: a larger μ and a far smaller λ. For F give the bounds of 1/a."""
    fourth = abs(coefficient(activation, 4))
    alpha, beta = Bounds(*(sqrt(6.0) * fourth * a for a in bounds)), Bounds(*(fourth * a / (2.0 * sqrt(6.0)) for a in bounds))
    mu = c * alpha.least / beta.most
    strength = 4.0 * max(mu * beta.most, alpha.most)
    flat = min(mu * beta.least / (bounds.ratio * dim), mu * beta.least**2 / beta.most, strength)
    return Parameters(mu, strength, 0.0, c * flat)


def theorem_c_4(bounds: Bounds, dim: int, smallest: float, c: float = SMALL) -> Parameters:
    """For F, as printed; `smallest` is σ_min(M)."""
    mu, strength = c / bounds.ratio, 1.0 / (c * bounds.least)
    return Parameters(mu, strength, 0.0, c * min(mu / (bounds.ratio * dim * bounds.most), strength) * smallest)


def theorem_c_5(
    activation: Activation, bounds: Bounds, width: int, dim: int, spectrum: Bounds, *, accuracy: float = 0.1, c: float = SMALL
) -> Parameters:
    """For F with width < dim; `spectrum` holds the least nonzero and the largest eigenvalue of M, `accuracy` is ε."""
    plain = theorem_c_4(bounds, dim, spectrum.least, c)
    fourth = abs(coefficient(activation, 4))
    ridge = c * accuracy * fourth * sqrt(spectrum.least) / (bounds.most * width * sqrt(dim) * sqrt(spectrum.ratio))
    return plain._replace(ridge=min(ridge, plain.curvature / 2.0))
