"""The papers' metrics, on cases whose value is known."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laybare.activations import absolute, power_relu, relu, sigmoid, tanh
from laybare.errors import InvalidInput
from laybare.networks import (
    Layer,
    Network,
    landscape_error,
    max_angle,
    max_relative_error,
    mean_squared_error,
    normalised_squared_errors,
    recovered,
    unsigned_error,
)


def net(weights, readout, activation=relu):
    return Network(Layer(np.asarray(weights, dtype=float), activation=activation), np.asarray(readout, dtype=float))


def test_max_relative_error_is_the_best_of_all_permutations(rng):
    for _ in range(20):
        found, true = rng.normal(size=(2, 5, 3))
        best = min(max(np.linalg.norm(true[j] - found[p]) / np.linalg.norm(true[j]) for j, p in enumerate(order))
                   for order in permutations(range(5)))
        assert max_relative_error(found, true) == pytest.approx(best, rel=1e-14)


def test_unsigned_error_is_free_of_order_scale_and_sign(rng):
    rows = rng.normal(size=(4, 6))
    turned = rows[rng.permutation(4)] * np.array([[-2.0], [0.5], [1.0], [-1.0]])
    assert unsigned_error(turned, rows) < 1e-14
    assert unsigned_error(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [-0.6, 0.8]])) == pytest.approx(np.sqrt(0.4))


def test_max_relative_error_by_hand():
    assert max_relative_error(np.array([[0.0, 1.0], [5.0, 0.0]]), np.array([[4.0, 0.0], [0.0, 1.0]])) == 0.25


@pytest.mark.parametrize("activation", [relu, power_relu(2), sigmoid, tanh, absolute], ids=str)
def test_recovery_criterion(activation, rng):
    w, v = rng.normal(size=(4, 6)), np.array([1.0, -1.0, 1.0, -1.0])
    truth, order = net(w, v, activation), rng.permutation(4)
    off = 0.009 * w * np.array([[1.0], [-1.0], [1.0], [-1.0]])
    assert recovered(net((w + off)[order], v[order], activation), truth)
    assert not recovered(net((w + 1.2 * off)[order], v[order], activation), truth)
    assert not recovered(net(w, -v, activation), truth)
    assert recovered(net(-w, -v, activation), truth) == (activation is tanh)
    assert recovered(net(-w, v, activation), truth) == (activation is absolute)
    assert not recovered(net(w[:3], v[:3], activation), truth)


def test_recovery_criterion_takes_the_readouts_into_homogeneous_weights(rng):
    w = rng.normal(size=(3, 4))
    assert recovered(net(w / 2, [4, -4, 4], power_relu(2)), net(w, [1, -1, 1], power_relu(2)))
    assert not recovered(net(w / 2, [4, -4, 4], relu), net(w, [1, -1, 1], relu))


def test_recovery_needs_one_activation_and_one_output(rng):
    w = rng.normal(size=(3, 4))
    assert not recovered(net(w, np.ones(3), relu), net(w, np.ones(3), tanh))
    with pytest.raises(InvalidInput, match="one output"):
        recovered(net(w, np.ones((3, 2))), net(w, np.ones((3, 2))))


def test_landscape_error_needs_every_unit(rng):
    permutation = np.eye(4)[rng.permutation(4)] * np.array([1, -1, 1, -1])
    assert landscape_error(permutation) == 0
    one_unit_four_times = np.zeros((4, 4))
    one_unit_four_times[:, 0] = 1
    size = np.abs(one_unit_four_times)
    assert min(1 - size.max(axis=1).min(), 1 - size.max(axis=0).min()) == 0  # the form in print sees nothing
    assert landscape_error(one_unit_four_times) == 1
    assert landscape_error(one_unit_four_times.T) == 1
    assert landscape_error(np.array([[0.8, 0.6], [0.6, -0.8]])) == pytest.approx(0.2)


def test_normalised_squared_errors_by_hand():
    truth = net([[2, 0], [0, 3]], [[1, 0], [0, 5]])
    found = net([[0, 1], [1, 1]], [[0, 9], [3, 4]])
    errors = normalised_squared_errors(found, truth)
    assert errors.weights == pytest.approx(2 - np.sqrt(2))
    assert errors.readout == pytest.approx(0.4**2 + 0.8**2)
    assert errors.weights_normalised == pytest.approx(np.sqrt((2 - np.sqrt(2)) / 2))
    assert errors.readout_normalised == pytest.approx(np.sqrt(0.8 / 2))


def test_squared_errors_resolve_tiny_differences():
    truth, found = net(np.eye(2), np.eye(2)), net([[1, 1e-12], [0, 1]], np.eye(2))
    assert normalised_squared_errors(found, truth).weights == pytest.approx(1e-24, rel=1e-3)


def test_mean_squared_error_is_over_outputs_too():
    assert mean_squared_error(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [3.0, 2.0]])) == 2
    with pytest.raises(InvalidInput, match="shape"):
        mean_squared_error(np.ones((3, 1)), np.ones(3))


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-8, 0.3, 1.5])
def test_max_angle_is_accurate_everywhere(angle):
    true = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    found = np.array([[0.0, 0.0, 1.0], [5 * np.cos(angle), 5 * np.sin(angle), 0.0]])
    assert_allclose(max_angle(found, true), angle, rtol=1e-14, atol=1e-16)


def test_opposite_directions_are_half_a_turn_apart():
    assert max_angle(np.array([[-1.0, 1e-9]]), np.array([[1.0, 0.0]])) == pytest.approx(np.pi - 1e-9, rel=1e-15)


@pytest.mark.usefixtures("unchecked")
def test_zero_rows_and_different_widths_are_refused():
    with pytest.raises(InvalidInput, match="Row 1 is zero"):
        max_angle(np.ones((2, 2)), np.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(InvalidInput, match="Row 0 is zero"):
        max_relative_error(np.ones((1, 2)), np.zeros((1, 2)))
    for metric in (max_relative_error, max_angle):
        with pytest.raises(InvalidInput, match="shape"):
            metric(np.ones((2, 2)), np.ones((3, 2)))
