"""One of each: every test that asks for `act` runs on all of them."""

import numpy as np
import pytest

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


def hard_tanh_slope(t):
    return np.abs(t) < 1  # bools, as a user may well write it


HARD_TANH = Activation.custom("hard tanh", lambda t: np.clip(t, -1, 1), hard_tanh_slope, kinks=(-1, 1), parity="odd")

BUILT_IN = (
    relu, leaky_relu(0.1), leaky_relu(-0.3), power_relu(2), power_relu(3), power_relu(1.5), power_relu(2.7), absolute, sigmoid,
    tanh, erf, softplus, gelu, step, exponential(0.5), exponential(-1),
)


@pytest.fixture(params=(*BUILT_IN, HARD_TANH), ids=str, scope="session")
def act(request):
    return request.param


@pytest.fixture(params=BUILT_IN, ids=str, scope="session")
def built_in(request):
    return request.param


@pytest.fixture
def hard_tanh():
    return HARD_TANH
