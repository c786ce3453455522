"""Functions to recover: a layer of high-threshold units under a polynomial, a union of half-spaces, or two more layers.

f(x) = P(u(w₁·x - t), …, u(w_k·x - t)), |wᵢ| = 1. Generators for tests, studies and demonstrations.
Source: Goel and Panigrahy (2019), Assumption 1, for the polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, sigmoid, softplus
from laybare.errors import InvalidInput
from laybare.networks import Layer
from laybare.networks.polynomials import Polynomial, multilinear
from laybare.planted.random_networks import conditioned_weights, gaussian_rows
from laybare.shapes import Array

Top = Callable[[Array], Array]

TRIES = 1000
"""Draws of weights until one has the condition number that was asked for; nearly all do."""


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
        return Layer(gaussian_rows(dim, width, rng=rng), biases, activation)
    for _ in range(TRIES):
        rows = conditioned_weights(dim, width, condition, rng=rng)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        if np.linalg.cond(rows) <= condition:
            return Layer(rows, biases, activation)
    raise InvalidInput(
        f"No {width} unit rows in dimension {dim} with condition number {condition} were found in {TRIES} draws.",
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


def union_top(features: Array) -> Array:
    """1 - Π(1 - Xᵢ), without its 2^k monomials. Source: appendix B.6."""
    covered: Array = 1.0 - np.prod(1.0 - features, axis=1)
    return covered


@dataclass(frozen=True, eq=False)
class DeepTop:
    """Two more layers with positive weights, sigmoid then softplus: monotone, and no polynomial."""

    first: Array
    second: Array
    readout: Array

    def __call__(self, features: Array) -> Array:
        """Outputs, (n,)."""
        hidden = sigmoid(features @ self.first.T - 1.0)
        values: Array = softplus(hidden @ self.second.T - 1.0) @ self.readout
        return values


def deep_top(width: int, *, rng: Generator | int) -> DeepTop:
    """Random positive weights in [0.3, 1], as many units in both layers as below them."""
    rng = np.random.default_rng(rng)
    first, second = rng.uniform(0.3, 1.0, (2, width, width))
    return DeepTop(first, second / np.sqrt(width), rng.uniform(0.5, 1.5, width))
