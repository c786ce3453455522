"""Studies of landscapes end where they should and count what they ran."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.landscape import Steps
from laybare.studies import Settings, designed, spurious, squared_loss


def test_squared_loss_ends_where_it_should():
    """d = 5 has no spurious minimum in reach, d = 20 has (96 of 100 starts end in one)."""
    small, large = squared_loss.relu_end(5, 0), squared_loss.relu_end(20, 0)
    assert small.kind == "global" and small.error < 1e-6
    assert large.kind == "spurious" and large.smallest > 0 and large.gradient < 1e-8 and large.error > 1e-3


@pytest.mark.parametrize("form", ["unit rows", "free rows"])
def test_sigmoid_risk_is_not_stuck(form):
    assert squared_loss.sigmoid_end(5, 0, form).kind == "global"


def test_sigmoid_risk_with_a_trained_readout_has_a_spurious_minimum():
    """Two units face each other: -b with readout 0.44 stands in for a part of another's 1.45. Five of six seeds at d = 10."""
    end = squared_loss.sigmoid_end(10, 1, "unit rows, readout trained")
    assert end.kind == "spurious" and end.error > 0.1


def test_figures_1_and_2_count_their_ends(monkeypatch):
    rows = ((0.0, 1e-9, 0.1, 0.0, 10), (0.1, 1e-9, 0.1, 0.3, 10), (0.1, 1.0, 0.0, 1.0, 9))
    ends = [squared_loss.End(*row) for row in rows]
    monkeypatch.setattr(squared_loss, "relu_end", lambda dim, seed: ends[seed])
    outcome = squared_loss.RELU_LOSS.run(Settings(range(3)))
    assert outcome.rows[0][:6] == ("relu", 5, 3, 1, 1, 1)
    assert "1 of 3 global, 1 spurious" in outcome.sentence and outcome.figure.startswith("<svg")


def test_designed_objectives_land_at_the_truth():
    shape = designed.Shape(5, 5, 2, True)
    for make in (designed.f_prime, designed.g_with(1.0), designed.f_with(1.0)):
        landing = designed.land(make, shape, 0)
        assert landing.error < designed.FOUND and landing.smallest > 0


def test_stochastic_runs_end_closer_than_they_began():
    steps = Steps(step=0.3, count=200, record=50)
    run = designed.stochastic_f_prime(3, 512, steps, 0, controlled=True)
    assert run.at == (0, 50, 100, 150, 200) and run.errors[-1] < 0.1 * run.errors[0]
    plain = designed.stochastic_g(3, 512, Steps(step=0.05, count=20, record=10), 0, controlled=False)
    assert len(plain.errors) == 3 and np.isfinite(plain.values).all()


def test_runs_that_diverge_are_told_apart():
    run = designed.stochastic_g(3, 64, Steps(step=50.0, count=20, record=10), 0, controlled=False)
    assert run.errors == [np.inf]
    assert "wild diverged" in designed._sentence([], {"wild": run})
    assert designed._figure({"wild": run, "tame": designed.Run((0, 1), [1.0, 0.5], (0.0, 0.0))}, "two").startswith("<svg")


def test_figures_3_and_4_count_their_landings(monkeypatch):
    monkeypatch.setattr(designed, "land", lambda make, shape, seed: designed.Landing(float(seed), 0.5, 1.0, 0, 7))
    run = designed.Run((0, 10), [0.5, 0.1], (1.0, 0.0))
    monkeypatch.setattr(designed, "stochastic_f_prime", lambda *_, **__: run)
    monkeypatch.setattr(designed, "stochastic_g", lambda *_, **__: run)
    for study, rows, without in ((designed.F_PRIME, 6, 0), (designed.G_AND_F, 16, 3)):
        outcome = study.run(Settings(range(2)))
        claimed = rows - without
        assert len(outcome.rows) == rows and all(row[5:7] == (2, 1) for row in outcome.rows)
        assert f"{claimed} of {2 * claimed} population descents" in outcome.sentence and outcome.figure.startswith("<svg")
        assert ("with mu=0 1 of 2 at readout ratio 1" in outcome.sentence) == bool(without)


def test_appendix_f_is_flat_without_r_and_curved_down_with_it():
    outcome = spurious.APPENDIX_F.run(Settings(range(2)))
    flat, *curved = outcome.rows
    assert abs(flat[1] - 2) < 1e-9 and abs(flat[3]) < 1e-9 and flat[4] > 1
    assert all(row[3] < -0.05 and row[4] < 1e-6 for row in curved)
    assert outcome.figure.startswith("<svg")
