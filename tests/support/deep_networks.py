"""Deep networks for tests, and copies of them that are the same function with other numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from sample_networks import ACTIVATIONS

from laybare.activations import Activation, relu
from laybare.networks import Layer, Network
from laybare.networks.canonical import reflection


def deep_network(rng, sizes=(4, 6, 5, 3), outputs=2, activations=(relu,), linear=False):
    """Rows N(0, 1/fan-in), biases .5 N(0, 1); `activations` in turn. `outputs` None gives a vector readout."""
    layers = [
        Layer(rng.normal(size=(k, d)) / np.sqrt(d), 0.5 * rng.normal(size=k), activations[i % len(activations)])
        for i, (d, k) in enumerate(pairwise(sizes))]
    tail = () if outputs is None else (outputs,)
    return Network(layers, rng.normal(size=(sizes[-1], *tail)), rng.normal(size=tail),
                   rng.normal(size=(sizes[0], *tail)) if linear else None)


@st.composite
def deep_networks(draw, activations=tuple(ACTIVATIONS)):
    """Depth 2 or 3, widths 1-4, mixed activations; numbers without ties."""
    sizes = [draw(st.integers(1, 3)), *(draw(st.integers(1, 4)) for _ in range(draw(st.integers(2, 3))))]
    chosen = [draw(st.sampled_from(activations)) for _ in sizes[1:]]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return deep_network(rng, sizes, draw(st.sampled_from([None, 1, 2])), chosen, draw(st.booleans()))


def deep_copy_of(network: Network, rng: np.random.Generator) -> Network:
    """The same function: every layer reflected where that is free, rescaled, split, permuted, with units that do nothing."""
    parts = [[np.array(layer.weights), np.array(layer.biases)] for layer in network.layers]
    parts.append([np.array(network.readout.reshape(network.widths[-1], -1).T), np.reshape(network.offset, -1).astype(float)])
    for level, layer in enumerate(network.layers):
        (w, b), (above, c) = parts[level], parts[level + 1]
        w, b, above, c = _disguised(w, b, above.T.copy(), c.copy(), layer.activation, rng)
        parts[level], parts[level + 1] = [w, b], [above.T, c]
    layers = [Layer(w, b, layer.activation) for (w, b), layer in zip(parts, network.layers, strict=False)]
    tail = network.readout.shape[1:]
    return Network(layers, parts[-1][0].T.reshape(layers[-1].width, *tail), parts[-1][1].reshape(tail), network.linear)


def _disguised(w, b, a, c, activation: Activation, rng):
    mirror = reflection(activation)
    for i in range(len(w)):
        if mirror is not None and mirror.slope == 0 and rng.random() < 0.5:
            c += a[i] * mirror.constant
            w[i], b[i], a[i] = -w[i], -b[i], mirror.sign * a[i]
        if activation.degree is not None:
            s = np.exp(rng.normal())
            w[i], b[i], a[i] = s * w[i], s * b[i], a[i] / s**activation.degree
        if activation.name.startswith("exponential"):
            s = rng.normal()
            b[i], a[i] = b[i] + s, a[i] / activation(np.array([s]))
    k, d, m = len(w), w.shape[1], a.shape[1]
    w, b = np.vstack([w, w[-1:], rng.normal(size=(2, d))]), np.append(b, [b[-1], 0.3, 0.7])
    w[-1] = 0  # a constant; the one before it is read by nobody, and unit k - 1 is split in two
    a = np.vstack([a, 0.25 * a[-1:], np.zeros((1, m)), rng.normal(size=(1, m))])
    a[k - 1] *= 0.75
    c -= activation(b[-1:])[0] * a[-1]
    order = rng.permutation(len(w))
    return w[order], b[order], a[order], c
