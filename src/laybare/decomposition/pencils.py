"""Jennrich's algorithm: the parts are the eigenvectors of a quotient of two slices, of a stack or of a flattened packed tensor.

Stack. For A = U D Uᵀ and B = U E Uᵀ, A B⁺ = U (D E⁻¹) U⁺: one eigenvector per part. In samples eigenvalues meet and turn into
complex conjugate pairs. Their eigenvectors x ± iy share the real part, so taking it twice would give one direction for two parts.
The plane of x and y is still right to first order: inside it the two parts are found from all slices at once, and only if the
slices contradict every real pair are x and y themselves returned.

Packed tensor, for more parts than dimensions, of either sign. T = Σᵢ αᵢ wᵢ^⊗k, k = 2l + q, is read as a tensor with three sides,
l, l and q: its parts are wᵢ^⊗l ⊗ wᵢ^⊗l ⊗ wᵢ^⊗q, whose first two sides are independent up to C(d+l-1, l) parts. Two random
contractions of the third side are A = V D Vᵀ and B = V E Vᵀ with columns v_l(wᵢ) of V, so that V holds the eigenvectors of A B⁺
inside the leading left singular space of T. Each is a packed tensor of order l: the leading left singular vector of its (1, l-1)
flattening is ±wᵢ. Nothing of size d^k is formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import Components, fit_components, fit_stack_components, loadings, separation, unit_rows
from laybare.decomposition.slices import as_slices, condense, project
from laybare.moments import flatten, veronese
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class Jennrich:
    """Best of several random pencils, by residual. Time: one eigenproblem of size `rank` per pencil.

    `separation` is that of the pencil kept: the smallest chordal distance of two of its eigenvalues times the smallest singular
    value of the directions. Source: Leurgans, Ross and Abel (1993); Zhong et al. (2017), section 5. Deviations: least squares
    where the text inverts, several pencils, complex pairs resolved. `literal` is one pencil without that.
    """

    pencils: int = 20
    resolve: bool = True

    @classmethod
    def literal(cls) -> Jennrich:
        """One random pencil; real and imaginary parts of complex pairs."""
        return cls(pencils=1, resolve=False)

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        small = condense(span.slices, rank)
        weights = rng.standard_normal((2, self.pencils, len(small)))
        pairs = np.einsum("apl,lij->apij", weights, small)
        tries = [
            real_eigenvectors(values, vectors, small if self.resolve else None)
            for values, vectors in zip(*np.linalg.eig(pairs[0] @ np.linalg.pinv(pairs[1])), strict=True)
        ]
        best = min(range(self.pencils), key=lambda p: fit_stack_components(small, tries[p]).residual)
        apart = separation(tries[best], weights[:, best] @ loadings(small, tries[best]))
        return replace(fit_components(slices, unit_rows(tries[best] @ span.basis.T)), separation=apart)


jennrich = Jennrich()


def real_eigenvectors(values: Array, vectors: Array, slices: Array | None) -> Array:
    """r real unit rows from r eigenvectors (columns), two from a conjugate pair; `slices` resolve the pairs, None leaves them."""
    columns = np.real(vectors).copy()
    pairs = [(int(first), _conjugate_index(values, int(first))) for first in np.flatnonzero(np.imag(values) > 0)]
    for first, second in pairs:
        v = vectors[:, first] * np.exp(-0.5j * np.angle(np.sum(vectors[:, first] ** 2)))
        columns[:, first], columns[:, second] = v.real, v.imag
    if pairs and slices is not None:
        rows = np.linalg.pinv(columns)
        for pair in map(list, pairs):
            columns[:, pair] = columns[:, pair] @ split_plane(rows[pair] @ slices @ rows[pair].T)
    return unit_rows(columns.T)


def split_plane(slices: Array) -> Array:
    """The two parts of slices (s, 2, 2), as columns; the identity if no real pair comes close.

    Slices λ₁ v₁v₁ᵀ + λ₂ v₂v₂ᵀ lie in a plane of the three-dimensional space of symmetric matrices. Its normal N has v₁ᵀNv₁ =
    v₂ᵀNv₂ = 0, so v₁ and v₂ are its isotropic vectors, which are real if and only if N is indefinite.
    """
    packed = np.stack([slices[:, 0, 0], np.sqrt(2) * slices[:, 0, 1], slices[:, 1, 1]], axis=1)
    a, b, c = np.linalg.svd(packed, full_matrices=True)[2][-1]
    sizes, axes = np.linalg.eigh(np.array([[a, b / np.sqrt(2)], [b / np.sqrt(2), c]]))
    if not sizes[0] < 0 < sizes[1]:
        return np.eye(2)
    along, across = np.sqrt(sizes[1]) * axes[:, 0], np.sqrt(-sizes[0]) * axes[:, 1]
    return np.stack([along + across, along - across], axis=1)


def _conjugate_index(values: Array, first: int) -> int:
    """Index of the conjugate eigenvalue (LAPACK returns it as the exact conjugate, next to the first)."""
    same = np.flatnonzero(values == np.conj(values[first]))
    return int(same[np.argmin(np.abs(same - first))])


class RankOneParts(NamedTuple):
    """αᵢ (r,) and unit rows wᵢ (r, d) of T ≈ Σᵢ αᵢ wᵢ^⊗k; `residual` is what they leave of T, relatively."""

    coefficients: Array
    directions: Array
    residual: float


def flattened_spectrum(packed: Array, dim: int, side: int, order: int) -> Array:
    """Singular values of the flattening (side, order - side) of a packed tensor (D_order,)."""
    values: Array = np.linalg.svd(flatten(packed, dim, side, order - side), compute_uv=False)
    return values


def flattened_jennrich(packed: Array, dim: int, side: int, last: int, rank: int, *, rng: Generator) -> RankOneParts:
    """The `rank` parts of a packed tensor of order 2·side + last (last = 1 or 2).

    Source: Awasthi, Tang and Vijayaraghavan (2021), Algorithm 1, steps 1 and 2, Claim 4.4, Theorem A.5 and Lemma D.4. Deviation:
    the best of ten pencils.
    """
    order = 2 * side + last
    left = np.linalg.svd(flatten(packed, dim, side, order - side), full_matrices=False)[0][:, :rank]
    slices = flatten(packed, dim, 2 * side, last)

    def pencil() -> RankOneParts:
        A, B = (left.T @ flatten(slices @ rng.standard_normal(slices.shape[1]), dim, side, side) @ left for _ in range(2))
        columns = real_eigenvectors(*np.linalg.eig(A @ np.linalg.pinv(B)), None) @ left.T
        directions = np.array([_direction(column, dim, side) for column in columns]).reshape(-1, dim)
        return _fit_packed(packed, directions, order)

    return min((pencil() for _ in range(10)), key=lambda parts: parts.residual)


def _fit_packed(packed: Array, directions: Array, order: int) -> RankOneParts:
    """Coefficients by least squares."""
    features = veronese(directions, order).T
    coefficients = np.linalg.lstsq(features, packed, rcond=None)[0]
    residual = np.linalg.norm(packed - features @ coefficients) / max(float(np.linalg.norm(packed)), 1e-300)
    return RankOneParts(coefficients, directions, float(residual))


def _direction(column: Array, dim: int, side: int) -> Array:
    """±w from a packed tensor that is nearly v_l(w)."""
    if side == 1:
        return unit_rows(column)
    matrix = flatten(column, dim, 1, side - 1)
    leading: Array = np.linalg.svd(matrix, full_matrices=False)[0][:, 0]
    return leading
