"""Split-half noise: one pass, the right size, for every moment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dense_moments import draw, random_net
from numpy.testing import assert_allclose

from laybare.activations import tanh
from laybare.moments import (
    FourthSlices,
    HermiteMoments,
    PureNeuronDetector,
    SecondMoment,
    ThirdSlices,
    measure,
    measure_with_noise,
    population_moments,
)
from laybare.source import GRAIN, Samples, Schedule

A = np.arange(6.0).reshape(2, 3)
MOMENTS = [HermiteMoments(4), SecondMoment(), ThirdSlices(A), FourthSlices(A), PureNeuronDetector(A)]


def numbers(value: Any) -> np.ndarray:
    return np.asarray(getattr(value, "values", value))


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: type(moment).__name__)
def test_value_is_that_of_all_rows_and_noise_the_half_difference(moment: Any, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2 * GRAIN, 3)), rng.standard_normal((2 * GRAIN, 2))
    source = Samples(x, y, schedule=Schedule(block_bytes=1))  # two blocks of GRAIN rows
    found = measure_with_noise(source, moment)
    half = np.arange(2 * GRAIN) % GRAIN < GRAIN // 2
    first, second = (numbers(measure(Samples(x[rows], y[rows]), moment)) for rows in (half, ~half))
    assert_allclose(numbers(found.value), numbers(measure(source, moment)), atol=1e-10)
    assert_allclose(numbers(found.noise), (first - second) / 2, atol=1e-10)


def test_noise_has_the_size_of_the_error() -> None:
    """|noise|/|error| of order 3, rms over 40 samples of 4000: 1; sd 0.037 over 30 seed blocks, 4 sigma allowed."""
    network = random_net(4, 5, np.random.default_rng(1), tanh)
    truth = population_moments(network, 3).of(3)
    noise, error = 0.0, 0.0
    for seed in range(40):
        found = measure_with_noise(draw(network, 4, 4000, np.random.default_rng(seed)), HermiteMoments(3))
        noise += np.square(found.noise.of(3)).sum()
        error += np.square(found.value.of(3) - truth).sum()
    assert abs(np.sqrt(noise / error) - 1) < 4 * 0.037


def test_pairs_side_by_side_stay_together(rng: np.random.Generator) -> None:
    """Rows x, -x, x', -x', ...: odd moments of an even function vanish in each half, so their noise is zero, and is found so."""
    x = np.repeat(rng.standard_normal((2 * GRAIN, 3)), 2, axis=0)
    x[1::2] *= -1
    found = measure_with_noise(Samples(x, np.abs(x[:, 0])), HermiteMoments(4))
    assert np.abs(found.noise.of(3)).max() < 1e-13
    assert np.abs(found.noise.of(4)).max() > 1e-4


def test_a_block_with_an_odd_number_of_rows(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((5, 2)), rng.standard_normal((5, 1))
    found = measure_with_noise(Samples(x, y), SecondMoment())
    a, b = measure(Samples(x[:3], y[:3]), SecondMoment()), measure(Samples(x[3:], y[3:]), SecondMoment())
    assert_allclose(found.noise, (a - b) * np.sqrt(0.6 * 0.4), atol=1e-13)
