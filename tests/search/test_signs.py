"""Signs settled by the data: one pattern where the samples tell, a failed claim where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.certificate import Claim
from laybare.networks import sign_free
from laybare.planted import random_network
from laybare.search.settings import Search, SearchContext
from laybare.search.signs import choose_signs, match_signs
from laybare.solver.point import Model
from laybare.source.problem import total_variation


def blurred(network: lb.Network, rng: np.random.Generator) -> lb.Network:
    """The sign-free form with a linear part that noise has moved: it no longer says which signs are right."""
    folded = sign_free(network)
    linear = folded.linear + 0.3 * rng.standard_normal(folded.linear.shape)
    return lb.Network(folded.layer, folded.readout, folded.offset, linear)


def samples(network: lb.Network, noise: float, rng: np.random.Generator) -> lb.Samples:
    x = rng.standard_normal((500, network.dim))
    return lb.Samples(x, network(x) + noise * rng.standard_normal(500))


def settled_signs(data: lb.Samples, folded: lb.Network, activation: lb.Activation, loss: float) -> tuple[lb.Network, Claim]:
    scale = total_variation(data)
    context = SearchContext(data, Model(lb.absolute, linear=True), Search(), scale, np.random.default_rng(0))
    return choose_signs(context, folded, match_signs(folded, activation, loss, scale), loss)


@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(0.2)], ids=lambda activation: activation.name)
def test_noise_lets_patterns_through_and_the_refit_decides(activation: lb.Activation, rng: np.random.Generator) -> None:
    truth = random_network(4, 3, activation, biases=0.5, rng=rng)
    loose = 500 * 0.5 * np.var(truth(rng.standard_normal((500, 4))))  # as if half of y were noise: every pattern passes
    network, claim = settled_signs(samples(truth, 0.05, rng), blurred(truth, rng), activation, loose)
    assert claim.passed
    assert claim.kind == "tested"
    assert network.linear is None
    assert lb.compare(network, truth).max_error < 0.1  # a unit turned over counts 1


def test_without_noise_the_linear_part_decides(rng: np.random.Generator) -> None:
    truth = random_network(4, 3, rng=rng)
    network, claim = settled_signs(samples(truth, 0.0, rng), sign_free(truth), lb.relu, 0.0)
    assert claim.passed
    assert claim.kind == "proved"
    assert lb.compare(network, truth).max_error < 1e-13


def test_units_alone_that_fit_exactly_need_no_linear_part(rng: np.random.Generator) -> None:
    truth = random_network(4, 3, rng=rng)
    folded = blurred(truth, rng)
    network, claim = settled_signs(samples(truth, 0.0, rng), folded, lb.relu, 0.0)
    assert claim.passed and network.linear is None
    assert lb.compare(network, truth).max_error < 1e-10


def test_linear_part_that_no_signs_explain_is_kept(rng: np.random.Generator) -> None:
    truth = random_network(4, 3, rng=rng)
    folded = blurred(truth, rng)
    network, claim = settled_signs(samples(truth, 0.3, rng), folded, lb.relu, 0.0)
    assert not claim.passed
    assert "which was kept" in claim.explanation
    x = rng.standard_normal((20, 4))
    np.testing.assert_allclose(network(x), folded(x), rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_slope_that_noise_lets_signs_explain_is_kept_where_they_fit_worse(seed: int) -> None:
    """Hinges beside a trend: signs are off by less than the tolerance for noise, and units alone misplace a kink."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, 400)
    signal = 0.5 * x + 2.0 * np.maximum(x - 3.0, 0.0) - 3.0 * np.maximum(x - 7.0, 0.0)
    y = signal + 0.15 * signal.std() * rng.standard_normal(400)
    found = lb.recover(x[:, None], y, activation="relu", rng=0)
    kinks = sorted(unit.location.value for unit in found.summary().units)
    np.testing.assert_allclose(kinks, [3.0, 7.0], atol=0.4)  # 0.1 and 0.06 are their standard errors; without a slope 0.5 off
    assert found.certificate.verdict != "refuted" and found.network.linear is not None
