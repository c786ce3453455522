"""Networks of several layers: evaluation, canonical forms, files, black boxes on top, and who refuses them."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from deep_networks import deep_copy_of, deep_network, deep_networks
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save as safetensors_bytes

from laybare.activations import Activation, absolute, leaky_relu, relu, sigmoid, tanh
from laybare.assembly.unit_scalars import with_unit_readout
from laybare.errors import InvalidInput
from laybare.moments import population_moments
from laybare.networks import Layer, Network, load, normalised_squared_errors, recovered, sign_free
from laybare.solver.point import point_of
from laybare.source.protocol import Affine
from laybare.theory.guarantees import conditioning

BUILT_IN = (relu, leaky_relu(0.1), absolute, sigmoid, tanh)


def numbers(net):
    linear = () if net.linear is None else (net.linear,)
    hidden = [array for layer in net.layers for array in (layer.weights, layer.biases)]
    return [*hidden, net.readout, np.asarray(net.offset), *linear]


def assert_same_numbers(left, right, atol):
    assert left.widths == right.widths
    for mine, theirs in zip(numbers(left), numbers(right), strict=True):
        assert_allclose(mine, theirs, rtol=atol, atol=atol)


# Evaluation and shape

def test_two_layers_by_hand():
    net = Network(
        (Layer(np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([0.0, -1.0])), Layer(np.array([[1.0, -3.0]]), np.array([4.0]))),
        np.array([2.0]), 0.5, np.array([10.0, 20.0]))
    x = np.array([[1.0, 0.0], [0.0, 1.0]])  # features (1, 1) and (0, 0), then 2 and 4
    assert_array_equal(net(x), [4 + 0.5 + 10, 8 + 0.5 + 20])


def test_names_of_the_parts(rng):
    net = deep_network(rng, (8, 4, 2), None)
    assert (net.depth, net.widths, net.dim, net.outputs, net.architecture) == (2, (4, 2), 8, 1, "8-4-2-1")
    assert net.layer is net.layers[0]
    assert (net.width, net.activation) == (4, relu)
    assert repr(net) == "Network(8-4-2-1, relu)"
    assert repr(deep_network(rng, (3, 2, 2), 5, (relu, tanh), True)) == "Network(3-2-2-5, relu, tanh, with a linear part)"


def test_one_layer_in_a_tuple_is_one_layer(rng):
    layer = Layer(rng.normal(size=(3, 2)), rng.normal(size=3))
    alone, wrapped = Network(layer, np.ones(3)), Network((layer,), np.ones(3))
    assert wrapped.depth == alone.depth == 1
    assert alone.layers == wrapped.layers == (layer,)
    x = rng.normal(size=(5, 2))
    assert_array_equal(alone(x), wrapped(x))


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: Network((), np.ones(2)), "No layers"),
    (lambda: Network((Layer(np.ones((2, 3))), Layer(np.ones((4, 3)))), np.ones(4)), "Layer 2 takes 3 inputs, .* has 2 units"),
    (lambda: Network((Layer(np.ones((2, 3))), Layer(np.ones((4, 2)))), np.ones(2)), r"readout has shape \(2,\) for 4"),
    (lambda: Network((Layer(np.ones((2, 3))), Layer(np.ones((4, 2)))), np.ones(4), linear=np.ones(2)), "linear part has shape"),
])
def test_layers_that_do_not_fit_are_refused(make, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make()


# Canonical forms

@given(deep_networks(), st.integers(0, 99))
def test_canonical_form_is_the_same_function(net, seed):
    x = np.random.default_rng(seed).normal(size=(20, net.dim))
    expected = net(x)
    assume(np.abs(expected).max() < 1e300)  # exponentials of exponentials overflow, and infinities have no error
    assert_allclose(net.canonical()(x), expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))


@given(deep_networks())
def test_canonical_form_is_its_own_to_the_last_bit(net):
    once = net.canonical()
    assert_same_numbers(once, once.canonical(), atol=0)


@given(net=deep_networks(), seed=st.integers(0, 999))
def test_symmetric_copies_have_one_canonical_form(net, seed):
    assert_same_numbers(net.canonical(), deep_copy_of(net, np.random.default_rng(seed)).canonical(), atol=1e-9)


def test_scale_goes_up_to_the_readout(rng):
    net = deep_network(rng)
    form = net.canonical()
    for layer in form.layers:
        assert_allclose(np.linalg.norm(layer.weights, axis=1), 1, rtol=1e-13)
        assert (np.diff(layer.weights[:, 0]) > 0).all()
    assert form.widths == net.widths


def test_scale_and_order_by_hand():
    lower = Layer(np.array([[4.0, 0.0], [0.0, -2.0]]), np.array([8.0, 2.0]))
    upper = Layer(np.array([[3.0, 2.0]]), np.array([6.5]))  # columns times 4 and 2: (12, 4), in the other order (4, 12)
    form = Network((lower, upper), np.array([5.0])).canonical()
    assert_array_equal(form.layers[0].weights, [[0, -1], [1, 0]])
    assert_array_equal(form.layers[0].biases, [1, 2])
    size = np.hypot(4, 12)
    assert_allclose(form.layers[1].weights, [[4 / size, 12 / size]], rtol=1e-15)
    assert_allclose(form.layers[1].biases, [6.5 / size], rtol=1e-15)
    assert_allclose(form.readout, [5 * size], rtol=1e-15)


def test_what_nobody_reads_goes_with_all_that_it_alone_has_read(rng):
    net = deep_network(rng, (3, 4, 3, 2), None)
    first, second, third = (np.array(layer.weights) for layer in net.layers)
    third[:, 2] = 0  # nobody reads unit 2 of the second layer,
    second[[0, 1], 3] = 0  # which alone reads unit 3 of the first
    layers = [Layer(w, layer.biases) for w, layer in zip((first, second, third), net.layers, strict=True)]
    assert Network(layers, net.readout).canonical().widths == (3, 2, 2)


def test_constant_units_go_into_the_biases_above(rng):
    net = deep_network(rng, (3, 4, 2), None)
    weights = np.array(net.layer.weights)
    weights[1] = 0
    flat = Network((Layer(weights, net.layer.biases), net.layers[1]), net.readout, net.offset)
    form, x = flat.canonical(), rng.normal(size=(9, 3))
    assert form.widths == (3, 2)
    assert_allclose(form(x), flat(x), rtol=1e-13)


def test_a_network_that_is_a_constant():
    net = Network((Layer(np.zeros((2, 3)), np.ones(2)), Layer(np.ones((2, 2)))), np.ones(2), 1.0)
    form = net.canonical()
    assert form.widths == (0, 0)
    assert_array_equal(form(np.ones((2, 3))), [5, 5])


def test_sign_of_an_inner_relu_unit_is_not_free(rng):
    net = deep_network(rng, linear=True)
    assert_allclose(np.sort(net.canonical().layer.biases),
                    np.sort(net.layer.biases / np.linalg.norm(net.layer.weights, axis=1)), rtol=1e-13)


# Files

OLD_FILE = (
    "uAEAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJsYXliYXJlIjoie1wiYWN0aXZhdGlvblwiOiBcImxlYWt5X3JlbHUoMC4xKVwiLCBcImZvcm1hdFwiOiBcIm5l"
    "dHdvcmtcIiwgXCJvdXRwdXRzXCI6IDIsIFwidmVyc2lvblwiOiAxfSJ9LCJiaWFzZXMiOnsiZHR5cGUiOiJGNjQiLCJzaGFwZSI6WzNdLCJkYXRhX29mZnNl"
    "dHMiOlswLDI0XX0sImxpbmVhciI6eyJkdHlwZSI6IkY2NCIsInNoYXBlIjpbMiwyXSwiZGF0YV9vZmZzZXRzIjpbMjQsNTZdfSwib2Zmc2V0Ijp7ImR0eXBl"
    "IjoiRjY0Iiwic2hhcGUiOlsyXSwiZGF0YV9vZmZzZXRzIjpbNTYsNzJdfSwicmVhZG91dCI6eyJkdHlwZSI6IkY2NCIsInNoYXBlIjpbMywyXSwiZGF0YV9v"
    "ZmZzZXRzIjpbNzIsMTIwXX0sIndlaWdodHMiOnsiZHR5cGUiOiJGNjQiLCJzaGFwZSI6WzMsMl0sImRhdGFfb2Zmc2V0cyI6WzEyMCwxNjhdfX0gICAgIAAA"
    "AAAAAOA/AAAAAAAA0L+SJEmSJEnCPwAAAAAAAPA/AAAAAAAAAEAzMzMzMzPTP2ZmZmZmZua/AAAAAAAAwD8cx3Ecx3G8vwAAAAAAAPA/VVVVVVVV5T8AAAAA"
    "AADwvwAAAAAAAOA/AAAAAAAACEAAAAAAAAAAAJqZmZmZmbk/AAAAAAAABMBVVVVVVVXVPwAAAAAAABBAAAAAAAAAAABZ8/jCH26lAQ==")
"""Written by version 0.1.0, which knew one hidden layer only."""


def old_network():
    return Network(
        Layer(np.array([[0.1, -2.5], [1 / 3, 4.0], [0.0, 1e-300]]), np.array([0.5, -0.25, 1 / 7]), leaky_relu(0.1)),
        np.array([[1.0, 2 / 3], [-1.0, 0.5], [3.0, 0.0]]), np.array([0.125, -1 / 9]), np.array([[1.0, 2.0], [0.3, -0.7]]))


def test_files_of_the_first_version_are_read_and_still_written(tmp_path):
    (tmp_path / "old").write_bytes(base64.b64decode(OLD_FILE))
    assert_same_numbers(load(tmp_path / "old"), old_network(), atol=0)
    assert load(tmp_path / "old").activation == leaky_relu(0.1)
    old_network().save(tmp_path / "new")
    assert (tmp_path / "new").read_bytes() == (tmp_path / "old").read_bytes()


@given(net=deep_networks(BUILT_IN))
def test_files_keep_every_bit(tmp_path_factory, net):
    path = tmp_path_factory.mktemp("files") / "net.safetensors"
    net.save(path)
    back = load(path)
    assert [layer.activation for layer in back.layers] == [layer.activation for layer in net.layers]
    assert back.readout.shape == net.readout.shape
    for mine, theirs in zip(numbers(net), numbers(back), strict=True):
        assert mine.tobytes() == theirs.tobytes()


DEEP_ARRAYS = {"weights.0": np.ones((2, 3)), "weights.1": np.ones((4, 2)), "biases.0": np.zeros(2), "biases.1": np.zeros(4),
               "readout": np.ones(4), "offset": np.array(0.5)}
DEEP = {"format": "deep network", "version": 1, "activations": ["relu", "tanh"], "outputs": None}


@pytest.mark.parametrize(("arrays", "description", "sentence"), [
    ({"weights.1": np.ones((4, 3))}, {}, r"shape of weights.1 \(4, 3\) instead of \(4, 2\)"),
    ({"biases.1": np.ones(3)}, {}, r"shape of biases.1 \(3,\) instead of \(4,\)"),
    ({"readout": np.ones(2)}, {}, r"shape of readout \(2,\) instead of \(4,\)"),
    ({"weights.2": np.ones((4, 4))}, {}, "arrays .*weights.2.* instead of"),
    ({"weights.1": np.ones(4)}, {}, "dimensions of weights.1 1 instead of 2"),
    ({}, {"activations": "relu"}, "kind of activations 'str' instead of 'list'"),
    ({}, {"activations": []}, "more than one activation False instead of True"),
    ({}, {"activations": ["relu"]}, "more than one activation False instead of True"),
    ({}, {"activations": ["relu", "snake"]}, "No activation is called 'snake'"),
    ({}, {"activations": ["relu", 3]}, "No activation is called '3'"),
    ({}, {"version": 2}, "version 2 instead of 1"),
    ({}, {"activation": "relu"}, "description .* instead of"),
])
def test_damaged_deep_files_are_refused(arrays, description, sentence, tmp_path):
    path = tmp_path / "net.safetensors"
    path.write_bytes(safetensors_bytes(DEEP_ARRAYS | arrays, {"laybare": json.dumps(DEEP | description)}))
    with pytest.raises(InvalidInput, match=sentence):
        load(path)
    path.write_bytes(safetensors_bytes(DEEP_ARRAYS, {"laybare": json.dumps(DEEP)}))
    assert load(path).architecture == "3-2-4-1"


def test_custom_activation_of_any_layer_is_not_saved(tmp_path, rng):
    cube = Activation.custom("cube", lambda t: t**3, lambda t: 3 * t**2, parity="odd", degree=3)
    with pytest.raises(InvalidInput, match="custom:cube is not built in"):
        deep_network(rng, activations=(relu, cube)).save(tmp_path / "net")
    assert not list(tmp_path.iterdir())


# A black box on top

def partial(net, known, rng):
    """The lowest layers of a network, and the rest as a function."""
    rest = Network(net.layers[known:], net.readout, net.offset)
    zeros = np.zeros((net.widths[known - 1], *net.readout.shape[1:]))
    return Network(net.layers[:known], zeros, linear=net.linear, top=rest)


@pytest.mark.parametrize("outputs", [None, 1, 2])
def test_black_box_top_gives_the_same_values(outputs, rng):
    net = deep_network(rng, outputs=outputs, linear=True)
    found, x = partial(net, 2, rng), rng.normal(size=(7, 4))
    assert_allclose(found(x), net(x), rtol=1e-13)
    assert found.canonical().widths == (6, 5)
    assert_allclose(np.linalg.norm(found.canonical().layers[1].weights, axis=1), 1)
    assert_allclose(found.canonical()(x), net(x), rtol=1e-11, atol=1e-12)


def test_black_box_top_is_said_and_never_saved(tmp_path, rng):
    found = partial(deep_network(rng), 1, rng)
    assert repr(found) == "Network(4-6-?-2, relu)"
    with pytest.raises(InvalidInput, match="ends in a black box"):
        found.save(tmp_path / "net")
    with pytest.raises(InvalidInput, match="1 hidden layer under a black box"):
        found.columns  # noqa: B018


def test_readout_and_black_box_are_added(rng):
    layer, x = Layer(rng.normal(size=(3, 2))), rng.normal(size=(5, 2))
    both = Network(layer, np.array([1.0, 2.0, 3.0]), 0.5, top=lambda h: h[:, 0] ** 2)
    assert_allclose(both(x), layer(x) @ [1, 2, 3] + 0.5 + layer(x)[:, 0] ** 2)
    assert_allclose(both.canonical()(x), both(x), rtol=1e-13)


# Whitened inputs, and functions for one layer

def test_pulling_back_changes_the_lowest_layer_only(rng):
    net, x = deep_network(rng, linear=True), rng.normal(size=(6, 4))
    white = Affine(rng.normal(size=4), rng.normal(size=(4, 4)))
    back = white.pull_back(net)
    assert_allclose(back(x), net(white.apply(x)), rtol=1e-11)
    assert back.layers[1:] == net.layers[1:]
    assert white.pull_back(partial(net, 1, rng)).top is not None


@pytest.mark.parametrize("function", [
    sign_free, conditioning, with_unit_readout, lambda net: recovered(net, net), lambda net: normalised_squared_errors(net, net),
    lambda net: point_of(net, biases=True, offset=True, linear=False), lambda net: population_moments(net, 2)],
    ids=["sign_free", "conditioning", "unit_readout", "recovered", "squared_errors", "point_of", "population_moments"])
def test_functions_for_one_layer_say_so(function, rng):
    with pytest.raises(InvalidInput, match=r"4-6-5-3-1 has 3 hidden layers\. This function is for a single hidden layer"):
        function(deep_network(rng, outputs=None))
