"""The signs of ReLU-like units, chosen by the data: from a sign-free fit to a network in its own activation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.assembly.sign_decoding import DecodedNetwork, Signs, restore_signs, with_signs
from laybare.certificate import Claim, ClaimName
from laybare.networks import Network, compare
from laybare.numerics.levels import NOISELESS_LOSS
from laybare.search import settings
from laybare.solver import Effort
from laybare.solver.minimise import log_likelihood_gain, minimise, schwarz_penalty
from laybare.solver.point import FittedPoint, network_of, point_of
from laybare.source import Source
from laybare.source.problem import Problem


class SignedNetwork(NamedTuple):
    """A network in its own activation, and the claim about its signs."""

    network: Network
    claim: Claim


def match_signs(folded: Network, activation: Activation, loss: float, scale: float) -> DecodedNetwork:
    """Signs that explain the linear part of a sign-free fit with squared error `loss`; `scale` is the variation of y."""
    tol = settings.SEARCH.sign_residual * float(np.sqrt(max(loss, 0.0) / scale))
    return restore_signs(folded, activation, tol=max(1e-7, tol))


def choose_signs(
    source: Source, folded: Network, matched: DecodedNetwork, loss: float, scale: float, *, biases: bool
) -> SignedNetwork:
    """The network behind a sign-free fit with squared error `loss` of the variation `scale`; `matched` is from `match_signs`.

    Without noise the linear part decides (`restore_signs`). With noise it may let several patterns through; each of those is
    refitted without a linear part, and the data decide. A refit may flip a unit and end in the same network as another.
    If no pattern explains the linear part, the network may have one of its own: the data decide that as well.
    """
    signs, activation, rules = matched.signs, matched.network.activation, settings.SEARCH
    if signs.searched and not signs.alternatives:
        return _choose_linear_part(source, folded, matched, scale, biases=biases)
    if not signs.searched or len(signs.alternatives) < 2 or loss <= NOISELESS_LOSS * scale:
        return SignedNetwork(matched.network, _claim(signs))
    starts = (with_signs(folded, activation, pattern) for pattern in signs.alternatives[: rules.sign_patterns])
    best, *others = sorted((_refit(source, start, scale, biases) for start in starts), key=lambda fit: fit.loss)
    network = _network(best)
    equations = source.size * source.outputs
    gaps = [
        log_likelihood_gain(equations, fit.loss, best.loss) for fit in others if _differs_in_sign(_network(fit), network)]
    return SignedNetwork(network, _claim(signs, 1 + sum(gap < rules.sign_gap for gap in gaps), min(gaps, default=np.inf)))


def restore_linear_part(
    problem: Problem, folded: Network, activation: Activation, loss: float, alone: float
) -> SignedNetwork | None:
    """The network of a sign-free fit with the linear part that its signs leave over, if the samples ask for it: units alone,
    with signs that the tolerance let through, leave a squared error `alone` where the sign-free fit leaves `loss`.

    The tolerance is one for noise: units on few rows, or of several times their size, may pass it and still fit much worse.
    """
    gap = log_likelihood_gain(problem.equations, alone, loss, NOISELESS_LOSS * problem.variation)
    if gap <= _linear_penalty(problem.used, problem.equations):
        return None
    decoded = restore_signs(folded, activation, tol=0.0)
    return SignedNetwork(decoded.network, _linear_claim(decoded.signs, gap, _linear_penalty(problem.used, problem.equations)))


def _linear_penalty(source: Source, equations: int) -> float:
    """What a linear part must gain."""
    return settings.SEARCH.linear_part * schwarz_penalty(source.dim * source.outputs, equations)


def _linear_claim(signs: Signs, gap: float, penalty: float) -> Claim:
    text = (
        f"no signs make the units add up to the linear part (relative residual {signs.residual:.1e}), which was kept; "
        f"without it the samples are less likely by {gap / 2:.3g} (log), and {penalty / 2:.3g} would show that it is real: the "
        "signs of its units are then a convention.")
    return Claim(ClaimName.SIGN_PATTERNS, 0.0, 1.0, gap > penalty, "tested", text)


def _choose_linear_part(
    source: Source, folded: Network, matched: DecodedNetwork, scale: float, *, biases: bool
) -> SignedNetwork:
    """The network with a linear part, against the best that units alone do from the nearest signs, both refitted.

    With a linear part of its own the signs of the units are a convention: flipping a unit changes that part alone.
    If fewer than dim + 1 samples lie beyond the kink of a unit, they leave its row open as long as the linear part is free: an
    exact fit then has another row and another linear part than the network. Units alone that fit exactly, with fewer parameters,
    are that network.
    """
    alone = _refit(source, with_signs(folded, matched.network.activation, matched.signs.signs), scale, biases)
    if alone.loss <= NOISELESS_LOSS * scale:
        text = "no linear part is needed: the nearest pattern to that of the search, refitted without one, fits to rounding."
        return SignedNetwork(_network(alone), Claim(ClaimName.SIGN_PATTERNS, 1.0, 1.0, True, "tested", text))
    beside = _refit(source, matched.network, scale, biases, linear=True)
    equations = source.size * source.outputs
    gap = log_likelihood_gain(equations, alone.loss, beside.loss, NOISELESS_LOSS * scale)
    return SignedNetwork(matched.network, _linear_claim(matched.signs, gap, _linear_penalty(source, equations)))


def _differs_in_sign(one: Network, other: Network) -> bool:
    """Whether some unit of one is flipped in the other: that leaves a linear part, and neither has one."""
    return compare(one, other).linear_error > 0.0


def _refit(source: Source, network: Network, scale: float, biases: bool, *, linear: bool = False) -> FittedPoint:
    point = point_of(network, biases=biases, offset=True, linear=linear)
    return minimise(source, point, scale, effort=Effort(max_steps=20))


def _network(fit: FittedPoint) -> Network:
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
    return Claim(ClaimName.SIGN_PATTERNS, float(count), 1.0, count == 1, "proved" if fitting is None else "tested", text)
