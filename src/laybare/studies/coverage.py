"""Do the error bars of verified networks cover the truth: rows that are independent, in groups, in an order, or repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import LaybareError
from laybare.methods import RandomStart
from laybare.networks import Network
from laybare.networks.canonical import normalise_units, reflection
from laybare.networks.pairing import match_units
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.planted import random_network
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.hostile_cases import remembering
from laybare.studies.study import Study, StudyMeasurement, table


class CoverageRun(NamedTuple):
    """Parameters within their intervals, and their number, by part; nothing if the network was not verified."""

    inside: tuple[int, ...]
    numbers: tuple[int, ...]


class DependentRows(NamedTuple):
    """Inputs (n, d), noise (n,) of variance one, and the labels of groups, if these are given."""

    x: Array
    noise: Array
    groups: Array | None = None


def independent(rng: Generator, rows: int, dim: int) -> DependentRows:
    """Noise of one size."""
    return DependentRows(rng.standard_normal((rows, dim)), rng.standard_normal(rows))


def varying(rng: Generator, rows: int, dim: int) -> DependentRows:
    """Noise in proportion to |x₀|."""
    x = rng.standard_normal((rows, dim))
    return DependentRows(x, np.abs(x[:, 0]) * rng.standard_normal(rows))


def in_groups(rng: Generator, rows: int, dim: int) -> DependentRows:
    """Groups of ten rows: inputs near each other (correlation .8), half of the noise in common; nobody says so."""
    member = np.arange(rows) // 10
    centres, shared = rng.standard_normal((member[-1] + 1, dim)), rng.standard_normal(member[-1] + 1)
    x = np.sqrt(0.8) * centres[member] + np.sqrt(0.2) * rng.standard_normal((rows, dim))
    return DependentRows(x, np.sqrt(0.5) * (shared[member] + rng.standard_normal(rows)))


def in_named_groups(rng: Generator, rows: int, dim: int) -> DependentRows:
    """The same, with the groups given."""
    return in_groups(rng, rows, dim)._replace(groups=np.arange(rows) // 10)


def in_time(rng: Generator, rows: int, dim: int) -> DependentRows:
    """A time series: inputs and noise with a memory of .8 of the row before."""
    return DependentRows(remembering(rng, rows, dim, 0.8), remembering(rng, rows, 1, 0.8)[:, 0])


def repeated(rng: Generator, rows: int, dim: int) -> DependentRows:
    """Every input four times, in any order, half of the noise in common."""
    member = rng.permutation(np.arange(rows) // 4)
    x, shared = rng.standard_normal((rows // 4 + 1, dim)), rng.standard_normal(rows // 4 + 1)
    return DependentRows(x[member], np.sqrt(0.5) * (shared[member] + rng.standard_normal(rows)))


LARGE_NETWORK = "constant, 1,041 numbers"

KINDS: dict[str, Callable[[Generator, int, int], DependentRows]] = {
    "constant": independent, "varying": varying, "groups": in_groups, "groups, given": in_named_groups, "time series": in_time,
    "repeated inputs": repeated, LARGE_NETWORK: independent}


def plant(kind: str, seed: int) -> tuple[Network, DependentRows, Array]:
    """A network, rows of this kind, and their labels; four times as many rows where they are dependent."""
    rng = np.random.default_rng([seed, len(kind)])
    dim, width, rows = (50, 20, 100_000) if kind == LARGE_NETWORK else (6, 5, 420 if kind in ("constant", "varying") else 1680)
    truth = random_network(dim, width, readout="signs" if kind == LARGE_NETWORK else "positive", rng=rng)
    drawn = KINDS[kind](rng, rows, dim)
    y = truth(drawn.x)
    return truth, drawn, np.asarray(y + 0.1 * y.std() * drawn.noise)


def cover_once(kind: str, seed: int) -> CoverageRun:
    """Plant, recover, count."""
    truth, drawn, y = plant(kind, seed)
    try:
        found = recover(Samples(drawn.x, y), RandomStart(), truth.width, groups=drawn.groups, rng=seed)
    except LaybareError:
        return CoverageRun((0,) * 4, (0,) * 4)
    if found.certificate.verdict != "verified":
        return CoverageRun((0,) * 4, (0,) * 4)
    return count_covered(found, truth)


def count_covered(found: Recovery, truth: Network) -> CoverageRun:
    """Parameters of the network within 1.96 standard errors of the truth's, its units paired with the true ones."""
    errors, activation = found.certificate.standard_errors, truth.activation
    mine, true = normalise_units(found.network.units, activation), normalise_units(truth.units, activation)
    turned, pick = match_units(mine, true, reflection(activation), "hungarian")
    f, t = turned.take(pick.rows), true.take(pick.columns)
    order = [part[0] for part in f.parts]
    parts = (
        (f.weights - t.weights, errors.weights[order]), (f.biases - t.biases, errors.biases[order]),
        (f.readout - t.readout, np.asarray(errors.readout).reshape(len(order), -1)[order]),
        (turned.offset - true.offset, np.atleast_1d(errors.offset)))
    inside = tuple(int(np.sum(np.abs(difference) <= 1.96 * error)) for difference, error in parts)
    return CoverageRun(inside, tuple(int(difference.size) for difference, _ in parts))


def _share_inside(part: int) -> col.Column:
    def column(kind: str, runs: Sequence[CoverageRun]) -> float:
        return float(sum(run.inside[part] for run in runs) / max(sum(run.numbers[part] for run in runs), 1))

    return column


def _coverage_sentence(m: StudyMeasurement) -> str:
    shares = "; ".join(
        f"{row.rows}, {row.verified} verified: " + ", ".join(f"{share:.1%}" for share in row[3:]) for row in m.rows)
    return f"Weights, biases, readouts, offset within 1.96 standard errors: {shares}."


COVERAGE = Study(
    "coverage", "How often the truth lies within 1.96 standard errors, for verified 6-5-1 networks from noisy samples",
    "93 to 97 % for every part where rows are independent, 90 % at least where they are not, if the network is verified.",
    quick=tuple(kind for kind in KINDS if kind != LARGE_NETWORK), full=tuple(KINDS), run_cell=cover_once,
    table=table(
        rows=col.itself, tried=col.count, verified=lambda kind, runs: sum(run.numbers[3] for run in runs),
        **{part: _share_inside(i) for i, part in enumerate(("weights", "biases", "readouts", "offset"))}),
    sentence=_coverage_sentence)
"""How often the truth lies within its error bars. 6-5-1 networks with positive readouts, noise a tenth of y: 420 independent
samples, with noise of one size or in proportion to |x₀|; 1,680 in groups that are given or not, in a time series, or with inputs
four times each; with `--full` also 50-20-1 networks, 1,041 parameters from 100,000 rows, whose errors come from some of these.
Verified networks only: for others error bars promise nothing. An interval is the estimate and 1.96 standard errors either side.
The grid is of kinds of rows, or of networks."""
