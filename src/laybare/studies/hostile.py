"""Does the certificate lie? Cases that might deceive it: how often "verified" is wrong, how often right is not verified.

Wrong is: a width that is not the truth's (a missing unit smaller than the certificate says it can see does not count), or a
parameter off by more than six of its own standard errors plus 1e-6 of its part, modulo symmetry, or any network where the truth
is out of the class, unless it is the true function at all inputs but a share that so many samples would miss. Upper bounds are
Clopper and Pearson's at 95 %: three of n for none seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import nan
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from laybare.certificate import StandardErrors
from laybare.certificate.starts import MET, SOME
from laybare.errors import LaybareError
from laybare.methods import RandomStart
from laybare.networks import Network
from laybare.networks.alignment import paired
from laybare.networks.canonical import Reflection, Units, normalised, reflection
from laybare.pipeline import Recovery, recover
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import point_of
from laybare.refinement.variation import total_variation
from laybare.shapes import Array
from laybare.source import Samples, Source
from laybare.studies.hostile_cases import FAMILIES, Case
from laybare.studies.study import Settings, Study, StudyResult, headings

SIGMAS, TOL, FRESH = 6.0, 1e-6, 200_000

KINDS = ("the first two runs agree", f"three to {SOME:.0f} until two agree", "more", "no two agree", "one run is enough")


class HostileGrid(NamedTuple):
    """Names of the families, which take turns: seed s draws from number s modulo their count."""

    families: tuple[str, ...]

    def family(self, seed: int) -> str:
        return self.families[seed % len(self.families)]


class HostileRun(NamedTuple):
    """One case: the verdict (or "refused"), whether the network is right, whether it should have been verified, seconds; and how
    many runs it took until two ended at the same fit (infinitely many if none did, NaN where one is enough)."""

    verdict: str
    right: bool
    fair: bool
    seconds: float
    runs: float = nan


class HostileRow(NamedTuple):
    """A row of the table: `cases` of one kind."""

    kind: str
    cases: int
    verified: int
    verified_but_wrong: int
    at_most: float
    right: int
    right_but_not_verified: int
    doubtful: int
    refuted: int
    refused: int
    median_s: float


def run_once(family: str, seed: int) -> HostileRun:
    """Draw a case of the family, recover it with what is told, judge."""
    rng = np.random.default_rng([seed, sum(map(ord, family))])
    begun = time.perf_counter()
    try:
        case = FAMILIES[family](rng)
    except LaybareError:  # samples that no source takes: all outputs equal, say
        return HostileRun("refused", False, False, time.perf_counter() - begun)
    try:
        found = recover(case.source, case.method or RandomStart(activation=case.activation), case.width, rng=seed)
    except LaybareError:
        return HostileRun("refused", False, case.fair, time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    runs = next((claim.value for claim in found.certificate.claims if claim.name == MET), nan)
    return HostileRun(found.certificate.verdict, is_right(found, case), case.fair, seconds, runs)


def measure(settings: Settings[HostileGrid]) -> dict[str, list[HostileRun]]:
    """One case for every seed."""
    runs: dict[str, list[HostileRun]] = {family: [] for family in settings.grid.families}
    for done, seed in enumerate(settings.seeds, 1):
        family = settings.grid.family(seed)
        runs[family].append(run_once(family, seed))
        settings.tick("cases", done, len(settings.seeds), family)
    return {family: each for family, each in runs.items() if each}


def is_right(found: Recovery, case: Case) -> bool:
    """Whether the network is the truth, by its own standard errors; or as much of it as the certificate says can be seen."""
    truth, network = case.truth, found.network
    if truth is None and case.function is not None:
        return differs(network, case.function, case.source.dim) <= 1.0 / case.source.size
    if truth is None or truth.activation != network.activation:
        return False
    if largest_miss(network, truth, found.certificate.standard_errors) <= 1.0:
        return True
    return network.width < truth.width and unseen(network, truth, case.source) <= found.certificate.visible


def differs(network: Network, function: Callable[[Array], Array], dim: int) -> float:
    """Share of white normal inputs at which a network is not the function. (A clipped network is one with other biases but where
    two of its units are on at once: of 2,000 cases one had no sample there, and 3.5e-5 of all inputs.)"""
    x = np.random.default_rng(0).standard_normal((FRESH, dim))
    true = function(x)
    return float(np.mean(np.abs(network(x) - true) > TOL * true.std()))


def unseen(network: Network, truth: Network, source: Source) -> float:
    """What the truth adds to the best fit of `network` to it, by its standard deviation, relative to that of y."""
    x, y = source.read(0, source.size)
    clean = Samples(x, truth(x).reshape(y.shape))
    point = point_of(network, biases=True, offset=True, linear=network.linear is not None)
    loss = minimise(clean, point, total_variation(clean)).loss
    return float(np.sqrt(loss / total_variation(source)))


def largest_miss(network: Network, truth: Network, errors: StandardErrors) -> float:
    """The largest difference of a number from the truth, over six of its standard errors plus 1e-6; inf if a width differs.

    Units are paired as they are, and turned where that brings them nearer; the better of the two counts. (Of two units that are
    nearly opposite, each may be nearer to the other's partner if it is turned, with another readout.)
    """
    activation = truth.activation
    mine, true = normalised(network.units, activation), normalised(truth.units, activation)
    if not len(mine.weights) == len(true.weights) == network.width or not all(np.isfinite(part).all() for part in errors):
        return np.inf
    return min(_paired_miss(mine, true, mirror, errors) for mirror in (None, reflection(activation)))


def _paired_miss(mine: Units, true: Units, mirror: Reflection | None, errors: StandardErrors) -> float:
    turned, pick = paired(mine, true, mirror, "hungarian")
    f, t = turned.take(pick.rows), true.take(pick.columns)
    order = [part[0] for part in f.parts]
    weights, readout = errors.weights[order], np.asarray(errors.readout).reshape(len(order), -1)[order]
    slopes = np.abs(f.weights).T @ readout + weights.T @ np.abs(f.readout)  # of the linear part that turned units leave
    return max(
        _over(f.weights - t.weights, weights, t.weights),
        _over(f.biases - t.biases, errors.biases[order], t.biases),
        _over(f.readout - t.readout, readout, t.readout),
        _over(turned.offset - true.offset, np.atleast_1d(errors.offset) + readout.sum(axis=0), t.readout),
        _over(turned.linear - true.linear, slopes, t.readout))


def _over(difference: Array, errors: Array, part: Array) -> float:
    allowed = SIGMAS * errors + TOL * max(1.0, float(np.abs(part).max(initial=0.0)))
    return float(np.max(np.abs(difference) / allowed, initial=0.0))


def upper_bound(count: int, of: int) -> float:
    """Clopper and Pearson's: the largest rate at which so few would be seen in one of twenty repetitions."""
    return 1.0 if count >= of else float(betaincinv(count + 1.0, float(of - count), 0.95))


def summary(grid: HostileGrid, runs: Mapping[str, list[HostileRun]]) -> StudyResult:
    """Counts of every family, and the two that matter over all."""
    return _counted(runs)


def summary_by_runs(grid: HostileGrid, runs: Mapping[str, list[HostileRun]]) -> StudyResult:
    """The same, by how many runs it took until two ended at the same fit."""
    every = [run for each in runs.values() for run in each]
    kinds = {kind: [run for run in every if kind_of(run.runs) == kind] for kind in KINDS}
    return _counted({kind: each for kind, each in kinds.items() if each})


def kind_of(runs: float) -> str:
    """Which of `KINDS` it is."""
    first, some, more, none, one = KINDS
    if np.isnan(runs):
        return one
    return first if runs <= 2 else some if runs <= SOME else more if np.isfinite(runs) else none


def _counted(runs: Mapping[str, list[HostileRun]]) -> StudyResult:
    rows = [_row(kind, each) for kind, each in runs.items()]
    every = [run for each in runs.values() for run in each]
    verified = [run for run in every if run.verdict == "verified"]
    wrong, fair = sum(not run.right for run in verified), [run for run in every if run.fair and run.right]
    missed = sum(run.verdict != "verified" for run in fair)
    return StudyResult(
        headings(HostileRow), rows,
        f"Verified but wrong: {wrong} of {len(every)} cases, at most {upper_bound(wrong, len(every)):.2%} (95 %), "
        f"{len(verified)} verified. Right and well posed but not verified: {missed} of {len(fair)}, at most "
        f"{upper_bound(missed, max(1, len(fair))):.2%}.")


def _row(kind: str, runs: list[HostileRun]) -> HostileRow:
    count = {word: sum(run.verdict == word for run in runs) for word in ("verified", "doubtful", "refuted", "refused")}
    wrong = sum(run.verdict == "verified" and not run.right for run in runs)
    right = [run for run in runs if run.right]
    return HostileRow(
        kind, len(runs), count["verified"], wrong, upper_bound(wrong, len(runs)), len(right),
        sum(run.verdict != "verified" for run in right), count["doubtful"], count["refuted"], count["refused"],
        float(np.median([run.seconds for run in runs])))


EVERY = HostileGrid(tuple(FAMILIES))
HOSTILE = Study(
    "hostile", "Certificates on data that might deceive them: verified but wrong, and right but not verified, by family",
    "No wrong network is verified; of right ones on well-posed data fewer than 5 % are not.", EVERY, EVERY, measure, summary)
PLAIN = HostileGrid(("plain",))
PLAIN_NOISE = Study(
    "plain-noise", "Certificates of 6-5-1 networks from 420 samples with noise of a tenth of y, by how soon two runs agree",
    "No wrong network is verified, and at least 80 % of all are.", PLAIN, PLAIN, measure, summary_by_runs)
