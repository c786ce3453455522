"""A fit that a search ended at once only is not believed where there is noise."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_recoveries import failed, hostile

import laybare as lb
from laybare.certificate import ClaimName
from laybare.certificate.certificate import RULES
from laybare.certificate.local_minima import Ending, other_minima_claim, runs_agree_claim, unseen_share


@pytest.mark.parametrize(("runs", "passed"), [(2, True), (25, True), (0, False)])
def test_two_runs_must_agree(*, runs: int, passed: bool) -> None:
    claim = runs_agree_claim(runs, 0.05)
    assert claim.name == ClaimName.RUN_AGREEMENT and claim.passed is passed
    assert not claim.decisive and claim.direction == "at least" and str(runs or "no two") in claim.explanation


@pytest.mark.parametrize(("runs", "share"), [(2, 0.776), (7, 0.348), (46, 0.063)])
def test_the_claim_says_how_often_a_run_may_end_elsewhere(runs: int, share: float) -> None:
    assert unseen_share(runs, 0.05) == pytest.approx(share, abs=1e-3)
    assert (1.0 - unseen_share(runs, 0.05)) ** runs == pytest.approx(0.05)
    assert f"at most {share:.2g} (95%)" in runs_agree_claim(runs, 0.05).explanation


@pytest.mark.parametrize("best", [0.05, 0.2, 0.4, 0.6, 0.8])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_runs_that_stop_when_two_agree_rule_out_a_share_at_their_level(best: float, level: float) -> None:
    """Runs end in the best minimum with this probability, else in one of five worse ones; they stop when two agree, or when that
    has happened twice more. The share that is ruled out is too small in at most `level` of 4,000 searches, or 4 sd more."""
    rng, missed = np.random.default_rng(0), {1: 0, 3: 0}
    for _ in range(4000):
        ends, agreements = [], 0
        while agreements < 3:
            end = 0 if rng.random() < best else int(rng.integers(1, 6))
            agreements += end in ends
            ends.append(end)
            if agreements in missed:
                missed[agreements] += 0 not in ends and unseen_share(len(ends), level) < best
    assert max(missed.values()) <= 4000 * level + 4.0 * np.sqrt(4000 * level * (1.0 - level))


@pytest.mark.parametrize(("ratio", "apart", "passed"), [
    (9.3, 17.0, True), (9.1, 17.0, False), (-30.0, 17.0, False), (0.0, 15.0, True), (300.0, 1e9, True)])
def test_another_network_must_be_much_less_likely(*, ratio: float, apart: float, passed: bool) -> None:
    """By 2 log 100; outputs within sixteen variances are those of the same network."""
    claim = other_minima_claim((Ending(1e4, 1e4), Ending(ratio, apart)))
    assert claim.name == ClaimName.OTHER_MINIMA and claim.passed is passed and not claim.decisive
    assert claim.value == (1e4 if apart < RULES.clear_gain else ratio)


def test_dependent_rows_count_as_fewer_where_minima_are_compared() -> None:
    ending = Ending(12.0, 100.0)
    assert other_minima_claim([ending]).passed and not other_minima_claim([ending], 2.0).passed
    assert other_minima_claim([]).kind == "assumed"


def test_a_search_of_one_run_is_doubtful_where_there_is_noise() -> None:
    """The same network, found twice, is verified; without noise one run is enough."""
    rng = np.random.default_rng(0)
    truth = lb.random_network(5, 2, rng=rng)
    x = rng.standard_normal((800, 5))
    y, once = truth(x), lb.RandomStart(search=lb.Search(hops=0))
    noisy = lb.Samples(x, y + 0.1 * y.std() * rng.standard_normal(800))
    alone, twice = lb.recover(noisy, once, 2, rng=0), lb.recover(noisy, lb.RandomStart(), 2, rng=0)
    assert failed(alone) == {ClaimName.RUN_AGREEMENT} and twice.certificate.verdict == "verified"
    assert lb.compare(alone.network, twice.network).max_error < 0.01
    assert lb.recover(lb.Samples(x, y), once, 2, rng=0).certificate.verdict == "verified"


@pytest.mark.parametrize("seed", [320039, 320551, 570534, 7000532, 7510548])
def test_a_unit_that_may_stand_in_another_place_is_not_verified(seed: int) -> None:
    """Each was verified: a true unit had been replaced by one that fits the noise better, just worth its numbers, or that is as
    likely somewhere else."""
    found, right = hostile("plain", seed)
    assert not right and found.certificate.verdict == "doubtful"
    assert ClaimName.OTHER_MINIMA in failed(found)


@pytest.mark.parametrize(("seed", "name"), [
    (411090, ClaimName.FRESH_RESIDUAL), (430444, ClaimName.RUN_AGREEMENT), (570534, ClaimName.FRESH_RESIDUAL)])
def test_units_in_the_wrong_place_are_not_verified(seed: int, name: str) -> None:
    """Numbers were off by eight standard errors and more; rows that were not fitted are predicted badly, or no two runs agree."""
    found, right = hostile("plain", seed)
    assert not right and found.certificate.verdict == "doubtful" and name in failed(found)


def test_opposite_units_that_look_like_a_linear_part_are_not_verified() -> None:
    """Four units had become two with a linear part: one more gained nearly what it had to."""
    found, right = hostile("few", 410542)
    assert not right and failed(found) - {ClaimName.CHALLENGERS, ClaimName.FRESH_RESIDUAL} == {ClaimName.ONE_UNIT_MORE}
