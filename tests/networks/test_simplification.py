"""simplify: the same function with fewer units; what is proved holds at every input that is tried."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.networks.simplification import Interval, activation_bounds, affine_bounds

ACTIVATIONS = (lb.relu, lb.leaky_relu(0.1), lb.absolute)


def points(rng, box, dim):
    """Inside of the box, and its corners."""
    low, high = (np.broadcast_to(end, (dim,)) for end in box)
    corners = np.where(rng.random((200, dim)) < 0.5, low, high)
    return np.vstack([rng.uniform(low, high, (2000, dim)), corners])


def redundant_layer(rng, dim, activation):
    """Ten units of which one is parallel to another, one opposite, one constant, one always and one never on."""
    weights, biases = rng.normal(size=(6, dim)), 0.3 * rng.normal(size=6)
    weights = np.vstack([weights, 2.0 * weights[0], -0.5 * weights[1], np.zeros(dim), 0.1 * weights[2]])
    biases = np.concatenate([biases, [2.0 * biases[0], -0.5 * biases[1], 0.7, 50.0]])
    biases[5] = -500.0
    return lb.Layer(weights, biases, activation)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda one: one.name)
@pytest.mark.parametrize("seed", range(3))
def test_one_layer_loses_all_that_can_go(activation, seed):
    rng = np.random.default_rng(seed)
    network = lb.Network(redundant_layer(rng, 4, activation), rng.normal(size=10), 0.5, rng.normal(size=4))
    result = lb.simplify(network)
    assert (result.before, result.after) == ((10,), (5,))
    assert sum(result.removed.values()) == 5
    x = points(rng, (-1.0, 1.0), 4)
    assert np.abs(network(x) - result.network(x)).max() <= result.bound + 1e-13 * np.abs(network(x)).max()
    assert result.bound < 1e-10


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda one: one.name)
@pytest.mark.parametrize("seed", range(3))
def test_deep_networks_stay_the_same_function(activation, seed):
    rng = np.random.default_rng(seed)
    weights, biases = rng.normal(size=(7, 10)), rng.normal(size=7)
    weights[2], biases[2] = 3.0 * weights[0], 3.0 * biases[0]
    biases[3:6] = 2000.0
    layers = (redundant_layer(rng, 4, activation), lb.Layer(weights, biases, activation),
              lb.Layer(rng.normal(size=(5, 7)), rng.normal(size=5), activation))
    network = lb.Network(layers, rng.normal(size=(5, 2)), rng.normal(size=2), rng.normal(size=(4, 2)))
    result = lb.simplify(network, box=(-0.5, np.array([0.5, 1.0, 1.5, 2.0])))
    assert sum(result.after) < sum(result.before)
    assert sum(result.removed.values()) == sum(result.before) - sum(result.after)
    x = points(rng, (-0.5, np.array([0.5, 1.0, 1.5, 2.0])), 4)
    difference = np.abs(network(x) - result.network(x)).max()
    assert difference <= result.bound + 1e-12 * np.abs(network(x)).max()
    assert result.bound < 1e-7  # sums of several thousands, rounded


def test_a_layer_that_is_affine_on_the_box_goes():
    rng = np.random.default_rng(0)
    lower = lb.Layer(rng.normal(size=(6, 3)))
    network = lb.Network((lower, lb.Layer(rng.normal(size=(4, 6)), np.full(4, 300.0))), rng.normal(size=4))
    result = lb.simplify(network)
    assert result.network.depth == 1 and result.after == (6,)
    x = points(rng, (-1.0, 1.0), 3)
    assert np.abs(network(x) - result.network(x)).max() <= 1e-10
    on = lb.Layer(rng.normal(size=(6, 3)), np.full(6, 300.0))
    lowest = lb.Network((on, lb.Layer(rng.normal(size=(4, 6)))), rng.normal(size=4))
    assert lb.simplify(lowest).network.depth == 1


def test_affine_functions_take_as_many_units_as_their_rank():
    """Twenty units that are always on, of two inputs: two units carry all of them."""
    rng = np.random.default_rng(0)
    weights, biases = rng.normal(size=(22, 2)), np.append(np.full(20, 100.0), [0.0, 0.1])
    upper = rng.normal(size=(5, 22))
    network = lb.Network((lb.Layer(weights, biases), lb.Layer(upper, -upper @ biases)), rng.normal(size=5))
    result = lb.simplify(network)
    assert result.after == (4, 5) and result.removed["always on"] == 18
    x = points(rng, (-1.0, 1.0), 2)
    assert np.abs(network(x) - result.network(x)).max() <= result.bound + 1e-9


def test_a_kink_outside_of_a_small_box_is_none_and_counts_in_a_larger_one():
    network = lb.Network(lb.Layer(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([-2.0, 0.0])), np.ones(2))
    assert lb.simplify(network).after == (1,)
    assert lb.simplify(network, box=(-3.0, 3.0)).after == (2,)


def test_units_that_differ_by_more_than_rounding_are_not_merged():
    row = np.array([1.0, 2.0, 3.0])
    near = lb.Network(lb.Layer(np.vstack([row, 2.0 * row * (1.0 + 1e-9 * np.arange(3))])), np.ones(2))
    assert lb.simplify(near).after == (2,)
    close = lb.Network(lb.Layer(np.vstack([row, 2.0 * row * (1.0 + 2e-16 * np.arange(3))])), np.ones(2))
    merged = lb.simplify(close)
    assert merged.after == (1,) and 0.0 < merged.bound < 1e-13


def test_a_network_without_anything_to_remove_is_left_as_it_is():
    network = lb.random_network(4, widths=(6, 5), rng=0)
    result = lb.simplify(network)
    assert result.after == result.before
    assert np.array_equal(result.network.layers[0].weights, network.layers[0].weights)
    assert "none" in str(result) and "10" not in str(result).split(":")[0].split("(")[1]


def test_bounds_enclose_what_is_computed(rng):
    """Also where nothing but rounding is between: the box is a single point."""
    weights, biases, x = rng.normal(size=(50, 40)), rng.normal(size=50), rng.normal(size=40)
    exact = (weights.astype(np.longdouble) @ x.astype(np.longdouble) + biases).astype(float)
    bounds = affine_bounds(weights, biases, Interval(x, x))
    assert (bounds.low <= exact).all() and (exact <= bounds.high).all()
    assert (bounds.high - bounds.low < 1e-11).all()
    for activation in ACTIVATIONS:
        values = activation_bounds(activation, Interval(np.array([-2.0, 1.0, -3.0]), np.array([1.0, 2.0, -1.0])))
        t = np.linspace(0.0, 1.0, 101)[:, None]
        seen = activation(np.array([-2.0, 1.0, -3.0]) + t * np.array([3.0, 1.0, 2.0]))
        assert (values.low <= seen.min(axis=0) + 1e-15).all() and (values.high >= seen.max(axis=0) - 1e-15).all()


@pytest.mark.parametrize(("given", "sentence"), [
    ({"box": (1.0, -1.0)}, "exceeds"), ({"box": (0.0, np.inf)}, "not finite"), ({"box": (np.zeros(3), 1.0)}, "2 inputs"),
    ({"network": lb.random_network(2, 3, lb.tanh, rng=0)}, "tanh")])
def test_what_cannot_be_proved_is_refused(given, sentence):
    network = given.pop("network", lb.random_network(2, 3, rng=0))
    with pytest.raises(lb.errors.InvalidInput, match=sentence):
        lb.simplify(network, **given)
