"""The second layer measured again where its units can be met alone, once the lowest layer is known to the last digits.

On floor 1 the features h ≥ 0 can be chosen freely. For a unit of the second layer a linear program finds the point of its
hyperplane that is farthest from everything else that bends, in the cell where it was first met (`laybare.lines.reach`). Stars in
the features on both sides of it differ by c w, as in `laybare.lines.lowest_again`: 2 (width + 1) queries per unit. If it is the
last layer, biases and readout are then fitted to fresh answers (`laybare.lines.shift_polish`).
"""

from __future__ import annotations

import numpy as np

from laybare.lines.asking import Purse
from laybare.lines.expected_errors import LayerErrors
from laybare.lines.joint_polish import Deep
from laybare.lines.layers import LayerRead
from laybare.lines.lowest_again import FARTHEST, SHARE, SharpNetwork, UnitStar, above_lowest, unit_between
from laybare.lines.reach import Reach
from laybare.shapes import Array
from laybare.source.rounding import Rounding

ASIDE = 0.25
"""How far from the hyperplane the stars are, relative to the distance of everything else."""


def second_remeasured(purse: Purse, network: Deep, read: LayerRead, rounding: Rounding, spread: float) -> SharpNetwork:
    """Rows and biases of the second layer from stars beside each unit. Units without a good place stay as they are."""
    weights, biases = (part.copy() for part in network.layers[1])
    reach, inverse = Reach(network.layers[1:], spread), np.linalg.pinv(network.layers[0][0])
    errors = LayerErrors(np.full(len(biases), np.inf), np.full(len(biases), np.inf))
    for j in range(len(biases)):
        start = _met(network, read, weights[j])
        place = None if start is None else reach.beside(start, j)
        if place is None:
            continue
        h, room = place
        off, on = (_star(purse, network, inverse, h + side * ASIDE * room * weights[j], rounding, spread) for side in (-1.0, 1.0))
        weights[j], biases[j], errors.rows[j], errors.biases[j] = unit_between(weights[j], float(biases[j]), off, on)
    return SharpNetwork(network._replace(layers=(network.layers[0], (weights, biases), *network.layers[2:])), errors)


def _met(network: Deep, read: LayerRead, row: Array) -> Array | None:
    """Features where a line has met the unit of this row."""
    mine = next((surface for surface in read.seen.known if 1.0 - abs(float(surface.normal @ row)) < 1e-6), None)
    weights, biases = network.layers[0]
    return None if mine is None else np.maximum(weights @ mine.x + biases, 0.0)


def _star(purse: Purse, network: Deep, inverse: Array, h: Array, rounding: Rounding, spread: float) -> UnitStar:
    """Answers at steps along the features."""
    cell = above_lowest(network, h)
    with np.errstate(divide="ignore"):
        steps = (np.abs(np.append(h, cell.z))[:, None] / np.abs(np.vstack([np.eye(len(h)), cell.rates]))).min(axis=0)
    steps = np.minimum(SHARE * steps, FARTHEST * spread)
    x = inverse @ (h - network.layers[0][1])
    y = purse.ask(np.vstack([x + steps[:, None] * inverse.T, x]), "gradients")
    noise = float(rounding.sd(x[None], y[-1:])[0]) / steps
    return UnitStar(h, y[-1], (y[:-1] - y[-1]) / steps[:, None], float(np.sqrt(np.mean(noise**2))))
