"""The three studies of ReLU networks with biases: small runs, and tables that count what was run."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import relu_error, relu_factorial, relu_phase
from laybare.studies.relu_error import ErrorCell, ErrorRun
from laybare.studies.relu_phase import PhaseCell, PhaseGrid, PhaseRun


def test_both_starts_of_the_factorial(seed):
    runs = relu_factorial.run_once(relu_factorial.FactorialCell(5, 3, 20_000, 2000), seed)
    assert runs["moments"].found == 1.0 and np.isnan(runs["random"].found)
    assert runs["moments"].success == (True, True, True)  # all units found: exact width is enough
    assert runs["random"].success[-1]


def test_factorial_counts_what_it_ran():
    runs = {"moments": relu_factorial.FactorialRun(0.75, (True, False, True), (1.0, 1.0, 1.0)),
            "random": relu_factorial.FactorialRun(np.nan, (False, False, True), (0.5, 0.5, 0.5))}
    cell = relu_factorial.FactorialCell(4, 2, 100)
    outcome = relu_factorial.FACTORIAL.summary((cell,), {cell: [runs] * 3})
    assert [row[4:10] for row in outcome.rows] == [("moments", 0.75, 3, 0, 3, 3), ("random", "", 0, 0, 3, 3)]
    assert "moments 3 with 0 spares, 0 with 2 spares, 3 with 4 spares (of 3 each)" in outcome.sentence


@pytest.mark.parametrize("arm", relu_error.ARMS)
def test_starts_get_better_with_samples(arm):
    """One unit in three dimensions: the direction is found by every arm, and four times the samples halve its error or so."""
    cells = (ErrorCell(1, 3, 1, n, arm) for n in (2000, 32_000))
    few, many = (np.median([relu_error.run_once(cell, seed).distance for seed in range(5)]) for cell in cells)
    assert many < few / 1.5
    assert many < 0.2


def test_missing_directions_count_as_errors():
    truth, _ = relu_factorial.planted(3, 2, 10, np.random.default_rng(0))
    distances, biases = relu_error.errors(np.zeros((0, 4)), truth)
    np.testing.assert_allclose(distances, np.sqrt(2))
    np.testing.assert_allclose(biases, np.abs(truth.layer.biases))


def test_error_study_has_a_table_and_a_figure():
    grid = relu_error.ERROR.quick
    outcome = relu_error.ERROR.summary(grid, {c: [ErrorRun(c.samples**-0.5, 1.0, 0.1, 0.2)] * 2 for c in grid.cells()})
    assert len(outcome.rows) == 2 * 3 * 3
    assert "joint span: 0.00316 (exponent -0.50)" in outcome.sentence
    assert outcome.figure.svg().startswith("<svg")


@pytest.mark.parametrize("arm", relu_phase.ARMS)
def test_phase_runs(arm, seed):
    assert relu_phase.run_once(PhaseCell(3, 600, arm), seed).success
    assert not relu_phase.run_once(PhaseCell(24, 60, arm), seed).success  # refused: too few samples


def test_phase_counts_what_it_ran():
    grid = PhaseGrid((4, 8), (500,))
    ends = {"GeneralReLU": PhaseRun(True, False, 1.0), "RandomStart": PhaseRun(False, True, 1.0)}
    outcome = relu_phase.PHASE.summary(grid, {cell: [ends[cell.arm]] for cell in grid.cells()})
    assert [row[:7] for row in outcome.rows[:2]] == [(4, 0.5, 500, "GeneralReLU", 1, 1, 0), (4, 0.5, 500, "RandomStart", 0, 1, 1)]
    assert "GeneralReLU 2/2, RandomStart 0/2; verified but wrong: 2" in outcome.sentence
