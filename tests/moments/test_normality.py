"""Inputs that are normal pass, inputs that are visibly not do not."""

from __future__ import annotations

import numpy as np
import pytest

import laybare as lb
from laybare.moments.normal_law import normality


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
