"""Teachers and symmetric inputs for the tests of SymmetricInputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import laybare as lb
from laybare.planted import (
    autoregressive_inputs,
    cube_inputs,
    gaussian_inputs,
    laplace_inputs,
    mixture_inputs,
    orthonormal_weights,
    rademacher_inputs,
    student_inputs,
)


def images(n: int, dim: int, *, rng: np.random.Generator) -> np.ndarray:
    """Blobs on a square grid, half of the pictures negated: smooth, positive or negative as a whole, far from Gaussian."""
    side = int(np.sqrt(dim))
    row, column = np.divmod(np.arange(side * side), side)
    centre, size = rng.uniform(0, side - 1, (n, 2)), rng.uniform(0.5, 1.5, n)
    squares = (row - centre[:, :1]) ** 2 + (column - centre[:, 1:]) ** 2
    blobs = rng.uniform(0.5, 1.5, (n, 1)) * np.exp(-squares / (2 * size[:, None] ** 2)) + 0.1 * rng.standard_normal((n, dim))
    return np.asarray(np.where(rng.random((n, 1)) < 0.5, blobs, -blobs))


LAWS: dict[str, Callable[..., np.ndarray]] = {
    "gaussian": gaussian_inputs, "cube": cube_inputs, "laplace": laplace_inputs, "rademacher": rademacher_inputs,
    "student": student_inputs, "correlated": autoregressive_inputs, "mixture": mixture_inputs, "images": images}


def orthonormal(k: int, rng: np.random.Generator, activation: lb.Activation = lb.relu) -> lb.Network:
    """A and W random orthonormal, as in the experiments of Ge et al. (2019)."""
    layer = lb.Layer(orthonormal_weights(k, k, rng=rng), None, activation)
    return lb.Network(layer, orthonormal_weights(k, k, rng=rng))


def samples(truth: lb.Network, x: np.ndarray, noise: float = 0.0, rng: np.random.Generator | None = None) -> lb.Samples:
    """Outputs at x, with noise if asked for; the law says symmetric."""
    y = truth(x)
    if noise and rng is not None:
        y = y + noise * rng.standard_normal(y.shape)
    return lb.Samples(x, y, law=lb.Symmetric())


def claim(found: lb.Recovery, words: str) -> lb.Claim:
    """The claim whose name has these words."""
    return next(one for one in found.certificate.checks if words in one.name)
