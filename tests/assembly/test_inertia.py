"""Signs of the readouts from the inertia of the second moment: in the population, from samples, and as a claim."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.assembly.unit_scalars import Inertia, inertia
from laybare.methods import NetworkFit
from laybare.methods.tensor_init import ReadoutSignCheck
from laybare.moments import population_moments

RELU2 = lb.power_relu(2)


def signs_of(network: lb.Network) -> Inertia:
    return Inertia(int(np.sum(network.readout > 0)), int(np.sum(network.readout < 0)))


def noisy_fit(network: lb.Network) -> NetworkFit:
    return NetworkFit(network, 1.0, 0.1)


@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(0.2), lb.absolute, RELU2, lb.softplus, lb.gelu], ids=str)
def test_population_inertia_counts_the_signs(activation):
    """Sylvester: independent weights, however badly conditioned, do not change the signs of Σ vᵢ c₂ w̄ᵢw̄ᵢᵀ."""
    for seed in range(30):
        truth = lb.random_network(7, 5, activation, biases=0, condition=10, readout="random", rng=seed)
        values = np.linalg.eigvalsh(population_moments(truth, 2).tensor(2)[0])
        clear = values[np.abs(values) > 1e-10]
        assert Inertia(int(np.sum(clear > 0)), int(np.sum(clear < 0))) == signs_of(truth)


@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(3.0), RELU2], ids=str)
def test_samples_show_the_signs(activation, rng):
    """A slope above 1 on the left makes c₂ negative: the signs of the eigenvalues are those of v times that of c₂."""
    truth = lb.random_network(12, 4, activation, biases=0, condition=2, rng=rng)
    x = rng.standard_normal((6000, 12))
    basis = np.linalg.qr(truth.layer.weights.T + 0.02 * rng.standard_normal((12, 4)))[0]
    assert inertia(lb.Samples(x, truth(x)), activation, basis) == signs_of(truth)


def test_never_more_of_a_sign_than_there_are():
    """Lower bounds stay below the truth with noise of half of sd(y) and few samples: 30 problems."""
    shown = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth = lb.random_network(10, 4, RELU2, biases=0, condition=2, rng=rng)
        x = rng.standard_normal((600, 10))
        y = truth(x)
        source = lb.Samples(x, y + 0.5 * y.std() * rng.standard_normal(600))
        seen, true = inertia(source, RELU2, np.linalg.qr(truth.layer.weights.T)[0]), signs_of(truth)
        assert seen.positive <= true.positive and seen.negative <= true.negative
        shown += sum(seen)
    assert shown > 60  # of 120: the bound says something


def test_claim_notices_a_wrong_sign(rng):
    truth = lb.random_network(10, 4, RELU2, biases=0, condition=2, rng=rng)
    x = rng.standard_normal((4000, 10))
    source = lb.Samples(x, truth(x))
    wrong = lb.Network(truth.layer, truth.readout * np.array([-1.0, 1.0, 1.0, 1.0]))
    right, other = (ReadoutSignCheck(truth)(source, noisy_fit(net))[0] for net in (truth, wrong))
    assert right.passed and right.value == 0
    assert not other.passed and other.value == 1 and "negative readouts" in other.explanation


def test_no_claim_where_the_moment_is_silent(rng):
    truth = lb.random_network(6, 3, lb.tanh, biases=0, rng=rng)
    x = rng.standard_normal((500, 6))
    assert ReadoutSignCheck(truth)(lb.Samples(x, truth(x)), noisy_fit(truth)) == ()
    with pytest.raises(lb.errors.Unidentifiable, match="tanh has Hermite coefficient"):
        inertia(lb.Samples(x, truth(x)), lb.tanh, np.eye(6)[:, :3])
    relu = lb.random_network(6, 3, biases=0, rng=rng)
    assert ReadoutSignCheck(relu)(lb.Samples(x, relu(x)), NetworkFit(relu, 1e-29, 1e-30)) == ()


def test_noisy_recovery_carries_the_claim(rng):
    truth = lb.random_network(8, 3, RELU2, biases=0, condition=2, rng=rng)
    x = rng.standard_normal((2000, 8))
    y = truth(x)
    found = lb.recover(lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(2000)), lb.TensorInit(activation=RELU2), 3, rng=rng)
    claim = next(claim for claim in found.certificate.checks if claim.name == "readouts of a sign that are missing")
    assert claim.passed and found.certificate.verdict == "verified", found.certificate.explain()
