"""Symmetric matrices as vectors: svec, its inverse, and svec of products of rows.

svec(U) lists the upper triangle row by row with off-diagonal entries times √2, so ⟨svec(U), svec(V)⟩ = ⟨U, V⟩_F and
⟨svec(xxᵀ), svec(U)⟩ = xᵀUx. It is the packed basis of order 2: svec(wwᵀ) = v₂(w).
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.shapes import Array


class Triangle(NamedTuple):
    """Row and column of every entry of the upper triangle, and its factor, 1 or √2."""

    row: Array
    column: Array
    scale: Array


@lru_cache(maxsize=32)
def triangle(dim: int) -> Triangle:
    """The upper triangle of a dim x dim matrix, row by row."""
    row, column = np.triu_indices(dim)
    return Triangle(row, column, np.where(row == column, 1.0, np.sqrt(2.0)))


def svec(matrices: Array) -> Array:
    """Symmetric matrices (..., d, d) as vectors (..., d(d+1)/2). Only the upper triangle is read."""
    row, column, scale = triangle(matrices.shape[-1])
    vectors: Array = matrices[..., row, column] * scale
    return vectors


def smat(vectors: Array) -> Array:
    """Vectors (..., d(d+1)/2) as symmetric matrices (..., d, d); the inverse of `svec`."""
    dim = side(vectors.shape[-1])
    row, column, scale = triangle(dim)
    matrices = np.empty((*vectors.shape[:-1], dim, dim))
    matrices[..., row, column] = matrices[..., column, row] = vectors / scale
    return matrices


def svec_squares(x: Array) -> Array:
    """svec(xxᵀ) for every row x: (n, d) -> (n, d(d+1)/2)."""
    row, column, scale = triangle(x.shape[1])
    return x[:, row] * x[:, column] * scale


def svec_products(p: Array, q: Array) -> Array:
    """svec of the symmetric part of pqᵀ for every pair of rows: ⟨·, svec(U)⟩ = pᵀUq for symmetric U."""
    row, column, scale = triangle(p.shape[1])
    vectors: Array = (p[:, row] * q[:, column] + p[:, column] * q[:, row]) * (0.5 * scale)
    return vectors


def side(length: int) -> int:
    """d for vectors of length d(d+1)/2."""
    dim = (isqrt(8 * length + 1) - 1) // 2
    if dim * (dim + 1) // 2 != length:
        raise InvalidInput(
            f"A vector of length {length} cannot be a symmetric matrix.", "The upper triangle has d(d+1)/2 entries.",
            "Give 1, 3, 6, 10, ... numbers.", length=length)
    return dim
