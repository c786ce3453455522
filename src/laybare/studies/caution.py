"""The price of caution: how many right networks are not verified, and whether the verdict depends on the seed of the search.

Networks of ReLU units on white inputs with Gaussian noise, recovered without their width, from random starts. Right: the width of
the truth and every parameter within six of its standard errors, as in `hostile`; or, where a unit is missing, what it adds is
below the resolution that the certificate states.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from laybare.errors import LaybareError
from laybare.methods import RandomStart
from laybare.pipeline import Recovery, recover
from laybare.source import Samples
from laybare.studies import columns as col
from laybare.studies.certificates import is_right, largest_miss, right_and_verified, wrong_and_verified
from laybare.studies.hostile_cases import HostileCase, teacher
from laybare.studies.study import Study, StudyMeasurement, cross, table


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


def _recovered(case: HostileCase, seed: int) -> Recovery | None:
    try:
        return recover(case.source, RandomStart(), rng=seed)
    except LaybareError:
        return None


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
    "same-data", "The same rows, searched from eight seeds each: does the verdict depend on the seed?",
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
