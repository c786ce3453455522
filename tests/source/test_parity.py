"""Pairs of queries, parity, mixed outputs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import laybare as lb
from laybare.source import MixedOutputs, paired_inputs, split_parity


def exponential(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(size=(n, 3))


def oracle(network: lb.Network, budget: int = 3000) -> lb.Oracle:
    return lb.Oracle(network, network.dim, law=lb.Symmetric(), budget=budget, inputs=paired_inputs(exponential))


def test_pairs_make_any_law_symmetric(rng: np.random.Generator) -> None:
    source = oracle(lb.random_network(3, 2, outputs=2, rng=rng))
    x, _ = source.read(0, 3000)
    assert_array_equal(x[::2], -x[1::2])
    total, cubes = source.take(2050).sum(lambda x, y: (x.sum(axis=0), (x**3).sum(axis=0)))
    assert np.abs(total).max() < 1e-9 and np.abs(cubes).max() < 1e-9
    assert (x[::2] >= 0).all()


def test_odd_numbers_of_rows(rng: np.random.Generator) -> None:
    assert paired_inputs(exponential)(rng, 5).shape == (5, 3)


@pytest.mark.parametrize("slope", [0.0, 0.3, -0.5])
def test_parity_splits_exactly(slope: float, rng: np.random.Generator) -> None:
    truth = lb.random_network(3, 2, lb.leaky_relu(slope), 2, biases=0, rng=rng)
    source, x = oracle(truth), rng.standard_normal((10, 3))
    odd, even = split_parity(source, x)
    t = x @ truth.layer.weights.T
    assert_allclose(odd, (1 + slope) / 2 * t @ truth.readout, atol=1e-14)
    assert_allclose(even, (1 - slope) / 2 * np.abs(t) @ truth.readout, atol=1e-14)
    assert source.spent == 20


def test_no_points_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="No points"):
        split_parity(oracle(lb.random_network(3, 2, rng=rng)), np.empty((0, 3)))


def test_mixed_outputs(rng: np.random.Generator) -> None:
    x, y, P = rng.standard_normal((20, 3)), rng.standard_normal((20, 4)), rng.standard_normal((4, 2))
    source = MixedOutputs(lb.Samples(x, y, law=lb.Symmetric()), P)
    assert (source.dim, source.outputs, source.size, source.law, source.exchangeable) == (3, 2, 20, lb.Symmetric(), False)
    assert_allclose(source.read(3, 9).y, y[3:9] @ P)
    (total,) = source.sum(lambda x, y: (x.T @ y,))
    assert_allclose(total, x.T @ y @ P)
    assert source.take(5).outputs == 2
