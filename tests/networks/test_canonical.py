"""Canonical forms: the same function, their own canonical form, equal for symmetric copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sample_networks import ACTIVATIONS, copy_of, networks

from laybare.activations import absolute, exponential, power_relu, relu, sigmoid, step, tanh
from laybare.networks import Layer, Network

WIDE = st.floats(-3, 3, allow_subnormal=False)


def one_unit(activation, w, b, a, **rest):
    return Network(Layer(np.atleast_2d(np.array(w, dtype=float)), np.array([float(b)]), activation), np.array([float(a)]), **rest)



def assert_same_numbers(left, right, atol):
    assert left.width == right.width
    assert (left.linear is None) == (right.linear is None)
    for mine, theirs in zip((left.layer.weights, left.layer.biases, *left.columns),
                            (right.layer.weights, right.layer.biases, *right.columns), strict=True):
        assert_allclose(mine, theirs, rtol=atol, atol=atol)


# Law: nothing about the function changes. Subnormal and huge scales come in through WIDE.

@given(networks(WIDE), st.integers(0, 99))
@example(one_unit(relu, [1e-308, 0], 3, 2), 0)
@example(one_unit(power_relu(2), [1e-200, 0], 0, 2), 0)
@example(one_unit(step, [1e-300, 0], -1e-300, 2), 0)
def test_canonical_form_is_the_same_function(net, seed):
    x = np.random.default_rng(seed).normal(size=(30, net.dim))
    assert_allclose(net.canonical()(x), net(x), rtol=1e-10, atol=1e-10)  # values are at most about 1e3


@given(networks())
def test_canonical_form_is_its_own_to_the_last_bit(net):
    once = net.canonical()
    twice = once.canonical()
    assert_same_numbers(once, twice, atol=0)


@given(net=networks(), seed=st.integers(0, 999))
def test_symmetric_copies_have_one_canonical_form(net, seed):
    copy = copy_of(net, np.random.default_rng(seed))
    assert_same_numbers(net.canonical(), copy.canonical(), atol=1e-11)


@given(networks())
def test_canonical_form_has_no_free_choice_left(net):
    form, activation = net.canonical(), net.activation
    w, a = form.layer.weights, form.columns[0]
    assert w.any(axis=1).all()
    assert a.any(axis=1).all()
    if activation.degree is not None:
        assert_allclose(np.linalg.norm(w, axis=1), 1, rtol=1e-12)
    if activation.centre is not None or activation.mirror == 0 or (activation.mirror is not None and net.linear is not None):
        assert all(row[np.abs(row) > 1e-6][0] > 0 for row in w)
    assert w[:, 0].tolist() == pytest.approx(sorted(w[:, 0]), abs=1e-8)


# Exact: one case of each symmetry, by hand.

def test_homogeneous_rows_become_units():
    form = one_unit(power_relu(2), [3, 4], 10, 7).canonical()
    assert_array_equal(form.layer.weights, [[0.6, 0.8]])
    assert_array_equal(form.layer.biases, [2])
    assert_array_equal(form.readout, [7 * 25])


def test_step_keeps_its_readout():
    form = one_unit(step, [3, 4], 10, 7).canonical()
    assert_array_equal(form.layer.weights, [[0.6, 0.8]])
    assert_array_equal(form.layer.biases, [2])
    assert_array_equal(form.readout, [7])


def test_odd_units_turn_with_their_readout():
    form = one_unit(tanh, [0, -2, 1], 3, 5, offset=1.0).canonical()
    assert_array_equal(form.layer.weights, [[0, 2, -1]])
    assert not np.signbit(form.layer.weights[0, 0])
    assert_array_equal(form.layer.biases, [-3])
    assert_array_equal(form.readout, [-5])
    assert form.offset == 1


def test_even_units_turn_alone():
    form = one_unit(absolute, [-1, 0], 3, 5).canonical()
    assert_array_equal(form.layer.weights, [[1, 0]])
    assert_array_equal(form.layer.biases, [-3])
    assert_array_equal(form.readout, [5])


def test_sigmoid_turns_into_the_offset():
    form = one_unit(sigmoid, [-1, 0], 3, 5, offset=1.0).canonical()  # 5σ(u) = 5 - 5σ(-u)
    assert_array_equal(form.layer.weights, [[1, 0]])
    assert_array_equal(form.readout, [-5])
    assert form.offset == 6


def test_relu_turns_only_if_a_linear_part_can_take_it_up():
    alone = one_unit(relu, [-1, 0], 3, 5).canonical()
    assert alone.linear is None
    assert_array_equal(alone.layer.weights, [[-1, 0]])
    form = one_unit(relu, [-1, 0], 3, 5, linear=np.array([1.0, 1.0])).canonical()  # 5 relu(u) = 5 relu(-u) + 5u
    assert_array_equal(form.layer.weights, [[1, 0]])
    assert_array_equal(form.layer.biases, [-3])
    assert_array_equal(form.readout, [5])
    assert_array_equal(form.linear, [-4, 1])
    assert form.offset == 15


def test_exponential_has_no_bias():
    form = one_unit(exponential(0.5), [1, 2], 3, 5).canonical()
    assert_array_equal(form.layer.biases, [0])
    assert_allclose(form.readout, [5 * np.exp(1.5)], rtol=1e-15)


def test_exponential_keeps_a_bias_that_no_readout_can_hold():
    form = one_unit(exponential(1.0), [1, 2], -2000, 5).canonical()
    assert_array_equal(form.layer.biases, [-2000])


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_units_without_effect_disappear(activation):
    w = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [1.0, 2.0]])
    b = np.array([0.5, 0.7, 0.5, 0.1, 0.5])
    net = Network(Layer(w, b, activation), np.array([0.25, 2.0, 0.5, 0.0, 0.125]), 1.0)
    form = net.canonical()
    assert form.width == 1
    assert_allclose(form.offset, 1 + 2 * activation(0.7), rtol=1e-15)
    if activation.degree is None and not activation.name.startswith("exponential"):
        assert_array_equal(form.readout, [0.875])


def test_readouts_that_cancel_up_to_rounding_leave_nothing():
    w = np.array([[1.0, 2.0], [3.0, 6.0], [7.0, 14.0]])
    assert Network(Layer(w), np.array([0.3, 0.1, -0.6 / 7])).canonical().width == 0


def test_parallel_units_merge_only_with_parallel_biases():
    w = np.array([[1.0, 2.0], [3.0, 6.0]])
    assert Network(Layer(w, np.array([1.0, 3.0])), np.ones(2)).canonical().width == 1
    assert Network(Layer(w, np.array([1.0, 3.0 + 1e-9])), np.ones(2)).canonical().width == 2


def test_rounding_does_not_decide_the_order(rng):
    w = np.array([[1.0, 0.0, 5.0], [1.0, 1.0, -5.0], [1.0, 0.0, -2.0]])
    for _ in range(20):
        noisy = w * (1 + 1e-15 * rng.normal(size=w.shape)) + 1e-16 * rng.normal(size=w.shape)
        form = Network(Layer(noisy, activation=tanh), np.array([1.0, 2.0, 3.0])).canonical()
        assert_array_equal(form.readout, [3, 1, 2])


def test_units_too_close_for_the_order_are_ordered_all_the_same(rng):
    w = np.array([[1.0, 3.0], [1.0 + 2e-10, 3.0], [1.0 + 1e-10, 3.0]])
    for _ in range(5):
        order = rng.permutation(3)
        form = Network(Layer(w[order], activation=tanh), np.array([1.0, 3.0, 2.0])[order]).canonical()
        assert_array_equal(form.readout, [1, 2, 3])


def test_row_too_short_for_its_bias_is_a_constant():
    form = one_unit(relu, [1e-308, 0], 3, 2).canonical()
    assert (form.width, form.offset) == (0, 6)


def test_row_too_short_for_its_degree_stays_as_it_is():
    form = one_unit(power_relu(2), [1e-200, 0], 0, 2).canonical()  # 2|w|² is not a float
    assert_array_equal(form.layer.weights, [[1e-200, 0]])
    assert_array_equal(form.readout, [2])


def test_width_zero_is_a_network():
    form = Network(Layer(np.zeros((2, 3)), np.ones(2)), np.ones((2, 2)), 1.0).canonical()
    assert (form.width, form.dim, form.outputs) == (0, 3, 2)
    assert_array_equal(form(np.ones((1, 3))), [[3, 3]])
