"""Smoothed analysis: degenerate without the perturbation, well conditioned with it, and Lemma 14 with its √2."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies.perturbations import SMOOTHED, STATEMENTS, SmoothedCell, SmoothedGrid, SmoothedRun, perturb_once

WEIGHTS, INPUTS, GENERAL = STATEMENTS
DIMS = {WEIGHTS: 15, INPUTS: 14, GENERAL: 5}


@pytest.mark.parametrize("statement", DIMS)
def test_degenerate_problems_become_well_conditioned(statement, seed):
    """The least singular value is zero without a perturbation and grows with it."""
    none, small, large = (perturb_once(SmoothedCell(statement, DIMS[statement], size), seed).least for size in (0.0, 0.05, 0.5))
    assert none < 1e-12 < 1e-6 < small < large


def test_bound_of_lemma_14_holds_for_every_run():
    runs = [perturb_once(SmoothedCell(WEIGHTS, 15, size), seed) for size in (0.03, 0.3) for seed in range(5)]
    assert all(0 < run.bound <= run.detected for run in runs)


def test_study_reads_the_exponent():
    grid = SmoothedGrid((15, 14, 6), (0.0, 0.01, 0.1, 1.0))
    runs = {
        cell: [SmoothedRun(cell.perturbation**3, 0.1, 0.2), SmoothedRun(cell.perturbation**3, 0.2, 0.1)]
        for cell in SMOOTHED.cells(grid)}
    outcome = SMOOTHED.summary(grid, runs)
    assert f"{WEIGHTS} 3.0; {INPUTS} 3.0; {GENERAL} 3.0" in outcome.sentence
    assert f"fails in {len(runs)} runs" in outcome.sentence
    assert np.isclose(outcome.rows[0].median_bound_of_Lemma_14, 0.15)
