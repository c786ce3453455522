"""Studies of the lowest layer: they run, count what they ran, and end where they should."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import Settings, deeper_cut, high_threshold, printed_high_threshold


@pytest.mark.parametrize(("unit", "threshold", "limit"), [(0, 2.0, 0.05), (1, 2.0, 1e-10), (2, 3.0, 1e-10)])
def test_one_run_of_layer_error(unit, threshold, limit, seed):
    run = high_threshold.run_once(high_threshold.KINDS[unit], threshold, 30_000 if unit == 2 else 12_000, seed)
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
