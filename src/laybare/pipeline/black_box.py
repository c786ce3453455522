"""A black box that lines do not read: samples of it are fitted in rounds that grow, and checked against its answers.

Rounds end when the certificate holds, or the budget or the time ends: the budget is not spent where less is enough.

A black box that repeats itself has no noise, and a network of its units is found exactly once there are rows enough; before,
what is found is mostly off by a tenth of the spread of the answers and more, less in few dimensions. Any smooth function is
fitted a little better with every row, and never exactly. So fits between the two, round after round, say that the function is
another one, or that nothing tells it from one, and more rows would say the same. Until the last round a model has several rows
per parameter: rows cost less time than searches among few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Assurance, Certificate, Claim, ClaimName
from laybare.certificate.repeatability import has_one_answer, is_call_dependent, lack_of_fit_claim, repeat_claims
from laybare.errors import TooFewSamples
from laybare.lines.assurance import AssuranceOptions, AssurancePlan
from laybare.lines.model_fit import FIT
from laybare.methods import RandomStart
from laybare.methods.black_box_reading import with_named_misfit
from laybare.methods.guess_activation import Candidates
from laybare.networks import Network
from laybare.numerics.levels import NOISELESS
from laybare.numerics.shapes import Progress, report_progress
from laybare.pipeline.monitor import Clock, SearchLimit
from laybare.pipeline.portfolio import RANKS, was_interrupted
from laybare.pipeline.recovery import Recovery
from laybare.search.settings import Search
from laybare.solver import Effort
from laybare.source import Oracle, Samples, Schedule, Source
from laybare.source.oracle.repeats import REPEATS, RepeatedAnswers, ask_again, reserved_queries

RoundFitter: TypeAlias = Callable[[Source, RandomStart, Progress], Recovery]


@dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """When to try more rows."""

    first_rows: int = 300  # Rows of the first round. Checked by `pytest tests/pipeline`.
    growth: int = 3  # Factor from round to round. Derived: all rounds before the last cost half of it.
    last_tries: int = 3  # Searches on the whole budget: other starts may help. Checked by `pytest tests/pipeline`.
    held_out_rows: int = 40  # Rows of a round that decide between activations. Checked by `pytest tests/pipeline`.
    limit: SearchLimit = SearchLimit(600.0, work=60.0)  # After it a search ends, and no round begins. Convention: patience.
    max_check_share: float = 0.1  # Of the budget, for fresh answers and for repeats, each. Convention: a tenth.
    keep_within: float = 10.0  # Activations within this factor of the smallest error stay. Checked by `pytest tests/pipeline`.
    exact: Search = Search(exact=True)  # Of a box that repeats itself. Derived: it has no noise.
    early: Search = Search(exact=True, equations=3.0, effort=Effort(stall_gain=0.5))
    """The same while more rows may be asked: where ten steps do not halve the loss, the next round is another try.
    Checked by `pytest tests/pipeline/test_rounds.py`."""
    approximate: tuple[float, float] = (1e-6, 0.1)
    """Errors of a fit that approximates another function: below, it may have spare units, above, rows may be too few for it.
    Checked by `pytest tests/pipeline/test_rounds.py`."""
    approximations: int = 2  # such rounds in a row end it. Checked by `pytest tests/pipeline/test_rounds.py`.


ROUNDS = RoundOptions()
"""The options in use."""


@dataclass(frozen=True)
class Attempt:
    """A fit and its error at rows that it has not seen, relative to the spread of the outputs."""

    found: Recovery
    error: float
    one_answer: bool = True  # for every input, noise apart: else no further round helps
    noisy: bool = True  # else only an exact fit is one

    @property
    def rank(self) -> tuple[int, float]:
        """Smaller is better."""
        return RANKS[self.found.certificate.verdict], self.error

    @property
    def approximates(self) -> bool:
        """Whether it predicts unseen rows well, without noise, and not exactly."""
        least, most = ROUNDS.approximate
        return not self.noisy and self.rank[0] != 0 and least <= self.error <= most


class BlackBoxChecks(NamedTuple):
    """What the checks of a fit need. `moved`: by how much answers to the same question were seen to differ before."""

    rng: Generator
    moved: float = 0.0
    assurance: AssuranceOptions = AssuranceOptions()


def fit_in_rounds(
    oracle: Oracle, candidates: Candidates, fit: RoundFitter, checks: BlackBoxChecks, *, progress: Progress | None = None,
    limit: SearchLimit = ROUNDS.limit,
) -> Recovery:
    """The best fit of the candidates on as many samples as it takes; `fit` is the loop on samples.

    The first inputs are asked again after every round. A black box that repeats itself has no noise: its network must fit
    exactly, and predict fresh answers. With noise, a fit of few rows may miss a unit: two rounds in a row must then agree on the
    width. TooFewSamples if the budget has room for none.
    """
    clock, units = Clock(progress, limit), candidates.activations
    best: Attempt | None = None
    now: Attempt | None = None
    approximations = 0
    sizes = _round_sizes(oracle, checks.assurance)
    for rows in sizes:
        report_progress(progress, "round", rows, sizes[-1], f"{rows:,} samples, {' or '.join(unit.name for unit in units)}")
        try:
            attempts = _fit_round(oracle, rows, units, fit, clock, checks, last=rows == sizes[-1])
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
        units = tuple(one.found.network.activation for one in attempts if one.error <= ROUNDS.keep_within * now.error)
        approximations = approximations + 1 if now.approximates else 0
        if _is_enough(now, before, candidates) or clock.over or approximations == ROUNDS.approximations:
            break
    found = _with_queries(best, oracle, candidates, clock)
    return _approximated(found, rows, now) if now is not None and approximations == ROUNDS.approximations else found


def _round_sizes(oracle: Oracle, assurance: AssuranceOptions) -> list[int]:
    """Rows of each round; the last is the whole budget, tried again from other starts. Checks have their part of it."""
    left, sizes = oracle.budget - oracle.spent, [ROUNDS.first_rows]
    fresh = min(int((1.0 + assurance.inner_share) * assurance.count(0)), int(ROUNDS.max_check_share * left))
    most = left - fresh - min(reserved_queries(oracle) * ROUNDS.last_tries, int(ROUNDS.max_check_share * left))
    if most < 2:
        raise TooFewSamples(
            f"{oracle.spent} of {oracle.budget} queries have shown that lines do not read this black box, and {max(0, most)} "
            "are left to fit samples of it.", "One point does not determine a function.",
            "Grant a larger budget, 1,000 for instance.", spent=oracle.spent)
    while ROUNDS.growth * sizes[-1] < most:
        sizes.append(ROUNDS.growth * sizes[-1])
    return [*(size for size in sizes if size < most), *([most] * ROUNDS.last_tries)]


def _fit_round(
    oracle: Oracle, rows: int, units: tuple[Activation, ...], fit: RoundFitter, clock: Clock, checks: BlackBoxChecks, *,
    last: bool = True,
) -> list[Attempt]:
    """A fit for each activation, until one is verified; rows of earlier rounds cost no queries."""
    x = oracle.typical(rows)
    y = oracle.ask(x, purpose="samples", reuse=True)
    repeats = ask_again(oracle, x[: REPEATS.rows], y[: REPEATS.rows])
    aside = min(ROUNDS.held_out_rows, rows // 4)
    schedule = Schedule(workers=oracle.schedule.workers)
    source = Samples(x[aside:], y[aside:, 0] if y.shape[1] == 1 else y[aside:], law=oracle.law, schedule=schedule)
    noisy = repeats is None or repeats.kind != "same" or checks.moved > 0.0
    search = Search() if noisy else ROUNDS.exact if last else ROUNDS.early
    attempts: list[Attempt] = []
    for activation in units:
        method = RandomStart(activation=activation, search=search)
        found = check_fit_of_black_box(oracle, fit(source, method, clock), repeats, checks)
        missed = found.network(x[:aside]).reshape(y[:aside].shape) - y[:aside]
        error = float(np.sqrt((missed**2).mean() / max(y.var(axis=0).mean(), np.finfo(float).tiny)))
        one = has_one_answer(repeats, checks.moved) and not is_call_dependent(found.certificate.noise, repeats)
        attempts.append(Attempt(found, error, one, noisy))
        if attempts[-1].rank[0] == 0 or was_interrupted(attempts[-1].found) or not one:
            break
    return attempts


def _is_enough(now: Attempt, before: Attempt | None, candidates: Candidates) -> bool:
    agreed = not candidates.noisy or (before is not None and before.found.network.width == now.found.network.width)
    return was_interrupted(now.found) or not now.one_answer or (now.rank[0] == 0 and agreed)


def _approximated(found: Recovery, rows: int, last: Attempt) -> Recovery:
    """With the reason why no further round was made."""
    reason = (
        f"other units, or none: the black box has no noise, and the last {ROUNDS.approximations} rounds, up to {rows:,} rows, "
        f"were fitted to {last.error:.1g} of the spread of the answers and not exactly. A network of these units is found "
        "exactly once there are rows enough; others approximate, the better the more rows there are.")
    return replace(found, certificate=replace(found.certificate, reason=reason))


def _with_queries(best: Attempt | None, oracle: Oracle, candidates: Candidates, clock: Clock) -> Recovery:
    """The recovery with the claims of the first look, the queries, and a claim about the limit that ended the rounds."""
    assert best is not None  # the last round raises, or has an attempt
    found = best.found
    late: tuple[Claim, ...] = ()
    if clock.over and found.certificate.verdict != "verified":
        left = f"the rounds did, with {oracle.budget - oracle.spent:,} queries unspent: give the method and the width, or another"
        late = (clock.claim(f"{left} activation.").not_decisive(),)
    certificate = replace(found.certificate, claims=(*found.certificate.claims, *candidates.claims, *late))
    return replace(found, certificate=certificate, samples_used=oracle.spent, queries=dict(oracle.queries))


def check_fit_of_black_box(
    oracle: Oracle, found: Recovery, repeats: RepeatedAnswers | None, checks: BlackBoxChecks
) -> Recovery:
    """A fit to samples of a black box, with the claims on repeated queries, and on fresh answers if it has no noise."""
    certificate = found.certificate
    claims = (*repeat_claims(repeats, noise_allowed=True, moved=checks.moved), *lack_of_fit_claim(certificate.noise, repeats))
    certificate = replace(certificate, claims=(*certificate.claims, *claims))
    if certificate.verdict == "verified" and repeats is not None and repeats.kind == "same":
        certificate = _with_fresh_answers(oracle, found.network, certificate, repeats, checks)
    if repeats is not None and repeats.kind == "same":
        certificate = with_named_misfit(certificate, oracle, found.network, rng=checks.rng)
    return replace(found, certificate=certificate)


def _with_fresh_answers(
    oracle: Oracle, network: Network, certificate: Certificate, repeats: RepeatedAnswers, checks: BlackBoxChecks
) -> Certificate:
    """Answers at inputs that nothing else asks: without noise every one must be predicted, up to the residual of the fit."""
    begun = oracle.queries.get("assurance", 0)
    left = max(0, oracle.budget - oracle.spent - reserved_queries(oracle))
    points = AssurancePlan(checks.assurance, oracle.fresh_inputs).points(begun, oracle.spent - begun, left, checks.rng)
    if not len(points.x):
        return certificate
    oracle.ask(points.x, purpose="assurance", gaps=True)
    asked = oracle.answered("assurance")
    x, answers = asked.read(0, asked.size)  # those of earlier rounds as well
    usable = np.asarray(np.isfinite(answers).all(axis=1))
    limit = max(
        FIT.contradiction_sds * certificate.noise, float(repeats.tol.max()), NOISELESS * float(np.std(answers[usable])))
    worst = float(np.abs(network(x[usable]).reshape(answers[usable].shape) - answers[usable]).max(initial=0.0))
    claim = Claim(
        ClaimName.FRESH_ANSWERS, worst, limit, worst <= limit, "tested",
        f"largest difference at {int(usable.sum()):,} inputs that nothing else used, against rounding and the residual of the "
        "fit; a larger one means that something is missing.", decisive=True, of_answers=True)
    shown = points.assured(int(usable[len(usable) - len(points.x) :][: points.of_law].sum()))
    assurance = Assurance(checks.assurance.level, shown.share, shown.answers) if claim.passed and shown.answers else None
    return replace(certificate, claims=(*certificate.claims, claim), assurance=assurance)
