"""The phase diagram: recovery over samples per degree of freedom."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies.few_samples import (
    ARMS,
    HOPS,
    NEAR_LIMIT,
    OVERWIDE,
    PHASE_DIAGRAM,
    FewCell,
    FewGrid,
    LimitCell,
    half_line,
    recover_near_limit,
    search_until,
)
from laybare.studies.study import Settings


def test_degrees_of_freedom_are_parameters_minus_the_gauge():
    assert FewCell("relu", 20, 0.5, 2.0, 0.0, HOPS, 1.0).degrees_of_freedom == 211
    assert FewCell("tanh", 20, 0.5, 2.0, 0.0, HOPS, 1.0).degrees_of_freedom == 221
    assert FewCell("relu", 20, 0.5, 2.0, 0.0, HOPS, 1.0).samples == 422


def test_squares_are_symmetric_matrices_of_their_rank():
    assert FewCell("square", 10, 0.5, 1.0, 0.0, HOPS, 1.0).degrees_of_freedom == 5 * 10 - 10 + 1
    assert FewCell("square", 10, 2.0, 1.0, 0.0, HOPS, 1.0).degrees_of_freedom == 55 + 1


@pytest.mark.parametrize(("activation", "noise"), [("square", 0.0), ("tanh", 0.0), ("relu", 0.1), ("square", 0.1)])
def test_other_units_and_noise_are_right_from_plenty(activation, noise):
    """The error is a few times the floor: the model without signs has a linear part besides."""
    run = search_until(FewCell(activation, 5, 0.4, 20.0, noise, HOPS, 20.0), 1)
    assert run.right
    assert np.isnan(run.over_floor) if not noise else run.over_floor < 6.0


@pytest.mark.parametrize(("shares", "line"), [
    ((0.0, 0.0, 1.0), 1.75), ((1.0, 1.0, 1.0), 1.0), ((0.0, 0.0, 0.0), np.inf), ((1.0, 0.0, 0.5), 2.0)])
def test_the_half_line_is_where_success_stays_above_one_half(shares, line):
    assert half_line(list(zip((1.0, 1.5, 2.0), shares, strict=True))) == line


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_recovers_from_plenty(arm):
    run = search_until(FewCell("relu", 5, 0.4, 8.0, 0.0, arm, 20.0), 1)
    assert run.right and run.cpu < 20.0


def test_too_few_samples_for_spares_are_a_failure_and_end_early():
    run = search_until(FewCell("relu", 5, 0.4, 1.0, 0.0, OVERWIDE, 20.0), 1)
    assert not run.right and run.cpu < 5.0


def test_time_ends_a_run_that_finds_nothing():
    run = search_until(FewCell("relu", 10, 1.0, 1.2, 0.0, HOPS, 0.3), 1)
    assert not run.right and run.cpu <= 0.3


def test_the_table_has_a_row_for_every_cell():
    grid = FewGrid(("relu",), (5,), (0.4,), (3.0, 5.0), (0.0,), 1.0)
    study = PHASE_DIAGRAM.settings([0])
    result = PHASE_DIAGRAM.run(type(study)([0], grid))
    assert len(result.rows) == 2 * len(ARMS)
    assert "counting limit" in result.sentence
    assert result.figure is not None


@pytest.mark.parametrize("given", ["yes", "no"])
def test_recover_and_the_others_are_given_the_same_data(given):
    run = recover_near_limit(LimitCell("relu", 5, 2, 12.0, given, 20.0), 1)
    assert run.right and run.verified and run.cpu < 20.0
    assert run.overwide and run.restarts


def test_a_network_has_as_many_seeds_as_it_is_worth():
    grid = (LimitCell("relu", 4, 1, 10.0, "yes", 20.0), LimitCell("relu", 5, 1, 10.0, "yes", 20.0, 1))
    result = NEAR_LIMIT.run(Settings([0, 1], grid))
    assert [row.runs for row in result.rows] == [2, 1]
    assert "relu 5-1-1 at 10: 1 of 1" in result.sentence
