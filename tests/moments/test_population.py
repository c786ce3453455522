"""Closed-form moments of networks against Gauss quadrature (smooth activations) and simulation (kinks)."""

from __future__ import annotations

import numpy as np
import pytest
from dense_moments import gauss_points, hermite_tensor
from numpy.testing import assert_allclose

from laybare.activations import (
    Activation,
    absolute,
    erf,
    exponential,
    gelu,
    leaky_relu,
    power_relu,
    relu,
    sigmoid,
    softplus,
    step,
    tanh,
)
from laybare.moments import HermiteMoments, population_moments
from laybare.networks import Layer, Network

SQUARE = Activation.custom("square", np.square, lambda t: 2 * t, degree=2, parity="even")


def two_outputs(activation: Activation, rng: np.random.Generator) -> Network:
    """Free norms, biases, offset, linear part, and a unit without weights."""
    weights = rng.uniform(0.3, 0.6, (4, 1)) * rng.standard_normal((4, 2))
    weights[2] = 0
    layer = Layer(weights, rng.uniform(-1, 1, 4), activation)
    return Network(layer, rng.standard_normal((4, 2)), rng.standard_normal(2), rng.standard_normal((2, 2)))


@pytest.mark.parametrize(("activation", "tol"), [
    (SQUARE, 1e-12), (erf, 1e-9), (exponential(0.5), 1e-11), (gelu, 1e-9), (sigmoid, 1e-9), (softplus, 1e-9), (tanh, 1e-7)],
    ids=lambda value: getattr(value, "name", ""))
def test_smooth_activations_against_gauss_points(activation: Activation, tol: float, rng: np.random.Generator) -> None:
    """Weighted points are samples: Σ w f(x) h_α(x) is the population moment itself."""
    network = two_outputs(activation, rng)
    x, weights = gauss_points(2, 64)
    moment = HermiteMoments(5)
    found = moment.read(moment(x, weights[:, None] * network(x)), 1)
    assert_allclose(population_moments(network, 5).values, found.values, atol=tol)


@pytest.mark.parametrize("activation", [relu, leaky_relu(0.1), power_relu(2), absolute, step], ids=lambda a: a.name)
def test_kinked_activations_against_simulation(activation: Activation, rng: np.random.Generator) -> None:
    network = two_outputs(activation, rng)
    x = rng.standard_normal((100_000, 2))
    for order in range(5):
        terms = np.einsum("no,n...->no...", network(x), hermite_tensor(x, order))
        z = (terms.mean(axis=0) - population_moments(network, 5).tensor(order)) / (terms.std(axis=0) / np.sqrt(len(x)))
        assert np.abs(z).max() < 5  # at most 32 z-scores of N(0, 1) an order: above 5 with probability 2e-5


def test_inertia_of_the_second_moment_counts_signs(rng: np.random.Generator) -> None:
    """Sylvester: the number of positive eigenvalues is the number of units with readout·c₂ > 0, for independent weights."""
    for _ in range(20):
        readout = rng.choice([-1.0, 1.0], 4) * rng.uniform(0.5, 1.5, 4)
        network = Network(Layer(rng.standard_normal((4, 6)), None, relu), readout)
        values = np.linalg.eigvalsh(population_moments(network, 2).tensor(2)[0])
        assert int((values > 1e-9).sum()) == int((readout > 0).sum())
        assert int((values < -1e-9).sum()) == int((readout < 0).sum())


def test_a_network_without_units_is_its_linear_part() -> None:
    network = Network(Layer(np.zeros((0, 2))), np.zeros(0), 3.0, np.array([1.0, -2.0]))
    assert_allclose(population_moments(network, 2).values, [[3, 1, -2, 0, 0, 0]])
