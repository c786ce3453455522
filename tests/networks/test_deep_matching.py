"""compare on networks of several layers: zero for equal functions, the right layer for known differences."""

from __future__ import annotations

import numpy as np
import pytest
from deep_networks import deep_copy_of, deep_network, deep_networks
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sample_networks import ACTIVATIONS

from laybare.activations import absolute, relu, tanh
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network, compare


def changed(net, level, **parts):
    """The network with weights or biases of one layer replaced, or columns of the layer above."""
    layers = [
        Layer(parts.get("weights", layer.weights), parts.get("biases", layer.biases), layer.activation) if i == level else layer
        for i, layer in enumerate(net.layers)]
    return Network(layers, parts.get("readout", net.readout), parts.get("offset", net.offset), parts.get("linear", net.linear))


def without(net, level, units):
    """The network without some units of one layer, and without the columns that read them."""
    kept = np.setdiff1d(np.arange(net.widths[level]), units)
    layers = list(net.layers)
    layers[level] = Layer(layers[level].weights[kept], layers[level].biases[kept], layers[level].activation)
    if level + 1 < net.depth:
        above = layers[level + 1]
        layers[level + 1] = Layer(above.weights[:, kept], above.biases, above.activation)
        return Network(layers, net.readout, net.offset)
    return Network(layers, net.readout[kept], net.offset)


# Laws

@given(net=deep_networks(), seed=st.integers(0, 999))
def test_symmetric_copies_differ_by_rounding(net, seed):
    copy = deep_copy_of(net, np.random.default_rng(seed))
    for found, truth in ((copy, net), (net, copy), (net.canonical(), net), (net, net)):
        for pairing in ("bottleneck", "hungarian"):
            match = compare(found, truth, pairing)
            assert match.max_error < 1e-8
            assert not match.missing
            assert not match.spurious
            assert len(match.layers) == net.depth


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_error_is_of_the_size_of_the_change_in_any_layer(activation, rng):
    truth = deep_network(rng, (4, 5, 4, 3), 2, (activation,))
    for level in range(3):
        for size in (1e-9, 1e-6, 1e-4):
            noise = size * rng.normal(size=truth.layers[level].weights.shape)
            found = deep_copy_of(changed(truth, level, weights=truth.layers[level].weights + noise), rng)
            match = compare(found, truth)
            assert size / 50 < match.max_error < 100 * size
            assert match.layers[level].weight_error > size / 50
            assert all(layer.weight_error < 1e-12 for layer in match.layers[:level])


def test_pairs_are_the_permutations(rng):
    net = deep_network(rng, (4, 5, 4), None)
    orders = [rng.permutation(5), rng.permutation(4)]
    lower = Layer(net.layers[0].weights[orders[0]], net.layers[0].biases[orders[0]])
    upper = Layer(net.layers[1].weights[np.ix_(orders[1], orders[0])], net.layers[1].biases[orders[1]])
    match = compare(Network((lower, upper), net.readout[orders[1]], net.offset), net)
    for layer, order in zip(match.layers, orders, strict=True):
        assert_array_equal(layer.pairs, np.column_stack([np.argsort(order), np.arange(len(order))]))
    assert_array_equal(match.pairs, np.vstack([match.layers[0].pairs, match.layers[1].pairs + 5]))
    assert match.max_error < 1e-14


# Exact: known differences

def test_each_error_is_the_one_that_was_made():
    truth = Network(
        (Layer(np.array([[2.0, 0.0], [0.0, 5.0]]), np.array([1.0, -10.0]), tanh), Layer(np.array([[4.0, 3.0]]), activation=tanh)),
        np.array([-4.0]), 8.0)
    cases = {
        "weight_error": [changed(truth, 0, weights=np.array([[2.0, 0.0], [0.0, 6.0]])),
                         changed(truth, 1, weights=np.array([[4.0, 2.0]]))],
        "bias_error": [changed(truth, 0, biases=np.array([1.0, -8.0])), changed(truth, 1, biases=np.array([0.2]))],
        "readout_error": [changed(truth, 0, readout=np.array([-4.8]))],
        "offset_error": [changed(truth, 0, offset=9.6)],
        "linear_error": [changed(truth, 0, linear=np.array([0.0, 0.8]))],
    }
    for kind, founds in cases.items():
        for found in founds:
            match = compare(found, truth)
            assert getattr(match, kind) == pytest.approx(0.2, rel=1e-13)
            assert match.max_error == getattr(match, kind)
            assert all(getattr(match, other) == 0 for other in cases if other != kind)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_wrong_sign_of_a_relu_unit_is_a_linear_error_of_its_layer(level, rng):
    truth = deep_network(rng)
    signs = np.where(np.arange(truth.widths[level]) == 1, -1.0, 1.0)
    layer = truth.layers[level]
    match = compare(changed(truth, level, weights=signs[:, None] * layer.weights, biases=signs * layer.biases), truth)
    assert [each.linear_error > 0.01 for each in match.layers] == [number == level for number in range(3)]
    assert match.weight_error < 1e-13
    assert match.layers[level].bias_error < 1e-13
    assert match.linear_error > 0.01


def test_unit_and_its_mirror_image_in_an_inner_layer_keep_apart(rng):
    first, second = Layer(np.array([[0.0, 2.0], [0.0, -2.0], [3.0, 1.0]])), Layer(rng.normal(size=(2, 3)))
    truth = Network((first, second), np.array([2.0, 3.0]))
    order = [1, 2, 0]
    for _ in range(20):  # turned over and exchanged they fit equally well; noise decides their order in the canonical form
        weights = first.weights + 1e-6 * rng.normal(size=(3, 2))
        match = compare(Network((Layer(weights[order]), Layer(second.weights[:, order])), truth.readout), truth)
        assert match.max_error < 1e-5
        assert_array_equal(match.layers[0].pairs, [[2, 0], [0, 1], [1, 2]])


def test_order_of_the_canonical_forms_may_differ(rng):
    net = deep_network(rng, (4, 6, 5), 2)
    weights = np.array(net.layer.weights)
    weights /= np.linalg.norm(weights[:, 1:], axis=1, keepdims=True)
    weights[:, 0] = 0.5 + 1e-7 * np.arange(6)  # the first weight decides the order, and noise decides the first weight
    truth = changed(net, 0, weights=weights)
    for _ in range(10):
        match = compare(changed(truth, 0, weights=weights + 1e-4 * rng.normal(size=(6, 4))), truth)
        assert match.max_error < 1e-2
        assert_array_equal(match.layers[0].pairs, np.column_stack([np.arange(6)] * 2))


# Missing and spurious units

@pytest.mark.parametrize("level", [0, 1, 2])
def test_units_without_partner_are_listed_with_their_layer(level, rng):
    truth, first = deep_network(rng), (0, 6, 11)[level]
    fewer = without(truth, level, [0, 2])
    match = compare(fewer, truth)
    assert [layer.missing for layer in match.layers] == [(0, 2) if number == level else () for number in range(3)]
    assert match.missing == (first, first + 2)
    assert match.spurious == ()
    assert match.max_error == np.inf
    assert all(layer.weight_error < 1e-13 for layer in match.layers[: level + 1])
    back = compare(truth, fewer)
    assert (back.missing, back.spurious) == ((), (first, first + 2))


def test_partners_above_a_missing_unit_are_still_found(rng):
    truth = deep_network(rng, (20, 15, 10, 5))
    order = rng.permutation(10)
    fewer = without(truth, 0, [3])
    upper, top = fewer.layers[1], fewer.layers[2]
    shuffled = Network((fewer.layers[0], Layer(upper.weights[order], upper.biases[order]),
                        Layer(top.weights[:, order], top.biases)), fewer.readout, fewer.offset)
    assert_array_equal(compare(shuffled, truth).layers[1].pairs, np.column_stack([np.argsort(order), np.arange(10)]))


def test_layers_that_only_one_network_has(rng):
    truth = deep_network(rng, (4, 6, 5), 2)
    shallow = Network(truth.layer, rng.normal(size=(6, 2)))
    match = compare(shallow, truth)
    assert match.layers[0].weight_error < 1e-14
    assert match.layers[0].missing == match.layers[0].spurious == ()
    assert match.layers[1].missing == tuple(range(5))
    assert match.missing == tuple(range(6, 11))
    assert match.max_error == match.readout_error == np.inf
    assert compare(truth, shallow).spurious == tuple(range(6, 11))


def test_black_box_tops_are_compared_up_to_them(rng):
    truth = deep_network(rng, (4, 6, 5), 2)
    copy = deep_copy_of(truth, rng)
    found = Network(copy.layer, np.zeros((copy.width, 2)), top=Network(copy.layers[1], copy.readout, copy.offset))
    match = compare(found, truth)
    # unit by unit: under a black box copies stay merged, but units that nobody reads cannot be known
    assert match.layers[0].weight_error < 1e-13
    assert match.layers[0].missing == ()
    assert match.layers[1].missing == tuple(range(5))
    assert match.max_error == np.inf


# Refusal and print

def test_different_activations_of_one_layer_are_refused(rng):
    one, other = (deep_network(rng, activations=acts) for acts in ((relu, relu, tanh), (relu, relu, relu)))
    with pytest.raises(InvalidInput, match="activation tanh, the true one relu"):
        compare(one, other)
    with pytest.raises(InvalidInput, match="activation absolute, the true one relu"):
        compare(*(deep_network(rng, activations=(act,)) for act in (absolute, relu)))


def test_print(rng):
    truth = deep_network(rng, (4, 6, 5), 2)
    lines = str(compare(without(truth, 1, [4]), truth)).splitlines()
    assert lines[0] == "10 of 11 units matched, largest error inf"
    assert lines[6].startswith("  layer 1: 6 of 6 units, weight ")
    assert lines[7].startswith("  layer 2: 4 of 5 units, weight ")
    assert lines[8:] == ["    missing  true units 4"]
