"""Factors in place: the same as SciPy's, in both precisions, and other threads run meanwhile; so they do beside `inner`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg

from laybare.numerics.linear_algebra import factor_in_place, inner, invert_in_place, solve_in_place, solve_one_in_place
from laybare.numerics.workspace import single_blas_thread


def definite_matrix(size: int, dtype: type, rng: np.random.Generator) -> np.ndarray:
    root = rng.standard_normal((size, 2 * size))
    return np.array(root @ root.T + np.eye(size), dtype, order="F")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 7, 130])
def test_factors_solutions_and_inverses_are_those_of_scipy(size, dtype, rng):
    matrix = definite_matrix(size, dtype, rng)
    columns = np.asfortranarray(rng.standard_normal((size, 3)), dtype)
    lower, solution = matrix.copy(order="F"), columns.copy(order="F")
    assert factor_in_place(lower)
    assert np.allclose(np.tril(lower), scipy.linalg.cholesky(matrix, lower=True), rtol=10 * np.finfo(dtype).eps, atol=1e-6)
    assert np.array_equal(np.triu(lower, 1), np.triu(matrix, 1))
    solve_in_place(lower, solution)
    tolerance = 1e3 * size * np.finfo(dtype).eps
    assert np.abs(matrix @ solution - columns).max() < tolerance
    single = columns[:, 0].copy()
    solve_one_in_place(lower, single)
    assert np.allclose(single, solution[:, 0], rtol=0.0, atol=tolerance * np.abs(solution).max())
    invert_in_place(lower)
    whole = np.tril(lower) + np.tril(lower, -1).T
    assert np.abs(whole @ matrix - np.eye(size)).max() < tolerance


def test_a_matrix_that_is_not_definite_is_said_to_be_none():
    assert not factor_in_place(np.diag([1.0, -1.0, 1.0]).copy(order="F"))


def test_an_empty_matrix_has_a_factor():
    assert factor_in_place(np.empty((0, 0), order="F"))


def counts_beside(call: Callable[[], object]) -> int:
    """How far another thread counts, half a millisecond a number, while `call` runs: the farthest of five times."""
    counted, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.0005)

    beside = threading.Thread(target=count)
    beside.start()
    try:
        farthest = 0
        with single_blas_thread():
            for _ in range(5):
                before = counted[0]
                call()
                farthest = max(farthest, counted[0] - before)
    finally:
        over.set()
        beside.join()
    return farthest


def test_other_threads_run_while_a_factor_is_formed(rng):
    matrix = definite_matrix(1500, np.float64, rng)
    copies = [matrix.copy(order="F") for _ in range(5)]  # a copy would let others run by itself
    assert counts_beside(lambda: factor_in_place(copies.pop())) >= 3


def test_other_threads_run_while_one_column_is_solved(rng):
    lower = np.asfortranarray(np.tril(rng.standard_normal((6000, 6000))) + 1e3 * np.eye(6000))
    assert counts_beside(lambda: solve_one_in_place(lower, np.ones(6000))) >= 3


def test_other_threads_run_while_many_rows_become_few_numbers(rng):
    rows = rng.standard_normal((3_000_000, 2))
    assert np.allclose(inner(rows, rows), np.einsum("na,nb->ab", rows, rows))
    assert counts_beside(lambda: inner(rows, rows)) >= 3
