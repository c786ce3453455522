"""Inputs that are normal pass, inputs that are visibly not do not."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.moments.measurement import normality


def white(x: np.ndarray) -> lb.Samples:
    return lb.Samples((x - x.mean(axis=0)) / x.std(axis=0), x[:, 0], law=lb.Unknown())


@pytest.mark.parametrize("size", [100, 1000, 20_000])
def test_normal_inputs_pass(size: int) -> None:
    """No alarm in 40 draws; in 400 there was none for each size."""
    for seed in range(40):
        rng = np.random.default_rng([seed, size])
        assert normality(white(rng.standard_normal((size, 10))), rng=rng).plausible


@pytest.mark.parametrize("law", ["uniform", "laplace", "exponential", "mixture"])
def test_other_inputs_do_not(law: str, rng: np.random.Generator) -> None:
    x = {"uniform": lambda: rng.uniform(-1, 1, (5000, 6)), "laplace": lambda: rng.laplace(size=(5000, 6)),
         "exponential": lambda: rng.exponential(size=(5000, 6)),
         "mixture": lambda: rng.standard_normal((5000, 6)) * rng.choice([0.5, 1.5], (5000, 1))}[law]()
    found = normality(white(x), rng=rng)
    assert not found.plausible
    assert found.size > 0.15


def test_one_input_that_is_not_normal_shows_on_its_axis(rng: np.random.Generator) -> None:
    """One Laplace input of 60: 50 random directions alone miss it in 40 of 40 draws; in 400 draws with axes none was missed."""
    x = rng.standard_normal((5000, 60))
    x[:, 7] = rng.laplace(size=5000)
    assert not normality(white(x), rng=rng).plausible


def test_signs_along_the_diagonal_show_in_random_directions(rng: np.random.Generator) -> None:
    """White, with ±1 along (1, …, 1): axes alone miss it in 60 of 60 draws; in 400 draws with 50 directions none was missed."""
    u, z = np.ones(5) / np.sqrt(5), rng.standard_normal((10_000, 5))
    x = z - np.outer(z @ u, u) + np.outer(rng.choice([-1.0, 1.0], 10_000), u)
    assert not normality(white(x), rng=rng).plausible
