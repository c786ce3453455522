"""Properties 3.1-3.3 of Zhong et al. (2017)."""

from math import pi, sqrt

import numpy as np
import pytest
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
from laybare.errors import InvalidInput

LINEAR = Activation.custom("linear", lambda t: t, np.ones_like, degree=1, parity="odd")
SQUARE = Activation.custom("square", lambda t: t * t, lambda t: 2 * t, degree=2, parity="even")


@pytest.mark.parametrize(("act", "terms"), [
    (relu, [1 / 4 - 1 / (2 * pi)] * 3),
    (leaky_relu(0.01), (0.0890, 0.0890, 0.0990)),
    (power_relu(2), (1 - 2 / pi, 5 - 8 / pi, 4 / pi - 1)),
    (power_relu(3), (5.520, 41.52, 1.020)),
    (sigmoid, (0.00214, 0.00291, 0.0298)),
    (tanh, (0.0975, 0.0492, 0.1467)),
    (erf, np.array([0.1139, 0.0524, 0.1111]) * 4 / pi),  # the paper's erf is ∫exp(-z²), without 2/√π
    (LINEAR, (0, 0, 1)),
    (SQUARE, (0, 8, -4)),
    (absolute, (1 - 2 / pi, 1 - 2 / pi, -2 / pi)),
    (step, (0, 0, 0)),
], ids=str)
def test_terms_of_property_2(act, terms):
    assert_allclose(act.properties(1.0).terms, terms, rtol=3e-3, atol=1e-14)
    assert act.properties(1.0).rho == min(act.properties(1.0).terms)


@pytest.mark.parametrize(("act", "terms"), [
    (relu, np.array([1, 1, 1]) * (1 / 4 - 1 / (2 * pi))), (power_relu(2), (1 - 2 / pi, 5 - 8 / pi, 4 / pi - 1))], ids=str)
def test_terms_that_have_a_closed_form_are_exact(act, terms):
    assert_allclose(act.properties(1.0).terms, terms, rtol=1e-12)


@pytest.mark.parametrize(("act", "half", "double"), [
    (power_relu(2), 0.0683, 1.093), (sigmoid, 0.00032, 0.00307), (tanh, 0.0343, 0.0154),
    (erf, 0.0404 * 4 / pi, 0.0124 * 4 / pi)], ids=str)
def test_rho_at_other_scales(act, half, double):
    assert_allclose([act.properties(0.5).rho, act.properties(2.0).rho], [half, double], rtol=2e-2)


def test_terms_scale_like_the_squared_derivative(act):
    if act.degree is None:
        pytest.skip("not homogeneous")
    want = np.array(act.properties(1.0).terms) * 3 ** (2 * act.degree - 2)
    assert_allclose(act.properties(3.0).terms, want, rtol=1e-9, atol=1e-20)


def test_terms_agree_with_the_hermite_coefficients(act):
    """α₀, α₁ and α₂ by Stein's identity: E[act'(sz)He_q] = c_{q+1}/s; the step has no derivative to speak of."""
    if act.degree == 0:
        pytest.skip("not differentiable")
    s = 1.4
    a0, a1, a2 = (act.hermite(k + 1, s) / s for k in range(3))
    assert_allclose(act.properties(s).terms[2], a0 * (a2 + a0) - a1**2, rtol=1e-9, atol=1e-12)


def test_rho_of_a_nearly_linear_sigmoid_is_not_lost_in_rounding():
    """For small s, σ'(sz) ≈ 1/4 - s²z²/16, so the first term is 2(s²/16)²: 8e-15 at s = 0.001."""
    found = sigmoid.properties(1e-3)
    assert_allclose(found.terms[0], 2 * (1e-6 / 16) ** 2, rtol=1e-4)
    assert found.positive_rho


@pytest.mark.parametrize(("act", "growth", "bound"), [
    (relu, 0, 1), (leaky_relu(0.1), 0, 1), (leaky_relu(3), 0, 3), (power_relu(2), 1, 2), (power_relu(3), 2, 3),
    (power_relu(1.5), 0.5, 1.5), (sigmoid, 0, 1 / 4), (tanh, 0, 1), (erf, 0, 2 / sqrt(pi)), (softplus, 0, 1)], ids=str)
def test_property_1_holds(act, growth, bound):
    found = act.properties()
    assert found.monotone
    assert found.nonnegative_slope
    assert_allclose([found.slope_growth, found.slope_bound], [growth, bound], rtol=1e-4)
    t = np.linspace(-20, 20, 400)
    assert (act.derivative(t) <= found.slope_bound * np.abs(t) ** found.slope_growth * (1 + 1e-4)).all()


@pytest.mark.parametrize("act", [absolute, gelu, leaky_relu(-0.3), exponential(0.5), exponential(-1), SQUARE], ids=str)
def test_property_1_fails(act):
    assert not act.properties().monotone


@pytest.mark.parametrize(("act", "bound"), [
    (sigmoid, 1 / (6 * sqrt(3))), (tanh, 4 / (3 * sqrt(3))), (erf, 2 / sqrt(pi) * sqrt(2 / np.e)), (softplus, 1 / 4),
    (gelu, 2 / sqrt(2 * pi)), (power_relu(2), 2), (SQUARE, 2)], ids=str)
def test_property_3_by_a_bound(act, bound):
    found = act.properties()
    assert found.smooth
    assert not found.piecewise_linear
    assert_allclose(found.curvature_bound, bound, rtol=1e-3)


def test_property_3_by_pieces(hard_tanh):
    for act in (relu, leaky_relu(0.1), absolute, LINEAR, hard_tanh):
        found = act.properties()
        assert found.smooth
        assert found.piecewise_linear
        assert found.curvature_bound == 0


def elu_with_corner(t):
    return np.where(t > 0, t, 2 * np.expm1(np.minimum(t, 0)))


def test_slow_growth_is_growth():
    """log(1 + t²) is bounded by no constant, though it gains only a third between 100 and 500."""
    slow = Activation.custom(
        "slow", lambda t: t * np.log1p(t * t) - 2 * t + 2 * np.arctan(t), lambda t: np.log1p(t * t), parity="odd")
    assert slow.properties().slope_bound is None
    assert_allclose(slow.properties().curvature_bound, 1, rtol=1e-3)  # |2t/(1 + t²)| ≤ 1


def test_property_3_at_a_mild_kink():
    """|t| - log(1 + |t|) has a continuous second derivative 1/(1 + |t|)²: only the third one jumps."""
    mild = Activation.custom("mild", lambda t: np.abs(t) - np.log1p(np.abs(t)), lambda t: t / (1 + np.abs(t)), kinks=[0])
    assert mild.properties().smooth
    assert_allclose(mild.properties().curvature_bound, 1, rtol=1e-3)


def test_property_3_fails():
    corner = Activation.custom("corner", elu_with_corner, lambda t: np.where(t > 0, 1.0, 2 * np.exp(np.minimum(t, 0))), kinks=[0])
    root = Activation.custom(  # bounded slope, unbounded curvature at its kink
        "root", lambda t: np.sqrt(1 + np.abs(t) ** 1.5) - 1,
        lambda t: 0.75 * np.sign(t) * np.sqrt(np.abs(t)) / np.sqrt(1 + np.abs(t) ** 1.5), kinks=[0], parity="even")
    for act in (power_relu(3), power_relu(1.5), exponential(0.5), corner, root):
        assert not act.properties().smooth, act


def test_all_hold_for_the_activations_the_paper_names():
    """Theorem 3.5 of Zhong et al. (2017), except for powers above 2, whose second derivative is unbounded."""
    for act in (relu, leaky_relu(0.01), power_relu(2), sigmoid, tanh, erf):
        assert act.properties().all_hold, act
    for act in (LINEAR, SQUARE, absolute, step, power_relu(3)):
        assert not act.properties().all_hold, act
    for act in (LINEAR, SQUARE, absolute, step):
        assert not act.properties().positive_rho, act


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_impossible_scales_are_refused(scale):
    with pytest.raises(InvalidInput, match="scale"):
        relu.properties(scale)
