"""Gradients and Hessian products of every objective against differences, on the domain and across kinds."""

from __future__ import annotations

import numpy as np
import pytest
from landscapes import dense_hessian, drawn, objectives, some_point, teacher
from numpy.testing import assert_allclose

import laybare as lb
from laybare.landscape import LocalDerivatives, ReLURisk, Teacher, UnitRows
from laybare.landscape.objective import RankOneQuartic, TurnedQuartic
from laybare.moments import PackedQuartic, population_moments, quartic

NAMES = tuple(objectives(np.random.default_rng(0)))
STEP = 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_gradient_and_hessian_products(name: str, rng: np.random.Generator) -> None:
    objective = objectives(rng)[name]
    point = some_point(objective, rng)
    local, domain = LocalDerivatives(objective, point), objective.domain
    direction = domain.tangent(point, rng.standard_normal(point.shape))
    ahead, behind = (objective.value_and_gradient(domain.project(point + sign * STEP * direction)) for sign in (1, -1))
    slope = (ahead.value - behind.value) / (2 * STEP)
    assert_allclose(np.vdot(local.gradient, direction), slope, rtol=1e-7, atol=1e-7 * abs(local.value_and_gradient.value))
    pulled = [domain.pull_back(point + sign * STEP * direction, each.gradient) for sign, each in ((1, ahead), (-1, behind))]
    bend = domain.tangent(point, (pulled[0] - pulled[1]) / (2 * STEP))
    assert_allclose(local.times(direction), bend, atol=1e-7 * np.abs(bend).max())


@pytest.mark.parametrize("name", NAMES)
def test_hessian_is_symmetric(name: str, rng: np.random.Generator) -> None:
    objective = objectives(rng)[name]
    hessian = dense_hessian(objective, some_point(objective, rng))
    assert_allclose(hessian, hessian.T, atol=1e-9 * np.abs(hessian).max())


def test_all_fourth_moments_contract_alike(rng: np.random.Generator) -> None:
    """The closed form, the packed population moments, and the same in turned coordinates."""
    truth = teacher(4, 3, rng)
    net = lb.Network(lb.Layer(truth.directions, None, lb.relu), truth.readout)
    closed, packed = truth.quartic(), PackedQuartic.of(population_moments(net, 4))
    W = rng.standard_normal((4, 3))
    turned, exact = TurnedQuartic(packed, W), RankOneQuartic(closed.weights, closed.directions @ W)
    for one, other, dim in ((closed, packed, 4), (turned, exact, 3)):
        S, B, V = rng.standard_normal((dim, dim)), rng.standard_normal((2, dim)), rng.standard_normal((2, dim))
        S = S + S.T
        assert_allclose(one.contract(S), other.contract(S), atol=1e-12)
        assert_allclose(one.cubes(B), other.cubes(B), atol=1e-12)
        assert_allclose(one.squares(B, V), other.squares(B, V), atol=1e-12)
        assert_allclose(one.mixed(S, B), other.mixed(S, B), atol=1e-12)


def test_sampled_objectives_tend_to_the_population(rng: np.random.Generator) -> None:
    """E[y He₄]: error of T[b, b, b, ·] at n = 200,000, five standard errors."""
    truth = teacher(3, 3, rng, ratio=1.0)
    rows = rng.standard_normal((2, 3))
    halves = [quartic(drawn(truth, 100_000, np.random.default_rng(seed))).cubes(rows) for seed in range(8)]
    spread = np.std(halves, axis=0, ddof=1) / np.sqrt(8)
    assert (np.abs(np.mean(halves, axis=0) - truth.quartic().cubes(rows)) < 5 * spread + 1e-12).all()


def test_relu_risk_has_a_hessian_at_the_truth(rng: np.random.Generator) -> None:
    """Parallel rows are where the kernel is not smooth; there its own terms are left out and the rest is finite."""
    truth = teacher(4, 3, rng)
    objective = ReLURisk(truth)
    point = truth.readout[:, None] * truth.directions
    local = LocalDerivatives(objective, point)
    assert abs(local.value_and_gradient.value) < 1e-12 and local.gradient_norm < 1e-12
    assert np.isfinite(dense_hessian(objective, point)).all()


def test_unit_rows_are_a_domain(rng: np.random.Generator) -> None:
    domain, point = UnitRows(1), rng.standard_normal((3, 5))
    on = domain.project(point)
    assert_allclose(np.linalg.norm(on[:, 1:], axis=1), 1.0)
    direction = domain.tangent(on, rng.standard_normal((3, 5)))
    assert_allclose(np.sum(direction[:, 1:] * on[:, 1:], axis=1), 0.0, atol=1e-14)
    assert (UnitRows(1, held=1).tangent(on, direction)[:, 0] == 0).all()


def test_teacher_describes_itself(rng: np.random.Generator) -> None:
    truth = Teacher(np.array([1.0, 2.0]), np.eye(2, 3), lb.relu)
    assert (truth.width, truth.dim) == (2, 3)
    assert_allclose(truth.gram(), np.diag([1.0, 2.0, 0.0]))
