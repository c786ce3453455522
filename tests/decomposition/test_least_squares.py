"""Least squares in unit directions: normal equations against finite differences, descent, and the shrinkage that follows it."""

from __future__ import annotations

import numpy as np
import pytest
from decomposition import planted
from numpy.testing import assert_allclose

from laybare.decomposition import (
    fit_tensor_components,
    loadings,
    nearest_orthogonal,
    polish_stack,
    polish_tensor,
    shrink_to_orthogonal,
)
from laybare.decomposition.components import contract, powers, tensor_coefficients, unit_rows
from laybare.decomposition.direction_fits import StackFit, TensorFit, minimise_misfit

STEP = 1e-6


@pytest.fixture(params=["order3", "order4", "stack"])
def problem(request, rng):
    """A fit off its minimum, and its model at given directions and eliminated numbers."""
    u, c = planted.directions(3, 4, 3, rng), planted.coefficients(3, rng)
    if request.param == "stack":
        slices = planted.stack(rng.standard_normal((5, 3)), u) + 0.02 * planted.symmetric_noise((5, 4, 4), rng, 1)
        fit, order, numbers = StackFit(slices), 2, loadings
        data = slices
    else:
        order = int(request.param[-1])
        data = planted.tensor(c, u, order) + 0.02 * planted.symmetric_noise((4,) * order, rng)
        fit, numbers = TensorFit(data), lambda tensor, rows: tensor_coefficients(tensor, rows)[None]
    return fit, data, order, numbers, unit_rows(u + 0.1 * rng.standard_normal(u.shape))


def test_descent_is_minus_the_gradient(problem):
    fit, _, _, _, u = problem
    descent = fit.normal(u).descent
    for index in np.ndindex(u.shape):
        shift = np.zeros_like(u)
        shift[index] = STEP
        slope = (fit.misfit(u + shift) - fit.misfit(u - shift)) / (4 * STEP)  # of half the misfit
        assert -slope == pytest.approx(descent[index], abs=1e-7)


def test_normal_matrix_is_that_of_the_projected_jacobian(problem):
    """JᵀJ with the linear numbers eliminated, once the gauge blocks are taken off."""
    fit, data, order, numbers, u = problem
    weights = numbers(data, u)  # (s, r)
    columns = []
    for index in np.ndindex(u.shape):
        shift = np.zeros_like(u)
        shift[index] = STEP
        columns.append((weights @ (powers(u + shift, order) - powers(u - shift, order)) / (2 * STEP)).ravel())
    basis = np.linalg.qr(np.kron(np.eye(len(weights)), powers(u, order).T))[0]
    jacobian = np.array(columns).T
    jacobian -= basis @ (basis.T @ jacobian)
    matrix = fit.normal(u).matrix
    gauge = np.zeros_like(matrix)
    for i, row in enumerate(u):
        block = slice(i * u.shape[1], (i + 1) * u.shape[1])
        along = row @ matrix[block, block] @ row  # the true JᵀJ vanishes there
        gauge[block, block] = along * np.outer(row, row)
        assert along > 0
    assert_allclose(matrix - gauge, jacobian.T @ jacobian, atol=1e-7)


def test_polish_reaches_a_stationary_point(problem):
    fit, data, _, _, u = problem
    end = polish_stack(data, u) if isinstance(fit, StackFit) else polish_tensor(data, u)
    assert fit.misfit(end) < fit.misfit(u)
    assert np.abs(fit.normal(end).descent).max() < 1e-6 * np.abs(fit.normal(u).descent).max()
    assert_allclose(np.linalg.norm(end, axis=1), 1.0, atol=1e-14)


def test_polish_never_makes_it_worse(rng):
    """Also from hopeless starts, equal directions among them."""
    tensor = planted.symmetric_noise((4, 4, 4), rng)
    u = unit_rows(np.ones((3, 4)))
    assert fit_tensor_components(tensor, polish_tensor(tensor, u)).residual <= fit_tensor_components(tensor, u).residual


@pytest.mark.parametrize("order", [3, 4])
def test_contraction_is_the_sum_over_all_axes(order, rng):
    tensor, u = planted.symmetric_noise((4,) * order, rng), planted.directions(3, 4, 2, rng)
    letters = "abcd"[:order]
    spread = ",".join(f"i{letter}" for letter in letters)
    assert_allclose(contract(tensor, u, 0), np.einsum(f"{letters},{spread}->i", tensor, *[u] * order), atol=1e-13)
    spread = ",".join(f"i{letter}" for letter in letters[1:])
    assert_allclose(contract(tensor, u, 1), np.einsum(f"{letters},{spread}->ia", tensor, *[u] * (order - 1)), atol=1e-13)


def test_coefficients_are_least_squares(rng):
    tensor, u = planted.symmetric_noise((4, 4, 4), rng), planted.directions(3, 4, 5, rng)
    expected = np.linalg.lstsq(powers(u, 3).T, tensor.ravel(), rcond=None)[0]
    assert_allclose(tensor_coefficients(tensor, u), expected, atol=1e-12)
    parts = fit_tensor_components(tensor, u)
    left = np.linalg.norm(tensor.ravel() - expected @ powers(u, 3)) / np.linalg.norm(tensor)
    assert parts.residual == pytest.approx(left, rel=1e-12)


def test_shrinkage_leaves_skewed_directions_alone(rng):
    u, c = planted.directions(5, 5, 3, rng), planted.coefficients(5, rng)
    tensor = planted.tensor(c, u) + 1e-3 * planted.symmetric_noise((5, 5, 5), rng)
    found = polish_tensor(tensor, u)
    moved, off = planted.error(shrink_to_orthogonal(tensor, found), found), planted.error(found, u)
    assert 0 < moved < 0.02 * off


def test_shrinkage_helps_orthogonal_directions():
    """Root mean square error over 40 tensors: ratio 0.744 to least squares, sd 0.023 over 10 blocks of 40; allow 4 sd."""
    before, after = [], []
    for seed in range(40):
        rng = np.random.default_rng([seed, 8])
        u, c = planted.directions(5, 5, 1, rng), planted.coefficients(5, rng)
        tensor = planted.tensor(c, u) + 0.01 * planted.symmetric_noise((5, 5, 5), rng)
        found = polish_tensor(tensor, u)
        before.append(np.sum((found - u) ** 2))
        after.append(np.sum((shrink_to_orthogonal(tensor, found) - u) ** 2))
    assert np.sqrt(np.mean(after) / np.mean(before)) < 0.84


def test_nearest_orthogonal_moves_the_light_rows(rng):
    u = unit_rows(np.array([[1.0, 0.1], [0.0, 1.0]]))
    even, heavy = nearest_orthogonal(u, np.ones(2)), nearest_orthogonal(u, np.array([1e6, 1.0]))
    assert_allclose(even @ even.T, np.eye(2), atol=1e-14)
    assert_allclose(heavy[0], u[0], atol=1e-5)
    assert np.linalg.norm(even[0] - u[0]) == pytest.approx(np.linalg.norm(even[1] - u[1]))


def test_an_interrupt_is_passed_on(problem, monkeypatch):
    fit, _, _, _, u = problem

    def interrupted(self, directions):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(fit), "normal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        minimise_misfit(fit, u)
