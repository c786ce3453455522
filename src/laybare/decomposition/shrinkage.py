"""Shrink directions towards orthogonal ones as far as the noise makes their angles.

Directions that were estimated separately are not orthogonal even where the true ones are (whitened moments, orthogonal weights):
each cosine g_ij = uᵢ·uⱼ carries the noise of two estimates. If the q = r(r−1)/2 cosines are no larger than that noise, half of
the error of every direction is in them. James and Stein's positive-part factor decides how much of them to keep,
    s = max(0, 1 − (q−2) · m/(m+2) / Σ z_ij²),   z_ij = g_ij / sd(g_ij),
and the directions move by 1 − s of the way to the nearest orthogonal ones. Cosines above the noise give s ≈ 1: nothing happens.
"""

from __future__ import annotations

from math import comb

import numpy as np

from laybare.decomposition.components import unit_rows
from laybare.decomposition.explanation import tensor_coefficients, tensor_misfit
from laybare.shapes import Array


def shrink_to_orthogonal(tensor: Array, directions: Array) -> Array:
    """Directions of a least-squares CP of a symmetric third-order tensor, their cosines shrunk by James and Stein's factor.

    The noise per coordinate σ comes from the misfit with m = C(k+2, 3) − rk degrees of freedom; to first order around orthogonal
    directions var(g_ij) = σ²/3 (1/cᵢ² + 1/cⱼ²). Assumes noise of about equal size in all directions of the symmetric tensors.
    Source: James and Stein (1961), with variance estimated on m degrees of freedom.
    """
    rank, dim = directions.shape
    free = comb(dim + 2, 3) - rank * dim
    cosines = rank * (rank - 1) // 2
    c = tensor_coefficients(tensor, directions)
    if cosines < 3 or free < 1 or not np.all(c):
        return directions
    variance = float(np.sum(tensor_misfit(tensor, directions, c) ** 2)) / free
    excess = _squared_cosines_over_noise(directions, c, variance / 3)
    kept = max(0.0, 1.0 - (cosines - 2) * free / (free + 2) / excess) if excess > 0 else 1.0
    goal = nearest_orthogonal(directions, c**2)
    return unit_rows(goal + kept * (directions - goal))


def nearest_orthogonal(directions: Array, weights: Array) -> Array:
    """Orthonormal rows qᵢ minimising Σᵢ weightᵢ |uᵢ − qᵢ|² (weighted Procrustes: a polar factor)."""
    left, _, right = np.linalg.svd(weights[:, None] * directions, full_matrices=False)
    nearest: Array = left @ right
    return nearest


def _squared_cosines_over_noise(directions: Array, coefficients: Array, variance: float) -> float:
    first, second = np.triu_indices(len(directions), 1)
    cosine = (directions @ directions.T)[first, second]
    noise = variance * (coefficients[first] ** -2.0 + coefficients[second] ** -2.0)
    return float(np.sum(cosine**2 / np.maximum(noise, 1e-32)))
