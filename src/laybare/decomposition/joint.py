"""Decompositions by eigenvectors: of a pencil of two slices, and of all slices jointly, which is the default.

Decompositions by joint diagonalisation of all slices: the default, its start from a definite combination, and KCL.

    stack → its span, r slices → starts (a definite combination + Jacobi; Jennrich) → FFDIAG (or UWEDGE, QRJ1D) → least squares

One pencil throws most slices away; all of them together leave noise of the size that least squares leaves. The starts only
choose the basin; the one that ends with the smallest residual is kept.

Definite start. If some combination X₀ = Σ xᵢ uᵢuᵢᵀ of the slices has all xᵢ > 0, then R = X₀^{-1/2} makes the directions R uᵢ
orthogonal, and Jacobi rotations diagonalise the slices R A_l R from any start. The signs of the parts do not matter: the
combination nearest to the identity is tried, which is positive definite unless the directions are badly conditioned.

KCL. Stage 1 contracts the tensor with L random unit vectors and diagonalises the L matrices jointly. Stage 2 repeats it with the
r contractions that, by stage 1, keep one part each. Stage 2 rests on r slices only: for ill-conditioned directions it is the
worse of the two (`laybare reproduce decomposition-noise`), so the default is one stage.

Jennrich's algorithm: the parts are the eigenvectors of a quotient of two slices, of a stack or of a flattened packed tensor.

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

from laybare.decomposition.components import (
    Components,
    Decomposer,
    as_slices,
    condense,
    fit_components,
    fit_stack_components,
    is_symmetric,
    loadings,
    project,
    separation,
    unit_rows,
)
from laybare.decomposition.diagonalisers import Diagonaliser, directions_of, ffdiag, jacobi, qrj1d, rows_for
from laybare.decomposition.direction_fits import polish_stack, polish_tensor, shrink_to_orthogonal
from laybare.errors import AssumptionViolated, InvalidInput
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
    return np.asarray(np.linalg.svd(flatten(packed, dim, side, order - side), compute_uv=False))


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
    return np.asarray(np.linalg.svd(matrix, full_matrices=False)[0][:, 0])


@dataclass(frozen=True, kw_only=True)
class JointOptions:
    """What can be inverted, and what can be afforded."""

    least_eigenvalue_ratio: float = 1e-6  # of a definite X₀. Checked by `pytest tests/decomposition`.
    max_condition: float = 1e12  # of a joint diagonaliser; above it the start is kept. Checked by `pytest tests/decomposition`.
    most_unknowns: int = 2000  # rank · dim up to which least squares, cubic in it, runs. Checked by `pytest tests/decomposition`.


JOINT = JointOptions()


@dataclass(frozen=True)
class DefiniteJacobi:
    """Whitening by the combination of slices nearest to the identity, then orthogonal Jacobi. Deterministic: `rng` is not used.

    Refuses (AssumptionViolated) if that combination is not positive definite.
    """

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        root = inverse_root(nearest_to_identity(condense(span.slices, rank)))
        rows = jacobi(condense(root @ span.slices @ root, rank), np.eye(rank)).rows
        return fit_components(slices, unit_rows(rows @ np.linalg.inv(root) @ span.basis.T))


definite_jacobi = DefiniteJacobi()


def nearest_to_identity(slices: Array) -> Array:
    """The orthogonal projection of the identity on the span of the slices."""
    flat = slices.reshape(len(slices), -1)
    weights = np.linalg.lstsq(flat.T, np.eye(slices.shape[1]).ravel(), rcond=None)[0]
    return np.tensordot(weights, slices, axes=1)


def inverse_root(matrix: Array) -> Array:
    """X^{-1/2} of a positive definite matrix. Refused: others."""
    values, vectors = np.linalg.eigh(matrix)
    if not values[0] > JOINT.least_eigenvalue_ratio * values[-1] > 0:
        raise AssumptionViolated(
            f"The combination of slices nearest to the identity has eigenvalues from {values[0]:.2g} to {values[-1]:.2g}.",
            "It must be positive definite to make the directions orthogonal.",
            "Use JointDiagonalisation, which also starts from matrix pencils.",
            smallest=float(values[0]), largest=float(values[-1]))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


@dataclass(frozen=True, kw_only=True)
class JointDiagonalisation:
    """Rank-one parts of a symmetric tensor, or of a stack of slices, of either sign, not orthogonal, rank at most dimension.

    `diagonalise` works on the stack in its span, from each of `starts`. `polish` ends with least squares on the input itself, a
    symmetric CP for a symmetric tensor, free loadings for a stack; then it shrinks cosines that are within noise (tensors only).
    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions.
    """

    diagonalise: Diagonaliser = ffdiag
    starts: tuple[Decomposer, ...] = (definite_jacobi, jennrich)
    polish: bool = True

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        small = condense(span.slices, rank)
        tries = [self._diagonalise_from(small, start) for start in self._start_directions(small, rank, rng)]
        best = min(tries, key=lambda directions: fit_stack_components(small, directions).residual)
        directions = unit_rows(best @ span.basis.T)
        return fit_components(slices, polish_directions(slices, directions) if self.polish else directions)

    def _start_directions(self, small: Array, rank: int, rng: Generator) -> list[Array]:
        """Directions from every start that accepts the stack."""
        found = []
        for start in self.starts:
            try:
                found.append(start(small, rank, rng=rng).directions)
            except AssumptionViolated:
                continue
        return found or [np.eye(rank)]

    def _diagonalise_from(self, small: Array, start: Array) -> Array:
        """Directions after joint diagonalisation, or those of the start if that came out worse."""
        rows = self.diagonalise(small, rows_for(start)).rows
        if not np.linalg.cond(rows) < JOINT.max_condition:
            return start
        return min((directions_of(rows), start), key=lambda directions: fit_stack_components(small, directions).residual)


def polish_directions(slices: Array, directions: Array) -> Array:
    """Directions after least squares on the input; unchanged where that costs too much."""
    if directions.size > JOINT.most_unknowns:
        return directions
    if not is_symmetric(slices):
        return polish_stack(slices, directions)
    return shrink_to_orthogonal(slices, polish_tensor(slices, directions))


joint_diagonalisation = JointDiagonalisation()


@dataclass(frozen=True, kw_only=True)
class KCL:
    """Random projections and joint diagonalisation.

    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions.
    The default starts FFDIAG from Jennrich's directions; `literal` is two stages of QRJ1D from the identity.
    Source: Kuleshov, Chaganty and Liang (2015), AISTATS; Zhong et al. (2017), Algorithm 1, use it.
    """

    projections: int = 100
    stages: int = 1
    diagonalise: Diagonaliser = ffdiag
    warm: bool = True

    def __post_init__(self) -> None:
        if self.stages not in (1, 2) or self.projections < 2:
            raise InvalidInput(
                f"{self.stages} stages of {self.projections} projections were asked for.",
                "One projection alone does not determine the parts, and there is no third stage.",
                "Give 1 or 2 stages and at least 2 projections.", stages=self.stages, projections=self.projections)

    @classmethod
    def literal(cls) -> KCL:
        """The paper's own choices."""
        return cls(stages=2, diagonalise=qrj1d, warm=False)

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        condense(span.slices, rank)  # refuses a stack without information
        rows = rows_for(jennrich(span.slices, rank, rng=rng).directions) if self.warm else np.eye(rank)
        weights = unit_rows(rng.standard_normal((self.projections, len(slices))))
        for _ in range(self.stages):
            # Joint diagonalisation sees only Σ A_l⊗A_l: R of the weights' QR gives it from no more slices than there were.
            mixing = np.linalg.qr(weights, mode="r")
            rows = self.diagonalise(np.tensordot(mixing, span.slices, axes=1), rows).rows
            weights = isolating_weights(loadings(span.slices, directions_of(rows)))
        return fit_components(slices, unit_rows(directions_of(rows) @ span.basis.T))


kcl = KCL()


def isolating_weights(weights: Array) -> Array:
    """Unit combinations (r, s) of slices that keep one part each, from loadings (s, r): rows dual to the loadings.

    For a symmetric tensor, λᵢ = cᵢuᵢ, these are the rows of the joint diagonaliser, as in the paper.
    """
    return unit_rows(np.linalg.pinv(weights))
