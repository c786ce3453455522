"""Random inputs and label noise: the settings of the papers, for tests and studies.

Coordinates have mean 0 and variance 1 unless a covariance is given; the exception is `mixture_inputs`, which keeps its paper's
scale. `rng` is a seed or a Generator. As inputs of an Oracle: `inputs=lambda rng, n: laplace_inputs(n, dim, rng=rng)`.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array
from laybare.source.laws import Gaussian


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
    x: Array = rng.standard_normal((n, dim)) + _signs(rng, (n, 1))
    return x


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
    x: Array = np.random.default_rng(rng).standard_t(df, (n, dim)) * np.sqrt((df - 2) / df)
    return x


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
    noisy: Array = y + sigma * np.random.default_rng(rng).standard_normal(np.shape(y))
    return noisy


def _signs(rng: Generator, shape: tuple[int, ...]) -> Array:
    signs: Array = 2.0 * rng.integers(0, 2, shape) - 1.0
    return signs


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidInput(
            f"{name} is {value}.", f"It lies between {low:g} and {high:g}.", f"Give such a {name}.", **{name: value})
