"""Packed Hermite moments E[y h_α(x)], |α| ≤ K: from one pass of monomial sums, or in closed form for a known network.

Samples. Π_j He_{α_j}(x_j) = exp(-Δ/2) x^α, Δ = Σ_j ∂²/∂x_j². On moments M[α] = E[y x^α], Δ acts as (ΔM)[α] = Σ_j α_j(α_j-1)
M[α-2e_j], a sparse matrix that lowers the degree by two, so that the exponential ends after ⌊K/2⌋ terms. It is applied once, to
the sums. Rounding: the correction adds terms up to (K-1)!! times larger than the result, so about 1e-16·(K-1)!!·|y|, 1e-14 at K =
8: far below the statistical error (K!/n)^½ of every attainable n. Error O(n^-½); time n·C(d+K, K); memory one block and the
result.

Networks. For x ~ N(0, I), f(x) = Σᵢ Aᵢ act(wᵢ·x + bᵢ) + xL + c has E[f He_k(x)] = Σᵢ Aᵢ c_k(|wᵢ|, bᵢ) (wᵢ/|wᵢ|)^⊗k, plus c at
order 0 and L at order 1, with c_k(s, b) = E[act(s·g + b) He_k(g)] (`Activation.hermite`). Exact for every activation, norm and
bias; a unit without weights is the constant act(b).
Source: Awasthi, Tang & Vijayaraghavan (2021), Lemma 3.5; Zhong et al. (2017), Claim 5.2. The factorisation and the exponential
are ours.

Score moments E[y S_k(x)], S_k = (-1)^k ∇^k p / p, for inputs with a smooth density p that need not be normal.

Stein's identity. Integrating by parts k times, E[f(x) S_k(x)] = E[∇^k f(x)]. For f = Σᵢ aᵢ act(wᵢ·x + bᵢ) that is Σᵢ aᵢ
E[act⁽ᵏ⁾(wᵢ·x + bᵢ)] wᵢ⊗…⊗wᵢ: the hidden weights are its components, whatever the law. For N(0, I) S_k is He_k. It fails for laws
with edges (p must vanish at infinity), and where E[act⁽ᵏ⁾] = 0. Error O(n^-½) with the variance of y S_k, which grows with k and
with the tails of the scores; time and memory n·d^k, one block at a time.
Source: Janzamin, Sedghi and Anandkumar (2014), Score function features for discriminative learning, Theorem 6.

Monomial sums, the kernel under every moment: y·x^α over all monomials of degree at most K, each product formed once. With x₀ = 1
all degrees are one (`packed`). A sorted tuple of degree K splits into its first p = ⌊K/2⌋ and its last q indices. Let L hold y
times all monomials of degree p, ordered by their largest index, and R all monomials of degree q, ordered by their smallest. For a
pivot j, the largest index of the left part,

    L[largest = j] · R[smallest ≥ j]ᵀ

holds every sum whose p-th index is j, without repetition, and both factors are contiguous. So n·C(d+K, K) multiply-adds suffice,
all inside matrix products; Khatri-Rao products of full tensors take n·d^K. Neighbouring pivots i..j share one product, L[i ≤
largest ≤ j] · R[smallest ≥ i]ᵀ, whose entries with largest > smallest repeat others and are skipped; a plan chooses the runs of
pivots that take the least time. The features of a chunk of rows stay in cache, one row per feature.

The same split evaluates polynomials: f(x) = Σ_β l_β(x) (C r(x))_β with every coefficient at one place of C, in time n·D_p·D_q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from math import factorial, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from laybare.errors import InvalidInput
from laybare.moments.measurement import MEMORY_LIMIT, check_memory, check_order, measure
from laybare.moments.packed import (
    PackedMoments,
    colexicographic_rank,
    count_monomials,
    count_monomials_up_to,
    degree_slice,
    graded_factorials,
    lexicographic_rank,
    tuples,
    veronese,
)
from laybare.networks import Network
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source


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
    return np.asarray(base + (row - first_row) * width + (column - first_column))


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


@dataclass(frozen=True)
class ScoreMoments:
    """Moment: E[y S_k(x)], (outputs, d, …, d), by `law.score(x, order)` -> (rows, d, …, d)."""

    law: Any
    order: int

    def __call__(self, x: Array, y: Array) -> Sums:
        found, shape = np.asarray(self.law.score(x, self.order)), (len(x), *(x.shape[1],) * self.order)
        if found.shape != shape:
            raise InvalidInput(
                f"{show_value(self.law)}.score(x, {self.order}) has shape {found.shape} for x of shape {x.shape}.",
                "It is one tensor per row.", f"Return an array of shape {shape}.", shape=found.shape)
        return (np.tensordot(y, found, axes=(0, 0)),)

    def read(self, sums: Sums, size: int) -> Array:
        return sums[0] / size


def score_moments(source: Source, order: int) -> Array:
    """E[y S_k(x)] by the score of the law of `source`, (outputs, d, …, d); one pass."""
    if not hasattr(source.law, "score"):
        raise InvalidInput(
            f"The law of the inputs is {show_value(source.law)}, which has no score.",
            "Score moments need the derivatives of the density of the inputs.",
            "Give a law with score(x, order), as docs/adding.md has one; for normal inputs use HermiteMoments.")
    return measure(source, ScoreMoments(source.law, order), stage=f"score moments of order {order}")


def independent_score(scores: Sequence[Array]) -> Array:
    """S_k of independent coordinates, (rows, d, …, d), from those of one coordinate, S_1, …, S_k, each (rows, d); k up to 3.

    An entry is a product over its different coordinates, each at the order at which it appears.
    """
    order, first = len(scores), scores[0]
    if order not in (1, 2, 3):
        raise InvalidInput(f"{order} orders of scores.", "Tensors of order 1 to 3 are formed.", "Give S_1, …, S_k, k up to 3.")
    dim = first.shape[1]
    letters = "ijl"[:order]
    tensor: Array = np.einsum(",".join(f"n{letter}" for letter in letters) + f"->n{letters}", *[first] * order)
    each = np.arange(dim)
    for one, other in combinations(range(order), 2):
        view = np.moveaxis(tensor, (1 + one, 1 + other), (1, 2))
        pair = scores[1]
        view[:, each, each] = pair[:, :, None] * first[:, None] if order == 3 else pair
    if order == 3:
        tensor[:, each, each, each] = scores[2]
    return tensor


WORKING_COPIES = 8
"""Copies of the sums that a pass holds. Derived: the summation tree holds about log₂(blocks) of them, workers a few more."""


@dataclass(frozen=True, eq=False)
class HermiteMoments:
    """Moment: c_k[α] = E[y h_α(z)] of orders 0, …, `order`, z = x or, given an orthonormal `basis` (dim, k), z = x·basis."""

    order: int
    basis: Array | None = None

    def __call__(self, x: Array, y: Array) -> Sums:
        return (monomial_sums(x, y, self.order, self.basis),)

    def read(self, sums: Sums, size: int) -> PackedMoments:
        dim = _dim_from_size(sums[0].shape[1], self.order) if self.basis is None else self.basis.shape[1]
        return PackedMoments(dim, self.order, hermite_from_monomials(sums[0] / size, dim, self.order))


def packed_moments(source: Source, order: int, *, memory: int = MEMORY_LIMIT) -> PackedMoments:
    """Hermite moments of all orders up to `order` and all outputs, in one pass, for inputs that are N(0, I).

    Refused if they do not fit into `memory` bytes. `controlled_moments` has less noise.
    """
    check_packed(source.dim, order, source.outputs, memory)
    return measure(source, HermiteMoments(order), stage=f"moments of order {order}")


def check_packed(dim: int, order: int, outputs: int = 1, memory: int = MEMORY_LIMIT) -> None:
    """Refuse packed moments that do not fit into memory."""
    check_order(order)
    check_memory(
        WORKING_COPIES * outputs * count_monomials_up_to(dim, order),
        f"Packed moments of order {order} in dimension {dim}, with the sums under way,",
        "Ask for a lower order, project onto a subspace first (`projected_tensors`), or use contractions that never form the "
        "tensor (`third_slices`, `fourth_slices`, `Quartic`).", memory)


def hermite_from_monomials(moments: Array, dim: int, order: int) -> Array:
    """E[y h_α] from E[y x^α], both (..., C(d+K, K))."""
    flat = moments.reshape(-1, moments.shape[-1]).T
    corrected = _apply_exponential(laplacian(dim, order), flat, order).T.reshape(moments.shape)
    return np.asarray(corrected / np.sqrt(graded_factorials(dim, order)))


def monomials_from_hermite(coefficients: Array, dim: int, order: int) -> Array:
    """Coefficients of the polynomial Σ_α c_α h_α(x) in monomials, both (..., C(d+K, K)): the transpose of the map above."""
    scaled = coefficients / np.sqrt(graded_factorials(dim, order))
    flat = scaled.reshape(-1, scaled.shape[-1]).T
    return _apply_exponential(laplacian(dim, order).T, flat, order).T.reshape(scaled.shape)


def hermite_features(x: Array, order: int) -> Array:
    """h_α(x) for all |α| ≤ order, one row per feature: (C(d+K, K), n). For regressions; moments never form it."""
    dim = x.shape[1]
    monomials = _apply_exponential(laplacian(dim, order), lexicographic_monomials(with_constant(x), order), order)
    return np.asarray(monomials / np.sqrt(graded_factorials(dim, order))[:, None])


@lru_cache(maxsize=16)
def laplacian(dim: int, order: int) -> sparse.csr_array:
    """Δ on moments of degree at most `order`: entry [α, α-2e_j] is α_j(α_j-1)."""
    size = count_monomials_up_to(dim, order)
    rows, columns, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for k in range(2, order + 1):
        lower = tuples(dim, k - 2)
        raised = np.empty((len(lower), dim, k), dtype=np.int16)
        raised[..., : k - 2] = lower[:, None]
        raised[..., k - 2 :] = np.arange(dim)[:, None]
        power = 2.0 + (lower[:, None, :] == np.arange(dim)[:, None]).sum(axis=2)
        raised.sort(axis=2)
        rows.append(degree_slice(dim, k).start + lexicographic_rank(raised, dim).ravel())
        columns.append(degree_slice(dim, k - 2).start + np.repeat(np.arange(count_monomials(dim, k - 2)), dim))
        values.append((power * (power - 1)).ravel())
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(size, size))


def _apply_exponential(delta: sparse.sparray, vectors: Array, order: int) -> Array:
    """exp(-Δ/2) times the columns of `vectors`."""
    total, term = np.array(vectors), vectors
    for power in range(1, order // 2 + 1):
        term = delta @ term * (-0.5 / power)
        total += term
    return total


def _dim_from_size(size: int, order: int) -> int:
    """The dimension in which there are `size` monomials of degree at most `order`."""
    dim = 1
    while count_monomials_up_to(dim, order) < size:
        dim += 1
    return dim


class RankOneSum(NamedTuple):
    """The tensors Σᵢ coefficients[o, i] directions[i]^⊗order, one for each output o; `directions` (r, d) are unit rows."""

    order: int
    coefficients: Array
    directions: Array

    def packed(self) -> Array:
        """In the packed basis, (outputs, D_order)."""
        return np.asarray(self.coefficients @ veronese(self.directions, self.order))


def population_tensor(network: Network, order: int) -> RankOneSum:
    """E[f(x) He_k(x)] of a network as a sum of rank-one tensors; at order 1 the linear part adds `dim` more terms."""
    readout, offset, linear = network.columns
    norms = np.linalg.norm(network.layer.weights, axis=1)
    units = network.layer.weights / np.where(norms > 0, norms, 1.0)[:, None]
    coefficients = readout.T * _hermite_coefficients(network, order, norms)
    if order == 0:
        coefficients = np.column_stack([coefficients, offset])
        units = np.vstack([units, np.zeros(network.dim)])
    if order == 1:
        coefficients = np.column_stack([coefficients, linear.T])
        units = np.vstack([units, np.eye(network.dim)])
    return RankOneSum(order, coefficients, units)


def population_moments(network: Network, order: int, *, memory: int = MEMORY_LIMIT) -> PackedMoments:
    """c_k[α] = E[f(x) h_α(x)] of orders 0, …, `order`: what `packed_moments` estimates, without its error."""
    check_packed(network.dim, order, network.outputs, memory)
    packed = [population_tensor(network, k).packed() / sqrt(factorial(k)) for k in range(order + 1)]
    return PackedMoments(network.dim, order, np.concatenate(packed, axis=1))


def _hermite_coefficients(network: Network, order: int, norms: Array) -> Array:
    """c_k(|wᵢ|, bᵢ) of every unit; for a unit without weights act(bᵢ) at order 0 and 0 above."""
    biases = np.asarray(network.layer.biases)
    constant = network.activation(biases) if order == 0 else np.zeros(len(norms))
    alive = norms > 0
    found: Array = constant.copy()
    if alive.any():
        found[alive] = network.activation.hermite(order, norms[alive], biases[alive])
    return found
