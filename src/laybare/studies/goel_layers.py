"""The lowest layer under a deep network, the setting of Goel and Panigrahy (2019): errors, samples, starts, a cut deeper down.

Targets: 5 units in 5 dimensions, condition number at most 3, one threshold for all, no noise; cubic tops over step and ReLU
units, bilinear ones over sigmoid units. An error is the largest angle between a found row and the true one it is paired with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from laybare.activations import Activation, relu, sigmoid, step, tanh
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.lowest_layer.active_rows import find_baseline, label_active_rows
from laybare.lowest_layer.layer_start import LayerStart, ThirdMoments, measure_profile, probit_estimate, slab_estimate
from laybare.lowest_layer.printed.objectives import OneByOne, Simultaneous
from laybare.lowest_layer.printed.searches import Estimate, TrialRules, refine_estimate
from laybare.networks import Layer, max_angle
from laybare.numerics.shapes import Array
from laybare.planted import PlantedTarget, deep_top, orthonormal_weights, polynomial_top, threshold_layer
from laybare.report.drawings import Curve, LinesFigure, Panel
from laybare.source import Samples, Source
from laybare.studies import columns as col
from laybare.studies.study import SUCCESS, Settings, Study, StudyMeasurement, cross, gaussian_samples, refused_as, table, timed


class LayerCell(NamedTuple):
    """Kind of the units, threshold, samples, and the number of units and of inputs."""

    activation: Activation
    threshold: float
    samples: int
    dim: int = 5


class LayerGrid(NamedTuple):
    """Sample sizes, and the thresholds of every kind of unit."""

    samples: tuple[int, ...]
    thresholds: tuple[tuple[Activation, tuple[float, ...]], ...]


class LayerRun(NamedTuple):
    """Largest angle (NaN if refused), the verdict (or "refused"), seconds."""

    angle: float
    verdict: str
    seconds: float


def plant(activation: Activation, threshold: float, rng: Generator, dim: int = 5) -> PlantedTarget:
    """A target of this file."""
    layer = threshold_layer(dim, dim, activation, threshold, rng=rng)
    return PlantedTarget(layer, polynomial_top(dim, 2 if activation == sigmoid else 3, rng=rng))


def recover_once(cell: LayerCell, seed: int) -> LayerRun:
    """Plant, recover, compare."""
    activation, threshold, rows, dim = cell
    rng = np.random.default_rng([seed, rows, round(100 * threshold)])
    target = plant(activation, threshold, rng, dim)
    source = gaussian_samples(target, dim, rows, rng)
    found, seconds = timed(lambda: recover_layer(source, HighThreshold(activation=activation, top=None), dim, rng=rng))
    if found is None:
        return LayerRun(np.nan, "refused", seconds)
    return LayerRun(max_angle(found.layer.weights, target.layer.weights), found.certificate.verdict, seconds)


def _median_angle(cell: LayerCell, runs: Sequence[LayerRun]) -> float:
    """A refusal counts as a right angle."""
    angles = np.array([run.angle for run in runs])
    return float(np.median(np.where(np.isnan(angles), np.pi / 2, angles)))


def _layer_sentence(m: StudyMeasurement) -> str:
    wrong, verified = (sum(col.values(m.rows, name)) for name in ("verified_but_wrong", "verified"))
    return f"{wrong} of {verified} verified layers are off by more than {SUCCESS.wrong_angle:g} rad."


def _layer_figure(m: StudyMeasurement) -> LinesFigure:
    panels = [
        Panel(kind, "samples", "median largest angle (rad)", col.curves(
            rows, "threshold", "samples", "median_angle", label=lambda t: f"t = {t:g}", least=1e-16), "xy")
        for kind, rows in col.group_rows(m.rows, "unit").items()]
    return LinesFigure(panels, "Largest angle over samples, by threshold and kind of unit")


LAYER_ERROR = Study(
    "layer-error", "Error of the lowest layer over samples and thresholds, for step, ReLU and sigmoid units",
    "Step layers are found to about 1/n, ReLU and sigmoid ones to all digits once the start is good enough.",
    quick=LayerGrid((5000, 20_000, 80_000), ((step, (2.0, 2.5)), (relu, (2.0, 2.5)), (sigmoid, (3.0, 5.0)))),
    full=LayerGrid(
        (2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000),
        ((step, (1.5, 2.0, 2.5, 3.0)), (relu, (1.5, 2.0, 2.5, 3.0)), (sigmoid, (2.0, 3.0, 4.0, 5.0, 8.0)))), seeds=10,
    cells=lambda grid: [cell for kind, some in grid.thresholds for cell in cross(LayerCell, [kind], some, grid.samples)],
    run_cell=recover_once,
    table=table(
        unit=lambda cell, runs: cell.activation.name, threshold=col.field("threshold"), samples=col.field("samples"),
        median_angle=_median_angle, refused=col.total(lambda run: np.isnan(run.angle)),
        verified=col.total(lambda run: run.verdict == "verified"),
        verified_but_wrong=col.total(lambda run: run.verdict == "verified" and run.angle > SUCCESS.wrong_angle),
        runs=col.count, median_s=col.median("seconds")),
    sentence=_layer_sentence, figure=_layer_figure)
"""The error of the lowest layer over samples and thresholds."""


class RareGrid(NamedTuple):
    """Thresholds, and sample sizes to be tried one after the other."""

    thresholds: tuple[float, ...]
    samples: tuple[int, ...] = (1250, 2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000)


def first_success(
    settings: Settings[RareGrid], run: Callable[[LayerCell, int], LayerRun] = recover_once
) -> dict[LayerCell, list[LayerRun]]:
    """For each threshold, sample sizes up to the first at which four of five step layers are found."""
    runs: dict[LayerCell, list[LayerRun]] = {}
    for done, t in enumerate(settings.grid.thresholds, 1):
        for cell in (LayerCell(step, t, n) for n in settings.grid.samples):
            runs[cell] = [run(cell, seed) for seed in settings.seeds]
            if sum(map(_is_found, runs[cell])) >= 0.8 * len(runs[cell]):
                break
        settings.tick("thresholds", done, len(settings.grid.thresholds), f"t={t:g}")
    return runs


def _is_found(run: LayerRun) -> bool:
    return bool(run.angle < SUCCESS.near_angle)


def _probability(cell: LayerCell, runs: Sequence[LayerRun]) -> float:
    return float(ndtr(-cell.threshold))


def _rare_sentence(m: StudyMeasurement) -> str:
    last = [rows[-1] for rows in col.group_rows(m.rows, "threshold").values()]
    parts = ", ".join(f"t = {r.threshold:g}: {r.samples:,} ({r.active_rows_per_unit:.0f} active rows per unit)" for r in last)
    return f"Samples needed: {parts}."


def _rare_figure(m: StudyMeasurement) -> LinesFigure:
    last = [rows[-1] for rows in col.group_rows(m.rows, "threshold").values()]
    line = Curve(
        f"four of five within {SUCCESS.near_angle:g} rad", col.values(last, "probability_active"), col.values(last, "samples"))
    panel = Panel("step units", "probability that a unit is active", "samples needed", [line], "xy")
    return LinesFigure([panel], "Samples needed over the probability of activation")


ACTIVATION_PROBABILITY = Study(
    "activation-probability", "Samples that a step layer takes, over the probability that a unit is active",
    "The number of active rows per unit, not the number of rows, decides: samples grow like 1/Pr[active].",
    quick=RareGrid((1.5, 2.0, 2.5)), full=RareGrid((1.5, 2.0, 2.5, 3.0)), measure_grid=first_success, seeds=10,
    table=table(
        "threshold", probability_active=_probability, samples=col.field("samples"), found=col.total(_is_found), runs=col.count,
        active_rows_per_unit=lambda cell, runs: cell.samples * _probability(cell, runs)),
    sentence=_rare_sentence, figure=_rare_figure)
"""The samples that the lowest layer takes when units are rarer."""

LAYER_STARTS_ARMS: dict[str, LayerStart] = {
    "third moments": ThirdMoments(), "one by one": OneByOne(threshold=2.5), "simultaneous": Simultaneous(threshold=2.5)}


class LayerStartCell(NamedTuple):
    """Name of the start, samples, threshold of the step units."""

    start: str
    samples: int
    threshold: float = 2.5


@refused_as(np.nan)
def start_angle(cell: LayerStartCell, seed: int) -> float:
    """Largest angle of a start from samples of step units."""
    rng = np.random.default_rng([seed, cell.samples])
    target = plant(step, cell.threshold, rng)
    source = gaussian_samples(target, target.layer.dim, cell.samples, rng)
    activity = label_active_rows(source, find_baseline(source))
    found = LAYER_STARTS_ARMS[cell.start](activity, target.layer.width, rng=rng)
    return max_angle(found.weights, target.layer.weights)


LAYER_STARTS = Study(
    "layer-starts", "Starts for the lowest layer: third moments against the printed objectives on fourth moments",
    "Third moments need several times fewer samples.",
    quick=(10_000, 40_000), full=(10_000, 40_000, 160_000), seeds=10,
    cells=lambda samples: cross(LayerStartCell, LAYER_STARTS_ARMS, samples), run_cell=start_angle,
    table=table("start", "samples", **col.spread_columns("refused")),
    sentence=lambda m: (
        "; ".join(f"{row.start}, n = {row.samples:,}: {col.radians(row.median)}" for row in m.rows) + " (medians)."),
    figure=lambda m: LinesFigure([
        Panel("step units, t = 2.5", "samples", "largest angle (rad)", col.curves(m.rows, "start", "samples", "median"), "xy")],
        "Starts over samples"))
"""Starts for the lowest layer: fourth moments by the printed objectives, against third ones. The grid is of samples."""

ESTIMATES: dict[str, Estimate] = {"printed": slab_estimate, "probit": probit_estimate}
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


class AngleProblem(NamedTuple):
    """Step units and their threshold, samples; where a search begins, ends, and its least decrease of the angle, over α/d."""

    units: int = 5
    threshold: float = 2.0
    samples: int = 40_000
    start: float = 0.2
    accuracy: float = 0.05
    decrease: float = 0.1
    perturbations: int = 20_000

    def draw(self, dim: int, rng: Generator) -> tuple[Array, Source]:
        """One of the units, and the activity of samples."""
        layer, top = threshold_layer(dim, self.units, step, self.threshold, rng=rng), polynomial_top(self.units, rng=rng)
        source = gaussian_samples(lambda x: top(layer(x)), dim, self.samples, rng)
        return layer.weights[0], label_active_rows(source, find_baseline(source))


ANGLES = AngleProblem()


def rotate_by(row: Array, angle: float, rng: Generator) -> Array:
    """A unit vector at `angle` to the unit vector `row`."""
    aside = rng.standard_normal(len(row))
    aside -= (aside @ row) * row
    return np.asarray(np.cos(angle) * row + np.sin(angle) * aside / np.linalg.norm(aside))


@refused_as(np.nan)
def estimate_ratio(name: str, dim: int, angle: float, seed: int) -> float:
    """Estimated tangent over the true one; NaN if there is no estimate."""
    rng = np.random.default_rng([seed, round(1000 * angle)])
    unit, activity = ANGLES.draw(dim, rng)
    profile = measure_profile(activity, rotate_by(unit, angle, rng)[None])
    return ESTIMATES[name](profile, 0).tangent / float(np.tan(angle))


def helpful_share(dim: int, stride: float, seed: int) -> float:
    """Share of perturbations N(0, (stride α)²) normal to z, at the angle α to w, after which it is at most (1 - 0.1/d) α."""
    rng = np.random.default_rng([seed, dim, round(1000 * stride)])
    alpha = ANGLES.start
    aside = stride * alpha * rng.standard_normal((ANGLES.perturbations, dim - 1))  # the first points along the circle to w
    cosine = (np.cos(alpha) + aside[:, 0] * np.sin(alpha)) / np.sqrt(1.0 + np.sum(aside**2, axis=1))
    return float(np.mean(np.arccos(np.minimum(cosine, 1.0)) <= (1.0 - ANGLES.decrease / dim) * alpha))


@refused_as(np.nan)
def search_end(name: str, dim: int, seed: int) -> float:
    """The true angle at the end of RefineEstimate with that estimate."""
    rng = np.random.default_rng([seed, dim, 77])
    unit, activity = ANGLES.draw(dim, rng)
    start = rotate_by(unit, ANGLES.start, rng)
    found = refine_estimate(
        activity, start, TrialRules(decrease=ANGLES.decrease, accuracy=ANGLES.accuracy), estimate=ESTIMATES[name], rng=rng)
    return max_angle(found.direction[None], unit[None])


def angle_once(cell: AngleCell, seed: int) -> float:
    """Estimate over truth, share of helpful perturbations, or the angle after the search."""
    if cell.angle is not None:
        return estimate_ratio(cell.way, cell.dim, cell.angle, seed)
    if cell.way in STRIDES:
        return helpful_share(cell.dim, cell.dim ** STRIDES[cell.way], seed)
    return search_end(cell.way, cell.dim, seed)


def _angle_cells(grid: AngleGrid) -> list[AngleCell]:
    first = cross(AngleCell, ESTIMATES, grid.dims[:1], grid.angles)
    return first + [AngleCell(way, dim, None) for dim in grid.dims for way in (*STRIDES, *ESTIMATES)]


def _quantity(cell: AngleCell, runs: Sequence[float]) -> str:
    if cell.angle is not None:
        return f"estimate/truth at {cell.angle:g} rad"
    return "share of perturbations that help" if cell.way in STRIDES else f"angle after the search from {ANGLES.start:g} rad"


def _angle_figure(m: StudyMeasurement) -> LinesFigure:
    medians = {cell: col.spread(each)[0] for cell, each in m.runs.items()}
    angles, dims = m.grid.angles, m.grid.dims
    ratios = [Curve(name, angles, [medians[AngleCell(name, dims[0], a)] for a in angles]) for name in ESTIMATES]
    shares, ends = (
        [Curve(name, dims, [medians[AngleCell(name, dim, None)] for dim in dims]) for name in ways]
        for ways in (STRIDES, ESTIMATES))
    return LinesFigure([
        Panel("tan α", "angle (rad)", "estimate / truth", ratios, "x"),
        Panel("perturbations", "dimension", "share that helps", shares, "xy"),
        Panel(f"search from {ANGLES.start:g} rad", "dimension", "angle at the end (rad)", ends, "xy"),
    ], "Estimates of the angle, and search by them")


TAN_ALPHA = Study(
    "tan-alpha", "The printed estimate of the angle to a unit against the probit with a floor, and random search by both",
    "Slabs overestimate small angles, the probit does not. With the stride of Lemma 7 a constant share of trials helps in "
    "every dimension, with α/√d hardly any at d = 50. Random search by the probit gets closer.",
    quick=AngleGrid(), full=AngleGrid(), cells=_angle_cells, run_cell=angle_once, seeds=5,
    table=table("way", "dim", quantity=_quantity, **col.spread_columns("without")),
    sentence=lambda m: "; ".join(f"{row.way}, d = {row.dim}, {row.quantity}: median {row.median:.3g}" for row in m.rows) + ".",
    figure=_angle_figure)
"""The angle to a unit, estimated and searched for: Algorithms 1 and 2, procedure RefineEstimate and Lemma 7 of Goel and Panigrahy
(2019). Estimate: a direction at a known angle to one of five step units (t = 2, 40,000 samples); the printed one from slabs of
width 0.1 where the activity is 0.4 and 0.6, and the probit with a floor. Stride: Lemma 7 perturbs by α/d in every direction
normal to z; geometry alone gives the share of perturbations that reduce the angle by 0.1 α/d, for that stride and for α/√d.
Search: where RefineEstimate ends from 0.2 rad by either estimate, with O(d log 1/ε) trials for ε = 0.05, in several
dimensions."""


class CutGrid(NamedTuple):
    """Features at the cut, units there, rows, and the share of rows in which a unit is active."""

    dim: int = 6
    width: int = 4
    rows: int = 30_000
    share: float = 0.02


class CutRun(NamedTuple):
    """Its seed, largest angle at the cut, largest E[X_i X_j]/E[X_i], held-out R² of the top, the verdict."""

    seed: int
    angle: float
    dependence: float
    r2: float
    verdict: str


def plant_cut(grid: CutGrid, rng: Generator) -> tuple[Layer, PlantedTarget]:
    """The known layer below the cut, and the rest of the network as a function of its features. Thresholds are quantiles, so that
    every unit at the cut is active in the same share of the rows."""
    below = Layer(2.0 * orthonormal_weights(grid.dim, grid.dim, rng=rng), np.zeros(grid.dim), tanh)
    weights = threshold_layer(grid.dim, grid.width, step, 0.0, rng=rng).weights
    thresholds = np.quantile(below(rng.standard_normal((100_000, grid.dim))) @ weights.T, 1.0 - grid.share, axis=0)
    return below, PlantedTarget(Layer(weights, -thresholds, step), deep_top(grid.width, rng=rng))


def dependence(units: Array) -> float:
    """max over pairs of E[X_i X_j]/E[X_i], for X (n, k) of zeros and ones: the paper's μ."""
    together = units.T @ units / len(units)
    ratios = together / np.maximum(np.diag(together)[:, None], np.finfo(float).tiny)
    return float((ratios - np.diag(np.diag(ratios))).max())


def cut_once(grid: CutGrid, seed: int) -> CutRun:
    """Plant, recover the units at the cut from (h(x), y), fit the top, compare."""
    rng = np.random.default_rng([seed, grid.dim])
    below, above = plant_cut(grid, rng)
    features = below(rng.standard_normal((grid.rows, grid.dim)))
    mu = dependence(above.layer(features))
    try:
        found = recover_layer(Samples(features, above(features)), HighThreshold(activation=step), grid.width, rng=rng)
    except LaybareError:
        return CutRun(seed, np.nan, mu, np.nan, "refused")
    r2 = np.nan if found.top is None else found.top.r2
    return CutRun(seed, max_angle(found.layer.weights, above.layer.weights), mu, r2, found.certificate.verdict)


def _cut_sentence(m: StudyMeasurement) -> str:
    near, limit = sum(row.largest_angle < SUCCESS.near_angle for row in m.rows), SUCCESS.near_angle
    return (
        f"{near} of {len(m.rows)} layers at the cut are found within {limit:g} rad (largest dependence E[XX']/E[X] "
        f"{max(col.values(m.rows, 'dependence')):.2f}); median R² of the layers above "
        f"{float(np.nanmedian(col.values(m.rows, 'held_out_R2'))):.3f}.")


def by_seed(grid: CutGrid, runs: Mapping[CutGrid, list[CutRun]]) -> dict[CutRun, None]:
    """Every run is a row."""
    return dict.fromkeys(run for each in runs.values() for run in each)


DEEPER_CUT = Study(
    "deeper-cut", "Units of high threshold in the middle of a network: the cut first, then what lies above it",
    "Where products of units are rare, the cut is learnt without knowing the layers above.",
    quick=CutGrid(), full=CutGrid(), cells=lambda grid: (grid,), run_cell=cut_once, group=by_seed, seeds=10,
    table=table(
        "seed", largest_angle=col.field("angle"), dependence=col.field("dependence"), held_out_R2=col.field("r2"),
        verdict=col.field("verdict")),
    sentence=_cut_sentence)
"""A cut deeper in the network (appendix E, Remark 1 of Goel and Panigrahy), as a worked example: learn the units at the cut, then
what lies above it. Below the cut is a known layer of tanh units, h(x) = tanh(2 Q x) with Q orthogonal; at the cut are step units
X_i = 1{w_i·h(x) > t_i}, each active in 2 % of rows; above it are two more layers. What the paper asks of the X_i is that products
are rare against single units, E[X_i X_j]/E[X_i] small, and a robust way to learn them from Σ c_i X_i; the fit of half-spaces on
h(x), which is not Gaussian, is such a way. The layers above are then fitted to the recovered units alone: divide and conquer."""
