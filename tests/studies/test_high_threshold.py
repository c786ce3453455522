"""Studies of the lowest layer: they run, count what they ran, and end where they should."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.activations import relu, sigmoid, step
from laybare.studies import Settings, goel_layers
from laybare.studies.goel_layers import LayerCell, LayerGrid, LayerRun


@pytest.mark.parametrize(("unit", "threshold", "limit"), [(step, 2.0, 0.05), (relu, 2.0, 1e-10), (sigmoid, 3.0, 1e-10)])
def test_one_run_of_layer_error(unit, threshold, limit, seed):
    run = goel_layers.recover_once(LayerCell(unit, threshold, 30_000 if unit is sigmoid else 12_000), seed)
    assert run.angle < limit and run.verdict == "verified"


def test_layer_error_counts_refusals_and_false_verdicts():
    grid = LayerGrid((1000,), ((step, (2.0,)), (relu, (2.0,)), (sigmoid, (2.0,))))
    ends = [LayerRun(np.nan, "refused", 1.0), LayerRun(0.5, "verified", 1.0)]
    outcome = goel_layers.LAYER_ERROR.summary(grid, dict.fromkeys(goel_layers.LAYER_ERROR.cells(grid), ends))
    counts = [(row.refused, row.verified, row.verified_but_wrong, row.runs) for row in outcome.rows]
    assert counts == [(1, 1, 1, 2)] * 3
    assert outcome.sentence.startswith("3 of 3 verified") and outcome.figure.svg().startswith("<svg")


def test_needed_samples_stop_at_the_first_success():
    def fake(cell, seed):
        return LayerRun(0.01 if cell.samples >= 2500 else 1.0, "", 1.0)

    study = goel_layers.ACTIVATION_PROBABILITY
    outcome = study.summary(study.quick, goel_layers.first_success(Settings([0], study.quick), fake))
    assert [(row.threshold, row.samples) for row in outcome.rows[:2]] == [(1.5, 1250), (1.5, 2500)]
    assert "t = 1.5: 2,500" in outcome.sentence


def test_angle_estimates_of_one_seed(seed):
    assert goel_layers.estimate_ratio("probit", 5, 0.3, seed) == pytest.approx(1.0, abs=0.3)
    assert goel_layers.estimate_ratio("printed", 5, 0.03, seed) > 1.3


def test_start_angles_of_one_seed(seed):
    assert goel_layers.start_angle(goel_layers.LayerStartCell("third moments", 40_000), seed) < 0.5


@pytest.mark.parametrize("grid", [
    goel_layers.CutGrid(dim=5, width=3, rows=12_000), pytest.param(goel_layers.CutGrid(), marks=pytest.mark.slow)])
def test_cut_in_the_middle_of_a_network(grid, seed):
    run = goel_layers.cut_once(grid, seed)
    assert run.angle < 0.1 and run.dependence < 0.5 and run.r2 > 0.9


def test_dependence_of_units():
    units = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert goel_layers.dependence(units) == pytest.approx(1.0)  # the second unit is never active alone
