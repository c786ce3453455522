"""The Hessian of the risk, empirical and expected, near and away from the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import laybare as lb
from laybare.landscape.first_order import gradient
from laybare.solver.point import point_of
from laybare.theory.guarantees import conditioning
from laybare.theory.risk_curvature import (
    curvature,
    expected_gradient,
    expected_hessian,
    expected_risk,
    extreme_eigenvalues,
    hessian_product,
)

RELU2 = lb.power_relu(2)
ALL = [lb.relu, lb.leaky_relu(0.1), RELU2, lb.power_relu(1.5), lb.absolute, lb.tanh, lb.sigmoid, lb.softplus]
LINEAR = lb.Activation.custom("linear", lambda t: 2 * t, lambda t: np.full_like(t, 2.0), degree=1, parity="odd")
SQUARE = lb.Activation.custom("square", lambda t: t**2, lambda t: 2 * t, degree=2, parity="even")


def moved(network: lb.Network, direction: np.ndarray, readout: float = 1.0, offset: float = 0.0) -> lb.Network:
    layer = lb.Layer(network.layer.weights + direction, None, network.activation)
    return lb.Network(layer, readout * network.readout, network.offset + offset)


def pair(activation: lb.Activation, rng: np.random.Generator, outputs: int = 1) -> tuple[lb.Network, lb.Network]:
    """A network and another one a good way off, its readout and offset too."""
    truth = lb.random_network(4, 2, activation, outputs, biases=0, condition=2, readout="random", rng=rng)
    return moved(truth, 0.3 * rng.standard_normal((2, 4)), 1.2, 0.4), truth


def gradient_at(source: lb.Samples, network: lb.Network) -> np.ndarray:
    return gradient(source, point_of(network, biases=False, offset=True, linear=False)).rows


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("activation", [RELU2, lb.tanh, lb.sigmoid, lb.gelu], ids=str)
def test_empirical_product_is_the_difference_of_gradients(activation, outputs, rng):
    network, truth = pair(activation, rng, outputs)
    x = rng.standard_normal((300, 4))
    source, direction, h = lb.Samples(x, truth(x)), rng.standard_normal((2, 4)), 1e-6
    ahead, behind = (gradient_at(source, moved(network, sign * h * direction)) for sign in (1, -1))
    assert_allclose(hessian_product(source, network, direction), (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("activation", "outputs"), [*((act, 1) for act in ALL), (lb.relu, 2), (RELU2, 2)], ids=str)
def test_expected_derivatives_are_differences(activation, outputs, rng):
    """Risk -> gradient -> Hessian, away from the truth, kinks included: what they add is there in expectation."""
    network, truth = pair(activation, rng, outputs)
    direction, h = rng.standard_normal((2, 4)), 1e-5
    sides = [moved(network, sign * h * direction) for sign in (1, -1)]
    slope = np.sum(expected_gradient(network, truth) * direction)
    risks = [expected_risk(side, truth) for side in sides]
    assert_allclose((risks[0] - risks[1]) / (2 * h), slope, rtol=1e-7)
    slopes = [expected_gradient(side, truth) for side in sides]
    assert_allclose(expected_hessian(network, truth)(direction), (slopes[0] - slopes[1]) / (2 * h), rtol=1e-6, atol=1e-7)


def test_expected_hessian_is_the_limit_of_the_empirical_one(rng):
    """4 sigmas of the average of 200,000 products, entry by entry; squared ReLU has no kink in its slope."""
    network, truth = pair(RELU2, rng)
    x = rng.standard_normal((200_000, 4))
    direction = rng.standard_normal((2, 4))
    parts = [hessian_product(lb.Samples(part, truth(part)), network, direction) for part in np.split(x, 50)]
    spread = np.std(parts, axis=0, ddof=1) / np.sqrt(len(parts))
    assert np.all(np.abs(np.mean(parts, axis=0) - expected_hessian(network, truth)(direction)) < 4 * spread)


def test_expected_risk_of_relu_is_that_of_the_arc_cosine_kernel(rng):
    network, truth = pair(lb.relu, rng)
    rows = np.concatenate([network.layer.weights, truth.layer.weights])
    weights, norms = np.append(network.readout, -truth.readout), np.linalg.norm(rows, axis=1)
    cosines = np.clip(rows @ rows.T / np.outer(norms, norms), -1, 1)
    angles = np.arccos(cosines)
    kernel = np.outer(norms, norms) * (np.sin(angles) + (np.pi - angles) * cosines) / (2 * np.pi)
    means = norms / np.sqrt(2 * np.pi)
    wanted = (weights @ kernel @ weights + 2 * 0.4 * weights @ means + 0.4**2) / 2
    assert_allclose(expected_risk(network, truth), wanted, rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5, 12])
def test_spectrum_is_that_of_the_whole_matrix(dim, rng):
    width = min(2, dim)
    truth = lb.random_network(dim, width, RELU2, biases=0, readout="random", rng=rng)
    network = moved(truth, 0.2 * rng.standard_normal((width, dim)))
    hessian = expected_hessian(network, truth)
    dense, direction = hessian.dense(), rng.standard_normal((width, dim))
    values = np.linalg.eigvalsh(dense)
    assert_allclose(dense, dense.T, atol=1e-13)
    assert_allclose(hessian(direction).ravel(), dense @ direction.ravel(), rtol=1e-12, atol=1e-13)
    assert_allclose(hessian.extremes, [values[0], values[-1]], rtol=1e-12)
    lanczos = extreme_eigenvalues(lambda v: hessian(v.reshape(width, dim)).ravel(), width * dim, rng=rng)
    assert_allclose(lanczos, hessian.extremes, rtol=1e-7)


@pytest.mark.parametrize("activation", [RELU2, lb.tanh], ids=str)
def test_lanczos_finds_the_ends_of_the_empirical_spectrum(activation, rng):
    truth = lb.random_network(6, 3, activation, biases=0, condition=2, rng=rng)
    network = moved(truth, 0.3 * rng.standard_normal((3, 6)))
    x = rng.standard_normal((500, 6))
    source = lb.Samples(x, truth(x))
    columns = [hessian_product(source, network, axis.reshape(3, 6)).ravel() for axis in np.eye(18)]
    values = np.linalg.eigvalsh(np.array(columns))
    found = curvature(source, network, rng=rng)
    assert_allclose(found, [values[0], values[-1]], rtol=1e-6)
    assert activation is not lb.tanh or values[0] < 0  # away from the truth it need not be definite


@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(0.01), RELU2, lb.tanh, lb.erf, lb.sigmoid], ids=str)
def test_positive_definite_at_and_near_the_truth(activation, rng):
    """Theorem 4.2 in expectation: at W*, and within 1 % of it in the spectral norm, for every activation that it names.

    By Cauchy-Schwarz the largest eigenvalue is at most k max v² E[act'(σ₁z)² z²] ≤ L₁² E|z|^(2p+2) · k max v² σ₁^(2p).
    """
    truth = lb.random_network(6, 3, activation, biases=0, condition=1.5, rng=rng)
    at = expected_hessian(truth, truth).extremes
    direction = rng.standard_normal((3, 6))
    direction *= 0.01 * np.linalg.norm(truth.layer.weights, 2) / np.linalg.norm(direction, 2)
    near = expected_hessian(moved(truth, direction), truth).extremes
    assert at.least > 0 and near.least > 0
    facts = activation.properties()
    constant = facts.slope_bound**2 * norm.expect(lambda z: np.abs(z) ** (2 * facts.slope_growth + 2))
    assert at.largest <= constant * conditioning(truth).largest_curvature


@pytest.mark.parametrize("activation", [LINEAR, SQUARE], ids=str)
def test_flat_at_the_truth_where_the_property_fails(activation, rng):
    truth = lb.random_network(5, 3, activation, biases=0, rng=rng)
    found = expected_hessian(truth, truth).extremes
    assert abs(found.least) < 1e-10 * found.largest


def test_indefinite_far_from_the_truth(rng):
    """The theorem is local: where units are small and turned over, the risk of squared ReLU has directions of descent."""
    truth = lb.random_network(6, 3, RELU2, biases=0, condition=1.5, readout="positive", rng=rng)
    far = lb.Network(lb.Layer(-0.1 * truth.layer.weights, None, RELU2), truth.readout)
    assert expected_hessian(far, truth).extremes.least < 0


def test_mismatched_shapes_are_refused(rng, unchecked):
    truth = lb.random_network(4, 2, biases=0, rng=rng)
    x = rng.standard_normal((50, 4))
    with pytest.raises(lb.errors.InvalidInput, match="one row per hidden unit"):
        hessian_product(lb.Samples(x, truth(x)), truth, np.zeros((3, 4)))
    with pytest.raises(lb.errors.InvalidInput, match="two networks of one kind"):
        expected_risk(truth, lb.random_network(5, 2, biases=0, rng=rng))
    with pytest.raises(lb.errors.InvalidInput, match="biases, a linear part or a zero row"):
        expected_risk(truth, lb.random_network(4, 2, biases=1.0, rng=rng))
    with pytest.raises(lb.errors.InvalidInput, match="step jumps"):
        expected_risk(*[lb.random_network(4, 2, lb.step, biases=0, rng=rng)] * 2)
