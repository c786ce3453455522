"""Does a black box have one answer for an input, and is what a fit leaves its noise?

Inputs that were asked before are asked again (`laybare.source.oracle.repeats`). Answers that depend on the call, or that have
changed, have no one network behind them. With noise, an F test finds a shift or a factor that all answers have in common.

*Lack of fit.* Repeated answers show the variance of the noise whatever the function is. A fit whose residual is larger leaves
structure, and a box that repeats itself to rounding has no noise at all: whatever is left then is misfit.
Source: Fisher's test of lack of fit against pure error (1922).
"""

from __future__ import annotations

import numpy as np
from scipy.special import fdtrc, fdtri, ndtr

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.numerics.levels import NOISELESS, ROUNDING
from laybare.source.oracle.repeats import RepeatedAnswers

SENTENCES = {
    "batch": (
        "the same input is answered otherwise in another call: answers depend on the rows beside it or on its place among them, "
        "as with batch normalisation in training mode, or padded batches. Ask it in evaluation mode, or row by row (batch=1)."),
    "changed": (
        "the same call gives the same answers now, but others than before: the black box was replaced, retrained or has learned "
        "while it was asked. Ask a version that stays as it is."),
    "sometimes": (
        "all calls give the same answers now, and had others before for these few: now and then it is answered otherwise, as by "
        "one of several models at random, or part of it has changed meanwhile."),
    "noisy": (
        "the same call gives other answers every time: noise, drop-out that is switched on, or one of several models at random."),
}
"""What is wrong with a black box whose answers do not repeat."""


def repeat_claims(repeats: RepeatedAnswers | None, *, noise_allowed: bool, moved: float = 0.0) -> tuple[Claim, ...]:
    """That a black box has one answer for an input, or, with noise, no drift. Nothing if nothing was asked again.

    `moved`: by how much answers to the same question were seen to differ before. Then it does not always repeat itself.
    """
    if repeats is None:
        return ()
    kind, count = repeats.kind, len(repeats.first)
    if kind == "same" and moved > 0.0:
        return (Claim(
            ClaimName.REPEATS, moved, 0.0, False, "tested",
            f"the same question had answers that differ by {moved:.2g} before, and {count} inputs that were asked again at the "
            "end had the same answers: now and then it is answered otherwise, as by one of several models, or the black box has "
            "changed.", decisive=True),)
    if kind == "noisy" and len(repeats.first) > 2:
        drift = drift_claim(repeats)
        if noise_allowed or not drift.passed:
            return (drift,)
    text = (
        f"{count} inputs were asked again at the end: the answers are the same, to rounding." if kind == "same" else
        f"{repeats.differing} of {count} inputs that were asked again had another answer: {SENTENCES[kind]}")
    return (Claim(
        ClaimName.REPEATS, float(repeats.differing), 0.0, kind == "same" or (kind == "noisy" and noise_allowed), "tested", text,
        decisive=True),)


def drift_claim(repeats: RepeatedAnswers) -> Claim:
    """Whether answers to the same inputs have moved: an F test of shift and factor, each output by itself, the worst counts.

    Noise moves them too, but neither all to one side nor all by one factor.
    """
    chances = []
    for first, last in zip(repeats.first.T, repeats.last.T, strict=True):
        change, free = last - first, len(first) - 2
        basis = np.linalg.qr(np.column_stack([np.ones(len(first)), first]))[0]
        moved = float(np.sum((basis.T @ change) ** 2))
        rest = max(float(change @ change) - moved, (ROUNDING * float(np.abs(first).max())) ** 2 * len(first), 1e-300)
        chances.append(float(fdtrc(2, free, (moved / 2.0) / (rest / free))))
    value, limit = float(-np.log10(max(min(chances), 1e-300))), RULES.refuting_evidence + float(np.log10(len(chances)))
    return Claim(
        ClaimName.DRIFT, value, limit, value <= limit, "tested",
        f"-log10 of the chance that {len(repeats.first)} answers, asked again at the end, differ so much by one shift and one "
        "factor; a black box that changes while it is asked has no one network behind it.", decisive=True)


def lack_of_fit_claim(noise: float, repeats: RepeatedAnswers | None) -> tuple[Claim, ...]:
    """That the residual, of this standard deviation, is no larger than the noise of repeated answers."""
    if repeats is None or not np.isfinite(noise):
        return ()
    rounding = max(float(repeats.tol.max()), NOISELESS * float(np.std(repeats.first)))
    if repeats.kind == "same":
        return (Claim(
            ClaimName.LACK_OF_FIT, noise, rounding, noise <= rounding, "tested",
            "root mean square residual, against rounding: the black box repeats itself, so that it has no noise, and what a fit "
            "leaves is something that it does not explain.", decisive=True, of_answers=True),)
    sd = max(float(np.sqrt(repeats.variance)), rounding)
    limit = float(np.sqrt(fdtri(1e9, repeats.degrees_of_freedom, ndtr(RULES.sigmas))))
    if is_call_dependent(noise, repeats):
        return (Claim(
            ClaimName.LACK_OF_FIT, noise / sd, limit, False, "tested",
            f"standard deviation of the residual over that of repeated answers, {sd:.2g}: one network fits the answers of one "
            "call far better than they repeat. They drift from call to call, or depend on the rows beside them.", decisive=True,
            of_answers=True),)
    return (Claim(
        ClaimName.LACK_OF_FIT, noise / sd, limit, noise <= limit * sd, "tested",
        f"standard deviation of the residual over that of the noise, {sd:.2g}, as {len(repeats.first)} repeated inputs show it; "
        "a larger one means that the network leaves something unexplained, or that the noise is larger elsewhere.",
        of_answers=True),)


def is_call_dependent(noise: float, repeats: RepeatedAnswers | None) -> bool:
    """Whether answers that were given together agree with one network far better than with themselves when asked again.

    Answers that did not move say nothing: where no unit is active a network that drifts by a factor may stay as it is.
    """
    if repeats is None or repeats.kind == "same":
        return False
    chance, apart = float(fdtri(repeats.degrees_of_freedom, 1e9, ndtr(RULES.sigmas))), np.abs(repeats.first - repeats.last)
    moved = apart[apart > repeats.tol[:, None]]
    return bool(repeats.variance > chance * noise**2 and moved.size and np.median(moved) > noise)


def has_one_answer(repeats: RepeatedAnswers | None, moved: float = 0.0) -> bool:
    """Whether nothing speaks against one function behind the answers, noise apart."""
    return all(claim.passed for claim in repeat_claims(repeats, noise_allowed=True, moved=moved))
