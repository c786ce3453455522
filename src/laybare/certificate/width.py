"""Is it the right number of units? One more and one fewer, each refitted, must both be worse.

The squared error alone does not tell: with a unit too few it is as large on fresh samples as on used ones, with a unit too many
the others make room for it. Refitting does tell, by Schwarz's (1978) criterion. With N equations, p unknowns of the wider of
two networks and q of the unit that they differ by, the wider one is worth it if

    (N - p) log(loss of the narrower / loss of the wider) > q log N.

N - p instead of N corrects for the wider fit following the noise, which matters when N is a small multiple of p. Units that only
follow noise can come close to q log N (an outlier, or a step between two samples), so a unit counts as real beyond 3/2 of it,
and one that is worth 1 to 3/2 leaves the matter open. A unit that is there already counts as needed beyond 6/5: what is wrong
about such fits shows elsewhere (`neighbours`). Units that are buried deeper can fall below 1: these samples cannot show
them, and a network without them passes; the certificate states how large they could be. Noise that is larger in some places, and
outliers, overrate units there: each gain is also taken from the gains of single rows (`likelihood`), and the smaller one counts.

Here one fewer; `missing` has one more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laybare.certificate.claims import Claim
from laybare.certificate.fitted import State
from laybare.certificate.likelihood import robust_gain
from laybare.certificate.worth import NEEDED, effort_of, price_of_a_unit, worth_of
from laybare.damping import Effort
from laybare.refinement.levenberg import project
from laybare.refinement.normal import Fit, FitStatistic, Point
from laybare.refinement.pruning import elimination_order, quick, without
from laybare.shapes import Array

FEWER = 2
"""Units that are tried to leave out: the cheapest."""

INDISPENSABLE = 20.0
"""Times its price that the unit which looks cheapest must be worth on all rows, so that the next one need not be tried."""

FEWER_UNITS = "loss of one unit fewer"

SHORT = Effort(max_steps=20)
"""Steps of a refit without noise: a unit that is not needed is made up for in a few steps, down to rounding."""

PLAIN = 1.5
"""Times its price that a unit must be worth on some of the rows alone, so that all rows need not be asked. These are half of them
or fewer, and one that only follows noise, worth 1.07 times its price on all, is worth half of that there."""


class Narrower(NamedTuple):
    """A network without one of its units, the others refitted, and what the samples lose by that, or such a share of them."""

    point: Point
    worth: float
    share: float = 1.0


def one_fewer(state: State) -> Claim:
    """What the least important unit is worth: the loss without it, the others refitted.

    Without refitting, a unit that was split into two which no sample tells apart would look indispensable.
    """
    value, limit = least_needed(state).worth, NEEDED * price_of_a_unit(state)
    return Claim(
        FEWER_UNITS, value, limit, value > limit, "tested",
        "how much less likely the used samples are without the least important unit, against what its free numbers would gain "
        "from noise; less than the threshold means that the width is not supported by the data.")


def unsupported(claims: tuple[Claim, ...]) -> bool:
    """Whether a unit is worth less than its numbers cost, by the claim of `one_fewer`."""
    return any(claim.name == FEWER_UNITS and claim.value < claim.threshold / NEEDED for claim in claims)


def least_needed(state: State) -> Narrower:
    """The best network with a unit fewer, of the few that look cheapest; worth infinity if there is no unit."""
    order, _ = elimination_order(state.point, state.fit)
    least, enough = Narrower(state.point, np.inf), INDISPENSABLE * price_of_a_unit(state)
    for i in order[: 1 if state.exact else FEWER]:
        least = min(least, _without(state, int(i)), key=lambda one: one.worth)
        if least.worth >= enough * least.share:
            break
    return least


def _without(state: State, unit: int) -> Narrower:
    """The network without a unit, the others refitted. Without noise some of the samples do: what cannot fit those cannot fit
    all; with noise they do if they leave no doubt."""
    kept = np.delete(np.arange(state.point.width), unit)
    rest = without(state.point, kept)
    loss = float(state.fit.loss)
    if rest.width == 0:
        point, narrow = project(rest, Fit(*state.view.sum(FitStatistic(rest), stage="certificate")))
        return Narrower(point, _smaller(state, point, worth_of(state, narrow, loss, wider=0)))
    on_part = _on_part(state, rest, kept)
    if on_part is not None and (state.exact or on_part.worth > PLAIN * price_of_a_unit(state)):
        return on_part
    refit = state.refit(rest, quick(SHORT, rest) if state.exact else effort_of(state))
    return Narrower(refit.point, _smaller(state, refit.point, worth_of(state, refit.loss, loss, wider=0)))


def _on_part(state: State, rest: Point, kept: Array) -> Narrower | None:
    """The same on some of the rows, if they are much fewer: what is worth so much there is worth more on all.

    With noise both networks are fitted to these rows: one that was fitted to all would look worse than it is, by all that the
    other follows of their noise. The refit ends when three steps gain less than a tenth, since what a narrower network wins later
    no longer decides.
    """
    part = state.some
    if part is state.view:
        return None
    if state.exact:
        refit = state.refit(rest, quick(SHORT, rest), part)
        return Narrower(refit.point, worth_of(state, refit.loss * (state.view.size / part.size), float(state.fit.loss), wider=0))
    effort, nearby = replace(effort_of(state), stall_gain=0.1), state.curvature_on_some(kept)
    refit, own = state.refit(rest, effort, part, nearby), state.own_on_some
    ratio = max(1, part.size * part.outputs - state.unknowns) * float(np.log(refit.loss / own.loss))
    gain = robust_gain(part, refit.point, own.point, state.noise)
    return Narrower(refit.point, min(ratio / gain.local, gain.counted), part.size / state.view.size)


def _smaller(state: State, narrow: Point, ratio: float) -> float:
    """With noise, no more than the rows one by one say."""
    if state.exact:
        return ratio
    gain = robust_gain(state.view, narrow, state.point, state.noise)
    return min(ratio / gain.local, gain.counted)
