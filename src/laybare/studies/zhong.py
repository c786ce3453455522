"""Figure 1(a) of Zhong et al. (2017): how often is a squared-ReLU network recovered, over dimension and number of samples?

Teachers as there: W = U S Vᵀ with singular values evenly spaced from 1 to 2, five units, readout ±1 at random, no noise, and
x ~ N(0, I). A run succeeds if no unit is off by more than 0.01, relatively, and all signs are right. Beside the printed route
(plain moments, KCL, then gradient descent with step 0.02 in the hidden weights alone, all samples in every step) stand TensorInit
and, as control, RandomStart; these two set samples aside for their certificate. The paper gives neither the number of gradient
steps nor the numbers behind its grey scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
from laybare.report.plots import rates_figure
from laybare.shapes import Event
from laybare.source import Gaussian, Samples
from laybare.studies.study import Cell, Outcome, Settings, Study

RELU2 = power_relu(2)
WIDTH = 5
DESCENT = Descent(step=0.02, max_steps=6000, tol=1e-7)
"""Descent ends early at a relative loss of 1e-7, where the weights are right to about 1e-3 or it has found another minimum."""

DIMS, SAMPLES = (10, 20, 40), (500, 1000, 2000)
ALL_DIMS, ALL_SAMPLES = tuple(range(10, 101, 10)), tuple(range(1000, 10_001, 1000))


class Run(NamedTuple):
    """Whether the network was recovered, the largest relative error of the start (NaN if there was none), seconds."""

    success: bool
    start_error: float
    seconds: float


class Pair(NamedTuple):
    """A network, and where it was before the solver."""

    found: Network
    start: Network


def planted(dim: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """A teacher of the paper's experiments, and samples from it."""
    truth = random_network(dim, WIDTH, RELU2, biases=0.0, condition=2.0, rng=rng)
    x = rng.standard_normal((samples, dim))
    return truth, Samples(x, truth(x), law=Gaussian(0, 1))


def printed(source: Samples, rng: Generator) -> Pair:
    """Algorithm 1 and Algorithm 2 without resampling, as printed."""
    found = moments_then_descent(source, WIDTH, RELU2, DESCENT, rng=rng)
    return Pair(found.network, found.start)


def by(method: Method) -> Callable[[Samples, Generator], Pair]:
    """The library's own pipeline; the start is what the method gave before the solver."""

    def run(source: Samples, rng: Generator) -> Pair:
        found = recover(source, method, WIDTH, rng=rng)
        return Pair(found.network, found.start)

    return run


ARMS: dict[str, Callable[[Samples, Generator], Pair]] = {
    "printed": printed, "TensorInit": by(TensorInit(activation=RELU2)),
    "RandomStart": by(RandomStart(activation=RELU2, biases=False))}


def run_once(arm: str, dim: int, samples: int, seed: int) -> Run:
    """Plant a network, recover it, compare."""
    rng = np.random.default_rng([seed, dim, samples])
    truth, source = planted(dim, samples, rng)
    begun = time.perf_counter()
    try:
        pair = ARMS[arm](source, rng)
    except LaybareError:  # too few samples, or a step too large: not recovered
        return Run(False, np.nan, time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    success = pair.found.width == WIDTH and recovered(pair.found, truth)
    if arm == "RandomStart":
        return Run(success, np.nan, seconds)
    return Run(success, max_relative_error(unit_readout(pair.start).layer.weights, truth.layer.weights), seconds)


def _study(settings: Settings) -> Outcome:
    dims, sizes = (ALL_DIMS, ALL_SAMPLES) if settings.full else (DIMS, SAMPLES)
    cells = [(arm, dim, size) for dim in dims for size in sizes for arm in ARMS]
    rows: list[tuple[Cell, ...]] = []
    rates: dict[tuple[str, int, int], float] = {}
    for done, (arm, dim, size) in enumerate(cells):
        runs = [run_once(arm, dim, size, seed) for seed in settings.seeds]
        count = sum(run.success for run in runs)
        errors = [run.start_error for run in runs if np.isfinite(run.start_error)]
        rates[arm, dim, size] = count / len(runs)
        rows.append((
            dim, size, arm, count, len(runs), round(float(np.mean(errors)), 3) if errors else "",
            round(float(np.median([run.seconds for run in runs])), 2)))
        if settings.progress is not None:
            settings.progress(Event("cells", done + 1, len(cells), f"d={dim}, n={size}, {arm}"))
    maps = {arm: np.array([[rates[arm, dim, size] for size in sizes] for dim in dims]) for arm in ARMS}
    columns = ("dim", "samples", "arm", "recovered", "runs", "mean start error", "median s")
    return Outcome(columns, rows, _sentence(rows), rates_figure(maps, dims, sizes))


def _sentence(rows: list[tuple[Cell, ...]]) -> str:
    parts = (
        f"{arm} {sum(int(r[3]) for r in rows if r[2] == arm)}/{sum(int(r[4]) for r in rows if r[2] == arm)}" for arm in ARMS)
    enough = "; ".join(f"{arm} {_enough(rows, arm)}" for arm in ARMS)
    return (
        f"Recovered over all cells: {', '.join(parts)}. The paper states that the least number of samples with 100 % recovery is "
        f"about proportional to the dimension; here, dimension: least number from which on every run recovered: {enough}.")


def _enough(rows: list[tuple[Cell, ...]], arm: str) -> str:
    """Of every dimension the least number of samples from which on all runs recovered."""
    found = []
    for dim in sorted({int(row[0]) for row in rows}):
        cells = sorted((int(r[1]), int(r[3]) == int(r[4])) for r in rows if (r[0], r[2]) == (dim, arm))
        failed = max((size for size, full in cells if not full), default=0)
        found.append(f"{dim}: {next((f'{size:,}' for size, _ in cells if size > failed), 'none')}")
    return ", ".join(found)


FIGURE_1A = Study(
    "zhong-fig1a", "Recovery of squared-ReLU networks over dimension and samples: the printed tensor method, ours, random starts",
    "The printed method's threshold in samples grows about proportionally to the dimension.", _study)
