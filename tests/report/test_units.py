"""True and recovered units side by side: the same numbers that `compare` sees, one gauge for both."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.planted import random_network
from laybare.report import pair_units


def disguised(network: lb.Network, rng: np.random.Generator) -> lb.Network:
    """The same function: other order; other scale and sign where they are free."""
    w, b, a = network.layer.weights, network.layer.biases, network.readout.copy()
    scale = np.exp(rng.normal(size=len(w))) if network.activation.degree is not None else np.ones(len(w))
    sign = rng.choice([-1.0, 1.0], len(w)) if network.activation.parity is not None else np.ones(len(w))
    order = rng.permutation(len(w))
    readout = a * np.where(network.activation.parity == "odd", sign, 1.0) / scale ** (network.activation.degree or 0)
    layer = lb.Layer(((scale * sign)[:, None] * w)[order], (scale * sign * b)[order], network.activation)
    return lb.Network(layer, readout[order], network.offset)


@pytest.mark.parametrize("activation", [lb.relu, lb.tanh, lb.absolute, lb.sigmoid, lb.power_relu(2)], ids=lambda act: act.name)
def test_disguise_is_seen_through(activation: lb.Activation, rng: np.random.Generator) -> None:
    truth = random_network(4, 5, activation, readout="random", rng=rng)
    pairs = pair_units(disguised(truth, rng), truth)
    assert [pair.number for pair in pairs] == list(range(5))
    assert sorted(pair.found_number for pair in pairs) == list(range(5))
    assert max(pair.difference for pair in pairs) < 1e-14


def test_difference_is_the_largest_of_the_numbers_shown(rng: np.random.Generator) -> None:
    truth = random_network(3, 2, lb.tanh, outputs=2, rng=rng)
    readout = truth.readout.copy()
    readout[1, 0] += 0.25
    pairs = pair_units(lb.Network(truth.layer, readout), truth)
    assert_allclose([pair.difference for pair in pairs], [0.0, 0.25], atol=1e-15)
    assert_allclose(pairs[1].found.readout, readout[1])


def test_units_without_partner_are_left_out(rng: np.random.Generator) -> None:
    truth = random_network(3, 4, rng=rng)
    half = lb.Network(lb.Layer(truth.layer.weights[:2], truth.layer.biases[:2]), truth.readout[:2])
    assert [pair.number for pair in pair_units(half, truth)] == [0, 1]
    assert len(pair_units(truth, half)) == 2
