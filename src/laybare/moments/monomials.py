"""Sums of y·x^α over all monomials of degree at most K, each product formed once: the kernel under every moment.

With x₀ = 1 all degrees are one (`packed`). A sorted tuple of degree K splits into its first p = ⌊K/2⌋ and its last q indices. Let
L hold y times all monomials of degree p, ordered by their largest index, and R all monomials of degree q, ordered by their
smallest. For a pivot j, the largest index of the left part,

    L[largest = j] · R[smallest ≥ j]ᵀ

holds every sum whose p-th index is j, without repetition, and both factors are contiguous. So n·C(d+K, K) multiply-adds suffice,
all inside matrix products; Khatri-Rao products of full tensors take n·d^K. Neighbouring pivots i..j share one product,
L[i ≤ largest ≤ j] · R[smallest ≥ i]ᵀ, whose entries with largest > smallest repeat others and are skipped; a plan chooses the
runs of pivots that take the least time. The features of a chunk of rows stay in cache, one row per feature.

The same split evaluates polynomials: f(x) = Σ_β l_β(x) (C r(x))_β with every coefficient at one place of C, in time n·D_p·D_q.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from laybare.moments.packed import colexicographic_rank, count_monomials, lexicographic_rank, tuples
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Model of the time of a matrix product with w rows on the left, panel·⌈w/panel⌉ + overhead rows, and the size of chunks."""

    panel: int = 8  # Convention: rows that BLAS takes at once; 1 or 64 changed the time of moment4 by less than its noise.
    overhead: int = 4  # rows' worth of time per product. Checked by `make bench BENCH_ARGS=moment4`.
    chunk_floats: int = 480_000  # features per chunk, 4 MB, between L2 and L3 caches. Checked by `make bench BENCH_ARGS=moment4`.
    least_chunk_rows: int = 256  # Convention: however many features there are, a chunk is no thinner.
    most_chunk_rows: int = 4096  # Checked by `make bench BENCH_ARGS=moment3`.


KERNEL = KernelOptions()


class MatrixProduct(NamedTuple):
    """One matrix product: rows of the left factor, columns of the right one, place in the flat totals."""

    rows: slice
    columns: slice
    place: slice


class ProductPlan(NamedTuple):
    """Degrees of the two factors, the products, the length of the flat totals, and where the sum of each monomial lies there."""

    left: int
    right: int
    products: list[MatrixProduct]
    size: int
    gather: Array


@lru_cache(maxsize=16)
def plan_products(variables: int, order: int) -> ProductPlan:
    """The products to form, and for every monomial where its sum comes to lie."""
    left, right = order // 2, order - order // 2
    products, size = [], 0
    for start, stop in pairwise(_cut_pivots(variables, left, right)) if left else [(0, variables)]:
        rows = slice(count_monomials(start, left) if start else 0, count_monomials(stop, left))
        last = count_monomials(variables, right)
        columns = slice(last - count_monomials(variables - start, right), last)
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        products.append(MatrixProduct(rows, columns, slice(size, size + area)))
        size += area
    return ProductPlan(left, right, products, size, _gather(variables, order, products))


def _cut_pivots(variables: int, left: int, right: int) -> list[int]:
    """Runs of the pivots 0, …, variables - 1 for which all products together are fastest, by dynamic programming."""
    fastest, before = [0], [0]
    for stop in range(1, variables + 1):
        times = [fastest[start] + _predicted_time(variables, left, right, start, stop) for start in range(stop)]
        fastest.append(min(times))
        before.append(times.index(fastest[-1]))
    cuts = [variables]
    while cuts[-1]:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


def _predicted_time(variables: int, left: int, right: int, start: int, stop: int) -> int:
    """Time of the product for pivots start, …, stop - 1, in rows times columns."""
    rows = count_monomials(stop, left) - count_monomials(start, left)
    return (KERNEL.panel * -(-rows // KERNEL.panel) + KERNEL.overhead) * count_monomials(variables - start, right)


def _gather(variables: int, order: int, products: list[MatrixProduct]) -> Array:
    index, left = tuples(variables, order), order // 2
    row, column = colexicographic_rank(index[:, :left], variables), lexicographic_rank(index[:, left:], variables)
    which = np.searchsorted([part.rows.stop for part in products], row, side="right")
    first_row, first_column, base = (
        np.array(starts)[which] for starts in zip(*((p.rows.start, p.columns.start, p.place.start) for p in products),
        strict=True))
    width = column.dtype.type(count_monomials(variables, order - left)) - first_column
    place: Array = base + (row - first_row) * width + (column - first_column)
    return place


def monomial_sums(x: Array, y: Array, order: int, basis: Array | None = None) -> Array:
    """Σ_rows y_o x^α for every output o and all |α| ≤ order, (outputs, C(d+order, order)), chunk by chunk.

    If `basis` (dim, k) is given, x is replaced by its k coordinates x·basis.
    """
    variables, outputs = 1 + (x.shape[1] if basis is None else basis.shape[1]), y.shape[1]
    plan = plan_products(variables, order)
    size = _chunk_rows(len(x), count_monomials(variables, plan.left) * outputs + count_monomials(variables, plan.right))
    buffers = _Buffers(variables, outputs, plan, size)
    totals = np.zeros((outputs, plan.size))
    for start in range(0, len(x), size):
        z = with_constant(x[start : start + size], basis, buffers.z)
        left = _colexicographic_monomials(z, y[start : start + size].T, buffers.left)
        right = lexicographic_monomials(z, plan.right, buffers.right)
        for part in plan.products:
            a, b = left[:, part.rows], right[part.columns]
            product = np.matmul(a, b.T, out=buffers.product[: a.shape[1] * len(b) * outputs].reshape(outputs, a.shape[1], len(b)))
            totals[:, part.place] += product.reshape(outputs, -1)
    return totals[:, plan.gather]


def with_constant(x: Array, basis: Array | None = None, out: Array | None = None) -> Array:
    """Rows 1, x₁, …, x_d, one column per sample."""
    shape = 1 + (x.shape[1] if basis is None else basis.shape[1]), len(x)
    z = np.empty(shape) if out is None else out[:, : len(x)]
    z[0] = 1.0
    if basis is None:
        z[1:] = x.T
    else:
        np.matmul(basis.T, x.T, out=z[1:])
    return z


def lexicographic_monomials(z: Array, degree: int, buffers: list[Array] | None = None) -> Array:
    """All monomials of that degree in the rows of z, in lexicographic order: z_i times those of one degree less from i on."""
    if degree == 0:
        return np.ones((1, z.shape[1]))
    found = z
    for k in range(2, degree + 1):
        larger = np.empty((count_monomials(len(z), k), z.shape[1])) if buffers is None else buffers[k - 2][:, : z.shape[1]]
        at = 0
        for i in range(len(z)):
            tail = found[len(found) - count_monomials(len(z) - i, k - 1) :]
            np.multiply(tail, z[i], out=larger[at : at + len(tail)])
            at += len(tail)
        found = larger
    return found


def _colexicographic_monomials(z: Array, roots: Array, buffers: list[Array]) -> Array:
    """roots_o times all monomials of degree len(buffers), in colexicographic order: z_i times those of degree - 1 up to i."""
    found = roots[:, None]
    for k, space in enumerate(buffers, start=1):
        larger, at = space[..., : z.shape[1]], 0
        for i in range(len(z)):
            head = found[:, : count_monomials(i + 1, k - 1)]
            np.multiply(head, z[i], out=larger[:, at : at + head.shape[1]])
            at += head.shape[1]
        found = larger
    return found


class _Buffers:
    """Arrays that all chunks of a block share: fresh ones cost page faults, up to half of the time."""

    def __init__(self, variables: int, outputs: int, plan: ProductPlan, size: int) -> None:
        self.z = np.empty((variables, size))
        self.left = [np.empty((outputs, count_monomials(variables, k), size)) for k in range(1, plan.left + 1)]
        self.right = [np.empty((count_monomials(variables, k), size)) for k in range(2, plan.right + 1)]
        self.product = np.empty(outputs * max(part.place.stop - part.place.start for part in plan.products))


def _chunk_rows(rows: int, features: int) -> int:
    """Rows per chunk: nearly equal chunks, and 8 more than a multiple of 16, lest columns share their cache lines."""
    most = min(KERNEL.most_chunk_rows, max(KERNEL.least_chunk_rows, KERNEL.chunk_floats // features))
    return (-(-rows // max(1, -(-rows // most))) + 7) // 16 * 16 + 8


def evaluate_polynomial(coefficients: Array, x: Array, order: int) -> Array:
    """Σ_α c_α x^α at the rows of x, from coefficients (outputs, C(d+K, K)) in graded order: (n, outputs). Memory: one chunk."""
    variables = x.shape[1] + 1
    left, right = order // 2, order - order // 2
    matrix = np.zeros((len(coefficients), count_monomials(variables, left), count_monomials(variables, right)))
    row, column = _places(variables, order)
    matrix[:, row, column] = coefficients
    features = count_monomials(variables, left) * len(coefficients) + count_monomials(variables, right)
    rows = max(KERNEL.least_chunk_rows, KERNEL.chunk_floats // features)
    values = np.empty((len(x), len(coefficients)))
    for start in range(0, len(x), rows):
        z = with_constant(x[start : start + rows])
        l, r = (lexicographic_monomials(z, degree) for degree in (left, right))
        values[start : start + rows] = np.einsum("bn,obn->no", l, matrix @ r)
    return values


@lru_cache(maxsize=16)
def _places(variables: int, order: int) -> tuple[Array, Array]:
    index, left = tuples(variables, order), order // 2
    return lexicographic_rank(index[:, :left], variables), lexicographic_rank(index[:, left:], variables)
