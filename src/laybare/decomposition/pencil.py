"""Jennrich's algorithm: the parts are the eigenvectors of a quotient of two slices.

For A = U D Uᵀ and B = U E Uᵀ, A B⁺ = U (D E⁻¹) U⁺: one eigenvector a part. In samples eigenvalues meet and turn into complex
conjugate pairs. Their eigenvectors x ± iy share the real part, so taking it twice would give one direction for two parts. The
plane of x and y is still right to first order: inside it the two parts are found from all slices at once, and only if the slices
contradict every real pair are x and y themselves returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_slices
from laybare.decomposition.components import Components, separation, unit_rows
from laybare.decomposition.explanation import explain, explain_stack, loadings
from laybare.decomposition.slices import condense, project
from laybare.shapes import Array


@dataclass(frozen=True, kw_only=True)
class Jennrich:
    """Best of several random pencils, by residual. Time: one eigenproblem of size `rank` a pencil.

    `separation` is that of the pencil kept: the smallest chordal distance of two of its eigenvalues times the smallest singular
    value of the directions. Source: Leurgans, Ross and Abel (1993); Zhong et al. (2017), section 5. Deviations: least squares
    where the text inverts, several pencils, complex pairs resolved (module docstring). `literal` is one pencil without that.
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
        best = min(range(self.pencils), key=lambda p: explain_stack(small, tries[p]).residual)
        apart = separation(tries[best], weights[:, best] @ loadings(small, tries[best]))
        return replace(explain(slices, unit_rows(tries[best] @ span.basis.T)), separation=apart)


jennrich = Jennrich()


def real_eigenvectors(values: Array, vectors: Array, slices: Array | None) -> Array:
    """r real unit rows from r eigenvectors (columns), two from a conjugate pair; `slices` resolve the pairs, None leaves them."""
    columns = np.real(vectors).copy()
    pairs = [(int(first), _partner(values, int(first))) for first in np.flatnonzero(np.imag(values) > 0)]
    for first, second in pairs:
        v = vectors[:, first] * np.exp(-0.5j * np.angle(np.sum(vectors[:, first] ** 2)))
        columns[:, first], columns[:, second] = v.real, v.imag
    if pairs and slices is not None:
        rows = np.linalg.pinv(columns)
        for pair in map(list, pairs):
            columns[:, pair] = columns[:, pair] @ plane_parts(rows[pair] @ slices @ rows[pair].T)
    return unit_rows(columns.T)


def plane_parts(slices: Array) -> Array:
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


def _partner(values: Array, first: int) -> int:
    """Index of the conjugate eigenvalue (LAPACK returns it as the exact conjugate, next to the first)."""
    same = np.flatnonzero(values == np.conj(values[first]))
    return int(same[np.argmin(np.abs(same - first))])
