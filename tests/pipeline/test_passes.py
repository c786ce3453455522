"""Passes over the data are counted: nothing is measured twice, and rows that fit are read once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import laybare as lb
from laybare.refinement.problem import pose
from laybare.shapes import Array, Event
from laybare.source.views import KeptRows


def planted(noise: float, n: int = 1500) -> tuple[lb.Network, Array, Array]:
    rng = np.random.default_rng(1)
    truth = lb.random_network(dim=6, width=4, rng=rng)
    x = rng.standard_normal((n, 6))
    y = truth(x)
    return truth, x, y + noise * y.std() * rng.standard_normal(n)


def stages(x: Array, y: Array) -> tuple[lb.Recovery, Counter[str]]:
    """A recovery with the width not told, and its passes by stage; every pass over these rows is one block."""
    seen: list[Event] = []
    schedule = lb.Schedule(progress=seen.append)
    found = lb.recover(lb.Samples(x, y, schedule=schedule), rng=0)
    return found, Counter(event.stage for event in seen)


@pytest.mark.parametrize(("noise", "most", "error"), [(0.0, 60, 1e-12), (0.1, 300, 0.05)])
def test_passes_of_a_recovery_with_unknown_width(noise: float, most: int, error: float) -> None:
    """The same verdicts and errors took 99 and 615 passes before the loop was one (54 and 270 now)."""
    truth, x, y = planted(noise)
    found, passes = stages(x, y)
    assert found.certificate.verdict == "verified" and found.network.width == 4
    assert lb.compare(found.network, truth).max_error < error
    assert sum(passes.values()) <= most, passes


def test_nothing_is_measured_twice() -> None:
    _, x, y = planted(0.0)
    _, passes = stages(x, y)
    for once in ("input mean", "input covariance", "variance", "standard errors"):
        assert passes[once] == 1


@pytest.mark.parametrize("source", ["samples", "oracle"])
def test_rows_that_fit_are_kept_and_those_that_do_not_give_the_same_bits(source: str) -> None:
    truth, x, y = planted(0.05, n=5000)
    networks = []
    for bound in (0, 1 << 30):
        schedule = lb.Schedule(keep_bytes=bound, block_bytes=1 << 16)
        data: lb.Source = lb.Samples(x, y, schedule=schedule) if source == "samples" else lb.Oracle(
            truth, 6, budget=2000, rng=3, schedule=schedule)
        problem = pose(data, biases=True, rng=np.random.default_rng(0))
        assert isinstance(problem.used, KeptRows) == (bound > 0)
        networks.append(lb.recover(data, lb.RandomStart(), 4, rng=0).network)
    assert_array_equal(networks[0].layer.rows, networks[1].layer.rows)
    assert_array_equal(networks[0].readout, networks[1].readout)


def test_kept_rows_are_those_of_the_source(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 4)) + 3.0
    white = lb.Samples(x, x[:, 0]).split(0.7, rng=0).first.whitened()
    kept = white.kept()
    assert isinstance(kept, KeptRows) and kept.kept() is kept
    assert_array_equal(kept.read(5, 2000).x, white.read(0, 2000).x[5:])
    assert kept.law == white.law and kept.transform is white.transform
