"""Random networks: teachers for tests, studies and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.errors import InvalidInput
from laybare.networks import Layer, Network
from laybare.shapes import Array

ReadoutKind = Literal["signs", "positive", "random"]
BiasLaw = Literal["uniform", "normal"]


def random_network(
    dim: int,
    width: int | None = None,
    activation: Activation = relu,
    outputs: int = 1,
    *,
    widths: Sequence[int] | None = None,
    biases: float | int | None = None,
    bias_law: BiasLaw | None = None,
    condition: float | int | None = None,
    readout: ReadoutKind = "signs",
    rng: Generator | int = 0,
) -> Network:
    """A network with random weights: `width` units in one hidden layer, or `widths` of several from the lowest up.

    Parameters
    ----------
    dim, activation, outputs : its shape, every layer with the same activation
    width : units of a single hidden layer whose rows are independent directions of norm 1
    widths
        Units of every hidden layer, such as (40, 20), instead of `width`; rows are N(0, I / fan-in), so that signals keep their
        size from layer to layer.
    biases
        Half-range of uniform biases, or standard deviation of normal ones; 0 means none. By default 1 with `width`, 0.5 with
        `widths`.
    bias_law : "uniform" on [-biases, biases] (the default with `width`), or "normal" (the default with `widths`)
    condition : None, or a number for that condition number of a single layer's weights (`conditioned_weights`)
    readout
        "signs" (+1 or -1), "positive" (uniform in [0.5, 1.5]) or "random" (the same with random signs). With several outputs
        "positive" is as before, the others have independent N(0, 1) entries: small sign matrices are often singular.
    rng : seed or Generator

    The teachers that other extraction programs were measured on have
    random_network(dim, width, biases=0.4, bias_law="normal", readout="random").
    """
    sizes = _sizes(dim, width, widths, outputs, condition)
    rng = np.random.default_rng(rng)
    scale, law = (1.0, "uniform") if widths is None else (0.5, "normal")
    scale, law = scale if biases is None else biases, law if bias_law is None else bias_law
    layers = []
    for below, units in pairwise(sizes):
        if widths is not None:
            weights = rng.standard_normal((units, below)) / np.sqrt(below)
        elif condition is None:
            weights = gaussian_rows(below, units, rng=rng)
        else:
            weights = conditioned_weights(below, units, condition, rng=rng)
        layers.append(Layer(weights, _biases(units, scale, law, rng), activation))
    return Network(layers, _readout(sizes[-1], outputs, readout, rng))


def gaussian_rows(dim: int, width: int, *, rng: Generator | int) -> Array:
    """Independent uniform directions: Gaussian rows of norm 1."""
    weights: Array = np.random.default_rng(rng).standard_normal((width, dim))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return weights


def orthonormal_weights(dim: int, width: int, *, rng: Generator | int) -> Array:
    """Uniformly random orthonormal rows; width <= dim."""
    return conditioned_weights(dim, width, 1.0, rng=rng)


def conditioned_weights(dim: int, width: int, condition: float | int, *, rng: Generator | int) -> Array:
    """W = U S Vᵀ with random orthogonal U, V and singular values S evenly spaced from 1 to `condition`; width <= dim.

    Source: the experiments of Zhong et al. (2017), with condition 2. Rows are not normalised: that would change the condition.
    """
    if width > dim or not 1 <= condition < np.inf:
        raise InvalidInput(
            f"Condition {condition} for {width} rows in dimension {dim}.",
            "Only width <= dim rows can be independent, and no condition number is below 1.",
            "Lower the width, or leave the condition out.", width=width, dim=dim, condition=condition)
    rng = np.random.default_rng(rng)
    U, V = _orthonormal_columns(width, width, rng), _orthonormal_columns(dim, width, rng)
    weights: Array = (U * np.linspace(1.0, condition, width)) @ V.T
    return weights


def smoothed(weights: Array, rho: float, *, rng: Generator | int) -> Array:
    """W + rho N(0, 1), entry by entry: degenerate weights become generic. Source: Ge et al. (2019), equation (18)."""
    perturbed: Array = weights + rho * np.random.default_rng(rng).standard_normal(np.shape(weights))
    return perturbed


def smoothed_network(network: Network, rho: float, *, rng: Generator | int) -> Network:
    """The network with Gaussian noise of length about ρ|w| on every weight vector, brought back to its own length.

    The smoothed analysis of Awasthi, Tang and Vijayaraghavan (2021), Corollary 3.3: whatever the weights, perturbed ones are
    well conditioned (`moments.khatri_rao`).
    """
    rng = np.random.default_rng(rng)
    layers = [Layer(_turned_a_little(layer.weights, rho, rng), layer.biases, layer.activation) for layer in network.layers]
    return Network(layers, network.readout, network.offset, network.linear, top=network.top)


def _turned_a_little(weights: Array, rho: float, rng: Generator) -> Array:
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    moved = smoothed(weights / lengths, rho / np.sqrt(weights.shape[1]), rng=rng)
    turned: Array = lengths * moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return turned


def _sizes(
    dim: int, width: int | None, widths: Sequence[int] | None, outputs: int, condition: float | int | None
) -> tuple[int, ...]:
    """The dim and the width of every layer."""
    if (width is None) == (widths is None):
        raise InvalidInput(
            f"width is {width}, widths is {widths}.", "One of them says how many hidden units there are.",
            "Give width for one hidden layer, widths for several.", width=width, widths=widths)
    if widths is not None and condition is not None:
        raise InvalidInput(
            f"Condition {condition} for layers of widths {tuple(widths)}.", "Only a single layer, given by width, can have one.",
            "Leave the condition out, or give width.", condition=condition)
    sizes = (dim, width) if width is not None else (dim, *(widths or ()))
    if min(*sizes, outputs) < 1 or len(sizes) < 2:
        units = f"width {width}" if widths is None else f"widths {tuple(widths)}"
        raise InvalidInput(
            f"dim {dim}, {units}, outputs {outputs}.", "A network has at least one of each.", "Give positive numbers.",
            dim=dim, width=width, outputs=outputs)
    return sizes


def _orthonormal_columns(rows: int, columns: int, rng: Generator) -> Array:
    """Haar-distributed: QR with the signs of R's diagonal taken out."""
    Q, R = np.linalg.qr(rng.standard_normal((rows, columns)))
    columns_: Array = Q * np.sign(np.diag(R))
    return columns_


def _biases(width: int, scale: float | int, law: str, rng: Generator) -> Array:
    if not 0 <= scale < np.inf:
        raise InvalidInput(f"biases is {scale}.", "It is the scale of random biases.", "Give a number >= 0.", biases=scale)
    _check_choice("bias_law", law, get_args(BiasLaw))
    unit = rng.uniform(-1.0, 1.0, width) if law == "uniform" else rng.standard_normal(width)
    biases: Array = scale * unit
    return biases


def _readout(width: int, outputs: int, kind: ReadoutKind, rng: Generator) -> Array:
    _check_choice("readout", kind, get_args(ReadoutKind))
    shape = (width,) if outputs == 1 else (width, outputs)
    if outputs > 1 and kind != "positive":
        return rng.standard_normal(shape)
    signs = np.ones(shape) if kind == "positive" else 2.0 * rng.integers(0, 2, shape) - 1.0
    sizes = np.ones(shape) if kind == "signs" else rng.uniform(0.5, 1.5, shape)
    readout: Array = signs * sizes
    return readout


def _check_choice(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidInput(f"{name} is {given!r}.", f"Known are {', '.join(known)}.", "Choose one of them.", given=given)
