"""How correlations with Dirac's delta change along a direction, in closed form.

C₁(z, s) = E[f δ(z·x - s)] = φ(s) E[f | z·x = s]. Claim 4 reads C₁'(s) = Σ_i cot α_i φ(s) φ((t - s cos α_i)/sin α_i)
E[∂P/∂X_i | …] - s C₁(s), where φ φ is the product of two independent densities (with the joint density of z·x and w_i·x the
factor is cos α_i), and cot keeps its sign. By the rules of distributions E[f δ'(z·x - s)] = -C₁'(s); the paper uses the other
sign.
Source: Goel and Panigrahy (2019), section 3, Claim 4, Lemma 16, corrected.
"""

from __future__ import annotations

import numpy as np

from laybare.shapes import Array


def density(s: Array | float) -> Array:
    """φ(s)."""
    return np.asarray(np.exp(-np.square(s) / 2) / np.sqrt(2 * np.pi))


def rise_along(angle: float, threshold: float, s: float) -> float:
    """cot α φ(s) φ((t - s cos α)/sin α): what a step unit at angle α adds to C₁'(s) for each unit of ∂P/∂X. Claim 4,
    corrected."""
    across = (threshold - s * np.cos(angle)) / np.sin(angle)
    return float(density(s) * density(across) / np.tan(angle))


def delta_prime_at_origin(angle: float) -> float:
    """C₁'(0) for one step unit without threshold: cot α/(2π), with its sign. Lemma 16, corrected."""
    return float(1.0 / np.tan(angle) / (2 * np.pi))
