"""Studies of the printed theorems: what they measure for one seed, and that they read it."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.studies import goel_layers, goel_theorems


@pytest.mark.parametrize(("dim", "near", "far"), [(5, 0.346, 0.233), (20, 0.295, 0.023), (50, 0.284, 0.0005)])
def test_stride_of_lemma_7_helps_in_every_dimension(dim, near, far, seed):
    """Shares of 20,000 perturbations by α/d and by α/√d: their standard error is at most 0.0034, four of them are allowed."""
    assert goel_layers.helpful_share(dim, 1.0 / dim, seed) == pytest.approx(near, abs=0.014)
    assert goel_layers.helpful_share(dim, dim**-0.5, seed) == pytest.approx(far, abs=4 * (far / 20_000) ** 0.5)


def test_search_by_the_probit_gets_closer(seed):
    assert goel_layers.search_end("probit", 5, seed) < 0.1


def test_angles_are_read_by_dimension():
    grid = goel_layers.AngleGrid((0.1,), (5, 50))
    cells = goel_layers.TAN_ALPHA.cells(grid)
    result = goel_layers.TAN_ALPHA.summary(grid, {cell: [0.5, float("nan")] for cell in cells})
    assert "stride α/d, d = 50, share of perturbations that help: median 0.5" in result.sentence
    assert [row.without for row in result.rows] == [1] * len(cells)
    assert [line.name for line in result.figure.panels[1].lines] == list(goel_layers.STRIDES)
    assert all(tuple(line.x) == (5, 50) for panel in result.figure.panels[1:] for line in panel.lines)


def test_theorem_8_never_ends_at_one_block():
    study = goel_theorems.THEOREM_8
    result = study.run(study.settings([0]))
    assert result.sentence.startswith("0 of 30 ascents") and "exact in 1 of 1" in result.sentence


def test_even_units_by_their_fourth_moments(seed):
    assert goel_theorems.even_angle(20_000, seed) < 0.5


@pytest.mark.parametrize(("way", "limit"), [("printed", 0.8), ("printed, retained rows", 0.5), ("default", 1e-9)])
def test_sigmoid_units_by_every_way(way, limit):
    """Medians of five: 0.53, 0.24 and rounding; two random directions in four dimensions are about 1 off."""
    assert {"printed", "printed, retained rows", "default"} == set(goel_theorems.SIGMOID_WAYS)
    angles = [goel_theorems.sigmoid_angle(goel_theorems.SigmoidCell(way, 5.0, 5000), seed) for seed in range(5)]
    assert np.median(angles) < limit


def test_units_with_powers(seed):
    run = goel_theorems.powers_once(20_000, seed)
    assert run.second == pytest.approx(1.0, abs=0.3) and run.default < 0.05


def test_starts_that_were_refused_have_no_angle():
    study = goel_layers.LAYER_STARTS
    runs = {cell: [float("nan") if cell.start == "simultaneous" else 0.5] for cell in study.cells((100,))}
    sentence = study.summary((100,), runs).sentence
    assert "one by one, n = 100: 0.5 rad" in sentence and "simultaneous, n = 100: refused in every run" in sentence
