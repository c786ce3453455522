"""Figure 1(a) of Zhong et al. (2017): how often is a squared-ReLU network recovered, over dimension and number of samples?

Teachers as there: W = U S Vᵀ with singular values evenly spaced from 1 to 2, five units, readout ±1 at random, no noise, and
x ~ N(0, I). A run succeeds if no unit is off by more than 0.01, relatively, and all signs are right. Beside the printed route
(plain moments, KCL, then gradient descent with step 0.02 in the hidden weights alone, all samples in every step) stand TensorInit
and, as control, RandomStart; these two set samples aside for their certificate. The paper gives neither the number of gradient
steps nor the numbers behind its grey scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import power_relu
from laybare.assembly.magnitudes import unit_readout
from laybare.errors import LaybareError
from laybare.methods import Method, RandomStart, TensorInit
from laybare.methods.tensor_init.printed import moments_then_descent
from laybare.networks import Network, max_relative_error, recovered
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.refinement.descent import Descent
from laybare.report.plots import RatesFigure
from laybare.source import Gaussian, Samples
from laybare.studies.study import Study, StudyResult, headings, over

RELU2 = power_relu(2)
WIDTH = 5
DESCENT = Descent(step=0.02, max_steps=6000, tol=1e-7)
"""Descent ends early at a relative loss of 1e-7, where the weights are right to about 1e-3 or it has found another minimum."""


class DimensionGrid(NamedTuple):
    """Dimensions and sample sizes, the axes of the paper's figures 1(a) and 1(b)."""

    dims: tuple[int, ...]
    samples: tuple[int, ...]


WHOLE = DimensionGrid(tuple(range(10, 101, 10)), tuple(range(1000, 10_001, 1000)))


class DimensionCell(NamedTuple):
    """Dimension, samples, name of the arm."""

    dim: int
    samples: int
    arm: str


class RecoveryRun(NamedTuple):
    """Whether the network was recovered, the largest relative error of the start (NaN if there was none), seconds."""

    success: bool
    start_error: float
    seconds: float


class RecoveryRow(NamedTuple):
    """A row of the table."""

    dim: int
    samples: int
    arm: str
    recovered: int
    runs: int
    mean_start_error: float | str
    median_s: float


class StartAndEnd(NamedTuple):
    """A network, and where it was before the solver."""

    found: Network
    start: Network


def planted(dim: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """A teacher of the paper's experiments, and samples from it."""
    truth = random_network(dim, WIDTH, RELU2, biases=0.0, condition=2.0, rng=rng)
    x = rng.standard_normal((samples, dim))
    return truth, Samples(x, truth(x), law=Gaussian(0, 1))


def printed(source: Samples, rng: Generator) -> StartAndEnd:
    """Algorithm 1 and Algorithm 2 without resampling, as printed."""
    found = moments_then_descent(source, WIDTH, RELU2, DESCENT, rng=rng)
    return StartAndEnd(found.network, found.start)


def by(method: Method) -> Callable[[Samples, Generator], StartAndEnd]:
    """The library's own pipeline; the start is what the method gave before the solver."""

    def run(source: Samples, rng: Generator) -> StartAndEnd:
        found = recover(source, method, WIDTH, rng=rng)
        return StartAndEnd(found.network, found.start)

    return run


ARMS: dict[str, Callable[[Samples, Generator], StartAndEnd]] = {
    "printed": printed, "TensorInit": by(TensorInit(activation=RELU2)),
    "RandomStart": by(RandomStart(activation=RELU2, biases=False))}


def run_once(cell: DimensionCell, seed: int) -> RecoveryRun:
    """Plant a network, recover it, compare."""
    dim, samples, arm = cell
    rng = np.random.default_rng([seed, dim, samples])
    truth, source = planted(dim, samples, rng)
    begun = time.perf_counter()
    try:
        pair = ARMS[arm](source, rng)
    except LaybareError:  # too few samples, or a step too large: not recovered
        return RecoveryRun(False, np.nan, time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    success = pair.found.width == WIDTH and recovered(pair.found, truth)
    if arm == "RandomStart":
        return RecoveryRun(success, np.nan, seconds)
    return RecoveryRun(success, max_relative_error(unit_readout(pair.start).layer.weights, truth.layer.weights), seconds)


def cells(grid: DimensionGrid) -> list[DimensionCell]:
    """Every arm at every dimension and number of samples."""
    return [DimensionCell(dim, samples, arm) for dim in grid.dims for samples in grid.samples for arm in ARMS]


def summary(grid: DimensionGrid, runs: Mapping[DimensionCell, list[RecoveryRun]]) -> StudyResult:
    """Recoveries in every cell, and a map of them for every arm."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    rates = {cell: sum(run.success for run in each) / len(each) for cell, each in runs.items()}
    maps = {arm: np.array([[rates[DimensionCell(d, n, arm)] for n in grid.samples] for d in grid.dims]) for arm in ARMS}
    return StudyResult(headings(RecoveryRow), rows, _sentence(rows), RatesFigure(maps, grid.dims, grid.samples))


def _row(cell: DimensionCell, runs: list[RecoveryRun]) -> RecoveryRow:
    errors = [run.start_error for run in runs if np.isfinite(run.start_error)]
    return RecoveryRow(
        *cell, sum(run.success for run in runs), len(runs), float(np.mean(errors)) if errors else "",
        float(np.median([run.seconds for run in runs])))


def _sentence(rows: list[RecoveryRow]) -> str:
    own = {arm: [row for row in rows if row.arm == arm] for arm in ARMS}
    parts = (f"{arm} {sum(r.recovered for r in part)}/{sum(r.runs for r in part)}" for arm, part in own.items())
    enough = "; ".join(f"{arm} {_enough(part)}" for arm, part in own.items())
    return (
        f"Recovered over all cells: {', '.join(parts)}. The paper states that the least number of samples with 100 % recovery is "
        f"about proportional to the dimension; here, dimension: least number from which on every run recovered: {enough}.")


def _enough(rows: list[RecoveryRow]) -> str:
    """Of every dimension the least number of samples from which on all runs recovered."""
    found = []
    for dim in sorted({row.dim for row in rows}):
        own = sorted((row.samples, row.recovered == row.runs) for row in rows if row.dim == dim)
        failed = max((size for size, full in own if not full), default=0)
        found.append(f"{dim}: {next((f'{size:,}' for size, _ in own if size > failed), 'none')}")
    return ", ".join(found)


FIGURE_1A = Study(
    "zhong-fig1a", "Recovery of squared-ReLU networks over dimension and samples: the printed tensor method, ours, random starts",
    "The printed method's threshold in samples grows about proportionally to the dimension.",
    DimensionGrid((10, 20, 40), (500, 1000, 2000)), WHOLE, over(cells, run_once), summary, seeds=10)
