"""How far a found network is from the true one, modulo every symmetry of the activation.

Both are normalised first (unit rows where the scale is free, no constant units, no zero readouts), then units are paired by
(w, b), up to sign where the activation has a reflection. Every found unit is turned to its partner's sign, and what the
reflection adds is charged to the found network's linear part and offset. So a wrong sign of a ReLU unit shows as a linear
error, unless several of them cancel: then the two functions are equal and so is what is compared (Awasthi et al. 2021,
Claim 4.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from laybare.activations import Activation, absolute
from laybare.errors import InvalidInput
from laybare.levels import ROUNDING
from laybare.networks.assignment import Pairing, bottleneck, hungarian
from laybare.networks.canonical import Units, all_forward, merged, normalised, reflected, reflection
from laybare.networks.network import Network, sign_free
from laybare.shapes import Array

READOUT_WEIGHT = 1e-6
"""Readouts decide between pairings that are equally good for the weights, such as u and -u in one ReLU network; no more."""

SHOWN = 12
"""Units named in print; the attributes hold all."""


@dataclass(frozen=True, eq=False)
class Match:
    """Found against true units, and the largest errors of each kind after pairing.

    Attributes
    ----------
    weight_error : largest |w - w*| over pairs; both have norm 1 if the activation is homogeneous, else divided by max(1, |w*|)
    bias_error : largest |b - b*| / max(1, |b*|), for the rows so normalised
    readout_error : largest |a - a*|, divided by the largest |a*| of all units and outputs
    offset_error, linear_error : the same of offset and linear part, divided by the largest |a*| or their own largest true
        entry, whichever is larger
    pairs : array (pairs, 2) of (found unit, true unit), numbered as in the networks given. Units that are copies of each other
        are paired as one if that fits better; each then occurs in a pair
    missing, spurious : true (found) units without a partner, constants and zero readouts aside
    """

    weight_error: float
    bias_error: float
    readout_error: float
    offset_error: float
    linear_error: float
    pairs: Array
    missing: tuple[int, ...]
    spurious: tuple[int, ...]

    @property
    def max_error(self) -> float:
        """The largest of the five; infinite if a unit of either network has no partner."""
        if self.missing or self.spurious:
            return inf
        return max(self.weight_error, self.bias_error, self.readout_error, self.offset_error, self.linear_error)

    def __str__(self) -> str:
        matched = len(np.unique(self.pairs[:, 1]))
        lines = [f"{matched} of {matched + len(self.missing)} units matched, largest error {self.max_error:.1e}"]
        for part in ("weight", "bias", "readout", "offset", "linear"):
            lines.append(f"  {part:<9}{getattr(self, part + '_error'):.1e}")
        for kind, units, whose in (("missing", self.missing, "true"), ("spurious", self.spurious, "found")):
            if units:
                more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
                lines.append(f"  {kind:<9}{whose} units {', '.join(map(str, units[:SHOWN]))}{more}")
        return "\n".join(lines)


def compare(found: Network, truth: Network, pairing: Literal["bottleneck", "hungarian"] = "bottleneck") -> Match:
    """Pair the units of two networks and measure what differs, modulo permutation, scale, sign and linear part.

    Parameters
    ----------
    found, truth : networks of equal dim, outputs and activation; widths may differ. `absolute` with a linear part may be
        compared with ReLU or leaky ReLU: both are brought to the sign-free form.
    pairing : "bottleneck" makes the largest distance of a pair as small as possible, "hungarian" the sum of distances
    """
    _check(found, truth, pairing)
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
    mirror = reflection(activation)
    cost, tie_break = _distances(found, true)
    turned = np.zeros(cost.shape, dtype=bool)
    if mirror is not None:  # what a reflection adds to the affine part does not matter for the pairing
        other, other_tie = _distances(reflected(found, np.ones(len(found.weights), dtype=bool), mirror), true)
        turned = other < cost
        cost, tie_break = np.where(turned, other, cost), np.where(turned, other_tie, tie_break)
    pick = bottleneck(cost, tie_break) if pairing == "bottleneck" else hungarian(tie_break)
    if mirror is not None:
        chosen = np.zeros(len(found.weights), dtype=bool)
        chosen[pick.rows] = turned[pick.rows, pick.columns]
        found = reflected(found, chosen, mirror)
    return _errors(found, true, pick)


def _distances(found: Units, true: Units) -> tuple[Array, Array]:
    """Distance of every found from every true unit, (w, b) alone; and the same with a little of the readouts."""
    from scipy.spatial.distance import cdist

    weights = cdist(found.weights, true.weights) / _row_scale(true.weights)
    biases = np.abs(found.biases[:, None] - true.biases) / np.maximum(1, np.abs(true.biases))
    cost = np.maximum(weights, biases)
    return cost, cost + READOUT_WEIGHT / _largest(true.readout) * cdist(found.readout, true.readout, "chebyshev")


def _errors(found: Units, true: Units, pick: Pairing) -> Match:
    f, t = found.take(pick.rows), true.take(pick.columns)
    weights = np.linalg.norm(f.weights - t.weights, axis=1) / _row_scale(t.weights)
    size = _largest(true.readout)
    return Match(
        weight_error=float(weights.max(initial=0.0)),
        bias_error=float(np.max(np.abs(f.biases - t.biases) / np.maximum(1, np.abs(t.biases)), initial=0.0)),
        readout_error=float(np.abs(f.readout - t.readout).max(initial=0.0)) / size,
        offset_error=float(np.abs(found.offset - true.offset).max()) / max(size, np.abs(true.offset).max()),
        linear_error=float(np.abs(found.linear - true.linear).max(initial=0.0)) / max(size, np.abs(true.linear).max(initial=0.0)),
        pairs=_pairs(f.parts, t.parts),
        missing=_left_over(true, pick.columns),
        spurious=_left_over(found, pick.rows))


def _row_scale(weights: Array) -> Array:
    return np.asarray(np.maximum(1, np.linalg.norm(weights, axis=1)))


def _largest(readout: Array) -> float:
    """Largest entry in size; 1 if there is none."""
    return float(np.abs(readout).max(initial=0.0)) or 1.0


def _pairs(found: tuple[tuple[int, ...], ...], true: tuple[tuple[int, ...], ...]) -> Array:
    """Pairs of original units in the order of the true ones; of two groups, the k-th with the k-th, the last one repeated."""
    pairs = [
        (f[min(i, len(f) - 1)], t[min(i, len(t) - 1)])
        for f, t in zip(found, true, strict=True) for i in range(max(len(f), len(t)))]
    return np.array(sorted(pairs, key=lambda pair: pair[::-1]), dtype=int).reshape(-1, 2)


def _left_over(units: Units, taken: Array) -> tuple[int, ...]:
    return tuple(sorted(i for place in set(range(len(units.parts))) - set(taken.tolist()) for i in units.parts[place]))


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
    if one != other and not (absolute in (one, other) and one.degree == other.degree):
        raise InvalidInput(
            f"The found network has activation {one.name}, the true one {other.name}.",
            "Their hidden units are different functions.", "Compare networks with one activation.",
            found=one.name, truth=other.name)
