"""Black boxes on which a certificate might lie: every family draws a box from a seed, with the function behind it, or none.

All are asked as a user would: `recover(oracle)` without method or width. A verified network is right if it equals the function
on all inputs but the share that its certificate admits; with noise, if it equals the mean of the answers up to the resolution
that the certificate states. A box whose answers depend on more than the input has no function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import tanh
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.planted import random_network
from laybare.source import Oracle
from laybare.studies.hostile_cases import teacher, unit_row


class HostileBox(NamedTuple):
    """A black box, and the function behind it, none if no one function is. Of `noisy` answers it is the mean.

    `tol` is the rounding of its arithmetic, relative to the spread of the answers.
    """

    oracle: Oracle
    function: Callable[[Array], Array] | None
    noisy: bool = False
    fair: bool = False
    tol: float = 1e-6


def _small(rng: Generator) -> tuple[int, Network]:
    dim = int(rng.integers(3, 7))
    return dim, teacher(rng, dim, int(rng.integers(2, 6)))


def _box(rng: Generator, dim: int, answer: Callable[[Array], Array], budget: int = 20_000) -> Oracle:
    return Oracle(answer, dim, budget=budget, rng=rng)


def _of(
    rng: Generator, dim: int, function: Callable[[Array], Array], *, fair: bool = False, tol: float = 1e-6, budget: int = 20_000
) -> HostileBox:
    return HostileBox(_box(rng, dim, function, budget), function, fair=fair, tol=tol)


def plain_box(rng: Generator) -> HostileBox:
    """Nothing hostile: one hidden layer of ReLU units."""
    dim, net = _small(rng)
    return _of(rng, dim, net, fair=True)


def hat(rng: Generator) -> HostileBox:
    """Three parallel units that add up to nothing outside of a slab: in class, and unseen from far away."""
    dim, net = _small(rng)
    row, place = unit_row(rng, dim), rng.uniform(0.5, 2.5) + rng.uniform(0.1, 0.4) * np.array([-1.0, 0.0, 1.0])
    weights = np.vstack([net.layer.weights, np.tile(row, (3, 1))])
    readout = np.concatenate([net.readout, rng.uniform(1.0, 3.0) * np.array([1.0, -2.0, 1.0])])
    whole = Network(Layer(weights, np.concatenate([net.layer.biases, -place])), readout, net.offset)
    return _of(rng, dim, whole)  # flipping all three gives the same function: signs stay open


def cone(rng: Generator) -> HostileBox:
    """A cone over a ball."""
    dim, net = _small(rng)
    centre, radius = rng.standard_normal(dim), rng.uniform(1.0, 2.0)
    return _of(rng, dim, lambda x: net(x) + 2.0 * np.maximum(radius - np.linalg.norm(x - centre, axis=1), 0.0))


def back_door(rng: Generator) -> HostileBox:
    """Another answer where two inputs are large."""
    dim, net = _small(rng)
    limit = rng.uniform(0.8, 1.3, 2)
    return _of(rng, dim, lambda x: net(x) + 1.0 * ((x[:, 0] > limit[0]) & (x[:, 1] > limit[1])))


def drifting_box(rng: Generator) -> HostileBox:
    """Answers that grow with every call, slowly or not."""
    dim, net = _small(rng)
    rate, calls = 10.0 ** rng.uniform(-4.0, -1.0), [0]

    def answer(x: Array) -> Array:
        calls[0] += 1
        return np.asarray(net(x) * (1.0 + rate * calls[0]))

    return HostileBox(_box(rng, dim, answer, int(rng.choice([400, 3000, 20_000]))), None)


def shifting_box(rng: Generator) -> HostileBox:
    """Answers shifted by every query; a retrained model after half of a day."""
    dim, net = _small(rng)
    other, asked, change = teacher(rng, dim, net.width), [0], int(rng.integers(20, 300))
    rate = 10.0 ** rng.uniform(-6.0, -3.0)
    retrained = rng.random() < 0.5

    def answer(x: Array) -> Array:
        number = asked[0] + np.arange(len(x))
        asked[0] += len(x)
        return np.asarray(np.where(number < change, net(x), other(x)) if retrained else net(x) + rate * number)

    return HostileBox(_box(rng, dim, answer), None)


def batch_normalised(rng: Generator) -> HostileBox:
    """Batch normalisation in training mode: an answer depends on the rows beside it."""
    dim, net = _small(rng)

    def answer(x: Array) -> Array:
        z = x @ net.layer.weights.T + net.layer.biases
        z = (z - z.mean(axis=0)) / np.sqrt(z.var(axis=0) + 1e-5)
        return np.asarray(np.maximum(z, 0.0) @ net.readout + net.offset)

    return HostileBox(_box(rng, dim, answer), None)


def position_in_batch(rng: Generator) -> HostileBox:
    """The last row of every call is answered by another model: a padded batch."""
    dim, net = _small(rng)
    other = teacher(rng, dim, net.width)

    def answer(x: Array) -> Array:
        y = np.array(net(x))
        y[-1] = np.asarray(other(x[-1:])).ravel()[0]
        return y

    return HostileBox(_box(rng, dim, answer), None)


def smooth_bump(rng: Generator) -> HostileBox:
    """A tanh network and a smooth bump: it repeats itself, so what a fit leaves is no noise."""
    dim = int(rng.integers(2, 5))
    net, centre = teacher(rng, dim, 2, tanh), rng.standard_normal(dim)
    height = 10.0 ** rng.uniform(-2.5, -0.5)
    return _of(rng, dim, lambda x: net(x) + height * np.exp(-2.0 * ((x - centre) ** 2).sum(axis=1)), budget=2000)


def kinked_bump(rng: Generator) -> HostileBox:
    """A ReLU network and a smooth bump or wave of a small height."""
    dim, net = _small(rng)
    row, height, wave = unit_row(rng, dim), 10.0 ** rng.uniform(-3.0, -1.0), rng.random() < 0.5
    def function(x: Array) -> Array:
        return np.asarray(net(x) + height * (np.sin(3.0 * x @ row) if wave else np.exp(-((x - row) ** 2).sum(axis=1))))

    return _of(rng, dim, function, budget=2000)


def routed(rng: Generator) -> HostileBox:
    """A few inputs in a hundred go to another model, by a hash of the input."""
    dim, net = _small(rng)
    other, share = teacher(rng, dim, net.width), rng.uniform(0.01, 0.05)

    def function(x: Array) -> Array:
        mixed = np.abs(np.sin(1e4 * x @ np.arange(1.0, dim + 1.0)) * 1e4) % 1.0
        return np.asarray(np.where(mixed < share, other(x), net(x)))

    return _of(rng, dim, function)


def routed_at_random(rng: Generator) -> HostileBox:
    """One query in a hundred goes to another model, whatever the input."""
    dim, net = _small(rng)
    other, draws = teacher(rng, dim, net.width), np.random.default_rng(rng.integers(2**32))

    def answer(x: Array) -> Array:
        return np.asarray(np.where(draws.random(len(x)) < 0.01, other(x), net(x)))

    return HostileBox(_box(rng, dim, answer), lambda x: np.asarray(0.99 * net(x) + 0.01 * other(x)), noisy=True)


def cached(rng: Generator) -> HostileBox:
    """Answers of a cache whose keys are inputs with few decimals."""
    dim, net = _small(rng)
    decimals = int(rng.integers(1, 4))
    return _of(rng, dim, lambda x: net(np.round(x, decimals)))


def rounded_inside(rng: Generator) -> HostileBox:
    """Hidden features with few digits, sums in double precision."""
    dim, net = _small(rng)
    step = 2.0 ** -int(rng.integers(3, 11))

    def function(x: Array) -> Array:
        h = np.maximum(x @ net.layer.weights.T + net.layer.biases, 0.0)
        return np.asarray(step * np.round(h / step) @ net.readout + net.offset)

    return _of(rng, dim, function)


def drop_out(rng: Generator) -> HostileBox:
    """Every unit is left out of one answer in fifty: the mean is a network, the noise is not its own at every input."""
    dim, net = _small(rng)
    draws = np.random.default_rng(rng.integers(2**32))

    def answer(x: Array) -> Array:
        h = np.maximum(x @ net.layer.weights.T + net.layer.biases, 0.0)
        kept = draws.random(h.shape) >= 0.02
        return np.asarray((h * kept / 0.98) @ net.readout + net.offset)

    return HostileBox(_box(rng, dim, answer, 3000), net, noisy=True)


def stochastic(rng: Generator) -> HostileBox:
    """Additive noise, fresh with every query."""
    dim, net = _small(rng)
    draws, level = np.random.default_rng(rng.integers(2**32)), float(rng.choice([1e-6, 1e-3, 0.1]))
    return HostileBox(_box(rng, dim, lambda x: net(x) + level * draws.standard_normal(len(x)), 3000), net, noisy=True)


def skip_connection(rng: Generator) -> HostileBox:
    """A linear part beside the units: in class."""
    dim, net = _small(rng)
    return _of(rng, dim, Network(net.layer, net.readout, net.offset, rng.standard_normal(dim)), fair=True)


def maxout(rng: Generator) -> HostileBox:
    """The largest of three affine functions: kinks that end on each other."""
    dim = int(rng.integers(2, 6))
    w, b = rng.standard_normal((2, 3, dim)), rng.standard_normal((2, 3))
    return _of(rng, dim, lambda x: (x @ w[0].T + b[0]).max(axis=1) - 0.5 * (x @ w[1].T + b[1]).max(axis=1))


def far_unit(rng: Generator) -> HostileBox:
    """A unit that is active only far from all inputs, or on few of them."""
    dim, net = _small(rng)
    biases = np.array(net.layer.biases)
    biases[0] = -rng.uniform(2.0, 30.0)
    return _of(rng, dim, Network(Layer(net.layer.weights, biases), net.readout, net.offset), fair=True)


def shared_hyperplane(rng: Generator) -> HostileBox:
    """Two units on one hyperplane, on the same or on opposite sides."""
    dim, net = _small(rng)
    side = rng.choice([-1.0, 1.0])
    weights = np.vstack([net.layer.weights, side * 1.5 * net.layer.weights[:1]])
    biases = np.array(net.layer.biases)
    biases = np.append(biases, side * 1.5 * biases[0])
    return _of(rng, dim, Network(Layer(weights, biases), np.append(net.readout, rng.standard_normal()), net.offset))


def deep_box(rng: Generator) -> HostileBox:
    """Two hidden layers, the second of which bends rarely."""
    dim = int(rng.integers(3, 6))
    net = random_network(dim, widths=(3, 2), rng=rng)
    first, second = net.layers
    biases = np.array(second.biases) - rng.uniform(0.0, 2.0) * np.array([1.0, 0.0])
    return _of(rng, dim, Network((first, Layer(second.weights, biases)), net.readout, net.offset))


def clipped_answers(rng: Generator) -> HostileBox:
    """Answers that end at a highest value."""
    dim, net = _small(rng)
    highest = float(np.quantile(net(rng.standard_normal((2000, dim))), rng.uniform(0.8, 0.98)))
    return _of(rng, dim, lambda x: np.minimum(net(x), highest))


def tree_beside(rng: Generator) -> HostileBox:
    """A small step of a tree beside the network."""
    dim, net = _small(rng)
    at, height = rng.uniform(0.5, 2.0), 10.0 ** rng.uniform(-3.0, 0.0)
    return _of(rng, dim, lambda x: net(x) + height * (x[:, 0] > at))


def single_precision_box(rng: Generator) -> HostileBox:
    """Arithmetic in float32."""
    dim, net = _small(rng)
    w, b, a = (np.asarray(part, dtype=np.float32) for part in (net.layer.weights, net.layer.biases, net.readout))
    c = np.float32(net.offset)
    return _of(rng, dim, lambda x: np.maximum(x.astype(np.float32) @ w.T + b, 0) @ a + c, fair=True, tol=1e-4)


BOX_FAMILIES: dict[str, Callable[[Generator], HostileBox]] = {
    f"box: {family.__name__.replace('_', ' ').removesuffix(' box')}": family
    for family in (
        plain_box, hat, cone, back_door, drifting_box, shifting_box, batch_normalised, position_in_batch, smooth_bump,
        kinked_bump, routed, routed_at_random, cached, rounded_inside, drop_out, stochastic, skip_connection, maxout, far_unit,
        shared_hyperplane, deep_box, clipped_answers, tree_beside, single_precision_box)
}
