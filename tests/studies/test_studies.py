"""Studies run, tell the truth about what they ran, and write what they say."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.studies import STUDIES, StudyResult, ge, scaling
from laybare.studies.scaling import LargeCell, LargeSize, OverwideCell, OverwideRun


def test_every_study_has_a_name_a_title_and_a_claim():
    assert all(study.name == name and study.title and study.claim for name, study in STUDIES.items())


def test_one_run_of_random_start_is_exact_and_verified(seed):
    run = scaling.recover_once(OverwideCell(6, 3, 200, "spares, 8 repairs"), seed)
    assert run.error < 1e-10 and run.verdict == "verified"


def test_rows_count_runs_and_failures():
    """Three seeds of one size and one arm: the counts must be those of the runs."""
    grid = ((4, 2, 100),)
    ends = [(1e-14, "verified"), (0.3, "refuted"), (0.2, "verified")]
    cells = [cell for cell in scaling.OVERWIDE.cells(grid) if cell.arm == "spares, 8 repairs"]
    runs = {cell: [OverwideRun(error, verdict, 0.1) for error, verdict in ends] for cell in cells}
    (row,) = scaling.OVERWIDE.summary(grid, runs).rows
    assert (row.arm, row.exact, row.runs, row.verified_but_wrong) == ("spares, 8 repairs", 1, 3, 1)


@pytest.mark.parametrize("arm", ["cosine 0.9", "random, 16 spares", "moments"])
def test_large_network_arms_on_a_small_network(arm, seed):
    run = scaling.refine_large(LargeCell(LargeSize(12, 3, 3000, 6000), arm), seed)
    assert run.error < 1e-8 and run.found == 3


def test_moment_start_finds_all_units(rng):
    """The start by itself: cosine above 0.95 to every unit (0.98-0.999 were measured at twice the dimension, fewer samples)."""
    truth, source = scaling.plant_large(30, 5, 40_000, rng)
    rows = scaling.moment_start(source, 5, rng)[:, :-1]
    cosines = np.abs(truth.layer.weights @ (rows / np.linalg.norm(rows, axis=1)[:, None]).T)
    assert cosines.max(axis=1).min() > 0.95


def test_outcomes_are_written_as_they_are(tmp_path):
    figure = LinesFigure([Panel("left", "n", "error", [Curve("ours", [1, 2], [0.1, 1e-16])])], "two points")
    outcome = StudyResult(("a", "b"), [(1, 0.1), (2, 1e-16)], "Two rows.", figure)
    files = outcome.write(tmp_path / "new", "table")
    assert sorted(file.name for file in files) == ["table-figure.csv", "table.csv", "table.svg"]
    with open(tmp_path / "new" / "table-figure.csv") as file:
        assert list(csv.reader(file))[1:] == [["left", "ours", "1", "0.1", "", ""], ["left", "ours", "2", "1e-16", "", ""]]
    with open(tmp_path / "new" / "table.csv") as file:
        assert list(csv.reader(file)) == [["a", "b"], ["1", "0.1"], ["2", "1e-16"]]


@pytest.mark.parametrize("arm", ge.SYMMETRIC_ARMS)
def test_arms_of_the_symmetric_figures(arm, seed):
    """4x4, n = 4000, no noise: every arm comes closer than chance (about 8), ours and the descents are exact."""
    rng = np.random.default_rng([seed, 4])
    run = ge.run_arm(ge.SYMMETRIC_ARMS[arm], ge.Square(4, 4000).draw(rng), rng)
    assert run.readout + run.weights < 2.0 and run.mse < 0.1
    assert arm not in ("SymmetricInputs", "L-BFGS", "Adam") or run.largest < 1e-8


def test_refusals_count_as_failures(seed):
    rng = np.random.default_rng(seed)
    run = ge.run_arm(ge.SYMMETRIC_ARMS["SymmetricInputs"], ge.Square(10, 12).draw(rng), rng)
    assert np.isnan(run.readout) and run.largest == np.inf


@pytest.mark.parametrize("condition", [1.0, 30.0])
def test_conditioned_matrices_have_their_condition(condition, rng):
    sizes = np.linalg.svd(ge.conditioned(6, condition, rng), compute_uv=False)
    assert sizes[0] / sizes[-1] == pytest.approx(condition)
    assert sizes[0] / sizes[1] == pytest.approx(sizes[-2] / sizes[-1])


@pytest.mark.parametrize("drawn", [2, pytest.param(None, marks=pytest.mark.slow)], ids=["two panels", "all panels"])
@pytest.mark.parametrize(("name", "points"), [("ge19-fig2", 9), ("ge19-fig3", 6), ("ge19-fig4", 8)])
def test_symmetric_figures_say_what_they_ran(name, points, drawn):
    """Every point and arm has a row; the numbers in it are those of the runs. A dozen panels take seconds to draw."""
    ends = {arm: ge.SymmetricRun(0.01 * i, 0.02 * i, 1e-3, 1e-15 if arm == "SymmetricInputs" else 1.0, 300.0, 0.5)
            for i, arm in enumerate(ge.SYMMETRIC_ARMS, start=1)}
    grid = STUDIES[name].quick
    outcome = STUDIES[name].summary(grid, {cell: [ends[cell.arm]] * 2 for cell in STUDIES[name].cells(grid)})
    assert len(outcome.rows) == points * len(ge.SYMMETRIC_ARMS)
    ours = [row for row in outcome.rows if row.arm == "SymmetricInputs"]
    assert all(row.runs == 2 and row.all_numbers_exact == 2 for row in ours)
    assert all(row.error_of_A == pytest.approx(ends["SymmetricInputs"].readout) for row in ours)
    assert replace(outcome.figure, panels=outcome.figure.panels[:drawn]).svg().startswith("<svg")
    assert name == "ge19-fig3" or f"SymmetricInputs {2 * points}/{2 * points}" in outcome.sentence


def test_symmetric_figures_draw_three_curves_and_roots_over_the_dimension():
    """The paper's practical variant has a curve each for W, A and MSE; over the dimension √(error/dimension) is drawn."""
    grid = ge.FIGURE_2.quick
    one = ge.SymmetricRun(0.4, 0.1, 0.09, 1.0, np.nan, 0.5)
    cells = ge.FIGURE_2.cells(grid)
    panels = ge.FIGURE_2.summary(grid, {cell: [one] for cell in cells}).figure.panels
    assert [line.name for line in panels[0].lines] == ["W", "A", "MSE"]
    assert [line.y[0] for line in panels[0].lines] == pytest.approx([0.1, 0.4, 0.09])
    dim = next(cell.value for cell in cells if cell.panel == ge.DIMENSION)
    assert [line.y[0] for line in panels[2].lines] == pytest.approx([(0.1 / dim) ** 0.5, (0.4 / dim) ** 0.5, 0.3])
    assert [panel.title for panel in panels[3::3]] == ["10x10: W", "10x10: A", "10x10: MSE"]
    assert [panel.y for panel in panels[:3]] == ["error", "error", "root normalised error"]


@pytest.mark.parametrize("name", STUDIES)
def test_grids_are_frozen_and_the_full_one_is_no_smaller(name):
    study = STUDIES[name]
    assert hash(study.quick) and hash(study.full)
    assert study.settings([0]).grid is study.quick and study.settings([0], full=True).grid is study.full
