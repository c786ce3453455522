"""A fit that a search ended at once only: what it takes to believe it."""

from __future__ import annotations

import pytest
from hostile_recoveries import failed, hostile

from laybare.certificate import Claim
from laybare.certificate.missing import MORE_UNITS
from laybare.certificate.starts import ALONE, MET, believed, met


def worth(times: float) -> Claim:
    """The claim of one unit fewer, worth so many times what is needed."""
    return Claim("loss of one unit fewer", 50.0 * times, 50.0, times > 1.0, "tested", "")


def fresh(ratio: float) -> Claim:
    """The claim of the fresh residual, which chance may make three times as large."""
    return Claim("fresh residual over used residual", ratio, 3.0, ratio <= 3.0, "tested", "", decisive=True)


def left(evidence: float) -> Claim:
    return Claim("structure left in the residual", evidence, 2.7, evidence <= 2.7, "tested", "")


@pytest.mark.parametrize(("agreed", "times", "ratio", "evidence", "passed"), [
    (True, 1.01, 1.0, 0.5, True), (False, 1.01, 1.0, 0.5, False), (False, 0.99 * ALONE, 1.0, 0.5, False),
    (False, ALONE, 1.0, 0.5, True), (False, 9.0, 0.3, 0.5, True), (False, 9.0, 1.99, 0.5, True), (False, 9.0, 2.01, 0.5, False),
    (True, 9.0, 2.9, 2.6, True), (False, 9.0, 1.0, 1.34, True), (False, 9.0, 1.0, 1.36, False)])
def test_one_start_is_enough_where_nothing_is_strange(
    *, agreed: bool, times: float, ratio: float, evidence: float, passed: bool
) -> None:
    other = Claim("refinement finished", 1.0, 1.0, True, "tested", "")
    claim, same = believed((met(agreed=agreed), other), worth(times), fresh(ratio), left(evidence))
    assert claim.name == MET and claim.passed is passed and not claim.decisive
    assert claim.kind == ("assumed" if passed and not agreed else "tested") and claim.direction == "at least"
    assert same is other


@pytest.mark.parametrize("seed", [320039, 320551])
def test_a_unit_that_follows_noise_and_was_found_once_only_is_not_verified(seed: int) -> None:
    """Each was verified: a true unit had been replaced by one that fits the noise better, just worth its numbers."""
    found, right = hostile("plain", seed)
    assert not right and found.certificate.verdict == "doubtful"
    assert MET in failed(found)


@pytest.mark.parametrize("seed", [411090, 430444])
def test_units_in_the_wrong_place_that_were_found_once_only_are_not_verified(seed: int) -> None:
    """Numbers were off by eight standard errors and more; a residual was strange, but not more so than chance may make it."""
    found, right = hostile("plain", seed)
    assert not right and failed(found) == {MET}


def test_opposite_units_that_look_like_a_linear_part_are_not_verified() -> None:
    """Four units had become two with a linear part: one more gained nearly what it had to."""
    found, right = hostile("few", 410542)
    assert not right and failed(found) == {MORE_UNITS}
