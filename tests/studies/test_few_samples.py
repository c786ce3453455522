"""The phase diagram: recovery over samples per degree of freedom."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import few_samples
from laybare.studies.few_samples import (
    ARMS,
    HOPS,
    NEAR_LIMIT,
    OVERWIDE,
    PHASE_DIAGRAM,
    TRUTH,
    FewCell,
    FewGrid,
    FewRun,
    LimitCell,
    descend,
    draw_data,
    half_line,
    half_of,
    is_determined,
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
    run = search_until(FewCell(activation, 5, 0.4, 20.0, noise, HOPS, 20.0), 1)
    assert run.right
    assert np.isnan(run.over_floor) if not noise else run.over_floor < 4.0


def test_no_fit_is_right_within_noise_where_equations_are_as_many_as_unknowns():
    """Not even one from the truth; from plenty it is."""
    few, plenty = (search_until(FewCell("relu", 10, 0.5, ratio, 0.1, TRUTH, 20.0), 1) for ratio in (1.1, 10.0))
    assert not few.right and few.over_floor > 4.0
    assert plenty.right and plenty.over_floor < 2.0


@pytest.mark.parametrize("activation", ["relu", "leaky relu", "tanh", "square"])
def test_plenty_of_rows_determine_a_network_and_fewer_than_its_degrees_of_freedom_do_not(activation):
    few, plenty = (FewCell(activation, 6, 0.5, ratio, 0.0, HOPS, 1.0) for ratio in (0.95, 20.0))
    assert [is_determined(plenty, seed) for seed in range(5)] == [True] * 5
    assert [is_determined(few, seed) for seed in range(5)] == [False] * 5


def test_a_unit_that_is_active_in_too_few_rows_is_not_determined():
    cell = FewCell("relu", 10, 0.5, 2.0, 0.0, HOPS, 1.0)
    least, determined = {}, {}
    for seed in range(40):
        truth, source, *_ = draw_data(cell, seed)
        least[seed] = (truth.layer.before(source.read(0, source.size)[0]) > 0.0).sum(axis=0).min()
        determined[seed] = is_determined(cell, seed)
    rare = [seed for seed in least if least[seed] < 11]
    assert rare and not any(determined[seed] for seed in rare)
    assert np.mean([determined[seed] for seed in least if seed not in rare]) > 0.8


def line_of(ratios, seconds=20.0, dim=5):
    return [FewCell("relu", dim, 0.4, ratio, 0.0, HOPS, seconds) for ratio in ratios]


def test_a_line_goes_down_until_a_search_fails(monkeypatch):
    made = []

    def search(cell, seed):
        made.append(cell.samples_per_degree)
        return FewRun(cell.samples_per_degree > 1.8, 0.1)

    monkeypatch.setattr(few_samples, "run_arm", search)
    runs = descend(line_of((1.1, 1.5, 2.0, 3.0)), 0)
    assert made == [3.0, 2.0, 1.5]
    assert [run.right for run in runs] == [False, False, True, True] and [run.made for run in runs] == [False, True, True, True]


def test_a_first_failure_at_the_most_samples_does_not_end_a_line(monkeypatch):
    monkeypatch.setattr(few_samples, "run_arm", lambda cell, seed: FewRun(cell.samples_per_degree == 2.0, 0.1))
    assert [run.made for run in descend(line_of((1.1, 1.5, 2.0, 3.0)), 0)] == [False, True, True, True]
    monkeypatch.setattr(few_samples, "run_arm", lambda cell, seed: FewRun(False, 0.1))
    assert [run.made for run in descend(line_of((1.1, 1.5, 2.0, 3.0)), 0)] == [False, False, True, True]


def test_fits_without_time_are_not_made_and_have_no_line():
    cells = line_of((1.5, 5.0), seconds=1e-9)
    runs = descend(cells, 0)
    assert not any(run.made for run in runs)
    assert np.isnan(half_of({cell: [run] for cell, run in zip(cells, runs, strict=True)}))


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


def test_the_table_has_a_row_for_every_network_and_a_csv_for_every_cell(tmp_path):
    grid = FewGrid(("relu", "square"), (5,), (0.4,), (3.0, 5.0), (0.0, 0.1), 1.0)
    result = PHASE_DIAGRAM.run(Settings([0], grid))
    assert [row[:3] for row in result.rows] == [
        (0.0, "relu", "5-2-1"), (0.0, "square", "5-2-1"), (0.1, "relu", "5-2-1"), (0.1, "square", "5-2-1")]
    assert result.rows[0].model_limit == 18 / 13 and result.rows[1].theory == (0.4 - 0.08) * 25 / 10
    assert [bool(row.from_the_truth) for row in result.rows] == [False, False, True, True]
    assert [bool(row.determined) for row in result.rows] == [True, True, False, False]
    assert "counting limit" in result.sentence
    assert [panel.title for panel in result.figure.panels] == [
        "relu, noiseless", "square, noiseless", "relu, noise 0.1 sd(y)", "square, noise 0.1 sd(y)"]
    result.write(tmp_path, "phase")
    cells = (tmp_path / "phase-cells.csv").read_text().splitlines()
    assert len(cells) == 1 + 2 * 2 * (4 + 4)  # two activations, two numbers of samples; four arms


@pytest.mark.parametrize("given", ["yes", "no"])
def test_recover_and_the_others_are_given_the_same_data(given):
    run = recover_near_limit(LimitCell("relu", 5, 2, 12.0, given, 20.0), 1)
    assert run.right and run.verified and run.cpu < 20.0
    assert run.overwide and run.restarts and run.determined


def test_a_network_has_as_many_seeds_as_it_is_worth():
    grid = (LimitCell("relu", 4, 1, 10.0, "yes", 20.0), LimitCell("relu", 5, 1, 10.0, "yes", 20.0, 1))
    result = NEAR_LIMIT.run(Settings([0, 1], grid))
    assert [row.runs for row in result.rows] == [2, 1]
    assert "relu 5-1-1 at 10: 1 of 1" in result.sentence
