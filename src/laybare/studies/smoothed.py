"""Smoothed analysis: the worst weights or inputs, perturbed a little, are well conditioned.

Three statements, each on an input that is degenerate without the perturbation:

    weights of symmetric inputs   Theorem 9 of Ge et al. (2019): all rows of W equal, W + ρE, x ~ N(0, I), k = d/5: σ_min(M)
    inputs of symmetric inputs    Theorem 10: x = ±v for a single v, a share λ of it replaced by Qg, k = d/7: σ_min(M)
    weights of general ReLU       Corollary 3.3 of Awasthi et al. (2021): all rows equal, noise of length τ: s_m of the l-th
                                  Khatri-Rao power with as many units as the corollary allows, l = 2

Informally this is Theorem 3 of Ge et al. (2019). The theorems say that the least singular value is at least a polynomial of the
perturbation; its exponent is not stated. For Theorem 9 of Ge et al. (2019) the bound of Lemma 14 on what the detector sees
(`least_detected`, corrected by √2) stands beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from laybare.activations import relu
from laybare.moments import (
    augmented_matrix,
    gaussian_augmented,
    khatri_rao_gap,
    least_detected,
    population_detector,
    smoothed_width,
)
from laybare.networks import Layer, Network
from laybare.planted import gaussian_rows, orthonormal_weights, perturbed, smoothed, smoothed_network
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Samples, Symmetric
from laybare.studies.study import Study, StudyResult, headings, over

WEIGHTS, INPUTS, GENERAL = "Theorem 9, weights", "Theorem 10, inputs", "Corollary 3.3, weights"
STATEMENTS = (WEIGHTS, INPUTS, GENERAL)
FLATTENING = 2
"""l of Corollary 3.3."""


class SmoothedCell(NamedTuple):
    """The statement, dimension, and the size of the perturbation: ρ, λ or τ."""

    statement: str
    dim: int
    size: float


class SmoothedGrid(NamedTuple):
    """Dimension of each statement, and sizes of the perturbation; 0 is the input as it is."""

    dims: tuple[int, int, int]
    sizes: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)

    def cells(self) -> list[SmoothedCell]:
        return [
            SmoothedCell(statement, dim, size)
            for statement, dim in zip(STATEMENTS, self.dims, strict=True) for size in self.sizes]


class SmoothedRun(NamedTuple):
    """Least singular value; the bound of Lemma 14 and the least singular value of the detector that it bounds, if asked."""

    least: float
    bound: float = np.nan
    detected: float = np.nan


class SmoothedRow(NamedTuple):
    """A row of the table: medians and the smallest over the seeds."""

    statement: str
    dim: int
    perturbation: float
    median_least_singular_value: float
    smallest: float
    median_bound_of_Lemma_14: float
    median_least_of_the_detector: float
    runs: int


def run_once(cell: SmoothedCell, seed: int) -> SmoothedRun:
    """Perturb, decompose."""
    rng = np.random.default_rng([seed, cell.dim, round(1e6 * cell.size)])
    return {WEIGHTS: _weights, INPUTS: _inputs, GENERAL: _general}[cell.statement](cell.dim, cell.size, rng)


def _weights(dim: int, size: float, rng: np.random.Generator) -> SmoothedRun:
    width = dim // 5
    weights = smoothed(_equal_rows(width, dim), size, rng=rng)
    if size == 0.0:
        return SmoothedRun(0.0, 0.0, 0.0)  # two rows are the same: their column of M is zero
    readout = orthonormal_weights(width, width, rng=rng)
    M = gaussian_augmented(weights)
    values = np.linalg.svd(population_detector(weights, readout), compute_uv=False)
    return SmoothedRun(_least(M), least_detected(M, readout), float(values[width * (width - 1) // 2 - 1]))


def _inputs(dim: int, size: float, rng: np.random.Generator) -> SmoothedRun:
    rows = 200 * dim * (dim + 1)
    weights = gaussian_rows(dim, dim // 7, rng=rng)
    x = perturbed(np.outer(rng.choice([-1.0, 1.0], rows), np.eye(dim)[0]), rng.standard_normal((dim, dim)), size, rng=rng)
    return SmoothedRun(_least(augmented_matrix(Samples(x, relu(x @ weights.T), law=Symmetric()), weights)))


def _general(dim: int, size: float, rng: np.random.Generator) -> SmoothedRun:
    width = smoothed_width(dim, FLATTENING)
    network = Network(Layer(_equal_rows(width, dim), None, relu), np.ones(width))
    return SmoothedRun(khatri_rao_gap(smoothed_network(network, size, rng=rng).layer.weights, FLATTENING))


def _equal_rows(width: int, dim: int) -> Array:
    return np.tile(np.eye(dim)[0], (width, 1))


def _least(matrix: Array) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


def summary(grid: SmoothedGrid, runs: Mapping[SmoothedCell, list[SmoothedRun]]) -> StudyResult:
    """Medians over the size of the perturbation, and the exponent that they show."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    own = {statement: [row for row in rows if row.statement == statement and row.perturbation > 0] for statement in STATEMENTS}
    told = "; ".join(f"{statement} {_exponent(some):.1f}" for statement, some in own.items())
    lines = [
        Curve(s, [r.perturbation for r in some], [r.median_least_singular_value for r in some]) for s, some in own.items()]
    panel = Panel("Perturbed degenerate problems", "perturbation", "least singular value", lines, "xy")
    broken = sum(run.detected < run.bound * (1 - 1e-9) for each in runs.values() for run in each)
    sentence = f"Exponent of the least singular value in the perturbation: {told}. The bound of Lemma 14 fails in {broken} runs."
    return StudyResult(headings(SmoothedRow), rows, sentence, LinesFigure([panel], "Least singular values over perturbations"))


def _row(cell: SmoothedCell, runs: Sequence[SmoothedRun]) -> SmoothedRow:
    least, bound, detected = (float(value) for value in np.median(np.array(runs), axis=0))
    return SmoothedRow(cell.statement, cell.dim, cell.size, least, min(run.least for run in runs), bound, detected, len(runs))


def _exponent(rows: Sequence[SmoothedRow]) -> float:
    """Of the smaller half of the perturbations, where the polynomial is a power."""
    some = rows[: max(2, len(rows) // 2 + 1)]
    x, y = np.log([r.perturbation for r in some]), np.log([max(r.median_least_singular_value, 1e-300) for r in some])
    return float(np.polyfit(x, y, 1)[0])


SMOOTHED = Study(
    "smoothed-analysis", "Least singular values that the theory asks for, of degenerate weights and inputs after a perturbation",
    "The papers: at least a polynomial of the perturbation and the dimension, with high probability.",
    SmoothedGrid((15, 14, 6)), SmoothedGrid((25, 28, 10)), over(SmoothedGrid.cells, run_once), summary)
