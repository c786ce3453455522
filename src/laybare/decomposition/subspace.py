"""Dominant eigenspace of an indefinite symmetric operator: the r eigenvalues of largest |λ|, of either sign.

The second moment P = Σᵢ bᵢ wᵢwᵢᵀ of hidden units of both signs is indefinite. Its inertia counts the signs of the bᵢ (Sylvester).
An operator is a matrix (d, d), or a function that applies it to blocks of columns, V (d, m) → P V (d, m), which never forms d².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.shapes import Array

Operator: TypeAlias = Array | Callable[[Array], Array]

COLUMNS = 5
"""Columns of the block that estimates a norm."""


class Eigenspace(NamedTuple):
    """`basis` (d, r) orthonormal, `values` (r,) by falling |value|, `positive` and `negative` counts of the values' signs."""

    basis: Array
    values: Array
    positive: int
    negative: int


def dense_subspace(operator: Operator, dim: int, rank: int) -> Eigenspace:
    """By full eigendecomposition. Time d³."""
    apply = _block_map(operator, dim, rank)
    values, vectors = np.linalg.eigh(_symmetric(apply(np.eye(dim))))
    return _largest(values, vectors, rank)


def shifted_power(
    operator: Operator, dim: int, rank: int, *, rng: Generator, norm: float | None = None, steps: int = 100
) -> Eigenspace:
    """By two shifted power iterations, the paper's own: V₁ ← qr((C·I + P) V₁) and V₂ ← qr((C·I − P) V₂), C = 3‖P‖.

    Only positive Ritz values of V₁ and negative ones of V₂ count, otherwise one eigenvector is taken twice (the text does not say
    so); of both together the r largest are kept, the part of V₂ orthogonalised against that of V₁. Slow: the error falls like
    (3‖P‖ + |λ_{r+1}|)/(3‖P‖ + |λ_r|) per step. `norm` None means that ‖P‖ is estimated by a few power steps.
    Source: Zhong et al. (2017), PowerMethod of Algorithm 1; reconstructed, the text leaves the details out.
    """
    apply = _block_map(operator, dim, rank)
    first = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    second = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    shift = 3.0 * (norm_estimate(apply, dim, rng=rng) if norm is None else norm)
    for _ in range(steps):
        first = np.linalg.qr(shift * first + apply(first))[0]
        second = np.linalg.qr(shift * second - apply(second))[0]
    high, up = _ritz(apply, first)
    low, down = _ritz(apply, second)
    up, down, high, low = up[:, high > 0], down[:, low < 0], high[high > 0], low[low < 0]
    order = np.argsort(-np.abs(np.concatenate([high, low])))[:rank]
    block = np.linalg.qr(np.concatenate([up, down], axis=1)[:, order])[0]
    return _rayleigh_ritz(apply, block, block.shape[1])


def norm_estimate(operator: Operator, dim: int, *, rng: Generator, steps: int = 20) -> float:
    """‖P‖ from below, by block power steps with a few columns."""
    apply = _block_map(operator, dim, 1)
    block = np.linalg.qr(rng.standard_normal((dim, min(dim, COLUMNS))))[0]
    for _ in range(steps):
        block = np.linalg.qr(apply(block))[0]
    return float(np.linalg.norm(apply(block), 2))


def _block_map(operator: Operator, dim: int, rank: int) -> Callable[[Array], Array]:
    if not 1 <= rank <= dim:
        raise InvalidInput(
            f"A subspace of dimension {rank} was asked of an operator of dimension {dim}.", "It has no such subspace.",
            "Give a rank from 1 to the dimension.", rank=rank, dim=dim)
    if callable(operator):
        return operator
    matrix = np.asarray(operator, dtype=float)
    if matrix.shape != (dim, dim) or not np.all(np.isfinite(matrix)):
        raise InvalidInput(
            f"A matrix of shape {matrix.shape} with {int(np.sum(~np.isfinite(matrix)))} NaN or infinite entries was given.",
            f"The operator must be a finite matrix of shape ({dim}, {dim}).", "Remove the samples that caused them.",
            shape=matrix.shape)
    gap, size = float(np.abs(matrix - matrix.T).max()), float(np.abs(matrix).max())
    if gap > 1e-8 * size:
        raise InvalidInput(
            f"The matrix is not symmetric: entries differ from their transposes by up to {gap:.2g}, the largest is {size:.2g}.",
            "Eigenvectors of a second moment are orthogonal only if it is symmetric.", "Symmetrise the estimate first.",
            asymmetry=gap, largest=size)
    return matrix.__matmul__


def _ritz(apply: Callable[[Array], Array], block: Array) -> tuple[Array, Array]:
    values, mixing = np.linalg.eigh(_symmetric(block.T @ apply(block)))
    return values, block @ mixing


def _rayleigh_ritz(apply: Callable[[Array], Array], block: Array, rank: int) -> Eigenspace:
    values, vectors = _ritz(apply, block)
    return _largest(values, vectors, rank)


def _largest(values: Array, vectors: Array, rank: int) -> Eigenspace:
    order = np.argsort(-np.abs(values))[:rank]
    kept = values[order]
    return Eigenspace(vectors[:, order], kept, int(np.sum(kept > 0)), int(np.sum(kept < 0)))


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
