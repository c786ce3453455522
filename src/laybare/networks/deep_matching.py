"""Networks of several layers against each other, from the lowest layer up.

Both are brought to their canonical forms, which have unit rows where the scale is free and no unit without effect. Then a
layer's units are paired as those of a single layer are; the found ones take the order and the signs of their partners, and
with that the found columns of the next layer stand under the true ones. A true unit that was not found leaves a column of
zeros there. What a wrong sign of a ReLU unit would add, a linear function of the layer's inputs, is charged to its layer.
"""

from __future__ import annotations

from itertools import accumulate
from math import inf

import numpy as np

from laybare.activations import Activation
from laybare.errors import InvalidInput
from laybare.networks.alignment import errors, largest, paired, relative
from laybare.networks.assignment import Pairing
from laybare.networks.canonical import Units, reflection
from laybare.networks.matches import LayerMatch, Match
from laybare.networks.network import Network
from laybare.networks.stack import Stack, canonical_stack
from laybare.shapes import Array


def compare_layers(found: Network, truth: Network, pairing: str) -> Match:
    """The match of two networks of any depth; layers that only one of them has are missing or spurious as a whole."""
    f, t = canonical_stack(found.stack), canonical_stack(truth.stack)
    common, whole = min(found.depth, truth.depth), _comparable(found, truth)
    layers, match = [], None
    for level, activation in enumerate(t.activations[:common]):
        _check_same(f.activations[level], activation)
        match, f = _one_level(f, t, level, pairing, readouts=whole and level == common - 1)
        layers.append(match.layers[0])
    layers += [_unpaired(missing=_numbers(t, level)) for level in range(common, truth.depth)]
    layers += [_unpaired(spurious=_numbers(f, level)) for level in range(common, found.depth)]
    return _joined(layers, match if whole else None, found, truth)


def different_units(one: Activation, other: Activation) -> InvalidInput:
    """The refusal of networks whose hidden units cannot be each other's."""
    return InvalidInput(
        f"The found network has activation {one.name}, the true one {other.name}.",
        "Their hidden units are different functions.", "Compare networks with one activation.",
        found=one.name, truth=other.name)


def _comparable(found: Network, truth: Network) -> bool:
    """Whether the readouts read the same layer, and nothing above it is a black box."""
    return found.depth == truth.depth and found.top is None and truth.top is None


def _one_level(found: Stack, true: Stack, level: int, pairing: str, *, readouts: bool) -> tuple[Match, Stack]:
    """The match of one layer, and the found stack with that layer in the true one's order."""
    mine, theirs = found.piece(level), true.piece(level)
    mine, pick = paired(mine, theirs, reflection(true.activations[level]), pairing, readouts=readouts)
    if not readouts:  # the two lie in different orders, or read different things: only their sizes are needed
        theirs = theirs._replace(readout=np.full((len(theirs.weights), mine.readout.shape[1]), largest(theirs.readout)))
        theirs = theirs._replace(offset=mine.offset, linear=np.zeros_like(mine.linear))
    return errors(mine, theirs, pick), found.with_piece(level, _in_true_order(mine, pick, len(theirs.weights)))


def _in_true_order(units: Units, pick: Pairing, width: int) -> Units:
    """The found units at the places of their partners; zeros where a true unit has none."""

    def placed(rows: Array) -> Array:
        room = np.zeros((width, *rows.shape[1:]))
        room[pick.columns] = rows[pick.rows]
        return room

    parts: list[tuple[int, ...]] = [()] * width
    for row, column in zip(pick.rows, pick.columns, strict=True):
        parts[column] = units.parts[row]
    return units._replace(
        weights=placed(units.weights), biases=placed(units.biases), readout=placed(units.readout), parts=tuple(parts))


def _joined(layers: list[LayerMatch], highest: Match | None, found: Network, truth: Network) -> Match:
    """One match from those of the layers; `highest` has the errors of readout and offset, infinite where there is none."""
    mine, theirs = (_starts(network, len(layers)) for network in (found, truth))
    numbered = list(zip(layers, mine, theirs, strict=True))
    return Match(
        weight_error=max(layer.weight_error for layer in layers), bias_error=max(layer.bias_error for layer in layers),
        readout_error=inf if highest is None else highest.readout_error,
        offset_error=inf if highest is None else highest.offset_error,
        linear_error=max(*(layer.linear_error for layer in layers), _linear_error(found, truth)),
        pairs=np.vstack([layer.pairs + np.array([first, first_true]) for layer, first, first_true in numbered]),
        missing=tuple(first_true + unit for layer, _, first_true in numbered for unit in layer.missing),
        spurious=tuple(first + unit for layer, first, _ in numbered for unit in layer.spurious), layers=tuple(layers))


def _linear_error(found: Network, truth: Network) -> float:
    mine, theirs = (
        np.zeros((net.dim, net.outputs)) if net.linear is None else net.linear.reshape(net.dim, -1) for net in (found, truth))
    return relative(mine, theirs, largest(truth.readout))


def _unpaired(missing: tuple[int, ...] = (), spurious: tuple[int, ...] = ()) -> LayerMatch:
    return LayerMatch(0.0, 0.0, 0.0, np.zeros((0, 2), dtype=int), missing, spurious)


def _numbers(stack: Stack, level: int) -> tuple[int, ...]:
    return tuple(sorted(i for part in stack.parts[level] for i in part))


def _starts(network: Network, depth: int) -> list[int]:
    """Number of the first unit of each of `depth` layers; where the network has ended there are none to be numbered."""
    return list(accumulate([0, *network.widths, *[0] * depth]))[:depth]


def _check_same(one: Activation, other: Activation) -> None:
    if one != other:
        raise different_units(one, other)
