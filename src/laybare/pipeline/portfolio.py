"""No method was given: the data are looked at, methods are tried in the order that suits them, and the best result is kept.

The next method is tried if the one before is refuted, or leaves structure in the residual, while there is time; unless two runs
agree on it and other activations were tried in its place and are clearly worse. If no activation was told, ReLU is tried first;
where it is refuted, smooth units follow, and those that fit held-out rows equally well are ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from laybare.certificate import Claim
from laybare.certificate.missing import too_narrow
from laybare.certificate.rivals import unrivalled
from laybare.errors import LaybareError
from laybare.methods import Method
from laybare.methods.choosing import Candidate, Choice
from laybare.pipeline.clock import Clock
from laybare.pipeline.recovery import Recovery
from laybare.shapes import Progress, tell

NEXT_WITHIN = 120.0
"""Seconds after which no other method is begun."""

RANKS = {"verified": 0, "doubtful": 1, "refuted": 2}

SAME = 2.0
"""Standard errors of the held-out mean squares within which two activations fit equally well."""

Fitter: TypeAlias = Callable[[Method], Recovery]


def recover_by_choice(
    choice: Choice, fit: Fitter, clock: Clock, *, told: bool = False, progress: Progress | None = None
) -> Recovery:
    """The best of the candidates, with claims that say which were tried and which activations fit as well; `told`: the width is.

    A method that refuses is passed over; if all do, the first refusal is raised.
    """
    tried: list[tuple[Candidate, Recovery]] = []
    notes: list[str] = []
    refusals: list[LaybareError] = []
    for n, candidate in enumerate(choice.candidates, 1):
        if tried and (clock.elapsed > NEXT_WITHIN or clock.over or not _go_on([one for _, one in tried], candidate, told=told)):
            continue
        tell(progress, "method", n, len(choice.candidates), candidate.reason)
        try:
            found = fit(candidate.method)
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


def _go_on(tried: list[Recovery], candidate: Candidate, *, told: bool) -> bool:
    """Whether the next candidate may be better; or another activation as good, where noise hides which is right. No way to look
    for the same units is better where a width that was told is too small, and none at all where the structure that is left may
    be chance and nothing rivals the fit."""
    if any(trace.reason == "interrupted" for trace in tried[-1].traces):
        return False
    best = min(tried, key=_rank)
    units = {one.network.activation for one in tried}
    new = candidate.method.activation not in units
    refuted = best.certificate.verdict == "refuted"
    if not refuted and unrivalled(best.certificate.claims):
        return False
    if refuted or _structured(best):
        return new or (len(units) == 1 and not (told and too_narrow(best.certificate.claims)))
    return new and len(units) > 1 and best.certificate.explained < 1.0 - 1e-12


def _structured(found: Recovery) -> bool:
    return any(claim.name == "structure left in the residual" and not claim.passed for claim in found.certificate.claims)


def _rank(found: Recovery) -> tuple[int, float]:
    """Smaller is better; what has no held-out rows comes last."""
    error = found.certificate.held_out
    return RANKS[found.certificate.verdict], error if np.isfinite(error) else np.inf


def _left(found: Recovery) -> str:
    return f"{1.0 - found.certificate.explained:.2g}"


def _chosen(notes: list[str], choice: Choice, best: Recovery) -> Claim:
    text = " ".join(notes) + (f" {choice.otherwise}" if best.certificate.verdict == "refuted" else "")
    return Claim("methods tried", float(len(notes)), float(len(choice.candidates)), True, "tested", text)


def _activation(best: Recovery, tried: list[Recovery]) -> tuple[Claim, ...]:
    """Ties of other activations on the held-out rows; nothing to say if only one was tried."""
    mine = best.network.activation
    worst_first = sorted(tried, key=_rank, reverse=True)
    others = {one.network.activation.name: one for one in worst_first if one.network.activation != mine}
    if not others:
        return ()
    ties = [name for name, one in others.items() if _as_good(one, best)]
    errors = ", ".join(f"{one.network.activation.name} {one.certificate.held_out:.2g}" for one in (best, *others.values()))
    text = (
        f"mean squares on held-out rows over the variance of y: {errors}; "
        + (f"a tie with {' and '.join(ties)}: these samples do not tell which it is." if ties else f"{mine.name} fits best."))
    return (Claim("activations that fit as well", float(len(ties)), 0.0, not ties, "tested", text),)


def _as_good(one: Recovery, best: Recovery) -> bool:
    """By the verdict, and on the held-out rows within their errors."""
    if one.certificate.verdict != best.certificate.verdict:
        return False
    apart = one.certificate.held_out - best.certificate.held_out
    return bool(apart <= SAME * np.hypot(one.certificate.held_out_error, best.certificate.held_out_error))
