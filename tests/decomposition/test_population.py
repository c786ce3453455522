"""Exact input: every decomposition returns the planted parts to 1e-8 or better; signed, not orthogonal, rank up to 32."""

from __future__ import annotations

import numpy as np
import pytest
from decomposition import planted
from numpy.testing import assert_allclose

from laybare.decomposition import (
    KCL,
    AfterWhitening,
    AlternatingLeastSquares,
    GaussNewton,
    Jennrich,
    JointDiagonalisation,
    SubspacePower,
    TensorPower,
    best_of,
    definite_jacobi,
    ffdiag,
    jennrich,
    joint_diagonalisation,
    kcl,
    loadings,
    qrj1d,
    subspace_power,
    tensor_power,
    uwedge,
)

SHAPES = [(1, 4), (2, 2), (5, 5), (6, 12), pytest.param(20, 32, marks=pytest.mark.slow), (32, 32)]
GENERAL = {
    "joint": joint_diagonalisation,
    "ffdiag": JointDiagonalisation(polish=False),
    "uwedge": JointDiagonalisation(polish=False, diagonalise=uwedge),
    "qrj1d": JointDiagonalisation(polish=False, diagonalise=qrj1d),
    "ffdiag-cold": JointDiagonalisation(polish=False, starts=(), diagonalise=ffdiag),
    "uwedge-cold": JointDiagonalisation(polish=False, starts=(), diagonalise=uwedge),
    "jennrich": jennrich,
    "jennrich-literal": Jennrich.literal(),
    "kcl": kcl,
    "kcl-2": KCL(stages=2),
    "gauss-newton_steps": GaussNewton(start=Jennrich.literal()),
    "als": AlternatingLeastSquares(start=Jennrich.literal()),
}


@pytest.mark.parametrize(("rank", "dim"), SHAPES)
@pytest.mark.parametrize("name", GENERAL)
def test_planted_tensor_is_found(name, rank, dim, rng):
    u, c = planted.directions(rank, dim, 10, rng), planted.coefficients(rank, rng)
    tensor = planted.tensor(c, u)
    parts = GENERAL[name](tensor, rank, rng=rng)
    assert planted.error(parts.directions, u) < 1e-10
    assert parts.residual < 1e-10
    assert parts.order == 3
    assert_allclose(np.sort(parts.coefficients), np.sort(np.abs(c)), rtol=1e-9)  # odd order: the sign is in the direction
    assert_allclose(planted.rank_one_sum(parts), tensor, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "dim"), [(5, 5), (6, 12), (32, 32)])
def test_literal_kcl_finds_planted_tensor(rank, dim, rng):
    u, c = planted.directions(rank, dim, 10, rng), planted.coefficients(rank, rng)
    parts = KCL.literal()(planted.tensor(c, u), rank, rng=rng)
    assert planted.error(parts.directions, u) < 1e-10


@pytest.mark.parametrize(("rank", "dim"), [(5, 5), (6, 12), (32, 32)])
@pytest.mark.parametrize("name", ["joint", "ffdiag", "uwedge", "jennrich", "kcl", "als"])
def test_planted_stack_is_found(name, rank, dim, rng):
    u, weights = planted.directions(rank, dim, 10, rng), rng.standard_normal((7, rank))
    slices = planted.stack(weights, u)
    parts = GENERAL[name](slices, rank, rng=rng)
    assert planted.error(parts.directions, u) < 1e-9
    assert parts.order == 2
    assert_allclose(np.sort(parts.coefficients), np.sort(np.linalg.norm(weights, axis=0)), rtol=1e-8)
    assert_allclose(planted.stack(loadings(slices, parts.directions), parts.directions), slices, atol=1e-9)


def test_fourth_order_is_found_through_its_slices(rng):
    u, c = planted.directions(6, 8, 10, rng), planted.coefficients(6, rng)
    parts = joint_diagonalisation(planted.tensor(c, u, 4).reshape(64, 8, 8), 6, rng=rng)
    assert planted.error(parts.directions, u) < 1e-10


def test_definite_combination_exists_for_mixed_signs(rng):
    u, c = planted.directions(32, 32, 3, rng), planted.coefficients(32, rng)
    parts = definite_jacobi(planted.tensor(c, u), 32, rng=rng)
    assert planted.error(parts.directions, u) < 1e-10


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize(("rank", "dim"), [(1, 3), (5, 5), (6, 12)])
def test_power_finds_orthogonal_parts(order, rank, dim, rng):
    u, c = planted.directions(rank, dim, 1, rng), planted.coefficients(rank, rng)
    tensor = planted.tensor(c, u, order)
    parts = tensor_power(tensor, rank, rng=rng)
    assert planted.error(parts.directions, u) < 1e-12
    assert_allclose(np.sort(parts.coefficients), np.sort(np.abs(c) if order == 3 else c), rtol=1e-12)
    assert_allclose(planted.rank_one_sum(parts), tensor, atol=1e-12)


def test_power_finds_32_orthogonal_parts(rng):
    u, c = planted.directions(32, 32, 1, rng), planted.coefficients(32, rng)
    assert planted.error(tensor_power(planted.tensor(c, u), 32, rng=rng).directions, u) < 1e-12


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("order", "rank", "dim"), [(3, 6, 12), (3, 32, 32), (4, 5, 8)])
def test_whitening_makes_parts_orthogonal(order, rank, dim, sign, rng):
    u, c = planted.directions(rank, dim, 10, rng), planted.coefficients(rank, rng)
    second = sign * planted.tensor(rng.uniform(0.5, 2.0, rank), u, 2)
    parts = AfterWhitening(second, TensorPower(starts=40))(planted.tensor(c, u, order), rank, rng=rng)
    assert planted.error(parts.directions, u) < 1e-9


@pytest.mark.parametrize(("order", "rank", "dim"), [(2, 5, 5), (2, 32, 32), (2, 20, 8), (3, 10, 4), (3, 14, 5)])
def test_subspace_power_finds_more_parts_than_dimensions(order, rank, dim, rng):
    u = planted.directions(rank, dim, 10, rng) if rank <= dim else rng.standard_normal((rank, dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    weights = rng.standard_normal((rank + 3, rank))
    tensors = (weights @ planted.powers(u, order)).reshape(len(weights), *(dim,) * order)
    parts = subspace_power(tensors, rank, rng=rng)
    assert planted.error(parts.directions, u) < 1e-9
    assert parts.residual < 1e-9
    assert parts.order == order


def test_subspace_power_joins_orders_of_both_signs(rng):
    """Order 3 sees units 0-4, order 4 the others, both with signed weights: only the joint span holds all."""
    from laybare.decomposition import joint_span
    from laybare.decomposition.cp import span_overlap

    u, c = planted.directions(8, 8, 5, rng), planted.coefficients(8, rng)
    third = planted.tensor(np.where(np.arange(8) < 5, c, 0.0), u, 3)
    fourth = planted.tensor(np.where(np.arange(8) < 5, 0.0, -c), u, 4).reshape(64, 8, 8)
    span = joint_span([third, fourth], 8, np.array([1.0, 2.0]))
    assert_allclose(span_overlap(span, u), 1.0, atol=1e-12)
    assert planted.error(SubspacePower()(span, 8, rng=rng).directions, u) < 1e-10


@pytest.mark.parametrize("rank", [4, 8])
def test_least_squares_from_random_starts(rank, rng):
    u, c = planted.directions(rank, rank, 3, rng), planted.coefficients(rank, rng)
    tensor = planted.tensor(c, u)
    assert planted.error(best_of(10, GaussNewton())(tensor, rank, rng=rng).directions, u) < 1e-10
    assert planted.error(best_of(10, AlternatingLeastSquares())(tensor, rank, rng=rng).directions, u) < 1e-8


def test_gauss_newton_fourth_order(rng):
    u, c = planted.directions(5, 6, 5, rng), planted.coefficients(5, rng)
    parts = best_of(20, GaussNewton())(planted.tensor(c, u, 4), 5, rng=rng)
    assert planted.error(parts.directions, u) < 1e-10
    assert_allclose(np.sort(parts.coefficients), np.sort(c), rtol=1e-9)
