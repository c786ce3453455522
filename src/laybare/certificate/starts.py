"""Whether independent starts ended at the same fit, and what it takes to believe one that a search ended at once only.

With noise no fit says by itself that it is the best one: two that began elsewhere and ended there do. Of the minima that single
runs end at, the best is taken, so that a unit which follows noise has been chosen among several, and gains more than its numbers
would by themselves. Of the plain noisy networks with seeds 320000 to 320999 one in 25 was found once only, and one in six of
these was wrong, against one in 60 of the others; the wrong ones had a unit that was hardly worth its numbers.
"""

from __future__ import annotations

from dataclasses import replace

from laybare.certificate.claims import Claim

MET = "independent starts that ended at this fit"

ALONE = 1.5
"""Times what is needed that the least important unit must be worth, if a search ended there once only. Wrong networks that had
passed stood at 1.01 and 1.04, three in four of the right ones above."""

HALFWAY = 0.5
"""Share of what chance may add to the fresh residual, or of what features may explain of the used one, beyond which a network
that a search ended at once only is not believed: what chance alone seldom does. Units that had traded weight stood at 0.68 of the
former, a number eight standard errors off; a unit in another's place stood at 0.67 of the latter."""


def met(*, agreed: bool) -> Claim:
    """Whether two searches that began elsewhere ended at the same fit."""
    return Claim(
        MET, 1.0 + agreed, 1.0, True, "tested" if agreed else "assumed",
        "two searches from different random units ended at the same loss." if agreed else
        "no two searches from different random units ended at the same loss, so that only refits from nearby speak for it, and "
        "every unit being worth much more than its numbers.")


def believed(claims: tuple[Claim, ...], fewer: Claim, fresh: Claim, left: Claim) -> tuple[Claim, ...]:
    """These claims, where that of `met` asks for two starts if a unit is hardly needed, by the claim of one unit `fewer`, or if
    the `fresh` residual is larger than the used one, or more is `left` in that, than chance often makes it."""
    strange = fresh.value - 1.0 > HALFWAY * (fresh.threshold - 1.0) or left.value > HALFWAY * left.threshold
    if fewer.value >= ALONE * fewer.threshold and not strange:
        return claims
    return tuple(
        replace(claim, threshold=2.0, passed=False, kind="tested") if claim.name == MET and claim.value < 2.0 else claim
        for claim in claims)
