"""Caution and coverage of certificates.

What caution costs: how many right networks are not verified, and whether the verdict depends on the seed of the search.

Networks of ReLU units on white inputs with Gaussian noise, recovered without their width, from random starts. Right: the width of
the truth and every parameter within six of its standard errors, as in `hostile`; or, where a unit is missing, what it adds is
below the resolution that the certificate states.

Do the error bars of verified networks cover the truth: rows that are independent, in groups, in an order, or repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import xlogy

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
from laybare.studies.certificates import is_right, largest_miss, right_and_verified, wrong_and_verified
from laybare.studies.hostile_cases import HostileCase, remembering, teacher
from laybare.studies.study import Study, StudyMeasurement, cross, refused_as, table


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


def dependent_rows(kind: str, seed: int) -> tuple[Network, DependentRows, Array]:
    """A network, rows of this kind, and their labels; four times as many rows where they are dependent."""
    rng = np.random.default_rng([seed, len(kind)])
    dim, width, rows = (50, 20, 100_000) if kind == LARGE_NETWORK else (6, 5, 420 if kind in ("constant", "varying") else 1680)
    truth = random_network(dim, width, readout="signs" if kind == LARGE_NETWORK else "positive", rng=rng)
    drawn = KINDS[kind](rng, rows, dim)
    y = truth(drawn.x)
    return truth, drawn, np.asarray(y + 0.1 * y.std() * drawn.noise)


def cover_once(kind: str, seed: int) -> CoverageRun:
    """Plant, recover, count."""
    truth, drawn, y = dependent_rows(kind, seed)
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


class CautionGrid(NamedTuple):
    """Noise in standard deviations of y, rows per parameter, and sizes (inputs, units)."""

    noise: tuple[float, ...]
    rows_per_parameter: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]


class CautionCell(NamedTuple):
    """A point of the grid."""

    noise: float
    rows_per_parameter: int
    size: tuple[int, int]


class CautionRun(NamedTuple):
    """One data set: the verdict (or "refused"), and whether the network is right."""

    verdict: str
    right: bool
    seconds: float


def plant(cell: CautionCell, seed: int) -> HostileCase:
    """A network of that size, and its noisy rows."""
    (dim, width), rng = cell.size, np.random.default_rng([seed, cell.rows_per_parameter, int(100 * cell.noise), *cell.size])
    truth = teacher(rng, dim, width)
    x = rng.standard_normal((cell.rows_per_parameter * (width * (dim + 2) + 1), dim))
    y = truth(x)
    return HostileCase(Samples(x, y + cell.noise * y.std() * rng.standard_normal(len(x))), truth, None)


def judge_plain(cell: CautionCell, seed: int) -> CautionRun:
    """Plant, recover without the width, judge."""
    case, begun = plant(cell, seed), time.perf_counter()
    found = _recovered(case, seed)
    seconds = time.perf_counter() - begun
    return CautionRun("refused", False, seconds) if found is None else CautionRun(
        found.certificate.verdict, is_right(found, case), seconds)


@refused_as(None)
def _recovered(case: HostileCase, seed: int) -> Recovery | None:
    return recover(case.source, RandomStart(), rng=seed)


def _caution_sentence(m: StudyMeasurement) -> str:
    shares = []
    for noise in m.grid.noise:
        runs = [run for cell, each in m.runs.items() if cell.noise == noise for run in each]
        right, verified = sum(run.right for run in runs), sum(map(right_and_verified, runs))
        wrong = sum(map(wrong_and_verified, runs))
        shares.append(f"noise {noise:.0%}: {verified} of {right} right ones verified, {wrong} wrong ones")
    return "; ".join(shares) + "."


CAUTION = Study(
    "caution", "What caution costs: right, right and verified, wrong and verified over noise, rows per parameter and size",
    "At 1 to 10 % noise 98 % of right networks are verified, at 30 % with 30 rows per parameter or more 80 %, at 100 % with 100 "
    "rows per parameter 60 %; wrong ones are not.",
    quick=CautionGrid((0.01, 0.1, 0.3, 1.0), (10, 30, 100), ((3, 2), (6, 4))),
    full=CautionGrid((0.01, 0.1, 0.3, 1.0), (10, 30, 100, 300), ((3, 2), (6, 4), (10, 8))),
    cells=lambda grid: cross(CautionCell, *grid), run_cell=judge_plain,
    table=table(
        "noise", "rows_per_parameter", "size", data_sets=col.count, right=col.total("right"),
        right_and_verified=col.total(right_and_verified), wrong_and_verified=col.total(wrong_and_verified),
        median_s=col.median("seconds")),
    sentence=_caution_sentence)
"""How often right networks are verified, and wrong ones. The width is not given."""


class SameDataGrid(NamedTuple):
    """Points of the grid of `CAUTION`, and how many seeds search the same rows."""

    cells: tuple[CautionCell, ...]
    searches: int


class SameDataCell(NamedTuple):
    """A kind of data, and the number of searches of each data set."""

    kind: CautionCell
    searches: int


class SameDataRun(NamedTuple):
    """One data set: searches that verified a network, those that did not, and different networks among the verified ones."""

    verified: int
    others: int
    networks: int

    @property
    def agrees(self) -> bool:
        return not (self.verified and self.others)

    @property
    def nearly_agrees(self) -> bool:
        """All searches but one, or all, say the same."""
        return min(self.verified, self.others) <= 1


def search_again(cell: SameDataCell, seed: int) -> SameDataRun:
    """The same rows, searched from several seeds."""
    case = plant(cell.kind, seed)
    found = [_recovered(case, 1000 * seed + search) for search in range(cell.searches)]
    verified = [one for one in found if one is not None and one.certificate.verdict == "verified"]
    return SameDataRun(len(verified), len(found) - len(verified), count_different(verified))


def count_different(found: list[Recovery]) -> int:
    """How many networks there are that differ by more than six of their standard errors."""
    kinds: list[Recovery] = []
    for one in found:
        if all(largest_miss(one.network, other.network, other.certificate.standard_errors) > 1.0 for other in kinds):
            kinds.append(one)
    return len(kinds)


def disagreement(runs: list[SameDataRun]) -> float:
    """The mean entropy, in bits, of verified against not verified: 0 if the seed never matters."""
    shares = np.array([run.verified / (run.verified + run.others) for run in runs])
    return float(np.mean(-(xlogy(shares, shares) + xlogy(1.0 - shares, 1.0 - shares)) / np.log(2.0)))


def _same_data_sentence(m: StudyMeasurement) -> str:
    runs = m.all_runs
    return (
        f"All searches of one data set say the same in {sum(run.agrees for run in runs)} of {len(runs)} data sets, all but one "
        f"in {sum(run.nearly_agrees for run in runs)}; in {sum(run.networks > 1 for run in runs)} verified networks differ.")


_SMALL = tuple(CautionCell(noise, rows, (4, 3)) for noise in (0.1, 0.3) for rows in (10, 30))

SAME_DATA = Study(
    "same-data", "The same rows, searched from eight seeds each: how often their verdicts agree",
    "No data set is verified by some seeds and not by others, but for one of eight.",
    quick=SameDataGrid(_SMALL, 8), full=SameDataGrid((*_SMALL, *(CautionCell(1.0, rows, (4, 3)) for rows in (30, 100))), 8),
    cells=lambda grid: [SameDataCell(kind, grid.searches) for kind in grid.cells], run_cell=search_again, seeds=6,
    table=table(
        noise=lambda cell, runs: cell.kind.noise, rows_per_parameter=lambda cell, runs: cell.kind.rows_per_parameter,
        data_sets=col.count, all_the_same=col.total("agrees"), all_but_one=col.total("nearly_agrees"),
        always_verified=col.total(lambda run: not run.others), never_verified=col.total(lambda run: not run.verified),
        different_networks=col.total(lambda run: run.networks > 1), bits=lambda cell, runs: disagreement(runs)),
    sentence=_same_data_sentence)
"""Whether one can shop for a verdict with seeds. Six data sets of each kind by default, 24 in all, eight searches each."""
