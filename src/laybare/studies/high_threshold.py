"""The lowest layer under a deep network: its error over samples and thresholds, and the samples it takes when units are rarer.

Targets: 5 units in 5 dimensions, condition number at most 3, one threshold for all, no noise; cubic tops over step and ReLU
units, bilinear ones over sigmoid units. An error is the largest angle between a found row and the true one it is paired with.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from laybare.activations import Activation, relu, sigmoid, step
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.networks import max_angle
from laybare.planted.high_thresholds import Target, polynomial_top, threshold_layer
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Event
from laybare.source import Gaussian, Samples
from laybare.studies.study import Cell, Outcome, Settings, Study

DIM = 5
NEAR = 0.05
"""Radians within which a step layer counts as found when samples are counted."""


class Kind(NamedTuple):
    """A kind of unit, the degree of the top over it, and its thresholds: some, and all."""

    activation: Activation
    degree: int
    thresholds: tuple[float, ...]
    all_thresholds: tuple[float, ...]


KINDS = (
    Kind(step, 3, (2.0, 2.5), (1.5, 2.0, 2.5, 3.0)), Kind(relu, 3, (2.0, 2.5), (1.5, 2.0, 2.5, 3.0)),
    Kind(sigmoid, 2, (3.0, 5.0), (2.0, 3.0, 4.0, 5.0, 8.0)))
SIZES, ALL_SIZES = (5000, 20_000, 80_000), (2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000)


class Run(NamedTuple):
    """Largest angle (NaN if refused), the verdict (or "refused"), seconds."""

    angle: float
    verdict: str
    seconds: float


def plant(kind: Kind, threshold: float, rng: Generator) -> Target:
    """A target of this study."""
    layer = threshold_layer(DIM, DIM, kind.activation, threshold, rng=rng)
    return Target(layer, polynomial_top(DIM, kind.degree, rng=rng))


def run_once(kind: Kind, threshold: float, rows: int, seed: int) -> Run:
    """Plant, recover, compare."""
    rng = np.random.default_rng([seed, rows, round(100 * threshold)])
    target = plant(kind, threshold, rng)
    x = rng.standard_normal((rows, DIM))
    begun = time.perf_counter()
    try:
        method = HighThreshold(activation=kind.activation, top=None)
        found = recover_layer(Samples(x, target(x), law=Gaussian(0, 1)), method, DIM, rng=rng)
    except LaybareError:
        return Run(np.nan, "refused", time.perf_counter() - begun)
    angle = max_angle(found.layer.weights, target.layer.weights)
    return Run(angle, found.certificate.verdict, time.perf_counter() - begun)


def _error_study(settings: Settings) -> Outcome:
    sizes = ALL_SIZES if settings.full else SIZES
    cells = [(kind, t, n) for kind in KINDS for t in (kind.all_thresholds if settings.full else kind.thresholds) for n in sizes]
    rows: list[tuple[Cell, ...]] = []
    medians: dict[tuple[str, float, int], float] = {}
    for done, (kind, t, n) in enumerate(cells):
        runs = [run_once(kind, t, n, seed) for seed in settings.seeds]
        angles = np.array([run.angle for run in runs])
        verified = [run.verdict == "verified" for run in runs]
        false = sum(sure and run.angle > 0.1 for run, sure in zip(runs, verified, strict=True))
        medians[kind.activation.name, t, n] = float(np.median(np.where(np.isnan(angles), np.pi / 2, angles)))
        rows.append((
            kind.activation.name, t, n, medians[kind.activation.name, t, n], int(np.isnan(angles).sum()), sum(verified), false,
            len(runs), round(float(np.median([run.seconds for run in runs])), 2)))
        if settings.progress is not None:
            settings.progress(Event("cells", done + 1, len(cells), f"{kind.activation.name}, t={t:g}, n={n}"))
    columns = ("unit", "threshold", "samples", "median angle", "refused", "verified", "verified but wrong", "runs", "median s")
    panels = [
        Panel(kind.activation.name, "samples", "median largest angle (rad)", [
            Line(f"t = {t:g}", list(sizes), [max(medians[kind.activation.name, t, n], 1e-16) for n in sizes])
            for t in (kind.all_thresholds if settings.full else kind.thresholds)], "xy") for kind in KINDS]
    false = sum(int(row[6]) for row in rows)
    sentence = f"{false} of {sum(int(row[5]) for row in rows)} verified layers are off by more than 0.1 rad."
    return Outcome(columns, rows, sentence, lines_figure(panels, "Largest angle over samples, by threshold and kind of unit"))


LAYER_ERROR = Study(
    "layer-error", "Error of the lowest layer over samples and thresholds, for step, ReLU and sigmoid units",
    "Step layers are found to about 1/n, ReLU and sigmoid ones to all digits once the start is good enough.", _error_study)

THRESHOLDS = (1.5, 2.0, 2.5, 3.0)
GRID = tuple(int(1250 * 2**i) for i in range(8))


def _activation_study(settings: Settings) -> Outcome:
    """For each threshold, the first of doubling sample sizes at which four of five step layers are within NEAR."""
    rows: list[tuple[Cell, ...]] = []
    thresholds = THRESHOLDS if settings.full else THRESHOLDS[:3]
    for done, t in enumerate(thresholds):
        for n in GRID:
            angles = [run_once(KINDS[0], t, n, seed).angle for seed in settings.seeds]
            found = sum(bool(angle < NEAR) for angle in angles)
            rows.append((t, float(ndtr(-t)), n, found, len(angles), float(n * ndtr(-t))))
            if found >= 0.8 * len(angles):
                break
        if settings.progress is not None:
            settings.progress(Event("thresholds", done + 1, len(thresholds), f"t={t:g}"))
    last = {row[0]: row for row in rows}
    parts = ", ".join(f"t = {t:g}: {row[2]:,} ({float(row[5]):.0f} active rows a unit)" for t, row in last.items())
    figure = lines_figure([Panel(
        "step units", "probability that a unit is active", "samples needed",
        [Line(f"four of five within {NEAR:g} rad", [float(row[1]) for row in last.values()],
              [float(row[2]) for row in last.values()])], "xy")], "Samples needed over the probability of activation")
    columns = ("threshold", "Pr[active]", "samples", "found", "runs", "active rows a unit")
    return Outcome(columns, rows, f"Samples needed: {parts}.", figure)


ACTIVATION_PROBABILITY = Study(
    "activation-probability", "Samples that a step layer takes, over the probability that a unit is active",
    "The number of active rows a unit, not the number of rows, decides: samples grow like 1/Pr[active].", _activation_study)
