"""True and recovered units side by side, in one gauge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.networks import Network, compare, sign_free
from laybare.networks.canonical import Units, normalised, reflected, reflection
from laybare.shapes import Array


class Unit(NamedTuple):
    """A hidden unit with its row of the readout."""

    weights: Array
    bias: float
    readout: Array


class Pair(NamedTuple):
    """True unit number `number`, the unit of the found network that belongs to it, the latter's number there."""

    number: int
    true: Unit
    found: Unit
    found_number: int

    @property
    def difference(self) -> float:
        """Largest difference of any two numbers of the pair."""
        (w, b, a), (v, c, e) = self.true, self.found
        return float(max(np.abs(w - v).max(), abs(b - c), np.abs(a - e).max()))


def side_by_side(found: Network, truth: Network) -> list[Pair]:
    """The pairs of `compare`, a true unit a pair: unit rows where the scale is free, the found unit with its partner's sign."""
    pairs = compare(found, truth).pairs
    if found.activation != truth.activation:
        found, truth = sign_free(found), sign_free(truth)
    rows = [(_row(truth, j), _row(found, i), i, j) for i, j in pairs.tolist()]
    return [Pair(j, _unit(true), _unit(_turned(mine, true, found)), i) for true, mine, i, j in rows]


def _row(network: Network, number: int) -> Units:
    return normalised(network.units.take(np.array([number])), network.activation)


def _turned(mine: Units, true: Units, found: Network) -> Units:
    mirror = reflection(found.activation)
    opposite = float(np.sum(mine.weights * true.weights) + mine.biases @ true.biases) < 0.0
    return reflected(mine, np.array([True]), mirror) if opposite and mirror is not None else mine


def _unit(units: Units) -> Unit:
    return Unit(units.weights[0], float(units.biases[0]), units.readout[0])
