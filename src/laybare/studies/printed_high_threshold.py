"""Starts for the lowest layer: fourth moments by the printed objectives, against third ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import step
from laybare.errors import LaybareError
from laybare.lowest_layer.activity import activity_of, baseline
from laybare.lowest_layer.printed.one_by_one import OneByOne
from laybare.lowest_layer.printed.simultaneous import Simultaneous
from laybare.lowest_layer.start import LayerStart, ThirdMoments
from laybare.networks import max_angle
from laybare.planted.high_thresholds import PlantedTarget
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.source import Gaussian, Samples, Source
from laybare.studies.high_threshold import plant
from laybare.studies.study import Study, StudyResult, headings, over, radians, spread


def activity(rows: int, threshold: float, rng: Generator) -> tuple[PlantedTarget, Source]:
    """A step target of `high_threshold` and the activity of samples from it."""
    target = plant(step, threshold, rng)
    x = rng.standard_normal((rows, target.layer.dim))
    source = Samples(x, target(x), law=Gaussian(0, 1))
    return target, activity_of(source, baseline(source))


STARTS: dict[str, LayerStart] = {
    "third moments": ThirdMoments(), "one by one": OneByOne(threshold=2.5), "simultaneous": Simultaneous(threshold=2.5)}


class LayerStartCell(NamedTuple):
    """Name of the start, samples."""

    start: str
    samples: int


class LayerStartGrid(NamedTuple):
    """Sample sizes; every start at each of them."""

    samples: tuple[int, ...]

    def cells(self) -> list[LayerStartCell]:
        return [LayerStartCell(name, n) for name in STARTS for n in self.samples]


class LayerStartRow(NamedTuple):
    """A row of the table of starts: spread of the largest angle over the seeds."""

    start: str
    samples: int
    median: float
    lowest_tenth: float
    highest_tenth: float
    refused: int


def start_angle(cell: LayerStartCell, seed: int) -> float:
    """Largest angle of a start from samples of step units at t = 2.5."""
    name, rows = cell
    rng = np.random.default_rng([seed, rows])
    target, source = activity(rows, 2.5, rng)
    try:
        found = STARTS[name](source, target.layer.width, rng=rng)
    except LaybareError:
        return np.nan
    return max_angle(found.weights, target.layer.weights)


def starts(grid: LayerStartGrid, runs: Mapping[LayerStartCell, list[float]]) -> StudyResult:
    """Medians over samples."""
    rows = [LayerStartRow(cell.start, cell.samples, *spread(each)) for cell, each in runs.items()]
    lines = [Curve(name, grid.samples, [row.median for row in rows if row.start == name]) for name in STARTS]
    panel = Panel(f"{step.name} units, t = 2.5", "samples", "largest angle (rad)", lines, "xy")
    sentence = "; ".join(f"{row.start}, n = {row.samples:,}: {radians(row.median)}" for row in rows) + " (medians)."
    return StudyResult(headings(LayerStartRow), rows, sentence, LinesFigure([panel], "Starts over samples"))


LAYER_STARTS = Study(
    "layer-starts", "Starts for the lowest layer: third moments against the printed objectives on fourth moments",
    "Third moments need several times fewer samples.",
    LayerStartGrid((10_000, 40_000)), LayerStartGrid((10_000, 40_000, 160_000)), over(LayerStartGrid.cells, start_angle),
    starts, seeds=10)
