"""Deep networks read out of a black box: queries, seconds and error against depth and widths, beside the published figures.

Rows N(0, I / fan-in), biases N(0, 1/4), answers in float64, depth and widths unknown. A network counts if every unit that bends
for some input is found with its sign, all numbers agree to 1e-8 in canonical form, and so do the outputs. Published: Carlini,
Jagielski and Mironov (2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from laybare.errors import LaybareError
from laybare.methods import Lines
from laybare.pipeline import recover
from laybare.planted import random_network
from laybare.source import Oracle
from laybare.studies.deep_agreement import agreement
from laybare.studies.study import Study, StudyResult, headings, over

BUDGET = 2**20
RIGHT = 1e-8
FIRST_SEED = 1000
"""Seeds on which nothing was tuned."""

PUBLISHED: dict[tuple[int, ...], str] = {(10, 10, 10, 1): "2^16", (80, 40, 20, 1): "2^18.5"}


class Grid(NamedTuple):
    """Inputs, widths and outputs of every network."""

    shapes: tuple[tuple[int, ...], ...]


class Run(NamedTuple):
    """Queries, seconds, the largest error (infinite if a unit is missing), and whether it was verified."""

    queries: int
    seconds: float
    error: float
    verified: bool


class Row(NamedTuple):
    """One shape over all seeds."""

    network: str
    right: str
    right_and_verified: int
    verified_but_wrong: int
    log2_queries: float
    published: str
    median_error: float
    largest_seconds: float


def _run(shape: tuple[int, ...], seed: int) -> Run:
    truth = random_network(shape[0], widths=shape[1:-1], outputs=shape[-1], rng=FIRST_SEED + seed)
    oracle = Oracle(truth, dim=truth.dim, budget=BUDGET, rng=seed)
    try:
        found = recover(oracle, Lines(depth=None), rng=seed)
    except LaybareError:
        return Run(oracle.spent, np.nan, np.inf, False)
    return Run(oracle.spent, found.seconds, max(agreement(found.network, truth)), found.certificate.verdict == "verified")


def _row(shape: tuple[int, ...], runs: Sequence[Run]) -> Row:
    right = sum(run.error <= RIGHT for run in runs)
    wrong = sum(run.verified and run.error > RIGHT for run in runs)
    return Row(
        "-".join(map(str, shape)), f"{right}/{len(runs)}", sum(run.verified and run.error <= RIGHT for run in runs), wrong,
        float(np.log2(np.mean([run.queries for run in runs]))), PUBLISHED.get(shape, ""),
        float(np.median([run.error for run in runs])), float(np.nanmax([run.seconds for run in runs])))


def _summary(grid: Grid, runs: Mapping[tuple[int, ...], Sequence[Run]]) -> StudyResult:
    rows = [_row(shape, runs[shape]) for shape in grid.shapes]
    every = [run for shape in grid.shapes for run in runs[shape]]
    right, wrong = sum(run.error <= RIGHT for run in every), sum(row.verified_but_wrong for row in rows)
    sentence = f"{right} of {len(every)} networks are recovered to 1e-8 in every number; verified but wrong: {wrong}."
    return StudyResult(headings(Row), rows, sentence)


DEEP = Study(
    "deep", "deep ReLU networks read along lines, layer by layer: queries, seconds, error",
    "Carlini et al. (2020) extract 10-10-10-1 with 2^16 queries, and 80-40-20-1 (4,000 parameters) with 2^18.5.",
    Grid(((10, 10, 10, 1), (20, 15, 10, 1))),
    Grid(((10, 10, 10, 1), (20, 15, 10, 1), (80, 40, 20, 1), (40, 20, 10, 10, 1), (16, 12, 8, 6, 1), (20, 16, 12, 3))),
    over(lambda grid: grid.shapes, _run), _summary)

DEEP_LARGE = Study(
    "deep-large", "deep networks on 784 inputs, one of them with ten outputs, read along lines",
    "Carlini et al. (2020) extract networks of one hidden layer of this size, 784-128-1, with 2^21.5 queries in under an hour.",
    Grid(((784, 32, 16, 10),)), Grid(((784, 32, 16, 10), (784, 128, 64, 1))), DEEP.measure, _summary, seeds=2)
