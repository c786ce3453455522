"""The lowest layer measured again where it is best to measure it, for deep networks too large for a joint fit.

On a line a unit is measured wherever the line happens to meet it, between neighbours that may be very near. Once the whole
network is known nearly, there are better places: the rows of the lowest layer are independent, so some of its units can be
switched off and others on, each at any wanted distance, and what lies above is known there. At a base point, where a unit is
off, and at one where it alone was switched on, with nothing above changing sides, the gradients differ by c wᵢ and the values by
c zᵢ: that is the row and the bias. Steps are as long as the known kinks of all layers allow. One star (dim + 1 queries) for each
base and for each unit; errors are those of rounding over the length of the steps, and errors of other units do not enter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.lines.asking import Purse
from laybare.lines.expected_errors import LayerErrors
from laybare.lines.joint_polish import Deep
from laybare.shapes import Array
from laybare.source.rounding import Rounding

BASES = 5
"""Base points: all units off, and so many with half of them on."""

ROUNDS, POOR = 3, 10.0
"""Sets of base points, and how many times the median deviation is poor: such units are tried again."""

APART, FARTHEST = 1.0, 4.0
"""Distance of the base points from the hyperplanes of the lowest layer, and how far a unit is switched on at most, in units of
the inputs' scale."""

SHARE = 0.4
"""Steps end at this share of the way to the nearest known kink."""

CREDIBLE = 1e-4
"""A row that moves by more has not been measured but mistaken."""


class UpperCell(NamedTuple):
    """z = A h + c of all units above the lowest layer, linear where a point is, and the slope of the answers there."""

    z: Array
    rates: Array
    slope: Array


class UnitStar(NamedTuple):
    """A point (an input, or features), the answer (outputs,) and the gradient (dim, outputs) there, with the deviation of its
    entries."""

    place: Array
    answer: Array
    gradient: Array
    sd: float


class SharpNetwork(NamedTuple):
    """The network with a layer measured again, and the errors of its units; infinite for those that stay as they were."""

    network: Deep
    errors: LayerErrors


class UnitMeasured(NamedTuple):
    """Row, bias, and the standard deviations of the row's entries and of the bias."""

    row: Array
    bias: float
    row_sd: float
    bias_sd: float


def remeasured(purse: Purse, network: Deep, rounding: Rounding, *, spread: float, rng: Generator) -> SharpNetwork:
    """Rows and biases of the lowest layer from stars where each unit is alone. Units without a good place stay as they are.

    Those that come out poorly, because something bends beside their place, are tried from other base points.
    """
    units = len(network.layers[0][1])
    errors = LayerErrors(np.full(units, np.inf), np.full(units, np.inf))
    for _ in range(ROUNDS):
        wanted = errors.rows > POOR * float(np.median(errors.rows)) if np.isfinite(errors.rows).any() else np.ones(units, bool)
        if not wanted.any():
            break
        network, errors = _from_bases(purse, SharpNetwork(network, errors), wanted, rounding, spread, rng)
    return SharpNetwork(network, errors)


def _from_bases(
    purse: Purse, sharp: SharpNetwork, wanted: Array, rounding: Rounding, spread: float, rng: Generator
) -> SharpNetwork:
    """The wanted units from stars at new base points, where these tell them better."""
    network, errors = sharp.network, LayerErrors(*(part.copy() for part in sharp.errors))
    weights, biases = (part.copy() for part in network.layers[0])
    inverse, units = np.linalg.pinv(weights), len(biases)
    bases = [-APART * spread * np.ones(units)]
    bases += [APART * spread * rng.choice([-1.0, 1.0], units) * rng.uniform(0.5, 1.5, units) for _ in range(BASES)]
    chosen, lengths = _places(network, bases, FARTHEST * spread)
    for number, base in enumerate(bases):
        mine = np.flatnonzero(wanted & (chosen == number) & (lengths[number] > 0.0))
        if not len(mine):
            continue
        off = _star(purse, network, inverse @ (base - network.layers[0][1]), rounding, spread)
        for i in mine:
            place = base.copy()
            place[i] = 0.5 * lengths[number, i]
            on = _star(purse, network, inverse @ (place - network.layers[0][1]), rounding, spread)
            unit = unit_between(weights[i], float(biases[i]), off, on)
            if unit.row_sd < errors.rows[i]:
                weights[i], biases[i], errors.rows[i], errors.biases[i] = unit
    return SharpNetwork(network._replace(layers=((weights, biases), *network.layers[1:])), errors)


def _places(network: Deep, bases: list[Array], farthest: float) -> tuple[Array, Array]:
    """For every unit the number of its best base, and for every base and unit how far it can be switched on there."""
    lengths, worth = (np.zeros((len(bases), len(bases[0]))) for _ in range(2))
    for number, base in enumerate(bases):
        cell = above_lowest(network, np.maximum(base, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(cell.rates * cell.z[:, None] < 0.0, -cell.z[:, None] / cell.rates, np.inf)
        lengths[number] = np.where(base < 0.0, np.minimum(ends.min(axis=0), farthest), 0.0)
        worth[number] = lengths[number] * np.abs(cell.slope).max(axis=1)
    return worth.argmax(axis=0), lengths


def above_lowest(network: Deep, h: Array) -> UpperCell:
    """What lies above the lowest layer, where its features are h."""
    A, z, before, rates = np.eye(len(h)), h, [], []
    for weights, biases in network.layers[1:]:
        A, z = weights @ A, weights @ z + biases
        before.append(z)
        rates.append(A)
        A, z = np.where(z[:, None] > 0.0, A, 0.0), np.maximum(z, 0.0)
    return UpperCell(np.concatenate(before), np.vstack(rates), A.T @ network.readout)


def _star(purse: Purse, network: Deep, x: Array, rounding: Rounding, spread: float) -> UnitStar:
    weights, biases = network.layers[0]
    lowest = weights @ x + biases
    cell = above_lowest(network, np.maximum(lowest, 0.0))
    z, rates = np.append(lowest, cell.z), np.vstack([weights, cell.rates @ np.where(lowest[:, None] > 0.0, weights, 0.0)])
    with np.errstate(divide="ignore"):
        steps = np.minimum(SHARE * (np.abs(z)[:, None] / np.abs(rates)).min(axis=0), FARTHEST * spread)
    axes = np.append(np.arange(len(x)), 0)
    y = purse.ask_star(x, axes, np.append(steps, 0.0), "gradients")
    noise = float(rounding.sd(x[None], y[-1:])[0]) / steps
    return UnitStar(x, y[-1], (y[:-1] - y[-1]) / steps[:, None], float(np.sqrt(np.mean(noise**2))))


def unit_between(row: Array, bias: float, off: UnitStar, on: UnitStar) -> UnitMeasured:
    """A unit between two stars; as it was, with infinite deviations, if it is not this unit."""
    jump = on.gradient - off.gradient
    c = row @ jump
    along = jump @ c
    size = float(np.linalg.norm(along))
    if size == 0.0 or np.abs(along / size - row).max() > CREDIBLE:
        return UnitMeasured(row, bias, np.inf, np.inf)
    moved = along / size
    value = float((on.answer - off.answer - (on.place - off.place) @ off.gradient) @ c) / float((moved @ jump) @ c)
    sd = float(np.hypot(on.sd, off.sd)) * float(np.linalg.norm(c)) / size
    return UnitMeasured(moved, value - float(moved @ on.place), sd, sd * (1.0 + float(np.linalg.norm(on.place))))
