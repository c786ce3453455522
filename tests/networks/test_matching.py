"""compare: zero for equal functions, the right number for known differences, and who has no partner."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.testing import assert_array_equal
from sample_networks import ACTIVATIONS, copy_of, networks

from laybare.activations import absolute, leaky_relu, relu, sigmoid, tanh
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network, compare, sign_free
from laybare.networks.pairing import bottleneck, bottleneck_cost, hungarian


def random_network(rng, activation=relu, width=5, dim=4, outputs=2):
    return Network(
        Layer(rng.normal(size=(width, dim)), rng.normal(size=width), activation), rng.normal(size=(width, outputs)),
        rng.normal(size=outputs))


def changed(net, **parts):
    """The network with some of weights, biases, readout, offset, linear replaced."""
    layer = Layer(parts.get("weights", net.layer.weights), parts.get("biases", net.layer.biases), net.activation)
    return Network(layer, parts.get("readout", net.readout), parts.get("offset", net.offset), parts.get("linear", net.linear))


# Laws

@given(net=networks(), seed=st.integers(0, 999))
def test_symmetric_copies_differ_by_rounding(net, seed):
    copy = copy_of(net, np.random.default_rng(seed), add_linear=True)
    for found, truth in ((copy, net), (net, copy), (net.canonical(), net), (net, net)):
        for pairing in ("bottleneck", "hungarian"):
            match = compare(found, truth, pairing)
            assert match.max_error < 1e-10
            assert not match.missing
            assert not match.spurious


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_error_is_of_the_size_of_the_change(activation, rng):
    truth = random_network(rng, activation)
    for size in (1e-9, 1e-6, 1e-3):
        found = copy_of(changed(truth, weights=truth.layer.weights + size * rng.normal(size=(5, 4))), rng)
        assert size / 20 < compare(found, truth).max_error < 20 * size


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_pairs_are_the_permutation(activation, rng):
    net = random_network(rng, activation)
    order = rng.permutation(5)
    found = changed(net, weights=net.layer.weights[order], biases=net.layer.biases[order], readout=net.readout[order])
    assert_array_equal(compare(found, net).pairs, np.column_stack([np.argsort(order), np.arange(5)]))


# Exact: known differences

def test_each_error_is_the_one_that_was_made():
    truth = Network(Layer(np.array([[2.0, 0.0], [0.0, 5.0]]), np.array([1.0, -10.0]), tanh), np.array([1.0, -4.0]), 8.0)
    cases = {
        "weight_error": changed(truth, weights=np.array([[2.0, 0.0], [0.0, 6.0]])),    # 1 of |w*| = 5
        "bias_error": changed(truth, biases=np.array([1.0, -8.0])),                    # 2 of |b*| = 10
        "readout_error": changed(truth, readout=np.array([1.8, -4.0])),                # 0.8 of the largest, 4
        "offset_error": changed(truth, offset=9.6),                                    # 1.6 of 8
        "linear_error": changed(truth, linear=np.array([0.0, 0.8])),                   # 0.8 of the largest readout
    }
    for kind, found in cases.items():
        match = compare(found, truth)
        assert getattr(match, kind) == pytest.approx(0.2, rel=1e-14)
        assert match.max_error == getattr(match, kind)
        assert all(getattr(match, other) == 0 for other in cases if other != kind)


def test_errors_do_not_depend_on_the_unit_of_the_output(rng):
    truth = random_network(rng)
    found = changed(truth, readout=truth.readout * 1.01, offset=truth.offset + 0.1, linear=np.full((4, 2), 0.01))
    scaled = (changed(net, readout=1e6 * net.readout, offset=1e6 * net.offset, linear=1e6 * net.columns[2])
              for net in (found, truth))
    one, other = compare(found, truth), compare(*scaled)
    for kind in ("readout_error", "offset_error", "linear_error"):
        assert getattr(one, kind) == pytest.approx(getattr(other, kind), rel=1e-12)


def test_homogeneous_weights_are_compared_as_directions():
    truth = Network(Layer(np.array([[5.0, 0.0]])), np.array([2.0]))
    found = Network(Layer(np.array([[0.3, 0.4]])), np.array([20.0]))  # direction (0.6, 0.8), readout 10 as the truth's
    match = compare(found, truth)
    assert match.weight_error == pytest.approx(np.sqrt(0.4**2 + 0.8**2))
    assert match.readout_error == pytest.approx(0, abs=1e-15)


# ReLU's mirror images

@pytest.mark.parametrize("activation", [relu, leaky_relu(0.1)], ids=str)
def test_wrong_sign_of_a_relu_unit_is_a_linear_error(activation, rng):
    truth = random_network(rng, activation)
    signs = np.array([1.0, -1.0, 1.0, 1.0, 1.0])
    match = compare(changed(truth, weights=signs[:, None] * truth.layer.weights, biases=signs * truth.layer.biases), truth)
    assert max(match.weight_error, match.bias_error, match.readout_error) < 1e-15
    w, b, a = truth.layer.weights, truth.layer.biases, truth.readout
    size = np.abs(a * np.linalg.norm(w, axis=1)[:, None]).max()  # largest readout once the rows are units
    assert match.linear_error == pytest.approx(activation.mirror * np.abs(np.outer(w[1], a[1])).max() / size)
    offset = activation.mirror * np.abs(b[1] * a[1]).max() / max(size, np.abs(truth.offset).max())
    assert match.offset_error == pytest.approx(offset)


def test_flips_that_cancel_are_no_error(rng):
    w = rng.normal(size=(4, 3))
    a = np.linalg.svd(w.T)[2][-1]  # a'W = 0: all signs may change, without biases (Claim 4.8)
    found, truth = Network(Layer(-w), a), Network(Layer(w), a)
    x = rng.normal(size=(9, 3))
    assert np.abs(found(x) - truth(x)).max() < 1e-14
    assert compare(found, truth).max_error < 1e-14


def test_unit_and_its_mirror_image_in_one_network(rng):
    w = np.array([[1.0, 2.0], [-1.0, -2.0], [3.0, 1.0]])
    truth = Network(Layer(w), np.array([2.0, 3.0, 1.0]))
    assert_array_equal(compare(truth, truth).pairs, [[0, 0], [1, 1], [2, 2]])
    for order in ([0, 1, 2], [1, 0, 2]):  # only the readouts, 2 and 3, tell the first two apart
        match = compare(changed(truth, weights=(w + 1e-9 * rng.normal(size=w.shape))[order], readout=truth.readout[order]), truth)
        assert match.max_error < 1e-8
        assert_array_equal(match.pairs[:, 0], order)
    merged = Network(Layer(w[[0, 2]]), np.array([5.0, 1.0]), linear=-3 * w[0])  # 2 relu(u) + 3 relu(-u) = 5 relu(u) - 3u
    match = compare(merged, truth)
    assert match.max_error < 1e-14
    assert_array_equal(match.pairs, [[0, 0], [0, 1], [1, 2]])


def test_sign_free_form_is_compared_with_relu(rng):
    for activation in (relu, leaky_relu(0.1)):
        truth = random_network(rng, activation)
        assert compare(sign_free(truth), truth).max_error < 1e-14
        assert compare(truth, sign_free(truth)).max_error < 1e-14
        wrong = changed(sign_free(truth), offset=truth.offset + 1)
        assert compare(wrong, truth).offset_error > 0.01


# Missing and spurious units

def test_units_without_partner_are_listed(rng):
    truth = random_network(rng)
    fewer = changed(truth, weights=truth.layer.weights[[0, 1, 3]], biases=truth.layer.biases[[0, 1, 3]],
                    readout=truth.readout[[0, 1, 3]])
    match = compare(fewer, truth)
    assert match.missing == (2, 4)
    assert match.spurious == ()
    assert match.max_error == np.inf
    assert match.weight_error < 1e-15
    back = compare(truth, fewer)
    assert (back.missing, back.spurious, back.max_error) == ((), (2, 4), np.inf)


def test_spurious_unit_with_zero_readout_does_not_count(rng):
    truth = random_network(rng)
    found = changed(
        truth, weights=np.vstack([np.ones((1, 4)), truth.layer.weights]), biases=np.append(1.0, truth.layer.biases),
        readout=np.vstack([np.zeros((1, 2)), truth.readout]))
    match = compare(found, truth)
    assert match.max_error < 1e-15
    assert match.spurious == ()
    assert_array_equal(match.pairs[:, 0], [1, 2, 3, 4, 5])


def test_unit_split_in_two_is_one(rng):
    truth = random_network(rng)
    found = changed(
        truth, weights=np.vstack([truth.layer.weights, 3 * truth.layer.weights[:1]]),
        biases=np.append(truth.layer.biases, 3 * truth.layer.biases[0]), readout=np.vstack([truth.readout, truth.readout[:1]]))
    assert compare(found, changed(truth, readout=truth.readout * np.array([[4.0], [1], [1], [1], [1]]))).max_error < 1e-14


def test_networks_without_units():
    none = Network(Layer(np.zeros((0, 2))), np.zeros(0), 1.0)
    some = Network(Layer(np.ones((1, 2))), np.ones(1), 1.0)
    assert compare(none, none).max_error == 0
    assert compare(none, some).missing == (0,)
    assert compare(some, none).spurious == (0,)
    assert compare(some, none).pairs.shape == (0, 2)


# Refusal and print

@pytest.mark.parametrize(("found", "sentence"), [
    (Network(Layer(np.ones((1, 3))), np.ones(1)), "dim 3, the true one 2"),
    (Network(Layer(np.ones((1, 2))), np.ones((1, 2))), "outputs 2, the true one 1"),
    (Network(Layer(np.ones((1, 2)), activation=tanh), np.ones(1)), "activation tanh, the true one relu"),
    (Network(Layer(np.ones((1, 2)), activation=leaky_relu(0.1)), np.ones(1)), r"activation leaky_relu\(0.1\)"),
])
def test_different_spaces_are_refused(found, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        compare(found, Network(Layer(np.ones((1, 2))), np.ones(1)))


def test_absolute_has_nothing_to_do_with_sigmoid():
    with pytest.raises(InvalidInput, match="activation absolute, the true one sigmoid"):
        compare(*(Network(Layer(np.ones((1, 2)), activation=act), np.ones(1)) for act in (absolute, sigmoid)))


@pytest.mark.usefixtures("unchecked")
def test_unknown_pairing_is_refused():
    net = Network(Layer(np.ones((1, 2))), np.ones(1))
    with pytest.raises(InvalidInput, match="pairing is 'greedy'"):
        compare(net, net, pairing="greedy")


def test_print():
    truth = Network(Layer(np.eye(3), activation=tanh), np.ones(3))
    found = Network(Layer(np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0]]), activation=tanh), np.ones(2))
    assert str(compare(found, truth)).splitlines() == [
        "2 of 3 units matched, largest error inf", "  weight   5.0e-01", "  bias     0.0e+00", "  readout  0.0e+00",
        "  offset   0.0e+00", "  linear   0.0e+00", "  missing  true units 2"]


def test_print_of_many_units_is_short(rng):
    none = Network(Layer(np.zeros((0, 4))), np.zeros((0, 2)))
    text = str(compare(none, random_network(rng, width=100)))
    assert text.endswith("true units 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 88 more")


# Assignment

COSTS = npst.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(0, 9).map(float))


def largest(cost):
    """Smallest possible largest cost, by trying all pairings."""
    short = cost if cost.shape[0] <= cost.shape[1] else cost.T
    rows = np.arange(len(short))
    return min(short[rows, list(columns)].max() for columns in permutations(range(short.shape[1]), len(short)))


@given(COSTS)
def test_bottleneck_is_optimal(cost):
    pick = bottleneck(cost)
    assert len(set(pick.rows)) == len(set(pick.columns)) == min(cost.shape)
    assert cost[pick].max() == bottleneck_cost(cost) == largest(cost)


def test_bottleneck_and_sum_are_different_things():
    cost = np.array([[0.0, 2.0, 9.0], [9.0, 0.0, 2.0], [2.0, 9.0, 3.0]])
    assert cost[hungarian(cost)].sum() == 3
    assert cost[hungarian(cost)].max() == 3
    assert cost[bottleneck(cost)].max() == 2


def test_ties_are_broken_by_the_sum():
    cost = np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 5.0], [5.0, 5.0, 5.0]])
    tie_break = cost + np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert_array_equal(bottleneck(cost, tie_break).columns, [1, 0, 2])
