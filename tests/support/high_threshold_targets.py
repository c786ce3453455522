"""Planted layers for the tests of HighThreshold, and populations as quadrature nodes."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

import laybare as lb
from laybare.planted import PlantedTarget, Top, deep_top, polynomial_top, threshold_layer

Array = np.ndarray


def union_top(features: Array) -> Array:
    """1 - Π(1 - Xᵢ): the union of half-spaces. Source: Goel and Panigrahy (2019), appendix B.6."""
    covered: Array = 1.0 - np.prod(1.0 - features, axis=1)
    return covered


def top_of(kind: str, width: int, rng: Generator) -> Top:
    return {
        "cubic": lambda: polynomial_top(width, 3, rng=rng), "bilinear": lambda: polynomial_top(width, 2, rng=rng),
        "mixed": lambda: polynomial_top(width, 2, mixed=True, rng=rng), "deep": lambda: deep_top(width, rng=rng),
        "union": lambda: union_top}[kind]()


def planted(
    activation: lb.Activation, kind: str, dim: int, width: int, threshold: float, rng: Generator, condition: float | None = 3.0,
) -> PlantedTarget:
    layer = threshold_layer(dim, width, activation, threshold, condition=condition, rng=rng)
    return PlantedTarget(layer, top_of(kind, width, rng))


def samples(target: PlantedTarget, rows: int, rng: Generator, noise: float = 0.0) -> lb.Samples:
    x = rng.standard_normal((rows, target.layer.dim))
    return lb.Samples(x, target(x) + noise * rng.standard_normal(rows), law=lb.Gaussian(0, 1))


def one_unit(a: Array, threshold: float, value: lb.Activation, scale: float = 1.0) -> tuple[Array, Array]:
    """Nodes x (n, d) and values y with mean(y g(x)) = scale · E[u(a·x - t) g(x)] for polynomials g of degree up to 8.

    Gauss-Legendre above the threshold along a (units must be silent below it), Gauss-Hermite across.
    """
    dim = len(a)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    s, ws = threshold + 6.0 * (nodes + 1), 6.0 * weights
    ws = ws * np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)
    g, wg = np.polynomial.hermite_e.hermegauss(5)
    wg = wg / np.sqrt(2 * np.pi)
    basis = np.linalg.svd(np.vstack([a, np.zeros((1, dim))]))[2][1:]
    grid = np.meshgrid(s, *[g] * (dim - 1), indexing="ij")
    weight = np.prod(np.meshgrid(ws, *[wg] * (dim - 1), indexing="ij"), axis=0).ravel()
    coordinates = np.stack([part.ravel() for part in grid], axis=1)
    x = coordinates[:, :1] * a + coordinates[:, 1:] @ basis
    return x, scale * value(coordinates[:, 0] - threshold) * weight * len(x)


def linear_population(weights: Array, threshold: float, activation: lb.Activation, coefficients: Array) -> lb.Samples:
    """A source whose averages are the population moments of Σ c_i u(w_i·x - t)."""
    parts = [one_unit(a, threshold, activation, c * len(weights)) for a, c in zip(weights, coefficients, strict=True)]
    return lb.Samples(np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts]), law=lb.Gaussian(0, 1))
