"""Studies of landscapes end where they should and count what they ran."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.landscape import StepSchedule
from laybare.studies import Settings, glm_designed, glm_squared_loss
from laybare.studies.glm_designed import DesignedWalk, walk_once
from laybare.studies.glm_squared_loss import LandscapeGrid, LossCell, LossWalk, WalkRun, final_errors, walk_panels
from laybare.studies.study import SUCCESS


def test_squared_loss_ends_where_it_should():
    """d = 5 has no spurious minimum in reach, d = 20 has (96 of 100 starts end in one)."""
    small, large = glm_squared_loss.relu_end(5, 0), glm_squared_loss.relu_end(20, 0)
    assert small.kind == "global" and small.error < 1e-6
    assert large.kind == "spurious" and large.smallest > 0 and large.gradient < 1e-8 and large.error > 1e-3


@pytest.mark.parametrize("form", ["unit rows", "free rows"])
def test_sigmoid_risk_is_not_stuck(form):
    assert glm_squared_loss.sigmoid_end(5, 0, form).kind == "global"


def test_sigmoid_risk_with_a_trained_readout_has_a_spurious_minimum():
    """Two units face each other: -b with readout 0.44 stands in for a part of another's 1.45. Five of six seeds at d = 10."""
    end = glm_squared_loss.sigmoid_end(10, 1, "unit rows, readout trained")
    assert end.kind == "spurious" and end.error > 0.1


def test_figures_1_and_2_count_their_ends():
    rows = ((0.0, 1e-9, 0.1, 0.0, 10), (0.1, 1e-9, 0.1, 0.3, 10), (0.1, 1.0, 0.0, 1.0, 9))
    found = [glm_squared_loss.DescentEnd(*row) for row in rows]
    walk = LossWalk("relu", 5, StepSchedule(count=10))
    runs = {LossCell("relu", 5): found, walk: [WalkRun((0, 10), (0.5, 0.2), (1.0, 0.1))] * 2}
    outcome = glm_squared_loss.RELU_LOSS.summary(LandscapeGrid((LossCell("relu", 5),), (walk,)), runs)
    assert outcome.rows[0][:6] == ("relu", 5, 3, 1, 1, 1)
    assert "1 of 3 global, 1 spurious" in outcome.sentence and outcome.figure.svg().startswith("<svg")
    assert "stochastic, relu, d=5, run 2 0.2" in outcome.sentence


@pytest.mark.parametrize("model", ["relu", "free rows"])
def test_figures_1_and_2_run_both_kinds_of_descent(model):
    """Five units: the squared loss has no spurious minimum in reach, and a short stochastic run comes closer to the truth."""
    walk = LossWalk(model, 4, StepSchedule(step=0.1 if model == "relu" else 0.5, count=150, record=50))
    study = glm_squared_loss.RELU_LOSS
    runs = study.measure(Settings(range(7), LandscapeGrid((LossCell(model, 4),), (walk,))))
    assert len(runs[LossCell(model, 4)]) == 7 and len(runs[walk]) == 5
    assert all(run.at == (0, 50, 100, 150) and run.values[-1] < 0.3 * run.values[0] for run in runs[walk])


def test_designed_objectives_land_at_the_truth():
    shape = glm_designed.DesignedShape(5, 5, 2, True)
    for make in (glm_designed.f_prime, glm_designed.g_with(1.0), glm_designed.f_with(1.0)):
        landing = glm_designed.land(make, shape, 0)
        assert landing.error < SUCCESS.minimum_error and landing.smallest > 0


def test_stochastic_runs_end_closer_than_they_began():
    steps = StepSchedule(step=0.3, count=200, record=50)
    run = walk_once(DesignedWalk("f'", 3, 512, steps, True), 0)
    assert run.at == (0, 50, 100, 150, 200) and run.errors[-1] < 0.1 * run.errors[0]
    plain = walk_once(DesignedWalk("G", 3, 512, StepSchedule(step=0.05, count=20, record=10), False), 0)
    assert len(plain.errors) == 3 and np.isfinite(plain.values).all()


def test_runs_that_diverge_are_told_apart():
    run = walk_once(DesignedWalk("G", 3, 64, StepSchedule(step=50.0, count=20, record=10), False), 0)
    assert run.errors == (np.inf,)
    assert final_errors({"wild": [run]}) == "wild diverged"
    panels = walk_panels({"wild": [run], "tame": [WalkRun((0, 1), (1.0, 0.5), (0.0, 0.0))]}, "two")
    assert [line.name for panel in panels for line in panel.lines] == ["tame", "tame"]


def test_figures_3_and_4_count_their_landings():
    found = [glm_designed.Landing(float(seed), 0.5, 1.0, 0, 7) for seed in range(2)]
    run = WalkRun((0, 10), (0.5, 0.1), (1.0, 0.0))
    for study, rows, without in ((glm_designed.F_PRIME, 6, 0), (glm_designed.G_AND_F, 16, 3)):
        grid = study.quick
        runs = dict.fromkeys(grid.descents, found) | {walk: [run] for walk in grid.walks}
        outcome = study.summary(grid, runs)
        claimed = rows - without
        assert len(outcome.rows) == rows and all((row.starts, row.at_the_truth) == (2, 1) for row in outcome.rows)
        assert f"{claimed} of {2 * claimed} population descents" in outcome.sentence
        assert outcome.figure.svg().startswith("<svg")
        assert ("with mu=0 1 of 2 at readout ratio 1" in outcome.sentence) == bool(without)


def test_appendix_f_is_flat_without_r_and_curved_down_with_it():
    outcome = glm_designed.APPENDIX_F.run(glm_designed.APPENDIX_F.settings(range(2)))
    flat, *curved = outcome.rows
    assert abs(flat.value_at_the_point - 2) < 1e-9 and abs(flat.smallest_eigenvalue) < 1e-9
    assert flat.distance_after_descent_from_it > 1
    assert all(row.smallest_eigenvalue < -0.05 and row.distance_after_descent_from_it < 1e-6 for row in curved)
    assert outcome.figure.svg().startswith("<svg")
