"""Hypothesis strategies: networks of every kind, and copies of them that differ by symmetries only."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from laybare.activations import (
    Activation,
    absolute,
    erf,
    exponential,
    gelu,
    leaky_relu,
    power_relu,
    relu,
    sigmoid,
    softplus,
    step,
    tanh,
)
from laybare.networks import Layer, Network
from laybare.networks.canonical import reflection

SWISH = Activation.custom(
    "swish", lambda t: t / (1 + np.exp(-t)), lambda t: (1 + np.exp(-t) * (1 + t)) / (1 + np.exp(-t)) ** 2, mirror=1.0)
SQUARE_SIGNED = Activation.custom("t|t|", lambda t: t * np.abs(t), lambda t: 2 * np.abs(t), degree=2, parity="odd")
ACTIVATIONS = [
    relu, leaky_relu(0.1), leaky_relu(-0.5), power_relu(2), power_relu(1.5), absolute, sigmoid, tanh, erf, softplus, gelu, step,
    exponential(0.7), SWISH, SQUARE_SIGNED]

GRID = st.integers(-16, 16).map(lambda i: i / 8)
"""Zeros, ties and parallel rows are common; gaps are never as small as the tolerances of the canonical form."""


@st.composite
def networks(draw: st.DrawFn, numbers: st.SearchStrategy[float] = GRID, activation: Activation | None = None) -> Network:
    """Width 0-5, dim 1-3, one output as a vector or 1-3 as a matrix, with or without a linear part."""
    k, d = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    tail = draw(st.sampled_from([(), (), (1,), (3,)]))

    def array(*shape: int) -> np.ndarray:
        return draw(npst.arrays(np.float64, shape, elements=numbers))

    chosen = draw(st.sampled_from(ACTIVATIONS)) if activation is None else activation
    linear = array(d, *tail) if draw(st.booleans()) else None
    return Network(Layer(array(k, d), array(k), chosen), array(k, *tail), array(*tail), linear)


def copy_of(network: Network, rng: np.random.Generator, add_linear: bool = False) -> Network:
    """The same function with other numbers: reflected, rescaled, split, permuted, with units that do nothing.

    Reflections that need a linear part happen if there is one, or if `add_linear` allows to add it.
    """
    activation, mirror = network.activation, reflection(network.activation)
    w, b = network.layer.weights.copy(), network.layer.biases.copy()
    a, c, linear = (part.copy() for part in network.columns)
    has_linear = network.linear is not None or add_linear
    for i in range(len(w)):
        if mirror is not None and (has_linear or mirror.slope == 0) and rng.random() < 0.5:
            c += a[i] * (mirror.slope * b[i] + mirror.constant)
            linear += mirror.slope * np.outer(w[i], a[i])
            w[i], b[i], a[i] = -w[i], -b[i], mirror.sign * a[i]
        if activation.degree is not None:
            s = np.exp(rng.normal())
            w[i], b[i], a[i] = s * w[i], s * b[i], a[i] / s**activation.degree
        if activation.name.startswith("exponential"):
            s = rng.normal()
            b[i], a[i] = b[i] + s, a[i] / activation(np.array([s]))
    if len(w):  # one unit in two parts, one without effect, one that is constant
        w, b = np.vstack([w, w[-1:], rng.normal(size=(2, network.dim))]), np.append(b, [b[-1], 0.3, 0.7])
        a = np.vstack([a, 0.25 * a[-1:], np.zeros((1, a.shape[1])), rng.normal(size=(1, a.shape[1]))])
        a[-4] *= 0.75
        w[-1] = 0
        c -= activation(b[-1:])[0] * a[-1]
    order, tail = rng.permutation(len(w)), network.readout.shape[1:]
    return Network(
        Layer(w[order], b[order], activation), a[order].reshape(len(w), *tail), c.reshape(tail),
        linear.reshape(network.dim, *tail) if has_linear else None)
