"""Studies run, tell the truth about what they ran, and write what they say."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from laybare.refinement.overwide import Search
from laybare.studies import (
    STUDIES,
    Outcome,
    Settings,
    deeper_cut,
    high_threshold,
    large_network,
    printed_high_threshold,
    random_start,
    zhong,
)


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


@pytest.mark.parametrize(("unit", "threshold", "limit"), [(0, 2.0, 0.05), (1, 2.0, 1e-10), (2, 3.0, 1e-10)])
def test_one_run_of_layer_error(unit, threshold, limit, seed):
    run = high_threshold.run_once(high_threshold.KINDS[unit], threshold, 40_000 if unit == 2 else 20_000, seed)
    assert run.angle < limit and run.verdict == "verified"


def test_layer_error_counts_refusals_and_false_verdicts(monkeypatch):
    ends = iter([high_threshold.Run(np.nan, "refused", 1.0), high_threshold.Run(0.5, "verified", 1.0)] * 3)
    monkeypatch.setattr(high_threshold, "run_once", lambda *_: next(ends))
    monkeypatch.setattr(high_threshold, "SIZES", (1000,))
    monkeypatch.setattr(high_threshold, "KINDS", tuple(kind._replace(thresholds=(2.0,)) for kind in high_threshold.KINDS))
    outcome = high_threshold.LAYER_ERROR.run(Settings(range(2)))
    assert [row[4:8] for row in outcome.rows] == [(1, 1, 1, 2)] * 3
    assert outcome.sentence.startswith("3 of 3 verified") and outcome.figure.startswith("<svg")


def test_needed_samples_stop_at_the_first_success(monkeypatch):
    def fake(kind, threshold, rows, seed):
        return high_threshold.Run(0.01 if rows >= 2500 else 1.0, "", 1.0)

    monkeypatch.setattr(high_threshold, "run_once", fake)
    outcome = high_threshold.ACTIVATION_PROBABILITY.run(Settings([0]))
    assert [(row[0], row[2]) for row in outcome.rows[:2]] == [(1.5, 1250), (1.5, 2500)]
    assert "t = 1.5: 2,500" in outcome.sentence


def test_angle_estimates_of_one_seed(seed):
    assert printed_high_threshold.estimated("probit", 0.3, seed) == pytest.approx(1.0, abs=0.3)
    assert printed_high_threshold.estimated("printed", 0.03, seed) > 1.3


def test_start_angles_of_one_seed(seed):
    assert printed_high_threshold.start_angle("third moments", 40_000, seed) < 0.5


def test_cut_in_the_middle_of_a_network(seed):
    run = deeper_cut.run_once(seed)
    assert run.angle < 0.1 and run.dependence < 0.5 and run.r2 > 0.9


def test_dependence_of_units():
    units = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert deeper_cut.dependence(units) == pytest.approx(1.0)  # the second unit is never active alone
