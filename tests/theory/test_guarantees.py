"""The theorems' quantities: formulas on a planted network, conditions for each activation, and words about what is not known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.theory.guarantees import (
    Guarantee,
    descent_rate,
    global_recovery,
    local_convexity,
    moment_assumptions,
    start_accuracy,
)

RELU2 = lb.power_relu(2)
RHO, VOLUME = 4 / np.pi - 1, 1.25 * 1.5 * 1.75 * 2
QUINTIC = lb.Activation.custom(
    "quintic", lambda t: t**5 - 10 * t**3 + 15 * t + t**2, lambda t: 5 * t**4 - 30 * t**2 + 15 + 2 * t)
"""He₅ + t²: at scale 1 its moments of orders 1 and 3 vanish, and it is not even."""


@pytest.fixture
def planted(rng):
    """κ = 2, λ = 6.5625, ν = 1, σ₁ = 2, p = 1, ρ(σ_k) = 4/π - 1, d = 20, k = 5."""
    return lb.random_network(20, 5, RELU2, biases=0, condition=2, rng=rng)


def everything(network: lb.Network) -> list[Guarantee]:
    return [local_convexity(network), descent_rate(network), start_accuracy(network, 1000), global_recovery(network, 1e-6)]


def test_formulas(planted):
    least, largest, growth, tau = RHO / (4 * VOLUME), 20.0, 4 / RHO, 3.0**4 / (RHO / 4) ** 2
    convexity = local_convexity(planted, confidence=2)
    assert_allclose([convexity["least eigenvalue"], convexity["largest eigenvalue"]], [least, largest], rtol=1e-9)
    assert_allclose(convexity["relative radius"], 1 / (5 * VOLUME * growth), rtol=1e-9)
    assert_allclose(convexity["samples"], 20 * np.log(20) * 2 * 5 * tau * VOLUME * growth, rtol=1e-9)
    assert_allclose(convexity["probability of failure"], 1 / 400, rtol=1e-9)
    rate = descent_rate(planted)
    assert_allclose([rate["step"], rate["contraction"]], [1 / largest, 1 - least / largest], rtol=1e-9)
    start = start_accuracy(planted, 1000)
    assert_allclose(start["epsilon"], np.sqrt(20 * 5 * 2 * np.log(20) / 1000), rtol=1e-9)
    assert_allclose(start["relative error of the start"], 10 * start["epsilon"], rtol=1e-9)
    recovery = global_recovery(planted, 1e-6)
    assert_allclose(recovery["samples"], 20 * np.log(1e6) * np.log(20) * 5 * VOLUME, rtol=1e-9)
    assert_allclose(recovery["steps"], np.log(1e6) * 5 * VOLUME * growth, rtol=1e-9)
    assert recovery["step"] == rate["step"]


def test_scaling_in_samples_and_dimension(rng):
    """What the theorems are about: the start's error falls like √(d/n), up to the logarithm; samples grow like d log d."""
    small, large = (lb.random_network(dim, 3, RELU2, biases=0, condition=1, rng=rng) for dim in (8, 64))
    assert_allclose(start_accuracy(small, 400)["epsilon"], 2 * start_accuracy(small, 1600)["epsilon"])
    ratio = local_convexity(large)["samples"] / local_convexity(small)["samples"]
    assert_allclose(ratio, 8 * np.log(64) / np.log(8), rtol=1e-6)


@pytest.mark.parametrize(("activation", "applies"), [
    (RELU2, (True, True, True, True)), (lb.relu, (True, False, True, False)), (lb.leaky_relu(0.01), (True, False, True, False)),
    (lb.tanh, (True, True, False, False)), (lb.sigmoid, (True, True, False, False)), (lb.erf, (True, True, False, False)),
    (lb.power_relu(3), (False, False, True, False)), (lb.absolute, (False, False, True, False))], ids=str)
def test_which_theorems_apply(activation, applies, rng):
    """Theorem 3.5 and the conditions printed: ReLU is not smooth, sigmoids are not homogeneous, |t| has negative slopes."""
    network = lb.random_network(6, 3, activation, biases=0, condition=1.5, rng=rng)
    assert tuple(one.applies for one in everything(network)) == applies


def test_every_number_says_what_is_not_known(planted):
    for guarantee in everything(planted):
        said = ("not known", "as printed", "no constant left open")
        assert all(any(words in bound.open for words in said) for bound in guarantee.bounds)
        text = str(guarantee)
        assert all(bound.open in text and bound.formula in text for bound in guarantee.bounds)
        assert "not known" in text and "FAIL" not in text


def test_parity_conditions():
    """Assumption 5.3 (3): moments that do not tell w from -w belong to an even activation."""
    assert all(holds for _, holds in moment_assumptions(lb.absolute))
    assert all(holds for _, holds in moment_assumptions(lb.sigmoid))
    assert [holds for _, holds in moment_assumptions(QUINTIC)] == [False, False, True]


def test_nonsense_is_refused(planted):
    with pytest.raises(lb.errors.InvalidInput, match="accuracy is 2"):
        global_recovery(planted, 2.0)
    with pytest.raises(lb.errors.InvalidInput, match="samples is 0"):
        start_accuracy(planted, 0)
    with pytest.raises(lb.errors.InvalidInput, match="confidence is -1"):
        local_convexity(planted, confidence=-1.0)
    with pytest.raises(lb.errors.InvalidInput, match="independent weight vectors"):
        local_convexity(lb.random_network(3, 4, biases=0))
