"""The error metrics of the papers, each as a function. `compare` is the one to use where there is a choice.

All are modulo the order of the units; rows of weights are units.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks.network import Network
from laybare.networks.pairing import bottleneck_cost, hungarian
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
