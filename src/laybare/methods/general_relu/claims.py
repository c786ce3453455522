"""What a certificate says beside the fit of GeneralReLU: for the reader, how much of the start came from moments."""

from __future__ import annotations

from laybare.certificate import Claim
from laybare.methods.start import Outcome, Start
from laybare.moments import khatri_rao_gap, needed_order
from laybare.source import Source


def powers_apart(source: Source, outcome: Outcome) -> tuple[Claim, ...]:
    """How well the weights found are told apart by moments. Small means ill-conditioned, not wrong."""
    weights = outcome.network.layer.weights
    order = needed_order(outcome.network.dim, outcome.network.width)
    if order is None or not weights.any(axis=1).all():
        return ()
    return (Claim(
        "least singular value of the weights' powers", khatri_rao_gap(weights, order), 0.0, True, "proved",
        f"of the Khatri-Rao power of order {order}: 1 for orthogonal weights, 0 for dependent ones; the error of moments grows "
        "with its inverse."),)


def units_shown(shown: int, text: str) -> Claim:
    """How many units of the start stand out of the noise. It decides speed, not truth, so it never fails."""
    return Claim(
        "units that moments show above their noise", float(shown), 0.0, True, "tested",
        f"{text}. The start decides the speed; what was found is judged by the other claims.")


def at_random(reason: str) -> Start:
    """A start without units, and why."""
    return Start(None, (units_shown(0, f"{reason}, so units started at random"),))
