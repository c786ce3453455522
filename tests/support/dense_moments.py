"""Oracles for moments: dense Hermite tensors straight from their definition, Gauss points, random networks, slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from laybare.activations import Activation, relu
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.source import Samples


def hermite_tensor(x: Array, order: int) -> Array:
    """He_k(x) for every row of x, (n, d, …, d), by the recurrence He_{k+1} = x⊗He_k - Σ_places δ⊗He_{k-1}."""
    n, d = x.shape
    below, here = np.zeros((n,)), np.ones((n,))
    for k in range(order):
        raised = np.einsum("ni,n...->ni...", x, here)
        for place in range(k):
            delta = np.einsum("ij,n...->nij...", np.eye(d), below)
            raised = raised - np.moveaxis(delta, 2, 2 + place)
        below, here = here, raised
    return here


def dense_moment(x: Array, y: Array, order: int) -> Array:
    """E[y He_k(x)] over the rows, (outputs, d, …, d)."""
    moment: Array = np.einsum("no,n...->o...", y, hermite_tensor(x, order)) / len(x)
    return moment


def rotate(tensor: Array, matrix: Array, order: int) -> Array:
    """T[Q, …, Q] over the last `order` axes: every index i becomes Σ_i T_i Q_ij."""
    for axis in range(tensor.ndim - order, tensor.ndim):
        tensor = np.moveaxis(np.tensordot(tensor, matrix, axes=(axis, 0)), -1, axis)
    return tensor


def gauss_points(dim: int, nodes: int) -> tuple[Array, Array]:
    """Points and weights with Σ w p(x) = E p(x), x ~ N(0, I), for polynomials of degree < 2·nodes."""
    points, weights = hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[points] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    product = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * dim, indexing="ij"), axis=-1).reshape(-1, dim), axis=1)
    return grid, product


def random_net(
    dim: int, width: int, rng: np.random.Generator, activation: Activation = relu, outputs: int | None = None
) -> Network:
    """Unit rows, readout ±[.5, 1.5], biases in [-1.5, 1.5] (the setting of the general-ReLU digest)."""
    weights = rng.standard_normal((width, dim))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    shape = (width,) if outputs is None else (width, outputs)
    readout = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    return Network(Layer(weights, rng.uniform(-1.5, 1.5, width), activation), readout)


def draw(network: Callable[[Array], Array], dim: int, size: int, rng: np.random.Generator) -> Samples:
    """Gaussian inputs and the network's outputs."""
    x = rng.standard_normal((size, dim))
    return Samples(x, network(x))


def slope(sizes: Iterable[int], errors: Iterable[float]) -> float:
    """Exponent of errors ~ sizes^slope, by least squares on logarithms."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(errors)), 1)[0])
