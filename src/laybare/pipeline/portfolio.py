"""Several attempts at one network, the best of which is kept.

Samples without a method: methods are tried in the order that suits the data. The next one is tried if the one before is
refuted, or leaves structure in the residual, while there is time; unless two runs agree on it and other activations were tried in
its place and are clearly worse. If no activation is given, ReLU is tried first; where it is refuted, smooth units follow, and
those that fit held-out rows equally well are ties.

Samples of a black box come in rounds that grow, until the certificate holds or the budget or the time ends: the budget is not
spent where less is enough, and progress is visible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim, ClaimName
from laybare.certificate.missing_unit import is_too_narrow
from laybare.certificate.repeatability import has_one_answer, is_call_dependent
from laybare.certificate.rival_activations import has_no_rival
from laybare.errors import LaybareError, TooFewSamples
from laybare.lines.assurance import AssuranceOptions
from laybare.methods import Method, RandomStart
from laybare.numerics.shapes import Progress, report_progress
from laybare.pipeline.black_box import check_fit_of_black_box
from laybare.pipeline.guess_activation import Candidates
from laybare.pipeline.monitor import Clock
from laybare.pipeline.recovery import Recovery
from laybare.source import Oracle, Samples, Source
from laybare.source.oracle.repeats import REPEATS, ask_again, reserved_queries

if TYPE_CHECKING:
    from laybare.methods.choosing import Candidate, Choice  # imports every method

RoundFitter: TypeAlias = Callable[[Source, RandomStart, Progress], Recovery]

RANKS = {"verified": 0, "doubtful": 1, "refuted": 2}


@dataclass(frozen=True, kw_only=True)
class PortfolioOptions:
    """When to try more methods, activations or rows."""

    method_seconds: float = 120.0  # Time after which no other method is begun. Convention: what a user waits for.
    tie_errors: float = 2.0  # standard errors of held-out mean squares that tie. Checked by `laybare reproduce choose`.
    first_rows: int = 300  # Rows of the first round. Checked by `pytest tests/pipeline`.
    growth: int = 3  # Factor from round to round. Derived: all rounds before the last cost half of it.
    last_tries: int = 3  # Searches on the whole budget: other starts may help. Checked by `pytest tests/pipeline`.
    held_out_rows: int = 40  # Rows of a round that decide between activations. Checked by `pytest tests/pipeline`.
    round_seconds: float = 60.0  # time after which a search ends and no round begins. Convention: patience of a user.
    max_check_share: float = 0.1  # Of the budget, for fresh answers and for repeats, each. Convention: a tenth.
    keep_within: float = 10.0  # Activations within this factor of the smallest error stay. Checked by `pytest tests/pipeline`.


PORTFOLIO = PortfolioOptions()
"""The options in use."""


def try_methods(
    choice: Choice, fit: Callable[[Method], Recovery], clock: Clock, *, width_given: bool = False,
    progress: Progress | None = None,
) -> Recovery:
    """The best of the candidates, with claims that say which were tried and which activations fit as well.

    A method that refuses is passed over; if all do, the first refusal is raised.
    """
    tried: list[tuple[Candidate, Recovery]] = []
    notes: list[str] = []
    refusals: list[LaybareError] = []
    for n, candidate in enumerate(choice.candidates, 1):
        late = clock.elapsed > PORTFOLIO.method_seconds or clock.over
        if tried and (late or not _may_improve([one for _, one in tried], candidate, width_given=width_given)):
            continue
        try:
            report_progress(progress, "method", n, len(choice.candidates), candidate.reason)
            found = fit(candidate.method)
        except KeyboardInterrupt:
            if not tried:
                raise
            notes.append(f"{candidate.reason} It was interrupted.")
            break
        except LaybareError as refusal:
            refusals.append(refusal)
            notes.append(f"{candidate.reason} It refused: {refusal.seen}")
            continue
        tried.append((candidate, found))
        notes.append(f"{candidate.reason} {found.certificate.verdict.capitalize()}, {_left(found)} of the variance left.")
    if not tried:
        raise refusals[0]
    best = min((one for _, one in tried), key=_rank)
    claims = (_chosen(notes, choice, best), *_activation(best, [one for _, one in tried]))
    return replace(best, certificate=replace(best.certificate, claims=(*best.certificate.claims, *claims)))


def _may_improve(tried: list[Recovery], candidate: Candidate, *, width_given: bool) -> bool:
    """Whether the next candidate may be better, or its activation as good where noise hides which is right.

    No other search for the same units is better where the given width is too small, and none at all where the structure that is
    left may be chance and nothing rivals the fit.
    """
    if _was_interrupted(tried[-1]):
        return False
    best = min(tried, key=_rank)
    units = {one.network.activation for one in tried}
    new = candidate.method.activation not in units
    refuted = best.certificate.verdict == "refuted"
    if not refuted and has_no_rival(best.certificate.claims):
        return False
    if refuted or _leaves_structure(best):
        return new or (len(units) == 1 and not (width_given and is_too_narrow(best.certificate.claims)))
    return new and len(units) > 1 and best.certificate.explained < 1.0 - 1e-12


def _was_interrupted(found: Recovery) -> bool:
    return any(trace.interrupted for trace in found.traces)


def _leaves_structure(found: Recovery) -> bool:
    return any(claim.name == ClaimName.RESIDUAL_STRUCTURE and not claim.passed for claim in found.certificate.claims)


def _rank(found: Recovery) -> tuple[int, float]:
    """Smaller is better; what has no held-out rows comes last."""
    error = found.certificate.held_out
    return RANKS[found.certificate.verdict], error if np.isfinite(error) else np.inf


def _left(found: Recovery) -> str:
    return f"{1.0 - found.certificate.explained:.2g}"


def _chosen(notes: list[str], choice: Choice, best: Recovery) -> Claim:
    text = " ".join(notes) + (f" {choice.otherwise}" if best.certificate.verdict == "refuted" else "")
    return Claim(ClaimName.METHODS_TRIED, float(len(notes)), float(len(choice.candidates)), True, "tested", text)


def _activation(best: Recovery, tried: list[Recovery]) -> tuple[Claim, ...]:
    """Ties of other activations on the held-out rows; nothing to say if only one was tried."""
    mine = best.network.activation
    worst_first = sorted(tried, key=_rank, reverse=True)
    others = {one.network.activation.name: one for one in worst_first if one.network.activation != mine}
    if not others:
        return ()
    ties = [name for name, one in others.items() if _fits_as_well(one, best)]
    errors = ", ".join(f"{one.network.activation.name} {one.certificate.held_out:.2g}" for one in (best, *others.values()))
    text = (
        f"mean squares on held-out rows over the variance of y: {errors}; "
        + (f"a tie with {' and '.join(ties)}: these samples do not tell which it is." if ties else f"{mine.name} fits best."))
    return (Claim(ClaimName.TIED_ACTIVATIONS, float(len(ties)), 0.0, not ties, "tested", text),)


def _fits_as_well(one: Recovery, best: Recovery) -> bool:
    """The same verdict, and held-out errors within their standard errors."""
    if one.certificate.verdict != best.certificate.verdict:
        return False
    apart = one.certificate.held_out - best.certificate.held_out
    return bool(apart <= PORTFOLIO.tie_errors * np.hypot(one.certificate.held_out_error, best.certificate.held_out_error))


@dataclass(frozen=True)
class Attempt:
    """A fit and its error at rows that it has not seen, relative to the spread of the outputs."""

    found: Recovery
    error: float
    one_answer: bool = True  # for every input, noise apart: else no further round helps

    @property
    def rank(self) -> tuple[int, float]:
        """Smaller is better."""
        return RANKS[self.found.certificate.verdict], self.error

    @property
    def stopped(self) -> bool:
        return _was_interrupted(self.found)


def fit_in_rounds(
    oracle: Oracle, candidates: Candidates, fit: RoundFitter, *, moved: float = 0.0,
    assurance: AssuranceOptions = AssuranceOptions(), rng: Generator, progress: Progress | None = None,
    seconds: float = PORTFOLIO.round_seconds,
) -> Recovery:
    """The best fit of the candidates on as many samples as it takes; `fit` is the loop on samples.

    The first inputs are asked again after every round. A black box that repeats itself has no noise: its network must fit
    exactly, and predict fresh answers. With noise, a fit of few rows may miss a unit: two rounds in a row must then agree on the
    width. `moved`: by how much answers to the same question were seen to differ. TooFewSamples if the budget has room for none.
    """
    clock, units = Clock(progress, time.perf_counter() + seconds), candidates.activations
    best: Attempt | None = None
    now: Attempt | None = None
    sizes = _round_sizes(oracle, assurance)
    for rows in sizes:
        report_progress(progress, "round", rows, sizes[-1], f"{rows:,} samples, {' or '.join(unit.name for unit in units)}")
        try:
            attempts = _fit_round(oracle, rows, units, fit, clock, _Checks(moved, assurance, rng))
        except TooFewSamples:
            if rows == sizes[-1]:
                raise
            continue
        except KeyboardInterrupt:
            if best is None:
                raise
            break
        before, now = now, min(attempts, key=lambda one: one.rank)
        best = now if best is None else min(now, best, key=lambda one: one.rank)
        units = tuple(one.found.network.activation for one in attempts if one.error <= PORTFOLIO.keep_within * now.error)
        if _is_enough(now, before, candidates) or clock.over:
            break
    return _with_queries(best, oracle, candidates, seconds if clock.over else None)


def _round_sizes(oracle: Oracle, assurance: AssuranceOptions) -> list[int]:
    """Rows of each round; the last is the whole budget, tried again from other starts. Checks have their part of it."""
    left, sizes = oracle.budget - oracle.spent, [PORTFOLIO.first_rows]
    fresh = min(int((1.0 + assurance.inner_share) * assurance.count(0)), int(PORTFOLIO.max_check_share * left))
    most = left - fresh - min(reserved_queries(oracle) * PORTFOLIO.last_tries, int(PORTFOLIO.max_check_share * left))
    while PORTFOLIO.growth * sizes[-1] < most:
        sizes.append(PORTFOLIO.growth * sizes[-1])
    return [*(size for size in sizes if size < most), *([most] * PORTFOLIO.last_tries)]


class _Checks(NamedTuple):
    """What the checks of every round need."""

    moved: float
    assurance: AssuranceOptions
    rng: Generator


def _fit_round(
    oracle: Oracle, rows: int, units: tuple[Activation, ...], fit: RoundFitter, clock: Clock, checks: _Checks
) -> list[Attempt]:
    """A fit for each activation, until one is verified; rows of earlier rounds cost no queries."""
    x = oracle.typical(rows)
    y = oracle.ask(x, purpose="samples", reuse=True)
    repeats = ask_again(oracle, x[: REPEATS.rows], y[: REPEATS.rows])
    aside = min(PORTFOLIO.held_out_rows, rows // 4)
    source = Samples(x[aside:], y[aside:, 0] if y.shape[1] == 1 else y[aside:], law=oracle.law)
    attempts: list[Attempt] = []
    for activation in units:
        found = check_fit_of_black_box(oracle, fit(source, RandomStart(activation=activation), clock), repeats, *checks)
        missed = found.network(x[:aside]).reshape(y[:aside].shape) - y[:aside]
        error = float(np.sqrt((missed**2).mean() / max(y.var(axis=0).mean(), np.finfo(float).tiny)))
        one = has_one_answer(repeats, checks.moved) and not is_call_dependent(found.certificate.noise, repeats)
        attempts.append(Attempt(found, error, one))
        if attempts[-1].rank[0] == 0 or attempts[-1].stopped or not one:
            break
    return attempts


def _is_enough(now: Attempt, before: Attempt | None, candidates: Candidates) -> bool:
    agreed = not candidates.noisy or (before is not None and before.found.network.width == now.found.network.width)
    return now.stopped or not now.one_answer or (now.rank[0] == 0 and agreed)


def _with_queries(best: Attempt | None, oracle: Oracle, candidates: Candidates, seconds: float | None) -> Recovery:
    """The recovery with the claims of the first look, the queries, and a claim about the time limit if that ended the rounds."""
    assert best is not None  # the last round raises, or has an attempt
    found = best.found
    late: tuple[Claim, ...] = ()
    if seconds is not None and found.certificate.verdict != "verified":
        late = (Claim(
            "seconds", seconds, seconds, False, "tested",
            f"the rounds ended after {seconds:.0f} s with {oracle.budget - oracle.spent:,} queries unspent: give the method and "
            "the width, or another activation.", decisive=False),)
    certificate = replace(found.certificate, claims=(*found.certificate.claims, *candidates.claims, *late))
    return replace(found, certificate=certificate, samples_used=oracle.spent, queries=dict(oracle.queries))
