"""The packed basis: inner products, flattening, dense tensors and back."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from laybare.errors import BudgetExhausted, InvalidInput
from laybare.moments import flatten, smat, svec, svec_products, svec_squares, unpack, veronese
from laybare.moments.packed import (
    colexicographic_rank,
    count_monomials,
    count_monomials_up_to,
    degree_slice,
    graded_factorials,
    lexicographic_rank,
    tuples,
)

SMALL = st.tuples(st.integers(1, 6), st.integers(0, 5))


def power(w: np.ndarray, order: int) -> np.ndarray:
    tensor = np.ones(())
    for _ in range(order):
        tensor = np.multiply.outer(tensor, w)
    return tensor


@given(SMALL)
def test_tuples_are_in_lexicographic_order_and_ranks_find_them(shape: tuple[int, int]) -> None:
    dim, order = shape
    expected = list(combinations_with_replacement(range(dim), order))
    assert [tuple(row) for row in tuples(dim, order)] == expected
    assert count_monomials(dim, order) == len(expected)
    assert_array_equal(lexicographic_rank(tuples(dim, order), dim), np.arange(len(expected)))


@given(SMALL)
def test_colexicographic_ranks_sort_by_the_last_index_first(shape: tuple[int, int]) -> None:
    dim, order = shape
    expected = sorted(combinations_with_replacement(range(dim), order), key=lambda t: t[::-1])
    ranks = colexicographic_rank(tuples(dim, order), dim)
    assert_array_equal(np.sort(ranks), np.arange(len(expected)))
    assert [tuple(tuples(dim, order)[i]) for i in np.argsort(ranks)] == expected


@given(SMALL)
def test_a_variable_in_front_makes_all_degrees_one(shape: tuple[int, int]) -> None:
    """Lexicographic order in d+1 variables is: degree 0, 1, …, K in d variables."""
    dim, order = shape
    lowered = [tuple(int(i) - 1 for i in row if i > 0) for row in tuples(dim + 1, order)]
    assert lowered == [t for k in range(order + 1) for t in combinations_with_replacement(range(dim), k)]
    starts = [comb(dim + k - 1, k - 1) if k else 0 for k in range(order + 1)]
    assert [degree_slice(dim, k).start for k in range(order + 1)] == starts
    assert degree_slice(dim, order).stop == count_monomials_up_to(dim, order)


@given(SMALL)
def test_factorials_of_exponents(shape: tuple[int, int]) -> None:
    dim, order = shape
    expected = [
        np.prod([factorial(t.count(j)) for j in range(dim)])
        for k in range(order + 1) for t in combinations_with_replacement(range(dim), k)]
    assert_array_equal(graded_factorials(dim, order), expected)


@pytest.mark.parametrize("order", range(7))
def test_inner_products_are_powers(order: int, rng: np.random.Generator) -> None:
    w, u = rng.standard_normal((2, 5, 4))
    assert_allclose(veronese(w, order) @ veronese(u, order).T, (w @ u.T) ** order, atol=1e-10)


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 3), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (2, 4), (4, 4)])
def test_flattening_splits_a_power(left: int, right: int, rng: np.random.Generator) -> None:
    w = rng.standard_normal((3, 4))
    found = flatten(veronese(w, left + right), 4, left, right)
    assert_allclose(found, veronese(w, left)[:, :, None] * veronese(w, right)[:, None], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", range(5))
def test_dense_tensors(order: int, rng: np.random.Generator) -> None:
    w = rng.standard_normal((3, 4))
    dense = unpack(veronese(w, order), 4, order)
    assert_allclose(dense, [power(row, order) for row in w], atol=1e-12)
    packed = rng.standard_normal((2, count_monomials(4, order)))
    assert_allclose(np.square(unpack(packed, 4, order)).reshape(2, -1).sum(axis=1), np.square(packed).sum(axis=1), rtol=1e-13)


def test_dense_tensors_that_do_not_fit_are_refused_with_their_size() -> None:
    with pytest.raises(BudgetExhausted, match=r"order 6 in dimension 60 would take 373 GB.*`flatten`"):
        unpack(np.zeros((1, 1)), 60, 6)


def test_svec_is_the_packed_basis_of_order_2(rng: np.random.Generator) -> None:
    x, p, q = rng.standard_normal((3, 5, 4))
    U = rng.standard_normal((4, 4))
    U = U + U.T
    assert_allclose(svec_squares(x), veronese(x, 2), rtol=1e-14)
    assert_allclose(svec_squares(x) @ svec(U), np.einsum("ni,ij,nj->n", x, U, x), rtol=1e-12)
    assert_allclose(svec_products(p, q) @ svec(U), np.einsum("ni,ij,nj->n", p, U, q), rtol=1e-12)
    assert_allclose(smat(svec(U)), U, rtol=1e-15)
    assert_allclose(svec(U) @ svec(U), np.square(U).sum(), rtol=1e-14)


def test_a_vector_that_is_no_triangle_is_refused() -> None:
    with pytest.raises(InvalidInput, match="length 7"):
        smat(np.zeros(7))
