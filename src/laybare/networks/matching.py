"""How far a found network is from the true one, modulo every symmetry of the activation.

Both are normalised first (unit rows where the scale is free, no constant units, no zero readouts), then units are paired by
(w, b), up to sign where the activation has a reflection. Every found unit is turned to its partner's sign, and what the
reflection adds is charged to the found network's linear part and offset. So a wrong sign of a ReLU unit shows as a linear
error, unless several of them cancel: then the two functions are equal and so is what is compared (Awasthi et al. 2021,
Claim 4.8).

Several hidden layers are paired from the lowest up (`deep_matching`): the pairs of a layer say which columns of the next belong
together.
"""

from __future__ import annotations

from typing import Literal

from laybare.activations import Activation, absolute
from laybare.errors import InvalidInput
from laybare.levels import ROUNDING
from laybare.networks.alignment import errors, paired
from laybare.networks.canonical import Units, all_forward, merged, normalised, reflection
from laybare.networks.deep_matching import compare_layers, different_units
from laybare.networks.matches import Match
from laybare.networks.network import Network, sign_free


def compare(found: Network, truth: Network, pairing: Literal["bottleneck", "hungarian"] = "bottleneck") -> Match:
    """Pair the units of two networks and measure what differs, modulo permutation, scale, sign and linear part.

    Parameters
    ----------
    found, truth
        Networks of equal dim, outputs and activation; widths and depths may differ. `absolute` with a linear part may be
        compared with ReLU or leaky ReLU, for one hidden layer: both are brought to the sign-free form. What one network has
        above the other's highest layer, or above its own in a black box, is missing or spurious as a whole.
    pairing : "bottleneck" makes the largest distance of a pair as small as possible, "hungarian" the sum of distances
    """
    _check(found, truth, pairing)
    if max(found.depth, truth.depth) > 1 or found.top is not None or truth.top is not None:
        return compare_layers(found, truth, pairing)
    if found.activation != truth.activation:
        found, truth = sign_free(found), sign_free(truth)
    activation = truth.activation
    f, t = normalised(found.units, activation), normalised(truth.units, activation)
    match = _match(f, t, activation, pairing)
    if match.max_error <= ROUNDING:
        return match
    f_merged, t_merged = (merged(all_forward(side, reflection(activation))) for side in (f, t))
    if len(f_merged.weights) == len(f.weights) and len(t_merged.weights) == len(t.weights):
        return match
    return min(match, _match(f_merged, t_merged, activation, pairing), key=_how_bad)


def _how_bad(match: Match) -> tuple[float, int]:
    return match.max_error, len(match.missing) + len(match.spurious)


def _match(found: Units, true: Units, activation: Activation, pairing: str) -> Match:
    found, pick = paired(found, true, reflection(activation), pairing)
    return errors(found, true, pick)


def _check(found: Network, truth: Network, pairing: str) -> None:
    if pairing not in ("bottleneck", "hungarian"):
        raise InvalidInput(f"The pairing {pairing!r} is not known.", "There are two.", 'Give "bottleneck" or "hungarian".')
    for what in ("dim", "outputs"):
        mine, theirs = getattr(found, what), getattr(truth, what)
        if mine != theirs:
            raise InvalidInput(
                f"The found network has {what} {mine}, the true one {theirs}.", "They are functions on different spaces.",
                "Compare networks with the same inputs and outputs.", found=mine, truth=theirs)
    one, other = found.activation, truth.activation
    shallow = found.depth == truth.depth == 1 and found.top is truth.top is None
    if one != other and not (shallow and absolute in (one, other) and one.degree == other.degree):
        raise different_units(one, other)
