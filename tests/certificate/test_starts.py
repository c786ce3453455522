"""A fit that a search ended at once only: what it takes to believe it."""

from __future__ import annotations

import pytest
from hostile_recoveries import failed, hostile

from laybare.certificate import Claim
from laybare.certificate.starts import ALONE, MET, believed, met


def worth(times: float) -> Claim:
    """The claim of one unit fewer, worth so many times what is needed."""
    return Claim("loss of one unit fewer", 50.0 * times, 50.0, times > 1.0, "tested", "")


@pytest.mark.parametrize(("agreed", "times", "passed"), [
    (True, 1.01, True), (False, 1.01, False), (False, 0.99 * ALONE, False), (False, ALONE, True), (False, 9.0, True)])
def test_one_start_is_enough_where_every_unit_is_worth_much(*, agreed: bool, times: float, passed: bool) -> None:
    other = Claim("refinement finished", 1.0, 1.0, True, "tested", "")
    claim, same = believed((met(agreed=agreed), other), worth(times))
    assert claim.name == MET and claim.passed is passed and not claim.decisive
    assert claim.kind == ("assumed" if passed and not agreed else "tested") and claim.direction == "at least"
    assert same is other


@pytest.mark.parametrize("seed", [320039, 320551])
def test_a_unit_that_follows_noise_and_was_found_once_only_is_not_verified(seed: int) -> None:
    """Each was verified: a true unit had been replaced by one that fits the noise better, just worth its numbers."""
    found, right = hostile("plain", seed)
    assert not right and found.certificate.verdict == "doubtful"
    assert MET in failed(found)
