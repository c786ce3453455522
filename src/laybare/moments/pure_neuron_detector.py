"""The pure-neuron detector: a linear map on symmetric matrices whose null space is spanned by zᵢzᵢᵀ, zᵢ the rows of A⁺.

Model y = A act(Wx) + noise, x ~ -x, act(t) = t for t > 0 and a·t for t ≤ 0 (a is the `slope` below zero; ReLU has 0), A of full
column rank. Let L = AW. For a symmetric matrix U of the size of y,

    r_U(x, y) = -(y - Lx)ᵀ U (y - aLx)        f(U) = Cov(r_U, φ(x)),   φ(x) = svec(zzᵀ), z = x or its row-space coordinates.

Without noise r_U(x) = (1-a)² Σ_{i<j} (AᵀUA)_ij (wᵢ·x)(wⱼ·x) 1{signs differ} at every point, so r_U = 0 for U = zᵢzᵢᵀ: given L,
every finite sample has the exact null space. Noise that is independent of x adds a constant to r_U, which centring removes.
Symmetry of x is used for one thing only: L = 2/(1+a) E[yxᵀ] E[xxᵀ]⁻¹.

T is the matrix of f in svec coordinates, (q(q+1)/2, m(m+1)/2) for q coordinates and m outputs. It fails where the inputs do not
distinguish a pair (i, j), and for a = -1, where L is not seen. Error O(n^-½), all of it from L if there is no noise; time
n·m²q²/2; memory T and a block.

Which inputs distinguish the pairs? For i < j let p_ij(x) = (wᵢ·x)(wⱼ·x) 1{signs differ}, m_ij = E p_ij and N_ij = E[p_ij xxᵀ].
The distinguishing matrix N has the columns svec N_ij, the augmented one, M, also the column svec E[xxᵀ]. For x ~ N(0, I), with φ
the angle of wᵢ and wⱼ,

    m_ij = (φ cos φ - sin φ) |wᵢ||wⱼ| / π
    N_ij = m_ij I + [φ (wᵢwⱼᵀ + wⱼwᵢᵀ) - sin φ (|wᵢ|/|wⱼ| wⱼwⱼᵀ + |wⱼ|/|wᵢ| wᵢwᵢᵀ)] / π

so Cov(p_ij, xxᵀ) = N_ij - m_ij I. The detector is injective on what is not a pure neuron if and only if the columns of M are
independent; near-parallel weights (φ → 0) make one vanish like φ³. For other laws M is an average over the samples.
T = M B C with C svec(U) = ((AᵀUA)_ij)_{i<j} and B = [I; -mᵀ], |Bu| ≥ |u|, and

    smallest non-zero singular value of T  ≥  (1-a)² σ_min(M) σ_min(A)² / √2.

The paper's Lemma 14 has no √2. Its proof takes (Aᵀ⊗Aᵀ)_{pq,ij} and (Aᵀ⊗Aᵀ)_{pq,ji} for equal, which they are not: a rotation A by
45° has |Cᵀu| = |u|/√2.
Source: Ge, Kuditipudi, Li & Wang (2019), Lemmas 1 to 4, 6, 7, 9, 10 and 19, Lemma 14 (corrected), Corollary 1, Definition 1,
Algorithms 2 and 3; the centred form is ours, equal in the population.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput, Unidentifiable
from laybare.moments.measurement import MEMORY_LIMIT, check_memory, measure
from laybare.moments.packed import svec, svec_products, svec_squares
from laybare.moments.regression import least_squares
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source

EvenFeatures = Callable[[Array], Array]
"""Features φ(x) = φ(-x) of the inputs, (n, d) -> (n, p)."""


@dataclass(frozen=True, eq=False)
class PureNeuronDetector:
    """Moment: T for a given `product` L = AW (m, d); `rows` (q, d) gives the coordinates z = rows·x, None means z = x.

    Not `centred`, f(U) is E[r_U φ(x)], as in Algorithm 2 of the paper: right without noise, biased with it.
    """

    product: Array
    slope: float = 0.0
    rows: Array | None = None
    centred: bool = True

    @property
    def row_floats(self) -> int:
        m, q = len(self.product), self.product.shape[1] if self.rows is None else len(self.rows)
        return 3 * (m * (m + 1) + q * (q + 1)) // 2

    def __call__(self, x: Array, y: Array) -> Sums:
        fitted = x @ self.product.T
        r = svec_products(fitted - y, y - self.slope * fitted)
        phi = svec_squares(x if self.rows is None else x @ self.rows.T)
        return phi.T @ r, phi.sum(axis=0), r.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        raw, phi, r = (part / size for part in sums)
        return np.asarray(raw - np.outer(phi, r) if self.centred else raw)


def detector(
    source: Source, product: Array, *, slope: float = 0.0, rows: Array | None = None, memory: int = MEMORY_LIMIT
) -> Array:
    """T from the data and L (`linear_product`), in row-space coordinates if `rows` is given: the second of two passes."""
    _check_detector_size(source.outputs, source.dim if rows is None else len(rows), memory)
    return measure(source, PureNeuronDetector(product, slope, rows), stage="detector")


class OddPart(NamedTuple):
    """`product` L = AW (m, d), and `residual` (m, m), E[eeᵀ] of what x and the even features leave of y."""

    product: Array
    residual: Array


def constant_feature(x: Array) -> Array:
    """The even feature 1."""
    return np.ones((len(x), 1))


def linear_product(source: Source, *, slope: float = 0.0, even: EvenFeatures = constant_feature) -> OddPart:
    """L from least squares of y on x and even features of x: the first of two passes. Refused below 1.5 samples per feature.

    Even features are orthogonal to x under a symmetric law, so they change no expectation; they remove the even part of y, which
    is the noise of L. At low noise svec(zzᵀ) in row-space coordinates (`even_quadratic`) makes the error of A 20 times smaller;
    |Ŵx| of an estimate Ŵ (`even_absolute`), iterated, reduces it to rounding.
    """
    _check_slope(slope)
    fit = least_squares(source, _LinearAndEven(even))
    return OddPart(2 / (1 + slope) * fit.coefficients[: source.dim].T, fit.residual)


def even_quadratic(rows: Array) -> EvenFeatures:
    """The even features 1 and svec(zzᵀ), z = rows·x: 1 + q(q+1)/2 of them."""
    return lambda x: np.concatenate([constant_feature(x), svec_squares(x @ rows.T)], axis=1)


def even_absolute(weights: Array) -> EvenFeatures:
    """The even features 1 and |w·x| for every row w: 1 + k of them."""
    return lambda x: np.concatenate([constant_feature(x), np.abs(x @ weights.T)], axis=1)


@dataclass(frozen=True, eq=False)
class _LinearAndEven:
    even: EvenFeatures

    def __call__(self, x: Array) -> Array:
        return np.concatenate([x, self.even(x)], axis=1)


def _check_detector_size(outputs: int, coordinates: int, memory: int) -> None:
    check_memory(
        4 * (outputs * (outputs + 1) // 2) * (coordinates * (coordinates + 1) // 2),
        f"The detector of {outputs} outputs in {coordinates} coordinates",
        "Reduce x to the row space of L (`rows`) and y to its leading directions.", memory)


def _check_slope(slope: float) -> None:
    if not np.isfinite(slope):
        raise InvalidInput(f"The slope is {slope}.", "It must be finite.", "Give 0 for ReLU.", slope=slope)
    if abs(1 + slope) < 1e-6:
        raise Unidentifiable(
            f"The slope below zero is {slope}: the activation is even.", "Its outputs have no odd part to show AW.",
            "Use a method for even activations.", slope=slope)


def distinguishing_matrices(weights: Array) -> Array:
    """N_ij - m_ij I for all pairs i < j of rows of `weights` (k, d), x ~ N(0, I): (k(k-1)/2, d, d)."""
    i, j = np.triu_indices(len(weights), 1)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    u, v = units[i], units[j]
    angle = _angles(u, v)
    outer = u[:, :, None] * v[:, None]
    squares = u[:, :, None] * u[:, None] + v[:, :, None] * v[:, None]
    pairs = angle[:, None, None] * (outer + outer.swapaxes(1, 2)) - np.sin(angle)[:, None, None] * squares
    return np.asarray((norms[i] * norms[j] / np.pi)[:, None, None] * pairs)


def opposite_products(weights: Array) -> Array:
    """m_ij for all pairs i < j, x ~ N(0, I): (k(k-1)/2,), none of them positive."""
    i, j = np.triu_indices(len(weights), 1)
    norms = np.linalg.norm(weights, axis=1)
    units = weights / norms[:, None]
    angle = _angles(units[i], units[j])
    return np.asarray(norms[i] * norms[j] / np.pi * (angle * np.cos(angle) - np.sin(angle)))


def gaussian_augmented(weights: Array) -> Array:
    """M for x ~ N(0, I): (d(d+1)/2, k(k-1)/2 + 1), the last column svec(I). Without that column it is N."""
    eye = np.eye(weights.shape[1])
    N = distinguishing_matrices(weights) + opposite_products(weights)[:, None, None] * eye
    return np.column_stack([svec(N).T, svec(eye)])


def augmented_matrix(source: Source, weights: Array, rows: Array | None = None) -> Array:
    """M for the inputs of `source`, whatever their law; `rows` (q, d) restricts xxᵀ to the coordinates rows·x. One pass."""
    return measure(source, _AugmentedMatrix(weights, rows), stage="distinguishing matrix")


def distinguishability(augmented: Array) -> float:
    """The smallest singular value of M, its columns scaled to length 1: 0 if some pair of units cannot be distinguished.

    For 9 random units of 16 inputs it was 0.06 under Laplace laws and signs, 0.02 under correlated Gaussians, 0.01 under images.
    """
    lengths = np.linalg.norm(augmented, axis=0)
    if len(augmented) < augmented.shape[1] or not lengths.all():
        return 0.0
    return float(np.linalg.svd(augmented / lengths, compute_uv=False)[-1])


def detector_gap_bound(augmented: Array, readout: Array, *, slope: float = 0.0) -> float:
    """(1-a)² σ_min(M) σ_min(A)² / √2 for A = `readout` (m, k): no non-zero singular value of T is smaller."""
    if len(augmented) < augmented.shape[1] or len(readout) < readout.shape[1]:
        return 0.0
    smallest, thin = (float(np.linalg.svd(matrix, compute_uv=False)[-1]) for matrix in (augmented, readout))
    return (1 - slope) ** 2 * smallest * thin**2 / sqrt(2)


def population_detector(weights: Array, readout: Array, *, slope: float = 0.0) -> Array:
    """T for y = A act(Wx), W = `weights` (k, d), A = `readout` (m, k): f(U) = (1-a)² Σ_{i<j} (AᵀUA)_ij (N_ij - m_ij I)."""
    i, j = np.triu_indices(len(weights), 1)
    A = readout
    symmetric = 0.5 * (A[:, None, i] * A[None, :, j] + A[:, None, j] * A[None, :, i])
    return np.asarray((1 - slope) ** 2 * svec(distinguishing_matrices(weights)).T @ svec(np.moveaxis(symmetric, 2, 0)))


@dataclass(frozen=True, eq=False)
class _AugmentedMatrix:
    """Moment: M, the average of svec(zzᵀ) times [p_ij, 1], z = rows·x or x."""

    weights: Array
    rows: Array | None

    @property
    def row_floats(self) -> int:
        k, q = len(self.weights), self.weights.shape[1] if self.rows is None else len(self.rows)
        return k * k + q * (q + 1)

    def __call__(self, x: Array, y: Array) -> Sums:
        i, j = np.triu_indices(len(self.weights), 1)
        t = x @ self.weights.T
        phi = svec_squares(x if self.rows is None else x @ self.rows.T)
        return phi.T @ np.minimum(t[:, i] * t[:, j], 0.0), phi.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        return np.column_stack(sums) / size


def _angles(u: Array, v: Array) -> Array:
    """Angles of pairs of unit rows; arccos loses half the digits near 0."""
    return np.asarray(2 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1)))
