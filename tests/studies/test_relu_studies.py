"""The three studies of ReLU networks with biases: small runs, and tables that count what was run."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import awasthi
from laybare.studies.awasthi import ErrorCell, ErrorRun, PhaseCell, PhaseGrid, PhaseRun


def test_both_starts_of_the_factorial(seed):
    cells = awasthi.FACTORIAL.cells((awasthi.FactorialCell(5, 3, 20_000, 2000),))
    runs = {cell.start: awasthi.factorial_once(cell, seed) for cell in cells}
    assert runs["moments"].found == 1.0 and np.isnan(runs["random"].found)
    assert runs["moments"].success == (True, True, True)  # all units found: exact width is enough
    assert runs["random"].success[-1]


def test_factorial_counts_what_it_ran():
    runs = {"moments": awasthi.FactorialRun(0.75, (True, False, True), (1.0, 1.0, 1.0)),
            "random": awasthi.FactorialRun(np.nan, (False, False, True), (0.5, 0.5, 0.5))}
    cell = awasthi.FactorialCell(4, 2, 100)
    outcome = awasthi.FACTORIAL.summary((cell,), {one: [runs[one.start]] * 3 for one in awasthi.FACTORIAL.cells((cell,))})
    assert [row[4:10] for row in outcome.rows] == [("moments", 0.75, 3, 0, 3, 3), ("random", "", 0, 0, 3, 3)]
    assert "moments 3 with 0 spares, 0 with 2 spares, 3 with 4 spares (of 3 each)" in outcome.sentence


@pytest.mark.parametrize("arm", awasthi.ERROR_ARMS)
def test_starts_get_better_with_samples(arm):
    """One unit in three dimensions: the direction is found by every arm, and four times the samples halve its error or so."""
    cells = (ErrorCell(1, 3, 1, n, arm) for n in (2000, 32_000))
    few, many = (np.median([awasthi.start_once(cell, seed).distance for seed in range(5)]) for cell in cells)
    assert many < few / 1.5
    assert many < 0.2


def test_missing_directions_count_as_errors():
    truth, _ = awasthi.planted(3, 2, 10, np.random.default_rng(0))
    distances, biases = awasthi.start_errors(np.zeros((0, 4)), truth)
    np.testing.assert_allclose(distances, np.sqrt(2))
    np.testing.assert_allclose(biases, np.abs(truth.layer.biases))


def test_error_study_has_a_table_and_a_figure():
    grid = awasthi.ERROR.quick
    outcome = awasthi.ERROR.summary(grid, {c: [ErrorRun(c.samples**-0.5, 1.0, 0.1, 0.2)] * 2 for c in awasthi.ERROR.cells(grid)})
    assert len(outcome.rows) == 2 * 3 * 3
    assert "joint span: 0.00316 (exponent -0.50)" in outcome.sentence
    assert outcome.figure.svg().startswith("<svg")


@pytest.mark.parametrize("arm", awasthi.PHASE_ARMS)
def test_phase_runs(arm, seed):
    assert awasthi.phase_once(PhaseCell(3, 600, arm), seed).success
    assert not awasthi.phase_once(PhaseCell(24, 60, arm), seed).success  # refused: too few samples


def test_phase_counts_what_it_ran():
    grid = PhaseGrid((4, 8), (500,))
    ends = {"GeneralReLU": PhaseRun(True, False, 1.0), "RandomStart": PhaseRun(False, True, 1.0)}
    outcome = awasthi.PHASE.summary(grid, {cell: [ends[cell.method]] for cell in awasthi.PHASE.cells(grid)})
    assert [row[:7] for row in outcome.rows[:2]] == [(4, 0.5, 500, "GeneralReLU", 1, 1, 0), (4, 0.5, 500, "RandomStart", 0, 1, 1)]
    assert "GeneralReLU 2/2, RandomStart 0/2; verified but wrong: 2" in outcome.sentence
