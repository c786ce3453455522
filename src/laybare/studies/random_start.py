"""How many samples does RandomStart need? Random directions, spare units, repair and pruning against plain restarts of nothing.

Teachers: unit rows, biases 0.4 N(0,1), |readout| uniform in [0.5, 1.5] with random signs, noiseless, x ~ N(0, I). A run succeeds
if every weight, bias and readout is within 1e-10 of the truth. P = width·(dim + 2) + 1; the limit is one sample per parameter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from laybare.methods import RandomStart
from laybare.networks import compare
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.refinement.hunt import Search
from laybare.source import Samples
from laybare.studies.study import EXACT_ERROR, Count, Study, StudyResult, headings, over, tally

ARMS = {
    "exact width, one run": Search(spares=0, hops=0),
    "exact width, 8 repairs": Search(spares=0, hops=8),
    "spares, 8 repairs": Search(hops=8),
    "spares, 8 repairs half from moments": Search(hops=8, peel=True),
}
RATIOS = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)


class OverwideCell(NamedTuple):
    """A planted problem and an arm: input dimension, hidden units, samples, name of the arm."""

    dim: int
    width: int
    samples: int
    arm: str

    @property
    def parameters(self) -> int:
        return parameters(self.dim, self.width)


class OverwideGrid(NamedTuple):
    """Sizes (dim, width, samples) and arms."""

    sizes: tuple[tuple[int, int, int], ...]
    arms: tuple[str, ...] = tuple(ARMS)

    def cells(self) -> list[OverwideCell]:
        return [OverwideCell(*size, arm) for size in self.sizes for arm in self.arms]


class OverwideRun(NamedTuple):
    """One recovery: the largest parameter error, the verdict, seconds."""

    error: float
    verdict: str
    seconds: float


class OverwideRow(NamedTuple):
    """A row of the table."""

    dim: int
    width: int
    samples: int
    samples_per_parameter: float
    arm: str
    exact: int
    runs: int
    verified_but_wrong: int
    median_s: float


def parameters(dim: int, width: int) -> int:
    """P: weights, biases and readouts, and the offset."""
    return width * (dim + 2) + 1


def run_once(cell: OverwideCell, seed: int) -> OverwideRun:
    """Plant a network, recover it with the width given, compare."""
    dim, width, samples, arm = cell
    rng = np.random.default_rng([seed, dim, width, samples])
    truth = random_network(dim, width, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((samples, dim))
    begun = time.perf_counter()
    found = recover(Samples(x, truth(x)), RandomStart(search=ARMS[arm]), width, rng=rng)
    seconds = time.perf_counter() - begun
    return OverwideRun(compare(found.network, truth).max_error, found.certificate.verdict, seconds)


def summary(grid: OverwideGrid, runs: Mapping[OverwideCell, list[OverwideRun]]) -> StudyResult:
    """Exact recoveries of every size and arm."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    counts = {arm: [Count(r.exact, r.runs, r.verified_but_wrong) for r in rows if r.arm == arm] for arm in grid.arms}
    return StudyResult(headings(OverwideRow), rows, f"Exact recoveries over all sizes: {tally(counts)}.")


def _row(cell: OverwideCell, runs: list[OverwideRun]) -> OverwideRow:
    wrong = sum(run.verdict == "verified" and run.error >= EXACT_ERROR for run in runs)
    return OverwideRow(
        cell.dim, cell.width, cell.samples, cell.samples / cell.parameters, cell.arm,
        sum(run.error < EXACT_ERROR for run in runs), len(runs), wrong, float(np.median([run.seconds for run in runs])))


def _ratios(*shapes: tuple[int, int]) -> OverwideGrid:
    return OverwideGrid(tuple((d, k, round(ratio * parameters(d, k))) for d, k in shapes for ratio in RATIOS))


SIZES = ((10, 5, 300), (10, 10, 600), (20, 10, 1200), (10, 30, 3000))

OVERWIDE = Study(
    "overwide", "RandomStart at about five samples per parameter: exact width against spare units and repairs",
    "Spare units and repairs recover every network to 1e-10; exact width in one run does not.",
    OverwideGrid(SIZES), OverwideGrid((*SIZES, (10, 50, 8000))), over(OverwideGrid.cells, run_once), summary)
RATIO = Study(
    "samples-per-parameter", "Success of RandomStart against samples per parameter, from 1.5 to 10 (the limit is 1)",
    "About 5 samples per parameter suffice; 1.6 mostly fail.",
    _ratios((10, 5), (10, 10)), _ratios((10, 5), (10, 10), (20, 10)), over(OverwideGrid.cells, run_once), summary)
