"""The signs of ReLU-like units: from the sign-free form Σ αᵢ|uᵢ| + v·x + c back to Σ aᵢ act(ξᵢuᵢ) + offset.

ReLU, leaky ReLU, softplus and GELU obey act(t) = κ t + even(t): turning a unit over changes the network by a linear function. A
model with a free linear part therefore has no wrong signs to get stuck in: Σ αᵢ|uᵢ| + v·x + c for degree one, the activation
itself with a linear part beside it for the others. The signs are decoded afterwards. For degree one, act(t) = κ₊ t + κ₋ |t| with
κ± = (1 ± slope)/2 (ReLU: slope 0). Orders ≥ 2 of the function never see the signs ξ ∈ {±1}ᵏ; the linear part does:

    Σᵢ ξᵢ gᵢ = v,      gᵢ = κ₊ aᵢ wᵢ  (stacked over outputs: dim·outputs equations),   aᵢ = αᵢ / κ₋.

With at most dim·outputs units that is a linear system. With more, ξ is still unique in general because it is binary: r = rank of
the equations fixes r signs once the other f = k - r are chosen, and the f free ones are found by meeting in the middle, in time
and memory 2^(f/2) where the plain search has 2^k. If two solutions fit equally well, no data can distinguish them (Awasthi et al.
2021, Claim 4.8): the decoder returns both.
Source: Awasthi, Tang, Vijayaraghavan (2021), FIXSIGNS and Claim 4.8; the decoding beyond the dimension is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from laybare.activations import Activation, absolute, relu
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.solver.point import Model


@dataclass(frozen=True, kw_only=True)
class SignOptions:
    """Sizes of the search for signs."""

    max_free: int = 44  # free signs at most. Derived: 2²² half patterns of 8 bytes, 32 MB and about a second.
    max_pairs: int = 20_000_000  # chance matches: beyond it the tolerance decides nothing. Checked by `pytest tests/assembly`.
    max_enumerated: int = 16  # up to it all patterns are tried, which finds noisy fits too. Checked by `pytest tests/assembly`.


SIGNS = SignOptions()


@dataclass(frozen=True, eq=False)
class Signs:
    """`signs` (k,) of the best fit, its `residual` relative to |v|, the next best pattern's residual, all patterns that fit."""

    signs: Array
    residual: float
    runner_up: float
    alternatives: tuple[Array, ...]
    searched: bool = True

    @property
    def unique(self) -> bool:
        return self.searched and len(self.alternatives) == 1


def decode_signs(vectors: Array, target: Array, tol: float = 1e-7) -> Signs:
    """ξ ∈ {±1}ᵏ with Σ ξᵢ vectorsᵢ = target.

    `vectors` is (k, equations). A pattern fits when its residual is below `tol` relative to the size of the vectors; if none
    does, the best one found is returned with no alternatives.
    """
    scale = float(np.sqrt(np.sum(vectors**2) + np.sum(target**2))) or 1.0
    B, t = vectors.T / scale, target / scale
    Q, R, order = scipy.linalg.qr(B, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int(np.sum(diagonal > max(1e-10, tol) * diagonal[0])) if diagonal.size else 0
    fixed, free = order[:rank], order[rank:]
    base = scipy.linalg.solve_triangular(R[:rank, :rank], Q[:, :rank].T @ t)
    follow = scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    few = len(free) <= SIGNS.max_enumerated
    if len(free) > SIGNS.max_free or not (few or rank):  # rank 0: the tolerance is beyond all vectors
        return Signs(np.ones(len(vectors)), np.inf, np.inf, (), searched=False)
    patterns = _patterns(np.arange(1 << len(free)), len(free)) if few else _search(base, follow, tol)
    if not len(patterns):
        return Signs(np.ones(len(vectors)), np.inf, np.inf, ())
    found = np.empty((len(patterns), len(vectors)))
    found[:, free] = patterns
    found[:, fixed] = np.where(base - patterns @ follow.T >= 0.0, 1.0, -1.0)
    residuals = np.linalg.norm(found @ B.T - t, axis=1)
    ranking = np.argsort(residuals, kind="stable")
    best = residuals[ranking[0]]
    runner_up = residuals[ranking[1]] if len(ranking) > 1 else _best_single_flip(B, t, found[ranking[0]])
    fits = tuple(found[i] for i in ranking[:64] if residuals[i] <= tol)
    return Signs(found[ranking[0]], float(best), float(runner_up), fits)


def _search(base: Array, follow: Array, tol: float) -> Array:
    """Meet in the middle, first with a tight tolerance: a loose one lets chance matches through by the million."""
    for tight in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        patterns = _meet_in_the_middle(base, follow, tight)
        if len(patterns) or tight > 1e3 * tol:
            break
    return patterns


def _best_single_flip(B: Array, t: Array, signs: Array) -> float:
    """Smallest residual among the patterns that differ from `signs` in one place."""
    rest = B @ signs - t
    return float(np.linalg.norm(rest[:, None] - 2.0 * B * signs, axis=0).min())


def _meet_in_the_middle(base: Array, follow: Array, tol: float) -> Array:
    """Free patterns for which every fixed sign comes out as ±1: base - follow·s ∈ {±1}ʳ up to `tol`.

    One coordinate is matched by sorting, the pairs that remain are sifted by the other coordinates in turn.
    """
    free = follow.shape[1]
    half = free // 2
    lead, *others = map(int, np.argsort(-np.abs(follow).sum(axis=1)))
    left, right = _half_sums(base, follow, lead, half)
    order = np.argsort(right)
    ordered = right[order]
    pairs = [_close_pairs(left - goal, ordered, tol) for goal in (1.0, -1.0)]
    i, j = np.concatenate([pair[0] for pair in pairs]), order[np.concatenate([pair[1] for pair in pairs])]
    for coordinate in others:
        left, right = _half_sums(base, follow, coordinate, half)
        fits = np.abs(np.abs(left[i] - right[j]) - 1.0) <= tol
        i, j = i[fits], j[fits]
    return np.hstack([_patterns(i, half), _patterns(j, free - half)])


def _half_sums(base: Array, follow: Array, coordinate: int, half: int) -> tuple[Array, Array]:
    row = follow[coordinate]
    return base[coordinate] - _subset_sums(row[:half]), _subset_sums(row[half:])


def _close_pairs(values: Array, ordered: Array, tol: float) -> tuple[Array, Array]:
    """All (i, j) with |values[i] - ordered[j]| ≤ tol."""
    low, high = np.searchsorted(ordered, values - tol), np.searchsorted(ordered, values + tol)
    counts = high - low
    if counts.sum() > SIGNS.max_pairs:
        counts = np.zeros_like(counts)
    i = np.repeat(np.arange(len(values)), counts)
    within = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
    return i, low[i] + within


def _subset_sums(values: Array) -> Array:
    """Σ sᵢ valuesᵢ for all sign patterns, in the order of `_patterns`."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _patterns(indices: Array, bits: int) -> Array:
    return 1.0 - 2.0 * ((indices[:, None] >> np.arange(bits)) & 1)


class AbsoluteForm(NamedTuple):
    """act(t) = odd · t + even · |t|: every activation of degree one."""

    odd: float
    even: float


def absolute_form(activation: Activation) -> AbsoluteForm | None:
    """The odd and even part, or None if the activation has no sign-free form or does not need one (|t| itself)."""
    if activation.degree != 1:
        return None
    plus, minus = activation(np.array([1.0, -1.0]))
    odd, even = float(plus - minus) / 2.0, float(plus + minus) / 2.0
    return AbsoluteForm(odd, even) if odd != 0.0 and even != 0.0 else None


class DecodedNetwork(NamedTuple):
    """A network in its own activation, and how its signs were decided."""

    network: Network
    signs: Signs


def restore_signs(fitted: Network, activation: Activation, tol: float = 1e-7) -> DecodedNetwork:
    """The network of `activation` units that equals a sign-free one; what the signs leave over stays as its linear part.

    `fitted` has |u| units and a linear part, or `activation` units and a linear part. Among several sign patterns that fit, the
    one with the smallest offset is taken, and `signs.alternatives` lists all.
    """
    rows, (_, offset, linear) = fitted.layer.rows, fitted.columns
    readout, slope = _activation_readout(fitted, activation), _linear_slope(activation)
    if fitted.activation == activation:  # the odd part of every unit belongs to what the signs have to explain
        affine = slope * rows.T @ readout
        linear, offset = linear + affine[:-1], offset + affine[-1]
    pulls = slope * readout[:, None, :] * rows[:, :, None]  # (k, d+1, m): what each unit adds to the linear part and offset
    signs = decode_signs(pulls[:, :-1].reshape(len(rows), -1), linear.ravel(), tol)
    shifts = [np.abs(offset - pattern @ pulls[:, -1]).sum() for pattern in signs.alternatives]
    xi = signs.alternatives[int(np.argmin(shifts))] if shifts else signs.signs
    turned, vector = with_signs(fitted, activation, xi), fitted.readout.ndim == 1
    rest = None if signs.alternatives else _as_vector(linear - np.einsum("k,kdm->dm", xi, pulls[:, :-1]), vector)
    shift = _as_vector((offset - xi @ pulls[:, -1])[None], vector)[0]
    return DecodedNetwork(Network(turned.layer, turned.readout, shift, rest), signs)


def with_signs(fitted: Network, activation: Activation, pattern: Array) -> Network:
    """`activation` units on the rows of a sign-free network, turned by `pattern` (k,) of ±1; offset and linear part left out."""
    rows = pattern[:, None] * fitted.layer.rows
    layer = Layer(rows[:, :-1], rows[:, -1], activation)
    return Network(layer, _as_vector(_activation_readout(fitted, activation), fitted.readout.ndim == 1))


def _activation_readout(fitted: Network, activation: Activation) -> Array:
    fold = absolute_form(activation)
    alpha = fitted.columns[0]
    return alpha / fold.even if fold is not None and fitted.activation == absolute else alpha


def _linear_slope(activation: Activation) -> float:
    """κ of act(t) = κ t + even(t)."""
    return (activation.mirror or 0.0) / 2.0


def absorb_linear(network: Network) -> Network:
    """The same function without a linear part: v·x + c = relu(v·x + c) - relu(-v·x - c), two more units per output.

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
    return Network(layer, _as_vector(np.vstack(rows), vector), _as_vector(offset[None], vector)[0])


def _as_vector(columns: Array, vector: bool) -> Array:
    return columns[:, 0] if vector else columns


def sign_free_model(activation: Activation, *, biases: bool) -> Model:
    """A model in which turning a unit over changes nothing but the linear part; the plain one where there is no such form."""
    if absolute_form(activation) is not None:
        return Model(absolute, biases=biases, offset=True, linear=True)
    return Model(activation, biases=biases, offset=True, linear=bool(activation.mirror))
