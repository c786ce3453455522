"""Values, derivatives and declared symmetries."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

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

T = np.array([-2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 3.0])


@pytest.mark.parametrize(("act", "formula"), [
    (relu, lambda t: t * (t > 0)),
    (leaky_relu(0.1), lambda t: t * (t > 0) + 0.1 * t * (t <= 0)),
    (power_relu(2), lambda t: t**2 * (t > 0)),
    (power_relu(3), lambda t: t**3 * (t > 0)),
    (power_relu(7), lambda t: t**7 * (t > 0)),
    (power_relu(1.5), lambda t: np.abs(t) ** 1.5 * (t > 0)),
    (absolute, lambda t: t * np.sign(t)),
    (sigmoid, lambda t: 1 / (1 + np.exp(-t))),
    (tanh, lambda t: (np.exp(t) - np.exp(-t)) / (np.exp(t) + np.exp(-t))),
    (erf, lambda t: 1 - special.erfc(t)),
    (softplus, lambda t: np.log(1 + np.exp(t))),
    (gelu, lambda t: t * (1 + special.erf(t / np.sqrt(2))) / 2),
    (step, lambda t: 1.0 * (t > 0)),
    (exponential(0.5), lambda t: np.exp(t / 2)),
], ids=lambda value: value.name if hasattr(value, "name") else "formula")
def test_value_is_its_formula(act, formula):
    assert_allclose(act(T), formula(T), rtol=1e-14, atol=1e-15)


def test_derivative_is_the_limit_of_differences(act):
    t = np.setdiff1d(np.linspace(-4, 4, 161), act.kinks)
    h = 1e-5  # error h²/6 |act'''|, at most 1e-9 here (third power, exponential)
    assert_allclose(act.derivative(t), (act(t + h) - act(t - h)) / (2 * h), rtol=1e-8, atol=3e-9)


@pytest.mark.parametrize(("act", "at_kink"), [
    (relu, 0.0), (leaky_relu(0.1), 0.1), (power_relu(2), 0.0), (power_relu(1.5), 0.0), (absolute, 0.0), (step, 0.0)], ids=str)
def test_derivative_at_the_kink(act, at_kink):
    assert act.kinks == (0.0,)
    assert act.derivative(0.0) == at_kink


def test_step_is_zero_at_zero():
    assert_array_equal(step(np.array([-1e-300, 0.0, 1e-300])), [0, 0, 1])


def test_floats_in_floats_out_and_shapes_kept(act):
    for function in (act, act.derivative):
        assert isinstance(function(0.3), float)
        assert isinstance(function(1), float)
        assert function(np.ones((2, 0, 3))).shape == (2, 0, 3)
        block = function(np.arange(6).reshape(2, 3))
        assert block.shape == (2, 3)
        assert block.dtype == np.float64


def test_input_is_not_written_to(act):
    t = T.copy()
    t.setflags(write=False)
    act(t), act.derivative(t)
    assert_array_equal(t, T)


@pytest.mark.parametrize("size", [1e4, 1e200])
def test_huge_inputs_give_no_warning_and_no_nan(act, size):
    t = np.array([-size, size])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert not np.isnan(act(t)).any()
        assert not np.isnan(act.derivative(t)).any()


def test_tails_keep_their_digits():
    """Naive forms (1 - tanh², log(1 + eᵗ)) return 0 or inf at these points."""
    assert_allclose(sigmoid.derivative(np.array([-50.0, 50.0])), np.exp(-50), rtol=1e-13)
    assert_allclose(tanh.derivative(np.array([-30.0, 30.0])), 4 * np.exp(-60), rtol=1e-13)
    assert_allclose(softplus(np.array([-50.0, 1e4])), [np.exp(-50), 1e4], rtol=1e-13)
    assert_allclose(sigmoid(-700.0), np.exp(-700), rtol=1e-12)
    assert exponential(2)(1e4) == np.inf


def test_declared_symmetries_hold(act):
    t = np.linspace(0.01, 5, 100)
    if act.degree is not None:
        for c in (0.3, 7.0):
            assert_allclose(act(c * np.r_[-t, t]), c**act.degree * act(np.r_[-t, t]), rtol=1e-13)
    if act.centre is not None:
        assert_allclose(act(t) + act(-t), 2 * act.centre, atol=1e-14)
    if act.mirror is not None:
        assert_allclose(act(t) - act(-t), act.mirror * t, atol=1e-14)


def test_undeclared_symmetries_do_not_hold(act):
    t = np.linspace(0.01, 5, 100)
    if act.centre is None:
        assert np.ptp(act(t) + act(-t)) > 0.1
    if act.mirror is None:
        assert np.ptp((act(t) - act(-t)) / t) > 0.1
    if act.degree is None:
        slopes = np.log2(np.abs(act(2 * t) / act(t)))
        assert np.ptp(slopes) > 0.1


def test_table_of_symmetries():
    table = {
        relu: (1, None, 1, None), leaky_relu(0.1): (1, None, 1.1, None), power_relu(2): (2, None, None, None),
        absolute: (1, None, 0, "even"), sigmoid: (None, 0.5, None, None), tanh: (None, 0, None, "odd"),
        erf: (None, 0, None, "odd"), softplus: (None, None, 1, None), gelu: (None, None, 1, None),
        step: (0, 0.5, None, None), exponential(1): (None, None, None, None)}
    for act, row in table.items():
        assert (act.degree, act.centre, act.mirror, act.parity) == row, act


def test_activations_are_values(act):
    assert {act: 1}[act] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        act.name = "other"
    assert copy.deepcopy(act) == act


def test_built_in_activations_travel_between_processes(built_in):
    twin = pickle.loads(pickle.dumps(built_in))
    assert twin == built_in
    assert hash(twin) == hash(built_in)
    assert_array_equal(twin(T), built_in(T))


def test_equality_is_by_kind_and_parameter():
    assert leaky_relu(0.1) == leaky_relu(np.float64(0.1))
    assert leaky_relu(0.1) != leaky_relu(0.2)
    assert power_relu(2) == power_relu(2.0) != power_relu(3)
    assert leaky_relu(0) == power_relu(1) == relu
    assert leaky_relu(-1) == absolute


# custom ---------------------------------------------------------------------------------------------------------------------

def test_custom_agrees_with_the_built_in():
    mine = Activation.custom("mine", softplus.value, softplus.slope, mirror=1.0)
    assert_array_equal(mine(T), softplus(T))
    assert_array_equal(mine.hermite(3, T[-3:], 1.0), softplus.hermite(3, T[-3:], 1.0))
    assert mine.properties(0.7) == softplus.properties(0.7)
    assert mine != softplus


def test_custom_equality_is_by_callables(hard_tanh):
    value, derivative = hard_tanh.origin
    assert Activation.custom("hard tanh", value, derivative, kinks=(1, -1), parity="odd") == hard_tanh
    assert Activation.custom("hard tanh", lambda t: value(t), derivative, kinks=(1, -1), parity="odd") != hard_tanh


@pytest.mark.parametrize(("change", "words"), [
    ({"name": " "}, "name"),
    ({"derivative": np.sin}, "slope"),
    ({"derivative": lambda t: np.cos(t)[:3]}, "whole arrays"),
    ({"value": lambda t: 1.0}, "whole arrays"),
    ({"value": lambda t: np.sqrt(np.maximum(t, 0)) / (t > 0)}, "not finite"),
    ({"degree": 1}, "degree 1"),
    ({"parity": "even"}, "mirror 0"),
    ({"parity": "both"}, "'both'"),
    ({"parity": "odd", "centre": 0.5}, "Odd means"),
    ({"centre": 0.5}, "centre 0.5"),
    ({"mirror": 1.0}, "mirror 1"),
    ({"kinks": (np.nan,)}, "finite"),
])
@pytest.mark.usefixtures("unchecked")
def test_custom_refuses_what_does_not_hold(change, words):
    claims = {"name": "sine", "value": np.sin, "derivative": np.cos, "parity": "odd"}
    assert Activation.custom(**claims).parity == "odd"
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match=words):
        Activation.custom(**{**claims, **change})


def test_second_derivative_is_the_limit_of_differences(act):
    t = np.setdiff1d(np.linspace(-4, 4, 161), act.kinks)
    h = 1e-5
    assert_allclose(act.second_derivative(t), (act.derivative(t + h) - act.derivative(t - h)) / (2 * h), rtol=1e-7, atol=3e-8)


@pytest.mark.parametrize("act", [relu, leaky_relu(0.1), absolute, step, power_relu(2), power_relu(1.5)], ids=str)
def test_second_derivative_at_a_kink_is_that_of_the_left_piece(act):
    assert act.second_derivative(0.0) == 0.0


def test_second_derivative_of_custom_activations():
    hat = Activation.custom("bent", lambda t: np.where(t > 1, t**2 / 2, t - 0.5), lambda t: np.where(t > 1, t, 1.0), kinks=(1,))
    assert_allclose(hat.second_derivative(np.array([-3.0, 1.0, 1.0 + 1e-9, 2.0])), [0.0, 0.0, 1.0, 1.0], atol=1e-8)
