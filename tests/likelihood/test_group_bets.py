"""Challengers of fits by likelihood: bets on groups of rows keep their level, factors follow the likelihood, waves are seen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import laybare as lb
from laybare.activations import relu
from laybare.certificate.certificate import ClaimName
from laybare.certificate.challengers import BetTerms, Challenger, capital_against, upper_bound
from laybare.likelihood.deviance_tests import _smallest_visible
from laybare.likelihood.group_bets import Arena, JudgedRows
from laybare.numerics.shapes import Array
from laybare.solver.point import outputs_at, point_of
from laybare.source import Schedule, Unknown
from laybare.source.losses import Labels, Loss, likelihood_rows


def arena_and_rows(loss: str, eta: Array, y: Array) -> tuple[Arena, JudgedRows]:
    network = lb.random_network(2, 1, rng=0)
    rows = JudgedRows(np.zeros((len(y), 2)), eta[:, None], Labels(y[:, None], np.ones(len(y)), np.arange(len(y))))
    return Arena(point_of(network, biases=True, offset=True, linear=False), Loss(loss), 1.0), rows


@pytest.mark.parametrize("rows_per_group", [1, 20])
def test_bets_on_groups_keep_their_level(rows_per_group: int, rng: np.random.Generator) -> None:
    """Gains of mean δ² per row, with noise that the rows of a group have in common: a bound below δ² is rare."""
    level, mean, below, trials = 0.05, 0.3, 0, 300
    for _ in range(trials):
        sizes = rng.integers(1, 2 * rows_per_group + 1, 60).astype(float)
        common = rng.choice([-1.0, 1.0], 60)
        gains = sizes * (mean + common) / sizes.mean()
        bound = upper_bound(gains, float(gains.max()), BetTerms(level), sizes / sizes.mean())
        below += bound < mean
    assert below <= level * trials + 3.0 * np.sqrt(level * trials)


def test_single_bets_on_rows_of_one_group_would_not_keep_it(rng: np.random.Generator) -> None:
    """What the test above can fail by: rows of one group, taken for independent."""
    below = 0
    for _ in range(100):
        gains = np.repeat(0.3 + rng.choice([-1.0, 1.0], 30), 20)
        below += upper_bound(gains, float(gains.max()), BetTerms(0.05)) < 0.3
    assert below > 5 + 3.0 * np.sqrt(5)


def test_sizes_weigh_the_mean() -> None:
    d, sizes = np.array([0.1, 0.3]), np.array([0.5, 1.5])
    assert capital_against(d, 0.2, 1.0, sizes=sizes) == pytest.approx(1.0)  # every group gains just that


@pytest.mark.parametrize("loss", ["squared", "poisson", "bernoulli"])
def test_factor_of_a_challenger_follows_the_likelihood(loss: str, rng: np.random.Generator) -> None:
    """Half of what is missing is scaled to twice its size, up to noise."""
    missing = 0.8 * rng.standard_normal(20_000)
    mean = Loss(loss).mean(missing)
    y = {
        "squared": lambda: missing + rng.standard_normal(len(missing)), "poisson": lambda: rng.poisson(mean),
        "bernoulli": lambda: rng.random(len(mean)) < mean}[loss]().astype(float)
    arena, rows = arena_and_rows(loss, np.zeros(len(y)), y)
    half = Challenger("half", lambda x, eta: 0.5 * missing[:, None])
    found = arena.scaled(half, rows).adds(rows.x, rows.eta)
    assert np.median(found[:, 0] / missing) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("kind", ["groups", "weights"])
def test_a_wave_that_the_network_lacks_is_refuted(kind: str, rng: np.random.Generator) -> None:
    """sin(4 x0), which no product of inputs shows, behind rows in groups or with weights."""
    truth, n = lb.random_network(5, 3, rng=1), 2000
    x = rng.standard_normal((n, 5))
    y = truth(x) + 0.2 * rng.standard_normal(n)
    given = {"groups": np.repeat(np.arange(n // 10), 10)} if kind == "groups" else {"sample_weight": rng.uniform(0.5, 2.0, n)}
    right = lb.recover(x, y, rng=0, **given)
    assert right.certificate.verdict == "verified"
    assert right.certificate.resolution is not None and 0.0 < right.certificate.resolution.bound < 0.3
    wrong = lb.recover(x, y + 0.3 * np.sin(4.0 * x[:, 0]), rng=0, **given)
    assert wrong.certificate.verdict == "refuted"


def test_rows_without_noise_in_groups_are_verified(rng: np.random.Generator) -> None:
    truth, x = lb.random_network(4, 2, rng=2), rng.standard_normal((600, 4))
    found = lb.recover(x, truth(x), groups=np.repeat(np.arange(60), 10), rng=0)
    assert found.certificate.verdict == "verified" and lb.compare(found.network, truth).max_error < 1e-10


def test_the_level_that_is_asked_for_is_used(rng: np.random.Generator) -> None:
    """A resolution that nothing reaches leaves the network doubtful."""
    truth, x = lb.random_network(3, 2, rng=3), rng.standard_normal((500, 3))
    y, groups = truth(x) + 0.1 * rng.standard_normal(500), np.repeat(np.arange(100), 5)
    found = lb.recover(x, y, groups=groups, rng=0, assurance=(0.05, 0.01, 1e-6))
    assert found.certificate.verdict == "doubtful"


@pytest.mark.parametrize("loss", ["squared", "poisson", "huber"])
def test_a_series_that_no_group_names_is_noticed(loss: str, rng: np.random.Generator) -> None:
    """Weighted rows, counts and heavy tails whose noise wanders: standard errors do not hold, and the certificate says so."""
    truth, n = lb.random_network(2, 1, rng=4), 1500
    x, shocks = rng.standard_normal((n, 2)), rng.standard_normal(n)
    walk = np.zeros(n)
    for i in range(1, n):
        walk[i] = 0.8 * walk[i - 1] + 0.6 * shocks[i]
    answers = truth(x) + 0.3 * walk
    y = rng.poisson(np.exp(np.clip(answers + 1.0, -3.0, 3.0))).astype(float) if loss == "poisson" else answers
    given = {"sample_weight": rng.uniform(0.5, 2.0, n)} if loss == "squared" else {}
    found = lb.recover(x, y, loss=loss, rng=0, **given)
    failed = [check.name for check in found.certificate.checks if not check.passed]
    assert ClaimName.NEIGHBOURS in failed


def test_named_groups_are_no_series(rng: np.random.Generator) -> None:
    truth, n = lb.random_network(2, 1, rng=4), 1500
    groups = np.repeat(np.arange(n // 5), 5)
    x = rng.standard_normal((n, 2))
    y = truth(x) + 0.2 * rng.standard_normal(n) + 0.2 * rng.standard_normal(n // 5)[groups]
    found = lb.recover(x, y, groups=groups, rng=0)
    assert found.certificate.verdict == "verified"


def test_what_could_be_seen_is_said_for_the_rows_that_say_least(rng: np.random.Generator) -> None:
    """Counts: the half of the rows with the smaller means; without a link all rows say the same."""
    x, row = rng.standard_normal((2000, 1)), np.array([[1.0]])
    network = lb.Network(lb.Layer(row, np.array([0.5]), relu), np.array([1.0]), 0.0)
    point = point_of(network, biases=True, offset=True, linear=False)
    eta, seen = outputs_at(point, x)[:, 0], {}
    for loss in ("squared", "poisson"):
        counts = lb.Samples(x, rng.poisson(np.exp(eta)).astype(float))
        rows = likelihood_rows(counts, Loss(loss), schedule=Schedule(), law=Unknown())
        fitted = SimpleNamespace(used=rows, point=point, dispersion=1.0)
        seen[loss] = _smallest_visible(fitted, 9.0) ** 2 * eta.var() / 9.0  # type: ignore[arg-type]
    assert seen["squared"] == pytest.approx(1.0 / 2000)
    assert seen["poisson"] == pytest.approx(1.0 / (2.0 * np.sort(np.exp(eta))[:1000].sum()))
    assert seen["poisson"] > 1.5 / np.exp(eta).sum()
