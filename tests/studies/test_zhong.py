"""The figures of Zhong et al. (2017): arms that run, tables that count what ran, sentences that read them."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import Settings, zhong, zhong_descent, zhong_start


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


def test_figure_1a_tells_from_where_on_all_succeed():
    rows = [(10, 500, "printed", 2, 2, "", 0.1), (10, 1000, "printed", 1, 2, "", 0.1), (10, 2000, "printed", 2, 2, "", 0.1),
            (20, 500, "printed", 0, 2, "", 0.1)]
    assert zhong._enough(rows, "printed") == "10: 2,000, 20: none"


@pytest.mark.parametrize("arm", zhong_start.ARMS)
def test_starts_of_figure_1b(arm, seed):
    """Random directions are off by about 1.4; with 8000 samples in 8 dimensions moments are not, and the signs are right."""
    run = zhong_start.run_once(arm, 8, 8000, seed)
    assert run.error > 0.6 if arm == "random" else run.error < 0.6
    assert arm == "random" or (run.signs and run.inertia)


def test_solver_in_the_span_brings_the_start_closer():
    """What the step is for: mean error over 4 problems of 400 samples. `laybare reproduce zhong-fig1b` prints how much."""
    arms = ("printed", "our moments", "ours, solver in the span")
    errors = {arm: [zhong_start.run_once(arm, 20, 400, seed).error for seed in range(4)] for arm in arms}
    assert np.mean(errors["ours, solver in the span"]) < np.mean(errors["our moments"]) < np.mean(errors["printed"])


def test_figure_1b_counts_what_it_ran(monkeypatch):
    ends = iter([zhong_start.Run(0.5, True, True), zhong_start.Run(0.25, False, True), zhong_start.Run(np.nan, False, False),
                 zhong_start.Run(1.5, True, None)] * 4)
    monkeypatch.setattr(zhong_start, "run_once", lambda *_: next(ends))
    monkeypatch.setattr(zhong_start, "DIMS", (10, 20))
    monkeypatch.setattr(zhong_start, "SAMPLES", (500, 1000))
    outcome = zhong_start.FIGURE_1B.run(Settings([0]))
    assert [row[3:] for row in outcome.rows[:4]] == [(0.5, 0, 0, 1), (0.25, 1, 0, 1), ("", 1, 1, 1), (1.5, 0, "", 1)]
    assert "printed 0.5 (sum of signs wrong in 0/4), our moments 0.25 (sum of signs wrong in 4/4)" in outcome.sentence
    assert outcome.figure.startswith("<svg")


def test_power_law_of_figure_1b():
    rows = [(d, n, "printed", 3.0 * d**0.5 / n**0.25, 0, 0, 1) for d in (10, 20, 40) for n in (500, 1000, 2000)]
    assert zhong_start._power_law(rows, "printed") == "d^0.50 n^-0.25, so n ~ d^2.00"


def test_shades_of_figure_1b():
    rows = [(10, 500, "printed", 0.8, 0, 0, 1), (10, 1000, "printed", 0.0, 0, 0, 1), (20, 500, "printed", 0.1, 1, 0, 1),
            (20, 1000, "printed", "", 0, 0, 1)]
    assert zhong_start._shades(rows, (10, 20), (500, 1000)).tolist() == [[0.575, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("arm", ["I printed start", "I our start", "III v true, N(0, 1/d)", "TensorInit, solver"])
def test_arms_of_figure_1c_descend(arm, seed):
    run = zhong_descent.run_once(arm, 60, seed, samples=3000)
    assert run.losses[-1] < 0.1 * max(run.losses[0], 1e-6)


def test_gaussian_start_of_figure_1c_moves_the_readout_too(seed):
    """N(0, 1) entries make the step of 0.02 too large in some runs; those count as diverged, not as an accident."""
    runs = [zhong_descent.run_once("II Gaussian, N(0, 1)", 20, seed + i, samples=1000) for i in range(3)]
    assert all(run.losses[-1] < run.losses[0] for run in runs if len(run.losses))
    assert not any(run.success for run in runs)


def test_figure_1c_reads_its_curves(monkeypatch):
    """A loss of 4^-t has rate 1/2 and passes 1e-6 at step 10; an arm that diverges has neither."""
    good = zhong_descent.Curve(4.0 ** -np.arange(40.0), True, 1.0)
    none = zhong_descent.Curve(np.empty(0), False, 1.0)
    monkeypatch.setattr(zhong_descent, "run_once", lambda arm, *_: none if arm.startswith("II ") else good)
    outcome = zhong_descent.FIGURE_1C.run(Settings(range(3)))
    first = outcome.rows[0]
    assert first[:6] == ("I printed start", 3, 0, 3, 10.0, 0.5)
    diverged = next(row for row in outcome.rows if row[0].startswith("II "))
    assert diverged[1:6] == (0, 3, 3, "none", "none")
    assert "I printed start 3/3 (10.0), I our start 3/3 (10.0), II Gaussian, N(0, 1) 0/3 (none)" in outcome.sentence
    assert outcome.figure.startswith("<svg")
