"""Hermite coefficients: against adaptive quadrature, and the laws that tie them to each other."""

from math import exp, factorial, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad, quad_vec

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

SCALES, BIASES = (0.5, 1.0, 2.0), (-1.0, 0.0, 1.0)


def adaptive(act, orders, scale, bias, reach=14.0):
    """E[act(scale·g + bias) He_k(g)] for k < orders by scipy's adaptive rule, with every kink a break point."""
    def integrand(g):
        terms = [float(act(scale * g + bias)) * exp(-g * g / 2) / sqrt(2 * pi)]
        terms.append(g * terms[0])
        for k in range(1, orders - 1):  # He_{k+1} = g He_k - k He_{k-1}
            terms.append(g * terms[k] - k * terms[k - 1])
        return np.array(terms)
    breaks = [(kink - bias) / scale for kink in act.kinks] + [-bias / scale, -4.0, 4.0]
    breaks = sorted(point for point in breaks if abs(point) < reach)
    return quad_vec(integrand, -reach, reach, points=breaks, epsabs=1e-11, epsrel=1e-12, norm="max", limit=200)[0]


def test_equals_adaptive_quadrature(act):
    """1e-10 absolute, and relative where the coefficient exceeds one (exponential, powers)."""
    for scale in SCALES:
        for bias in BIASES:
            want = adaptive(act, 7, scale, bias)
            found = [act.hermite(k, scale, bias) for k in range(7)]
            assert (np.abs(found - want) < 1e-10 * np.maximum(1.0, np.abs(want))).all(), (scale, bias)


@pytest.mark.parametrize(("scale", "bias"), [(10.0, -8.0), (10.0, 3.0), (1.0, 8.0), (1.0, -8.0)])
def test_steep_and_far_units(act, scale, bias):
    if act.name.startswith("exponential") and scale == 10:
        pytest.skip("the integrand peaks beyond the reach of the reference")
    want = adaptive(act, 9, scale, bias)
    size = abs(act(scale * 4 + abs(bias))) + abs(act(-scale * 4 - abs(bias)))  # what the reference has to cancel
    for k in range(9):
        assert abs(act.hermite(k, scale, bias) - want[k]) < 1e-12 * (1 + size) * sqrt(factorial(k)), k


def test_small_tail_coefficients_are_relatively_exact():
    """A unit at threshold 8 is seen by few samples, but its coefficient is not rounding."""
    for act in (relu, power_relu(2), power_relu(3), step):
        want = quad(lambda t, a=act: float(a(t)) * np.exp(-((t + 8) ** 2) / 2) / sqrt(2 * pi), 0, 8, epsabs=0, epsrel=1e-12)[0]
        assert_allclose(act.hermite(0, 1.0, -8.0), want, rtol=1e-10)


@pytest.mark.parametrize(("act", "values"), [
    (relu, (0.3989, 0.5, 0.3989, 0, -0.3989)),
    (power_relu(2), (0.5, 0.7979, 1, 0.7979, 0)),
    (power_relu(3), (0.7979, 1.5, 2.3937, 3, 2.3937)),
    (leaky_relu(0.1), (0.9 * 0.3989, 0.55, 0.9 * 0.3989, 0, -0.9 * 0.3989)),
    (absolute, (0.7979, 0, 0.5642 * sqrt(2), 0, -0.1629 * sqrt(24))),
    (softplus, (0.8061, 0.5, 0.1461 * sqrt(2), 0, -0.01274 * sqrt(24))),
    (gelu, (0.2821, 0.5, 0.2992 * sqrt(2), 0, -0.07198 * sqrt(24))),
    (sigmoid, (0.5, 0.2066, 0, -0.0255 * sqrt(6), 0)),
    (tanh, (0, 0.6057, 0, -0.1484 * sqrt(6), 0)),
    (erf, (0, 2 / sqrt(3 * pi), 0, -4 / sqrt(27 * pi), 0)),
], ids=str)
def test_published_values_without_bias(act, values):
    assert_allclose([act.hermite(k) for k in range(5)], values, atol=2e-4)


def test_bias_free_relu_at_every_order():
    """√k! (-1)^(k/2-1) (k-3)!!/√(2πk!) for even k ≥ 2, and 0 for odd k ≥ 3."""
    for k in range(2, 11):
        double_factorial = np.prod(np.arange(k - 3, 0, -2.0))
        want = 0.0 if k % 2 else (-1) ** (k // 2 - 1) * double_factorial / sqrt(2 * pi)
        assert_allclose(relu.hermite(k), want, atol=1e-15, rtol=1e-13)


@pytest.mark.parametrize("order", range(7))
def test_fractional_powers_meet_whole_ones(order):
    """Continuity in p ties the quadrature (p = 2 + 1e-9) to the closed form (p = 2), with and without bias."""
    for bias in (-0.7, 0.0, 0.7):
        assert_allclose(power_relu(2 + 1e-9).hermite(order, 1.3, bias), power_relu(2).hermite(order, 1.3, bias), atol=1e-7)


@settings(max_examples=20, deadline=None)
@given(order=st.integers(0, 7), scale=st.floats(0.3, 4), bias=st.floats(-3, 3))
def test_derivative_in_the_bias_is_the_next_order(act, order, scale, bias):
    h = 1e-4
    ends = act.hermite(order, scale, np.array([bias - 2 * h, bias - h, bias + h, bias + 2 * h]))
    slope = (ends @ [1, -8, 8, -1]) / (12 * h)
    want = act.hermite(order + 1, scale, bias) / scale
    around = max(1.0, float(np.abs(ends).max()), abs(want)) * max(1.0, 1 / scale) ** 5  # the fifth derivative scales like this
    assert abs(slope - want) < 1e-9 * around * factorial(order + 1)


def test_homogeneous_coefficients_scale_like_their_degree(act):
    if act.degree is None:
        pytest.skip("not homogeneous")
    for k in range(7):
        for c in (0.2, 3.0):
            assert_allclose(act.hermite(k, c * 1.5, c * 0.4), c**act.degree * act.hermite(k, 1.5, 0.4), rtol=1e-10, atol=1e-13)


def test_zeros_of_symmetry_are_exact(act):
    scale = np.array([0.5, 1.0, 3.0])
    for k in range(9):
        if act.centre is not None and k % 2 == 0:
            assert (act.hermite(k, scale) == (act.centre if k == 0 else 0)).all()
        if act.mirror is not None and k % 2 == 1:
            assert_allclose(act.hermite(k, scale), act.mirror * scale / 2 if k == 1 else 0, rtol=1e-15, atol=0)


def test_mirror_units_differ_by_their_linear_part(act):
    """act(-t) has coefficients (-1)^k c_k(-b); its difference from act is mirror·t, or its sum 2·centre."""
    b = np.array([-1.7, 0.3, 2.0])
    for k in range(7):
        here, there = act.hermite(k, 1.3, b), (-1) ** k * act.hermite(k, 1.3, -b)
        if act.mirror is not None:
            linear = act.mirror * (b if k == 0 else 1.3 if k == 1 else 0)
            assert_allclose(here - there, linear * np.ones(3), atol=1e-12)
        if act.centre is not None:
            assert_allclose(here + there, 2 * act.centre * (k == 0) * np.ones(3), atol=1e-12)


def test_energies_add_up_to_the_second_moment(act):
    """Parseval: Σ c_k²/k! = E[act²]. The step, the roughest, still lacks 7 % at order 14."""
    for bias in (0.0, 0.8):
        energy = sum(act.hermite(k, 1.0, bias) ** 2 / factorial(k) for k in range(15))
        whole = quad(lambda g, b=bias: act(g + b) ** 2 * np.exp(-g * g / 2) / sqrt(2 * pi), -14, 14, points=[-bias], limit=200)[0]
        assert 0.9 * whole < energy < whole * (1 + 1e-9)


def test_scale_and_bias_broadcast(act):
    scale, bias = np.array([[0.5], [1.0]]), np.array([-1.0, 0.0, 2.0])
    table = act.hermite(2, scale, bias)
    assert table.shape == (2, 3)
    each = [[act.hermite(2, float(s), float(b)) for b in bias] for s in scale[:, 0]]
    assert_allclose(table, each, rtol=1e-12, atol=1e-14)
    assert isinstance(act.hermite(2, 1, 0), float)
    assert act.hermite(2, np.ones((0, 2)), 0.0).shape == (0, 2)


def test_more_pairs_than_one_block(built_in):
    bias = np.linspace(-2, 2, 700)
    assert_allclose(built_in.hermite(1, 1.0, bias)[::233], [built_in.hermite(1, 1.0, float(b)) for b in bias[::233]], rtol=1e-12)


@pytest.mark.parametrize(("scale", "bias"), [(1e-6, 1.0), (1e-6, -1.0), (1.0, 200.0), (1.0, -200.0), (1e-3, 0.0)])
def test_extreme_units_are_locally_constant_or_still_quiet(built_in, scale, bias):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = [built_in.hermite(k, scale, bias) for k in range(5)]
    assert not np.isnan(found).any()
    if scale < 1e-5:  # a constant to first order
        assert_allclose(found[:2], [built_in(bias), scale * built_in.derivative(bias)], rtol=1e-6, atol=1e-12)


def test_steeper_than_any_panel():
    """As scale grows, sigmoid and tanh become steps, with an error of order 1/scale² at bias 0."""
    assert_allclose(sigmoid.hermite(1, 1e4), step.hermite(1), rtol=1e-7)
    assert_allclose(tanh.hermite(3, 1e4), 2 * step.hermite(3), rtol=1e-7)
    assert_allclose(softplus.hermite(2, 1e4) / 1e4, relu.hermite(2), rtol=1e-7)


def test_custom_kinks_are_split(hard_tanh):
    """hard tanh(t) = relu(t + 1) - relu(t - 1) - 1."""
    for k in range(7):
        for bias in (-0.4, 0.0, 2.0):
            want = relu.hermite(k, 1.7, bias + 1) - relu.hermite(k, 1.7, bias - 1) - (k == 0)
            assert_allclose(hard_tanh.hermite(k, 1.7, bias), want, atol=1e-13)


def test_steep_custom_activation():
    steep = Activation.custom("steep", lambda t: np.tanh(4 * t), lambda t: 4 * tanh.derivative(4 * t), parity="odd")
    assert_allclose(steep.hermite(3, 1.5, 0.2), tanh.hermite(3, 6.0, 0.8), atol=1e-12)


def test_exponential_far_out_is_infinite_not_a_warning():
    assert exponential(1).hermite(0, 100.0) == np.inf


@pytest.mark.parametrize(("arguments", "words"), [
    ((-1,), "order is -1"), ((1.5,), "whole number"), (("2",), "whole number"), ((2, 0.0), "scale is 0"),
    ((2, -1.0), "scale is -1"), ((2, np.array([1.0, np.nan])), "scale is nan"), ((2, np.inf), "scale is inf"),
    ((2, 1.0, np.nan), "bias is nan"), ((2, np.ones(2), np.ones(3)), "broadcast"), ((2, "a"), "scale has dtype"),
])
@pytest.mark.usefixtures("unchecked")
def test_refusals(built_in, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        built_in.hermite(*arguments)
