"""Random networks have the shape, condition, biases and readout that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from laybare.activations import relu, tanh
from laybare.errors import InvalidInput
from laybare.planted import conditioned_weights, orthonormal_weights, perturb_weights, random_network, random_unit_rows

SIGMAS = 5
"""Not 4: a hundred seeds make some 4,000 comparisons here, and one in 16,000 exceeds 4 sigma by chance."""


def test_shape_and_defaults(seed: int) -> None:
    network = random_network(10, 4, rng=seed)
    assert (network.dim, network.width, network.outputs, network.activation) == (10, 4, 1, relu)
    assert_allclose(np.linalg.norm(network.layer.weights, axis=1), 1)
    assert_array_equal(np.abs(network.readout), 1)
    assert np.abs(network.layer.biases).max() <= 1
    assert random_network(10, 4, tanh, rng=seed).activation == tanh


def test_seeds_and_generators_agree() -> None:
    one, two, other = (random_network(3, 2, rng=rng) for rng in (7, np.random.default_rng(7), 8))
    assert_array_equal(one.layer.weights, two.layer.weights)
    assert_array_equal(one.layer.biases, two.layer.biases)
    assert not np.allclose(one.layer.weights, other.layer.weights)


@pytest.mark.parametrize(("dim", "width", "condition"), [(8, 8, 1.0), (20, 5, 2.0), (6, 3, 1e4), (4, 1, 3.0)])
def test_singular_values_are_evenly_spaced(dim: int, width: int, condition: float, rng: np.random.Generator) -> None:
    values = np.linalg.svd(conditioned_weights(dim, width, condition, rng=rng), compute_uv=False)
    assert_allclose(values[::-1], np.linspace(1, condition, width), rtol=1e-10)
    network = random_network(dim, width, condition=condition, rng=rng)
    assert_allclose(np.linalg.svd(network.layer.weights, compute_uv=False)[::-1], np.linspace(1, condition, width), rtol=1e-10)


def test_orthonormal_rows(rng: np.random.Generator) -> None:
    weights = orthonormal_weights(7, 4, rng=rng)
    assert_allclose(weights @ weights.T, np.eye(4), atol=1e-14)


def test_directions_are_uniform(rng: np.random.Generator) -> None:
    for weights in (random_unit_rows(3, 30_000, rng=rng), np.vstack([orthonormal_weights(3, 1, rng=rng) for _ in range(3000)])):
        n = len(weights)
        assert_allclose(weights.mean(axis=0), 0, atol=SIGMAS * np.sqrt(1 / 3 / n))
        assert_allclose(weights.T @ weights / n, np.eye(3) / 3, atol=SIGMAS * np.sqrt(4 / 45 / n))  # var of w_i^2 is 4/45


@pytest.mark.parametrize(("kind", "low", "high", "signed"), [
    ("signs", 1, 1, True), ("positive", 0.5, 1.5, False), ("random", 0.5, 1.5, True)])
def test_readouts(kind: Any, low: float, high: float, signed: bool, rng: np.random.Generator) -> None:
    readout = random_network(2, 500, readout=kind, rng=rng).readout
    assert np.abs(readout).min() >= low
    assert np.abs(readout).max() <= high
    assert (readout < 0).any() == signed


def test_several_outputs(rng: np.random.Generator) -> None:
    readout = random_network(2, 4000, outputs=3, rng=rng).readout
    assert readout.shape == (4000, 3)
    assert_allclose(np.cov(readout.T), np.eye(3), atol=SIGMAS * np.sqrt(2 / 4000))
    assert (random_network(2, 50, outputs=3, readout="positive", rng=rng).readout >= 0.5).all()


def test_biases(rng: np.random.Generator) -> None:
    uniform, normal, none = (
        random_network(2, 10_000, biases=scale, bias_law=law, rng=rng).layer.biases
        for scale, law in ((2.0, "uniform"), (0.4, "normal"), (0.0, "uniform")))
    assert 1.99 < np.abs(uniform).max() <= 2
    assert abs(normal.std() - 0.4) < SIGMAS * 0.4 / np.sqrt(20_000)
    assert not none.any()


def test_several_layers(rng: np.random.Generator) -> None:
    network = random_network(400, widths=(300, 200, 100), rng=rng)
    assert (network.architecture, network.activation) == ("400-300-200-100-1", relu)
    for layer, fan_in in zip(network.layers, (400, 300, 200), strict=True):
        entries, biases = layer.weights * np.sqrt(fan_in), np.asarray(layer.biases)
        assert abs(entries.std() - 1) < SIGMAS / np.sqrt(2 * entries.size)
        assert abs(biases.std() - 0.5) < SIGMAS * 0.5 / np.sqrt(2 * biases.size)
    assert_array_equal(np.abs(network.readout), 1)


def test_choices_hold_for_every_layer() -> None:
    network = random_network(5, widths=[4, 3], activation=tanh, outputs=2, biases=0.1, bias_law="uniform", rng=3)
    assert all(layer.activation == tanh and np.abs(layer.biases).max() <= 0.1 for layer in network.layers)
    assert network.readout.shape == (3, 2)
    assert random_network(5, widths=(4,), rng=3).depth == 1


def test_one_layer_is_what_it_always_was() -> None:
    network = random_network(3, 2, rng=7)  # numbers of version 0.1.0
    assert_array_equal(network.layer.weights, [
        [0.003033931306655539, 0.736797110260639, -0.676107102146101],
        [-0.6323984977372045, -0.32285622772920797, -0.7041562300201516]])
    assert_array_equal(network.layer.biases, [-0.9894693908688506, 0.6424568367655326])
    assert_array_equal(network.readout, [-1, 1])


def test_smoothing(rng: np.random.Generator) -> None:
    change = perturb_weights(np.ones((100, 100)), 0.1, rng=rng) - 1
    assert abs(change.std() - 0.1) < SIGMAS * 0.1 / np.sqrt(20_000)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrong", [
    {"dim": 0}, {"width": 0}, {"outputs": 0}, {"width": 9, "condition": 2.0}, {"condition": 0.5}, {"condition": np.nan},
    {"widths": (3, 2)}, {"width": None}, {"width": None, "widths": ()}, {"width": None, "widths": (3, 0)},
    {"width": None, "widths": (3, 2), "condition": 2.0},
    {"biases": -1.0}, {"biases": np.inf}, {"bias_law": "cauchy"}, {"readout": "negative"}])
def test_impossible_networks_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        random_network(**{"dim": 5, "width": 3, **wrong})
