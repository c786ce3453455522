"""How many samples does RandomStart need? Random directions, spare units, repair and pruning against plain restarts of nothing.

Teachers: unit rows, biases 0.4 N(0,1), |readout| uniform in [0.5, 1.5] with random signs, noiseless, x ~ N(0, I). A run succeeds
if every weight, bias and readout is within 1e-10 of the truth. P = width·(dim + 2) + 1; the limit is one sample a parameter.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from laybare.methods import RandomStart
from laybare.networks import compare
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.refinement.overwide import Search
from laybare.shapes import Event
from laybare.source import Samples
from laybare.studies.study import EXACT_ERROR, Cell, Outcome, Settings, Study, tally

ARMS = {
    "exact width, one run": Search(spares=0, hops=0),
    "exact width, 8 repairs": Search(spares=0, hops=8),
    "spares, 8 repairs": Search(hops=8),
    "spares, 8 repairs half from moments": Search(hops=8, peel=True),
}
RATIOS = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)


class Size(NamedTuple):
    """A planted problem: input dimension, hidden units, samples."""

    dim: int
    width: int
    samples: int

    @property
    def parameters(self) -> int:
        return self.width * (self.dim + 2) + 1


class Run(NamedTuple):
    """One recovery: the largest parameter error, the verdict, seconds."""

    error: float
    verdict: str
    seconds: float


def run_once(size: Size, search: Search, seed: int) -> Run:
    """Plant a network, recover it with the width given, compare."""
    rng = np.random.default_rng([seed, size.dim, size.width, size.samples])
    truth = random_network(size.dim, size.width, biases=0.4, bias_law="normal", readout="random", rng=rng)
    x = rng.standard_normal((size.samples, size.dim))
    begun = time.perf_counter()
    found = recover(Samples(x, truth(x)), RandomStart(search=search), size.width, rng=rng)
    seconds = time.perf_counter() - begun
    return Run(compare(found.network, truth).max_error, found.certificate.verdict, seconds)


def _rows(sizes: list[Size], settings: Settings) -> Iterator[tuple[Cell, ...]]:
    total = len(sizes) * len(ARMS)
    for done, (size, (arm, search)) in enumerate((size, arm) for size in sizes for arm in ARMS.items()):
        runs = [run_once(size, search, seed) for seed in settings.seeds]
        exact = [run for run in runs if run.error < EXACT_ERROR]
        false = sum(run.verdict == "verified" and run.error >= EXACT_ERROR for run in runs)
        yield (
            size.dim, size.width, size.samples, round(size.samples / size.parameters, 2), arm, len(exact), len(runs), false,
            round(float(np.median([run.seconds for run in runs])), 2))
        if settings.progress is not None:
            settings.progress(Event("runs", done + 1, total, f"{size.dim}-{size.width}-1, n={size.samples}, {arm}"))


COLUMNS = ("dim", "width", "samples", "samples/P", "arm", "exact", "runs", "verified but wrong", "median s")


def _acceptance(settings: Settings) -> Outcome:
    sizes = [Size(10, 5, 300), Size(10, 10, 600), Size(20, 10, 1200), Size(10, 30, 3000)]
    if settings.full:
        sizes.append(Size(10, 50, 8000))
    rows = list(_rows(sizes, settings))
    return Outcome(COLUMNS, rows, _sentence(rows))


def _ratios(settings: Settings) -> Outcome:
    shapes = [(10, 5), (10, 10), (20, 10)] if settings.full else [(10, 5), (10, 10)]
    sizes = [Size(d, k, round(ratio * (k * (d + 2) + 1))) for d, k in shapes for ratio in RATIOS]
    rows = list(_rows(sizes, settings))
    return Outcome(COLUMNS, rows, _sentence(rows))


def _sentence(rows: list[tuple[Cell, ...]]) -> str:
    return f"Exact recoveries over all sizes: {tally(rows, ARMS, 4)}."


OVERWIDE = Study(
    "overwide", "RandomStart at about five samples a parameter: exact width against spare units and repairs",
    "Spare units and repairs recover every network to 1e-10; exact width in one run does not.", _acceptance)
RATIO = Study(
    "samples-per-parameter", "Success of RandomStart against samples a parameter, from 1.5 to 10 (the limit is 1)",
    "About 5 samples a parameter suffice; 1.6 mostly fail.", _ratios)
