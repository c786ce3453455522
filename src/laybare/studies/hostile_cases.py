"""Data on which a certificate might lie: every family draws a case from a seed, with its truth, or none if that is out of class.

Half of what is told is wrong on purpose: widths, activations, laws. `fair` marks cases that are well posed and told the truth, in
which a right network should be verified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, erf, gelu, leaky_relu, relu, sigmoid, softplus, tanh
from laybare.methods import GeneralReLU, LandscapeDesign, Method, SymmetricInputs, TensorInit
from laybare.networks import Layer, Network
from laybare.planted import random_network
from laybare.shapes import Array
from laybare.source import Oracle, Samples, Source

KINDS = (relu, tanh, softplus, gelu, sigmoid, leaky_relu(0.2))


class Case(NamedTuple):
    """A source, what is told about it, and the truth: a network, or none; then `function` may say what made the labels."""

    source: Source
    truth: Network | None
    width: int | None
    activation: Activation = relu
    method: Method | None = None
    fair: bool = False
    function: Callable[[Array], Array] | None = None


def teacher(rng: Generator, dim: int, width: int, activation: Activation = relu, outputs: int = 1) -> Network:
    """Units that can be told apart: rows of length one (two for smooth ones), readouts of one size."""
    net = random_network(dim, width, activation, outputs, biases=0.7, readout="random", rng=rng)
    if activation.degree is not None:
        return net
    return Network(Layer(2.0 * net.layer.weights, net.layer.biases, activation), net.readout, net.offset)


def noisy(y: Array, level: float, rng: Generator) -> Array:
    """With Gaussian noise of so many standard deviations of y."""
    return np.asarray(y + level * y.std(axis=0) * rng.standard_normal(y.shape))


def _sizes(rng: Generator) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(1, 5))


def _rows(dim: int, width: int, ratio: float) -> int:
    return max(40, int(ratio * (width * (dim + 2) + 1)))


def plain(rng: Generator) -> Case:
    """Nothing hostile: 6-5-1, about ten equations per parameter, noise a tenth of y, width told."""
    truth = random_network(6, 5, readout="positive", rng=rng)
    x = rng.standard_normal((420, 6))
    return Case(Samples(x, noisy(truth(x), 0.1, rng)), truth, 5, fair=True)


def noiseless(rng: Generator) -> Case:
    """Well posed without noise, any activation; the width is told or not."""
    (dim, width), kind = _sizes(rng), KINDS[rng.integers(len(KINDS))]
    truth = teacher(rng, dim, width, kind)
    x = rng.standard_normal((_rows(dim, width, 12), dim))
    return Case(Samples(x, truth(x)), truth, width if rng.random() < 0.5 else None, kind, fair=True)


def wrong_width(rng: Generator) -> Case:
    """A width told that is off by one or three, or none."""
    dim, width = _sizes(rng)
    truth = teacher(rng, dim, width)
    x = rng.standard_normal((_rows(dim, width + 3, 8), dim))
    told = (width + 1, max(1, width - 1), width + 3, max(1, width - 3), None)[rng.integers(5)]
    return Case(Samples(x, noisy(truth(x), float(rng.choice([0.0, 0.05, 0.2])), rng)), truth, told)


def wrong_activation(rng: Generator) -> Case:
    """Another activation than the one behind the data; all of these can be told apart."""
    dim, width = _sizes(rng)
    kinds = [relu, tanh, softplus, gelu]
    true, told = (kinds[i] for i in rng.choice(4, 2, replace=False))
    truth = teacher(rng, dim, width, true)
    x = rng.standard_normal((_rows(dim, width, float(rng.choice([5, 15, 40]))), dim))
    y = noisy(truth(x), float(rng.choice([0.0, 0.01, 0.1])), rng)
    return Case(Samples(x, y), None, width if rng.random() < 0.5 else None, told)


def inputs(rng: Generator) -> Case:
    """Inputs with heavy tails, in a cube, nearly collinear, on a lattice, or with every row several times."""
    dim, width = _sizes(rng)
    truth, n = teacher(rng, dim, width), _rows(dim, width, float(rng.choice([2, 5, 15])))
    x = rng.standard_normal((n, dim))
    kind = int(rng.integers(5))
    if kind == 0:
        x = rng.standard_t(2.5, (n, dim))
    elif kind == 1:
        x = rng.uniform(-2.0, 2.0, (n, dim))
    elif kind == 2:
        x[:, 1] = x[:, 0] + 10.0 ** rng.uniform(-4, -1) * x[:, 1]
    elif kind == 3:
        x = rng.choice([-1.0, 0.0, 1.0, 2.0], (n, dim))
    y = noisy(truth(x), float(rng.choice([0.0, 0.05, 0.3])), rng)
    if kind == 4:
        again = rng.integers(max(4, n // 4), size=n)
        x, y = x[again], y[again]
    return Case(Samples(x, y), truth, width if rng.random() < 0.7 else None)


def noise(rng: Generator) -> Case:
    """Noise of many kinds, from 1 to 100 % of y: Laplace, larger in places, multiplicative, correlated from row to row."""
    dim, width = _sizes(rng)
    truth, n = teacher(rng, dim, width), _rows(dim, width, float(rng.choice([5, 12, 30])))
    x = rng.standard_normal((n, dim))
    y, level = truth(x), float(rng.choice([0.01, 0.1, 0.3, 1.0]))
    e = rng.standard_normal(n)
    made = (
        rng.laplace(size=n), (x[:, 0] > 0.5) * e, np.abs(x[:, 0]) ** 2 * e, y / y.std() * e,
        np.convolve(rng.standard_normal(n + 4), np.ones(5) / 5.0, "valid"), rng.standard_t(3, n))[rng.integers(6)]
    return Case(Samples(x, y + level * y.std() * made), truth, width if rng.random() < 0.5 else None)


def units(rng: Generator) -> Case:
    """Units that are nearly parallel, rare, or tiny."""
    dim, width = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    truth = teacher(rng, dim, width)
    rows, biases, readout = np.array(truth.layer.weights), np.array(truth.layer.biases), np.array(truth.readout)
    kind = int(rng.integers(3))
    if kind == 0:
        rows[1] = rows[0] + 10.0 ** rng.uniform(-3, -0.5) * rows[1]
        rows[1] /= np.linalg.norm(rows[1])
        biases[1] = biases[0] + 0.1 * rng.standard_normal()
    elif kind == 1:
        biases[0] = -rng.uniform(1.5, 3.0)
    else:
        readout[0] *= 10.0 ** rng.uniform(-11, -1)
    truth = Network(Layer(rows, biases), readout)
    x = rng.standard_normal((_rows(dim, width, float(rng.choice([5, 15, 40]))), dim))
    y = noisy(truth(x), float(rng.choice([0.0, 0.0, 0.02, 0.1])), rng)
    return Case(Samples(x, y), truth, width if rng.random() < 0.5 else None)


def few(rng: Generator) -> Case:
    """From 1.05 to 5 equations per unknown."""
    dim, width = _sizes(rng)
    truth = teacher(rng, dim, width)
    n = max(dim + 4, int(rng.uniform(1.05, 5.0) * (width * (dim + 1) + 1)))
    x = rng.standard_normal((n, dim))
    y = noisy(truth(x), float(rng.choice([0.0, 0.03, 0.1])), rng)
    return Case(Samples(x, y), truth, width if rng.random() < 0.6 else None)


def labels(rng: Generator) -> Case:
    """Labels with so many decimals, clipped, or with outliers."""
    (dim, width), kind = _sizes(rng), int(rng.integers(3))
    width += kind == 1 and width == 1  # a single unit that is clipped is two units
    truth = teacher(rng, dim, width)
    x = rng.standard_normal((_rows(dim, width, float(rng.choice([5, 15, 40]))), dim))
    y, told = truth(x), width if rng.random() < 0.5 else None
    if kind == 0:
        return Case(Samples(x, np.round(y, int(rng.integers(1, 7)))), truth, told)
    if kind == 1:
        size = float(rng.choice([0.0, 0.05]))
        y = noisy(y, size, rng)
        highest = np.quantile(y, rng.uniform(0.6, 0.97))
        clipped = None if size else lambda z: np.minimum(truth(z), highest)
        return Case(Samples(x, np.minimum(y, highest)), None if y.max() > highest else truth, told, function=clipped)
    out = rng.random(len(x)) < 0.02
    return Case(Samples(x, noisy(y, 0.02, rng) + 3.0 * y.std() * out * rng.standard_normal(len(x))), truth, told)


def single_precision(rng: Generator) -> Case:
    """Labels in float32, well posed."""
    dim, width = _sizes(rng)
    truth = teacher(rng, dim, width)
    x = rng.standard_normal((_rows(dim, width, 12), dim))
    return Case(Samples(x, truth(x).astype(np.float32)), truth, width if rng.random() < 0.5 else None, fair=True)


def linear_part(rng: Generator) -> Case:
    """A truth with a linear part beside its units, well posed; noise or none."""
    dim, width = _sizes(rng)
    net = teacher(rng, dim, width)
    truth = Network(net.layer, net.readout, net.offset, rng.standard_normal(dim))
    x = rng.standard_normal((_rows(dim, width + 1, 15), dim))
    return Case(Samples(x, noisy(truth(x), float(rng.choice([0.0, 0.02])), rng)), truth, width, fair=True)


def outside(rng: Generator) -> Case:
    """Functions that are no such network: deep ones, trees, polynomials, waves, a product, pure noise."""
    dim, kind = int(rng.integers(2, 6)), int(rng.integers(7))
    x = rng.standard_normal((int(rng.choice([60, 150, 400, 1000])), dim))
    w = rng.standard_normal((6, dim)) / np.sqrt(dim)
    f = (
        lambda: random_network(dim, widths=(6, 4), rng=rng)(x),
        lambda: np.where(x[:, 0] > 0.3, 1.0, -1.0) + (x[:, -1] > 0.0) * (x[:, 0] < 0.0),
        lambda: (x @ w[0]) ** 2 + (x @ w[1]) * (x @ w[2]) + x @ w[3],
        lambda: (x @ w[0]) ** 3 - x @ w[1],
        lambda: np.sin(2.0 * x @ w[0]) + np.cos(x @ w[1]),
        lambda: np.maximum(x @ w[0], 0.0) * np.maximum(x @ w[1], 0.0),
        lambda: rng.standard_normal(len(x)))[kind]
    y = noisy(f(), float(rng.choice([0.0, 0.0, 0.05])), rng)
    told = None if rng.random() < 0.6 else int(rng.integers(1, 6))
    return Case(Samples(x, y), None, told, relu if rng.random() < 0.8 else tanh)


def several_outputs(rng: Generator) -> Case:
    """Three outputs, one of which may be noise alone."""
    dim, width = _sizes(rng)
    truth = teacher(rng, dim, width, outputs=3)
    x = rng.standard_normal((_rows(dim, width, 10), dim))
    y = noisy(truth(x), float(rng.choice([0.0, 0.05])), rng)
    if rng.random() < 0.5:
        readout = np.array(truth.readout)
        readout[:, 2] = 0.0
        truth = Network(truth.layer, readout, np.array(truth.offset) * [1.0, 1.0, 0.0])
        y[:, 2] = rng.standard_normal(len(x)) * rng.uniform(0.01, 1.0)
    return Case(Samples(x, y), truth, width)


def assumptions(rng: Generator) -> Case:
    """The methods on data that break what they assume, their literal forms among them."""
    dim = int(rng.integers(3, 6))
    truth = random_network(dim, dim, outputs=dim, biases=0.0, rng=rng)
    x = rng.standard_normal((1500, dim)) if rng.random() < 0.5 else rng.exponential(size=(1500, dim)) - 1.0
    y = noisy(truth(x), float(rng.choice([0.0, 0.02, 0.1])), rng)
    literal = SymmetricInputs.literal() if rng.random() < 0.6 else SymmetricInputs()
    one = random_network(dim, max(1, dim - 1), rng=rng)
    single: tuple[Method, ...] = (TensorInit(), TensorInit.literal(), GeneralReLU(), LandscapeDesign())
    if rng.random() < 0.5:
        return Case(Samples(x, y), truth, dim, method=literal)
    return Case(Samples(x, noisy(one(x), 0.05, rng)), one, one.width, method=single[rng.integers(len(single))])


def drift(rng: Generator) -> Case:
    """A black box whose answers drift from call to call."""
    dim, width = _sizes(rng)
    truth, rate, calls = teacher(rng, dim, width), float(rng.choice([1e-3, 0.05])), [0]

    def ask(x: Array) -> Array:
        calls[0] += 1
        return np.asarray(truth(x) * (1.0 + rate * calls[0]))

    return Case(Oracle(ask, dim, budget=3000, rng=rng), None, width)


def look_alike(rng: Generator) -> Case:
    """tanh told erf: no test sees that at such sizes with noise; counted apart, and listed in the docs."""
    truth = teacher(rng, 3, 2, tanh)
    x = rng.standard_normal((300, 3))
    return Case(Samples(x, noisy(truth(x), 0.1, rng)), None, 2, erf)


FAMILIES: dict[str, Callable[[Generator], Case]] = {
    family.__name__.replace("_", " "): family
    for family in (
        plain, noiseless, wrong_width, wrong_activation, inputs, noise, units, few, labels, single_precision, linear_part,
        outside, several_outputs, assumptions, drift)
}
