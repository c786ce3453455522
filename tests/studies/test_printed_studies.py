"""Studies of the printed theorems: what they measure for one seed, and that they read it."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import angle_search, printed_high_threshold, printed_theorems, printed_units


@pytest.mark.parametrize(("dim", "near", "far"), [(5, 0.346, 0.233), (20, 0.295, 0.023), (50, 0.284, 0.0005)])
def test_stride_of_lemma_7_helps_in_every_dimension(dim, near, far, seed):
    """Shares of 20,000 perturbations by α/d and by α/√d: their standard error is at most 0.0034, four of them are allowed."""
    assert angle_search.helpful(dim, 1.0 / dim, seed) == pytest.approx(near, abs=0.014)
    assert angle_search.helpful(dim, dim**-0.5, seed) == pytest.approx(far, abs=4 * (far / 20_000) ** 0.5)


def test_search_by_the_probit_gets_closer(seed):
    assert angle_search.searched("probit", 5, seed) < 0.1


def test_angles_are_read_by_dimension():
    grid = angle_search.AngleGrid((0.1,), (5, 50))
    result = angle_search.angles(grid, {cell: [0.5, float("nan")] for cell in grid.cells()})
    assert "stride α/d, d = 50, share of perturbations that help: median 0.5" in result.sentence
    assert [row.without for row in result.rows] == [1] * len(grid.cells())
    assert [line.name for line in result.figure.panels[1].lines] == list(angle_search.STRIDES)
    assert all(tuple(line.x) == (5, 50) for panel in result.figure.panels[1:] for line in panel.lines)


def test_theorem_8_never_ends_at_one_block():
    study = printed_theorems.THEOREM_8
    result = study.run(study.settings([0]))
    assert result.sentence.startswith("0 of 30 ascents") and "exact in 1 of 1" in result.sentence


def test_even_units_by_their_fourth_moments(seed):
    assert printed_theorems.even_angle(20_000, seed) < 0.5


@pytest.mark.parametrize(("way", "limit"), [("printed", 0.8), ("printed, retained rows", 0.5), ("default", 1e-9)])
def test_sigmoid_units_by_every_way(way, limit):
    """Medians of five: 0.53, 0.24 and rounding; two random directions in four dimensions are about 1 off."""
    assert {"printed", "printed, retained rows", "default"} == set(printed_units.SIGMOID_WAYS)
    angles = [printed_units.sigmoid_angle(printed_units.SigmoidCell(way, 5.0, 5000), seed) for seed in range(5)]
    assert np.median(angles) < limit


def test_units_with_powers(seed):
    run = printed_units.powers_once(20_000, seed)
    assert run.second == pytest.approx(1.0, abs=0.3) and run.default < 0.05


def test_starts_that_were_refused_have_no_angle():
    grid = printed_high_threshold.LayerStartGrid((100,))
    runs = {cell: [float("nan") if cell.start == "simultaneous" else 0.5] for cell in grid.cells()}
    sentence = printed_high_threshold.starts(grid, runs).sentence
    assert "one by one, n = 100: 0.5 rad" in sentence and "simultaneous, n = 100: refused in every run" in sentence
