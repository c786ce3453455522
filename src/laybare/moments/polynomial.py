"""Values of a polynomial at many points, by matrix products.

As in `products`, a monomial of degree at most K splits into its first p = ⌊K/2⌋ and its last q indices (x₀ = 1), so that
f(x) = Σ_β l_β(x) (C r(x))_β with the monomials l of degree p, r of degree q and every coefficient at one place of C. For K = 2
this is zᵀCz. Time n·D_p·D_q; memory one chunk.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from laybare.moments.indices import count, lexicographic_rank, tuples
from laybare.moments.products import CHUNK_FLOATS, by_smallest, with_one
from laybare.shapes import Array


def evaluate(coefficients: Array, x: Array, order: int) -> Array:
    """Σ_α c_α x^α at the rows of x: coefficients (outputs, C(d+K, K)) in graded order -> values (n, outputs)."""
    variables = x.shape[1] + 1
    where = _places(variables, order)
    left, right = order // 2, order - order // 2
    matrix = np.zeros((len(coefficients), count(variables, left), count(variables, right)))
    matrix[:, where.row, where.column] = coefficients
    rows = max(256, CHUNK_FLOATS // (count(variables, left) * len(coefficients) + count(variables, right)))
    values = np.empty((len(x), len(coefficients)))
    for start in range(0, len(x), rows):
        z = with_one(x[start : start + rows])
        values[start : start + rows] = np.einsum("bn,obn->no", by_smallest(z, left), matrix @ by_smallest(z, right))
    return values


class _Places(NamedTuple):
    row: Array
    column: Array


@lru_cache(maxsize=16)
def _places(variables: int, order: int) -> _Places:
    index, left = tuples(variables, order), order // 2
    return _Places(lexicographic_rank(index[:, :left], variables), lexicographic_rank(index[:, left:], variables))
