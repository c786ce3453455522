"""Outputs whose parity contradicts that of the units are refused with the reason, and only those."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.moments.measurement import check_parity

COSINE = lb.Activation.custom("cosine", np.cos, lambda t: -np.sin(t), parity="even")


def samples(
    activation: lb.Activation, rng: np.random.Generator, n: int = 2000, biases: float = 0.0, outputs: int = 1
) -> lb.Samples:
    truth = lb.random_network(6, 3, activation, outputs, biases=biases, readout="random", rng=rng)
    x = rng.standard_normal((n, 6))
    return lb.Samples(x, truth(x), law=lb.Gaussian(0, 1))


@pytest.mark.parametrize(("given", "true"), [
    (lb.absolute, lb.tanh), (lb.absolute, lb.relu), (COSINE, lb.sigmoid), (lb.tanh, lb.absolute), (lb.sigmoid, lb.relu),
    (lb.erf, COSINE)], ids=str)
def test_mismatch_is_refused(given, true, rng):
    has = "odd" if given.mirror == 0 else "even"
    with pytest.raises(lb.errors.AssumptionViolated, match=f"The outputs have an {has} part.*another kind"):
        lb.recover(samples(true, rng), lb.TensorInit(activation=given), 3, rng=rng)


def test_biases_of_odd_units_are_noticed(rng):
    with pytest.raises(lb.errors.AssumptionViolated, match="allows biases"):
        lb.recover(samples(lb.tanh, rng, biases=1.0), lb.TensorInit(activation=lb.tanh), 3, rng=rng)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("activation", [lb.absolute, lb.tanh, lb.sigmoid, lb.relu, lb.power_relu(2), COSINE], ids=str)
def test_right_parity_passes(activation, outputs):
    """40 problems each, in every one of which a false alarm has chance 1/30,000; noise and few samples included."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        source = samples(activation, rng, n=60 if seed % 2 else 500, outputs=outputs)
        x, y = source.read(0, source.size)
        check_parity(lb.Samples(x, y + rng.standard_normal(y.shape)), activation)


def test_inputs_with_a_mean_are_left_to_the_certificate(rng):
    truth = lb.random_network(6, 3, lb.tanh, biases=0, rng=rng)
    x = rng.standard_normal((2000, 6)) + 0.5
    check_parity(lb.Samples(x, truth(x)), lb.tanh)
