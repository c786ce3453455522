"""Sums of y·x^α over all monomials of degree at most K, each product formed once: the kernel under every moment.

With x₀ = 1 all degrees are one (`indices`). A sorted tuple of degree K splits into its first p = ⌊K/2⌋ and its last q indices.
Let L hold y times all monomials of degree p, ordered by their largest index, and R all monomials of degree q, ordered by their
smallest. For a pivot j, the largest index of the left part,

    L[largest = j] · R[smallest ≥ j]ᵀ

holds every sum whose p-th index is j, without repetition; both factors are contiguous. So n·C(d+K, K) multiply-adds do it, all
inside matrix products, against n·d^K for Khatri-Rao products of full tensors. Neighbouring pivots share a product (`pivots`).

The features of a chunk of rows stay in cache, one row per feature. Hermite corrections are made once, on the sums (`hermite`).
"""

from __future__ import annotations

import numpy as np

from laybare.moments.indices import count
from laybare.moments.pivots import Plan, plan_products
from laybare.shapes import Array

CHUNK_FLOATS = 480_000
"""Features of one chunk, 4 MB: best of 1 to 16 MB for d = 8 to 50, K = 3 to 6 (L2 0.5 MB, L3 32 MB)."""


def monomial_sums(x: Array, y: Array, order: int, basis: Array | None = None) -> Array:
    """Σ_rows y_o x^α for every output o and all |α| ≤ order, (outputs, C(d+order, order)), chunk by chunk.

    If `basis` (dim, k) is given, x is replaced by its k coordinates x·basis.
    """
    variables, outputs = 1 + (x.shape[1] if basis is None else basis.shape[1]), y.shape[1]
    plan = plan_products(variables, order)
    size = _chunk(len(x), count(variables, plan.left) * outputs + count(variables, plan.right))
    room = _Room(variables, outputs, plan, size)
    totals = np.zeros((outputs, plan.size))
    for start in range(0, len(x), size):
        z = with_one(x[start : start + size], basis, room.z)
        left, right = _by_largest(z, y[start : start + size].T, room.left), by_smallest(z, plan.right, room.right)
        for piece in plan.pieces:
            a, b = left[:, piece.rows], right[piece.columns]
            product = np.matmul(a, b.T, out=room.product[: a.shape[1] * len(b) * outputs].reshape(outputs, a.shape[1], len(b)))
            totals[:, piece.place] += product.reshape(outputs, -1)
    return totals[:, plan.gather]


def with_one(x: Array, basis: Array | None = None, room: Array | None = None) -> Array:
    """Rows 1, x₁, …, x_d, one column per sample."""
    shape = 1 + (x.shape[1] if basis is None else basis.shape[1]), len(x)
    z = np.empty(shape) if room is None else room[:, : len(x)]
    z[0] = 1.0
    if basis is None:
        z[1:] = x.T
    else:
        np.matmul(basis.T, x.T, out=z[1:])
    return z


def by_smallest(z: Array, degree: int, room: list[Array] | None = None) -> Array:
    """All monomials of that degree in the rows of z, in lexicographic order: z_i times those of one degree less from i on."""
    if degree == 0:
        return np.ones((1, z.shape[1]))
    found = z
    for k in range(2, degree + 1):
        larger = np.empty((count(len(z), k), z.shape[1])) if room is None else room[k - 2][:, : z.shape[1]]
        at = 0
        for i in range(len(z)):
            tail = found[len(found) - count(len(z) - i, k - 1) :]
            np.multiply(tail, z[i], out=larger[at : at + len(tail)])
            at += len(tail)
        found = larger
    return found


def _by_largest(z: Array, roots: Array, room: list[Array]) -> Array:
    """roots_o times all monomials of degree len(room), in colexicographic order: z_i times those of one degree less up to i."""
    found = roots[:, None]
    for k, space in enumerate(room, start=1):
        larger, at = space[..., : z.shape[1]], 0
        for i in range(len(z)):
            head = found[:, : count(i + 1, k - 1)]
            np.multiply(head, z[i], out=larger[:, at : at + head.shape[1]])
            at += head.shape[1]
        found = larger
    return found


class _Room:
    """Arrays that all chunks of a block share: fresh ones cost page faults, up to half of the time."""

    def __init__(self, variables: int, outputs: int, plan: Plan, size: int) -> None:
        self.z = np.empty((variables, size))
        self.left = [np.empty((outputs, count(variables, k), size)) for k in range(1, plan.left + 1)]
        self.right = [np.empty((count(variables, k), size)) for k in range(2, plan.right + 1)]
        self.product = np.empty(outputs * max(piece.place.stop - piece.place.start for piece in plan.pieces))


def _chunk(rows: int, features: int) -> int:
    """Rows of a chunk: all of nearly equal size, and 8 more than a multiple of 16, lest columns share their cache lines."""
    most = min(4096, max(256, CHUNK_FLOATS // features))
    return (-(-rows // max(1, -(-rows // most))) + 7) // 16 * 16 + 8
