"""How the studies `hostile` and `plain-noise` count."""

from __future__ import annotations

from math import inf, nan

import pytest

from laybare.studies.certificates import AGREEMENT_KINDS, PLAIN_NOISE, HostileRun, agreement_kind, judge_case


@pytest.mark.parametrize(("runs", "kind"), [(2.0, 0), (3.0, 1), (24.0, 1), (inf, 2), (nan, 3)])
def test_kinds_of_cases_by_runs(runs: float, kind: int) -> None:
    assert agreement_kind(runs) == AGREEMENT_KINDS[kind]


def test_plain_noise_counts_by_how_soon_two_runs_agree() -> None:
    def case(verdict: str, right: bool, runs: float) -> HostileRun:
        return HostileRun(verdict, right, True, 1.0, runs)

    counted = PLAIN_NOISE.summary(PLAIN_NOISE.quick, {"plain": [
        case("doubtful", False, inf), case("verified", True, 2.0), case("verified", False, 4.0), case("doubtful", True, 5.0)]})
    table = [dict(zip(counted.columns, row, strict=True)) for row in counted.rows]
    assert [row["kind"] for row in table] == [AGREEMENT_KINDS[i] for i in (0, 1, 2)]  # those that were met, in this order
    assert [row["verified"] for row in table] == [1, 1, 0]
    assert [row["verified but wrong"] for row in table] == [0, 1, 0]
    assert [row["right but not verified"] for row in table] == [0, 1, 0]
    assert counted.sentence.startswith("Verified but wrong: 1 of 4 cases")


def test_a_case_says_how_many_runs_it_took() -> None:
    run = judge_case("plain", 590001)
    assert run.runs >= 2 and agreement_kind(run.runs) in AGREEMENT_KINDS
