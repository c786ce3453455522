"""How often the truth lies within its error bars: weights, biases, readouts and offset, noise of one size and noise that varies.

6-5-1 networks with positive readouts, 420 samples, noise a tenth of y: constant, or in proportion to |x₀|; with `--full` also
50-20-1 networks, 1,041 numbers from 100,000 samples, whose errors come from some of the rows. Verified networks only: for others
error bars promise nothing. An interval is the estimate and 1.96 standard errors either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from laybare.errors import LaybareError
from laybare.methods import RandomStart
from laybare.networks import Network
from laybare.networks.alignment import paired
from laybare.networks.canonical import normalised, reflection
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.source import Samples
from laybare.studies.study import Settings, Study, StudyResult, every, headings

WITHIN = 1.96

LARGE = "constant, 1,041 numbers"


class CoverageGrid(NamedTuple):
    """Kinds of noise, or of networks."""

    kinds: tuple[str, ...]


class CoverageRun(NamedTuple):
    """Numbers within their intervals, and how many there are, by part; nothing if the network was not verified."""

    inside: tuple[int, ...]
    numbers: tuple[int, ...]


class CoverageRow(NamedTuple):
    """A row of the table."""

    noise: str
    networks: int
    weights: float
    biases: float
    readouts: float
    offset: float


def run_once(kind: str, seed: int) -> CoverageRun:
    """Plant, recover, count."""
    rng = np.random.default_rng([seed, len(kind)])
    dim, width, rows = (50, 20, 100_000) if kind == LARGE else (6, 5, 420)
    truth = random_network(dim, width, readout="signs" if kind == LARGE else "positive", rng=rng)
    x = rng.standard_normal((rows, dim))
    y = truth(x)
    size = np.abs(x[:, 0]) if kind == "varying" else np.ones(rows)
    try:
        found = recover(Samples(x, y + 0.1 * y.std() * size * rng.standard_normal(rows)), RandomStart(), width, rng=seed)
    except LaybareError:
        return CoverageRun((0,) * 4, (0,) * 4)
    if found.certificate.verdict != "verified":
        return CoverageRun((0,) * 4, (0,) * 4)
    return covered(found, truth)


def covered(found: Recovery, truth: Network) -> CoverageRun:
    """Numbers of the network within 1.96 standard errors of the truth's, its units paired with the true ones."""
    errors, activation = found.certificate.standard_errors, truth.activation
    mine, true = normalised(found.network.units, activation), normalised(truth.units, activation)
    turned, pick = paired(mine, true, reflection(activation), "hungarian")
    f, t = turned.take(pick.rows), true.take(pick.columns)
    order = [part[0] for part in f.parts]
    parts = (
        (f.weights - t.weights, errors.weights[order]), (f.biases - t.biases, errors.biases[order]),
        (f.readout - t.readout, np.asarray(errors.readout).reshape(len(order), -1)[order]),
        (turned.offset - true.offset, np.atleast_1d(errors.offset)))
    inside = tuple(int(np.sum(np.abs(difference) <= WITHIN * error)) for difference, error in parts)
    return CoverageRun(inside, tuple(int(difference.size) for difference, _ in parts))


def measure(settings: Settings[CoverageGrid]) -> dict[str, list[CoverageRun]]:
    """A network for every kind of noise and every seed."""
    return every(settings, settings.grid.kinds, run_once)


def summary(grid: CoverageGrid, runs: Mapping[str, list[CoverageRun]]) -> StudyResult:
    """Shares inside, by kind of noise and part."""
    rows = []
    for kind, each in runs.items():
        inside, count = (np.sum([getattr(run, name) for run in each], axis=0) for name in ("inside", "numbers"))
        shares = inside / np.maximum(count, 1)
        rows.append(CoverageRow(kind, int(count[3]), *(float(share) for share in shares)))
    told = "; ".join(f"{row.noise} noise: " + ", ".join(f"{share:.1%}" for share in row[2:]) for row in rows)
    return StudyResult(headings(CoverageRow), rows, f"Weights, biases, readouts, offset within 1.96 standard errors: {told}.")


GRID, FULL = CoverageGrid(("constant", "varying")), CoverageGrid(("constant", "varying", LARGE))
COVERAGE = Study(
    "coverage", "How often the truth lies within 1.96 standard errors, for verified 6-5-1 networks from 420 noisy samples",
    "93 to 97 % for every part, under noise of one size and under noise that varies.", GRID, FULL, measure, summary)
