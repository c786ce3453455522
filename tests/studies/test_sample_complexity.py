"""The smallest number of samples: its search, its exponents, and the study on a tiny grid."""

from __future__ import annotations

import numpy as np
import pytest

from laybare.report.drawings import LinesFigure
from laybare.studies import sample_complexity as study
from laybare.studies.sample_complexity import (
    SAMPLE_COMPLEXITY,
    ComplexityCell,
    ComplexityGrid,
    ComplexityPlace,
    exponent,
    samples_at,
    smallest_enough,
    stated_exponent,
)
from laybare.studies.study import Settings

ARMS = (study.METHOD, study.START, study.PRINTED, study.CONTROL)


@pytest.mark.parametrize("edge", [1, 17, 40, 300, 5000])
@pytest.mark.parametrize("guess", [16, 100, 4096])
def test_the_search_finds_the_edge_from_any_guess(edge: int, guess: int) -> None:
    steps = [samples_at(step) for step in range(8, 25)]
    assert smallest_enough(lambda n, seed: n >= edge, range(10), guess, 4096) == next((n for n in steps if n >= edge), np.inf)


def test_one_failure_of_ten_is_allowed_and_two_are_not() -> None:
    assert smallest_enough(lambda n, seed: seed > 0, range(10), 100, 4096) == 16
    assert smallest_enough(lambda n, seed: seed > 1 or n >= 64, range(10), 1000, 4096) == 64


def test_runs_end_with_the_failure_that_decides() -> None:
    asked: list[int] = []
    smallest_enough(lambda n, seed: bool(asked.append(seed)), range(10), 4096, 4096)
    assert set(asked) == {0, 1}


def test_exponents_leave_out_what_was_not_reached() -> None:
    assert exponent((2, 4, 8), (10, 40, 160)) == pytest.approx(2.0)
    assert exponent((2, 4, 8), (10, 40, np.inf)) == pytest.approx(2.0)
    assert np.isnan(exponent((2, 4), (10, np.inf)))


def test_the_theorems_exponents() -> None:
    """Zhong et al.: d·log d·k·λ, ε⁻²·d·k³·κ³ of the start; Ge et al.: d¹³ of the detector with |x| = √d, and more by log d."""
    plant = study.FAMILIES["TensorInit"].plant
    dims = [ComplexityPlace(dim=dim) for dim in (8, 16)]
    logs = np.log(np.log(16) / np.log(8)) / np.log(2)
    assert stated_exponent(False, "TensorInit", "dim", plant, dims) == pytest.approx(1 + logs, abs=1e-6)
    widths = [ComplexityPlace(width=2), ComplexityPlace()]
    assert stated_exponent(True, "TensorInit", "width", plant, widths) == pytest.approx(3.0)
    conditions = [ComplexityPlace(), ComplexityPlace(condition=8.0)]
    assert stated_exponent(True, "TensorInit", "condition", plant, conditions) == pytest.approx(3.0)
    assert stated_exponent(False, "TensorInit", "noise", plant, []) == 2.0
    assert np.isnan(stated_exponent(False, "LandscapeDesign", "dim", plant, dims))
    small = [ComplexityPlace(dim=dim, width=2) for dim in (4, 8)]
    assert stated_exponent(False, "SymmetricInputs", "dim", study.FAMILIES["SymmetricInputs"].plant, small) > 10


@pytest.mark.parametrize("method", study.FAMILIES)
def test_many_samples_are_enough_and_few_are_not(method: str) -> None:
    place, layer = ComplexityPlace(3, 2), method == "HighThreshold"
    assert study.succeeds(ComplexityCell(method, study.METHOD, place), 2000 if layer else 600, 0)
    assert study.succeeds(ComplexityCell(method, study.CONTROL, place), 2000 if layer else 600, 0)
    assert study.succeeds(ComplexityCell(method, study.START, place), 20_000, 0)
    assert not any(study.succeeds(ComplexityCell(method, arm, place), 4, 0) for arm in ARMS)


def test_printed_algorithms_need_more_than_ours() -> None:
    """With 4,000 samples of two units in three dimensions: the method finds both networks, what is printed no more."""
    for method in study.FAMILIES:
        ours, printed = (
            sum(study.succeeds(ComplexityCell(method, arm, ComplexityPlace(3, 2)), 4000, seed) for seed in range(2))
            for arm in (study.METHOD, study.PRINTED))
        assert ours == 2 >= printed


def test_a_tiny_grid_is_measured() -> None:
    seen: list[str] = []
    grid = ComplexityGrid((4,), (), (), (), 512, ("SymmetricInputs",))
    found = SAMPLE_COMPLEXITY.measure(Settings([0], grid, lambda event: seen.append(event.detail)))
    assert {cell.arm for cell in found} == set(ARMS) and set(found) == {
        ComplexityCell("SymmetricInputs", arm, ComplexityPlace(dim=4)) for arm in ARMS}
    assert all(np.isfinite(n) for cell, n in found.items() if cell.arm != study.PRINTED)
    assert "SymmetricInputs, the method" in seen[0]


def test_the_table_has_every_axis_with_its_exponents_and_the_figure_every_panel() -> None:
    grid = SAMPLE_COMPLEXITY.quick._replace(methods=("TensorInit", "LandscapeDesign"))
    places = {place for axis in grid.axes for place in grid.places(axis)}
    found = {
        ComplexityCell(method, arm, place): np.inf if place.noise == 0.4 else 10.0 * place.dim * place.width**2
        for method in grid.methods for arm in ARMS for place in places}
    outcome = SAMPLE_COMPLEXITY.summary(grid, found)
    rows = {(row.method, row.arm, row.against): row for row in outcome.rows}  # type: ignore[attr-defined]
    assert len(rows) == 2 * 4 * 4
    inputs, units = (rows["TensorInit", study.METHOD, against] for against in ("inputs", "units"))
    assert inputs.samples == "640 1280 2560" and inputs.exponent == pytest.approx(1.0) and units.exponent == pytest.approx(2.0)
    assert inputs.theory > 1.0 and rows["LandscapeDesign", study.METHOD, "inputs"].theory == ""
    noisy = rows["TensorInit", study.METHOD, "noise / sd(y)"]
    assert noisy.samples.endswith("inf") and noisy.exponent == "" and noisy.theory == 2.0
    assert rows["TensorInit", study.CONTROL, "inputs"].theory == ""
    assert "fewer samples than it in 0, more in 0" in outcome.sentence
    assert isinstance(outcome.figure, LinesFigure) and len(outcome.figure.panels) == 8
