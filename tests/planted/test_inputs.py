"""Generators of inputs and noise: their moments, their symmetry, their seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from laybare.errors import InvalidInput
from laybare.numerics.shapes import Array
from laybare.planted import (
    add_noise,
    autoregressive_inputs,
    cube_inputs,
    gaussian_inputs,
    laplace_inputs,
    mixture_inputs,
    perturb_inputs,
    rademacher_inputs,
    student_inputs,
)

N, DIM = 40_000, 3
AR = np.array([[1, 0.7, 0.49], [0.7, 1, 0.7], [0.49, 0.7, 1]])
MIXTURE = np.eye(3) + np.ones((3, 3))
SIGMAS = 5
"""Not 4: a seed makes some 90 comparisons here, a hundred seeds 9,000, and one in 16,000 exceeds 4 sigma by chance."""

KINDS = [  # draw, covariance, kurtosis of the coordinates pooled, and its standard deviation measured over 60 seed blocks
    (gaussian_inputs, np.eye(3), 3.0, 0.013),
    (autoregressive_inputs, AR, 3.0, 0.016),
    (mixture_inputs, MIXTURE, 2.5, 0.009),  # E x^4 = 1 + 6 + 3 = 10, variance 2
    (cube_inputs, np.eye(3), 1.8, 0.0034),
    (laplace_inputs, np.eye(3), 6.0, 0.087),
    (rademacher_inputs, np.eye(3), 1.0, 1e-12),
    (partial(student_inputs, df=12.0), np.eye(3), 3.75, 0.041),  # 3 + 6 / (df - 4)
]


@pytest.mark.parametrize(("draw", "cov", "kurtosis", "spread"), KINDS)
def test_moments(draw: Callable[..., Array], cov: Array, kurtosis: float, spread: float, rng: np.random.Generator) -> None:
    x = draw(N, DIM, rng=rng)
    assert x.shape == (N, DIM)
    # sd of a mean is sqrt(variance / n), of a second moment at most sqrt(kurtosis / n) * variance
    assert_allclose(x.mean(axis=0), 0, atol=SIGMAS * np.sqrt(cov[0, 0] / N))
    assert_allclose(x.T @ x / N, cov, atol=SIGMAS * np.sqrt(kurtosis / N) * cov[0, 0])
    assert abs((x**4).mean() / (x**2).mean() ** 2 - kurtosis) < SIGMAS * spread


@pytest.mark.parametrize("draw", [kind[0] for kind in KINDS])
def test_seeds_and_generators_agree(draw: Callable[..., Array]) -> None:
    assert_array_equal(draw(10, 3, rng=5), draw(10, 3, rng=np.random.default_rng(5)))


def test_given_covariance(rng: np.random.Generator) -> None:
    cov = np.array([[2.0, -1.0], [-1.0, 3.0]])
    assert_allclose(np.cov(gaussian_inputs(N, 2, cov, rng=rng).T), cov, atol=SIGMAS * np.sqrt(2) * 3 / 200)


def test_perturbation_replaces_a_fraction_of_rows(rng: np.random.Generator) -> None:
    x, matrix = np.full((N, 2), 7.0), np.array([[1.0, 0.0], [2.0, 3.0]])
    mixed = perturb_inputs(x, matrix, 0.25, rng=rng)
    fresh = (mixed != 7.0).any(axis=1)
    assert abs(fresh.mean() - 0.25) < SIGMAS * 0.00217  # sqrt(.25 * .75 / n)
    assert_allclose(np.cov(mixed[fresh].T), matrix @ matrix.T, atol=SIGMAS * np.sqrt(2) * 13 / 100)
    assert_array_equal(x, 7)
    assert_array_equal(perturb_inputs(x, matrix, 0.0, rng=rng), x)


def test_noise_has_its_standard_deviation(rng: np.random.Generator) -> None:
    y = np.ones((N, 2))
    noise = add_noise(y, 0.3, rng=rng) - y
    assert abs(noise.std() - 0.3) < SIGMAS * 0.3 / np.sqrt(4 * N)
    assert_array_equal(add_noise(y, 0.0, rng=rng), y)


@pytest.mark.parametrize("wrong", [
    lambda: add_noise(np.ones(3), -1.0, rng=0), lambda: student_inputs(3, 2, 2.0, rng=0),
    lambda: autoregressive_inputs(3, 2, 1.5, rng=0), lambda: perturb_inputs(np.ones((3, 2)), np.eye(2), 1.1, rng=0),
    lambda: gaussian_inputs(3, 2, np.eye(3), rng=0)])
def test_impossible_settings_are_refused(wrong: Callable[[], Array]) -> None:
    with pytest.raises(InvalidInput):
        wrong()
