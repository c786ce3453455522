"""Comparison of a found network with the true one, and the error metrics of the papers.

How far a found network is from the true one, modulo every symmetry of the activation.

Both are normalised first (unit rows where the scale is free, no constant units, no zero readouts), then units are paired by
(w, b), up to sign where the activation has a reflection. Every found unit is turned to its partner's sign, and what the
reflection adds is charged to the found network's linear part and offset. So a wrong sign of a ReLU unit shows as a linear
error, unless several of them cancel: then the two functions are equal and so is what is compared (Awasthi et al. 2021,
Claim 4.8).

Several hidden layers are paired from the lowest up, in canonical form. The found units of a layer take the order and the signs of
their partners, so that the found columns of the next layer stand under the true ones. A true unit that was not found leaves a
column of zeros there. What a wrong sign of a ReLU unit would add, a linear function of the layer's inputs, is charged to its
layer.

The error metrics of the papers, each as a function. `compare` is the one to use where there is a choice.

All are modulo the order of the units; rows of weights are units.
"""

from __future__ import annotations

from itertools import accumulate
from math import inf, sqrt
from typing import Literal, NamedTuple

import numpy as np

from laybare.activations import Activation, absolute
from laybare.errors import InvalidInput
from laybare.networks.canonical import (
    Stack,
    Units,
    canonical_stack,
    merge_units,
    normalise_units,
    reflect_to_canonical_signs,
    reflection,
)
from laybare.networks.network import Network, sign_free
from laybare.networks.pairing import (
    LayerMatch,
    Match,
    Pairing,
    bottleneck_cost,
    hungarian,
    largest_entry,
    match_errors,
    match_units,
    relative_difference,
)
from laybare.numerics.checks import check_choice, check_instance
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array, Square, Weights

RECOVERED = 0.01
"""Relative error of a unit up to which a network is recovered. Paper: Zhong et al. (2017), section 7."""


def max_relative_error(found: Weights, true: Weights) -> float:
    """min over permutations π of max_j |w*_j - w_π(j)| / |w*_j|: a bottleneck assignment, not a Hungarian one.

    Source: Zhong et al. (2017), section 7.
    """
    return bottleneck_cost(_relative_distances(found, true))


def recovered(found: Network, truth: Network, tol: float = RECOVERED) -> bool:
    """Whether some pairing with equal signs of the readouts brings every unit within `tol` of the true one, relatively.

    For one output. If the activation is homogeneous of degree p > 0, readouts become ±1 first: a act(u) = ±act(|a|^(1/p) u).
    If it is odd they become positive, if it is even the sign of a unit is free. Biases, which the paper does not have, count
    as one more weight; the readouts' sizes do not count for other activations (there the paper has them ±1).
    Source: Zhong et al. (2017), section 7.
    """
    _check_single_output(found, truth)
    if found.activation != truth.activation:
        return False
    (w, a), (w_true, a_true) = _signed_rows(found), _signed_rows(truth)
    if w.shape != w_true.shape:
        return False
    cost = _relative_distances(w, w_true)
    if truth.activation.parity == "even":
        cost = np.minimum(cost, _relative_distances(-w, w_true))
    return bottleneck_cost(np.where(a[:, None] == a_true, cost, np.inf)) <= tol


def landscape_error(product: Square) -> float:
    """max{1 - min_i max_j |Q_ij|, 1 - min_j max_i |Q_ij|} for Q = B B*⁻¹ (unit rows): 0 if Q is a signed permutation.

    The paper prints the minimum of the two, which is 0 also if all rows of Q are the same basis vector: then a single unit has
    been found k times. The maximum is what its proofs need.
    Source: Ge, Lee & Ma (2018), equation (4.1), corrected.
    """
    size = np.abs(product)
    return float(max(1 - size.max(axis=1).min(), 1 - size.max(axis=0).min()))


class SquaredErrors(NamedTuple):
    """Sums of squared distances of unit vectors, and the root mean squares √(sum/width)."""

    readout: float
    weights: float
    readout_normalised: float
    weights_normalised: float


def normalised_squared_errors(found: Network, truth: Network) -> SquaredErrors:
    """Σ|a - a*|² and Σ|w - w*|² over pairs, with every readout vector and every row of weights scaled to norm 1.

    One pairing serves both: the one with the smallest total. The differences are formed (2 - 2cos loses half the digits).
    The paper does not say how it normalises; we divide by the width and take the root.
    Source: Ge, Kuditipudi, Li & Wang (2019), section 4.1.
    """
    _check_same_shape("readout", found.columns[0].shape, truth.columns[0].shape)
    _check_same_shape("weights", found.layer.weights.shape, truth.layer.weights.shape)
    readout = _squared(_directions(found.columns[0]), _directions(truth.columns[0]))
    weights = _squared(_directions(found.layer.weights), _directions(truth.layer.weights))
    pick = hungarian(readout + weights)
    sums = float(readout[pick].sum()), float(weights[pick].sum())
    return SquaredErrors(*sums, *(sqrt(each / max(truth.width, 1)) for each in sums))


def mean_squared_error(predicted: Array, y: Array) -> float:
    """Mean over samples and outputs of (predicted - y)²."""
    _check_same_shape("outputs", np.shape(predicted), np.shape(y))
    return float(np.mean(np.square(np.subtract(predicted, y))))


def max_angle(found: Weights, true: Weights) -> float:
    """Largest angle between paired directions, in radians, for the pairing that makes it smallest.

    By 2 atan2(|u - v|, |u + v|), which is accurate at 0 and at π; arccos(u·v) cannot tell angles below 1e-8 from 0.
    The usual measure for a lowest layer under an unknown top, as in Goel & Panigrahy.
    """
    from scipy.spatial.distance import cdist

    _check_same_shape("weights", found.shape, true.shape)
    u, v = _directions(found), _directions(true)
    return bottleneck_cost(2 * np.arctan2(cdist(u, v), cdist(u, -v)))


def unsigned_error(found: Weights, true: Weights) -> float:
    """Largest |u - v| over paired directions, each turned to its partner's side, for the pairing that makes it smallest.

    The measure for moments of even order, which never see the sign of a row.
    """
    from scipy.spatial.distance import cdist

    _check_same_shape("weights", found.shape, true.shape)
    u, v = _directions(found), _directions(true)
    return bottleneck_cost(np.minimum(cdist(u, v), cdist(u, -v)))


def _signed_rows(network: Network) -> tuple[Array, Array]:
    """Rows (w, b) and the signs of the readouts, of the units that have one."""
    units = network.units
    units = units.take(units.readout[:, 0] != 0)
    rows, signs = np.column_stack([units.weights, units.biases]), np.sign(units.readout[:, 0])
    if network.activation.parity == "odd":
        rows, signs = rows * signs[:, None], np.ones_like(signs)
    if network.activation.degree:
        rows = rows * np.abs(units.readout) ** (1 / network.activation.degree)
    return rows, signs


def _check_single_output(found: Network, truth: Network) -> None:
    if found.dim != truth.dim or found.outputs != 1 or truth.outputs != 1:
        raise InvalidInput(
            f"The networks are {found} and {truth}.", "This criterion is for two networks on the same inputs with one output.",
            "Use compare(found, truth).max_error for several outputs.")


def _relative_distances(found: Array, true: Array) -> Array:
    from scipy.spatial.distance import cdist

    _check_same_shape("weights", found.shape, true.shape)
    norms = np.linalg.norm(true, axis=1)
    _check_nonzero(norms)
    return np.asarray(cdist(found, true) / norms)


def _squared(u: Array, v: Array) -> Array:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(u, v, "sqeuclidean"))


def _directions(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    _check_nonzero(norms)
    return np.asarray(rows / norms)


def _check_nonzero(norms: Array) -> None:
    if not norms.all():
        where = int(np.flatnonzero(norms == 0)[0])
        raise InvalidInput(
            f"Row {where} is zero.", "A zero vector has no direction, and nothing is relative to it.",
            "Drop such units first: network.canonical() does.", where=where)


def _check_same_shape(what: str, found: tuple[int, ...], true: tuple[int, ...]) -> None:
    if found != true:
        raise InvalidInput(
            f"The found {what} have shape {found}, the true ones {true}.", "This metric pairs every unit with one.",
            "Use compare(found, truth), which lists missing and spurious units.", found=found, true=true)


@np.errstate(all="ignore")
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
    f, t = normalise_units(found.units, activation), normalise_units(truth.units, activation)
    match = _match(f, t, activation, pairing)
    if match.max_error <= ROUNDING:
        return match
    f_merged, t_merged = (merge_units(reflect_to_canonical_signs(side, reflection(activation))) for side in (f, t))
    if len(f_merged.weights) == len(f.weights) and len(t_merged.weights) == len(t.weights):
        return match
    return min(match, _match(f_merged, t_merged, activation, pairing), key=_how_bad)


def _how_bad(match: Match) -> tuple[float, int]:
    return match.max_error, len(match.missing) + len(match.spurious)


def _match(found: Units, true: Units, activation: Activation, pairing: str) -> Match:
    found, pick = match_units(found, true, reflection(activation), pairing)
    return match_errors(found, true, pick)


def _check(found: Network, truth: Network, pairing: str) -> None:
    for name, given in (("found", found), ("truth", truth)):
        check_instance(name, given, Network, "Give a Network: that of a recovery is found.network, that of a file load(path).")
    check_choice("pairing", pairing, ("bottleneck", "hungarian"))
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


def compare_layers(found: Network, truth: Network, pairing: str) -> Match:
    """The match of two networks of any depth; layers that only one of them has are missing or spurious as a whole."""
    f, t = canonical_stack(found.stack), canonical_stack(truth.stack)
    common, whole = min(found.depth, truth.depth), _comparable(found, truth)
    layers, match = [], None
    for level, activation in enumerate(t.activations[:common]):
        _check_same(f.activations[level], activation)
        match, f = _match_level(f, t, level, pairing, readouts=whole and level == common - 1)
        layers.append(match.layers[0])
    layers += [_unpaired(missing=_unit_numbers(t, level)) for level in range(common, truth.depth)]
    layers += [_unpaired(spurious=_unit_numbers(f, level)) for level in range(common, found.depth)]
    return _join_layers(layers, match if whole else None, found, truth)


def different_units(one: Activation, other: Activation) -> InvalidInput:
    """The refusal of networks whose hidden units cannot be each other's."""
    return InvalidInput(
        f"The found network has activation {one.name}, the true one {other.name}.",
        "Their hidden units are different functions.", "Compare networks with one activation.",
        found=one.name, truth=other.name)


def _comparable(found: Network, truth: Network) -> bool:
    """Whether the readouts read the same layer, and nothing above it is a black box."""
    return found.depth == truth.depth and found.top is None and truth.top is None


def _match_level(found: Stack, true: Stack, level: int, pairing: str, *, readouts: bool) -> tuple[Match, Stack]:
    """The match of one layer, and the found stack with that layer in the true one's order."""
    mine, theirs = found.piece(level), true.piece(level)
    mine, pick = match_units(mine, theirs, reflection(true.activations[level]), pairing, readouts=readouts)
    if not readouts:  # the two lie in different orders, or read different things: only their sizes are needed
        theirs = theirs._replace(readout=np.full((len(theirs.weights), mine.readout.shape[1]), largest_entry(theirs.readout)))
        theirs = theirs._replace(offset=mine.offset, linear=np.zeros_like(mine.linear))
    return match_errors(mine, theirs, pick), found.with_piece(level, _in_true_order(mine, pick, len(theirs.weights)))


def _in_true_order(units: Units, pick: Pairing, width: int) -> Units:
    """The found units at the places of their partners; zeros where a true unit has none."""

    def placed(rows: Array) -> Array:
        out = np.zeros((width, *rows.shape[1:]))
        out[pick.columns] = rows[pick.rows]
        return out

    parts: list[tuple[int, ...]] = [()] * width
    for row, column in zip(pick.rows, pick.columns, strict=True):
        parts[column] = units.parts[row]
    return units._replace(
        weights=placed(units.weights), biases=placed(units.biases), readout=placed(units.readout), parts=tuple(parts))


def _join_layers(layers: list[LayerMatch], highest: Match | None, found: Network, truth: Network) -> Match:
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
    return relative_difference(mine, theirs, largest_entry(truth.readout))


def _unpaired(missing: tuple[int, ...] = (), spurious: tuple[int, ...] = ()) -> LayerMatch:
    return LayerMatch(0.0, 0.0, 0.0, np.zeros((0, 2), dtype=int), missing, spurious)


def _unit_numbers(stack: Stack, level: int) -> tuple[int, ...]:
    return tuple(sorted(i for part in stack.parts[level] for i in part))


def _starts(network: Network, depth: int) -> list[int]:
    """Number of the first unit of each of `depth` layers; where the network has ended there are none to be numbered."""
    return list(accumulate([0, *network.widths, *[0] * depth]))[:depth]


def _check_same(one: Activation, other: Activation) -> None:
    if one != other:
        raise different_units(one, other)
