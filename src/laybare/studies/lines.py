"""How many queries does a black box take? Lines against d and m, beside RandomStart at the same number of queries.

Teachers: unit rows, biases 0.5 N(0,1), |readout| uniform in [0.5, 1.5] with random signs, offset 0.3, noiseless float64. The
width is told to RandomStart, not to Lines. Queries are counted by the black box itself. P = width·(dim + 2) + 1 parameters.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import LaybareError
from laybare.methods import RandomStart
from laybare.methods.lines import Lines
from laybare.networks import Layer, Network, compare
from laybare.pipeline import recover
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.source import Oracle, Samples
from laybare.studies.study import EXACT_ERROR, Study, StudyResult, headings, over

CONTROL_LIMIT = 1500
"""Parameters up to which the control runs: beyond, RandomStart takes minutes."""


class LinesCell(NamedTuple):
    """Input dimension and hidden units."""

    dim: int
    width: int

    @property
    def parameters(self) -> int:
        return self.width * (self.dim + 2) + 1


class LinesGrid(NamedTuple):
    """Sizes (dim, width)."""

    sizes: tuple[tuple[int, int], ...]

    def cells(self) -> list[LinesCell]:
        return [LinesCell(*size) for size in self.sizes]


class LinesRun(NamedTuple):
    """Error, verdict, queries and seconds of Lines; error of RandomStart from as many samples (NaN if it was not run)."""

    error: float
    verdict: str
    queries: int
    seconds: float
    control: float


class LinesRow(NamedTuple):
    """A row of the table."""

    dim: int
    width: int
    parameters: int
    exact: int
    runs: int
    verified_but_wrong: int
    mean_queries: float
    queries_per_parameter: float
    largest_error: float
    median_s: float
    random_start_exact: int
    random_start_runs: int


def teacher(dim: int, width: int, rng: Generator) -> Network:
    """A network of the study."""
    rows = rng.standard_normal((width, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    readout = rng.uniform(0.5, 1.5, width) * rng.choice([-1.0, 1.0], width)
    return Network(Layer(rows, 0.5 * rng.standard_normal(width)), readout, 0.3)


class Counted:
    """A black box that counts its own queries."""

    def __init__(self, network: Network) -> None:
        self.network, self.queries = network, 0

    def __call__(self, x: Array) -> Array:
        self.queries += len(x)
        return self.network(x)


def run_once(cell: LinesCell, seed: int) -> LinesRun:
    """Plant a network, read it along lines, and give the control as many samples."""
    rng = np.random.default_rng([seed, cell.dim, cell.width])
    truth = teacher(cell.dim, cell.width, rng)
    box = Counted(truth)
    begun = time.perf_counter()
    found = recover(Oracle(box, cell.dim, budget=20 * cell.parameters + 500), Lines(), rng=rng)
    seconds = time.perf_counter() - begun
    return LinesRun(
        compare(found.network, truth).max_error, found.certificate.verdict, box.queries, seconds,
        control_error(truth, box.queries, rng) if cell.parameters <= CONTROL_LIMIT else np.nan)


def control_error(truth: Network, samples: int, rng: Generator) -> float:
    """RandomStart from as many Gaussian samples, the width told; infinite if it refuses."""
    x = rng.standard_normal((samples, truth.dim))
    try:
        return compare(recover(Samples(x, truth(x)), RandomStart(), truth.width, rng=rng).network, truth).max_error
    except LaybareError:
        return np.inf


def summary(grid: LinesGrid, runs: Mapping[LinesCell, list[LinesRun]]) -> StudyResult:
    """Exact recoveries and queries per parameter."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    exact, total = sum(row.exact for row in rows), sum(row.runs for row in rows)
    control, tried = sum(row.random_start_exact for row in rows), sum(row.random_start_runs for row in rows)
    shares = ", ".join(f"{row.queries_per_parameter:.2f} ({row.dim}-{row.width}-1)" for row in rows)
    sentence = (
        f"Lines: {exact}/{total} networks within {EXACT_ERROR:g}; queries per parameter {shares}. RandomStart from as many "
        f"samples: {control}/{tried}.")
    return StudyResult(headings(LinesRow), rows, sentence, _figure(rows))


def _row(cell: LinesCell, runs: list[LinesRun]) -> LinesRow:
    queries = float(np.mean([run.queries for run in runs]))
    wrong = sum(run.verdict == "verified" and run.error >= EXACT_ERROR for run in runs)
    control = [run.control for run in runs if not np.isnan(run.control)]
    return LinesRow(
        cell.dim, cell.width, cell.parameters, sum(run.error < EXACT_ERROR for run in runs), len(runs), wrong, queries,
        queries / cell.parameters, max(run.error for run in runs), float(np.median([run.seconds for run in runs])),
        sum(error < EXACT_ERROR for error in control), len(control))


def _figure(rows: list[LinesRow]) -> LinesFigure:
    ordered = sorted(rows, key=lambda row: row.parameters)
    sizes = [float(row.parameters) for row in ordered]
    return LinesFigure([
        Panel("queries", "parameters", "queries", [
            Curve("Lines", sizes, [row.mean_queries for row in ordered]),
            Curve("one per parameter", sizes, sizes, dashed=True)], "xy"),
        Panel("largest error", "parameters", "largest error of any number", [
            Curve("Lines", sizes, [max(row.largest_error, 1e-17) for row in ordered])], "xy"),
    ], "Queries and errors of Lines against the number of parameters")


SMALL = ((5, 3), (10, 5), (10, 10), (20, 10), (50, 10))

LINES = Study(
    "lines", "Queries per parameter of Lines, and RandomStart from as many samples",
    "About one query per parameter reads a network exactly; as many random samples are too few for any method.",
    LinesGrid(SMALL), LinesGrid((*SMALL, (10, 30), (10, 50), (100, 16), (784, 32))), over(LinesGrid.cells, run_once), summary)
