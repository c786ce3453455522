"""Bounds of Awasthi et al. (2021) and of Theorem 7 of Ge et al. (2019): formulas, and that what they bound stays below them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

import laybare as lb
from laybare.assembly.unit_scalars import Scalars, fix_signs
from laybare.moments import HermiteMoments, gaussian_augmented, measure, population_detector, population_moments
from laybare.theory import InputLaw, relu_approximation, relu_recovery, relu_units, symmetric_recovery


@pytest.fixture
def planted(rng):
    """Weights of length 2, so that readouts count twice and biases half: B = max{2·1.5, 1/1, 0.6} = 3."""
    weights = 2.0 * np.linalg.qr(rng.standard_normal((5, 3)))[0].T
    return lb.Network(lb.Layer(weights, np.array([0.4, -1.2, 0.0]), lb.relu), np.array([1.5, -0.5, 1.0]))


def test_formulas_of_general_relu(planted):
    m, d, B, eps = 3, 5, 3.0, 1e-3
    units = relu_units(planted, eps, order=2)
    assert_allclose([units["B"], units["least singular value"]], [B, 1.0], rtol=1e-12)
    assert_allclose(units["samples"], m * d * B / eps, rtol=1e-12)
    assert_allclose(units["samples for moments within ε"], d**6 * m**2 * B**4 / eps**2, rtol=1e-12)
    assert_allclose(units["largest bias"], np.sqrt(np.log(1 / (eps * m * d * B))), rtol=1e-12)
    close = min(ndtr(-units["largest bias"]), eps) / (8 * np.sqrt(m) * B**2)
    recovery = relu_recovery(planted, eps)
    assert_allclose(recovery["printed accuracy for signs"], close, rtol=1e-12)
    close /= np.sqrt(m)  # the erratum
    assert_allclose(recovery["accuracy of units for their signs"], close, rtol=1e-12)
    assert_allclose(recovery["accuracy of the first moment"], close / (4 * np.sqrt(m)), rtol=1e-12)
    approximation = relu_approximation(planted, eps)
    assert (approximation["units"], approximation["mean squared error"]) == (5, eps**2)


def test_theorem_3_1_needs_independent_weights_and_3_2_an_order_that_separates(rng):
    wide = lb.random_network(3, 5, biases=1.0, rng=rng)
    assert not relu_recovery(wide, 0.01).applies and not relu_approximation(wide, 0.01).applies
    assert relu_approximation(wide, 0.01, order=2).applies
    assert relu_approximation(wide, 0.01)["samples"] == np.inf
    assert not relu_units(lb.random_network(3, 2, lb.tanh, rng=rng), 0.01).applies


def test_lemma_d_3_bounds_the_error_of_moments(planted):
    """N E|T_k - f_k|² ≤ c d^k m² B⁴ with c = 1 at k = 4: 0.1 of it was measured, 40 draws of 500."""
    exact, squares = population_moments(planted, 4).tensor(4), []
    for seed in range(40):
        x = np.random.default_rng(seed).standard_normal((500, 5))
        found = measure(lb.Samples(x, planted(x), law=lb.Gaussian(0, 1)), HermiteMoments(4)).tensor(4)
        squares.append(np.sum((found - exact) ** 2))
    bound = relu_units(planted, 0.5, order=1)["samples for moments within ε"] * 0.5**2 / 500
    assert bound / 100 < np.mean(squares) < bound


def test_signs_come_out_right_at_the_accuracy_of_theorem_3_1(planted, rng):
    """Units off by ε₀ and a first moment off by η₀, in 50 random ways."""
    stated = relu_recovery(planted, 0.01)
    close = stated["accuracy of units for their signs"]
    norms = np.linalg.norm(planted.layer.weights, axis=1)
    moments = population_moments(planted, 4)
    for _ in range(50):
        flips = rng.choice([-1.0, 1.0], 3)
        off = rng.standard_normal((3, 7))
        off *= close / np.abs(off).sum(axis=1, keepdims=True)
        rows = flips[:, None] * planted.layer.weights / norms[:, None] + off[:, :5]
        scalars = Scalars(planted.readout * norms + off[:, 5], flips * planted.layer.biases / norms + off[:, 6])
        assert fix_signs(moments, rows, scalars, centred=False).tolist() == flips.tolist()


@pytest.fixture
def outputs(rng):
    """Five outputs, three units of four inputs, weights of length 1."""
    weights = rng.standard_normal((3, 4))
    weights /= np.linalg.norm(weights, axis=1)[:, None]
    return lb.Network(lb.Layer(weights, None, lb.relu), rng.standard_normal((3, 5)))


def test_formulas_of_theorem_7(outputs):
    A, M = outputs.readout.T, gaussian_augmented(outputs.layer.weights)
    alpha, beta = (np.linalg.svd(matrix, compute_uv=False)[-1] for matrix in (M, A))
    P1, G, P2, eps, delta = np.linalg.norm(A, 2), 4.0, 0.5, 0.01, 0.2
    stated = symmetric_recovery(outputs, InputLaw(radius=G), eps, noise=P2, failure=delta)
    assert stated.applies
    assert_allclose(stated["samples"], G * P1 * 1.5 * 4 / (eps * alpha * beta * delta), rtol=1e-9)
    most = G * P1 * np.sqrt(3) + P2
    assert_allclose(stated["samples of the detector"], 64 * G**14 * most**6 * np.log(20) / eps**2, rtol=1e-9)
    assert_allclose(stated["spectral gap"], alpha * beta**2 / np.sqrt(2), rtol=1e-9)
    assert_allclose(stated["turn of the null space"], min(1.0, 2 * eps / (alpha * beta**2)), rtol=1e-9)
    turned = symmetric_recovery(outputs, InputLaw(radius=G, augmented=np.zeros((10, 4))), eps)
    assert not turned.applies and turned["samples"] == np.inf and turned["turn of the null space"] == 1.0


def test_null_space_of_a_detector_turns_by_no_more_than_stated(outputs, rng):
    """Population detector (three outputs, A square) plus noise of Frobenius norm ε, in 50 random ways."""
    square = lb.Network(outputs.layer, outputs.readout[:, :3])
    T, eps = population_detector(square.layer.weights, square.readout.T), 1e-6
    stated = symmetric_recovery(square, InputLaw(radius=1.0), eps)["turn of the null space"]
    last = np.linalg.svd(T)[2][-3:]
    for _ in range(50):
        noise = rng.standard_normal(T.shape)
        turned = np.linalg.svd(T + eps * noise / np.linalg.norm(noise))[2][-3:]
        assert np.linalg.norm(last.T @ last - turned.T @ turned, 2) <= stated < 1.0


def test_outputs_move_by_no_more_than_stated(outputs, rng):
    """V and Z off by ε in every row: the outputs at |x| = Γ stay within the bound of section B.4."""
    A, eps, radius = outputs.readout[:, :3].T, 1e-3, 2.0
    square = lb.Network(outputs.layer, A.T)
    stated = symmetric_recovery(square, InputLaw(radius=radius), eps)["error of the outputs"]
    Z = np.linalg.inv(A)
    lengths = np.linalg.norm(Z, axis=1)[:, None]
    Z, V = Z / lengths, square.layer.weights / lengths
    for _ in range(20):
        x = rng.standard_normal((4, 100))
        x *= radius / np.linalg.norm(x, axis=0)
        off = [eps * m / np.linalg.norm(m, axis=1)[:, None] for m in (rng.standard_normal((3, 3)), rng.standard_normal((3, 4)))]
        exact, moved = (np.linalg.solve(z, lb.relu(v @ x)) for z, v in ((Z, V), (Z + off[0], V + off[1])))
        assert_allclose(exact, A @ lb.relu(square.layer.weights @ x), atol=1e-9)
        assert np.linalg.norm(exact - moved, axis=0).max() <= stated


@pytest.mark.parametrize("call", [
    lambda net: relu_units(net, 1.5), lambda net: relu_units(net, 0.1, order=0),
    lambda net: symmetric_recovery(net, InputLaw(radius=1.0), 0.1, failure=0.0)])
def test_nonsense_is_refused(call, planted):
    with pytest.raises(lb.errors.InvalidInput):
        call(planted)
