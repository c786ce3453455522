"""Challengers meet the network on rows that they have not seen: bets keep their level, and find what a network lacks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import laybare as lb
from laybare.certificate import ClaimName, SearchRecord, certify
from laybare.certificate.challengers import (
    BetTerms,
    Challenger,
    ResidualRows,
    boosted_trees,
    capital_against,
    second_layer,
    upper_bound,
)
from laybare.lines.assurance import AssuranceOptions
from laybare.planted import random_network
from laybare.solver.point import point_of
from laybare.source.problem import pose

LEVEL = 0.05


def claim_of(found: lb.Recovery) -> lb.Claim:
    (claim,) = [claim for claim in found.certificate.checks if claim.name == ClaimName.CHALLENGERS]
    return claim


@pytest.mark.parametrize("rows", [40, 400])
@pytest.mark.parametrize("draw", [
    lambda rng, n: rng.choice([-1.0, 1.0], n), lambda rng, n: np.where(rng.random(n) < 0.02, 1.0, -0.02 / 0.98)],
    ids=["signs", "rare gains"])
def test_bounds_keep_their_level(draw: Callable[[np.random.Generator, int], np.ndarray], rows: int) -> None:
    """The mean is 0: a bound below it, or bets on more that pay, are errors. Of 1,000, sd 7 at a rate of 0.05: 4 sd."""
    rng = np.random.default_rng(0)
    samples = [draw(rng, rows) for _ in range(1000)]
    assert sum(upper_bound(d, 1.0, BetTerms(LEVEL)) < 0.0 for d in samples) <= 50 + 28
    assert sum(capital_against(-d, 0.0, 1.0) >= 1.0 / LEVEL for d in samples) <= 50 + 28


def test_bounds_shrink_with_rows() -> None:
    rng = np.random.default_rng(0)
    bounds = [upper_bound(rng.uniform(-1.0, 1.0, n), 1.0, BetTerms(LEVEL)) for n in (10, 100, 1000, 10_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 4.0 * np.sqrt(2.0 * np.log(1.0 / LEVEL) / 3.0 / 10_000)  # four times what the best bet reaches


@pytest.mark.parametrize("gain", [-0.3, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("most", [1e-30, 1.0])
def test_gains_that_are_all_alike_have_a_bound(gain: float, most: float) -> None:
    """Their spread says nothing of how far a bound is."""
    assert min(gain, most) <= upper_bound(np.full(50, gain), most, BetTerms(LEVEL)) <= most


def test_no_rows_say_nothing() -> None:
    assert upper_bound(np.empty(0), 1.0, BetTerms(LEVEL)) == 1.0


def test_looks_at_the_same_rows_spend_one_level() -> None:
    options = AssuranceOptions(level=LEVEL)
    spent = [options.level_of_look(look) for look in range(50)]
    assert spent == sorted(spent, reverse=True)
    assert sum(spent) == pytest.approx(LEVEL)


def test_a_later_network_for_the_same_data_has_less_of_the_level() -> None:
    rng = np.random.default_rng(7)
    net, x = random_network(3, 2, biases=0.7, readout="positive", rng=3), rng.standard_normal((400, 3))
    y = net(x)
    problem = pose(lb.Samples(x, y + 0.3 * y.std() * rng.standard_normal(len(y))), biases=True, rng=rng)
    first, later = (
        certify(net, problem, rng=np.random.default_rng(0), search=SearchRecord(looks=looks)).resolution for looks in (0, 3))
    assert first is not None and later is not None
    assert first.level == later.level and first.bound < later.bound


W = np.array([0.6, 0.8, 0.0, 0.0, 0.0])
ADDITIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a tent of three parallel units": lambda x: 0.15 * np.maximum(0.0, 1.0 - np.abs(x @ W - 1.0) / 0.3),
    "a step": lambda x: 0.1 * (x @ W > 0.5),
    "a bump": lambda x: 0.2 * np.exp(-0.5 * np.sum((x - 0.3) ** 2, axis=1))}


@pytest.mark.parametrize("what", ADDITIONS)
def test_what_is_added_to_a_network_is_found(what: str) -> None:
    rng = np.random.default_rng(5)
    net, x = random_network(5, 4, biases=0.7, readout="random", rng=3), rng.standard_normal((20_000, 5))
    y = net(x) + ADDITIONS[what](x)
    found = lb.refine(lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(len(y))), net)
    assert not claim_of(found).passed
    assert claim_of(found).decisive
    assert found.certificate.verdict == "refuted"


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_a_right_network_is_beaten_by_none(noise: float) -> None:
    rng = np.random.default_rng(7)
    net, x = random_network(6, 5, biases=0.7, readout="positive", rng=3), rng.standard_normal((1300, 6))
    y = net(x)
    data = lb.Samples(x, y + noise * y.std() * rng.standard_normal(len(y)))
    claim = claim_of(lb.refine(data, net))
    assert claim.passed
    assert 0.0 < claim.value < 0.5
    strict = claim_of(lb.recover(data, lb.RandomStart(), 5, assurance=(LEVEL, 0.01, 1e-3)))
    assert not strict.passed and not strict.decisive


def explained(make: Callable[[ResidualRows], Challenger], left: Callable[[np.ndarray], np.ndarray]) -> float:
    """Share of what is left that a challenger explains on rows that it has not seen; noise as large."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 4))
    clean = left(x)[:, None] / left(x).std()
    seen = ResidualRows(x[:2000], np.zeros((2000, 1)), clean[:2000] + rng.standard_normal((2000, 1)))
    missed = clean[2000:] - make(seen).adds(x[2000:], np.zeros((2000, 1)))
    return 1.0 - float(np.mean(missed**2))


def test_trees_follow_jumps_where_two_inputs_meet() -> None:
    """A linear function explains a third of it; one of any single input no more than half."""
    assert explained(boosted_trees, lambda x: (x[:, 0] > 0.3) * (x[:, 1] < 0.0) * 1.0) > 0.7


def test_a_second_layer_follows_functions_of_the_units() -> None:
    rng = np.random.default_rng(1)
    below = random_network(4, 3, biases=0.7, readout="positive", rng=rng)
    point = point_of(below, biases=True, offset=True, linear=False)

    def above(x: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, below.layer(x) @ [1.0, -1.0, 0.5] - 0.3)

    def other(x: np.ndarray) -> np.ndarray:
        return np.cos(6.0 * x[:, 0] + 5.0 * x[:, 1])

    def make(seen: ResidualRows) -> Challenger:
        return second_layer(seen, point, np.random.default_rng(2))

    assert explained(make, above) > 0.8
    assert explained(make, other) < 0.2
