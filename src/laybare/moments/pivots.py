"""Which matrix products give all sums of a degree: the plan behind `products`.

The sums with pivot j are L[largest = j] · R[smallest ≥ j]ᵀ. For neighbouring pivots i..j the factors are taken together,
L[i ≤ largest ≤ j] · R[smallest ≥ i]ᵀ; in that product the entries with largest > smallest repeat others and are not gathered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from laybare.moments.indices import colexicographic_rank, count, lexicographic_rank, tuples
from laybare.shapes import Array

LEFT_ROWS = 16
"""Least width of the left factor: below it a product runs at half speed; 8 to 24 were best for d = 5 to 50, K = 3 to 8."""


class Piece(NamedTuple):
    """One matrix product: rows of the left factor, columns of the right one, place in the flat totals."""

    rows: slice
    columns: slice
    place: slice


class Plan(NamedTuple):
    """Degrees of the two factors, the products, the length of the flat totals, and where the sum of each monomial lies there."""

    left: int
    right: int
    pieces: list[Piece]
    size: int
    gather: Array


@lru_cache(maxsize=16)
def plan_products(variables: int, order: int) -> Plan:
    """The products to form, and for every monomial where its sum comes to lie."""
    left, right = order // 2, order - order // 2
    pieces, start, size = [], 0, 0
    while start < variables:
        stop = _last_pivot(variables, left, start) if left else variables
        rows = slice(count(start, left) if start else 0, count(stop, left))
        columns = slice(count(variables, right) - count(variables - start, right), count(variables, right))
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        pieces.append(Piece(rows, columns, slice(size, size + area)))
        start, size = stop, size + area
    return Plan(left, right, pieces, size, _gather(variables, order, pieces))


def _last_pivot(variables: int, left: int, start: int) -> int:
    """One after the last pivot that shares a product with pivot `start`."""
    done = count(start, left) if start else 0
    return next((stop for stop in range(start + 1, variables) if count(stop, left) - done >= LEFT_ROWS), variables)


def _gather(variables: int, order: int, pieces: list[Piece]) -> Array:
    index, left = tuples(variables, order), order // 2
    row, column = colexicographic_rank(index[:, :left], variables), lexicographic_rank(index[:, left:], variables)
    which = np.searchsorted([piece.rows.stop for piece in pieces], row, side="right")
    first_row, first_column, base = (
        np.array(starts)[which] for starts in zip(*((p.rows.start, p.columns.start, p.place.start) for p in pieces), strict=True))
    width = column.dtype.type(count(variables, order - left)) - first_column
    place: Array = base + (row - first_row) * width + (column - first_column)
    return place
