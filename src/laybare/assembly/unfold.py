"""Between ReLU networks and their sign-free form Σ αᵢ|uᵢ| + v·x + c."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, relu
from laybare.assembly.signs import Signs, decode_signs
from laybare.network import Layer, Network
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


def unfold(folded: Network, activation: Activation, tol: float = 1e-7) -> Unfolded:
    """The network of `activation` units that equals a sign-free one; what the signs leave over stays as its linear part.

    Among several sign patterns that fit, the one with the smallest offset is taken, and `signs.alternatives` lists all.
    """
    fold = folding(activation)
    assert fold is not None
    alpha, offset, linear = folded.columns
    readout = alpha / fold.even
    rows = folded.layer.rows
    pulls = fold.odd * readout[:, None, :] * rows[:, :, None]  # (k, d+1, m): what each unit adds to the linear part and offset
    signs = decode_signs(pulls[:, :-1].reshape(len(rows), -1), linear.ravel(), tol)
    shifts = [np.abs(offset - pattern @ pulls[:, -1]).sum() for pattern in signs.alternatives]
    xi = signs.alternatives[int(np.argmin(shifts))] if shifts else signs.signs
    rest = linear - np.einsum("k,kdm->dm", xi, pulls[:, :-1])
    vector = folded.readout.ndim == 1
    layer = Layer(xi[:, None] * rows[:, :-1], xi * rows[:, -1], activation)
    network = Network(
        layer, _form(readout, vector), _form((offset - xi @ pulls[:, -1])[None], vector)[0],
        None if signs.alternatives else _form(rest, vector))
    return Unfolded(network, signs)


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
