"""Samples of a black box in rounds: a first small one, then growing, until the certificate holds, the budget or the time ends.

So the budget is not spent where less is enough, and no search runs for minutes without a word.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.errors import TooFewSamples
from laybare.methods import RandomStart
from laybare.pipeline.clock import Clock
from laybare.pipeline.recovery import Recovery
from laybare.pipeline.unlike_lines import Candidates
from laybare.shapes import Progress, tell
from laybare.source import Oracle, Samples, Source

FIRST, GROWTH = 300, 3
"""Rows of the first round, and how they grow: the last round costs about as much as all before it together."""

LAST_TRIES = 3
"""Searches on all that the budget allows: no more rows can help, other starts may."""

HELD_OUT = 40
"""Rows that no round fits: they decide between activations."""

SECONDS = 60.0
"""No round begins after this, and a search under way then hands over what it has."""

STILL_IN = 10.0
"""Activations whose error is within so many times the smallest go on to the next round."""

RANKS = {"verified": 0, "doubtful": 1, "refuted": 2}

Fitter: TypeAlias = Callable[[Source, RandomStart, Progress], Recovery]


@dataclass(frozen=True)
class Attempt:
    """A fit and how far it is off at rows that it has not seen, relative to the spread of the outputs."""

    found: Recovery
    error: float

    @property
    def rank(self) -> tuple[int, float]:
        """Smaller is better."""
        return RANKS[self.found.certificate.verdict], self.error

    @property
    def stopped(self) -> bool:
        return any(trace.reason == "interrupted" for trace in self.found.traces)


def recover_in_rounds(
    oracle: Oracle, candidates: Candidates, fit: Fitter, *, progress: Progress | None = None, seconds: float = SECONDS
) -> Recovery:
    """The best fit of the candidates on as many samples as it takes; `fit` is the loop on samples.

    With noise, a fit of few rows may miss a unit: two rounds in a row must then agree on the width. TooFewSamples if the
    budget has room for none.
    """
    clock, units = Clock(progress, time.perf_counter() + seconds), candidates.activations
    best: Attempt | None = None
    now: Attempt | None = None
    sizes = _sizes(oracle.budget - oracle.spent)
    for rows in sizes:
        tell(progress, "round", rows, sizes[-1], f"{rows:,} samples, {' or '.join(unit.name for unit in units)}")
        try:
            attempts = _attempts(oracle, rows, units, fit, clock)
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
        units = tuple(one.found.network.activation for one in attempts if one.error <= STILL_IN * now.error)
        if _enough(now, before, candidates) or clock.over:
            break
    return _with_queries(best, oracle, candidates, seconds if clock.over else None)


def _sizes(most: int) -> list[int]:
    """Rows of each round; the last has all that the budget allows, and may be tried again from other starts."""
    sizes = [FIRST]
    while GROWTH * sizes[-1] < most:
        sizes.append(GROWTH * sizes[-1])
    return [*(size for size in sizes if size < most), *([most] * LAST_TRIES)]


def _attempts(oracle: Oracle, rows: int, units: tuple[Activation, ...], fit: Fitter, clock: Clock) -> list[Attempt]:
    """A fit for each kind of unit, until one is verified; rows of earlier rounds are not paid for again."""
    x = oracle.typical(rows)
    y = oracle.ask(x, purpose="samples", reuse=True)
    aside = min(HELD_OUT, rows // 4)
    source = Samples(x[aside:], y[aside:, 0] if y.shape[1] == 1 else y[aside:], law=oracle.law)
    attempts: list[Attempt] = []
    for activation in units:
        found = fit(source, RandomStart(activation=activation), clock)
        missed = found.network(x[:aside]).reshape(y[:aside].shape) - y[:aside]
        attempts.append(Attempt(found, float(np.sqrt((missed**2).mean() / max(y.var(axis=0).mean(), np.finfo(float).tiny)))))
        if attempts[-1].rank[0] == 0 or attempts[-1].stopped:
            break
    return attempts


def _enough(now: Attempt, before: Attempt | None, candidates: Candidates) -> bool:
    agreed = not candidates.noisy or (before is not None and before.found.network.width == now.found.network.width)
    return now.stopped or (now.rank[0] == 0 and agreed)


def _with_queries(best: Attempt | None, oracle: Oracle, candidates: Candidates, seconds: float | None) -> Recovery:
    """The recovery with what was seen before it, what queries were spent on, and the end of time if that was the reason."""
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
