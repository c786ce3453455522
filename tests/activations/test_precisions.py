"""Value and derivative at once, in the precision of the argument."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb

BUILT_IN = [
    lb.relu, lb.leaky_relu(0.1), lb.power_relu(2), lb.absolute, lb.sigmoid, lb.tanh, lb.erf, lb.softplus, lb.gelu, lb.step,
    lb.exponential(0.5)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", BUILT_IN, ids=lambda a: a.name)
def test_both_have_the_precision_of_the_argument(activation, dtype, rng):
    t = 2.0 * rng.standard_normal((40, 5))
    value, slope = activation.value_and_slope(t.astype(dtype))
    assert value.dtype == slope.dtype == dtype
    close = 20.0 * np.finfo(dtype).eps
    assert_allclose(value, activation(t.astype(dtype)), rtol=close, atol=close)
    assert_allclose(slope, activation.derivative(t.astype(dtype)), rtol=close, atol=close)


def test_a_callable_that_returns_its_argument_does_not_share_memory_with_it():
    square = lb.Activation.custom("square", lambda t: 0.5 * t * t, lambda t: t, degree=None)
    t = np.linspace(-1.0, 1.0, 5)
    _, slope = square.value_and_slope(t)
    t[:] = 7.0
    assert_allclose(slope, np.linspace(-1.0, 1.0, 5))
