"""Known teachers for studies and tests: random networks and layers, inputs of the laws that the papers use, label noise.

Networks, and layers of high-threshold units under other functions: f(x) = P(u(w₁·x - t), …, u(w_k·x - t)), |wᵢ| = 1, where P is a
polynomial, a union, or two more layers. Source: Goel and Panigrahy (2019), Assumption 1, for the polynomial.

Coordinates of inputs have mean 0 and variance 1 unless a covariance is given; the exception is `mixture_inputs`, which keeps its
paper's scale. `rng` is a seed or a Generator. As inputs of an Oracle: `inputs=lambda rng, n: laplace_inputs(n, dim, rng=rng)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, as_activation, relu, sigmoid, softplus
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.networks.polynomials import Polynomial, multilinear
from laybare.numerics.checks import (
    as_generator,
    check_choice,
    check_memory,
    check_number,
    check_sizes,
    check_whole,
    show_value,
)
from laybare.numerics.shapes import Array
from laybare.source.laws import Gaussian

__all__ = [
    "add_noise", "autoregressive_inputs", "conditioned_weights", "cube_inputs", "gaussian_inputs", "laplace_inputs",
    "mixture_inputs", "orthonormal_weights", "perturb_inputs", "perturb_network", "perturb_weights", "rademacher_inputs",
    "random_network", "random_unit_rows", "student_inputs",
]


def gaussian_inputs(n: int, dim: int, cov: Array | None = None, *, rng: Generator | int) -> Array:
    """N(0, cov), or N(0, I)."""
    law = Gaussian(cov=cov)
    law.check(dim)
    return law.draw(n, dim, np.random.default_rng(rng))


def autoregressive_inputs(n: int, dim: int, correlation: float = 0.7, *, rng: Generator | int) -> Array:
    """Gaussian with covariance correlation^|i-j|: neighbouring coordinates resemble each other."""
    _between("correlation", correlation, -1.0, 1.0)
    lag = np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    return gaussian_inputs(n, dim, np.float64(correlation) ** lag, rng=rng)


def mixture_inputs(n: int, dim: int, *, rng: Generator | int) -> Array:
    """½ N(+1, I) + ½ N(-1, I), where 1 is the vector of ones: symmetric, far from Gaussian; covariance I + 11ᵀ.

    Source: Ge, Kuditipudi, Li and Wang (2019), Figures 3 and 4.
    """
    rng = np.random.default_rng(rng)
    return np.asarray(rng.standard_normal((n, dim)) + _signs(rng, (n, 1)))


def cube_inputs(n: int, dim: int, *, rng: Generator | int) -> Array:
    """Uniform in the cube [-√3, √3]^dim."""
    return np.random.default_rng(rng).uniform(-np.sqrt(3), np.sqrt(3), (n, dim))


def laplace_inputs(n: int, dim: int, *, rng: Generator | int) -> Array:
    """Independent Laplace coordinates, scale 1/√2."""
    return np.random.default_rng(rng).laplace(scale=np.sqrt(0.5), size=(n, dim))


def rademacher_inputs(n: int, dim: int, *, rng: Generator | int) -> Array:
    """Independent signs, +1 or -1."""
    return _signs(np.random.default_rng(rng), (n, dim))


def student_inputs(n: int, dim: int, df: float = 5.0, *, rng: Generator | int) -> Array:
    """Independent Student-t coordinates with `df` > 2 degrees of freedom, scaled to variance 1 (heavy tails)."""
    if not df > 2:
        raise InvalidInput(f"df is {df}.", "A Student-t law with df <= 2 has no variance.", "Give df > 2.", df=df)
    return np.asarray(np.random.default_rng(rng).standard_t(df, (n, dim)) * np.sqrt((df - 2) / df))


def perturb_inputs(x: Array, matrix: Array, fraction: float, *, rng: Generator | int) -> Array:
    """The (Q, λ)-perturbation of any law: every row is replaced, with probability λ = `fraction`, by Q g with g ~ N(0, I).

    Q is the (dim, dim) `matrix`. A symmetric law stays symmetric, and its degenerate moments become generic.
    Source: Ge, Kuditipudi, Li and Wang (2019), smoothed analysis of the inputs.
    """
    _between("fraction", fraction, 0.0, 1.0)
    rng = np.random.default_rng(rng)
    replaced = rng.random(len(x)) < fraction
    fresh = rng.standard_normal(x.shape) @ matrix.T
    return np.where(replaced[:, None], fresh, x)


def add_noise(y: Array, sigma: float, *, rng: Generator | int) -> Array:
    """y plus independent N(0, sigma²): `sigma` is a standard deviation in the units of y."""
    if not sigma >= 0:
        raise InvalidInput(f"sigma is {sigma}.", "A standard deviation is not negative.", "Give sigma >= 0.", sigma=sigma)
    return np.asarray(y + sigma * np.random.default_rng(rng).standard_normal(np.shape(y)))


def _signs(rng: Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(2.0 * rng.integers(0, 2, shape) - 1.0)


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidInput(
            f"{name} is {value}.", f"It lies between {low:g} and {high:g}.", f"Give such a {name}.", **{name: value})


ReadoutKind = Literal["signs", "positive", "random"]
BiasLaw = Literal["uniform", "normal"]

WORK_COPIES = 3
"""Copies of all weights while a network is drawn. Derived: drawn, scaled, and kept read-only."""


@np.errstate(all="ignore")
def random_network(
    dim: int,
    width: int | None = None,
    activation: Activation = relu,
    outputs: int = 1,
    *,
    widths: Sequence[int] | None = None,
    biases: float | int | None = None,
    bias_law: BiasLaw | None = None,
    condition: float | int | None = None,
    readout: ReadoutKind = "signs",
    rng: Generator | int = 0,
) -> Network:
    """A network with random weights: `width` units in one hidden layer, or `widths` of several from the lowest up.

    Parameters
    ----------
    dim, activation, outputs : its shape, every layer with the same activation
    width : units of a single hidden layer whose rows are independent directions of norm 1
    widths
        Units of every hidden layer, such as (40, 20), instead of `width`; rows are N(0, I / fan-in), so that signals keep their
        size from layer to layer.
    biases
        Half-range of uniform biases, or standard deviation of normal ones; 0 means none. By default 1 with `width`, 0.5 with
        `widths`.
    bias_law : "uniform" on [-biases, biases] (the default with `width`), or "normal" (the default with `widths`)
    condition : condition number of a single layer's weights (`conditioned_weights`), or None for independent rows
    readout
        "signs" (+1 or -1), "positive" (uniform in [0.5, 1.5]) or "random" (the same with random signs). With several outputs
        "positive" is as before, the others have independent N(0, 1) entries: small sign matrices are often singular.
    rng : seed or Generator

    The teachers that other extraction programs were measured on have
    random_network(dim, width, biases=0.4, bias_law="normal", readout="random").
    """
    sizes = _sizes(dim, width, widths, outputs, condition)
    rng, activation = as_generator(rng), as_activation(activation)
    scale, law = (1.0, "uniform") if widths is None else (0.5, "normal")
    scale, law = scale if biases is None else biases, law if bias_law is None else bias_law
    layers = []
    for below, units in pairwise(sizes):
        if widths is not None:
            weights = rng.standard_normal((units, below)) / np.sqrt(below)
        elif condition is None:
            weights = random_unit_rows(below, units, rng=rng)
        else:
            weights = conditioned_weights(below, units, condition, rng=rng)
        layers.append(Layer(weights, _biases(units, scale, law, rng), activation))
    return Network(layers, _readout(sizes[-1], outputs, readout, rng))


def random_unit_rows(dim: int, width: int, *, rng: Generator | int) -> Array:
    """Independent uniform directions: Gaussian rows of norm 1."""
    weights: Array = np.random.default_rng(rng).standard_normal((width, dim))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return weights


def orthonormal_weights(dim: int, width: int, *, rng: Generator | int) -> Array:
    """Uniformly random orthonormal rows; width <= dim."""
    return conditioned_weights(dim, width, 1.0, rng=rng)


def conditioned_weights(dim: int, width: int, condition: float | int, *, rng: Generator | int) -> Array:
    """W = U S Vᵀ with random orthogonal U, V and singular values S evenly spaced from 1 to `condition`; width <= dim.

    Source: the experiments of Zhong et al. (2017), with condition 2. Rows are not normalised: that would change the condition.
    """
    condition = check_number("condition", condition)
    if width > dim or not 1 <= condition < np.inf:
        raise InvalidInput(
            f"Condition {condition} for {width} rows in dimension {dim}.",
            "Only width <= dim rows can be independent, and no condition number is below 1.",
            "Lower the width, or leave the condition out.", width=width, dim=dim, condition=condition)
    rng = np.random.default_rng(rng)
    U, V = _orthonormal_columns(width, width, rng), _orthonormal_columns(dim, width, rng)
    return np.asarray((U * np.linspace(1.0, condition, width)) @ V.T)


def perturb_weights(weights: Array, rho: float, *, rng: Generator | int) -> Array:
    """W + rho N(0, 1), entry by entry: degenerate weights become generic. Source: Ge et al. (2019), equation (18)."""
    return np.asarray(weights + rho * np.random.default_rng(rng).standard_normal(np.shape(weights)))


def perturb_network(network: Network, rho: float, *, rng: Generator | int) -> Network:
    """The network with Gaussian noise of length about ρ|w| added to every weight vector, which keeps its length.

    Smoothed analysis of Awasthi, Tang and Vijayaraghavan (2021), Corollary 3.3: whatever the weights, perturbed ones are well
    conditioned (`moments.khatri_rao_gap`).
    """
    rng = np.random.default_rng(rng)
    layers = [Layer(_perturb_directions(layer.weights, rho, rng), layer.biases, layer.activation) for layer in network.layers]
    return Network(layers, network.readout, network.offset, network.linear, top=network.top)


def _perturb_directions(weights: Array, rho: float, rng: Generator) -> Array:
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    moved = perturb_weights(weights / lengths, rho / np.sqrt(weights.shape[1]), rng=rng)
    return np.asarray(lengths * moved / np.linalg.norm(moved, axis=1, keepdims=True))


def _sizes(
    dim: int, width: int | None, widths: Sequence[int] | None, outputs: int, condition: float | int | None
) -> tuple[int, ...]:
    """The dim and the width of every layer."""
    if (width is None) == (widths is None):
        raise InvalidInput(
            f"width is {show_value(width)}, widths is {show_value(widths)}.", "One of them says how many hidden units there are.",
            "Give width for one hidden layer, widths for several.", width=width, widths=widths)
    if widths is not None and condition is not None:
        raise InvalidInput(
            f"Condition {condition} for layers of widths {tuple(widths)}.", "Only a single layer, given by width, can have one.",
            "Leave the condition out, or give width.", condition=condition)
    layers = (check_whole("width", width),) if widths is None else check_sizes("widths", widths)
    sizes = (check_whole("dim", dim), *layers)
    floats = sum(math.prod(pair) for pair in pairwise((*sizes, check_whole("outputs", outputs))))
    check_memory(f"A network {'-'.join(map(str, (*sizes, outputs)))}", WORK_COPIES * floats)
    return sizes


def _orthonormal_columns(rows: int, columns: int, rng: Generator) -> Array:
    """Haar-distributed: QR with the signs of R's diagonal taken out."""
    Q, R = np.linalg.qr(rng.standard_normal((rows, columns)))
    return np.asarray(Q * np.sign(np.diag(R)))


def _biases(width: int, scale: float | int, law: str, rng: Generator) -> Array:
    scale = check_number("biases", scale, 0)
    check_choice("bias_law", law, get_args(BiasLaw))
    unit = rng.uniform(-1.0, 1.0, width) if law == "uniform" else rng.standard_normal(width)
    return np.asarray(scale * unit)


def _readout(width: int, outputs: int, kind: ReadoutKind, rng: Generator) -> Array:
    check_choice("readout", kind, get_args(ReadoutKind))
    shape = (width,) if outputs == 1 else (width, outputs)
    if outputs > 1 and kind != "positive":
        return rng.standard_normal(shape)
    signs = np.ones(shape) if kind == "positive" else 2.0 * rng.integers(0, 2, shape) - 1.0
    sizes = np.ones(shape) if kind == "signs" else rng.uniform(0.5, 1.5, shape)
    return np.asarray(signs * sizes)


Top = Callable[[Array], Array]

MAX_WEIGHT_DRAWS = 1000
"""Draws of weights until one has the requested condition number. Checked by `pytest tests/lowest_layer`."""


@dataclass(frozen=True, eq=False)
class PlantedTarget:
    """f(x) = top(layer(x)): what is to be recovered, with its parts known."""

    layer: Layer
    top: Top

    def __call__(self, x: Array) -> Array:
        """Outputs at the rows of x, (n,)."""
        return self.top(self.layer(x))

    @property
    def thresholds(self) -> Array:
        return -np.asarray(self.layer.biases)


def threshold_layer(
    dim: int, width: int, activation: Activation, threshold: float | int, *, condition: float | int | None = 3.0,
    rng: Generator | int,
) -> Layer:
    """Unit rows, all with the same threshold; of condition number at most `condition`, or independent directions if None."""
    rng = np.random.default_rng(rng)
    biases = np.full(width, -float(threshold))
    if condition is None:
        return Layer(random_unit_rows(dim, width, rng=rng), biases, activation)
    for _ in range(MAX_WEIGHT_DRAWS):
        rows = conditioned_weights(dim, width, condition, rng=rng)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        if np.linalg.cond(rows) <= condition:
            return Layer(rows, biases, activation)
    raise InvalidInput(
        f"No {width} unit rows in dimension {dim} with condition number {condition} were found in {MAX_WEIGHT_DRAWS} draws.",
        "Scaling rows to length 1 changes the condition number.", "Give a larger condition, or None.", condition=condition)


def polynomial_top(width: int, degree: int = 3, *, mixed: bool = False, rng: Generator | int) -> Polynomial:
    """c₀ + Σ cᵢXᵢ + products of up to `degree` units: cᵢ in [0.5, 1.5], with random signs if `mixed`; products in [0, 0.5]."""
    rng = np.random.default_rng(rng)
    exponents = multilinear(width, degree)
    sizes = exponents.sum(axis=1)
    coefficients = np.where(sizes > 1, rng.uniform(0.0, 0.5, len(sizes)), rng.uniform(0.5, 1.5, len(sizes)))
    if mixed:
        coefficients = np.where(sizes == 1, coefficients * rng.choice([-1.0, 1.0], len(sizes)), coefficients)
    return Polynomial(exponents, coefficients)


@dataclass(frozen=True, eq=False)
class DeepTop:
    """Two more layers with positive weights, sigmoid then softplus: monotone, and no polynomial."""

    first: Array
    second: Array
    readout: Array

    def __call__(self, features: Array) -> Array:
        """Outputs, (n,)."""
        hidden = sigmoid(features @ self.first.T - 1.0)
        return np.asarray(softplus(hidden @ self.second.T - 1.0) @ self.readout)


def deep_top(width: int, *, rng: Generator | int) -> DeepTop:
    """Random positive weights in [0.3, 1], as many units in both layers as below them."""
    rng = np.random.default_rng(rng)
    first, second = rng.uniform(0.3, 1.0, (2, width, width))
    return DeepTop(first, second / np.sqrt(width), rng.uniform(0.5, 1.5, width))
