"""The signs of ReLU units: from the sign-free form Σ αᵢ|uᵢ| + v·x + c back to Σ aᵢ act(ξᵢuᵢ) + offset.

act(t) = κ₊ t + κ₋ |t| with κ± = (1 ± slope)/2 (ReLU: slope 0). Orders ≥ 2 of the function never see the signs ξ ∈ {±1}ᵏ; the
linear part does:

    Σᵢ ξᵢ gᵢ = v,      gᵢ = κ₊ aᵢ wᵢ  (stacked over outputs: dim·outputs equations),   aᵢ = αᵢ / κ₋.

With at most dim·outputs units that is a linear system. With more, ξ is still unique in general because it is binary: r = rank of
the equations fixes r signs once the other f = k - r are chosen, and the f free ones are found by meeting in the middle, in time
and memory 2^(f/2) where the plain search has 2^k. Two solutions that fit equally well mean that no data can tell them apart
(Awasthi et al. 2021, Claim 4.8): the decoder says so and returns both.
Source: Awasthi, Tang, Vijayaraghavan (2021), FIXSIGNS and Claim 4.8; the decoding beyond the dimension is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from laybare.shapes import Array

MAX_FREE = 44
"""2^22 half patterns of 8 bytes: 32 MB, about a second."""

MAX_PAIRS = 20_000_000
"""Chance matches beyond this mean that the tolerance is too loose to decide anything."""

ENUMERATE = 16
"""Up to 2^16 patterns are tried outright, which also finds the best fit when the equations hold only up to noise."""


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
    if len(free) > MAX_FREE:
        return Signs(np.ones(len(vectors)), np.inf, np.inf, (), searched=False)
    patterns = _patterns(np.arange(1 << len(free)), len(free)) if len(free) <= ENUMERATE else _search(base, follow, tol)
    if not len(patterns):
        return Signs(np.ones(len(vectors)), np.inf, np.inf, ())
    found = np.empty((len(patterns), len(vectors)))
    found[:, free] = patterns
    found[:, fixed] = np.where(base - patterns @ follow.T >= 0.0, 1.0, -1.0)
    residuals = np.linalg.norm(found @ B.T - t, axis=1)
    ranking = np.argsort(residuals, kind="stable")
    best = residuals[ranking[0]]
    runner_up = residuals[ranking[1]] if len(ranking) > 1 else _flip_one(B, t, found[ranking[0]])
    fits = tuple(found[i] for i in ranking[:64] if residuals[i] <= tol)
    return Signs(found[ranking[0]], float(best), float(runner_up), fits)


def _search(base: Array, follow: Array, tol: float) -> Array:
    """Meet in the middle, first with a tight tolerance: a loose one lets chance matches through by the million."""
    for tight in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        patterns = _meet(base, follow, tight)
        if len(patterns) or tight > 1e3 * tol:
            break
    return patterns


def _flip_one(B: Array, t: Array, signs: Array) -> float:
    """Smallest residual among the patterns that differ from `signs` in one place."""
    rest = B @ signs - t
    return float(np.linalg.norm(rest[:, None] - 2.0 * B * signs, axis=0).min())


def _meet(base: Array, follow: Array, tol: float) -> Array:
    """Free patterns for which every fixed sign comes out as ±1: base - follow·s ∈ {±1}ʳ up to `tol`.

    One coordinate is matched by sorting, the pairs that remain are sifted by the other coordinates in turn.
    """
    free = follow.shape[1]
    half = free // 2
    lead, *others = map(int, np.argsort(-np.abs(follow).sum(axis=1)))
    left, right = _halves(base, follow, lead, half)
    order = np.argsort(right)
    ordered = right[order]
    pairs = [_close_pairs(left - goal, ordered, tol) for goal in (1.0, -1.0)]
    i, j = np.concatenate([pair[0] for pair in pairs]), order[np.concatenate([pair[1] for pair in pairs])]
    for coordinate in others:
        left, right = _halves(base, follow, coordinate, half)
        fits = np.abs(np.abs(left[i] - right[j]) - 1.0) <= tol
        i, j = i[fits], j[fits]
    return np.hstack([_patterns(i, half), _patterns(j, free - half)])


def _halves(base: Array, follow: Array, coordinate: int, half: int) -> tuple[Array, Array]:
    row = follow[coordinate]
    return base[coordinate] - _subset_sums(row[:half]), _subset_sums(row[half:])


def _close_pairs(values: Array, ordered: Array, tol: float) -> tuple[Array, Array]:
    """All (i, j) with |values[i] - ordered[j]| ≤ tol."""
    low, high = np.searchsorted(ordered, values - tol), np.searchsorted(ordered, values + tol)
    counts = high - low
    if counts.sum() > MAX_PAIRS:
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
