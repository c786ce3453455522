"""Symmetric tensors without their repeated entries, in the basis where inner products stay inner products.

A symmetric tensor T of order k is kept as t_α = √(k!/α!) T_α, one entry a monomial α (`indices.tuples`). Then ⟨t, u⟩ = ⟨T, U⟩_F,
and w^⊗k becomes v_k(w)_α = √(k!/α!) w^α with v_k(w)·v_k(u) = (w·u)^k. For k = 2 this is the `svec` of a symmetric matrix.

In the same coordinates, with the orthonormal Hermite polynomials h_α(x) = Π_j He_{α_j}(x_j)/√(α_j!) and x ~ N(0, I),

    c_k[α] := E[y h_α(x)] = Σᵢ aᵢ c_k(bᵢ)/√k! v_k(wᵢ)      for y = Σᵢ aᵢ act(wᵢ·x + bᵢ), |wᵢ| = 1,

so that √k! c_k is the tensor E[y He_k(x)], and E f² = Σ_k |c_k|².
Source: Awasthi, Tang & Vijayaraghavan (2021), Lemma 3.5 and Proposition B.1; the basis is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np

from laybare.moments.indices import count, count_up_to, factorials, graded, lexicographic_rank, tuples
from laybare.moments.memory import check_memory
from laybare.shapes import Array


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
    table = _flattening(dim, left, right)
    matrices: Array = packed[..., table.place] * table.scale
    return matrices


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
        return self.values[:, graded(self.dim, order)]

    def tensor(self, order: int) -> Array:
        """E[y He_k(x)] = √k! c_k as dense symmetric arrays, (outputs, dim, …, dim)."""
        return sqrt(factorial(order)) * unpack(self.of(order), self.dim, order)

    def flattened(self, left: int, right: int) -> Array:
        """c_{left+right} of every output as a matrix, (outputs, D_left, D_right)."""
        return flatten(self.of(left + right), self.dim, left, right)

    def up_to(self, order: int) -> PackedMoments:
        """The same moments cut off after `order`, or continued by zeros."""
        values = np.zeros((self.outputs, count_up_to(self.dim, order)))
        kept = min(values.shape[1], self.values.shape[1])
        values[:, :kept] = self.values[:, :kept]
        return PackedMoments(self.dim, order, values)

    def __add__(self, other: PackedMoments) -> PackedMoments:
        return PackedMoments(self.dim, self.order, self.values + other.values)

    def __sub__(self, other: PackedMoments) -> PackedMoments:
        return PackedMoments(self.dim, self.order, self.values - other.values)

    def __mul__(self, factor: float) -> PackedMoments:
        return PackedMoments(self.dim, self.order, self.values * factor)


def same_monomial(dim: int, left: int, right: int) -> Array:
    """Where x^(β+γ) is found among the monomials of degree left + right, for all β, γ of the two degrees: (D_left, D_right)."""
    return _flattening(dim, left, right).place


class _Flattening(NamedTuple):
    place: Array
    scale: Array


@lru_cache(maxsize=16)
def _flattening(dim: int, left: int, right: int) -> _Flattening:
    """Where entry [β, γ] is found in the packed tensor, and by what it is multiplied."""
    check_memory(
        2 * count(dim, left) * count(dim, right), f"The flattening ({left}, {right}) in dimension {dim}",
        "Project onto a subspace first, or use contractions (`laybare.moments.contracted`).")
    rows, columns = tuples(dim, left), tuples(dim, right)
    both = np.concatenate(
        [np.broadcast_to(rows[:, None], (len(rows), len(columns), left)),
         np.broadcast_to(columns, (len(rows), len(columns), right))], axis=2)
    both.sort(axis=2)
    sizes = np.multiply.outer(factorial(left) / factorials(rows), factorial(right) / factorials(columns))
    return _Flattening(lexicographic_rank(both, dim), np.sqrt(sizes * factorials(both) / factorial(left + right)))
