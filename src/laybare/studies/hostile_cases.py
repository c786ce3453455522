"""Data on which a certificate might lie: every family draws a case from a seed, with its truth, or none if that is out of class.

Half of what is given is wrong on purpose: widths, activations, laws. `fair` marks cases that are well posed and given the truth,
in which a right network should be verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import log_ndtr

from laybare.activations import Activation, gelu, leaky_relu, relu, sigmoid, softplus, tanh
from laybare.methods import GeneralReLU, LandscapeDesign, Method, SymmetricInputs, TensorInit
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.planted import random_network
from laybare.source import Oracle, Samples, Source

KINDS = (relu, tanh, softplus, gelu, sigmoid, leaky_relu(0.2))


class HostileCase(NamedTuple):
    """A source, what is given about it, and the truth: a network, or none; then `function` may say what made the labels.

    `mean` is the mean of noisy labels where that is no network: one is right if no network of its width is better by more than
    the resolution that its certificate states. `judged` are groups, weights or a loss that `recover` is given.
    """

    source: Source
    truth: Network | None
    width: int | None
    activation: Activation = relu
    method: Method | None = None
    fair: bool = False
    function: Callable[[Array], Array] | None = None
    mean: Callable[[Array], Array] | None = None
    judged: Mapping[str, Any] = MappingProxyType({})


def teacher(rng: Generator, dim: int, width: int, activation: Activation = relu, outputs: int = 1) -> Network:
    """Units that can be distinguished: rows of length one (two for smooth ones), readouts of one size."""
    net = random_network(dim, width, activation, outputs, biases=0.7, readout="random", rng=rng)
    if activation.degree is not None:
        return net
    return Network(Layer(2.0 * net.layer.weights, net.layer.biases, activation), net.readout, net.offset)


def noisy(y: Array, rng: Generator, *levels: float) -> Array:
    """With Gaussian noise of one of these levels, in standard deviations of y."""
    level = float(rng.choice(levels)) if len(levels) > 1 else levels[0]
    return np.asarray(y + level * y.std(axis=0) * rng.standard_normal(y.shape))


def _sizes(rng: Generator) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(1, 5))


def _inputs(rng: Generator, dim: int, width: int, *ratios: float) -> Array:
    """White inputs: one of these numbers of rows per parameter, and 40 at least."""
    ratio = float(rng.choice(ratios)) if len(ratios) > 1 else ratios[0]
    return np.asarray(rng.standard_normal((max(40, int(ratio * (width * (dim + 2) + 1))), dim)))


def _given(rng: Generator, width: int, share: float = 0.5) -> int | None:
    """The width, given in this share of the cases."""
    return width if rng.random() < share else None


def plain(rng: Generator) -> HostileCase:
    """Nothing hostile: 6-5-1, about ten equations per parameter, noise a tenth of y, width given."""
    truth = random_network(6, 5, readout="positive", rng=rng)
    x = rng.standard_normal((420, 6))
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.1)), truth, 5, fair=True)


def noiseless(rng: Generator) -> HostileCase:
    """Well posed without noise, any activation; the width is given or not."""
    (dim, width), kind = _sizes(rng), KINDS[rng.integers(len(KINDS))]
    truth, x = teacher(rng, dim, width, kind), _inputs(rng, dim, width, 12)
    return HostileCase(Samples(x, truth(x)), truth, _given(rng, width), kind, fair=True)


def wrong_width(rng: Generator) -> HostileCase:
    """A given width that is off by one or three, or none."""
    dim, width = _sizes(rng)
    truth, x = teacher(rng, dim, width), _inputs(rng, dim, width + 3, 8)
    given = (width + 1, max(1, width - 1), width + 3, max(1, width - 3), None)[rng.integers(5)]
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.0, 0.05, 0.2)), truth, given)


def wrong_activation(rng: Generator) -> HostileCase:
    """Another activation than the one behind the data; all of these can be distinguished."""
    dim, width = _sizes(rng)
    kinds = [relu, tanh, softplus, gelu]
    true, given = (kinds[i] for i in rng.choice(4, 2, replace=False))
    truth, x = teacher(rng, dim, width, true), _inputs(rng, dim, width, 5, 15, 40)
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.0, 0.01, 0.1)), None, _given(rng, width), given)


def inputs(rng: Generator) -> HostileCase:
    """Inputs with heavy tails, in a cube, nearly collinear, on a lattice, or with every row several times."""
    dim, width = _sizes(rng)
    truth, x = teacher(rng, dim, width), _inputs(rng, dim, width, 2, 5, 15)
    n = len(x)
    kind = int(rng.integers(5))
    if kind == 0:
        x = rng.standard_t(2.5, (n, dim))
    elif kind == 1:
        x = rng.uniform(-2.0, 2.0, (n, dim))
    elif kind == 2:
        x[:, 1] = x[:, 0] + 10.0 ** rng.uniform(-4, -1) * x[:, 1]
    elif kind == 3:
        x = rng.choice([-1.0, 0.0, 1.0, 2.0], (n, dim))
    y = noisy(truth(x), rng, 0.0, 0.05, 0.3)
    if kind == 4:
        again = rng.integers(max(4, n // 4), size=n)
        x, y = x[again], y[again]
    return HostileCase(Samples(x, y), truth, _given(rng, width, 0.7))


def noise(rng: Generator) -> HostileCase:
    """Noise of many kinds, from 1 to 100 % of y: Laplace, larger in places, multiplicative, correlated from row to row."""
    dim, width = _sizes(rng)
    truth, x = teacher(rng, dim, width), _inputs(rng, dim, width, 5, 12, 30)
    n = len(x)
    y, level = truth(x), float(rng.choice([0.01, 0.1, 0.3, 1.0]))
    e = rng.standard_normal(n)
    made = (
        rng.laplace(size=n), (x[:, 0] > 0.5) * e, np.abs(x[:, 0]) ** 2 * e, y / y.std() * e,
        np.convolve(rng.standard_normal(n + 4), np.ones(5) / 5.0, "valid"), rng.standard_t(3, n))[rng.integers(6)]
    return HostileCase(Samples(x, y + level * y.std() * made), truth, _given(rng, width))


def units(rng: Generator) -> HostileCase:
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
    x = _inputs(rng, dim, width, 5, 15, 40)
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.0, 0.0, 0.02, 0.1)), truth, _given(rng, width))


def few(rng: Generator) -> HostileCase:
    """From 1.05 to 5 equations per unknown."""
    dim, width = _sizes(rng)
    truth = teacher(rng, dim, width)
    n = max(dim + 4, int(rng.uniform(1.05, 5.0) * (width * (dim + 1) + 1)))
    x = rng.standard_normal((n, dim))
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.0, 0.03, 0.1)), truth, _given(rng, width, 0.6))


def labels(rng: Generator) -> HostileCase:
    """Labels with a few decimals, clipped, or with outliers."""
    (dim, width), kind = _sizes(rng), int(rng.integers(3))
    width += kind == 1 and width == 1  # a single unit that is clipped is two units
    truth, x = teacher(rng, dim, width), _inputs(rng, dim, width, 5, 15, 40)
    y, given = truth(x), _given(rng, width)
    if kind == 0:
        return HostileCase(Samples(x, np.round(y, int(rng.integers(1, 7)))), truth, given)
    if kind == 1:
        size = float(rng.choice([0.0, 0.05]))
        y = noisy(y, rng, size)
        highest = np.quantile(y, rng.uniform(0.6, 0.97))
        clipped = None if size else lambda z: np.minimum(truth(z), highest)
        return HostileCase(Samples(x, np.minimum(y, highest)), None if y.max() > highest else truth, given, function=clipped)
    out = rng.random(len(x)) < 0.02
    return HostileCase(Samples(x, noisy(y, rng, 0.02) + 3.0 * y.std() * out * rng.standard_normal(len(x))), truth, given)


def single_precision(rng: Generator) -> HostileCase:
    """Labels in float32, well posed."""
    dim, width = _sizes(rng)
    truth, x = teacher(rng, dim, width), _inputs(rng, dim, width, 12)
    return HostileCase(Samples(x, truth(x).astype(np.float32)), truth, _given(rng, width), fair=True)


def linear_part(rng: Generator) -> HostileCase:
    """A truth with a linear part beside its units, well posed; noise or none."""
    dim, width = _sizes(rng)
    net = teacher(rng, dim, width)
    truth = Network(net.layer, net.readout, net.offset, rng.standard_normal(dim))
    x = _inputs(rng, dim, width + 1, 15)
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.0, 0.02)), truth, width, fair=True)


def outside(rng: Generator) -> HostileCase:
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
    y = noisy(f(), rng, 0.0, 0.0, 0.05)
    given = None if rng.random() < 0.6 else int(rng.integers(1, 6))
    return HostileCase(Samples(x, y), None, given, relu if rng.random() < 0.8 else tanh)


def several_outputs(rng: Generator) -> HostileCase:
    """Three outputs, one of which may be noise alone."""
    dim, width = _sizes(rng)
    truth, x = teacher(rng, dim, width, outputs=3), _inputs(rng, dim, width, 10)
    y = noisy(truth(x), rng, 0.0, 0.05)
    if rng.random() < 0.5:
        readout = np.array(truth.readout)
        readout[:, 2] = 0.0
        truth = Network(truth.layer, readout, np.array(truth.offset) * [1.0, 1.0, 0.0])
        y[:, 2] = rng.standard_normal(len(x)) * rng.uniform(0.01, 1.0)
    return HostileCase(Samples(x, y), truth, width)


def assumptions(rng: Generator) -> HostileCase:
    """The methods on data that break what they assume, their literal forms among them."""
    dim = int(rng.integers(3, 6))
    truth = random_network(dim, dim, outputs=dim, biases=0.0, rng=rng)
    x = rng.standard_normal((1500, dim)) if rng.random() < 0.5 else rng.exponential(size=(1500, dim)) - 1.0
    y = noisy(truth(x), rng, 0.0, 0.02, 0.1)
    literal = SymmetricInputs.literal() if rng.random() < 0.6 else SymmetricInputs()
    one = random_network(dim, max(1, dim - 1), rng=rng)
    single: tuple[Method, ...] = (TensorInit(), TensorInit.literal(partition=False), GeneralReLU(), LandscapeDesign())
    if rng.random() < 0.5:
        return HostileCase(Samples(x, y), truth, dim, method=literal)
    return HostileCase(Samples(x, noisy(one(x), rng, 0.05)), one, one.width, method=single[rng.integers(len(single))])


def drift(rng: Generator) -> HostileCase:
    """A black box whose answers drift from call to call."""
    dim, width = _sizes(rng)
    truth, rate, calls = teacher(rng, dim, width), float(rng.choice([1e-3, 0.05])), [0]

    def ask(x: Array) -> Array:
        calls[0] += 1
        return np.asarray(truth(x) * (1.0 + rate * calls[0]))

    return HostileCase(Oracle(ask, dim, budget=3000, rng=rng), None, width)


def tent(rng: Generator) -> HostileCase:
    """Three parallel units that add up to nothing outside of a slab: one unit more does not find them."""
    dim, net = _network(rng)
    row, place = unit_row(rng, dim), rng.uniform(0.0, 2.0) + rng.uniform(0.1, 0.5) * np.array([-1.0, 0.0, 1.0])
    truth = Network(
        Layer(np.vstack([net.layer.weights, np.tile(row, (3, 1))]), np.concatenate([net.layer.biases, -place])),
        np.concatenate([net.readout, rng.uniform(0.5, 4.0) * np.array([1.0, -2.0, 1.0])]), net.offset)
    x = rng.standard_normal((_many(rng), dim))
    return HostileCase(Samples(x, noisy(truth(x), rng, 0.01, 0.1, 0.3)), truth, None)


def wave(rng: Generator) -> HostileCase:
    """A small wave beside the network, slow or fast, along one direction."""
    dim, net = _network(rng)
    row, height, speed = unit_row(rng, dim), 10.0 ** rng.uniform(-2.0, -0.3), 10.0 ** rng.uniform(0.3, 1.3)

    def mean(x: Array) -> Array:
        return np.asarray(net(x) + height * np.sin(speed * x @ row))

    x = rng.standard_normal((_many(rng), dim))
    return HostileCase(Samples(x, noisy(mean(x), rng, 0.01, 0.1, 0.3)), None, None, mean=mean)


def sensor_drop_outs(rng: Generator) -> HostileCase:
    """In a few rows of a hundred a unit was left out, or the answer is that of nothing: noise that is not symmetric."""
    dim, net = _network(rng)
    share, unit = rng.uniform(0.005, 0.04), bool(rng.random() < 0.5)
    without = Network(net.layer, np.where(np.arange(net.width) == 0, 0.0, net.readout) if unit else 0.0 * net.readout, net.offset)

    def mean(x: Array) -> Array:
        return np.asarray((1.0 - share) * net(x) + share * without(x))

    x = rng.standard_normal((_many(rng), dim))
    y = noisy(np.where(rng.random(len(x)) < share, without(x), net(x)), rng, 0.01, 0.1)
    return HostileCase(Samples(x, y), None, None, mean=mean)


def clustered(rng: Generator) -> HostileCase:
    """Rows in groups that nobody named: inputs near each other, and a part of the noise in common."""
    dim, net = _network(rng)
    rows, size = _many(rng), int(rng.choice([3, 10, 30]))
    member = np.arange(rows) // size
    centres = rng.standard_normal((member[-1] + 1, dim))
    x = 0.9 * centres[member] + np.sqrt(1.0 - 0.81) * rng.standard_normal((rows, dim))
    shared = rng.standard_normal(len(centres))[member]
    e = (0.7 * shared + np.sqrt(1.0 - 0.49) * rng.standard_normal(rows)) * rng.choice([0.05, 0.2, 0.5]) * net(x).std()
    order = rng.permutation(rows) if rng.random() < 0.5 else np.arange(rows)
    return HostileCase(Samples(x[order], (net(x) + e)[order]), net, None)


def time_series(rng: Generator) -> HostileCase:
    """Inputs and noise that remember the row before, or a level that wanders."""
    dim, net = _network(rng)
    rows, memory = _many(rng), rng.uniform(0.7, 0.98)
    x = remembering(rng, rows, dim, memory)
    made = remembering(rng, rows, 1, memory)[:, 0] if rng.random() < 0.7 else np.linspace(-1.7, 1.7, rows)
    return HostileCase(Samples(x, net(x) + rng.choice([0.05, 0.2, 0.5]) * net(x).std() * made), net, None)


def judged_rows(rng: Generator) -> HostileCase:
    """A wave, a tent or nothing beside the network, and named groups, weights, or heavy tails with the loss for them."""
    beside = (wave, tent, plain_rows)[int(rng.integers(3))](rng)
    x, y = beside.source.read(0, beside.source.size)
    spread, y = float(y.std()), y[:, 0]
    kind = int(rng.integers(3))
    if kind == 0:
        groups = np.arange(len(x)) // int(rng.choice([3, 10]))
        shared = rng.choice([0.05, 0.2]) * spread * rng.standard_normal(groups[-1] + 1)[groups]
        return beside._replace(source=Samples(x, y + shared), judged={"groups": groups})
    if kind == 1:
        weights = rng.uniform(0.2, 3.0, len(x))
        uneven = 0.2 * spread * rng.standard_normal(len(x)) / np.sqrt(weights)
        return beside._replace(source=Samples(x, y + uneven), judged={"sample_weight": weights})
    return beside._replace(source=Samples(x, y + 0.1 * spread * rng.standard_t(3, len(x))), judged={"loss": "huber"})


def plain_rows(rng: Generator) -> HostileCase:
    """A network of a few units, many rows, little noise."""
    dim, net = _network(rng)
    x = rng.standard_normal((_many(rng), dim))
    return HostileCase(Samples(x, noisy(net(x), rng, 0.01, 0.1)), net, None)


def selected_by_y(rng: Generator) -> HostileCase:
    """Rows are there only if y is above a limit. They show the mean of these: no network, unless hardly any is left out."""
    dim, net = _network(rng)
    rows = _many(rng)
    x = rng.standard_normal((3 * rows, dim))
    f = net(x)
    sd = float(rng.choice([0.1, 0.3])) * float(f.std())
    y = f + sd * rng.standard_normal(len(x))
    limit = float(np.quantile(y, rng.uniform(0.02, 0.5)))

    def mean(z: Array) -> Array:
        t = (limit - net(z)) / sd  # the mean beyond the limit: f + sd · φ(t) / (1 - Φ(t))
        return np.asarray(net(z) + sd * np.exp(-0.5 * t**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-t)))

    kept = np.flatnonzero(y > limit)[:rows]
    return HostileCase(Samples(x[kept], y[kept]), None, None, mean=mean)


def loud(rng: Generator) -> HostileCase:
    """Noise of 30 to 100 % of y, 20 to 150 rows per parameter."""
    dim, width = _sizes(rng)
    truth, x = teacher(rng, dim, width), _inputs(rng, dim, width, 20, 50, 150)
    return HostileCase(Samples(x, truth(x) + rng.uniform(0.3, 1.0) * truth(x).std() * rng.standard_normal(len(x))), truth, None)


def remembering(rng: Generator, rows: int, dim: int, memory: float) -> Array:
    """An autoregressive series (rows, dim) of variance one."""
    made = rng.standard_normal((rows, dim))
    for row in range(1, rows):
        made[row] = memory * made[row - 1] + np.sqrt(1.0 - memory**2) * made[row]
    return made


def unit_row(rng: Generator, dim: int) -> Array:
    """A random direction."""
    row = rng.standard_normal(dim)
    return np.asarray(row / np.linalg.norm(row))


def _network(rng: Generator) -> tuple[int, Network]:
    dim = int(rng.integers(2, 6))
    return dim, teacher(rng, dim, int(rng.integers(1, 4)))


def _many(rng: Generator) -> int:
    """From 200 to 10,000 rows."""
    return int(10.0 ** rng.uniform(2.3, 4.0))


FAMILIES: dict[str, Callable[[Generator], HostileCase]] = {
    family.__name__.replace("_", " "): family
    for family in (
        plain, noiseless, wrong_width, wrong_activation, inputs, noise, units, few, labels, single_precision, linear_part,
        outside, several_outputs, assumptions, drift, tent, wave, sensor_drop_outs, clustered, time_series, selected_by_y, loud,
        judged_rows)
}
