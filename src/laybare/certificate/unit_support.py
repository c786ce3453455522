"""Do the data support every unit? One unit fewer must be worse, and the samples must show every unit bend where no other does.

The squared error alone does not tell: with a unit too many the others make room for it. So the network is refitted without its
least important units, and the gain of the unit (`evidence`) must exceed its penalty.

A unit whose kink lies beyond all samples is part of a linear map. Two that bend between the same samples are seen as one: three
units of five inputs, two of them nearly parallel, fitted 99 samples exactly in more than one way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laybare.certificate.certificate import RULES, Claim, ClaimName
from laybare.certificate.evidence import bic_penalty_per_unit, log_likelihood_gain, refit_effort, robust_gain
from laybare.certificate.fitted_network import FittedNetwork
from laybare.numerics.shapes import Array
from laybare.solver import Effort
from laybare.solver.minimise import exact_refit_effort
from laybare.solver.normal import Fit, FitStatistic, elimination_order, project
from laybare.solver.point import Point, keep_units
from laybare.source import Source

EXACT_REFIT = Effort(max_steps=20)
"""Effort of a refit without noise: other units make up for one that is not needed in a few steps, down to rounding."""


class ReducedNetwork(NamedTuple):
    """A network without one of its units, the others refitted; the gain of that unit on the used rows, or on a share of them."""

    point: Point
    unit_gain: float
    share: float = 1.0


def one_unit_fewer_claim(fitted: FittedNetwork, reduced: ReducedNetwork, design_effect: float = 1.0) -> Claim:
    """Gain of the least important unit, the others refitted; dependent rows count as fewer, by the `design_effect`.

    Without refitting, a unit that was split into two which no sample tells apart would look indispensable.
    """
    value, limit = reduced.unit_gain / design_effect, RULES.suspicious_unit_gain * bic_penalty_per_unit(fitted)
    return Claim(
        ClaimName.ONE_UNIT_FEWER, value, limit, value > limit, "tested",
        "how much less likely the used samples are without the least important unit, against what its free parameters would gain "
        "from noise; less than the threshold means that the width is not supported by the data.")


def drop_least_needed_unit(fitted: FittedNetwork) -> ReducedNetwork:
    """The best network with one unit fewer, of the few that look best; the gain is infinite if there is no unit."""
    return drop_cheapest_units(fitted)[0]


def drop_cheapest_units(fitted: FittedNetwork) -> list[ReducedNetwork]:
    """Networks with one unit fewer, of the few that look best, the best first; one of infinite gain if there is no unit."""
    order, _ = elimination_order(fitted.point, fitted.fit)
    found, enough = list[ReducedNetwork](), RULES.indispensable_unit_gain * bic_penalty_per_unit(fitted)
    for i in order[: 1 if fitted.exact else RULES.dropped_units]:
        found.append(_drop_unit(fitted, int(i)))
        if found[-1].unit_gain >= enough * found[-1].share:
            break
    return sorted(found, key=lambda one: one.unit_gain) or [ReducedNetwork(fitted.point, np.inf)]


def _drop_unit(fitted: FittedNetwork, unit: int) -> ReducedNetwork:
    """The network without a unit, the others refitted. Without noise the search rows decide: what cannot fit those cannot fit
    all. With noise they decide if the unit is clearly real there, or else the curvature rows, if it gains so much on the search
    rows that it should be clear on these; one that only follows noise gains half as much there."""
    kept = np.delete(np.arange(fitted.point.width), unit)
    rest = keep_units(fitted.point, kept)
    loss = float(fitted.fit.loss)
    if rest.width == 0:
        point, narrow = project(rest, Fit(*fitted.used.sum(FitStatistic(rest), stage="certificate")))
        return ReducedNetwork(point, _robust_minimum(fitted, point, log_likelihood_gain(fitted, narrow, loss, wider=0)))
    clear, expected = RULES.clear_unit_gain * bic_penalty_per_unit(fitted), np.inf  # expected of a row
    for part in (fitted.search_rows, fitted.curvature_rows):
        if part is fitted.used or expected * part.size <= clear:
            break
        on_part = _drop_unit_on_part(fitted, rest, kept, part)
        if fitted.exact or on_part.unit_gain > clear:
            return on_part
        expected = on_part.unit_gain / part.size
    refit = fitted.refit(rest, exact_refit_effort(EXACT_REFIT, rest) if fitted.exact else refit_effort(fitted))
    gain = log_likelihood_gain(fitted, refit.loss, loss, wider=0)
    return ReducedNetwork(refit.point, _robust_minimum(fitted, refit.point, gain))


def _drop_unit_on_part(fitted: FittedNetwork, rest: Point, kept: Array, part: Source) -> ReducedNetwork:
    """The same on a part of the used rows: a unit that gains so much there gains more on all.

    With noise both networks are fitted to these rows: one that was fitted to all would look worse, by the noise that the other
    follows. The refit ends when three steps gain less than a tenth: what it gains later does not decide.
    """
    if fitted.exact:
        refit = fitted.refit(rest, exact_refit_effort(EXACT_REFIT, rest), part)
        loss = refit.loss * (fitted.used.size / part.size)
        return ReducedNetwork(refit.point, log_likelihood_gain(fitted, loss, float(fitted.fit.loss), wider=0))
    nearby = fitted.curvature_on_search_rows(kept, fitted.search_rows.size / part.size)
    refit, own = fitted.refit(rest, replace(refit_effort(fitted), stall_gain=0.1), part, nearby), fitted.fit_on(part)
    ratio = max(1, part.size * part.outputs - fitted.unknowns) * float(np.log(refit.loss / own.loss))
    gain = robust_gain(part, refit.point, own.point, fitted.noise_variance)
    return ReducedNetwork(refit.point, min(ratio / gain.noise_factor, gain.weighted), part.size / fitted.used.size)


def _robust_minimum(fitted: FittedNetwork, narrow: Point, ratio: float) -> float:
    """With noise, the smaller of both robust gains."""
    if fitted.exact:
        return ratio
    gain = robust_gain(fitted.used, narrow, fitted.point, fitted.noise_variance)
    return min(ratio / gain.noise_factor, gain.weighted)


def kink_claims(fitted: FittedNetwork) -> tuple[Claim, ...]:
    """Samples on the thinner side of each kink, and between the kinks of any two units. A smooth unit that is straight on all
    samples has no standard errors."""
    network, used = fitted.white, fitted.used
    if not network.activation.kinks:
        return ()
    kinks, columns = network.activation.kinks, network.width * len(network.activation.kinks)
    above, both = fitted.row_sums.beyond, fitted.row_sums.beyond_both
    thinner = np.minimum(above, used.size - above)
    worst, least = int(np.argmin(thinner)) // len(kinks) if columns else 0, int(thinner.min(initial=used.size))
    apart = above[:, None] + above - 2.0 * both
    apart = np.minimum(apart, used.size - apart)[np.kron(1 - np.eye(network.width), np.ones((len(kinks),) * 2)) > 0]
    between = int(apart.min(initial=used.size))
    fewest = network.dim + 2
    need = (1 if fitted.exact else RULES.noisy_kink_factor) * fewest
    return (
        Claim(
            ClaimName.KINK_CROSSED, float(least), need, least >= need, "proved",
            f"unit {worst + 1} has {least} of {used.size:,} samples on the thinner side of its kink; it takes dim + 2 to fix its "
            f"row, and {RULES.noisy_kink_factor} times as many with noise, which a unit on fewer would follow."),
        Claim(
            ClaimName.BETWEEN_KINKS, float(between), fewest, between >= fewest, "proved",
            "samples on one side of the kink of one unit and on the other side of another's: on all others the two are a single "
            "one, so that these alone tell them apart; it takes dim + 2."))
