"""Do the samples see every unit bend, and where no other does?

A unit that is straight on all of them is part of a linear map. Two that bend between the same samples are seen as one: three
units of five inputs, two of them nearly parallel, fitted 99 samples exactly in more than one way.
"""

from __future__ import annotations

import numpy as np

from laybare.certificate.claims import Claim
from laybare.certificate.fitted import State
from laybare.linear_algebra import inner
from laybare.shapes import Array, Sums

BENT = 1e-9
"""Least share of a smooth unit's variance that no straight line explains: seven digits above rounding."""

CROWD = 2
"""With noise, so many times dim + 2 samples on the thinner side of a kink: fewer are followed by a unit that is not there."""


def bends(state: State) -> tuple[Claim, ...]:
    """Whether every unit bends on the samples, and where no other does."""
    return _kinks_crossed(state) if state.network.activation.kinks else (_bent(state),)


def _kinks_crossed(state: State) -> tuple[Claim, Claim]:
    """Samples on the thinner side of each kink, and between the kinks of any two units."""
    network, used = state.white, state.view
    kinks, columns = np.array(network.activation.kinks), network.width * len(network.activation.kinks)

    def statistic(x: Array, y: Array) -> Sums:
        above = (network.layer.before(x)[:, :, None] > kinks).reshape(len(x), columns).astype(float)
        return above.sum(axis=0), inner(above, above)

    above, both = used.sum(statistic, stage="certificate")
    thinner = np.minimum(above, used.size - above)
    worst, least = int(np.argmin(thinner)) // len(kinks) if columns else 0, int(thinner.min(initial=used.size))
    apart = above[:, None] + above - 2.0 * both
    apart = np.minimum(apart, used.size - apart)[np.kron(1 - np.eye(network.width), np.ones((len(kinks),) * 2)) > 0]
    between = int(apart.min(initial=used.size))
    fewest = network.dim + 2
    need = (1 if state.exact else CROWD) * fewest
    return (
        Claim(
            "samples beyond the least crossed kink", float(least), need, least >= need, "proved",
            f"unit {worst} has {least} of {used.size:,} samples on the thinner side of its kink; it takes dim + 2 to fix its "
            f"row, and {CROWD} times as many with noise, which a unit on fewer would follow."),
        Claim(
            "samples between the two closest kinks", float(between), fewest, between >= fewest, "proved",
            "samples on one side of the kink of one unit and on the other side of another's: on all others the two are a single "
            "one, so that these alone tell them apart; it takes dim + 2."))


def _bent(state: State) -> Claim:
    """Share of each unit's variance on the samples that is not linear in w·z: a straight unit is part of a linear map."""
    point = state.point
    biases = point.units[:, -1] if point.biases else np.zeros(point.width)

    def moments(x: Array, y: Array) -> Sums:
        u = x @ point.units[:, : x.shape[1]].T
        h = point.activation(u + biases) - point.activation(biases)
        return u.sum(axis=0), h.sum(axis=0), (u * u).sum(axis=0), (u * h).sum(axis=0), (h * h).sum(axis=0)

    u, h, uu, uh, hh = (total / state.view.size for total in state.view.sum(moments, stage="certificate"))
    spread, whole = np.maximum(uu - u * u, 1e-300), np.maximum(hh - h * h, 1e-300)
    shares = np.maximum(whole - (uh - u * h) ** 2 / spread, 0.0) / whole
    value = float(shares.min(initial=1.0))
    return Claim(
        "bend of the straightest unit", value, BENT, value > BENT, "proved",
        "share of its variance that no straight line explains; a unit that is straight on all samples is no unit but a part of "
        "a linear map.")
