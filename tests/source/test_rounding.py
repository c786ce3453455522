"""The resolution of answers: seen in the answers, measured by a few queries, carried over to log-odds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

import laybare as lb
from laybare.numerics.shapes import Array
from laybare.source import Rounding, calibrate_rounding, detect_grid, residual_sd

pytestmark = pytest.mark.usefixtures("unchecked")

SEEDS = range(20)


def boxes(seed: int) -> dict[str, tuple[Callable[[Array], Array], str, tuple[float, float], int]]:
    """Name: the black box, its kind, between which bounds its level lies at an answer of size 1, and the most queries.

    Bounds are ten times those seen over the seeds 100 to 160.
    """
    net = lb.random_network(10, 8, biases=1.0, rng=seed)
    smooth = lb.random_network(10, 8, activation=lb.tanh, rng=seed)
    noise = np.random.default_rng(seed)

    def single(x: Array) -> Array:
        inner = np.maximum(x.astype(np.float32) @ net.layer.weights.T.astype(np.float32) + net.layer.biases.astype(np.float32), 0)
        return inner @ net.readout.astype(np.float32)

    return {
        "float64": (net, "float64", (1e-16, 2e-14), 10),
        "smooth": (smooth, "float64", (1e-16, 2e-13), 42),
        "float32": (single, "float32", (5e-8, 3e-6), 26),
        "float32 behind a scale": (lambda x: 3.7 * single(x).astype(float) + 0.123, "float32", (1e-11, 3e-6), 42),
        "4 decimals": (lambda x: np.round(net(x), 4), "4 decimals", (5e-5, 5.1e-5), 26),
        "2 decimals": (lambda x: np.round(net(x), 2), "2 decimals", (5e-3, 5.1e-3), 42),
        "noise": (lambda x: net(x) + 1e-3 * noise.standard_normal(len(x)), "noise", (2e-4, 5e-3), 42),
    }


@pytest.mark.parametrize("name", list(boxes(0)))
def test_the_resolution_is_found(name: str) -> None:
    for seed in SEEDS:
        box, kind, (least, most), queries = boxes(seed)[name]
        oracle = lb.Oracle(box, 10, rng=seed)
        found = oracle.rounding
        assert found.kind == kind, seed
        assert least <= float(found.level(np.ones(1))[0]) <= most, seed
        assert oracle.spent == found.queries == oracle.queries["rounding"] <= queries
        assert oracle.rounding is found
        assert found.sentence in oracle.remarks


def test_few_answers_or_long_ones_are_float64(rng: np.random.Generator) -> None:
    assert detect_grid(np.array([1.0, 2.0, 0.5])).kind == "float64"
    assert detect_grid(rng.standard_normal(100)).kind == "float64"
    assert detect_grid(rng.standard_normal(100).astype(np.float32).astype(float)).kind == "float32"
    assert detect_grid(rng.standard_normal(100).astype(np.float16).astype(float)).kind == "float16"
    assert detect_grid(np.round(rng.standard_normal(100), 3).astype(np.float32).astype(float)).kind == "3 decimals"
    assert detect_grid(np.round(1e9 * rng.standard_normal(100))).kind == "0 decimals"
    assert detect_grid(1e12 * rng.standard_normal(100)).kind == "float64"
    assert detect_grid(np.full(5, np.nan)).kind == "float64"


def test_residuals_of_a_polynomial_are_its_noise(rng: np.random.Generator) -> None:
    t = np.sort(rng.random(4000))
    y = 1e6 + 3 * t[:, None] - 2 * t[:, None] ** 2 + 0.01 * rng.standard_normal((4000, 2))
    # sd of the estimate 0.01 / sqrt(2 * 8000) = 8e-5; 4 sigma
    assert_allclose(residual_sd(t, y), 0.01, atol=3.2e-4)
    assert residual_sd(t, y[:, :1] * 0 + 7) < 1e-14


def test_levels_of_log_odds_grow_with_saturation() -> None:
    rounding = Rounding("float64", 2.0**-53, 2.0**-53, log_odds=True)
    level = rounding.level(np.array([0.0, 10.0, -10.0, 30.0]))
    assert_allclose(level / 2.0**-53, [2, 1 + np.exp(10), 1 + np.exp(10), 1 + np.exp(30)], rtol=1e-12)


def test_measured_bends_set_the_rounding_inside(rng: np.random.Generator) -> None:
    """Second differences of six squares of rounding; the largest, in which a kink may hide, does not count."""
    x, y = rng.standard_normal((12, 3)), 5 * rng.standard_normal((12, 2))
    outer, size = 2.0**-25 * np.abs(y).max(axis=1), 2 * np.linalg.norm(x, axis=1)
    bends = np.sqrt(6) * (outer + 1e-7 * size)[:, None] * np.ones((1, 2))
    bends[3] *= 1e3
    found = calibrate_rounding(Rounding("float32", 2.0**-24, 2.0**-24), x, y, bends, 2.0)
    assert_allclose(found.inner, 2e-7)
    assert_allclose(found.sd(x, y), outer + 2e-7 * size)
    assert_allclose(found.coarser(8.0).sd(x, y), outer + 16e-7 * size)
