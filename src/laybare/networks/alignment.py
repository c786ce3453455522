"""Units of two layers paired by what they are, and what differs after that."""

from __future__ import annotations

import numpy as np

from laybare.networks.assignment import Pairing, bottleneck, hungarian
from laybare.networks.canonical import Reflection, Units, reflected
from laybare.networks.matches import LayerMatch, Match
from laybare.shapes import Array

READOUT_WEIGHT = 1e-6
"""Readouts decide between pairings that are equally good for the weights, such as u and -u in one ReLU network; no more."""


def paired(
    found: Units, true: Units, mirror: Reflection | None, pairing: str, *, readouts: bool = True
) -> tuple[Units, Pairing]:
    """Who belongs to whom, with the found units turned to their partners' signs.

    `readouts` says whether those of the two can be compared; inside a deep network they cannot, since nobody knows yet which
    unit of the layer above is which. There a turn that leaves a linear part behind is the last resort between equals.
    """
    cost, tie_break = _distances(found, true, readouts)
    turned = np.zeros(cost.shape, dtype=bool)
    if mirror is not None:  # what a reflection adds to the affine part does not matter for the pairing
        other, other_tie = _distances(reflected(found, np.ones(len(found.weights), dtype=bool), mirror), true, readouts)
        if not readouts and mirror.slope:
            other_tie = other_tie + READOUT_WEIGHT
        turned = other < cost
        cost, tie_break = np.where(turned, other, cost), np.where(turned, other_tie, tie_break)
    pick = bottleneck(cost, tie_break) if pairing == "bottleneck" else hungarian(tie_break)
    if mirror is not None:
        chosen = np.zeros(len(found.weights), dtype=bool)
        chosen[pick.rows] = turned[pick.rows, pick.columns]
        found = reflected(found, chosen, mirror)
    return found, pick


def _distances(found: Units, true: Units, readouts: bool) -> tuple[Array, Array]:
    """Distance of every found from every true unit, (w, b) alone; and the same with a little of the readouts."""
    from scipy.spatial.distance import cdist

    weights = cdist(found.weights, true.weights) / _row_scale(true.weights)
    biases = np.abs(found.biases[:, None] - true.biases) / np.maximum(1, np.abs(true.biases))
    cost = np.maximum(weights, biases)
    if not readouts:
        return cost, cost
    return cost, cost + READOUT_WEIGHT / largest(true.readout) * cdist(found.readout, true.readout, "chebyshev")


def errors(found: Units, true: Units, pick: Pairing) -> Match:
    """The largest differences over the pairs, and the units outside of them."""
    f, t = found.take(pick.rows), true.take(pick.columns)
    weights = np.linalg.norm(f.weights - t.weights, axis=1) / _row_scale(t.weights)
    size = largest(true.readout)
    layer = LayerMatch(
        weight_error=float(weights.max(initial=0.0)),
        bias_error=float(np.max(np.abs(f.biases - t.biases) / np.maximum(1, np.abs(t.biases)), initial=0.0)),
        linear_error=relative(found.linear, true.linear, size),
        pairs=_pairs(f.parts, t.parts),
        missing=_left_over(true, pick.columns),
        spurious=_left_over(found, pick.rows))
    return Match(
        readout_error=float(np.abs(f.readout - t.readout).max(initial=0.0)) / size,
        offset_error=relative(found.offset, true.offset, size), layers=(layer,), **layer._asdict())


def relative(found: Array, true: Array, size: float) -> float:
    """Largest difference of an affine part, divided by the largest readout or its own largest true entry."""
    return float(np.abs(found - true).max(initial=0.0)) / max(size, float(np.abs(true).max(initial=0.0)))


def _row_scale(weights: Array) -> Array:
    return np.asarray(np.maximum(1, np.linalg.norm(weights, axis=1)))


def largest(readout: Array) -> float:
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
