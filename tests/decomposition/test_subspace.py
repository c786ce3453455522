"""Dominant eigenspaces of indefinite operators: two ways to one answer, and the inertia that counts signs."""

from __future__ import annotations

import numpy as np
import pytest
from decomposition import planted
from numpy.testing import assert_allclose

from laybare.decomposition import dense_subspace, shifted_power
from laybare.decomposition.spectra import norm_estimate

DIM, RANK = 30, 5


@pytest.fixture
def matrix(rng):
    """Eigenvalues ±, with a tie of opposite signs, over a bulk that is five times smaller."""
    turn = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    values = np.concatenate([[3.0, -3.0, 2.5, -2.0, 1.5], 0.3 * rng.uniform(-1, 1, DIM - RANK)])
    return (turn * values) @ turn.T


WAYS = {
    "dense": lambda p, dim, rank, rng: dense_subspace(p, dim, rank),
    "shifted": lambda p, dim, rank, rng: shifted_power(p, dim, rank, rng=rng, steps=600),
}


def projector(space):
    return space.basis @ space.basis.T


@pytest.mark.parametrize("matrix_free", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_all_ways_find_the_same_space(way, matrix_free, matrix, rng):
    space = WAYS[way](matrix.__matmul__ if matrix_free else matrix, DIM, RANK, rng)
    assert_allclose(np.abs(space.values), [3.0, 3.0, 2.5, 2.0, 1.5], rtol=1e-9)
    assert (space.positive, space.negative) == (3, 2)
    assert_allclose(projector(space), projector(dense_subspace(matrix, DIM, RANK)), atol=1e-7)
    assert_allclose(space.basis.T @ space.basis, np.eye(RANK), atol=1e-12)
    assert_allclose(matrix @ space.basis, space.basis * space.values, atol=1e-6)


def test_inertia_counts_signs_of_coefficients(rng):
    """Sylvester: Σ bᵢ wᵢwᵢᵀ has as many positive eigenvalues as there are positive bᵢ."""
    for positive in range(5):
        b = np.where(np.arange(4) < positive, 1.0, -1.0) * rng.uniform(0.5, 2.0, 4)
        p = planted.tensor(b, planted.directions(4, 9, 5, rng), 2)
        space = dense_subspace(p, 9, 4)
        assert (space.positive, space.negative) == (positive, 4 - positive)


def test_shift_is_slow(matrix, rng):
    """After 10 steps the error of the paper's shifted iteration is still near 1."""
    truth = projector(dense_subspace(matrix, DIM, RANK))
    shifted = np.linalg.norm(projector(shifted_power(matrix, DIM, RANK, rng=rng, steps=10)) - truth, 2)
    assert shifted > 0.1


def test_shifted_power_takes_no_eigenvector_twice(rng):
    """All eigenvalues positive: without the sign rule the second iteration repeats what the first has found."""
    p = planted.tensor(np.array([3.0, 2.0, 1.0]), planted.directions(3, 4, 1, rng), 2)
    space = shifted_power(p, 4, 3, rng=rng, steps=300)
    assert_allclose(np.sort(space.values), [1.0, 2.0, 3.0], rtol=1e-6)
    assert (space.positive, space.negative) == (3, 0)


def test_ranks_at_the_border(rng):
    p = planted.tensor(np.array([2.0, -1.0]), np.eye(2), 2)
    assert_allclose(dense_subspace(p, 2, 2).values, [2.0, -1.0], atol=1e-12)


def test_norm_estimate_is_from_below_and_close(matrix, rng):
    assert 0.99 * 3.0 < norm_estimate(matrix, DIM, rng=rng) < 3.0 + 1e-12
