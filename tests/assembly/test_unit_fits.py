"""Sign, scale, bias and readout of a unit from its Hermite coefficients, for every kind of activation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.assembly.unit_scalars import all_loadings, fit_units
from laybare.moments import population_moments

SMOOTH = [lb.tanh, lb.sigmoid, lb.erf, lb.softplus, lb.gelu]


def exact(activation: lb.Activation, outputs: int, rng: np.random.Generator) -> tuple[lb.Network, np.ndarray]:
    """A network with norms in [0.7, 2] if they are free, and the directions of its units turned over at random."""
    truth = lb.random_network(6, 5, activation, outputs, biases=1.2, readout="random", rng=rng)
    norms = rng.uniform(0.7, 2.0, 5) if activation.degree is None else np.ones(5)
    layer = lb.Layer(norms[:, None] * truth.layer.weights, truth.layer.biases, activation)
    return lb.Network(layer, truth.readout), rng.choice([-1.0, 1.0], 5)[:, None] * truth.layer.weights


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(0.1), lb.power_relu(2), *SMOOTH], ids=lambda act: act.name)
def test_exact_coefficients_give_the_unit_back(activation: lb.Activation, outputs: int, rng: np.random.Generator) -> None:
    """Rows ξ s u and biases are the true ones up to the reflection that the activation allows; only squared ReLU has none."""
    truth, directions = exact(activation, outputs, rng)
    orders = range(1 if activation.mirror is None else 2, 7)
    z = all_loadings(population_moments(truth, 6), directions, orders)
    fits = fit_units(activation, z, orders, np.ones(len(orders)))
    rows = (fits.signs * fits.scales)[:, None] * directions
    turned = np.sign(np.sum(rows * truth.layer.weights, axis=1))
    if activation.mirror is None and activation.centre is None:
        assert_allclose(turned, 1.0)
    assert_allclose(turned[:, None] * rows, truth.layer.weights, atol=1e-6)
    assert_allclose(turned * fits.biases, truth.layer.biases, atol=1e-6)
    sign = turned[:, None] if activation.centre is not None else 1.0
    assert_allclose(sign * fits.readout, truth.readout.reshape(5, outputs), atol=1e-6)
    assert_allclose(fits.explained, 1.0, atol=1e-9)


def test_orders_with_much_noise_do_not_count(rng: np.random.Generator) -> None:
    truth, directions = exact(lb.relu, 1, rng)
    z = all_loadings(population_moments(truth, 6), directions, range(2, 7))
    z[-1] += 5.0
    signs = np.sign(np.sum(directions * truth.layer.weights, axis=1))
    fits = fit_units(lb.relu, z, range(2, 7), np.array([1.0, 1.0, 1.0, 1.0, 1e6]))
    assert_allclose(signs * fits.biases, truth.layer.biases, atol=1e-5)
