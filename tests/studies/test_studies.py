"""Studies run, tell the truth about what they ran, and write what they say."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from laybare.refinement.overwide import Search
from laybare.studies import STUDIES, Outcome, Settings, ge, ge_arms, large_network, random_start


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


@pytest.mark.parametrize("arm", ge_arms.ARMS)
def test_arms_of_the_symmetric_figures(arm, seed):
    """4x4, n = 4000, no noise: every arm comes closer than chance (about 8), ours and the descents are exact."""
    rng = np.random.default_rng([seed, 4])
    run = ge_arms.run(arm, ge._square(4, 4000)(rng), rng)
    assert run.readout + run.weights < 2.0 and run.mse < 0.1
    assert arm not in ("SymmetricInputs", "L-BFGS", "Adam") or run.largest < 1e-8


def test_refusals_count_as_failures(seed):
    rng = np.random.default_rng(seed)
    run = ge_arms.run("SymmetricInputs", ge._square(10, 12)(rng), rng)
    assert np.isnan(run.readout) and run.largest == np.inf


@pytest.mark.parametrize("condition", [1.0, 30.0])
def test_conditioned_matrices_have_their_condition(condition, rng):
    sizes = np.linalg.svd(ge_arms.conditioned(6, condition, rng), compute_uv=False)
    assert sizes[0] / sizes[-1] == pytest.approx(condition)
    assert sizes[0] / sizes[1] == pytest.approx(sizes[-2] / sizes[-1])


@pytest.mark.parametrize(("name", "points"), [("ge19-fig2", 7), ("ge19-fig3", 4), ("ge19-fig4", 4)])
def test_symmetric_figures_say_what_they_ran(name, points, monkeypatch):
    """Every point and arm has a row; the numbers in it are those of the runs."""
    ends = {arm: ge_arms.Run(0.01 * i, 0.02 * i, 1e-3, 1e-15 if arm == "SymmetricInputs" else 1.0, 0.5)
            for i, arm in enumerate(ge_arms.ARMS, start=1)}
    monkeypatch.setattr(ge, "run", lambda arm, problem, rng: ends[arm])
    outcome = STUDIES[name].run(Settings([0, 1]))
    assert len(outcome.rows) == points * len(ge_arms.ARMS)
    ours = [row for row in outcome.rows if row[2] == "SymmetricInputs"]
    assert all(row[3] == 2 and row[7] == 2 and row[4] == pytest.approx(ends["SymmetricInputs"].readout) for row in ours)
    assert outcome.figure.startswith("<svg")
    assert name == "ge19-fig3" or f"SymmetricInputs {2 * points}/{2 * points}" in outcome.sentence
