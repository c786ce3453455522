"""The signs of ReLU-like units, chosen by the data: from a sign-free fit to a network in its own activation."""

from __future__ import annotations

import numpy as np

from laybare.activations import Activation
from laybare.assembly.sign_decoding import DecodedNetwork, Signs, restore_signs, with_signs
from laybare.certificate import Claim, ClaimName
from laybare.networks import Network, compare
from laybare.numerics.levels import NOISELESS_LOSS
from laybare.search import settings
from laybare.search.settings import SearchContext
from laybare.solver import Effort
from laybare.solver.minimise import log_likelihood_gain, minimise, schwarz_penalty
from laybare.solver.point import FittedPoint, point_of


def match_signs(folded: Network, activation: Activation, loss: float, scale: float) -> DecodedNetwork:
    """Signs that explain the linear part of a sign-free fit with squared error `loss`; `scale` is the variation of y."""
    tol = settings.SEARCH.sign_residual * float(np.sqrt(max(loss, 0.0) / scale))
    return restore_signs(folded, activation, tol=max(1e-7, tol))


def choose_signs(context: SearchContext, folded: Network, matched: DecodedNetwork, loss: float) -> tuple[Network, Claim]:
    """The network behind a sign-free fit with squared error `loss`, and the claim about its signs.

    `matched` is from `match_signs`.

    Without noise the linear part decides (`restore_signs`). With noise it may let several patterns through; each of those is
    refitted without a linear part, and the data decide. A refit may flip a unit and end in the same network as another.
    If no pattern explains the linear part, the network may have one of its own: the data decide that as well.
    """
    signs, activation, rules = matched.signs, matched.network.activation, settings.SEARCH
    if signs.searched and not signs.alternatives:
        return _choose_linear_part(context, folded, matched)
    if not signs.searched or len(signs.alternatives) < 2 or loss <= NOISELESS_LOSS * context.scale:
        return matched.network, _claim(signs)
    starts = (with_signs(folded, activation, pattern) for pattern in signs.alternatives[: rules.sign_patterns])
    best, *others = sorted((_refit(context, start) for start in starts), key=lambda fit: fit.loss)
    network = context.network_of(best.point)
    gaps = [
        log_likelihood_gain(context.equations, fit.loss, best.loss) for fit in others
        if compare(context.network_of(fit.point), network).linear_error > 0.0]  # a unit is flipped: neither has a linear part
    return network, _claim(signs, 1 + sum(gap < rules.sign_gap for gap in gaps), min(gaps, default=np.inf))


def restore_linear_part(
    context: SearchContext, folded: Network, activation: Activation, loss: float, alone: float
) -> tuple[Network, Claim] | None:
    """The network of a sign-free fit with the linear part that its signs leave over, if the samples ask for it: units alone,
    with signs that the tolerance let through, leave a squared error `alone` where the sign-free fit leaves `loss`.

    The tolerance is one for noise: units on few rows, or of several times their size, may pass it and still fit much worse.
    """
    gap = log_likelihood_gain(context.equations, alone, loss, NOISELESS_LOSS * context.scale)
    if gap <= _linear_penalty(context):
        return None
    decoded = restore_signs(folded, activation, tol=0.0)
    return decoded.network, _linear_claim(context, decoded.signs, gap)


def _linear_penalty(context: SearchContext) -> float:
    """What a linear part must gain."""
    return settings.SEARCH.linear_part * schwarz_penalty(context.source.dim * context.source.outputs, context.equations)


def _linear_claim(context: SearchContext, signs: Signs, gap: float) -> Claim:
    penalty = _linear_penalty(context)
    text = (
        f"no signs make the units add up to the linear part (relative residual {signs.residual:.1e}), which was kept; "
        f"without it the samples are less likely by {gap / 2:.3g} (log), and {penalty / 2:.3g} would show that it is real: the "
        "signs of its units are then a convention.")
    return Claim(ClaimName.SIGN_PATTERNS, 0.0, 1.0, gap > penalty, "tested", text)


def _choose_linear_part(context: SearchContext, folded: Network, matched: DecodedNetwork) -> tuple[Network, Claim]:
    """The network with a linear part, against the best that units alone do from the nearest signs, both refitted.

    With a linear part of its own the signs of the units are a convention: flipping a unit changes that part alone.
    If fewer than dim + 1 samples lie beyond the kink of a unit, they leave its row open as long as the linear part is free: an
    exact fit then has another row and another linear part than the network. Units alone that fit exactly, with fewer parameters,
    are that network.
    """
    alone = _refit(context, with_signs(folded, matched.network.activation, matched.signs.signs))
    if alone.loss <= NOISELESS_LOSS * context.scale:
        text = "no linear part is needed: the nearest pattern to that of the search, refitted without one, fits to rounding."
        return context.network_of(alone.point), Claim(ClaimName.SIGN_PATTERNS, 1.0, 1.0, True, "tested", text)
    beside = _refit(context, matched.network, linear=True)
    gap = log_likelihood_gain(context.equations, alone.loss, beside.loss, NOISELESS_LOSS * context.scale)
    return matched.network, _linear_claim(context, matched.signs, gap)


def _refit(context: SearchContext, network: Network, *, linear: bool = False) -> FittedPoint:
    point = point_of(network, biases=context.model.biases, offset=True, linear=linear)
    return minimise(context.source, point, context.scale, effort=Effort(max_steps=20))


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
    return Claim(ClaimName.SIGN_PATTERNS, float(count), 1.0, count == 1, "proved" if fitting is None else "tested", text)
