"""Signs of ReLU units from the linear part of the data."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.assembly.sign_decoding import absolute_form, absorb_linear, decode_signs, restore_signs
from laybare.networks import sign_free


@pytest.mark.parametrize(("equations", "units"), [(10, 1), (10, 5), (10, 10), (10, 16), (8, 12), (8, 30), (9, 40)])
def test_planted_signs_are_decoded(equations, units, rng):
    vectors = rng.standard_normal((units, equations))
    signs = rng.choice([-1.0, 1.0], units)
    target = signs @ vectors + 1e-13 * rng.standard_normal(equations)
    decoded = decode_signs(vectors, target)
    assert decoded.unique and np.array_equal(decoded.signs, signs)
    assert decoded.residual < 1e-11 < decoded.runner_up


def test_noise_beyond_the_tolerance_leaves_no_pattern(rng):
    vectors = rng.standard_normal((12, 5))
    decoded = decode_signs(vectors, 0.3 * rng.standard_normal(5), tol=1e-9)
    assert decoded.alternatives == () and not decoded.unique and decoded.residual > 1e-9


def test_noisy_but_overdetermined_signs_survive(rng):
    vectors = rng.standard_normal((6, 20))
    signs = rng.choice([-1.0, 1.0], 6)
    decoded = decode_signs(vectors, signs @ vectors + 0.05 * rng.standard_normal(20), tol=0.1)
    assert np.array_equal(decoded.signs, signs)


def test_too_many_free_signs_are_not_searched(rng):
    decoded = decode_signs(rng.standard_normal((60, 4)), np.zeros(4))
    assert not decoded.searched and not decoded.unique


def test_claim_4_8_two_functions_equal_signs_not_identifiable(rng):
    """b = 0 and readouts in the null space of W: flipping all units changes nothing (Awasthi et al. 2021, Claim 4.8)."""
    rows = rng.standard_normal((4, 3))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    readout = np.linalg.svd(rows.T)[2][-1]
    truth = lb.Network(lb.Layer(rows, None, lb.relu), readout)
    flipped = lb.Network(lb.Layer(-rows, None, lb.relu), readout)
    x = rng.standard_normal((50, 3))
    assert np.abs(truth(x) - flipped(x)).max() < 1e-12
    found = restore_signs(sign_free(truth), lb.relu)
    assert len(found.signs.alternatives) == 2 and not found.signs.unique
    assert np.abs(found.network(x) - truth(x)).max() < 1e-12
    assert lb.compare(flipped, truth).max_error < 1e-12


@pytest.mark.parametrize("activation", [lb.relu, lb.leaky_relu(0.1), lb.leaky_relu(-0.5)], ids=lambda a: a.name)
@pytest.mark.parametrize("outputs", [1, 3])
def test_unfolding_undoes_folding(activation, outputs, rng):
    shape = (9,) if outputs == 1 else (9, outputs)
    layer = lb.Layer(rng.standard_normal((9, 5)), rng.standard_normal(9), activation)
    truth = lb.Network(layer, rng.standard_normal(shape), 0.7 if outputs == 1 else np.full(outputs, 0.7))
    found = restore_signs(sign_free(truth), activation)
    assert found.signs.unique and found.network.linear is None
    assert lb.compare(found.network, truth).max_error < 1e-12


def test_what_signs_cannot_explain_stays_linear(rng):
    layer = lb.Layer(rng.standard_normal((4, 6)), rng.standard_normal(4), lb.relu)
    truth = lb.Network(layer, rng.standard_normal(4), 0.2, rng.standard_normal(6))
    found = restore_signs(sign_free(truth), lb.relu)
    assert found.network.linear is not None and not found.signs.unique
    x = rng.standard_normal((40, 6))
    assert np.abs(found.network(x) - truth(x)).max() < 1e-12


@pytest.mark.parametrize("outputs", [1, 2])
def test_linear_parts_become_two_units(outputs, rng):
    shape, linear = ((3,), (4,)) if outputs == 1 else ((3, outputs), (4, outputs))
    layer = lb.Layer(rng.standard_normal((3, 4)), rng.standard_normal(3), lb.relu)
    offset = 0.3 if outputs == 1 else rng.standard_normal(outputs)
    network = lb.Network(layer, rng.standard_normal(shape), offset, rng.standard_normal(linear))
    absorbed = absorb_linear(network)
    assert absorbed.linear is None and absorbed.width == 3 + 2 * outputs
    x = rng.standard_normal((40, 4))
    assert np.abs(absorbed(x) - network(x)).max() < 1e-12


def test_folding_is_for_degree_one_with_a_kink():
    assert absolute_form(lb.tanh) is None and absolute_form(lb.absolute) is None and absolute_form(lb.power_relu(2)) is None
    odd, even = absolute_form(lb.leaky_relu(0.2))
    assert (odd, even) == (pytest.approx(0.6), pytest.approx(0.4))


@pytest.mark.parametrize("activation", [lb.softplus, lb.gelu], ids=lambda a: a.name)
def test_mirror_units_are_turned_back(activation, rng):
    """Softplus and GELU: a fit with wrong signs and a linear part is the same function; unfolding finds the true signs."""
    layer = lb.Layer(rng.standard_normal((9, 5)), rng.standard_normal(9), activation)
    truth = lb.Network(layer, rng.standard_normal(9), 0.3)
    turned = rng.choice([-1.0, 1.0], 9)
    wrong = lb.Layer(turned[:, None] * layer.weights, turned * layer.biases, activation)
    flipped = truth.readout * (turned < 0)  # act(u) = act(-u) + u
    fitted = lb.Network(wrong, truth.readout, 0.3 + flipped @ layer.biases, flipped @ layer.weights)
    x = rng.standard_normal((30, 5))
    assert np.abs(fitted(x) - truth(x)).max() < 1e-12
    found = restore_signs(fitted, activation)
    assert found.signs.unique and found.network.linear is None
    assert np.abs(found.network(x) - truth(x)).max() < 1e-12
    assert np.allclose(found.network.layer.weights, layer.weights)


def test_a_tolerance_beyond_all_vectors_decides_no_sign(rng):
    """As a search that was interrupted in its first step leaves it."""
    found = decode_signs(rng.standard_normal((30, 4)), rng.standard_normal(4), tol=2.0)
    assert not found.searched and found.alternatives == ()
