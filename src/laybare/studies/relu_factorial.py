"""What does the spectral start of a ReLU network with biases buy? Start × spare units, with everything else equal.

Teachers: unit rows in Gaussian directions, biases uniform in [-1.5, 1.5], |readout| uniform in [0.5, 1.5] with random signs,
noiseless, x ~ N(0, I). Both starts see the same `solver` samples in the solver (one run of the sign-free model, pruning, no
repairs); only the spectral start sees all `samples`, for its moments. A run succeeds at a relative rmse below 1e-8.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import relu
from laybare.methods.general_relu.routes import JointSpan
from laybare.networks import Network
from laybare.planted import random_network
from laybare.refinement.hunt import Search
from laybare.refinement.overwide import over_wide
from laybare.refinement.sign_free import sign_free_model
from laybare.refinement.variation import total_variation
from laybare.shapes import Array
from laybare.source import Gaussian, Samples, Source
from laybare.studies.study import Study, StudyResult, headings, over

SPARES = (0, 2, 4)
FOUND = 0.9
"""|cosine| at which a true unit counts as found by the start."""

SUCCESS = 1e-16
"""Relative loss, the square of a relative rmse of 1e-8."""


STARTS = ("moments", "random")


class FactorialCell(NamedTuple):
    """Inputs, hidden units, samples for the moments and for the solver."""

    dim: int
    width: int
    samples: int
    solver: int = 4000


FactorialGrid = tuple[FactorialCell, ...]


class FactorialRun(NamedTuple):
    """Share of units that the start found (NaN for random ones), successes for each number of spares, seconds each."""

    found: float
    success: tuple[bool, ...]
    seconds: tuple[float, ...]


class FactorialRow(NamedTuple):
    """A row of the table; networks fitted to rounding and seconds without spares, with two and with four."""

    dim: int
    width: int
    samples: int
    in_solver: int
    start: str
    units_found: float | str
    without_spares: int
    with_2_spares: int
    with_4_spares: int
    runs: int
    s_without_spares: float
    s_with_2_spares: float
    s_with_4_spares: float


def planted(dim: int, width: int, samples: int, rng: Generator) -> tuple[Network, Samples]:
    """The teacher of this study and samples from it."""
    truth = random_network(dim, width, biases=1.5, readout="random", rng=rng)
    x = rng.standard_normal((samples, dim))
    return truth, Samples(x, truth(x), law=Gaussian(0, 1))


def share_found(rows: Array, truth: Network, cosine: float = FOUND) -> float:
    """Share of true units with a found direction within that |cosine|."""
    ours, theirs = (w / np.linalg.norm(w, axis=1)[:, None] for w in (rows[:, : truth.dim], truth.layer.weights))
    return float(np.mean(np.abs(theirs @ ours.T).max(axis=1, initial=0.0) > cosine))


def run_once(size: FactorialCell, seed: int) -> dict[str, FactorialRun]:
    """Both starts on one planted network."""
    truth, source = planted(size.dim, size.width, size.samples, np.random.default_rng([seed, size.dim, size.width, size.samples]))
    begun = time.perf_counter()
    units = JointSpan().units(source, size.width, relu, rng=np.random.default_rng(seed))
    seconds = time.perf_counter() - begun
    rows = np.zeros((0, size.dim + 1)) if units is None else units.network.layer.rows
    part = source.take(min(size.solver, source.size))
    return {
        "moments": _solved(part, size.width, rows, seed, share_found(rows, truth), seconds),
        "random": _solved(part, size.width, None, seed, np.nan, 0.0)}


def _solved(part: Source, width: int, known: Array | None, seed: int, found: float, before: float) -> FactorialRun:
    success, seconds, scale = [], [], total_variation(part)
    for spares in SPARES:
        begun = time.perf_counter()
        fit = over_wide(
            part, sign_free_model(relu, biases=True), width, known, search=Search(spares=spares, hops=0),
            rng=np.random.default_rng([seed, spares]))
        success.append(fit.loss < SUCCESS * scale)
        seconds.append(before + time.perf_counter() - begun)
    return FactorialRun(found, tuple(success), tuple(seconds))


def summary(grid: FactorialGrid, runs: Mapping[FactorialCell, list[dict[str, FactorialRun]]]) -> StudyResult:
    """How often one run of the solver fits to rounding, by start and spares."""
    rows = [_row(cell, start, [run[start] for run in each]) for cell, each in runs.items() for start in STARTS]
    parts = [_fits(start, [row for row in rows if row.start == start]) for start in STARTS]
    return StudyResult(headings(FactorialRow), rows, f"Fitted to rounding in one run: {'; '.join(parts)}.")


def _row(cell: FactorialCell, start: str, runs: list[FactorialRun]) -> FactorialRow:
    found = float(np.mean([run.found for run in runs]))
    without, two, four = (sum(run.success[i] for run in runs) for i in range(len(SPARES)))
    seconds = (float(s) for s in np.median([run.seconds for run in runs], axis=0))
    return FactorialRow(*cell, start, "" if np.isnan(found) else found, without, two, four, len(runs), *seconds)


def _fits(start: str, rows: list[FactorialRow]) -> str:
    counts = ([row.without_spares for row in rows], [row.with_2_spares for row in rows], [row.with_4_spares for row in rows])
    told = ", ".join(f"{sum(count)} with {spares} spares" for count, spares in zip(counts, SPARES, strict=True))
    return f"{start} {told} (of {sum(row.runs for row in rows)} each)"


QUICK = (
    FactorialCell(8, 8, 5000), FactorialCell(8, 8, 100_000), FactorialCell(8, 12, 20_000), FactorialCell(8, 12, 300_000))

FACTORIAL = Study(
    "relu-factorial", "ReLU networks with biases: start from moments or at random, with 0, 2 or 4 spare units, one run",
    "Moments help at exact width once they find nearly all units; with spare units random directions do as well.",
    QUICK, (*QUICK, FactorialCell(20, 20, 20_000, 8800), FactorialCell(8, 20, 1_000_000)),
    over(lambda grid: grid, run_once), summary)
