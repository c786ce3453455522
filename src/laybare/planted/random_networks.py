"""Random networks: teachers for tests, studies and demonstrations."""

from __future__ import annotations

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
    width: int,
    activation: Activation = relu,
    outputs: int = 1,
    *,
    biases: float | int = 1.0,
    bias_law: BiasLaw = "uniform",
    condition: float | int | None = None,
    readout: ReadoutKind = "signs",
    rng: Generator | int = 0,
) -> Network:
    """A network with random weights.

    Parameters
    ----------
    dim, width, activation, outputs : its shape
    biases : half-range of uniform biases, or standard deviation of normal ones; 0 means none
    bias_law : "uniform" on [-biases, biases], or "normal"
    condition : None for independent directions (unit rows); a number for that condition number (`conditioned_weights`)
    readout : "signs" (+1 or -1), "positive" (uniform in [0.5, 1.5]) or "random" (the same with random signs). With several
        outputs "positive" is as before, the others have independent N(0, 1) entries: small sign matrices are often singular.
    rng : seed or Generator

    The teachers that other extraction programs were measured on have
    random_network(dim, width, biases=0.4, bias_law="normal", readout="random").
    """
    if min(dim, width, outputs) < 1:
        raise InvalidInput(
            f"dim {dim}, width {width}, outputs {outputs}.", "A network has at least one of each.", "Give positive numbers.",
            dim=dim, width=width, outputs=outputs)
    rng = np.random.default_rng(rng)
    weights = gaussian_rows(dim, width, rng=rng) if condition is None else conditioned_weights(dim, width, condition, rng=rng)
    layer = Layer(weights, _biases(width, biases, bias_law, rng), activation)
    return Network(layer, _readout(width, outputs, readout, rng))


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
    """W + rho N(0, 1), entry by entry: degenerate weights become generic. Source: Ge, Kuditipudi, Li and Wang (2019), eq. 18."""
    perturbed: Array = weights + rho * np.random.default_rng(rng).standard_normal(np.shape(weights))
    return perturbed


def smoothed_network(network: Network, rho: float, *, rng: Generator | int) -> Network:
    """The network with Gaussian noise of length about ρ|w| on every weight vector, brought back to its own length.

    The smoothed analysis of Awasthi, Tang and Vijayaraghavan (2021), Corollary 3.3: whatever the weights, perturbed ones are
    well conditioned (`moments.khatri_rao`).
    """
    w = network.layer.weights
    lengths = np.linalg.norm(w, axis=1, keepdims=True)
    moved = smoothed(w / lengths, rho / np.sqrt(network.dim), rng=rng)
    layer = Layer(lengths * moved / np.linalg.norm(moved, axis=1, keepdims=True), network.layer.biases, network.activation)
    return Network(layer, network.readout, network.offset, network.linear)


def _orthonormal_columns(rows: int, columns: int, rng: Generator) -> Array:
    """Haar-distributed: QR with the signs of R's diagonal taken out."""
    Q, R = np.linalg.qr(rng.standard_normal((rows, columns)))
    columns_: Array = Q * np.sign(np.diag(R))
    return columns_


def _biases(width: int, scale: float | int, law: BiasLaw, rng: Generator) -> Array:
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
