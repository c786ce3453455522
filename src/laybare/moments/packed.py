"""Symmetric tensors without repeated entries, in a basis that keeps inner products.

Monomials. x_{i₁}···x_{i_k}, i₁ ≤ … ≤ i_k, is the sorted tuple (i₁, …, i_k). Packed arrays hold all D_k = C(d+k-1, k) of them in
lexicographic order. With x₀ = 1 in front, a monomial of degree at most K in d variables is one of degree exactly K in d+1
variables; in lexicographic order these are the degrees 0, 1, …, K one after the other. The tuples with first index ≥ i are the
last C(d-i+k-1, k); in colexicographic order those with last index < i come first.

Tensors. A symmetric tensor T of order k is stored as t_α = √(k!/α!) T_α, one entry per monomial α. Then ⟨t, u⟩ = ⟨T, U⟩_F, and
w^⊗k becomes v_k(w)_α = √(k!/α!) w^α with v_k(w)·v_k(u) = (w·u)^k. For k = 2 this is `svec`: the upper triangle row by row,
off-diagonal entries times √2, so that ⟨svec(xxᵀ), svec(U)⟩ = xᵀUx.

Moments. With the orthonormal Hermite polynomials h_α(x) = Π_j He_{α_j}(x_j)/√(α_j!) and x ~ N(0, I),

    c_k[α] := E[y h_α(x)] = Σᵢ aᵢ c_k(bᵢ)/√k! v_k(wᵢ)      for y = Σᵢ aᵢ act(wᵢ·x + bᵢ), |wᵢ| = 1,

so that √k! c_k is the tensor E[y He_k(x)], and E f² = Σ_k |c_k|².
Source: Awasthi, Tang & Vijayaraghavan (2021), Lemma 3.5 and Proposition B.1; the basis is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, factorial, floor, isqrt, sqrt
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.moments.measurement import check_memory
from laybare.numerics.shapes import Array


def count_monomials(dim: int, order: int) -> int:
    """D_k = C(d+k-1, k): monomials of degree `order` in `dim` variables."""
    return comb(dim + order - 1, order) if dim + order else 1


def count_monomials_up_to(dim: int, order: int) -> int:
    """C(d+K, K): monomials of degree 0, …, `order`."""
    return comb(dim + order, order)


def degree_slice(dim: int, order: int) -> slice:
    """Where degree `order` lies in an array that holds all degrees from 0 on."""
    return slice(comb(dim + order - 1, order - 1) if order else 0, comb(dim + order, order))


@lru_cache(maxsize=32)
def tuples(dim: int, order: int) -> Array:
    """All sorted tuples of that degree in lexicographic order, (D_k, order)."""
    if order == 0:
        return np.zeros((1, 0), dtype=np.int16)
    shorter = tuples(dim, order - 1)
    tails = [shorter[len(shorter) - count_monomials(dim - first, order - 1) :] for first in range(dim)]
    heads = np.repeat(np.arange(dim, dtype=np.int16), [len(tail) for tail in tails])
    found = np.column_stack([heads, np.concatenate(tails)])
    found.setflags(write=False)
    return found


def lexicographic_rank(sorted_tuples: Array, dim: int) -> Array:
    """Places of sorted tuples (..., k) among `tuples(dim, k)`.

    Larger tuples first differ at some place t, where they continue with any k-t+1 indices above i_t: C(d-1-i_t + k-t, k-t+1).
    """
    order = sorted_tuples.shape[-1]
    larger = np.zeros(sorted_tuples.shape[:-1], dtype=np.int64)
    for t in range(order):
        above = np.array([comb(dim - 1 - i + order - t - 1, order - t) for i in range(dim)], dtype=np.int64)
        larger += above[sorted_tuples[..., t]]
    return np.asarray(count_monomials(dim, order) - 1 - larger)


def colexicographic_rank(sorted_tuples: Array, dim: int) -> Array:
    """Places when the last index counts first: Σ_t C(i_t + t-1, t)."""
    place = np.zeros(sorted_tuples.shape[:-1], dtype=np.int64)
    for t in range(1, sorted_tuples.shape[-1] + 1):
        below = np.array([comb(i + t - 1, t) for i in range(dim)], dtype=np.int64)
        place += below[sorted_tuples[..., t - 1]]
    return place


def factorials(sorted_tuples: Array) -> Array:
    """α! = Π_j α_j! of every tuple."""
    run = np.ones(sorted_tuples.shape[:-1])
    total = np.ones(sorted_tuples.shape[:-1])
    for t in range(1, sorted_tuples.shape[-1]):
        run = np.where(sorted_tuples[..., t] == sorted_tuples[..., t - 1], run + 1, 1.0)
        total *= run
    return total


@lru_cache(maxsize=32)
def graded_factorials(dim: int, order: int) -> Array:
    """α! for all degrees 0, …, `order`."""
    found = np.concatenate([factorials(tuples(dim, k)) for k in range(order + 1)])
    found.setflags(write=False)
    return found


def veronese(directions: Array, order: int) -> Array:
    """v_k(w) for every row w: (r, d) -> (r, D_k)."""
    index = tuples(directions.shape[1], order)
    found = np.tile(np.sqrt(factorial(order) / factorials(index)), (len(directions), 1))
    for column in index.T:
        found *= directions[:, column]
    return found


def flatten(packed: Array, dim: int, left: int, right: int) -> Array:
    """Packed tensors (..., D_k), k = left + right, as matrices (..., D_left, D_right): maps v_k(w) to v_left(w) v_right(w)ᵀ.

    Entry [β, γ] is t[β+γ] √(C(p;β) C(q;γ) / C(k;β+γ)), C(k;α) = k!/α!: the same tensor entry, scaled for both sides.
    """
    place, scale = _flattening(dim, left, right)
    return np.asarray(packed[..., place] * scale)


def unpack(packed: Array, dim: int, order: int) -> Array:
    """Packed tensors (..., D_k) as dense symmetric arrays (..., d, …, d): maps v_k(w) to w^⊗k."""
    check_memory(
        int(np.prod(packed.shape[:-1])) * dim**order, f"A dense tensor of order {order} in dimension {dim}",
        "Keep it packed and use `flatten`, or project it onto a subspace first (`projected_tensors`).")
    dense = np.sort(np.indices((dim,) * order).reshape(order, dim**order).T, axis=1)
    entries = packed / np.sqrt(factorial(order) / factorials(tuples(dim, order)))
    tensor: Array = entries[..., lexicographic_rank(dense, dim)]
    return tensor.reshape(*packed.shape[:-1], *(dim,) * order)


@dataclass(frozen=True, eq=False)
class PackedMoments:
    """Hermite moments c_k[α] = E[y h_α(x)] of orders 0, …, `order`, for one or several outputs.

    `values` (outputs, C(dim+order, order)) holds the orders one after the other. Moments of the same shape can be added,
    subtracted and multiplied by a number.
    """

    dim: int
    order: int
    values: Array

    @property
    def outputs(self) -> int:
        return int(self.values.shape[0])

    def of(self, order: int) -> Array:
        """c_k of every output, (outputs, D_k)."""
        return self.values[:, degree_slice(self.dim, order)]

    def tensor(self, order: int) -> Array:
        """E[y He_k(x)] = √k! c_k as dense symmetric arrays, (outputs, dim, …, dim)."""
        return sqrt(factorial(order)) * unpack(self.of(order), self.dim, order)

    def flattened(self, left: int, right: int) -> Array:
        """c_{left+right} of every output as a matrix, (outputs, D_left, D_right)."""
        return flatten(self.of(left + right), self.dim, left, right)

    def up_to(self, order: int) -> PackedMoments:
        """The same moments cut off after `order`, or continued by zeros."""
        values = np.zeros((self.outputs, count_monomials_up_to(self.dim, order)))
        kept = min(values.shape[1], self.values.shape[1])
        values[:, :kept] = self.values[:, :kept]
        return PackedMoments(self.dim, order, values)

    def __add__(self, other: PackedMoments) -> PackedMoments:
        return PackedMoments(self.dim, self.order, self.values + other.values)

    def __sub__(self, other: PackedMoments) -> PackedMoments:
        return PackedMoments(self.dim, self.order, self.values - other.values)

    def __mul__(self, factor: float) -> PackedMoments:
        return PackedMoments(self.dim, self.order, self.values * factor)


def product_places(dim: int, left: int, right: int) -> Array:
    """Place of x^(β+γ) among the monomials of degree left + right, for all β and γ of the two degrees: (D_left, D_right)."""
    return _flattening(dim, left, right)[0]


@lru_cache(maxsize=16)
def _flattening(dim: int, left: int, right: int) -> tuple[Array, Array]:
    """Place of entry [β, γ] in the packed tensor, and its factor."""
    check_memory(
        2 * count_monomials(dim, left) * count_monomials(dim, right), f"The flattening ({left}, {right}) in dimension {dim}",
        "Project onto a subspace first, or use contractions (`laybare.moments.contractions`).")
    rows, columns = tuples(dim, left), tuples(dim, right)
    both = np.concatenate(
        [np.broadcast_to(rows[:, None], (len(rows), len(columns), left)),
         np.broadcast_to(columns, (len(rows), len(columns), right))], axis=2)
    both.sort(axis=2)
    sizes = np.multiply.outer(factorial(left) / factorials(rows), factorial(right) / factorials(columns))
    return lexicographic_rank(both, dim), np.sqrt(sizes * factorials(both) / factorial(left + right))


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
    return np.asarray(matrices[..., row, column] * scale)


def smat(vectors: Array) -> Array:
    """Vectors (..., d(d+1)/2) as symmetric matrices (..., d, d); the inverse of `svec`."""
    dim = matrix_size(vectors.shape[-1])
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
    return np.asarray((p[:, row] * q[:, column] + p[:, column] * q[:, row]) * (0.5 * scale))


def matrix_size(length: int) -> int:
    """d for a vector of length d(d+1)/2."""
    dim = (isqrt(8 * length + 1) - 1) // 2
    if dim * (dim + 1) // 2 != length:
        raise InvalidInput(
            f"A vector of length {length} cannot be a symmetric matrix.", "The upper triangle has d(d+1)/2 entries.",
            "Give 1, 3, 6, 10, ... numbers.", length=length)
    return dim


SMOOTHED_SHARE = 0.99
"""Share of C(d+l-1, l) up to which the smoothed guarantee is stated. Paper: Awasthi et al. (2021), Corollary 3.3."""


def khatri_rao_gap(weights: Array, order: int) -> float:
    """s_m: the least singular value of the matrix with columns (wᵢ/|wᵢ|)^⊗order, for weights (m, d).

    Moments flattened to this order show the units one by one if and only if these columns are independent, and every error bound
    grows with 1/s_m. It is 0 for more units than independent symmetric tensors, C(d+l-1, l). Source: Awasthi, Tang and
    Vijayaraghavan (2021), Claim A.4.
    """
    if len(weights) > count_monomials(weights.shape[1], order):
        return 0.0
    rows = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    return float(np.linalg.svd(veronese(rows, order), compute_uv=False)[-1])


def smoothed_width(dim: int, order: int) -> int:
    """The largest width for which the smoothed guarantee holds at that order of flattening.

    Weights that are perturbed a little are then well conditioned with probability close to 1: s_m is polynomial in the
    perturbation and the dimension. Source: Awasthi, Tang and Vijayaraghavan (2021), Corollary 3.3 (smoothed analysis).
    """
    return max(1, floor(SMOOTHED_SHARE * count_monomials(dim, order)))


def needed_order(dim: int, width: int, most: int = 3) -> int | None:
    """The lowest order of flattening at which `width` units in general position are independent; None above `most`."""
    return next((order for order in range(1, most + 1) if width <= count_monomials(dim, order)), None)
