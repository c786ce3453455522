"""A cut deeper in the network (appendix E, Remark 1), as a worked example: learn the units at the cut, then what lies above it.

Below the cut is a known layer of tanh units, h(x) = tanh(2 Q x) with Q orthogonal; at the cut are step units X_i = 1{w_i·h(x) >
t_i}, each active in 2 % of rows; above it are two more layers. What the paper asks of the X_i is that products are rare against
single units, E[X_i X_j]/E[X_i] small, and a robust way to learn them from Σ c_i X_i; the fit of half-spaces on h(x), which is
not Gaussian, is such a way. The layers above are then fitted to the recovered units alone: divide and conquer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import step, tanh
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.networks import Layer, max_angle
from laybare.planted import orthonormal_weights
from laybare.planted.high_thresholds import PlantedTarget, deep_top, threshold_layer
from laybare.shapes import Array
from laybare.source import Samples
from laybare.studies.study import Settings, Study, StudyResult, headings

SHARE = 0.02
NEAR = 0.05
"""Radians within which a layer at the cut counts as found."""


class CutGrid(NamedTuple):
    """Features at the cut, units there, rows."""

    dim: int = 6
    width: int = 4
    rows: int = 30_000


class Cut(NamedTuple):
    """The known layer below the cut, and the rest of the network as a function of its features."""

    below: Layer
    above: PlantedTarget


class CutRun(NamedTuple):
    """Largest angle at the cut, largest E[X_i X_j]/E[X_i], held-out R² of the top, the verdict."""

    angle: float
    dependence: float
    r2: float
    verdict: str


class CutRow(NamedTuple):
    """A row of the table."""

    seed: int
    largest_angle: float
    dependence: float
    held_out_R2: float
    verdict: str


def plant(grid: CutGrid, rng: Generator) -> Cut:
    """Thresholds are quantiles, so that every unit at the cut is active in SHARE of the rows."""
    below = Layer(2.0 * orthonormal_weights(grid.dim, grid.dim, rng=rng), np.zeros(grid.dim), tanh)
    weights = threshold_layer(grid.dim, grid.width, step, 0.0, rng=rng).weights
    thresholds = np.quantile(below(rng.standard_normal((100_000, grid.dim))) @ weights.T, 1.0 - SHARE, axis=0)
    return Cut(below, PlantedTarget(Layer(weights, -thresholds, step), deep_top(grid.width, rng=rng)))


def dependence(units: Array) -> float:
    """max over pairs of E[X_i X_j]/E[X_i], for X (n, k) of zeros and ones: the paper's μ."""
    together = units.T @ units / len(units)
    ratios = together / np.maximum(np.diag(together)[:, None], np.finfo(float).tiny)
    return float((ratios - np.diag(np.diag(ratios))).max())


def run_once(grid: CutGrid, seed: int) -> CutRun:
    """Plant, recover the units at the cut from (h(x), y), fit the top, compare."""
    rng = np.random.default_rng([seed, grid.dim])
    cut = plant(grid, rng)
    features = cut.below(rng.standard_normal((grid.rows, grid.dim)))
    mu = dependence(cut.above.layer(features))
    try:
        found = recover_layer(Samples(features, cut.above(features)), HighThreshold(activation=step), grid.width, rng=rng)
    except LaybareError:
        return CutRun(np.nan, mu, np.nan, "refused")
    r2 = np.nan if found.top is None else found.top.r2
    return CutRun(max_angle(found.layer.weights, cut.above.layer.weights), mu, r2, found.certificate.verdict)


def measure(settings: Settings[CutGrid]) -> dict[int, CutRun]:
    """One run for each seed."""
    runs: dict[int, CutRun] = {}
    for seed in settings.seeds:
        runs[seed] = run_once(settings.grid, seed)
        settings.tick("runs", len(runs), len(settings.seeds), f"angle {runs[seed].angle:.1e}")
    return runs


def summary(grid: CutGrid, runs: Mapping[int, CutRun]) -> StudyResult:
    """How many cuts are found, and how well the layers above them are fitted."""
    rows = [CutRow(seed, *run) for seed, run in runs.items()]
    near = sum(row.largest_angle < NEAR for row in rows)
    sentence = (
        f"{near} of {len(rows)} layers at the cut are found within {NEAR:g} rad (largest dependence E[XX']/E[X] "
        f"{max(row.dependence for row in rows):.2f}); median R² of the layers above "
        f"{float(np.nanmedian([row.held_out_R2 for row in rows])):.3f}.")
    return StudyResult(headings(CutRow), rows, sentence)


DEEPER_CUT = Study(
    "deeper-cut", "Units of high threshold in the middle of a network: the cut first, then what lies above it",
    "Where products of units are rare, the cut is learnt without knowing the layers above.",
    CutGrid(), CutGrid(), measure, summary, seeds=10)
