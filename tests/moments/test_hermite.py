"""Packed Hermite moments: against their definition, and the laws that need no truth."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import factorial, prod, sqrt

import numpy as np
import pytest
from dense_moments import dense_moment, draw, gauss_points, random_net, rotate, slope
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermeval
from numpy.testing import assert_allclose

from laybare.activations import tanh
from laybare.errors import BudgetExhausted, InvalidInput
from laybare.moments import HermiteMoments, hermite_features, packed_moments, population_moments
from laybare.moments.hermite_moments import evaluate_polynomial, monomials_from_hermite
from laybare.source import Samples, Schedule


def features_by_definition(x: np.ndarray, order: int) -> np.ndarray:
    """h_α(x) = Π_j He_{α_j}(x_j)/√α_j!, one row a monomial."""
    d = x.shape[1]
    exponents = [
        [t.count(j) for j in range(d)] for k in range(order + 1) for t in combinations_with_replacement(range(d), k)]
    one = [[hermeval(x[:, j], [0] * a + [1]) / sqrt(factorial(a)) for a in range(order + 1)] for j in range(d)]
    return np.array([prod((one[j][a] for j, a in enumerate(alpha)), start=np.ones(len(x))) for alpha in exponents])


SHAPES = [
    (1, 5, 1), (2, 8, 1), (3, 0, 2), (5, 1, 3), (4, 2, 2), (4, 3, 1), (3, 4, 2), (7, 4, 1), (4, 5, 1), (5, 6, 1), (30, 2, 1),
]


@pytest.mark.parametrize(("dim", "order", "outputs"), SHAPES)
def test_moments_are_averages_of_hermite_products(dim: int, order: int, outputs: int, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((60, dim)), rng.standard_normal((60, outputs))
    features = features_by_definition(x, order)
    assert_allclose(packed_moments(Samples(x, y), order).values, (features @ y).T / 60, atol=1e-11)
    assert_allclose(hermite_features(x, order), features, atol=1e-11)


@pytest.mark.parametrize("order", range(5))
def test_dense_tensors_equal_the_recurrence(order: int, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((200, 4)), rng.standard_normal((200, 2))
    assert_allclose(packed_moments(Samples(x, y), 4).tensor(order), dense_moment(x, y, order), atol=1e-12)


def test_many_chunks_and_blocks_equal_one(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((9001, 3)), rng.standard_normal(9001)
    many = packed_moments(Samples(x, y, schedule=Schedule(block_bytes=1 << 16)), 4).values
    moment = HermiteMoments(4)
    one = moment.read(moment(x, y[:, None]), 9001).values
    assert_allclose(many, one, atol=1e-13)
    assert_allclose(one, (features_by_definition(x, 4) @ y[:, None]).T / 9001, atol=1e-12)


def test_bits_do_not_depend_on_the_workers(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((9001, 3)), rng.standard_normal(9001)
    one, two = (
        packed_moments(Samples(x, y, schedule=Schedule(workers=w, block_bytes=1 << 16)), 5).values for w in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_moments_turn_with_the_inputs(order: int, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((500, 4)), rng.standard_normal((500, 1))
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    turned = packed_moments(Samples(x @ Q, y), 4)
    assert_allclose(turned.tensor(order), rotate(packed_moments(Samples(x, y), 4).tensor(order), Q, order), atol=1e-12)


@given(seed=st.integers(0, 1000), order=st.integers(0, 6))
def test_permuting_inputs_permutes_exponents(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal((40, 1))
    axes = rng.permutation(3)
    one, other = packed_moments(Samples(x, y), order), packed_moments(Samples(x[:, axes], y), order)
    index = [t for k in range(order + 1) for t in combinations_with_replacement(range(3), k)]
    there = [index.index(tuple(sorted(int(axes[i]) for i in t))) for t in index]
    assert_allclose(other.values, one.values[:, there], atol=1e-11)


@given(seed=st.integers(0, 1000), order=st.integers(0, 6))
def test_moments_are_linear_in_the_outputs(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    both = packed_moments(Samples(x, y), order).values
    mixed = packed_moments(Samples(x, y @ [2.0, -3.0]), order).values
    assert_allclose(mixed[0], 2 * both[0] - 3 * both[1], atol=1e-11)


def test_arithmetic_and_cutting(rng: np.random.Generator) -> None:
    moments = packed_moments(Samples(rng.standard_normal((50, 3)), rng.standard_normal((50, 2))), 4)
    assert_allclose((moments * 2.0 - moments).values, moments.values)
    assert_allclose((moments + moments).values, 2 * moments.values)
    assert_allclose(moments.up_to(2).values, moments.values[:, :10])
    assert_allclose(moments.up_to(6).up_to(4).values, moments.values)
    assert not moments.up_to(6).of(5).any()
    assert_allclose(moments.flattened(1, 2)[1] @ np.ones(6), (moments.flattened(1, 2) @ np.ones(6))[1])


@pytest.mark.parametrize("order", range(6))
def test_hermite_polynomials_are_orthonormal(order: int) -> None:
    x, weights = gauss_points(3, 8)
    features = hermite_features(x, order)
    assert_allclose((features * weights) @ features.T, np.eye(len(features)), atol=1e-11)


@pytest.mark.parametrize("order", range(6))
def test_polynomials_in_monomials(order: int, rng: np.random.Generator) -> None:
    """Σ c_α h_α(x) by its definition, and by matrix products on its monomial coefficients."""
    x = rng.standard_normal((70, 3))
    features = features_by_definition(x, order)
    c = rng.standard_normal((2, len(features)))
    assert_allclose(evaluate_polynomial(monomials_from_hermite(c, 3, order), x, order), (c @ features).T, atol=1e-10)


def test_rounding_at_order_8_stays_far_below_the_statistical_error(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((4000, 3)), rng.standard_normal((4000, 1))
    long = features_by_definition(x.astype(np.longdouble), 8) @ y.astype(np.longdouble) / 4000
    assert np.abs(packed_moments(Samples(x, y), 8).values - long.T).max() < 1e-12  # statistical error 0.016


def test_error_shrinks_like_root_n() -> None:
    """Slope of log rms error against log n, n = 2^10 … 2^16, 6 seeds: -0.5; sd 0.018 over 24 seed blocks, 4 sigma allowed."""
    network = random_net(4, 5, np.random.default_rng(7), tanh)
    truth = population_moments(network, 4)
    sizes = [1 << k for k in range(10, 17)]
    errors = [
        np.sqrt(np.mean([
            np.square(packed_moments(draw(network, 4, n, np.random.default_rng((n, seed))), 4).of(4) - truth.of(4)).sum()
            for seed in range(6)])) for n in sizes]
    assert abs(slope(sizes, errors) + 0.5) < 4 * 0.018


def test_what_does_not_fit_is_refused_with_its_size_and_a_way_out(rng: np.random.Generator) -> None:
    source = Samples(rng.standard_normal((10, 100)), rng.standard_normal(10))
    with pytest.raises(BudgetExhausted, match=r"order 6 in dimension 100.* take 109 GB.*2\.15 GB.*`projected_tensors`") as info:
        packed_moments(source, 6)
    assert info.value.values["bytes"] == 8 * 8 * 1705904746
    with pytest.raises(BudgetExhausted, match="limit is 1 kB"):
        packed_moments(source, 2, memory=1000)


@pytest.mark.parametrize("order", [-1, 13])
def test_impossible_orders_are_refused(order: int, rng: np.random.Generator) -> None:
    with pytest.raises(InvalidInput, match=f"order {order}"):
        packed_moments(Samples(rng.standard_normal((10, 2)), rng.standard_normal(10)), order)
