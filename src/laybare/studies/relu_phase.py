"""How many samples do ReLU networks with biases take, over the ratio of units to inputs? GeneralReLU and RandomStart.

Teachers as in relu-factorial, 8 inputs. A run succeeds if every weight, bias and readout is within 1e-10 of the truth, signs
included.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from laybare.errors import TooFewSamples
from laybare.methods import GeneralReLU, Method, RandomStart
from laybare.networks import compare
from laybare.pipeline import recover
from laybare.report.plots import rates_figure
from laybare.shapes import Event
from laybare.studies.relu_factorial import planted
from laybare.studies.study import EXACT_ERROR, Cell, Outcome, Settings, Study, tally

DIM = 8
WIDTHS, SAMPLES = (4, 8, 16, 24), (500, 1000, 2000, 4000)
ALL_WIDTHS, ALL_SAMPLES = (2, 4, 6, 8, 12, 16, 20, 24, 28, 32), (250, 500, 1000, 2000, 4000, 8000, 16_000)
ARMS: dict[str, Method] = {"GeneralReLU": GeneralReLU(), "RandomStart": RandomStart()}


class Run(NamedTuple):
    """Whether the network was recovered, whether the certificate said verified though it was not, seconds."""

    success: bool
    wrong: bool
    seconds: float


def run_once(arm: str, width: int, samples: int, seed: int) -> Run:
    """Plant, recover with the width told, compare; too few samples count as failure."""
    rng = np.random.default_rng([seed, width, samples])
    truth, source = planted(DIM, width, samples, rng)
    begun = time.perf_counter()
    try:
        found = recover(source, ARMS[arm], width, rng=rng)
    except TooFewSamples:
        return Run(False, False, time.perf_counter() - begun)
    success = compare(found.network, truth).max_error < EXACT_ERROR
    return Run(success, not success and found.certificate.verdict == "verified", time.perf_counter() - begun)


def _study(settings: Settings) -> Outcome:
    widths, sizes = (ALL_WIDTHS, ALL_SAMPLES) if settings.full else (WIDTHS, SAMPLES)
    cells = [(width, samples, arm) for width in widths for samples in sizes for arm in ARMS]
    rows: list[tuple[Cell, ...]] = []
    for done, (width, samples, arm) in enumerate(cells):
        runs = [run_once(arm, width, samples, seed) for seed in settings.seeds]
        rows.append((
            width, round(width / DIM, 2), samples, arm, sum(run.success for run in runs), len(runs),
            sum(run.wrong for run in runs), round(float(np.median([run.seconds for run in runs])), 2)))
        if settings.progress is not None:
            settings.progress(Event("cells", done + 1, len(cells), f"m={width}, n={samples}, {arm}"))
    maps = {
        arm: np.array([[_rate(rows, width, samples, arm) for samples in sizes] for width in widths]) for arm in ARMS}
    columns = ("width", "m/d", "samples", "method", "exact", "runs", "verified but wrong", "median s")
    return Outcome(columns, rows, _sentence(rows), rates_figure(maps, widths, sizes, row=f"units (d = {DIM})"))


def _rate(rows: list[tuple[Cell, ...]], width: int, samples: int, arm: str) -> float:
    (row,) = (row for row in rows if (row[0], row[2], row[3]) == (width, samples, arm))
    return int(row[4]) / int(row[5])


def _sentence(rows: list[tuple[Cell, ...]]) -> str:
    return f"Exact recoveries over all cells: {tally(rows, ARMS, 3)}."


PHASE = Study(
    "relu-phase", "Exact recovery of ReLU networks with biases over units per input and samples",
    "The samples needed grow in proportion to the number of units, below and beyond the dimension alike.", _study)
