"""The printed parts of the high-threshold method beside what replaces them: the angle estimate, and the start.

Angle: a direction at a known angle to one of five step units (t = 2, 40,000 samples); the printed estimate from slabs of width
0.1 where the activity is 0.4 and 0.6, and the probit with a floor. Start: fourth moments by the printed objectives, against
third ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import step
from laybare.errors import LaybareError
from laybare.lowest_layer.activity import activity_of, baseline
from laybare.lowest_layer.printed.one_by_one import OneByOne
from laybare.lowest_layer.printed.random_search import Estimate, refine_estimate
from laybare.lowest_layer.printed.simultaneous import Simultaneous
from laybare.lowest_layer.profile import activity_profile, probit_edge, slab_edge
from laybare.lowest_layer.start import LayerStart, ThirdMoments
from laybare.networks import max_angle
from laybare.planted.high_thresholds import Target
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Gaussian, Samples, Source
from laybare.studies.high_threshold import plant
from laybare.studies.study import Study, StudyResult, headings, over

THRESHOLD, ROWS = 2.0, 40_000
ESTIMATES: dict[str, Estimate] = {"printed": slab_edge, "probit": probit_edge}
START_ANGLE, TRIALS = 0.2, 40


def turned(row: Array, angle: float, rng: Generator) -> Array:
    """A unit vector at `angle` to the unit vector `row`."""
    aside = rng.standard_normal(len(row))
    aside -= (aside @ row) * row
    return np.asarray(np.cos(angle) * row + np.sin(angle) * aside / np.linalg.norm(aside))


def activity(rows: int, threshold: float, rng: Generator) -> tuple[Target, Source]:
    """A step target of `high_threshold` and the activity of samples from it."""
    target = plant(step, threshold, rng)
    x = rng.standard_normal((rows, target.layer.dim))
    source = Samples(x, target(x), law=Gaussian(0, 1))
    return target, activity_of(source, baseline(source))


def estimated(name: str, angle: float, seed: int) -> float:
    """Estimated tangent over the true one; NaN if there is no estimate."""
    rng = np.random.default_rng([seed, round(1000 * angle)])
    target, source = activity(ROWS, THRESHOLD, rng)
    profile = activity_profile(source, turned(target.layer.weights[0], angle, rng)[None])
    try:
        return ESTIMATES[name](profile, 0).tangent / float(np.tan(angle))
    except LaybareError:
        return np.nan


def searched(name: str, seed: int) -> float:
    """The angle after RefineEstimate with that estimate, from START_ANGLE."""
    rng = np.random.default_rng([seed, 77])
    target, source = activity(ROWS, THRESHOLD, rng)
    start = turned(target.layer.weights[0], START_ANGLE, rng)
    try:
        found = refine_estimate(source, start, estimate=ESTIMATES[name], max_trials=TRIALS, rng=rng)
    except LaybareError:
        return np.nan
    return max_angle(found.direction[None], target.layer.weights[:1])


class AngleCell(NamedTuple):
    """Name of the estimate, and the true angle; None for where random search by the estimate ends."""

    estimate: str
    angle: float | None


class AngleGrid(NamedTuple):
    """True angles; every estimate at each of them, and in the search."""

    angles: tuple[float, ...] = (0.03, 0.1, 0.3)

    def cells(self) -> list[AngleCell]:
        return [AngleCell(name, angle) for name in ESTIMATES for angle in (*self.angles, None)]


class AngleRow(NamedTuple):
    """A row of the table of angles: what is told, and its spread over the seeds; `without` counts those with no estimate."""

    estimate: str
    quantity: str
    median: float
    lowest_tenth: float
    highest_tenth: float
    without: int


def angle_once(cell: AngleCell, seed: int) -> float:
    """Estimate over truth, or the angle after the search."""
    return searched(cell.estimate, seed) if cell.angle is None else estimated(cell.estimate, cell.angle, seed)


def angles(grid: AngleGrid, runs: Mapping[AngleCell, list[float]]) -> StudyResult:
    """Medians, and the ratios over the angle."""
    rows = [AngleRow(cell.estimate, _quantity(cell), *_spread(each)) for cell, each in runs.items()]
    medians = {cell: _spread(each)[0] for cell, each in runs.items()}
    lines = [Curve(name, grid.angles, [medians[AngleCell(name, angle)] for angle in grid.angles]) for name in ESTIMATES]
    figure = LinesFigure([Panel("tan α", "angle (rad)", "estimate / truth", lines, "x")], "Estimated over true tangents")
    sentence = "; ".join(f"{row.estimate}, {row.quantity}: median {row.median:.3g}" for row in rows) + "."
    return StudyResult(headings(AngleRow), rows, sentence, figure)


def _quantity(cell: AngleCell) -> str:
    if cell.angle is None:
        return f"angle after {TRIALS} trials from {START_ANGLE:g} rad"
    return f"estimate/truth at {cell.angle:g} rad"


def _spread(values: Sequence[float]) -> tuple[float, float, float, int]:
    kept = np.array([value for value in values if np.isfinite(value)])
    if not len(kept):
        return np.nan, np.nan, np.nan, len(values)
    return float(np.median(kept)), float(np.quantile(kept, 0.1)), float(np.quantile(kept, 0.9)), len(values) - len(kept)


TAN_ALPHA = Study(
    "tan-alpha", "The printed estimate of the angle to a unit against the probit with a floor",
    "Slabs overestimate small angles, the probit does not; random search by the probit gets closer.",
    AngleGrid(), AngleGrid(), over(AngleGrid.cells, angle_once), angles)

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
    rows = [LayerStartRow(cell.start, cell.samples, *_spread(each)) for cell, each in runs.items()]
    lines = [Curve(name, grid.samples, [row.median for row in rows if row.start == name]) for name in STARTS]
    panel = Panel(f"{step.name} units, t = 2.5", "samples", "largest angle (rad)", lines, "xy")
    sentence = "; ".join(f"{row.start}, n = {row.samples:,}: {row.median:.2f} rad" for row in rows) + " (medians)."
    return StudyResult(headings(LayerStartRow), rows, sentence, LinesFigure([panel], "Starts over samples"))


LAYER_STARTS = Study(
    "layer-starts", "Starts for the lowest layer: third moments against the printed objectives on fourth moments",
    "Third moments need several times fewer samples.",
    LayerStartGrid((10_000, 40_000)), LayerStartGrid((10_000, 40_000, 160_000)), over(LayerStartGrid.cells, start_angle), starts)
