"""Magnitudes and signs of hidden units whose directions are known, from Hermite moments: the step after a decomposition.

Letters: U (k, r) unit rows, each ±w̄ᵢ in the coordinates of a subspace; G = U Uᵀ; M_j the moment E[y He_j(z)]; c_j(s) = E[act(s·g)
He_j(g)]; A (k, m) the readout; ξᵢ = ±1 the sign with w̄ᵢ = ξᵢuᵢ. As M_j = Σᵢ Aᵢ c_j(sᵢ) w̄ᵢ^⊗j, even orders give Aᵢ and odd orders
ξᵢAᵢ. Least squares over orders of one parity in the norm where E f² = Σ_j |M_j|²/j!:

    (Σ_j c_j²/j! G^∘j) a = Σ_j c_j/j! M_j(uᵢ, …, uᵢ)                            G^∘j: elementwise power

Homogeneous activations of degree p have c_j(s) = s^p c_j(1): s is part of A. For odd ones only odd orders count, and (ξ, A) and
(-ξ, -A) are the same unit; for even ones only even orders, and ξ is free. Of other activations the ratio of two orders gives s:
c₃/c₁ if the activation is odd up to a constant, c₄/c₂ if it is even up to a linear part, else c₂/c₁. For tanh, erf, sigmoid and
softplus the ratio falls from 0 to -1 as s grows; for GELU it does so up to s = 2.3 only, and smaller norms are assumed.
Source: Zhong et al. (2017), Algorithm 1, RecMagSign, which the paper leaves out; derived here.
"""

from __future__ import annotations

from math import factorial, sqrt
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.activations.hermite_coefficients import VANISHING_COEFFICIENT
from laybare.errors import InvalidInput, Unidentifiable
from laybare.moments import PackedMoments, veronese
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array

SCALES = np.geomspace(0.05, 5.0, 30)
"""Norms of weight vectors that are looked for: beyond them activations are so close to a line, or a step, that noise decides."""


def rec_mag_sign(
    moments: PackedMoments, directions: Array, activation: Activation, orders: tuple[int, ...] = (1, 2, 3, 4)
) -> Network:
    """The network without biases whose units lie along ± `directions` (k, r), from moments in the same coordinates.

    `orders` says which moments are asked, as far as `moments` reaches. Units of a homogeneous activation come with |w| = 1 and
    offset 0, others with their norms and an offset.
    """
    asked = tuple(j for j in orders if 1 <= j <= moments.order)
    vector = moments.outputs == 1
    if activation.degree is None:
        rows, readout = _units_with_norms(moments, directions, activation)
        norms = np.linalg.norm(rows, axis=1)
        offset = moments.of(0)[:, 0] - activation.hermite(0, norms) @ readout
    else:
        rows, readout = _homogeneous_units(moments, directions, activation, asked)
        offset = np.zeros(moments.outputs)
    layer = Layer(rows, None, activation)
    return Network(layer, readout[:, 0], float(offset[0])) if vector else Network(layer, readout, offset)


def with_unit_readout(network: Network) -> Network:
    """The same function with readout ±1: a·act(w·x) = sign(a)·act(|a|^(1/p) w·x) for degree p > 0 and one output.

    This is the form that Zhong et al. (2017) assume without loss of generality.
    """
    degree = network.activation.degree
    if not degree or network.readout.ndim != 1:
        raise InvalidInput(
            f"{network.activation.name} has degree {degree}, the network {network.outputs} outputs.",
            "Only a homogeneous unit with one output can take up the size of its readout.", "Leave the readout as it is.",
            degree=degree, outputs=network.outputs)
    factor = np.abs(network.columns[0][:, 0]) ** (1.0 / degree)
    layer = Layer(factor[:, None] * network.layer.weights, factor * np.asarray(network.layer.biases), network.activation)
    return Network(layer, np.where(network.readout < 0, -1.0, 1.0), network.offset, network.linear)


class _Units(NamedTuple):
    rows: Array
    readout: Array


def _homogeneous_units(moments: PackedMoments, U: Array, activation: Activation, asked: tuple[int, ...]) -> _Units:
    shown = {j: c for j in asked if abs(c := float(activation.hermite(j))) > VANISHING_COEFFICIENT}
    if not shown:
        raise Unidentifiable(
            f"{activation.name} has no Hermite coefficient of the orders {', '.join(map(str, asked))}.",
            "Its moments show neither signs nor magnitudes.", "Ask for other orders.", activation=activation.name, orders=asked)
    parts = [{j: c for j, c in shown.items() if j % 2 == parity} for parity in (0, 1)]
    even, odd = (_fit_loadings(moments, U, part) if part else None for part in parts)
    if odd is None or even is None:
        return _Units(U, even) if even is not None else _with_positive_readout(U, np.asarray(odd))
    sign = _signs(np.sum(odd * even, axis=1))
    return _Units(sign * U, (sign * odd + even) / 2)


def _units_with_norms(moments: PackedMoments, U: Array, activation: Activation) -> _Units:
    """Norms from the ratio of two orders, then the readout."""
    low, high = norm_orders(activation)
    if moments.order < high:
        raise InvalidInput(
            f"Moments reach order {moments.order}.",
            f"The norms of {activation.name} units show in the ratio of orders {low} and {high}.",
            f"Measure moments up to order {high}.", order=moments.order, needed=high)
    first, second = (_fit_loadings(moments, U, {j: 1.0}) for j in (low, high))
    ratios = np.sum(first * second, axis=1) / np.maximum(np.sum(first * first, axis=1), np.finfo(float).tiny)
    sign = np.ones((len(U), 1))
    if activation.centre is None and activation.parity is None:
        even, odd = (_fit_loadings(moments, U, {j: float(activation.hermite(j))}) for j in (2, 1))
        sign = _signs(np.sum(odd * even, axis=1))
    turned = sign[:, 0] ** (high - low)
    norms = np.array([_norm_from_ratio(activation, float(ratio), low, high) for ratio in turned * ratios])
    readout = sign**low * first / activation.hermite(low, norms)[:, None]
    units = _Units(sign * U, readout) if activation.centre is None else _with_positive_readout(U, readout)
    return _Units(norms[:, None] * units.rows, units.readout)


def norm_orders(activation: Activation) -> tuple[int, int]:
    """Two orders whose ratio tells the norm of a unit's weights, if the activation is not homogeneous."""
    if activation.centre is not None:
        return 1, 3
    return (1, 2) if activation.mirror is None else (2, 4)


def _norm_from_ratio(activation: Activation, ratio: float, low: int, high: int) -> float:
    """The smallest s with c_high(s)/c_low(s) = ratio, or the s that comes closest: noise may take the ratio out of its range."""
    from scipy.optimize import brentq  # slow to import

    def gap(scale: Array | float) -> Array:
        return np.asarray(activation.hermite(high, scale) / activation.hermite(low, scale) - ratio)

    gaps = gap(SCALES)
    crossings = np.flatnonzero(gaps[:-1] * gaps[1:] <= 0)
    if not len(crossings):
        return float(SCALES[np.argmin(np.abs(gaps))])
    return float(brentq(gap, *SCALES[crossings[0] : crossings[0] + 2], xtol=1e-15, rtol=1e-14))


def _fit_loadings(moments: PackedMoments, U: Array, coefficients: dict[int, float]) -> Array:
    """a (k, m) by least squares over the orders that have `coefficients`; M_j(u, …, u) = √j! packed moment · veronese(u)."""
    G = U @ U.T
    gram = sum((c**2 / factorial(j) * G**j for j, c in coefficients.items()), np.zeros_like(G))
    right = sum(
        (c / sqrt(factorial(j)) * veronese(U, j) @ moments.of(j).T for j, c in coefficients.items()),
        np.zeros((len(U), moments.outputs)))
    solved: Array = np.linalg.lstsq(gram, right, rcond=None)[0]
    return solved


def _with_positive_readout(rows: Array, readout: Array) -> _Units:
    """Of (w, a) and (-w, -a), which are the same unit, the one whose largest readout is positive."""
    largest = np.take_along_axis(readout, np.argmax(np.abs(readout), axis=1)[:, None], axis=1)[:, 0]
    sign = _signs(largest)
    return _Units(sign * rows, sign * readout)


def _signs(values: Array) -> Array:
    """±1 as a column; 1 for zero."""
    return np.where(values < 0, -1.0, 1.0)[:, None]
