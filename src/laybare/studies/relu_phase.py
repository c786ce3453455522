"""How many samples do ReLU networks with biases take, over the ratio of units to inputs? GeneralReLU and RandomStart.

Teachers as in relu-factorial, 8 inputs. A run succeeds if every weight, bias and readout is within 1e-10 of the truth, signs
included.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from laybare.errors import TooFewSamples
from laybare.methods import GeneralReLU, Method, RandomStart
from laybare.networks import compare
from laybare.pipeline import recover
from laybare.report.plots import RatesFigure
from laybare.studies.relu_factorial import planted
from laybare.studies.study import EXACT_ERROR, Count, Study, StudyResult, headings, over, tally

DIM = 8
ARMS: dict[str, Method] = {"GeneralReLU": GeneralReLU(), "RandomStart": RandomStart()}


class PhaseCell(NamedTuple):
    """Hidden units, samples, name of the arm."""

    width: int
    samples: int
    arm: str


class PhaseGrid(NamedTuple):
    """Widths and sample sizes; every arm in each of them."""

    widths: tuple[int, ...]
    samples: tuple[int, ...]

    def cells(self) -> list[PhaseCell]:
        return [PhaseCell(width, samples, arm) for width in self.widths for samples in self.samples for arm in ARMS]


class PhaseRun(NamedTuple):
    """Whether the network was recovered, whether the certificate said verified though it was not, seconds."""

    success: bool
    wrong: bool
    seconds: float


class PhaseRow(NamedTuple):
    """A row of the table."""

    width: int
    units_per_input: float
    samples: int
    method: str
    exact: int
    runs: int
    verified_but_wrong: int
    median_s: float


def run_once(cell: PhaseCell, seed: int) -> PhaseRun:
    """Plant, recover with the width told, compare; too few samples count as failure."""
    width, samples, arm = cell
    rng = np.random.default_rng([seed, width, samples])
    truth, source = planted(DIM, width, samples, rng)
    begun = time.perf_counter()
    try:
        found = recover(source, ARMS[arm], width, rng=rng)
    except TooFewSamples:
        return PhaseRun(False, False, time.perf_counter() - begun)
    success = compare(found.network, truth).max_error < EXACT_ERROR
    return PhaseRun(success, not success and found.certificate.verdict == "verified", time.perf_counter() - begun)


def summary(grid: PhaseGrid, runs: Mapping[PhaseCell, list[PhaseRun]]) -> StudyResult:
    """Exact recoveries in every cell, and a map of them for every arm."""
    rows = [_row(cell, each) for cell, each in runs.items()]
    counts = {arm: [Count(r.exact, r.runs, r.verified_but_wrong) for r in rows if r.method == arm] for arm in ARMS}
    rates = {cell: sum(run.success for run in each) / len(each) for cell, each in runs.items()}
    maps = {arm: np.array([[rates[PhaseCell(k, n, arm)] for n in grid.samples] for k in grid.widths]) for arm in ARMS}
    figure = RatesFigure(maps, grid.widths, grid.samples, row=f"units (d = {DIM})")
    return StudyResult(headings(PhaseRow), rows, f"Exact recoveries over all cells: {tally(counts)}.", figure)


def _row(cell: PhaseCell, runs: list[PhaseRun]) -> PhaseRow:
    return PhaseRow(
        cell.width, cell.width / DIM, cell.samples, cell.arm, sum(run.success for run in runs), len(runs),
        sum(run.wrong for run in runs), float(np.median([run.seconds for run in runs])))


PHASE = Study(
    "relu-phase", "Exact recovery of ReLU networks with biases over units per input and samples",
    "The samples needed grow in proportion to the number of units, below and beyond the dimension alike.",
    PhaseGrid((4, 8, 16, 24), (125, 250, 500, 1000, 2000)),
    PhaseGrid((2, 4, 6, 8, 12, 16, 20, 24, 28, 32), (250, 500, 1000, 2000, 4000, 8000, 16_000)),
    over(PhaseGrid.cells, run_once), summary, seeds=5)
