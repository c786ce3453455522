"""Packed Hermite moments E[y h_α(x)], |α| ≤ K, from one pass of monomial sums.

Π_j He_{α_j}(x_j) = exp(-Δ/2) x^α, Δ = Σ_j ∂²/∂x_j². On moments M[α] = E[y x^α], Δ acts as (ΔM)[α] = Σ_j α_j(α_j-1) M[α-2e_j],
a sparse matrix that lowers the degree by two, so the exponential ends after ⌊K/2⌋ terms. Applied once, to the sums.

Rounding: the correction adds terms up to (K-1)!! times larger than the result, so about 1e-16·(K-1)!!·|y|, at K = 8 1e-14: far
below the statistical error (K!/n)^½ of every attainable n. Error O(n^-½); time n·C(d+K, K); memory one block and the result.
Source: Awasthi, Tang & Vijayaraghavan (2021), Lemma 3.5 (moments); the factorisation and the exponential are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse

from laybare.moments.indices import count, count_up_to, graded, graded_factorials, lexicographic_rank, tuples
from laybare.moments.measurement import measure
from laybare.moments.memory import MEMORY_LIMIT, check_memory, check_order
from laybare.moments.packed import PackedMoments
from laybare.moments.products import by_smallest, monomial_sums, with_one
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

WORKING_COPIES = 8
"""Copies of the sums that a pass holds: partial sums of the summation tree (about log2 of the blocks) and blocks under way."""


@dataclass(frozen=True, eq=False)
class HermiteMoments:
    """Moment: c_k[α] = E[y h_α(z)] of orders 0, …, `order`, z = x or, given an orthonormal `basis` (dim, k), z = x·basis."""

    order: int
    basis: Array | None = None

    def __call__(self, x: Array, y: Array) -> Sums:
        return (monomial_sums(x, y, self.order, self.basis),)

    def read(self, sums: Sums, size: int) -> PackedMoments:
        dim = _dim_of(sums[0].shape[1], self.order) if self.basis is None else self.basis.shape[1]
        return PackedMoments(dim, self.order, hermite_from_monomials(sums[0] / size, dim, self.order))


def packed_moments(source: Source, order: int, *, memory: int = MEMORY_LIMIT) -> PackedMoments:
    """Hermite moments of all orders up to `order` and all outputs, in one pass, for inputs that are N(0, I).

    Refused if they would not fit into `memory` bytes. For small error subtract what is known first: `controlled_moments`.
    """
    check_packed(source.dim, order, source.outputs, memory)
    return measure(source, HermiteMoments(order), stage=f"moments of order {order}")


def check_packed(dim: int, order: int, outputs: int = 1, memory: int = MEMORY_LIMIT) -> None:
    """Refuse packed moments that would not fit, with their size and a way out."""
    check_order(order)
    check_memory(
        WORKING_COPIES * outputs * count_up_to(dim, order),
        f"Packed moments of order {order} in dimension {dim}, with the sums under way,",
        "Ask for a lower order, project onto a subspace first (`projected_tensors`), or use contractions that never form the "
        "tensor (`third_slices`, `fourth_slices`, `Quartic`).", memory)


def hermite_from_monomials(moments: Array, dim: int, order: int) -> Array:
    """E[y h_α] from E[y x^α], both (..., C(d+K, K))."""
    corrected = _exponential(laplacian(dim, order), moments.reshape(-1, moments.shape[-1]).T, order).T.reshape(moments.shape)
    found: Array = corrected / np.sqrt(graded_factorials(dim, order))
    return found


def monomials_from_hermite(coefficients: Array, dim: int, order: int) -> Array:
    """Coefficients of the polynomial Σ_α c_α h_α(x) in monomials, both (..., C(d+K, K)): the transpose of the map above."""
    scaled = coefficients / np.sqrt(graded_factorials(dim, order))
    flat = scaled.reshape(-1, scaled.shape[-1]).T
    return _exponential(laplacian(dim, order).T, flat, order).T.reshape(scaled.shape)


def hermite_features(x: Array, order: int) -> Array:
    """h_α(x) for all |α| ≤ order, one row per feature: (C(d+K, K), n). For regressions; moments never form it."""
    dim = x.shape[1]
    monomials = _exponential(laplacian(dim, order), by_smallest(with_one(x), order), order)
    features: Array = monomials / np.sqrt(graded_factorials(dim, order))[:, None]
    return features


@lru_cache(maxsize=16)
def laplacian(dim: int, order: int) -> sparse.csr_array:
    """Δ on moments of degree at most `order`: entry [α, α-2e_j] is α_j(α_j-1)."""
    size = count_up_to(dim, order)
    rows, columns, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for k in range(2, order + 1):
        lower = tuples(dim, k - 2)
        raised = np.empty((len(lower), dim, k), dtype=np.int16)
        raised[..., : k - 2] = lower[:, None]
        raised[..., k - 2 :] = np.arange(dim)[:, None]
        power = 2.0 + (lower[:, None, :] == np.arange(dim)[:, None]).sum(axis=2)
        raised.sort(axis=2)
        rows.append(graded(dim, k).start + lexicographic_rank(raised, dim).ravel())
        columns.append(graded(dim, k - 2).start + np.repeat(np.arange(count(dim, k - 2)), dim))
        values.append((power * (power - 1)).ravel())
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(size, size))


def _exponential(delta: sparse.sparray, vectors: Array, order: int) -> Array:
    """exp(-Δ/2) times columns."""
    total, term = np.array(vectors), vectors
    for power in range(1, order // 2 + 1):
        term = delta @ term * (-0.5 / power)
        total += term
    return total


def _dim_of(size: int, order: int) -> int:
    """The dimension in which there are `size` monomials of degree at most `order`."""
    dim = 1
    while count_up_to(dim, order) < size:
        dim += 1
    return dim
