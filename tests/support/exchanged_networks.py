"""Networks for the tests of exchange, and what "the same" means there."""

from __future__ import annotations

import numpy as np
from deep_networks import deep_network

import laybare as lb

BUILT_IN = [
    lb.relu, lb.leaky_relu(0.1), lb.leaky_relu(-0.5), lb.power_relu(2), lb.power_relu(1.5), lb.absolute, lb.sigmoid, lb.tanh,
    lb.erf, lb.softplus, lb.gelu, lb.step, lb.exponential(0.7)]


def sample(rng, activations=(lb.relu,), outputs=None, sizes=(6, 5, 4, 3), linear=False):
    """Three hidden layers unless told otherwise, and 1,000 points."""
    return deep_network(rng, sizes, outputs, tuple(activations), linear), rng.normal(size=(1000, sizes[0]))


def same_bits(one: lb.Network, other: lb.Network) -> bool:
    """Every array of both has the same shape and bits, every layer the same activation."""
    acts = [[layer.activation for layer in net.layers] for net in (one, other)]
    return acts[0] == acts[1] and [_bits(array) for array in _arrays(one)] == [_bits(array) for array in _arrays(other)]


def _arrays(net):
    return [*(array for layer in net.layers for array in (layer.weights, layer.biases)), net.readout, np.asarray(net.offset),
            np.asarray(np.nan if net.linear is None else net.linear)]


def _bits(array):
    return array.shape, array.tobytes()
