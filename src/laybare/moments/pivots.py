"""Which matrix products give all sums of a degree: the plan behind `products`.

The sums with pivot j are L[largest = j] · R[smallest ≥ j]ᵀ. For neighbouring pivots i..j the factors are taken together,
L[i ≤ largest ≤ j] · R[smallest ≥ i]ᵀ; in that product the entries with largest > smallest repeat others and are not gathered.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from laybare.moments.indices import colexicographic_rank, count, lexicographic_rank, tuples
from laybare.shapes import Array

PANEL, OVERHEAD = 8, 4
"""Time of a product with w rows on the left, in units of one row: 8⌈w/8⌉ + 4, measured to 10 % for w = 4 to 48."""


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
    pieces, size = [], 0
    for start, stop in pairwise(_cuts(variables, left, right)) if left else [(0, variables)]:
        rows = slice(count(start, left) if start else 0, count(stop, left))
        columns = slice(count(variables, right) - count(variables - start, right), count(variables, right))
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        pieces.append(Piece(rows, columns, slice(size, size + area)))
        size += area
    return Plan(left, right, pieces, size, _gather(variables, order, pieces))


def _cuts(variables: int, left: int, right: int) -> list[int]:
    """Where to cut the pivots 0, …, variables - 1 into runs, so that all products together are fastest (dynamic programming)."""
    fastest, before = [0], [0]
    for stop in range(1, variables + 1):
        times = [fastest[start] + _time(variables, left, right, start, stop) for start in range(stop)]
        fastest.append(min(times))
        before.append(times.index(fastest[-1]))
    cuts = [variables]
    while cuts[-1]:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


def _time(variables: int, left: int, right: int, start: int, stop: int) -> int:
    """Time of the product for pivots start, …, stop - 1, in rows times columns."""
    rows = count(stop, left) - count(start, left)
    return (PANEL * -(-rows // PANEL) + OVERHEAD) * count(variables - start, right)


def _gather(variables: int, order: int, pieces: list[Piece]) -> Array:
    index, left = tuples(variables, order), order // 2
    row, column = colexicographic_rank(index[:, :left], variables), lexicographic_rank(index[:, left:], variables)
    which = np.searchsorted([piece.rows.stop for piece in pieces], row, side="right")
    first_row, first_column, base = (
        np.array(starts)[which] for starts in zip(*((p.rows.start, p.columns.start, p.place.start) for p in pieces), strict=True))
    width = column.dtype.type(count(variables, order - left)) - first_column
    place: Array = base + (row - first_row) * width + (column - first_column)
    return place
