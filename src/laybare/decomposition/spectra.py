"""Spectra: the number of parts, judged against their own noise, and dominant eigenspaces of indefinite operators.

Rank. Half the difference of the estimates from two halves of the samples, (T_A − T_B)/2, has the law of the error of their mean,
and no signal. Its largest singular value is the edge: what noise alone reaches. Edges fluctuate, relatively like d^{-2/3} (Tracy
and Widom), so a value is signal only above one multiple of the edge and noise only below another; in between nothing is known. A
part weaker than the edge leaves no trace. `exact` therefore rests on a gap: all values above the noise stand clear of it, so that
a further part would have to be weaker than every part seen, by the factor `gap`. Otherwise the answer is "at least r".

Eigenspace. The second moment P = Σᵢ bᵢ wᵢwᵢᵀ of hidden units of both signs is indefinite; its inertia counts the signs of the bᵢ
(Sylvester). The r eigenvalues of largest |λ| are wanted, of either sign. An operator is a matrix (d, d), or a function that
applies it to blocks of columns, V (d, m) → P V (d, m), which never forms d².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import MAX_ASYMMETRY
from laybare.errors import InvalidInput
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class RankRules:
    """When a value is signal, when it is noise, and when a rank is exact."""

    signal_factor: float = 1.5
    """A value above max(signal_factor, exp(signal_spread · d^{-2/3})) times the edge is signal; 1.5 allows for noise that is not
    Gaussian. Checked by `pytest tests/decomposition/test_rank.py`."""
    signal_spread: float = 3.0
    """The ratio of the edges of two symmetric Gaussian noises exceeds exp(3 d^{-2/3}) in about 1 of 1000 draws for d = 5 (2.8),
    fewer for larger d (1.9 at 10). Checked by `pytest tests/decomposition/test_rank.py`."""
    noise_factor: float = 1.25  # Derived: half of the margin of signals on the logarithmic scale.
    noise_spread: float = 1.5  # Derived: half of `signal_spread`.
    exact_gap: float = 10.0  # weakest signal over strongest remainder. Checked by `pytest tests/decomposition/test_rank.py`.
    exact_gap_over_step: float = 3.0
    """The gap is also this many times the largest step of neighbouring signals: eigenvalues of equal parts spread over the
    squared condition number. Checked by `pytest tests/decomposition/test_rank.py`."""


RULES = RankRules()


@dataclass(frozen=True)
class RankEstimate:
    """At least `at_least` parts; `exact` if decided, else None; `gap`, weakest signal over strongest remainder; `explanation`."""

    at_least: int
    exact: int | None
    gap: float
    explanation: str

    @property
    def decided(self) -> bool:
        return self.exact is not None


def detect_rank(values: Array, noise: Array | float, *, weakest: float | None = None) -> RankEstimate:
    """Rank of an estimate from its singular values or eigenvalues (any signs) and those of the half-difference.

    `noise` may hold the values of several half-differences; the largest is the edge. `weakest`, if something is known about the
    parts, is the smallest |value| that one of them can have: then everything below it is excluded without a gap.
    """
    sizes, edge = _sorted_sizes(values), _edge(values, noise)
    signal_margin, noise_margin = margins(len(sizes))
    signal = int(np.sum(sizes > signal_margin * edge))
    remainder = float(sizes[signal]) if signal < len(sizes) else 0.0
    gap = float(sizes[signal - 1]) / max(remainder, edge) if signal else 0.0
    if signal == len(sizes):
        return _undecided(signal, gap, f"All values exceed the noise ({edge:.3g}): there may be more parts than values.")
    if remainder > noise_margin * edge:
        return _undecided(signal, gap, f"Value {signal + 1} ({remainder:.3g}) is neither clear of noise ({edge:.3g}) nor in it.")
    if weakest is not None and weakest > signal_margin * edge:
        return _exactly(signal, gap, f"A further part would reach {weakest:.3g}; nothing else exceeds the noise ({edge:.3g}).")
    if signal and gap >= max(RULES.exact_gap, RULES.exact_gap_over_step * _largest_step(sizes[:signal])):
        return _exactly(signal, gap, f"The weakest of them stands {gap:.3g} times above the rest, which is noise ({edge:.3g}).")
    return _undecided(signal, gap, f"A part weaker than {signal_margin * edge:.3g} could hide in the noise ({edge:.3g}).")


def _undecided(count: int, gap: float, reason: str) -> RankEstimate:
    return RankEstimate(count, None, gap, f"At least {_parts(count)}. {reason}")


def _exactly(count: int, gap: float, reason: str) -> RankEstimate:
    return RankEstimate(count, count, gap, f"Exactly {_parts(count)}. {reason}")


def _parts(count: int) -> str:
    return f"{count} part" if count == 1 else f"{count} parts"


def _largest_step(sizes: Array) -> float:
    """Largest ratio of two neighbouring values, sorted."""
    return float(np.max(sizes[:-1] / sizes[1:], initial=1.0))


class Margins(NamedTuple):
    """Multiples of the edge: values above `signal` are signal, values below `noise` are noise."""

    signal: float
    noise: float


def margins(dim: int) -> Margins:
    """The multiples of the edge in that dimension."""
    spread = float(dim) ** (-2.0 / 3.0)
    return Margins(
        max(RULES.signal_factor, float(np.exp(RULES.signal_spread * spread))),
        max(RULES.noise_factor, float(np.exp(RULES.noise_spread * spread))))


def _sorted_sizes(values: Array) -> Array:
    sizes = np.sort(np.abs(np.asarray(values, dtype=float).ravel()))[::-1]
    if not len(sizes) or not np.all(np.isfinite(sizes)):
        raise InvalidInput(
            f"{int(np.sum(~np.isfinite(sizes)))} of {len(sizes)} values of the spectrum are NaN or infinite.",
            "A rank is counted from at least one finite value.", "Check the moment that it came from.", size=len(sizes))
    return sizes


def _edge(values: Array, noise: Array | float) -> float:
    edges = np.abs(np.asarray(noise, dtype=float)).ravel()
    if not np.all(np.isfinite(edges)):
        raise InvalidInput(
            "The noise level is NaN or infinite.", "Values can only be judged against a finite one.",
            "Check the two half-sample estimates.", noise=float(edges[~np.isfinite(edges)][0]))
    return max(float(edges.max(initial=0.0)), ROUNDING * float(np.abs(values).max()))


Operator: TypeAlias = Array | Callable[[Array], Array]

class Eigenspace(NamedTuple):
    """`basis` (d, r) orthonormal, `values` (r,) by falling |value|, `positive` and `negative` counts of the values' signs."""

    basis: Array
    values: Array
    positive: int
    negative: int


def dense_subspace(operator: Operator, dim: int, rank: int) -> Eigenspace:
    """By full eigendecomposition. Time d³."""
    apply = _block_map(operator, dim, rank)
    values, vectors = np.linalg.eigh(_symmetric(apply(np.eye(dim))))
    return _largest(values, vectors, rank)


def shifted_power(
    operator: Operator, dim: int, rank: int, *, rng: Generator, norm: float | None = None, steps: int = 100
) -> Eigenspace:
    """By two shifted power iterations, the paper's own: V₁ ← qr((C·I + P) V₁) and V₂ ← qr((C·I − P) V₂), C = 3‖P‖.

    Only positive Ritz values of V₁ and negative ones of V₂ count, else one eigenvector is taken twice (the text does not say so);
    of both together the r largest are kept, the part of V₂ orthogonalised against that of V₁. Slow: the error falls like
    (3‖P‖ + |λ_{r+1}|)/(3‖P‖ + |λ_r|) per step. `norm` None: ‖P‖ is estimated by a few power steps.
    Source: Zhong et al. (2017), PowerMethod of Algorithm 1; reconstructed, the text leaves the details out.
    """
    apply = _block_map(operator, dim, rank)
    first = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    second = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    shift = 3.0 * (norm_estimate(apply, dim, rng=rng) if norm is None else norm)
    for _ in range(steps):
        first = np.linalg.qr(shift * first + apply(first))[0]
        second = np.linalg.qr(shift * second - apply(second))[0]
    high, up = _ritz(apply, first)
    low, down = _ritz(apply, second)
    up, down, high, low = up[:, high > 0], down[:, low < 0], high[high > 0], low[low < 0]
    order = np.argsort(-np.abs(np.concatenate([high, low])))[:rank]
    block = np.linalg.qr(np.concatenate([up, down], axis=1)[:, order])[0]
    return _largest(*_ritz(apply, block), block.shape[1])


def norm_estimate(operator: Operator, dim: int, *, rng: Generator, steps: int = 20, columns: int = 5) -> float:
    """‖P‖ from below, by block power steps."""
    apply = _block_map(operator, dim, 1)
    block = np.linalg.qr(rng.standard_normal((dim, min(dim, columns))))[0]
    for _ in range(steps):
        block = np.linalg.qr(apply(block))[0]
    return float(np.linalg.norm(apply(block), 2))


def _block_map(operator: Operator, dim: int, rank: int) -> Callable[[Array], Array]:
    if not 1 <= rank <= dim:
        raise InvalidInput(
            f"A subspace of dimension {rank} was asked of an operator of dimension {dim}.", "It has no such subspace.",
            "Give a rank from 1 to the dimension.", rank=rank, dim=dim)
    if callable(operator):
        return operator
    matrix = np.asarray(operator, dtype=float)
    if matrix.shape != (dim, dim) or not np.all(np.isfinite(matrix)):
        raise InvalidInput(
            f"A matrix of shape {matrix.shape} with {int(np.sum(~np.isfinite(matrix)))} NaN or infinite entries was given.",
            f"The operator must be a finite matrix of shape ({dim}, {dim}).", "Remove the samples that caused them.",
            shape=matrix.shape)
    gap, size = float(np.abs(matrix - matrix.T).max()), float(np.abs(matrix).max())
    if gap > MAX_ASYMMETRY * size:
        raise InvalidInput(
            f"The matrix is not symmetric: entries differ from their transposes by up to {gap:.2g}, the largest is {size:.2g}.",
            "Eigenvectors of a second moment are orthogonal only if it is symmetric.", "Symmetrise the estimate first.",
            asymmetry=gap, largest=size)
    return matrix.__matmul__


def _ritz(apply: Callable[[Array], Array], block: Array) -> tuple[Array, Array]:
    values, mixing = np.linalg.eigh(_symmetric(block.T @ apply(block)))
    return values, block @ mixing


def _largest(values: Array, vectors: Array, rank: int) -> Eigenspace:
    order = np.argsort(-np.abs(values))[:rank]
    kept = values[order]
    return Eigenspace(vectors[:, order], kept, int(np.sum(kept > 0)), int(np.sum(kept < 0)))


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
