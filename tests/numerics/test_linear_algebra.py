"""Factors and inverses of matrices that may be close to singular."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.numerics.linear_algebra import factor_spd, inverse_spd, solve_spd


def gram(rng, size=30, scale=1.0):
    rows = rng.standard_normal((4 * size, size)) * np.geomspace(1.0, scale, size)
    return rows.T @ rows


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-8), (np.float32, 1e-3)])
@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 7)])
def test_a_factor_solves_in_either_precision(dtype, rtol, shape, rng):
    matrix, right = gram(rng, scale=100.0), rng.standard_normal(shape)
    solved = factor_spd(matrix, dtype).solve(right)
    assert solved.shape == shape and solved.dtype == np.float64
    exact = np.linalg.solve(matrix, right)
    assert_allclose(solved, exact, rtol=rtol, atol=rtol * np.abs(exact).max())


def test_a_singular_matrix_is_factored_with_a_ridge(rng):
    rows = rng.standard_normal((5, 12))
    factor = factor_spd(rows.T @ rows)
    assert np.isfinite(factor.solve(rows[0])).all()
    assert_allclose(rows.T @ (rows @ factor.solve(rows[0])), rows[0], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_no_number_has_no_solution(dtype):
    """A solver rejects the step then; nothing hangs, nothing is raised."""
    assert np.isnan(factor_spd(np.full((3, 3), np.nan), dtype).solve(np.ones(3))).all()


def test_an_unknown_whose_curvature_is_negative_by_rounding_stays_where_it_is():
    """Scaled by the root of the least number there is, it was a matrix from which LAPACK's eigenvalue routine never returned."""
    size = np.finfo(float).tiny
    matrix = np.array([
        [1.0, -3.5412971571516866e148, 7.8e-11, 2.1e-10], [-3.5412963285449388e148, -7.5289064012887245e306, -2e148, -4.8e147],
        [7.8e-11, -2e148, 1.0, 1.9e-10], [2.1e-10, -4.8e147, 1.9e-10, 1.0]])
    unscaled = np.array([1.0, np.sqrt(size), 1.0, 1.0])
    solution = solve_spd(matrix * unscaled[:, None] * unscaled, np.ones(4))
    assert_allclose(solution, [1.0, 0.0, 1.0, 1.0], atol=1e-8)


def test_an_inverse_is_one(rng):
    matrix = gram(rng, scale=1e3)
    assert_allclose(inverse_spd(matrix) @ matrix, np.eye(30), atol=1e-8)
    assert_allclose(inverse_spd(matrix), inverse_spd(matrix).T, rtol=0, atol=0)


def test_the_inverse_of_a_singular_matrix_is_that_of_its_range(rng):
    rows = rng.standard_normal((5, 12))
    singular = rows.T @ rows
    assert_allclose(inverse_spd(singular), solve_spd(singular, np.eye(12)))
