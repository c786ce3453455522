"""Names as text."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from laybare.activations import activation_named, exponential, leaky_relu, power_relu, relu, tanh
from laybare.errors import InvalidInput


def test_names_come_back(built_in):
    assert activation_named(built_in.name) == built_in
    assert activation_named(built_in.name).name == built_in.name == repr(built_in)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_survives_the_text(number):
    assume(number not in (0, 1))
    for make in (leaky_relu, exponential):
        act = make(number)
        assert activation_named(act.name) == act
        assert activation_named(act.name)(-1.0) == act(-1.0)


def test_spelling():
    assert leaky_relu(0.1).name == "leaky_relu(0.1)"
    assert power_relu(2.0).name == "power_relu(2)"
    assert power_relu(np.int64(2)).name == "power_relu(2)"
    assert exponential(-0.5).name == "exponential(-0.5)"
    assert activation_named(" leaky_relu( 1e-1 ) ") == leaky_relu(0.1)


@pytest.mark.parametrize("text", [
    "", "swish", "ReLU", "relu()", "relu(1)", "leaky_relu", "power_relu()", "leaky_relu(0.1", "leaky_relu(0.1, 2)",
    "leaky_relu(nan)", "leaky_relu(1)", "power_relu(inf)", "power_relu(0.5)", "power_relu(1e9)", "exponential(0)",
    "leaky_relu(__import__('os'))", "tanh; relu", None, 3])
@pytest.mark.usefixtures("unchecked")
def test_nonsense_is_refused(text):
    with pytest.raises(InvalidInput):
        activation_named(text)


def test_refusal_lists_what_is_known():
    with pytest.raises(InvalidInput, match=r"relu, .*tanh.*leaky_relu\(0\.1\), power_relu\(2\), exponential\(0\.5\)"):
        activation_named("swish")


def test_custom_names_are_refused_with_their_reason(hard_tanh):
    assert hard_tanh.name == "custom:hard tanh"
    with pytest.raises(InvalidInput, match=r"Activation\.custom"):
        activation_named(hard_tanh.name)


@pytest.mark.parametrize(("make", "number"), [
    (leaky_relu, 1), (leaky_relu, np.inf), (leaky_relu, "steep"), (leaky_relu, None), (power_relu, 0.99), (power_relu, 101),
    (power_relu, np.nan), (exponential, 0), (exponential, np.nan)])
@pytest.mark.usefixtures("unchecked")
def test_impossible_parameters_are_refused(make, number):
    with pytest.raises(InvalidInput):
        make(number)


def test_plain_names_are_the_objects_themselves():
    assert activation_named("relu") is relu
    assert activation_named("tanh") is tanh
