"""The objectives on second and fourth moments: identities against quadrature, derivatives, minima; corrections of the print."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from high_threshold_targets import linear_population, one_unit, planted, samples

import laybare as lb
from laybare.lowest_layer.active_rows import find_baseline, label_active_rows
from laybare.lowest_layer.printed.objectives import (
    Constants,
    OneByOne,
    Simultaneous,
    hermite_correlation,
    is_local_minimum,
    metric_complement,
    one_by_one_constants,
    one_by_one_objective,
    simultaneous_objective,
)
from laybare.networks import max_angle
from laybare.planted import threshold_layer
from laybare.theory.high_threshold_forms import printed_psi, psi, threshold_coefficient

EXACT = 1e-10


@pytest.mark.parametrize("activation", [lb.step, lb.relu], ids=lambda a: a.name)
def test_directional_correlations_of_one_unit(activation, rng):
    a, z = rng.standard_normal((2, 3))
    a /= np.linalg.norm(a)
    found = hermite_correlation(lb.Samples(*one_unit(a, 1.7, activation)), z)
    assert found.second == pytest.approx(threshold_coefficient(activation, 2, 1.7) * (a @ z) ** 2, abs=EXACT)
    assert found.fourth == pytest.approx(threshold_coefficient(activation, 4, 1.7) * (a @ z) ** 4, abs=EXACT)


def test_derivatives_of_the_objective_by_differences(rng):
    source = samples(planted(lb.relu, "cubic", 4, 4, 1.5, rng), 3000, rng)
    constants, z = one_by_one_constants(lb.relu, 1.5), rng.standard_normal(4)
    at = one_by_one_objective(source, z, constants)
    for i, e in enumerate(1e-5 * np.eye(4)):
        up, down = (one_by_one_objective(source, z + sign * e, constants) for sign in (1, -1))
        assert at.gradient[i] == pytest.approx((up.value - down.value) / 2e-5, abs=1e-7 * np.abs(at.gradient).max())
        assert at.hessian[i] == pytest.approx((up.gradient - down.gradient) / 2e-5, abs=1e-7 * np.abs(at.hessian).max())


@pytest.mark.parametrize("activation", [lb.step, lb.relu], ids=lambda a: a.name)
def test_corrected_psi_is_the_fourth_moment(activation, rng):
    a, v, w = rng.standard_normal((3, 3))
    a /= np.linalg.norm(a)
    x, y = one_unit(a, 2.2, activation)
    wanted = sqrt(6) * threshold_coefficient(activation, 4, 2.2) * (a @ v) ** 2 * (a @ w) ** 2
    assert np.mean(y * psi(v, w, x)) == pytest.approx(wanted, abs=EXACT)
    assert abs(np.mean(y * printed_psi(v, w, x)) - wanted) > 1e-3


def test_gradient_of_the_simultaneous_objective_by_differences(rng):
    source = samples(planted(lb.step, "cubic", 3, 3, 1.2, rng), 2000, rng)
    constants, W = Constants(0.2, -0.1, 3.0), rng.standard_normal((3, 3))
    value, slope = simultaneous_objective(source, W, constants, 0.05)
    for i in range(3):
        for j in range(3):
            e = np.zeros((3, 3))
            e[i, j] = 1e-5
            up, down = (simultaneous_objective(source, W + sign * e, constants, 0.05)[0] for sign in (1, -1))
            assert slope[i, j] == pytest.approx((up - down) / 2e-5, abs=1e-7 * np.abs(slope).max())
    direct = _simultaneous_from_psi(source, W, constants, 0.05)
    assert value == pytest.approx(direct, rel=1e-12)


def _simultaneous_from_psi(source, W, constants, gamma):
    """The objective written out with ψ, pair by pair."""
    x, y = source.read(0, source.size)
    r = y[:, 0]
    pairs = sum(np.mean(r * psi(W[j], W[k], x)) for j in range(3) for k in range(3) if j != k)
    each = [hermite_correlation(source, w) for w in W]
    penalty = sum((one.second - constants.second) ** 2 for one in each)
    return np.sign(constants.fourth) * (pairs - gamma * sum(one.fourth for one in each)) + constants.penalty * penalty


@pytest.mark.parametrize(("activation", "t"), [(lb.step, 2.5), (lb.relu, 2.0), (lb.step, 1.4)], ids=["step", "relu", "u4<0"])
def test_minima_of_the_population_objective(activation, t, rng):
    """z = ±a · column of (TW)⁻¹ with a = (1 - |u₄|/(λ u₂² c))^(-½); the weights come back by inversion."""
    W = threshold_layer(3, 3, activation, t, rng=rng).weights
    c = np.array([0.7, 1.0, 1.4])
    source = linear_population(W, t, activation, c)
    constants = one_by_one_constants(activation, t, factor=20.0, smallest=0.7)
    found = OneByOne(activation=activation, threshold=t, factor=20.0 / 0.7)(source, 3, rng=rng)
    assert max_angle(found.weights, W) < 1e-4  # L-BFGS stops at half the digits
    columns = np.linalg.inv(np.sqrt(c)[:, None] * W)
    a = 1 / np.sqrt(1 - abs(constants.fourth) / (constants.penalty * constants.second**2 * c))
    for i in range(3):
        at = one_by_one_objective(source, a[i] * columns[:, i], constants)
        assert np.linalg.norm(at.gradient) < EXACT
        assert is_local_minimum(at, EXACT, EXACT)


def test_objective_is_unbounded_below_a_small_penalty(rng):
    """λ u₂² c < |u₄|: along a column the value falls without end."""
    W = threshold_layer(3, 3, lb.relu, 2.0, rng=rng).weights
    source, z = linear_population(W, 2.0, lb.relu, np.ones(3)), np.linalg.inv(W)[:, 0]
    small = one_by_one_constants(lb.relu, 2.0, factor=0.5)
    values = [one_by_one_objective(source, scale * z, small).value for scale in (3.0, 6.0, 12.0)]
    assert values[0] > values[1] > values[2] and values[2] < -1.0


def test_simultaneous_minimum_of_the_population(rng):
    W = threshold_layer(3, 3, lb.relu, 2.0, rng=rng).weights
    c = np.array([0.8, 1.0, 1.3])
    found = Simultaneous(activation=lb.relu, threshold=2.0, factor=20.0)(linear_population(W, 2.0, lb.relu, c), 3, rng=rng)
    assert max_angle(found.weights, W) < 0.05  # the quartic couples units by γ; the limit is the accuracy of L-BFGS


def test_complement_is_orthogonal_in_the_metric(rng):
    A = rng.standard_normal((5, 5))
    metric, found = A @ A.T, [rng.standard_normal(5), rng.standard_normal(5)]
    free = metric_complement(metric, found)
    assert free.shape == (5, 3)
    assert np.abs(np.array(found) @ metric @ free).max() < 1e-12


def test_objective_without_a_fourth_moment_is_refused():
    with pytest.raises(lb.errors.Unidentifiable, match="fourth Hermite coefficient"):
        one_by_one_constants(lb.step, sqrt(3))


@pytest.mark.parametrize("start", [OneByOne(threshold=2.5), Simultaneous(threshold=2.5)], ids=lambda s: type(s).__name__)
def test_printed_starts_from_samples(start, rng):
    """Far from the accuracy of third moments at the same number of samples; orthogonal rows, many samples."""
    target = planted(lb.step, "union", 3, 3, 2.5, rng, condition=1.0)
    source = samples(target, 100_000, rng)
    found = start(label_active_rows(source, find_baseline(source)), 3, rng=rng)
    assert max_angle(found.weights, target.layer.weights) < 0.3
