"""Small planted problems for the solvers and the search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import laybare as lb
from laybare.solver.point import Point, point_of
from laybare.source.problem import total_variation


class Problem(NamedTuple):
    truth: lb.Network
    source: lb.Samples
    scale: float


def standard(dim: int) -> lb.Gaussian:
    return lb.Gaussian(mean=np.zeros(dim), cov=np.eye(dim))


def planted(dim, width, n, rng, *, activation=lb.relu, outputs=1, biases=0.4, noise=0.0):
    rows = rng.standard_normal((width, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    shape = (width,) if outputs == 1 else (width, outputs)
    readout = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    truth = lb.Network(lb.Layer(rows, biases * rng.standard_normal(width), activation), readout)
    x = rng.standard_normal((n, dim))
    y = truth(x)
    source = lb.Samples(x, y + noise * rng.standard_normal(y.shape), law=standard(dim))
    return Problem(truth, source, total_variation(source))


def perturbed(network: lb.Network, size: float, rng: np.random.Generator) -> lb.Network:
    layer = network.layer
    rows = layer.weights + size * rng.standard_normal(layer.weights.shape)
    return lb.Network(lb.Layer(rows, layer.biases, layer.activation), network.readout, network.offset, network.linear)


def full_point(network: lb.Network, *, linear: bool = False) -> Point:
    return point_of(network, biases=True, offset=True, linear=linear)
