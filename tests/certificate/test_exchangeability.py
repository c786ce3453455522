"""Rows that are not independent are noticed, and error bars allow for it where they can."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.spatial import cKDTree
from scipy.special import chdtrc

import laybare as lb
from laybare.certificate import ClaimName
from laybare.certificate.challengers import BetTerms, capital_against, upper_bound
from laybare.certificate.exchangeability import (
    DEPENDENCE,
    RowInfluences,
    _nearest,
    common_parts,
    find_dependence,
    unexplained_share,
    variance_inflation,
)
from laybare.certificate.exchangeability import _dependence as dependence_of
from laybare.certificate.explanations import Alternative
from laybare.certificate.fitted_network import FittedNetwork, evaluate_fit
from laybare.planted import random_network
from laybare.solver.point import Point, keep_units, point_of
from laybare.source.problem import pose
from laybare.studies.caution import KINDS, count_covered, dependent_rows
from laybare.studies.certificates import largest_miss

NEIGHBOURS = 20


def lags(rows: int) -> np.ndarray:
    at = np.arange(rows)[:, None] - np.arange(1, NEIGHBOURS + 1)
    return np.where(at < 0, -1, at)


def ranks_of(values: np.ndarray) -> np.ndarray:
    return 2.0 * (np.argsort(np.argsort(values)) + 0.5)[:, None] / len(values) - 1.0


def test_independent_rows_are_seldom_taken_for_dependent_ones() -> None:
    """At most DEPENDENCE.level of 400: 4 expected, sd 2, 4 sd allowed."""
    rng = np.random.default_rng(0)
    wrong = sum(dependence_of("", lags(300), ranks_of(rng.standard_normal(300))).found for _ in range(400))
    assert wrong <= 400 * DEPENDENCE.level + 8


def test_a_series_is_found_and_its_memory_fades() -> None:
    rng, e = np.random.default_rng(0), np.zeros(1000)
    for t in range(1, 1000):
        e[t] = 0.6 * e[t - 1] + rng.standard_normal()
    found = dependence_of("", lags(1000), ranks_of(e))
    assert found.found and found.fades and 3 <= found.reach <= 12
    drifting = dependence_of("", lags(1000), ranks_of(np.linspace(-2.0, 2.0, 1000) + rng.standard_normal(1000)))
    assert drifting.found and not drifting.fades


def test_variance_of_a_mean_of_clusters() -> None:
    """Of 4 copies the mean has 4 times the variance; pairs are counted once, whoever is whose neighbour."""
    rng = np.random.default_rng(0)
    values = np.repeat(rng.standard_normal((500, 1)), 4, axis=0)
    member = np.arange(2000) // 4
    near = np.stack([4 * member + (np.arange(2000) + step) % 4 for step in (1, 2, 3)], axis=1)
    found = dependence_of("", near, ranks_of(values[:, 0]))._replace(reach=3)
    assert variance_inflation(followed(values, 0.0), found, 1e-3).variance[0] == pytest.approx(4.0)
    alone = variance_inflation(followed(rng.standard_normal((2000, 1)), 0.0), found, 1e-3)
    assert alone.variance[0] == pytest.approx(1.0, abs=0.4)
    # a fit that follows each row by .05 follows four copies by .2: of .95 that was left, .8 is; evidence is not made smaller
    near_fit = variance_inflation(followed(values, 0.05), found, 1e-3)
    assert near_fit.variance[0] == pytest.approx(1.0 + 3.0 * (0.95 / 0.8) ** 2)
    assert near_fit.as_seen[0] == pytest.approx(4.0)


def followed(values: np.ndarray, leverage: float) -> RowInfluences:
    """Rows with these influences, of which a fit follows each by so much."""
    slopes = np.full((len(values), 1, 1), np.sqrt(leverage))
    return RowInfluences(values, slopes, slopes)


@pytest.mark.parametrize("kind", ["groups", "time series", "repeated inputs"])
def test_error_bars_of_dependent_rows_cover(kind: str) -> None:
    """84 % at the least over four networks of 46 numbers, which are dependent; 74 to 83 % without. And all are noticed."""
    inside = numbers = 0
    for seed in range(4):
        rng = np.random.default_rng([seed, 77])
        truth, drawn = random_network(6, 5, readout="positive", rng=rng), KINDS[kind](rng, 1000, 6)
        y = truth(drawn.x)
        found = lb.refine(lb.Samples(drawn.x, y + 0.1 * y.std() * drawn.noise), truth)
        checks = [check for check in found.certificate.checks if check.name == ClaimName.NEIGHBOURS]
        assert max(check.value for check in checks) >= 1.0 / DEPENDENCE.level
        run = count_covered(found, truth)
        inside, numbers = inside + sum(run.inside), numbers + sum(run.numbers)
    assert inside >= 0.84 * numbers


@pytest.mark.parametrize("design_effect", [2, 4])
def test_bets_on_copies_of_rows_say_what_one_copy_says(design_effect: int) -> None:
    """Copies prove nothing: what D of them say is what one says."""
    d = np.random.default_rng(0).uniform(-1.0, 0.9, 400)
    copies = np.repeat(d, design_effect)
    assert capital_against(copies, 0.05, 1.0, design_effect) == pytest.approx(capital_against(d, 0.05, 1.0))
    bound = upper_bound(d, 1.0, BetTerms(0.05))
    assert upper_bound(copies, 1.0, BetTerms(0.05, design_effect)) == pytest.approx(bound)
    assert upper_bound(copies, 1.0, BetTerms(0.05)) < bound - 0.02


def test_structure_among_copies_of_rows_is_that_of_one_copy() -> None:
    """χ² of three features is twice as large among rows that stand there twice."""
    seen = Alternative("squares", 3, 0.1, -float(np.log10(chdtrc(3, 24.0))), 6)
    fewer = seen.among_dependent_rows(2.0)
    assert fewer.evidence == pytest.approx(-np.log10(chdtrc(3, 12.0)))
    assert seen.among_dependent_rows(1.0) == seen
    assert np.isfinite(seen._replace(evidence=300.0).among_dependent_rows(2.0).evidence)


@pytest.mark.parametrize("kind", ["groups", "groups, given", "repeated inputs"])
def test_noise_in_common_is_not_taken_for_structure(kind: str) -> None:
    """Right networks were refuted, since their tests took the rows for independent ones."""
    truth, drawn, y = dependent_rows(kind, 9100)
    found = lb.recover(lb.Samples(drawn.x, y), lb.RandomStart(), truth.width, groups=drawn.groups, rng=0)
    assert largest_miss(found.network, truth, found.certificate.standard_errors) <= 1.0
    assert found.certificate.verdict == "verified"


def test_what_neighbours_have_in_common_is_in_the_resolution() -> None:
    """Nothing tells noise that groups share from a function that no challenger found: the network may be beaten by that much."""
    truth, drawn, y = dependent_rows("repeated inputs", 9101)
    found = lb.refine(lb.Samples(drawn.x, y), truth).certificate
    common = 0.1 * np.sqrt(0.5)  # half of the noise, which is a tenth of y
    assert found.resolution is not None and common < found.resolution.bound < 1.5 * common
    assert common_parts((dependence_of("", lags(300), np.zeros((300, 1))),), 0.05) == ()


def fitted_and_wider(x: np.ndarray, y: np.ndarray, network: lb.Network, wider: lb.Network) -> tuple[FittedNetwork, Point]:
    """A network as it is, and a wider one as a point on white inputs."""
    problem = pose(lb.Samples(x, y), biases=True, rng=np.random.default_rng(0))
    return evaluate_fit(network, problem), point_of(problem.white(wider), biases=True, offset=True, linear=False)


def first_units(network: lb.Network, width: int) -> lb.Network:
    return lb.Network(
        lb.Layer(network.layer.weights[:width], network.layer.biases[:width], network.layer.activation), network.readout[:width],
        network.offset)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_what_a_wider_network_explains_is_no_dependence(seed: int) -> None:
    """The best fit with one of three units: neighbours are alike, less so with two, not at all with three."""
    truth, x = random_network(4, 3, rng=seed), np.random.default_rng(0).standard_normal((400, 4))
    y, shares = truth(x), []
    fits = [lb.refine(lb.Samples(x, y), first_units(truth, width)).network for width in (1, 2, 3)]
    for wider_fit in fits:
        fitted, wider = fitted_and_wider(x, y, fits[0], wider_fit)
        found = find_dependence(fitted)
        assert any(one.found for one in found) and unexplained_share(fitted, found, None) == 1.0
        shares.append(unexplained_share(fitted, found, wider))
    assert shares[0] > 1.0 - 1e-9 and 0.0 <= shares[1] < 0.7 and shares[2] < 1e-20, shares


def test_common_noise_stays_beside_a_wider_network() -> None:
    """Half of the noise is common to rows with one input: one unit of the network is nearly no share of that."""
    truth, drawn, y = dependent_rows("repeated inputs", 9102)
    fitted, wider = fitted_and_wider(drawn.x, y, truth, truth)
    found = find_dependence(fitted)
    assert any(one.found for one in found)
    assert unexplained_share(fitted, found, wider) > 1.0 - 1e-9
    fewer = keep_units(wider, np.arange(truth.width - 1))
    assert unexplained_share(fitted, found, fewer) == 1.0  # never more than all of it


def test_neighbours_that_are_looked_for_in_parts_are_the_same() -> None:
    """One call for all rows takes a second on a busy machine, in which no interrupt is answered."""
    x = np.random.default_rng(0).standard_normal((2 * DEPENDENCE.tree_rows + 7, 3))
    assert_array_equal(_nearest(x, 2), cKDTree(x).query(x, 3)[1][:, 1:])
