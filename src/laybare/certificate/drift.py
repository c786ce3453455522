"""Has a black box changed while it was asked? Some of its first inputs are asked again at the end."""

from __future__ import annotations

import numpy as np
from scipy.special import fdtrc

from laybare.certificate.claims import Claim
from laybare.certificate.structure import CHANCE
from laybare.levels import ROUNDING
from laybare.refinement.problem import Repeats
from laybare.source import Oracle

AGAIN, RESERVE, LOOKED_AT = 6, 16, 1000
"""Answers of a black box that was read along lines that are asked again, if there are so many times as many; they are taken from
the first thousand."""


def drift_of_reading(oracle: Oracle) -> tuple[Claim, ...]:
    """The claim for a black box that was asked at chosen points; nothing if the budget is spent, or next to nothing was asked."""
    if oracle.spent < RESERVE * AGAIN or oracle.budget - oracle.spent < AGAIN:
        return ()
    answered = oracle.answered()
    x, y = answered.read(0, min(answered.size, LOOKED_AT))
    again = np.arange(len(x))
    if oracle.box is not None:  # which may be younger than the first points
        again = np.setdiff1d(again, oracle.box.outside(x))
    again = again[:AGAIN]
    return (steady(Repeats(y[again], oracle.ask(x[again], purpose="asked again"))),) if len(again) == AGAIN else ()


def steady(repeats: Repeats) -> Claim:
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
    value, limit = float(-np.log10(max(min(chances), 1e-300))), CHANCE + float(np.log10(len(chances)))
    return Claim(
        "drift of the black box", value, limit, value <= limit, "tested",
        f"-log10 of the chance that {len(repeats.first)} answers, asked again at the end, differ so much by one shift and one "
        "factor; a black box that changes while it is asked has no one network behind it.", decisive=True)
