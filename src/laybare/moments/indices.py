"""Monomials as sorted index tuples, and their places in a packed array.

The monomial x_{i₁}···x_{i_k}, i₁ ≤ … ≤ i_k, is the tuple (i₁, …, i_k). Packed arrays hold all D_k = C(d+k-1, k) of them in
lexicographic order. Two facts make everything else short:

* with x₀ = 1 in front, a monomial of degree at most K in d variables is one of degree exactly K in d+1 variables, and the
  lexicographic order of the latter is: degree 0, degree 1, …, degree K, each in its own lexicographic order;
* the tuples with first index ≥ i are the last C(d-i+k-1, k), those with last index < i come first in colexicographic order.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from laybare.shapes import Array


def count(dim: int, order: int) -> int:
    """D_k = C(d+k-1, k): monomials of degree `order` in `dim` variables."""
    return comb(dim + order - 1, order) if dim + order else 1


def count_up_to(dim: int, order: int) -> int:
    """C(d+K, K): monomials of degree 0, …, `order`."""
    return comb(dim + order, order)


def graded(dim: int, order: int) -> slice:
    """Where degree `order` lies in an array that holds all degrees from 0 on."""
    return slice(comb(dim + order - 1, order - 1) if order else 0, comb(dim + order, order))


@lru_cache(maxsize=32)
def tuples(dim: int, order: int) -> Array:
    """All sorted tuples of that degree in lexicographic order, (D_k, order)."""
    if order == 0:
        return np.zeros((1, 0), dtype=np.int16)
    shorter = tuples(dim, order - 1)
    tails = [shorter[len(shorter) - count(dim - first, order - 1) :] for first in range(dim)]
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
    place: Array = count(dim, order) - 1 - larger
    return place


def colexicographic_rank(sorted_tuples: Array, dim: int) -> Array:
    """Places when the last index counts first: Σ_t C(i_t + t-1, t)."""
    place = np.zeros(sorted_tuples.shape[:-1], dtype=np.int64)
    for t in range(1, sorted_tuples.shape[-1] + 1):
        below = np.array([comb(i + t - 1, t) for i in range(dim)], dtype=np.int64)
        place += below[sorted_tuples[..., t - 1]]
    return place


def factorials(sorted_tuples: Array) -> Array:
    """α! = Π_j α_j! of every tuple: the product of the lengths of its runs so far."""
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
