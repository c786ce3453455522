"""The quantities of the theory, and the curvature that they are about."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.theory.guarantees import conditioning
from laybare.theory.risk_curvature import curvature

RELU2 = lb.power_relu(2)


def test_quantities_of_a_planted_network(rng: np.random.Generator) -> None:
    """Singular values 1, 1.25, ..., 2: κ = 2, λ = 1.25·1.5·1.75·2; ρ of squared ReLU is s²(4/π - 1), smallest at s = 1/2."""
    network = lb.random_network(8, 5, RELU2, biases=0, condition=2, rng=rng)
    found = conditioning(network)
    rho = 4 / np.pi - 1
    assert_allclose([found.condition, found.volume, found.readout_ratio], [2.0, 6.5625, 1.0], rtol=1e-12)
    assert_allclose([found.rho, found.tau], [rho, 3.0**4 / (rho / 4) ** 2], rtol=1e-9)
    assert_allclose(found.least_curvature, rho / (4 * 6.5625), rtol=1e-9)
    assert_allclose(found.largest_curvature, 5 * 2.0**2, rtol=1e-9)


def test_dependent_weights_have_no_condition(rng: np.random.Generator) -> None:
    with pytest.raises(lb.errors.InvalidInput, match="independent weight vectors"):
        conditioning(lb.random_network(3, 4, biases=0, rng=rng))


def test_curvature_of_orthonormal_relu_units(rng: np.random.Generator) -> None:
    """Population eigenvalues in the span of orthonormal units lie between 1/4 - 1/(2π) and 2; samples add a few percent."""
    network = lb.random_network(6, 3, biases=0, condition=1, readout="positive", rng=rng)
    x = rng.standard_normal((50_000, 6))
    found = curvature(lb.Samples(x, network(x)), lb.Network(network.layer, np.ones(3)))
    assert 0.08 < found.least < 0.13
    assert 0.9 < found.largest < 2.0


def test_linear_units_have_a_flat_direction(rng: np.random.Generator) -> None:
    """Two parallel rows may move against each other: why linear units are refused."""
    linear = lb.Activation.custom("linear", lambda t: 2 * t, lambda t: np.full_like(t, 2.0), degree=1, parity="odd")
    network = lb.random_network(5, 3, linear, biases=0, rng=rng)
    x = rng.standard_normal((500, 5))
    found = curvature(lb.Samples(x, network(x)), network)
    assert abs(found.least) < 1e-12 * found.largest


def test_curvature_is_the_second_derivative(rng: np.random.Generator) -> None:
    """At the truth, along a random direction, against central differences of the risk."""
    network = lb.random_network(4, 2, lb.tanh, biases=0, rng=rng)
    x = rng.standard_normal((400, 4))
    y, h = network(x), 1e-3
    risks = []
    for direction in np.linalg.qr(rng.standard_normal((8, 8)))[0]:
        moved = (lb.Layer(network.layer.weights + s * h * direction.reshape(2, 4), None, lb.tanh) for s in (1, -1))
        risks.append(sum(np.mean((lb.Network(layer, network.readout)(x) - y) ** 2) / 2 for layer in moved) / h**2)
    found = curvature(lb.Samples(x, y), network)
    assert found.least * (1 - 1e-3) <= min(risks) and max(risks) <= found.largest * (1 + 1e-3)
