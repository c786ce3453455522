"""Studies run, tell the truth about what they ran, and write what they say."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from laybare.landscape import Steps
from laybare.refinement.overwide import Search
from laybare.studies import STUDIES, Outcome, Settings, designed, large_network, random_start, spurious, squared_loss, zhong


def test_every_study_has_a_name_a_title_and_a_claim():
    assert all(study.name == name and study.title and study.claim for name, study in STUDIES.items())


def test_one_run_of_random_start_is_exact_and_verified(seed):
    run = random_start.run_once(random_start.Size(6, 3, 200), Search(), seed)
    assert run.error < 1e-10 and run.verdict == "verified"


def test_rows_count_runs_and_failures(monkeypatch):
    """Three seeds of one size and one arm: the counts must be those of the runs."""
    ends = [(1e-14, "verified"), (0.3, "refuted"), (0.2, "verified")]
    runs = iter([random_start.Run(error, verdict, 0.1) for error, verdict in ends])
    monkeypatch.setattr(random_start, "run_once", lambda *_: next(runs))
    monkeypatch.setattr(random_start, "ARMS", {"spares, 8 repairs": Search()})
    ((*_, arm, exact, total, false, _),) = random_start._rows([random_start.Size(4, 2, 100)], Settings(range(3)))
    assert (arm, exact, total, false) == ("spares, 8 repairs", 1, 3, 1)


@pytest.mark.parametrize("arm", ["cosine 0.9", "random, 16 spares", "moments"])
def test_large_network_arms_on_a_small_network(arm, seed):
    run = large_network.run(arm, large_network.Size(12, 3, 3000, 6000), seed)
    assert run.error < 1e-8 and run.found == 3


def test_moment_start_finds_all_units(rng):
    """The start by itself: cosine above 0.95 to every unit (0.98-0.999 were measured at twice the dimension, fewer samples)."""
    truth, source = large_network.planted(30, 5, 40_000, rng)
    rows = large_network.moment_start(source, 5, rng)[:, :-1]
    cosines = np.abs(truth.layer.weights @ (rows / np.linalg.norm(rows, axis=1)[:, None]).T)
    assert cosines.max(axis=1).min() > 0.95


def test_outcomes_are_written_as_they_are(tmp_path):
    outcome = Outcome(("a", "b"), [(1, 0.1), (2, 1e-16)], "Two rows.", "<svg/>")
    files = outcome.write(tmp_path / "new", "table")
    assert sorted(file.name for file in files) == ["table.csv", "table.svg", "table.txt"]
    with open(tmp_path / "new" / "table.csv") as file:
        assert list(csv.reader(file)) == [["a", "b"], ["1", "0.1"], ["2", "1e-16"]]
    assert (tmp_path / "new" / "table.txt").read_text() == "Two rows.\n"


@pytest.mark.parametrize("arm", zhong.ARMS)
def test_arms_of_figure_1a_succeed_with_many_samples(arm, seed):
    run = zhong.run_once(arm, 8, 4000, seed)
    assert run.success
    assert arm == "RandomStart" or run.start_error < 1.5


def test_figure_1a_counts_what_it_ran(monkeypatch):
    ends = iter([zhong.Run(True, 0.1, 1.0), zhong.Run(False, 0.3, 1.0), zhong.Run(True, np.nan, 1.0)] * 2)
    monkeypatch.setattr(zhong, "run_once", lambda *_: next(ends))
    monkeypatch.setattr(zhong, "DIMS", (10, 20))
    monkeypatch.setattr(zhong, "SAMPLES", (500,))
    outcome = zhong.FIGURE_1A.run(Settings([0]))
    assert [row[:6] for row in outcome.rows[:3]] == [
        (10, 500, "printed", 1, 1, 0.1), (10, 500, "TensorInit", 0, 1, 0.3), (10, 500, "RandomStart", 1, 1, "")]
    assert "printed 2/2, TensorInit 0/2, RandomStart 2/2" in outcome.sentence
    assert outcome.figure.startswith("<svg")


def test_squared_loss_ends_where_it_should():
    """d = 5 has no spurious minimum in reach, d = 20 has (30 of 30 starts were spurious there)."""
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
    outcome = squared_loss.FIGURE_1.run(Settings(range(3)))
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


def test_figures_3_and_4_count_their_landings(monkeypatch):
    monkeypatch.setattr(designed, "land", lambda make, shape, seed: designed.Landing(float(seed), 0.5, 1.0, 0, 7))
    run = designed.Run((0, 10), [0.5, 0.1], (1.0, 0.0))
    monkeypatch.setattr(designed, "stochastic_f_prime", lambda *_, **__: run)
    monkeypatch.setattr(designed, "stochastic_g", lambda *_, **__: run)
    for study, rows in ((designed.FIGURE_3, 6), (designed.FIGURE_4, 17)):
        outcome = study.run(Settings(range(2)))
        assert len(outcome.rows) == rows and all(row[5:7] == (2, 1) for row in outcome.rows)
        assert f"{rows} of {2 * rows} population descents" in outcome.sentence and outcome.figure.startswith("<svg")


def test_appendix_f_is_flat_without_r_and_curved_down_with_it():
    outcome = spurious.APPENDIX_F.run(Settings(range(2)))
    flat, *curved = outcome.rows
    assert abs(flat[1] - 2) < 1e-9 and abs(flat[3]) < 1e-9 and flat[4] > 1
    assert all(row[3] < -0.05 and row[4] < 1e-6 for row in curved)
    assert outcome.figure.startswith("<svg")
