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
from typing import TypeAlias

import numpy as np

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.certificate.repeatability import has_one_answer, is_call_dependent
from laybare.errors import TooFewSamples
from laybare.lines.assurance import AssuranceOptions
from laybare.methods import RandomStart
from laybare.methods.guess_activation import Candidates
from laybare.methods.misfit import BlackBoxChecks, check_fit_of_black_box
from laybare.numerics.shapes import Progress, report_progress
from laybare.pipeline.monitor import Clock, SearchLimit
from laybare.pipeline.portfolio import RANKS, was_interrupted
from laybare.pipeline.recovery import Recovery
from laybare.search.settings import Search
from laybare.solver import Effort
from laybare.source import Oracle, Samples, Schedule, Source
from laybare.source.oracle.repeats import REPEATS, ask_again, reserved_queries

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
    rounds: list[Attempt] = []

    def within_time(source: Source, method: RandomStart) -> Recovery:
        return fit(source, method, clock)

    sizes = _round_sizes(oracle, checks.assurance)
    for rows in sizes:
        report_progress(progress, "round", rows, sizes[-1], f"{rows:,} samples, {' or '.join(unit.name for unit in units)}")
        try:
            attempts = _fit_round(oracle, rows, units, within_time, checks, last=rows == sizes[-1])
        except TooFewSamples:
            if rows == sizes[-1]:
                raise
            continue
        except KeyboardInterrupt:
            if not rounds:
                raise
            break
        rounds.append(min(attempts, key=lambda one: one.rank))
        units = tuple(one.found.network.activation for one in attempts if one.error <= ROUNDS.keep_within * rounds[-1].error)
        if _are_enough(rounds, noisy=candidates.noisy) or _approximate(rounds) or clock.over:
            break
    return _best_of(rounds, rows, oracle, candidates, clock)


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
    oracle: Oracle, rows: int, units: tuple[Activation, ...], fit: Callable[[Source, RandomStart], Recovery],
    checks: BlackBoxChecks, *, last: bool = True,
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
        found = fit(source, method)
        found = replace(found, certificate=check_fit_of_black_box(oracle, found.network, found.certificate, repeats, checks))
        missed = found.network(x[:aside]).reshape(y[:aside].shape) - y[:aside]
        error = float(np.sqrt((missed**2).mean() / max(y.var(axis=0).mean(), np.finfo(float).tiny)))
        one = has_one_answer(repeats, checks.moved) and not is_call_dependent(found.certificate.noise, repeats)
        attempts.append(Attempt(found, error, one, noisy))
        if attempts[-1].rank[0] == 0 or was_interrupted(attempts[-1].found) or not one:
            break
    return attempts


def _are_enough(rounds: list[Attempt], *, noisy: bool) -> bool:
    now, agreed = rounds[-1], not noisy or len({one.found.network.width for one in rounds[-2:]}) == 1 < len(rounds)
    return was_interrupted(now.found) or not now.one_answer or (now.rank[0] == 0 and agreed)


def _approximate(rounds: list[Attempt]) -> bool:
    """Whether further rounds would only approximate the function better."""
    last = rounds[-ROUNDS.approximations :]
    return len(last) == ROUNDS.approximations and all(one.approximates for one in last)


def _best_of(rounds: list[Attempt], rows: int, oracle: Oracle, candidates: Candidates, clock: Clock) -> Recovery:
    """The best with the claims of the first look, the queries, and what ended the rounds, if it was not a certificate."""
    found = min(rounds, key=lambda one: one.rank).found
    certificate, late, reason = found.certificate, tuple[Claim, ...](), found.certificate.reason
    if clock.over and certificate.verdict != "verified":
        left = f"the rounds did, with {oracle.budget - oracle.spent:,} queries unspent: give the method and the width, or another"
        late = (clock.claim(f"{left} activation.").not_decisive(),)
    if _approximate(rounds):
        reason = (
            f"other units, or none: the black box has no noise, and {ROUNDS.approximations} rounds, up to {rows:,} rows, were "
            f"fitted to {rounds[-1].error:.1g} of the spread of the answers and not exactly. A network of these units is "
            "found exactly once there are rows enough; others approximate, the better the more rows there are.")
    certificate = replace(certificate, claims=(*certificate.claims, *candidates.claims, *late), reason=reason)
    return replace(found, certificate=certificate, samples_used=oracle.spent, queries=dict(oracle.queries))
