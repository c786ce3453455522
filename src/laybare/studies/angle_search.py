"""The angle to a unit, estimated and searched for: Algorithms 1 and 2 of Goel and Panigrahy (2019).

Estimate: a direction at a known angle to one of five step units (t = 2, 40,000 samples); the printed one from slabs of width 0.1
where the activity is 0.4 and 0.6, and the probit with a floor. Stride: Lemma 7 perturbs by α/d in every direction normal to z;
geometry alone tells the share of perturbations that reduce the angle by 0.1 α/d, for that stride and for α/√d. Search: where
RefineEstimate ends from 0.2 rad by either estimate, with O(d log 1/ε) trials for ε = 0.05, in several dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import step
from laybare.errors import LaybareError
from laybare.lowest_layer.activity import activity_of, baseline
from laybare.lowest_layer.printed.random_search import Estimate, refine_estimate
from laybare.lowest_layer.profile import activity_profile, probit_edge, slab_edge
from laybare.networks import max_angle
from laybare.planted.high_thresholds import polynomial_top, threshold_layer
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Gaussian, Samples, Source
from laybare.studies.study import Study, StudyResult, headings, over, spread

UNITS, THRESHOLD, ROWS = 5, 2.0, 40_000
START, ACCURACY, DECREASE, PERTURBATIONS = 0.2, 0.05, 0.1, 20_000
ESTIMATES: dict[str, Estimate] = {"printed": slab_edge, "probit": probit_edge}
STRIDES = {"stride α/d": -1.0, "stride α/√d": -0.5}


class AngleCell(NamedTuple):
    """An estimate or a stride by name, the dimension, and the true angle; None for where a search by the estimate ends."""

    way: str
    dim: int
    angle: float | None


class AngleGrid(NamedTuple):
    """True angles at the first dimension; strides and searches at all of them."""

    angles: tuple[float, ...] = (0.03, 0.1, 0.3)
    dims: tuple[int, ...] = (5, 20, 50)

    def cells(self) -> list[AngleCell]:
        first = [AngleCell(name, self.dims[0], angle) for name in ESTIMATES for angle in self.angles]
        return first + [AngleCell(name, dim, None) for dim in self.dims for name in (*STRIDES, *ESTIMATES)]


class AngleRow(NamedTuple):
    """A row of the table: what is told, and its spread over the seeds; `without` counts those with no estimate."""

    way: str
    dim: int
    quantity: str
    median: float
    lowest_tenth: float
    highest_tenth: float
    without: int


def beside(row: Array, angle: float, rng: Generator) -> Array:
    """A unit vector at `angle` to the unit vector `row`."""
    aside = rng.standard_normal(len(row))
    aside -= (aside @ row) * row
    return np.asarray(np.cos(angle) * row + np.sin(angle) * aside / np.linalg.norm(aside))


def unit_and_activity(dim: int, rng: Generator) -> tuple[Array, Source]:
    """One of five step units, and the activity of samples."""
    layer, top = threshold_layer(dim, UNITS, step, THRESHOLD, rng=rng), polynomial_top(UNITS, rng=rng)
    x = rng.standard_normal((ROWS, dim))
    source = Samples(x, top(layer(x)), law=Gaussian(0, 1))
    return layer.weights[0], activity_of(source, baseline(source))


def estimated(name: str, dim: int, angle: float, seed: int) -> float:
    """Estimated tangent over the true one; NaN if there is no estimate."""
    rng = np.random.default_rng([seed, round(1000 * angle)])
    unit, activity = unit_and_activity(dim, rng)
    profile = activity_profile(activity, beside(unit, angle, rng)[None])
    try:
        return ESTIMATES[name](profile, 0).tangent / float(np.tan(angle))
    except LaybareError:
        return np.nan


def helpful(dim: int, stride: float, seed: int) -> float:
    """Share of perturbations N(0, (stride α)²) normal to z, at the angle α to w, after which it is at most (1 - 0.1/d) α."""
    rng = np.random.default_rng([seed, dim, round(1000 * stride)])
    aside = stride * START * rng.standard_normal((PERTURBATIONS, dim - 1))  # the first component points along the circle to w
    cosine = (np.cos(START) + aside[:, 0] * np.sin(START)) / np.sqrt(1.0 + np.sum(aside**2, axis=1))
    return float(np.mean(np.arccos(np.minimum(cosine, 1.0)) <= (1.0 - DECREASE / dim) * START))


def searched(name: str, dim: int, seed: int) -> float:
    """The true angle at the end of RefineEstimate with that estimate."""
    rng = np.random.default_rng([seed, dim, 77])
    unit, activity = unit_and_activity(dim, rng)
    start = beside(unit, START, rng)
    try:
        found = refine_estimate(activity, start, estimate=ESTIMATES[name], decrease=DECREASE, accuracy=ACCURACY, rng=rng)
    except LaybareError:
        return np.nan
    return max_angle(found.direction[None], unit[None])


def angle_once(cell: AngleCell, seed: int) -> float:
    """Estimate over truth, share of helpful perturbations, or the angle after the search."""
    if cell.angle is not None:
        return estimated(cell.way, cell.dim, cell.angle, seed)
    return helpful(cell.dim, cell.dim ** STRIDES[cell.way], seed) if cell.way in STRIDES else searched(cell.way, cell.dim, seed)


def angles(grid: AngleGrid, runs: Mapping[AngleCell, list[float]]) -> StudyResult:
    """Medians; the ratios over the angle, and the ends of searches over the dimension."""
    rows = [AngleRow(cell.way, cell.dim, _quantity(cell), *spread(each)) for cell, each in runs.items()]
    medians = {cell: spread(each)[0] for cell, each in runs.items()}
    ratios = [Curve(name, grid.angles, [medians[AngleCell(name, grid.dims[0], a)] for a in grid.angles]) for name in ESTIMATES]
    shares, ends = (
        [Curve(name, grid.dims, [medians[AngleCell(name, dim, None)] for dim in grid.dims]) for name in ways]
        for ways in (STRIDES, ESTIMATES))
    panels = [
        Panel("tan α", "angle (rad)", "estimate / truth", ratios, "x"),
        Panel("perturbations", "dimension", "share that helps", shares, "xy"),
        Panel(f"search from {START:g} rad", "dimension", "angle at the end (rad)", ends, "xy")]
    sentence = "; ".join(f"{row.way}, d = {row.dim}, {row.quantity}: median {row.median:.3g}" for row in rows) + "."
    return StudyResult(headings(AngleRow), rows, sentence, LinesFigure(panels, "Estimates of the angle, and search by them"))


def _quantity(cell: AngleCell) -> str:
    if cell.angle is not None:
        return f"estimate/truth at {cell.angle:g} rad"
    return "share of perturbations that help" if cell.way in STRIDES else f"angle after the search from {START:g} rad"


TAN_ALPHA = Study(
    "tan-alpha", "The printed estimate of the angle to a unit against the probit with a floor, and random search by both",
    "Slabs overestimate small angles, the probit does not. With the stride of Lemma 7 a constant share of trials helps in every "
    "dimension, with α/√d hardly any at d = 50. Random search by the probit gets closer.",
    AngleGrid(), AngleGrid(), over(AngleGrid.cells, angle_once), angles, seeds=5)
