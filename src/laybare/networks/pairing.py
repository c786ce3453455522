"""Units of two layers paired with each other, the errors after pairing, and who has no partner.

The rows of a cost matrix are paired with its columns, as many as there are of the fewer: by the smallest largest cost
(bottleneck, for errors that are maxima over units), or by the smallest sum (Hungarian).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks.canonical import Reflection, Units, reflect_units
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array

MAX_UNITS_SHOWN = 12
"""Units named in print; the attributes hold all. Convention: one line of text."""

READOUT_WEIGHT = 1e-6
"""Weight of the readouts in a cost: they decide only between pairings that are equally good for the weights, such as u and -u in
one ReLU network. Checked by `pytest tests/networks/test_matching.py`."""


class LayerMatch(NamedTuple):
    """One layer of a found network against the same layer of the true one, units numbered from 0 in each layer.

    `weight_error`, `bias_error`: as in `Match`, inputs being the true units below. `linear_error`: the largest linear function
    of the layer's inputs that would have to be added because a unit that is not symmetric has the wrong sign.
    """

    weight_error: float
    bias_error: float
    linear_error: float
    pairs: Array
    missing: tuple[int, ...]
    spurious: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Match:
    """Found against true units, and the largest errors of each kind after pairing.

    With several hidden layers, errors are the largest over all of them, and units are numbered through, from the lowest layer
    up: unit 0 of layer 2 follows the last one of layer 1. `layers` has the same layer by layer.

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
    layers : a LayerMatch for every layer, from the lowest up
    """

    weight_error: float
    bias_error: float
    readout_error: float
    offset_error: float
    linear_error: float
    pairs: Array
    missing: tuple[int, ...]
    spurious: tuple[int, ...]
    layers: tuple[LayerMatch, ...]

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
        if len(self.layers) == 1:
            return "\n".join([*lines, *_without_partner(self.layers[0], "")])
        for number, layer in enumerate(self.layers, 1):
            matched = len(np.unique(layer.pairs[:, 1]))
            parts = f"weight {layer.weight_error:.1e}, bias {layer.bias_error:.1e}, linear {layer.linear_error:.1e}"
            lines.append(f"  layer {number}: {matched} of {matched + len(layer.missing)} units, {parts}")
            lines += _without_partner(layer, "  ")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from laybare.report.notebook import match_html

        return match_html(self)


def _without_partner(layer: LayerMatch, indent: str) -> list[str]:
    lines = []
    for kind, units, whose in (("missing", layer.missing, "true"), ("spurious", layer.spurious, "found")):
        if units:
            more = f" and {len(units) - MAX_UNITS_SHOWN} more" if len(units) > MAX_UNITS_SHOWN else ""
            lines.append(f"{indent}  {kind:<9}{whose} units {', '.join(map(str, units[:MAX_UNITS_SHOWN]))}{more}")
    return lines


class Pairing(NamedTuple):
    """Row rows[p] goes with column columns[p]."""

    rows: Array
    columns: Array


def hungarian(cost: Array) -> Pairing:
    """The pairing with the smallest sum of costs. Time O(k³)."""
    from scipy.optimize import linear_sum_assignment

    try:
        return Pairing(*linear_sum_assignment(cost))
    except ValueError as error:
        raise InvalidInput(
            f"Distances between units are not finite ({error}).", "Squares of the weights leave the range of floats.",
            "Scale the networks, for example by other units of their inputs and outputs.") from None


def bottleneck(cost: Array, tie_break: Array | None = None) -> Pairing:
    """A pairing whose largest cost is as small as possible; among those, the one with the smallest sum of `tie_break`.

    A maximum over units, as in the papers' error metrics, needs this one: the Hungarian pairing may exceed its largest
    cost. Costs within rounding of the smallest maximum count as optimal, so that none of them forbids an equally good pairing.
    """
    limit = bottleneck_cost(cost)
    sums = cost if tie_break is None else tie_break
    return hungarian(np.where(cost <= limit + ROUNDING * max(1.0, limit), sums, np.inf))


def bottleneck_cost(cost: Array) -> float:
    """The largest cost of the best such pairing: binary search over the costs for the first that allows a full matching."""
    if not cost.size:
        return 0.0
    costs = np.unique(cost)
    short = cost if cost.shape[0] <= cost.shape[1] else cost.T
    low, high = int(np.searchsorted(costs, short.min(axis=1).max())), len(costs) - 1
    while low < high:
        middle = (low + high) // 2
        if _allows_all(short <= costs[middle]):
            high = middle
        else:
            low = middle + 1
    return float(costs[low])


def _allows_all(edges: Array) -> bool:
    """Whether every row can have a column of its own."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    return bool((maximum_bipartite_matching(csr_array(edges), perm_type="column") >= 0).all())


def match_units(
    found: Units, true: Units, mirror: Reflection | None, pairing: str, *, readouts: bool = True
) -> tuple[Units, Pairing]:
    """Pairs of units, and the found units turned to the signs of their partners.

    `readouts`: whether those of the two can be compared. Inside a deep network they cannot, since the units of the layer above
    are not paired yet; there a turn that leaves a linear part behind is the last resort between equals.
    """
    cost, tie_break = _distances(found, true, readouts)
    turned = np.zeros(cost.shape, dtype=bool)
    if mirror is not None:  # what a reflection adds to the affine part does not matter for the pairing
        other, other_tie = _distances(reflect_units(found, np.ones(len(found.weights), dtype=bool), mirror), true, readouts)
        if not readouts and mirror.slope:
            other_tie = other_tie + READOUT_WEIGHT
        turned = other < cost
        cost, tie_break = np.where(turned, other, cost), np.where(turned, other_tie, tie_break)
    pick = bottleneck(cost, tie_break) if pairing == "bottleneck" else hungarian(tie_break)
    if mirror is not None:
        chosen = np.zeros(len(found.weights), dtype=bool)
        chosen[pick.rows] = turned[pick.rows, pick.columns]
        found = reflect_units(found, chosen, mirror)
    return found, pick


def _distances(found: Units, true: Units, readouts: bool) -> tuple[Array, Array]:
    """Distance of every found from every true unit, of (w, b) alone; and the same with a little of the readouts."""
    from scipy.spatial.distance import cdist

    weights = cdist(found.weights, true.weights) / _row_scale(true.weights)
    biases = np.abs(found.biases[:, None] - true.biases) / np.maximum(1, np.abs(true.biases))
    cost = np.maximum(weights, biases)
    if not readouts:
        return cost, cost
    return cost, cost + READOUT_WEIGHT / largest_entry(true.readout) * cdist(found.readout, true.readout, "chebyshev")


def match_errors(found: Units, true: Units, pick: Pairing) -> Match:
    """The largest differences over the pairs, and the units outside of them."""
    f, t = found.take(pick.rows), true.take(pick.columns)
    weights = np.linalg.norm(f.weights - t.weights, axis=1) / _row_scale(t.weights)
    size = largest_entry(true.readout)
    layer = LayerMatch(
        weight_error=float(weights.max(initial=0.0)),
        bias_error=float(np.max(np.abs(f.biases - t.biases) / np.maximum(1, np.abs(t.biases)), initial=0.0)),
        linear_error=relative_difference(found.linear, true.linear, size),
        pairs=_pairs(f.parts, t.parts),
        missing=_without_pair(true, pick.columns),
        spurious=_without_pair(found, pick.rows))
    return Match(
        readout_error=float(np.abs(f.readout - t.readout).max(initial=0.0)) / size,
        offset_error=relative_difference(found.offset, true.offset, size), layers=(layer,), **layer._asdict())


def relative_difference(found: Array, true: Array, size: float) -> float:
    """Largest difference of an affine part, divided by the largest readout or its own largest true entry."""
    return float(np.abs(found - true).max(initial=0.0)) / max(size, float(np.abs(true).max(initial=0.0)))


def _row_scale(weights: Array) -> Array:
    return np.asarray(np.maximum(1, np.linalg.norm(weights, axis=1)))


def largest_entry(readout: Array) -> float:
    """Largest entry in size; 1 if there is none."""
    return float(np.abs(readout).max(initial=0.0)) or 1.0


def _pairs(found: tuple[tuple[int, ...], ...], true: tuple[tuple[int, ...], ...]) -> Array:
    """Pairs of original units in the order of the true ones; of two groups, the k-th with the k-th, the last one repeated."""
    pairs = [
        (f[min(i, len(f) - 1)], t[min(i, len(t) - 1)])
        for f, t in zip(found, true, strict=True) for i in range(max(len(f), len(t)))]
    return np.array(sorted(pairs, key=lambda pair: pair[::-1]), dtype=int).reshape(-1, 2)


def _without_pair(units: Units, taken: Array) -> tuple[int, ...]:
    return tuple(sorted(i for place in set(range(len(units.parts))) - set(taken.tolist()) for i in units.parts[place]))
