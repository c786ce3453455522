"""The signs of ReLU-like units, settled by the data: from a sign-free fit to a network in its own activation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.assembly.signs import Signs
from laybare.assembly.unfold import Unfolded, unfold, with_signs
from laybare.certificate import Claim
from laybare.damping import Effort
from laybare.levels import NOISELESS_LOSS
from laybare.networks import Network, compare
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import deciding_refit
from laybare.refinement.normal import network_of, point_of
from laybare.source import Source

LOOSE = 3.0
"""Patterns are kept if the linear part they leave is below so many times the relative residual: never the right one lost."""

TRIED = 16
"""Patterns that are refitted, best first, when noise lets several through."""

LINEAR = 1.5
"""Times Schwarz's price of its numbers that a linear part must be worth: as for units."""

CLEAR = 16.0
"""Log-likelihood ratio, doubled, that decides between two patterns: the square of 4 sigmas."""


class SignedNetwork(NamedTuple):
    """A network in its own activation, and the claim about its signs."""

    network: Network
    claim: Claim


def unfolded_by(folded: Network, activation: Activation, loss: float, scale: float) -> Unfolded:
    """The signs that explain the linear part of a sign-free fit that left the squared error `loss` of the variation `scale`."""
    return unfold(folded, activation, tol=max(1e-7, LOOSE * float(np.sqrt(max(loss, 0.0) / scale))))


def settle_signs(
    source: Source, folded: Network, activation: Activation, loss: float, scale: float, *, biases: bool,
    unfolded: Unfolded | None = None,
) -> SignedNetwork:
    """The network of `activation` units behind a sign-free one that left the squared error `loss` of the variation `scale`.

    `unfolded` is what `unfolded_by` says of it, if it has been asked.

    Without noise the linear part decides (`assembly.signs`). With noise it may let several patterns through; each of those is
    refitted without a linear part, and the data decide. A refit may turn a unit over and end in the same network as another.
    If no pattern explains the linear part, the network may have one of its own: the data decide that as well.
    """
    unfolded = unfolded or unfolded_by(folded, activation, loss, scale)
    signs = unfolded.signs
    if signs.searched and not signs.alternatives:
        return _with_linear_part(source, folded, unfolded, activation, scale, biases=biases)
    if not signs.searched or len(signs.alternatives) < 2 or loss <= NOISELESS_LOSS * scale:
        return SignedNetwork(unfolded.network, _claim(signs))
    starts = (with_signs(folded, activation, pattern) for pattern in signs.alternatives[:TRIED])
    best, *others = sorted((_refit(source, start, scale, biases) for start in starts), key=lambda fit: fit.loss)
    network = _network(best)
    gaps = [_gap(source, fit, best) for fit in others if _turned(_network(fit), network)]
    return SignedNetwork(network, _claim(signs, 1 + sum(gap < CLEAR for gap in gaps), min(gaps, default=np.inf)))


def _with_linear_part(
    source: Source, folded: Network, unfolded: Unfolded, activation: Activation, scale: float, *, biases: bool
) -> SignedNetwork:
    """The network with a linear part, against the best that units alone can do from the nearest signs, both refitted.

    With a linear part of its own, the signs of the units are a matter of convention: turning one over changes that part alone.
    """
    alone = _refit(source, with_signs(folded, activation, unfolded.signs.signs), scale, biases)
    beside = deciding_refit(
        source, point_of(unfolded.network, biases=biases, offset=True, linear=True), scale, effort=Effort(max_steps=20))
    floor, equations = NOISELESS_LOSS * scale, source.size * source.outputs
    gap = equations * float(np.log((alone.loss + floor) / (beside.loss + floor)))
    price = LINEAR * source.dim * source.outputs * float(np.log(equations))
    passed = gap > price
    text = (
        f"no signs make the units add up to the linear part (relative residual {unfolded.signs.residual:.1e}), which was kept; "
        f"without it the samples are less likely by {gap / 2:.3g} (log), and {price / 2:.3g} would show that it is real: the "
        "signs of its units are then a convention.")
    return SignedNetwork(unfolded.network, Claim("sign patterns that fit", 0.0, 1.0, passed, "tested", text))


def _gap(source: Source, fit: Refined, best: Refined) -> float:
    """Twice the log-likelihood ratio."""
    tiny = np.finfo(float).tiny
    return source.size * source.outputs * float(np.log(max(fit.loss, tiny)) - np.log(max(best.loss, tiny)))


def _turned(one: Network, other: Network) -> bool:
    """Whether some unit of one is turned over in the other: that leaves a linear part, and neither has one."""
    return compare(one, other).linear_error > 0.0


def _refit(source: Source, network: Network, scale: float, biases: bool) -> Refined:
    return deciding_refit(source, point_of(network, biases=biases, offset=True, linear=False), scale, effort=Effort(max_steps=20))


def _network(fit: Refined) -> Network:
    return network_of(fit.point, vector=fit.point.coefficients.shape[1] == 1)


def _claim(signs: Signs, fitting: int | None = None, gap: float = 0.0) -> Claim:
    """How the signs of the units were decided, for the certificate."""
    count = len(signs.alternatives) if fitting is None else fitting
    if not signs.searched:
        text = "too many units for the search of signs: the linear part was kept instead of deciding them."
    elif count > 1:
        text = f"{count} sign patterns explain these samples equally well: they cannot tell which one is behind them."
    elif fitting is not None:
        text = f"of {len(signs.alternatives)} that noise lets through, refitted, one is more likely by {gap / 2:.3g} (log)."
    else:
        text = f"one pattern fits (relative residual {signs.residual:.1e}, next best {signs.runner_up:.1e})."
    return Claim("sign patterns that fit", float(count), 1.0, count == 1, "proved" if fitting is None else "tested", text)
