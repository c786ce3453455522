"""Several attempts at one network, the best of which is kept.

Samples without a method: methods are tried in the order that suits the data. The next one is tried while there is time if the one
before is refuted, or leaves structure in the residual; unless two runs agree on it and other activations were tried in its place
and are clearly worse. If no activation is given, ReLU is tried first; where it is refuted, smooth units follow, and those that
fit held-out rows equally well are ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from laybare.certificate import Claim, ClaimName
from laybare.errors import LaybareError
from laybare.methods import Method
from laybare.numerics.shapes import Progress, report_progress
from laybare.pipeline.monitor import Clock
from laybare.pipeline.recovery import Recovery

if TYPE_CHECKING:
    from laybare.methods.choosing import Candidate, Choice  # imports every method

RANKS = {"verified": 0, "doubtful": 1, "refuted": 2}


@dataclass(frozen=True, kw_only=True)
class PortfolioOptions:
    """When to try more methods or activations."""

    method_work: float = 120.0  # Counted seconds after which no other method is begun. Convention: what a user waits for.
    tie_errors: float = 2.0  # standard errors of held-out mean squares that tie. Checked by `laybare reproduce choose`.


PORTFOLIO = PortfolioOptions()
"""The options in use."""


def try_methods(
    choose: Callable[[], Choice], fit: Callable[[Method], Recovery], clock: Clock, *, first: Candidate | None = None,
    width_given: bool = False, progress: Progress | None = None,
) -> Recovery:
    """The best of the candidates, with claims that say which were tried and which activations fit as well.

    To `choose` takes a look at the data: that is only done if the `first` candidate, if there is one, leaves something open. A
    method that refuses is passed over; if all do, the first refusal is raised.
    """
    tried, notes, refusals = list[Recovery](), list[str](), list[LaybareError]()
    choice, waiting = None, [] if first is None else [first]
    try:
        while waiting or (choice is None and _is_open(tried, clock)):
            if not waiting:
                choice = choose()
                waiting = [one for one in choice.candidates if one != first]
                continue
            candidate = waiting.pop(0)
            if not _is_open(tried, clock) or not _may_improve(tried, candidate, width_given=width_given):
                continue
            report_progress(progress, "method", len(notes) + 1, len(notes) + 1 + len(waiting), candidate.reason)
            try:
                tried.append(fit(candidate.method))
                notes.append(f"{candidate.reason} {_ended(tried[-1])}")
            except LaybareError as refusal:
                refusals.append(refusal)
                notes.append(f"{candidate.reason} It refused: {refusal.seen}")
        if choice is None and clock.over and "verified" not in [one.certificate.verdict for one in tried]:
            choice = choose()  # for its advice
    except KeyboardInterrupt:
        if not tried:
            raise
        notes.append("Then it was interrupted.")
    if not tried:
        raise refusals[0]
    best = min(tried, key=_rank)
    certificate = best.certificate.with_check(ClaimName.MINIMUM, _chosen(notes, choice, best, clock))
    return replace(best, certificate=certificate.with_check(ClaimName.FUNCTION, *_activation(best, tried)))


def _is_open(tried: list[Recovery], clock: Clock) -> bool:
    """Whether a further method may be better, or its activation as good where noise hides which is right, and time is left.

    None is better where the structure that is left may be chance and nothing rivals the fit.
    """
    if not tried:
        return True
    if was_interrupted(tried[-1]) or clock.work > PORTFOLIO.method_work or clock.over:
        return False
    certificate = min(tried, key=_rank).certificate
    findings, refuted = certificate.findings, certificate.verdict == "refuted"
    if not refuted and findings.rivals_worse and findings.runs:
        return False
    return refuted or findings.structure_left or len({one.network.activation for one in tried}) > 1


def _may_improve(tried: list[Recovery], candidate: Candidate, *, width_given: bool) -> bool:
    """Whether this candidate may, where something is open: no other search for the same units is better where the given width is
    too small."""
    if not tried:
        return True
    units = {one.network.activation for one in tried}
    new, certificate = candidate.method.activation not in units, min(tried, key=_rank).certificate
    findings = certificate.findings
    if certificate.verdict == "refuted" or findings.structure_left:
        too_narrow = width_given and findings.unit_missing and findings.runs
        return new or (len(units) == 1 and not too_narrow)
    return new and certificate.explained < 1.0 - 1e-12


def was_interrupted(found: Recovery) -> bool:
    return any(trace.interrupted for trace in found.traces)


def _rank(found: Recovery) -> tuple[int, float]:
    """Smaller is better; what has no held-out rows comes last."""
    error = found.certificate.held_out
    return RANKS[found.certificate.verdict], error if np.isfinite(error) else np.inf


def _ended(found: Recovery) -> str:
    return f"{found.certificate.verdict.capitalize()}, {1.0 - found.certificate.explained:.2g} of the variance left."


def _chosen(notes: list[str], choice: Choice | None, best: Recovery, clock: Clock) -> Claim:
    verdict = best.certificate.verdict
    lost = verdict == "refuted" or (verdict != "verified" and clock.over)
    text = " ".join(notes) + (f" {choice.otherwise}" if choice is not None and lost else "")
    known = 1.0 if choice is None else len(choice.candidates)
    return Claim(ClaimName.METHODS_TRIED, len(notes), known, True, "tested", text)


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
