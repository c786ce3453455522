"""Sums of y·x^α over all monomials of degree at most K, each product formed once: the kernel under every moment.

With x₀ = 1 all degrees are one (`indices`). A sorted tuple of degree K splits into its first p = ⌊K/2⌋ and its last q indices.
Let L hold y times all monomials of degree p, ordered by their largest index, and R all monomials of degree q, ordered by their
smallest. For a pivot j, the largest index of the left part,

    L[largest = j] · R[smallest ≥ j]ᵀ

holds every sum whose p-th index is j, without repetition; both factors are contiguous. So n·C(d+K, K) multiply-adds do it, all
inside matrix products, against n·d^K for Khatri-Rao products of full tensors. Neighbouring pivots share one product, until its
left side is wide enough for BLAS to run at speed; the few sums that come twice are dropped by the gather at the end.

The features of a chunk of rows stay in cache, one row a feature. Hermite corrections are made once, on the sums (`hermite`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from laybare.moments.indices import colexicographic_rank, count, lexicographic_rank, tuples
from laybare.shapes import Array, Sums

LEFT_ROWS = 16
"""Least width of the left factor: below it a product runs at half speed; 16 to 24 were best for d = 5 to 50, K = 3 to 8."""

CHUNK_FLOATS = 480_000
"""Features of one chunk, 4 MB: best of 1 to 16 MB for d = 8 to 50, K = 3 to 6 (L2 0.5 MB, L3 32 MB)."""


@dataclass(frozen=True)
class MonomialSums:
    """Statistic: Σ_rows y_o x^α for every output o and all |α| ≤ order, (outputs, C(d+order, order)).

    If `basis` (dim, k) is given, x is replaced by its k coordinates x·basis.
    """

    order: int
    basis: Array | None = None

    def __call__(self, x: Array, y: Array) -> Sums:
        return (monomial_sums(x, y, self.order, self.basis),)


def monomial_sums(x: Array, y: Array, order: int, basis: Array | None = None) -> Array:
    """The statistic's one array, chunk by chunk."""
    variables = 1 + (x.shape[1] if basis is None else basis.shape[1])
    plan = _plan(variables, order)
    totals = np.zeros((y.shape[1], plan.size))
    for start, stop in _chunks(len(x), count(variables, plan.left) * y.shape[1] + count(variables, plan.right)):
        z = with_one(x[start:stop], basis)
        left, right = _by_largest(z, y[start:stop].T, plan.left), by_smallest(z, plan.right)
        for piece in plan.pieces:
            product = left[:, piece.rows] @ right[piece.columns].T
            totals[:, piece.place] += product.reshape(len(product), -1)
    return totals[:, plan.gather]


def with_one(x: Array, basis: Array | None = None) -> Array:
    """Rows 1, x₁, …, x_d, one column a sample."""
    z = np.ones((1 + (x.shape[1] if basis is None else basis.shape[1]), len(x)))
    if basis is None:
        z[1:] = x.T
    else:
        np.matmul(basis.T, x.T, out=z[1:])
    return z


def by_smallest(z: Array, degree: int) -> Array:
    """All monomials of that degree in the rows of z, in lexicographic order: z_i times those of one degree less from i on."""
    if degree == 0:
        return np.ones((1, z.shape[1]))
    found = z
    for k in range(2, degree + 1):
        larger, at = np.empty((count(len(z), k), z.shape[1])), 0
        for i in range(len(z)):
            tail = found[len(found) - count(len(z) - i, k - 1) :]
            np.multiply(tail, z[i], out=larger[at : at + len(tail)])
            at += len(tail)
        found = larger
    return found


def _by_largest(z: Array, roots: Array, degree: int) -> Array:
    """roots_o times all monomials of that degree, in colexicographic order: z_i times those of one degree less up to i."""
    found = roots[:, None]
    for k in range(1, degree + 1):
        larger, at = np.empty((len(roots), count(len(z), k), z.shape[1])), 0
        for i in range(len(z)):
            head = found[:, : count(i + 1, k - 1)]
            np.multiply(head, z[i], out=larger[:, at : at + head.shape[1]])
            at += head.shape[1]
        found = larger
    return found


class _Piece(NamedTuple):
    """One matrix product: rows of the left factor, columns of the right one, place in the flat totals."""

    rows: slice
    columns: slice
    place: slice


class _Plan(NamedTuple):
    left: int
    right: int
    pieces: list[_Piece]
    size: int
    gather: Array


@lru_cache(maxsize=16)
def _plan(variables: int, order: int) -> _Plan:
    """The products to form, and for every monomial where its sum comes to lie."""
    left, right = order // 2, order - order // 2
    pieces, start, size = [], 0, 0
    while start < variables:
        stop = _last_pivot(variables, left, start) if left else variables
        rows = slice(count(start, left) if start else 0, count(stop, left))
        columns = slice(count(variables, right) - count(variables - start, right), count(variables, right))
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        pieces.append(_Piece(rows, columns, slice(size, size + area)))
        start, size = stop, size + area
    return _Plan(left, right, pieces, size, _gather(variables, order, pieces))


def _last_pivot(variables: int, left: int, start: int) -> int:
    """One after the last pivot that shares a product with pivot `start`."""
    done = count(start, left) if start else 0
    return next((stop for stop in range(start + 1, variables) if count(stop, left) - done >= LEFT_ROWS), variables)


def _gather(variables: int, order: int, pieces: list[_Piece]) -> Array:
    index, left = tuples(variables, order), order // 2
    row, column = colexicographic_rank(index[:, :left], variables), lexicographic_rank(index[:, left:], variables)
    which = np.searchsorted([piece.rows.stop for piece in pieces], row, side="right")
    first_row, first_column, base = (
        np.array(starts)[which] for starts in zip(*((p.rows.start, p.columns.start, p.place.start) for p in pieces), strict=True))
    width = column.dtype.type(count(variables, order - left)) - first_column
    place: Array = base + (row - first_row) * width + (column - first_column)
    return place


def _chunks(rows: int, features: int) -> list[tuple[int, int]]:
    """Chunks of nearly equal size; never a multiple of 16 rows, because columns a power of two apart share cache lines."""
    most = min(4096, max(256, CHUNK_FLOATS // features))
    size = -(-rows // max(1, -(-rows // most))) // 16 * 16 + 8
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]
