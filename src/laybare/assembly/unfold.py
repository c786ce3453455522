"""Signs that the data leave open until the end, and how they are put back.

ReLU, leaky ReLU, softplus and GELU obey act(t) = κ t + even(t) with an even function: turning a unit over changes the network
by a linear function. A model with a free linear part therefore has no wrong signs to get stuck in: Σ αᵢ|uᵢ| + v·x + c for degree
one, the activation itself with a linear part beside it for the others. `unfold` decides the signs afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, absolute, relu
from laybare.assembly.signs import Signs, decode_signs
from laybare.networks import Layer, Network
from laybare.shapes import Array


class Folding(NamedTuple):
    """act(t) = odd · t + even · |t|: every activation of degree one."""

    odd: float
    even: float


def folding(activation: Activation) -> Folding | None:
    """How the activation folds, or None if it has no sign-free form or does not need one (|t| itself)."""
    if activation.degree != 1:
        return None
    plus, minus = activation(np.array([1.0, -1.0]))
    odd, even = float(plus - minus) / 2.0, float(plus + minus) / 2.0
    return Folding(odd, even) if odd != 0.0 and even != 0.0 else None


class Unfolded(NamedTuple):
    """A network in its own activation, and how its signs were decided."""

    network: Network
    signs: Signs


def unfold(fitted: Network, activation: Activation, tol: float = 1e-7) -> Unfolded:
    """The network of `activation` units that equals a sign-free one; what the signs leave over stays as its linear part.

    `fitted` has |u| units and a linear part, or `activation` units and a linear part. Among several sign patterns that fit, the
    one with the smallest offset is taken, and `signs.alternatives` lists all.
    """
    rows, (_, offset, linear) = fitted.layer.rows, fitted.columns
    readout, slope = _readout(fitted, activation), _slope(activation)
    if fitted.activation == activation:  # the odd part of every unit belongs to what the signs have to explain
        affine = slope * rows.T @ readout
        linear, offset = linear + affine[:-1], offset + affine[-1]
    pulls = slope * readout[:, None, :] * rows[:, :, None]  # (k, d+1, m): what each unit adds to the linear part and offset
    signs = decode_signs(pulls[:, :-1].reshape(len(rows), -1), linear.ravel(), tol)
    shifts = [np.abs(offset - pattern @ pulls[:, -1]).sum() for pattern in signs.alternatives]
    xi = signs.alternatives[int(np.argmin(shifts))] if shifts else signs.signs
    turned, vector = with_signs(fitted, activation, xi), fitted.readout.ndim == 1
    rest = None if signs.alternatives else _form(linear - np.einsum("k,kdm->dm", xi, pulls[:, :-1]), vector)
    return Unfolded(Network(turned.layer, turned.readout, _form((offset - xi @ pulls[:, -1])[None], vector)[0], rest), signs)


def with_signs(fitted: Network, activation: Activation, pattern: Array) -> Network:
    """`activation` units on the rows of a sign-free network, turned by `pattern` (k,) of ±1; offset and linear part left out."""
    rows = pattern[:, None] * fitted.layer.rows
    layer = Layer(rows[:, :-1], rows[:, -1], activation)
    return Network(layer, _form(_readout(fitted, activation), fitted.readout.ndim == 1))


def _readout(fitted: Network, activation: Activation) -> Array:
    fold = folding(activation)
    alpha = fitted.columns[0]
    return alpha / fold.even if fold is not None and fitted.activation == absolute else alpha


def _slope(activation: Activation) -> float:
    """κ of act(t) = κ t + even(t)."""
    return (activation.mirror or 0.0) / 2.0


def absorb_linear(network: Network) -> Network:
    """The same function without a linear part: v·x + c = relu(v·x + c) - relu(-v·x - c), two more units an output.

    Source: Awasthi et al. (2021), Claim D.14. If v = 0 the constant stays in the offset.
    """
    if network.activation != relu or network.linear is None:
        return network
    readout, offset, linear = network.columns
    hidden, rows = [network.layer.rows], [readout]
    for o in range(network.outputs):
        length = float(np.linalg.norm(linear[:, o]))
        if length > 0.0:
            row = np.append(linear[:, o], offset[o]) / length
            hidden.append(np.stack([row, -row]))
            pair = np.zeros((2, network.outputs))
            pair[:, o] = length, -length
            rows.append(pair)
            offset = np.where(np.arange(network.outputs) == o, 0.0, offset)
    vector = network.readout.ndim == 1
    units = np.vstack(hidden)
    layer = Layer(units[:, :-1], units[:, -1], network.activation)
    return Network(layer, _form(np.vstack(rows), vector), _form(offset[None], vector)[0])


def _form(columns: Array, vector: bool) -> Array:
    return columns[:, 0] if vector else columns
