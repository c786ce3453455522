"""Whether independent runs ended at the same fit, and how soon: what it takes to believe one where there is noise.

With noise no fit says by itself that it is the best one: two that began elsewhere and ended there do. Of the minima that single
runs end at, the best is taken, so that a unit which follows noise has been chosen among several, and gains more than its numbers
would by themselves. The more runs it takes until two agree, the more minima there are, and the likelier it is that a better one,
or the true one, was not met. Of 1,000 plain noisy networks on which these rules were set (`laybare reproduce plain-noise --seeds
500000-500999`) 2 of 571 were wrong if the first two runs agreed, 14 of 369 if it took three to nine, 4 of 39 if it took more, and
6 of 21 if no two did.
"""

from __future__ import annotations

from dataclasses import replace

from laybare.certificate.claims import Claim

MET = "runs until two ended at the same fit"

FEW, SOME, MANY = 5.0, 9.0, 100.0
"""Runs that it may take: where a residual is strange, where a unit is hardly needed, and where nothing is the matter."""

CLEAR = 1.5
"""Times what is needed that the least important unit must be worth, where it took more than a few runs. Wrong networks that had
passed stood at 1.01 and 1.04, three in four of the right ones above."""

HALFWAY = 0.5
"""Share of what chance may add to the fresh residual, or of what features may explain of the used one, beyond which a network is
strange: what chance alone seldom does. Units that had traded weight stood at 0.68 and 0.79 of the former, a number eight and six
standard errors off; a unit in another's place stood at 0.67 of the latter."""


def met(runs: int) -> Claim:
    """How many runs it took until two that began elsewhere ended at the same fit; 0: none did."""
    return Claim(
        MET, float(runs) if runs else float("inf"), MANY, runs > 0, "tested",
        f"two of {runs} runs from different random units ended at the same fit." if runs else
        "no two runs from different random units ended at the same fit, so that another network may fit as well or better; "
        "more samples make that less likely, and so does a search with more hops.")


def believed(claims: tuple[Claim, ...], fewer: Claim, fresh: Claim, left: Claim) -> tuple[Claim, ...]:
    """These claims, where that of `met` asks for few runs if the `fresh` residual is larger than the used one, or more is `left`
    in that, than chance often makes it; and for some if a unit is hardly needed, by the claim of one unit `fewer`."""
    strange = fresh.value - 1.0 > HALFWAY * (fresh.threshold - 1.0) or left.value > HALFWAY * left.threshold
    hardly = fewer.value < CLEAR * fewer.threshold
    most = FEW if strange else SOME if hardly else MANY
    return tuple(
        replace(claim, threshold=most, passed=claim.value <= most) if claim.name == MET else claim for claim in claims)
