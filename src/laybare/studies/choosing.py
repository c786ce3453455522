"""Nothing is told: does `recover(source)` find the network by itself? Cases drawn from the settings of all five papers.

Each case is well posed in its own setting: Gaussian inputs without biases (Zhong et al.), positive readouts (Ge, Lee and Ma),
symmetric inputs and several outputs (Ge et al.), biases and more units (Awasthi et al.), and units that are rarely active under a
further layer (Goel and Panigrahy). There is no noise, or a hundredth of the spread of y. Width, activation and method are
not told. In the last setting no network of one hidden layer is behind the data: there `recover` must be refuted and name
`recover_layer`, which then finds the layer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.errors import LaybareError
from laybare.lowest_layer import HighThreshold, recover_layer
from laybare.networks import Network, compare, max_angle
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.planted.high_thresholds import PlantedTarget, polynomial_top, threshold_layer
from laybare.planted.inputs import cube_inputs, laplace_inputs
from laybare.shapes import Array
from laybare.source import Samples
from laybare.studies.hostile import upper_bound
from laybare.studies.study import Settings, Study, StudyResult, headings

LEVELS = (0.0, 0.01)
SECONDS = 15.0
"""What a recovery may take; it matters where no network of one hidden layer is behind the data."""

CLOSE = 10.0
"""Largest error of a number, in noise over spread of y; without noise 1e-6 at most."""

NEAR = 0.05
"""Radians within which a layer is found."""


class UntoldCase(NamedTuple):
    """Samples, and what is behind them: a network, or a layer under another function."""

    x: Array
    y: Array
    truth: Network | PlantedTarget
    noise: float


class UntoldRun(NamedTuple):
    """Whether the truth was found, by which method, with which verdict, in how many seconds."""

    found: bool
    method: str
    verdict: str
    seconds: float


class UntoldRow(NamedTuple):
    """A row of the table."""

    setting: str
    runs: int
    found: int
    verified: int
    verified_but_wrong: int
    methods: str
    median_s: float


def _sampled(truth: Network, x: Array, rng: Generator) -> UntoldCase:
    noise, y = float(rng.choice(LEVELS)), truth(x)
    return UntoldCase(x, y + noise * y.std(axis=0) * rng.standard_normal(y.shape), truth, noise)


def bias_free(rng: Generator) -> UntoldCase:
    """Gaussian inputs, units without biases, any signs: Zhong et al."""
    dim = int(rng.integers(4, 12))
    width = int(rng.integers(2, min(dim, 6)))
    truth = random_network(dim, width, biases=0.0, condition=2.0, rng=rng)
    return _sampled(truth, rng.standard_normal((20 * width * (dim + 2), dim)), rng)


def positive(rng: Generator) -> UntoldCase:
    """The same with positive readouts: Ge, Lee and Ma."""
    dim = int(rng.integers(4, 12))
    width = int(rng.integers(2, min(dim, 6)))
    truth = random_network(dim, width, biases=0.0, condition=2.0, readout="positive", rng=rng)
    return _sampled(truth, rng.standard_normal((20 * width * (dim + 2), dim)), rng)


def symmetric(rng: Generator) -> UntoldCase:
    """Inputs of a symmetric law, as many outputs as units at least, no biases: Ge et al."""
    dim = int(rng.integers(3, 9))
    width = int(rng.integers(2, dim + 1))
    truth = random_network(dim, width, outputs=width + int(rng.integers(3)), biases=0.0, condition=2.0, rng=rng)
    rows = 12 * width * (dim + 2)
    draw = (cube_inputs, laplace_inputs)[rng.integers(2)]
    return _sampled(truth, draw(rows, dim, rng=rng), rng)


def general(rng: Generator) -> UntoldCase:
    """Biases, Gaussian inputs, any width: Awasthi et al."""
    dim, width = int(rng.integers(3, 9)), int(rng.integers(2, 7))
    truth = random_network(dim, width, biases=0.7, readout="random", rng=rng)
    return _sampled(truth, rng.standard_normal((25 * width * (dim + 2), dim)), rng)


def rare(rng: Generator) -> UntoldCase:
    """Units that are rarely active under a cubic top: Goel and Panigrahy."""
    layer = threshold_layer(4, 3, relu, 1.5, rng=rng)
    truth = PlantedTarget(layer, polynomial_top(3, 3, mixed=True, rng=rng))
    x = rng.standard_normal((4000, 4))
    return UntoldCase(x, np.asarray(truth(x)), truth, 0.0)


SETTINGS: dict[str, Callable[[Generator], UntoldCase]] = {
    "bias-free": bias_free, "positive readouts": positive, "symmetric inputs": symmetric, "biases": general, "rare units": rare}


def run_once(setting: str, seed: int) -> UntoldRun:
    """Draw a case, tell nothing, compare."""
    case = SETTINGS[setting](np.random.default_rng([seed, len(setting)]))
    source, begun = Samples(case.x, case.y), time.perf_counter()
    try:
        found = recover(source, rng=seed, seconds=SECONDS)
    except LaybareError as refusal:
        return UntoldRun(False, type(refusal).__name__, "refused", time.perf_counter() - begun)
    if isinstance(case.truth, PlantedTarget):
        return _layer_run(case.truth, source, found, seed, begun)
    return UntoldRun(_is_truth(found, case), found.found_by, found.certificate.verdict, time.perf_counter() - begun)


def _is_truth(found: Recovery, case: UntoldCase) -> bool:
    assert isinstance(case.truth, Network)
    same = found.network.width == case.truth.width and found.network.activation == case.truth.activation
    return same and compare(found.network, case.truth).max_error <= max(1e-6, CLOSE * case.noise)


def _layer_run(truth: PlantedTarget, source: Samples, found: Recovery, seed: int, begun: float) -> UntoldRun:
    """Follow the advice of a refutation, if that is what it was."""
    named = any("recover_layer" in claim.explanation for claim in found.certificate.claims if claim.name == "methods tried")
    if found.certificate.verdict != "refuted" or not named:
        return UntoldRun(False, found.found_by, found.certificate.verdict, time.perf_counter() - begun)
    layer = recover_layer(source, HighThreshold(), rng=seed)
    near = layer.layer.width == truth.layer.width and max_angle(layer.layer.weights, truth.layer.weights) < NEAR
    return UntoldRun(near, "HighThreshold", layer.certificate.verdict, time.perf_counter() - begun)


class UntoldGrid(NamedTuple):
    """The settings, which take turns: seed s draws from number s modulo their count."""

    settings: tuple[str, ...]


def measure(settings: Settings[UntoldGrid]) -> dict[str, list[UntoldRun]]:
    """One case for every seed."""
    names = settings.grid.settings
    runs: dict[str, list[UntoldRun]] = {name: [] for name in names}
    for done, seed in enumerate(settings.seeds, 1):
        name = names[seed % len(names)]
        runs[name].append(run_once(name, seed))
        settings.tick("cases", done, len(settings.seeds), name)
    return {name: each for name, each in runs.items() if each}


def summary(grid: UntoldGrid, runs: Mapping[str, list[UntoldRun]]) -> StudyResult:
    """Counts of every setting, and over all."""
    every = [run for each in runs.values() for run in each]
    found = sum(run.found for run in every)
    wrong = sum(run.verdict == "verified" and not run.found for run in every)
    return StudyResult(
        headings(UntoldRow), [_row(name, each) for name, each in runs.items()],
        f"Found untold: {found} of {len(every)} ({found / len(every):.1%}; misses at most "
        f"{upper_bound(len(every) - found, len(every)):.1%} with 95 % confidence). Verified but wrong: {wrong}.")


def _row(setting: str, runs: list[UntoldRun]) -> UntoldRow:
    names = [run.method for run in runs]
    methods = ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names)))
    verified = [run for run in runs if run.verdict == "verified"]
    return UntoldRow(
        setting, len(runs), sum(run.found for run in runs), len(verified), sum(not run.found for run in verified), methods,
        float(np.median([run.seconds for run in runs])))


GRID = UntoldGrid(tuple(SETTINGS))
CHOOSE = Study(
    "choose", "recover(source) with nothing told, on well-posed cases from the settings of five papers",
    "At least 95 % are found.", GRID, GRID, measure, summary)
