"""The lowest layer under a deep network: its error over samples and thresholds, and the samples it takes when units are rarer.

Targets: 5 units in 5 dimensions, condition number at most 3, one threshold for all, no noise; cubic tops over step and ReLU
units, bilinear ones over sigmoid units. An error is the largest angle between a found row and the true one it is paired with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from laybare.activations import Activation, relu, sigmoid, step
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.networks import max_angle
from laybare.planted.high_thresholds import PlantedTarget, polynomial_top, threshold_layer
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.source import Gaussian, Samples
from laybare.studies.study import Settings, Study, StudyResult, headings, over

DIM = 5
NEAR = 0.05
"""Radians within which a step layer counts as found when samples are counted."""


FALSE = 0.1
"""Radians beyond which a verified layer counts as wrong."""

DEGREES = {step: 3, relu: 3, sigmoid: 2}
"""Kinds of units, and the degree of the top over them."""


class LayerCell(NamedTuple):
    """Kind of the units, threshold, samples."""

    activation: Activation
    threshold: float
    samples: int


class LayerGrid(NamedTuple):
    """Sample sizes, and the thresholds of every kind of unit."""

    samples: tuple[int, ...]
    thresholds: tuple[tuple[Activation, tuple[float, ...]], ...]

    def cells(self) -> list[LayerCell]:
        return [LayerCell(kind, t, n) for kind, some in self.thresholds for t in some for n in self.samples]


class LayerRun(NamedTuple):
    """Largest angle (NaN if refused), the verdict (or "refused"), seconds."""

    angle: float
    verdict: str
    seconds: float


class LayerRow(NamedTuple):
    """A row of the table of errors."""

    unit: str
    threshold: float
    samples: int
    median_angle: float
    refused: int
    verified: int
    verified_but_wrong: int
    runs: int
    median_s: float


def plant(activation: Activation, threshold: float, rng: Generator) -> PlantedTarget:
    """A target of this study."""
    layer = threshold_layer(DIM, DIM, activation, threshold, rng=rng)
    return PlantedTarget(layer, polynomial_top(DIM, DEGREES[activation], rng=rng))


def run_once(cell: LayerCell, seed: int) -> LayerRun:
    """Plant, recover, compare."""
    activation, threshold, rows = cell
    rng = np.random.default_rng([seed, rows, round(100 * threshold)])
    target = plant(activation, threshold, rng)
    x = rng.standard_normal((rows, DIM))
    begun = time.perf_counter()
    try:
        method = HighThreshold(activation=activation, top=None)
        found = recover_layer(Samples(x, target(x), law=Gaussian(0, 1)), method, DIM, rng=rng)
    except LaybareError:
        return LayerRun(np.nan, "refused", time.perf_counter() - begun)
    angle = max_angle(found.layer.weights, target.layer.weights)
    return LayerRun(angle, found.certificate.verdict, time.perf_counter() - begun)


def errors(grid: LayerGrid, runs: Mapping[LayerCell, list[LayerRun]]) -> StudyResult:
    """Median angles over samples, for every kind of unit and threshold."""
    rows = [_layer_row(cell, each) for cell, each in runs.items()]
    panels = [
        Panel(kind.name, "samples", "median largest angle (rad)",
              [_layer_line(t, [r for r in rows if (r.unit, r.threshold) == (kind.name, t)]) for t in some], "xy")
        for kind, some in grid.thresholds]
    false, verified = (sum(count) for count in ([r.verified_but_wrong for r in rows], [r.verified for r in rows]))
    sentence = f"{false} of {verified} verified layers are off by more than {FALSE:g} rad."
    figure = LinesFigure(panels, "Largest angle over samples, by threshold and kind of unit")
    return StudyResult(headings(LayerRow), rows, sentence, figure)


def _layer_row(cell: LayerCell, runs: list[LayerRun]) -> LayerRow:
    """A refusal counts as a right angle in the median."""
    angles = np.array([run.angle for run in runs])
    verified = [run for run in runs if run.verdict == "verified"]
    return LayerRow(
        cell.activation.name, cell.threshold, cell.samples, float(np.median(np.where(np.isnan(angles), np.pi / 2, angles))),
        int(np.isnan(angles).sum()), len(verified), sum(run.angle > FALSE for run in verified), len(runs),
        float(np.median([run.seconds for run in runs])))


def _layer_line(threshold: float, rows: Sequence[LayerRow]) -> Curve:
    return Curve(f"t = {threshold:g}", [r.samples for r in rows], [max(r.median_angle, 1e-16) for r in rows])


LAYER_ERROR = Study(
    "layer-error", "Error of the lowest layer over samples and thresholds, for step, ReLU and sigmoid units",
    "Step layers are found to about 1/n, ReLU and sigmoid ones to all digits once the start is good enough.",
    LayerGrid((5000, 20_000, 80_000), ((step, (2.0, 2.5)), (relu, (2.0, 2.5)), (sigmoid, (3.0, 5.0)))),
    LayerGrid(
        (2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000),
        ((step, (1.5, 2.0, 2.5, 3.0)), (relu, (1.5, 2.0, 2.5, 3.0)), (sigmoid, (2.0, 3.0, 4.0, 5.0, 8.0)))),
    over(LayerGrid.cells, run_once), errors, seeds=10)


class RareGrid(NamedTuple):
    """Thresholds, and sample sizes to be tried one after the other."""

    thresholds: tuple[float, ...]
    samples: tuple[int, ...] = (1250, 2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000)


class RareRow(NamedTuple):
    """A row of the table of samples needed."""

    threshold: float
    probability_active: float
    samples: int
    found: int
    runs: int
    active_rows_per_unit: float


def first_success(
    settings: Settings[RareGrid], run: Callable[[LayerCell, int], LayerRun] = run_once
) -> dict[LayerCell, list[LayerRun]]:
    """For each threshold, sample sizes up to the first at which four of five step layers are within NEAR."""
    runs: dict[LayerCell, list[LayerRun]] = {}
    for done, t in enumerate(settings.grid.thresholds):
        for cell in (LayerCell(step, t, n) for n in settings.grid.samples):
            runs[cell] = [run(cell, seed) for seed in settings.seeds]
            if _found(runs[cell]) >= 0.8 * len(runs[cell]):
                break
        settings.tick("thresholds", done + 1, len(settings.grid.thresholds), f"t={t:g}")
    return runs


def needed(grid: RareGrid, runs: Mapping[LayerCell, list[LayerRun]]) -> StudyResult:
    """The samples that every threshold took."""
    rows = [_rare_row(cell, each) for cell, each in runs.items()]
    last = list({row.threshold: row for row in rows}.values())
    parts = ", ".join(f"t = {r.threshold:g}: {r.samples:,} ({r.active_rows_per_unit:.0f} active rows per unit)" for r in last)
    line = Curve(f"four of five within {NEAR:g} rad", [r.probability_active for r in last], [r.samples for r in last])
    panel = Panel("step units", "probability that a unit is active", "samples needed", [line], "xy")
    figure = LinesFigure([panel], "Samples needed over the probability of activation")
    return StudyResult(headings(RareRow), rows, f"Samples needed: {parts}.", figure)


def _found(runs: list[LayerRun]) -> int:
    return sum(bool(run.angle < NEAR) for run in runs)


def _rare_row(cell: LayerCell, runs: list[LayerRun]) -> RareRow:
    share = float(ndtr(-cell.threshold))
    return RareRow(cell.threshold, share, cell.samples, _found(runs), len(runs), cell.samples * share)


ACTIVATION_PROBABILITY = Study(
    "activation-probability", "Samples that a step layer takes, over the probability that a unit is active",
    "The number of active rows per unit, not the number of rows, decides: samples grow like 1/Pr[active].",
    RareGrid((1.5, 2.0, 2.5)), RareGrid((1.5, 2.0, 2.5, 3.0)), first_success, needed, seeds=10)
