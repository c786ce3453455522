"""Networks: evaluation, the sign-free form, files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sample_networks import networks

from laybare.activations import absolute, leaky_relu, relu, sigmoid, tanh
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network, load, sign_free


def test_network_by_hand():
    net = Network(Layer(np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([0.0, -1.0])), np.array([3.0, 5.0]), 0.5,
                  np.array([10.0, 20.0]))
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert_array_equal(net(x), [3 + 5 + 0.5 + 10, 0.5 + 20])


def test_shape_of_the_output_follows_the_readout(rng):
    layer, x = Layer(rng.normal(size=(3, 2))), rng.normal(size=(4, 2))
    assert Network(layer, np.ones(3))(x).shape == (4,)
    assert Network(layer, np.ones((3, 1)))(x).shape == (4, 1)
    assert Network(layer, np.ones((3, 2)), 1.5)(x).shape == (4, 2)
    assert Network(layer, np.ones((3, 2)), 1.5).offset.shape == (2,)


def test_short_reprs():
    layer = Layer(np.ones((5, 10)), activation=tanh)
    assert repr(layer) == "Layer(dim=10, width=5, activation=tanh)"
    assert repr(Network(layer, np.ones((5, 2)))) == "Network(10-5-2, tanh)"
    assert repr(Network(layer, np.ones(5), linear=np.ones(10))) == "Network(10-5-1, tanh, with a linear part)"


def test_arrays_are_copies_that_cannot_be_written(rng):
    weights = rng.normal(size=(3, 2))
    net = Network(Layer(weights), np.ones(3))
    weights[0] = 7
    assert net.layer.weights[0, 0] != 7
    with pytest.raises(ValueError, match="read-only"):
        net.layer.weights[0] = 1


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: Layer(np.ones((2, 3)), np.ones(3)), "3 biases for 2 rows"),
    (lambda: Layer(np.ones(3)), "weights has 1 dimensions"),
    (lambda: Layer(np.array([["a"]])), "weights has dtype <U1"),
    (lambda: Layer(np.array([[1.0, np.nan]])), r"weights\[0, 1\] is nan"),
    (lambda: Network(Layer(np.ones((2, 3))), np.ones(3)), r"readout has shape \(3,\) for 2 hidden units"),
    (lambda: Network(Layer(np.ones((2, 3))), np.ones((2, 2)), np.ones(3)), r"offset has shape \(3,\) for 2 outputs"),
    (lambda: Network(Layer(np.ones((2, 3))), np.ones(2), np.inf), "offset.* is inf"),
    (lambda: Network(Layer(np.ones((2, 3))), np.ones(2), linear=np.ones(2)), r"linear part has shape \(2,\)"),
    (lambda: Network(Layer(np.ones((2, 3))), np.ones(2))(np.ones((5, 2))), r"x has shape \(5, 2\)"),
    (lambda: Network(Layer(np.ones((2, 3))), np.ones(2))(np.ones(3)), r"x has shape \(3,\)"),
])
def test_what_cannot_be_a_network_is_refused(make, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make()


@given(networks(activation=relu), st.integers(0, 99))
def test_sign_free_form_is_the_same_function(net, seed):
    for activation in (relu, leaky_relu(0.1), leaky_relu(-3), absolute):
        given_net = Network(Layer(net.layer.weights, net.layer.biases, activation), net.readout, net.offset, net.linear)
        free = sign_free(given_net)
        x = np.random.default_rng(seed).normal(size=(20, net.dim))
        assert free.activation == absolute
        assert free.readout.shape == net.readout.shape
        assert_allclose(free(x), given_net(x), atol=1e-12)


def test_sign_free_by_hand():
    free = sign_free(Network(Layer(np.array([[2.0, 4.0]]), np.array([6.0])), np.array([3.0]), 1.0))  # relu(u) = (u + |u|)/2
    assert_array_equal(free.readout, [1.5])
    assert_array_equal(free.linear, [3.0, 6.0])
    assert free.offset == 1 + 9


def test_only_degree_one_has_a_sign_free_form():
    with pytest.raises(InvalidInput, match="sigmoid is not homogeneous of degree 1"):
        sign_free(Network(Layer(np.ones((1, 1)), activation=sigmoid), np.ones(1)))


ANY = st.floats(allow_nan=False, allow_infinity=False)
BUILT_IN = networks(ANY).filter(lambda net: not net.activation.name.startswith("custom:"))


@given(net=BUILT_IN, order=st.sampled_from("CF"))
def test_files_keep_every_bit(tmp_path_factory, net, order):
    net = Network(Layer(np.asarray(net.layer.weights, order=order), net.layer.biases, net.activation),
                  np.asarray(net.readout, order=order), net.offset, net.linear)
    path = tmp_path_factory.mktemp("files") / "net.safetensors"
    net.save(path)
    back = load(path)
    assert back.activation == net.activation
    assert back.outputs == net.outputs
    for mine, theirs in ((net.layer.weights, back.layer.weights), (net.layer.biases, back.layer.biases),
                         (net.readout, back.readout), (np.array(net.offset), np.array(back.offset))):
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()
    assert (net.linear is None) == (back.linear is None)
    if net.linear is not None:
        assert net.linear.tobytes() == back.linear.tobytes()


def test_files_keep_the_order_of_rows_and_columns(tmp_path, rng):
    net = Network(Layer(np.asfortranarray(rng.normal(size=(3, 2)))), rng.normal(size=(2, 3)).T, linear=rng.normal(size=(2, 2)).T)
    net.save(tmp_path / "net")
    back = load(tmp_path / "net")
    assert_array_equal(back.layer.weights, net.layer.weights)
    assert_array_equal(back.readout, net.readout)
    assert_array_equal(back.linear, net.linear)


def test_equal_networks_give_equal_files(tmp_path, rng):
    net = Network(Layer(rng.normal(size=(3, 2)), rng.normal(size=3), leaky_relu(0.1)), np.ones((3, 2)), 0.5)
    net.save(tmp_path / "one")
    net.save(str(tmp_path / "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
