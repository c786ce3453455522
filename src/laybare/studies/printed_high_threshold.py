"""The printed parts of the high-threshold method beside what replaces them: the angle estimate, and the start.

Angle: a direction at a known angle to one of five step units (t = 2, 40,000 samples); the printed estimate from slabs of width
0.1 where the activity is 0.4 and 0.6, and the probit with a floor. Start: fourth moments by the printed objectives, against
third ones.
"""

from __future__ import annotations

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
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Array, Event
from laybare.source import Gaussian, Samples, Source
from laybare.studies.high_threshold import KINDS, plant
from laybare.studies.study import Cell, Outcome, Settings, Study

THRESHOLD, ROWS = 2.0, 40_000
ANGLES = (0.03, 0.1, 0.3)
ESTIMATES: dict[str, Estimate] = {"printed": slab_edge, "probit": probit_edge}
START_ANGLE, TRIALS = 0.2, 40


def turned(row: Array, angle: float, rng: Generator) -> Array:
    """A unit vector at `angle` to the unit vector `row`."""
    aside = rng.standard_normal(len(row))
    aside -= (aside @ row) * row
    return np.asarray(np.cos(angle) * row + np.sin(angle) * aside / np.linalg.norm(aside))


def activity(rows: int, threshold: float, rng: Generator) -> tuple[Target, Source]:
    """A step target of `high_threshold` and the activity of samples from it."""
    target = plant(KINDS[0], threshold, rng)
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


def _angle_study(settings: Settings) -> Outcome:
    rows: list[tuple[Cell, ...]] = []
    for name in ESTIMATES:
        for angle in ANGLES:
            ratios = [estimated(name, angle, seed) for seed in settings.seeds]
            rows.append((name, f"estimate/truth at {angle:g} rad", *_spread(ratios)))
        ends = [searched(name, seed) for seed in settings.seeds]
        rows.append((name, f"angle after {TRIALS} trials from {START_ANGLE:g} rad", *_spread(ends)))
        if settings.progress is not None:
            settings.progress(Event("estimates", len(rows) // 4, len(ESTIMATES), name))
    lines = [Line(name, list(ANGLES), [float(row[2]) for row in rows if row[0] == name][: len(ANGLES)]) for name in ESTIMATES]
    figure = lines_figure([Panel("tan α", "angle (rad)", "estimate / truth", lines, "x")], "Estimated over true tangents")
    sentence = "; ".join(f"{row[0]}, {row[1]}: median {float(row[2]):.3g}" for row in rows) + "."
    return Outcome(("estimate", "quantity", "median", "10 %", "90 %", "without"), rows, sentence, figure)


def _spread(values: list[float]) -> tuple[float, float, float, int]:
    kept = np.array([value for value in values if np.isfinite(value)])
    if not len(kept):
        return np.nan, np.nan, np.nan, len(values)
    return float(np.median(kept)), float(np.quantile(kept, 0.1)), float(np.quantile(kept, 0.9)), len(values) - len(kept)


TAN_ALPHA = Study(
    "tan-alpha", "The printed estimate of the angle to a unit against the probit with a floor",
    "Slabs overestimate small angles, the probit does not; random search by the probit gets closer.", _angle_study)

STARTS: dict[str, LayerStart] = {
    "third moments": ThirdMoments(), "one by one": OneByOne(threshold=2.5), "simultaneous": Simultaneous(threshold=2.5)}


def start_angle(name: str, rows: int, seed: int) -> float:
    """Largest angle of a start from samples of step units at t = 2.5."""
    rng = np.random.default_rng([seed, rows])
    target, source = activity(rows, 2.5, rng)
    try:
        found = STARTS[name](source, target.layer.width, rng=rng)
    except LaybareError:
        return np.nan
    return max_angle(found.weights, target.layer.weights)


def _start_study(settings: Settings) -> Outcome:
    sizes = (10_000, 40_000, 160_000) if settings.full else (10_000, 40_000)
    rows: list[tuple[Cell, ...]] = []
    for name in STARTS:
        for n in sizes:
            rows.append((name, n, *_spread([start_angle(name, n, seed) for seed in settings.seeds])))
            if settings.progress is not None:
                settings.progress(Event("cells", len(rows), len(STARTS) * len(sizes), f"{name}, n={n}"))
    lines = [Line(name, list(sizes), [float(row[2]) for row in rows if row[0] == name]) for name in STARTS]
    panel = Panel(f"{step.name} units, t = 2.5", "samples", "largest angle (rad)", lines, "xy")
    sentence = "; ".join(f"{row[0]}, n = {row[1]:,}: {float(row[2]):.2f} rad" for row in rows) + " (medians)."
    columns = ("start", "samples", "median", "10 %", "90 %", "refused")
    return Outcome(columns, rows, sentence, lines_figure([panel], "Starts over samples"))


LAYER_STARTS = Study(
    "layer-starts", "Starts for the lowest layer: third moments against the printed objectives on fourth moments",
    "Third moments need several times fewer samples.", _start_study)
