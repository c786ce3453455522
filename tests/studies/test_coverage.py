"""Shares of numbers within their error bars: what is counted, and what is left out."""

import numpy as np
import pytest

import laybare as lb
from laybare.studies import caution
from laybare.studies.caution import COVERAGE, LARGE_NETWORK, CoverageRun, count_covered, cover_once, dependent_rows


def test_numbers_are_counted_by_part_modulo_symmetry():
    """The truth itself, its units in another order, lies within any error bars; one number moved by two of them does not."""
    rng = np.random.default_rng(0)
    truth = lb.random_network(4, 3, rng=rng)
    x = rng.standard_normal((600, 4))
    y = truth(x)
    found = lb.recover(lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(600)), lb.RandomStart(), 3, rng=0)
    assert count_covered(found, found.network) == CoverageRun((12, 3, 3, 1), (12, 3, 3, 1))
    biases = np.array(found.network.layer.biases)
    biases[1] += 2.0 * found.certificate.standard_errors.biases[1]
    moved = lb.Network(lb.Layer(found.network.layer.weights, biases), found.network.readout, found.network.offset)
    assert count_covered(found, moved).inside == (12, 2, 3, 1)


@pytest.mark.parametrize("kind", ["constant", "varying"])
def test_a_verified_network_counts_and_others_do_not(kind, monkeypatch):
    counted = [cover_once(kind, seed).numbers for seed in range(3)]
    assert counted.count((30, 5, 5, 1)) >= 2  # nine in ten are verified

    def refused(*given, **named):
        raise lb.LaybareError("Seen.", "Why.", "What to do.")

    monkeypatch.setattr(caution, "recover", refused)
    assert cover_once(kind, 0).numbers == (0, 0, 0, 0)


def test_shares_are_over_all_networks_of_a_kind():
    runs = {"constant": [CoverageRun((29, 5, 4, 1), (30, 5, 5, 1)), CoverageRun((0,) * 4, (0,) * 4)]}
    (row,) = COVERAGE.summary(COVERAGE.quick, runs).rows
    assert row.tried == 2 and row.verified == 1 and row[3:] == pytest.approx((29 / 30, 1.0, 0.8, 1.0))


@pytest.mark.parametrize("kind", COVERAGE.quick)
def test_rows_are_as_dependent_as_they_are_said_to_be(kind):
    """Noise has variance one, give or take 4 standard deviations, 0.07 for 1,680 rows with a memory of .8; and it repeats itself
    from row to row, within groups or at equal inputs only where it should."""
    _, drawn, y = dependent_rows(kind, 0)
    assert len(y) == len(drawn.x) == len(drawn.noise) and abs(drawn.noise.var() - 1.0) < 0.35
    after = np.corrcoef(drawn.noise[1:], drawn.noise[:-1])[0, 1]
    assert (after > 0.3) == (kind in ("groups", "groups, given", "time series"))
    assert (len(np.unique(drawn.x, axis=0)) < len(y)) == (kind == "repeated inputs")
    assert (drawn.groups is not None) == (kind == "groups, given")


@pytest.mark.slow
def test_error_bars_of_a_thousand_numbers_hold():
    """Six networks of 1,041 numbers from 100,000 rows: 95 %, give or take 4 standard deviations of a mean of their shares, each
    of which has 0.8 % (twelve networks, seeds 100 to 111)."""
    runs = [cover_once(LARGE_NETWORK, seed) for seed in range(6)]
    counted = [run for run in runs if sum(run.numbers)]
    assert len(counted) >= 4
    share = sum(sum(run.inside) for run in counted) / sum(sum(run.numbers) for run in counted)
    assert abs(share - 0.95) < 4 * 0.008 / np.sqrt(len(counted))
