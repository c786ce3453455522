"""Jennrich's algorithm on a packed symmetric tensor of odd or even order: more parts than dimensions, of either sign.

T = Σᵢ αᵢ wᵢ^⊗k, k = 2l + q, is read as a tensor with three sides, l, l and q: its parts are wᵢ^⊗l ⊗ wᵢ^⊗l ⊗ wᵢ^⊗q, whose first
two sides are independent up to C(d+l-1, l) parts. Two random contractions of the third side are A = V D Vᵀ and B = V E Vᵀ with
columns v_l(wᵢ) of V, so that V holds the eigenvectors of A B⁺ inside the leading left singular space of T. Each is a packed
tensor of order l: the leading left singular vector of its (1, l-1) flattening is ±wᵢ. All in packed coordinates, so nothing of
size d^k is formed.
Source: Awasthi, Tang and Vijayaraghavan (2021), Algorithm 1, steps 1 and 2, Claim 4.4, Theorem A.5 and Lemma D.4. Deviation:
the best of several pencils.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import unit_rows
from laybare.decomposition.pencil import real_eigenvectors
from laybare.moments import flatten, veronese
from laybare.shapes import Array

PENCILS = 10


class RankOneParts(NamedTuple):
    """αᵢ (r,) and unit rows wᵢ (r, d) of T ≈ Σᵢ αᵢ wᵢ^⊗k; `residual` is what they leave of T, relatively."""

    coefficients: Array
    directions: Array
    residual: float


def flattened_spectrum(packed: Array, dim: int, side: int, order: int) -> Array:
    """Singular values of the flattening (side, order - side) of a packed tensor (D_order,)."""
    values: Array = np.linalg.svd(flatten(packed, dim, side, order - side), compute_uv=False)
    return values


def flattened_jennrich(
    packed: Array, dim: int, side: int, last: int, rank: int, *, rng: Generator, pencils: int = PENCILS
) -> RankOneParts:
    """The `rank` parts of a packed tensor of order 2·side + last (last = 1 or 2)."""
    order = 2 * side + last
    left = np.linalg.svd(flatten(packed, dim, side, order - side), full_matrices=False)[0][:, :rank]
    slices = flatten(packed, dim, 2 * side, last)
    tries = [_parts(packed, dim, side, order, left, slices, rng=rng) for _ in range(pencils)]
    return min(tries, key=lambda parts: parts.residual)


def _parts(packed: Array, dim: int, side: int, order: int, left: Array, slices: Array, *, rng: Generator) -> RankOneParts:
    """One random pencil."""
    A, B = (left.T @ flatten(slices @ rng.standard_normal(slices.shape[1]), dim, side, side) @ left for _ in range(2))
    values, vectors = np.linalg.eig(A @ np.linalg.pinv(B))
    columns = real_eigenvectors(values, vectors, None) @ left.T
    directions = np.array([_direction(column, dim, side) for column in columns]).reshape(-1, dim)
    features = veronese(directions, order).T
    coefficients = np.linalg.lstsq(features, packed, rcond=None)[0]
    residual = np.linalg.norm(packed - features @ coefficients) / max(float(np.linalg.norm(packed)), 1e-300)
    return RankOneParts(coefficients, directions, float(residual))


def _direction(column: Array, dim: int, side: int) -> Array:
    """±w from a packed tensor that is nearly v_l(w)."""
    if side == 1:
        return unit_rows(column)
    matrix = flatten(column, dim, 1, side - 1)
    leading: Array = np.linalg.svd(matrix, full_matrices=False)[0][:, 0]
    return leading
