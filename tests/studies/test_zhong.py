"""The figures of Zhong et al. (2017): arms that run, tables that count what ran, sentences that read them."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import zhong
from laybare.studies.zhong import (
    FIGURE_1A,
    FIGURE_1B,
    FIGURE_1C,
    CurveRun,
    DescentCell,
    DimensionCell,
    DimensionGrid,
    RecoveryRun,
    StartRun,
)


@pytest.mark.parametrize("arm", zhong.RECOVERY_ARMS)
def test_arms_of_figure_1a_succeed_with_many_samples(arm, seed):
    run = zhong.recover_once(DimensionCell(8, 4000, arm), seed)
    assert run.success
    assert arm == "RandomStart" or run.start_error < 1.5


def test_figure_1a_counts_what_it_ran():
    grid = DimensionGrid((10, 20), (500,))
    runs = (RecoveryRun(True, 0.1, 1.0), RecoveryRun(False, 0.3, 1.0), RecoveryRun(True, np.nan, 1.0))
    ends = dict(zip(zhong.RECOVERY_ARMS, runs, strict=True))
    outcome = FIGURE_1A.summary(grid, {cell: [ends[cell.arm]] for cell in FIGURE_1A.cells(grid)})
    assert [row[:6] for row in outcome.rows[:3]] == [
        (10, 500, "printed", 1, 1, 0.1), (10, 500, "TensorInit", 0, 1, 0.3), (10, 500, "RandomStart", 1, 1, "")]
    assert "printed 2/2, TensorInit 0/2, RandomStart 2/2" in outcome.sentence
    assert outcome.figure.svg().startswith("<svg")


def test_figure_1a_tells_from_where_on_all_succeed():
    cells = ((10, 500, 2), (10, 1000, 1), (10, 2000, 2), (20, 500, 0))
    rows = [FIGURE_1A.table.row(dim, samples, "printed", right, 2, "", 0.1) for dim, samples, right in cells]
    assert zhong.least_samples(rows) == "10: 2,000, 20: none"


@pytest.mark.parametrize("arm", zhong.START_ARMS)
def test_starts_of_figure_1b(arm, seed):
    """Random directions are off by about 1.4; with 8000 samples in 8 dimensions moments are not, and the signs are right."""
    run = zhong.start_once(DimensionCell(8, 8000, arm), seed)
    assert run.error > 0.6 if arm == "random" else run.error < 0.6
    assert arm == "random" or (run.signs and run.inertia)


def test_solver_in_the_span_brings_the_start_closer():
    """What the step is for: mean error over 4 problems of 400 samples. `laybare reproduce zhong-fig1b` prints how much."""
    arms = ("printed", "our moments", "ours, solver in the span")
    errors = {arm: [zhong.start_once(DimensionCell(20, 400, arm), seed).error for seed in range(4)] for arm in arms}
    assert np.mean(errors["ours, solver in the span"]) < np.mean(errors["our moments"]) < np.mean(errors["printed"])


def test_figure_1b_counts_what_it_ran():
    grid = DimensionGrid((10, 20), (500, 1000))
    runs = (StartRun(0.5, True, True), StartRun(0.25, False, True), StartRun(np.nan, False, False), StartRun(1.5, True, None))
    ends = dict(zip(zhong.START_ARMS, runs, strict=True))
    outcome = FIGURE_1B.summary(grid, {cell: [ends[cell.arm]] for cell in FIGURE_1B.cells(grid)})
    assert [row[3:] for row in outcome.rows[:4]] == [(0.5, 0, 0, 1), (0.25, 1, 0, 1), ("", 1, 1, 1), (1.5, 0, "", 1)]
    assert "printed 0.5 (sum of signs wrong in 0/4), our moments 0.25 (sum of signs wrong in 4/4)" in outcome.sentence
    assert outcome.figure.svg().startswith("<svg")


def test_power_law_of_figure_1b():
    row = FIGURE_1B.table.row
    rows = [row(d, n, "printed", 3.0 * d**0.5 / n**0.25, 0, 0, 1) for d in (10, 20, 40) for n in (500, 1000, 2000)]
    assert zhong.power_law(rows) == "d^0.50 n^-0.25, so n ~ d^2.00"


def test_shades_of_figure_1b():
    cells = ((10, 500, 0.8, 0), (10, 1000, 0.0, 0), (20, 500, 0.1, 1), (20, 1000, "", 0))
    rows = [FIGURE_1B.table.row(dim, samples, "printed", error, wrong, 0, 1) for dim, samples, error, wrong in cells]
    assert [zhong.shade_of(row) for row in rows] == [0.575, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("arm", ["I printed start", "I our start", "III v true, N(0, 1/d)", "TensorInit, solver"])
def test_arms_of_figure_1c_descend(arm, seed):
    run = zhong.descend_once(DescentCell(arm, 60, 3000), seed)
    assert run.losses[-1] < 0.1 * max(run.losses[0], 1e-6)


def test_gaussian_start_of_figure_1c_moves_the_readout_too(seed):
    """N(0, 1) entries make the step of 0.02 too large in some runs; those count as diverged, not as an accident."""
    runs = [zhong.descend_once(DescentCell("II Gaussian, N(0, 1)", 20, 1000), seed + i) for i in range(3)]
    assert all(run.losses[-1] < run.losses[0] for run in runs if len(run.losses))
    assert not any(run.success for run in runs)


def test_figure_1c_reads_its_curves():
    """A loss of 4^-t has rate 1/2 and passes 1e-6 at step 10; an arm that diverges has neither."""
    good = CurveRun(4.0 ** -np.arange(40.0), True, 1.0)
    none = CurveRun(np.empty(0), False, 1.0)
    runs = {cell: [none if cell.arm.startswith("II ") else good] * 3 for cell in FIGURE_1C.cells(1000)}
    outcome = FIGURE_1C.summary(1000, runs)
    first = outcome.rows[0]
    assert first[:6] == ("I printed start", 3, 0, 3, 10.0, 0.5)
    diverged = next(row for row in outcome.rows if row[0].startswith("II "))
    assert diverged[1:6] == (0, 3, 3, "none", "none")
    assert "I printed start 3/3 (10.0), I our start 3/3 (10.0), II Gaussian, N(0, 1) 0/3 (none)" in outcome.sentence
    assert outcome.figure.svg().startswith("<svg")
