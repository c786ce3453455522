"""What decompositions take, stacks of slices, and what they return, components.

What every decomposition returns: rank-one parts cᵢ uᵢ⊗…⊗uᵢ, the residual, and how well the parts are separated.

Gauge. A part of odd order does not change under (c, u) → (−c, −u): the coefficient is made positive. A part of even order does
not change under u → −u: the largest entry of u is made positive. Parts are sorted by falling |c|. Given directions, coefficients
of a symmetric tensor or loadings of a stack follow by least squares. A symmetric tensor of order 3 is its own stack of slices,
with loadings λᵢ = cᵢuᵢ.

Stacks of symmetric slices A_l = Σᵢ λ_lᵢ uᵢuᵢᵀ: compressed without loss of a part, and what a decomposition accepts.

Two compressions are exact in the population and remove noise in samples: `project` onto the r-dimensional span of the columns,
and `condense` to r slices, because the stack, as a matrix with one row per slice, is Λ (U⊙U)ᵀ and has rank at most r.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput, Unidentifiable
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array


class StackSpan(NamedTuple):
    """A stack in coordinates of its column span: `basis` Q (k, r) orthonormal, `slices` S (s, r, r), and A_l ≈ Q S_l Qᵀ."""

    basis: Array
    slices: Array


def project(slices: Array, rank: int) -> StackSpan:
    """The stack in its dominant r-dimensional column span (SVD of all columns side by side)."""
    stack, dim = len(slices), slices.shape[1]
    wide = slices.transpose(1, 0, 2).reshape(dim, stack * dim)
    left, sizes, _ = np.linalg.svd(wide, full_matrices=False)
    found = int(np.sum(sizes > ROUNDING * sizes[0]))
    if found < rank:
        raise Unidentifiable(
            f"The slices span only {found} dimensions and rank {rank} was asked for.",
            "Parts outside of the span leave no trace in it.",
            f"Ask for rank {found}, or use more slices or another moment.", rank=rank, span=found)
    if rank == dim:
        return StackSpan(np.eye(dim), slices)
    basis = left[:, :rank]
    return StackSpan(basis, basis.T @ slices @ basis)


def condense(slices: Array, rank: int) -> Array:
    """At most `rank` slices with the same joint diagonaliser: the dominant right singular vectors of the stack."""
    flat = slices.reshape(len(slices), -1)
    _, sizes, right = np.linalg.svd(flat, full_matrices=False)
    if rank > 1 and (len(sizes) < 2 or sizes[1] <= ROUNDING * sizes[0]):
        raise Unidentifiable(
            f"All {len(slices)} slices are multiples of one matrix.",
            "One matrix has a continuum of diagonalisers: a pencil of its multiples carries no information about the parts.",
            "Add slices with other contractions, or another moment.",
            slices=len(slices), second=float(sizes[1:2].sum() / sizes[0]))
    kept = min(rank, int(np.sum(sizes > ROUNDING * sizes[0])))
    return np.asarray((sizes[:kept, None] * right[:kept]).reshape(kept, *slices.shape[1:]))


MAX_ASYMMETRY = 1e-8
"""Largest relative asymmetry that passes for rounding. Checked by `pytest tests/decomposition/test_refusals.py`."""


def as_slices(tensor: Array, rank: int) -> Array:
    """The stack (s, k, k) in float64, exactly symmetric. Refused: anything else, and a rank outside 1..k."""
    slices = as_finite(tensor)
    if slices.ndim != 3 or slices.shape[1] != slices.shape[2] or 0 in slices.shape:
        raise InvalidInput(
            f"An array of shape {slices.shape} was given.", "A decomposition needs a stack of square slices.",
            "Give shape (slices, k, k); reshape a tensor of order 4 to (k², k, k).", shape=slices.shape)
    dim = slices.shape[1]
    if not 1 <= rank <= dim:
        raise InvalidInput(
            f"Rank {rank} was asked of slices of dimension {dim}.",
            "This decomposition finds at most as many parts as there are dimensions.",
            "Give a rank from 1 to the dimension, or use SubspacePower for more parts than dimensions.", rank=rank, dim=dim)
    size, gap = float(np.abs(slices).max()), float(np.abs(slices - slices.transpose(0, 2, 1)).max())
    if gap > MAX_ASYMMETRY * size:
        raise InvalidInput(
            f"The slices are not symmetric: entries differ from their transposes by up to {gap:.2g}, the largest is {size:.2g}.",
            "The parts are u uᵀ, and no sum of them is asymmetric.", "Symmetrise the estimate first, or check the order of axes.",
            asymmetry=gap, largest=size)
    return (slices + slices.transpose(0, 2, 1)) / 2


def as_tensor(tensor: Array, rank: int) -> Array:
    """A dense symmetric tensor of order 3 or 4 in float64. Refused: anything else."""
    dense = as_finite(tensor)
    if dense.ndim not in (3, 4) or len(set(dense.shape)) != 1:
        raise InvalidInput(
            f"An array of shape {dense.shape} was given.", "This decomposition needs a symmetric tensor of order 3 or 4.",
            "Give shape (k, k, k) or (k, k, k, k).", shape=dense.shape)
    if not 1 <= rank <= dense.shape[0]:
        as_slices(dense.reshape(-1, *dense.shape[-2:]), rank)
    if not is_symmetric(dense):
        raise InvalidInput(
            "The tensor changes when its axes are exchanged.", "The parts are u⊗…⊗u, and no sum of them does.",
            "Symmetrise the estimate first, or give a stack of slices to a decomposition of stacks.", shape=dense.shape)
    project(dense.reshape(-1, *dense.shape[-2:]), rank)  # refuses a rank above that of its span
    return dense


def is_symmetric(tensor: Array) -> bool:
    """Whether neighbouring axes can be exchanged (these exchanges generate all permutations)."""
    if len(set(tensor.shape)) != 1:
        return False
    limit = MAX_ASYMMETRY * np.abs(tensor).max()
    return all(bool(np.abs(tensor - tensor.swapaxes(axis, axis + 1)).max() <= limit) for axis in range(tensor.ndim - 1))


def as_finite(tensor: Array) -> Array:
    """The array in float64. Refused: NaN, infinity, and an array of zeros."""
    array = np.asarray(tensor, dtype=float)
    bad = int(np.sum(~np.isfinite(array)))
    if bad:
        raise InvalidInput(
            f"{bad} of {array.size} entries are NaN or infinite.", "One of them spoils every part.",
            "Remove the samples that caused them.", bad=bad, size=array.size)
    if array.size and not np.any(array):
        raise Unidentifiable(
            "Every entry is zero.", "A moment that vanishes carries no information about the weights.",
            "Use a moment of another order.", size=array.size)
    return array


SAME_COSINE = 0.95
"""Directions with a larger |cosine| are one: moments do not separate closer pairs. Checked by `pytest tests/decomposition`."""


@dataclass(frozen=True, eq=False)
class Components:
    """Rank-one parts.

    Attributes
    ----------
    coefficients : array (r,)
        cᵢ of cᵢ uᵢ^{⊗order}. For a stack of slices A_l = Σᵢ λ_lᵢ uᵢuᵢᵀ (order 2) it is the length of part i's loadings,
        |λ_·ᵢ| ≥ 0; `loadings` gives the loadings themselves.
    directions : array (r, d)
        Unit rows uᵢ.
    residual : float
        |input − parts| / |input| in the Frobenius norm, coefficients (or loadings) by least squares.
    separation : float in [0, 1]
        See the function of that name; 1 for orthogonal parts, 0 when two parts cannot be separated.
    order : int
        3 or 4 for a symmetric tensor, 2 for a stack of symmetric matrices, l for a stack of symmetric tensors of order l.
    converged : bool
        False if alternating least squares ran out of rounds.
    """

    coefficients: Array
    directions: Array
    residual: float
    separation: float
    order: int
    converged: bool = True

    @property
    def rank(self) -> int:
        return len(self.coefficients)


@runtime_checkable
class Decomposer(Protocol):
    """A symmetric tensor (k, k, k), or a stack of symmetric slices (s, k, k), into `rank` parts."""

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components: ...


def powers(directions: Array, order: int) -> Array:
    """Rows uᵢ^{⊗order}, flattened: (r, d^order)."""
    rows = np.ones((len(directions), 1))
    for _ in range(order):
        rows = (rows[:, :, None] * directions[:, None, :]).reshape(len(directions), rows.shape[1] * directions.shape[1])
    return rows


def separation(directions: Array, loadings: Array, order: int = 1) -> float:
    """min over pairs of sin∠(λᵢ, λⱼ), times the smallest singular value of the matrix with rows uᵢ^{⊗order}.

    λᵢ (s,) are the diagonal entries of part i in the s matrices that were diagonalised: a joint diagonaliser is unique if and
    only if no two λ are parallel (Afsari 2008, modulus of uniqueness), and the noise of uᵢ grows like 1/sin. For a symmetric
    tensor λᵢ = cᵢuᵢ. For one matrix pencil λᵢ has two entries, and the sine is the chordal distance of two eigenvalues.
    The second factor says how far the directions are from dependent; `order` > 1 is for more directions than dimensions.
    """
    return min(1.0, _smallest_sine(loadings) * _smallest_singular_value(directions, order))


def deduplicate(directions: Array, scores: Array, cosine: float = SAME_COSINE) -> Array:
    """Indices of the rows to keep, best score first: a row is dropped if its |cosine| with a kept one exceeds `cosine`."""
    alike = np.abs(directions @ directions.T) > cosine
    free = np.ones(len(directions), dtype=bool)
    kept = []
    for index in np.argsort(-scores, kind="stable"):
        if free[index]:
            kept.append(index)
            free &= ~alike[index]
    return np.array(kept, dtype=int)


def in_canonical_form(parts: Components) -> Components:
    """The same parts in the gauge of this module: signs fixed, falling |coefficient|."""
    c, u = parts.coefficients, parts.directions
    largest = np.take_along_axis(u, np.argmax(np.abs(u), axis=1)[:, None], axis=1)[:, 0]
    sign = np.where((c if parts.order % 2 else largest) < 0, -1.0, 1.0)
    c, u = c * sign**parts.order, u * sign[:, None]
    order = np.argsort(-np.abs(c), kind="stable")
    return Components(c[order], u[order], parts.residual, parts.separation, parts.order)


def unit_rows(rows: Array) -> Array:
    """Rows divided by their lengths; a zero row stays zero."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def _smallest_sine(loadings: Array) -> float:
    """Smallest sine between two columns of `loadings` (s, r); accurate for tiny angles, which 1 − cos² is not."""
    if loadings.shape[1] < 2:
        return 1.0
    tall = len(loadings) > loadings.shape[1]
    triangle: Array = np.asarray(np.linalg.qr(loadings, mode="r")) if tall else loadings
    rows = unit_rows(triangle.T)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2) * np.linalg.norm(rows[:, None] + rows[None], axis=2) / 2
    if not np.all(np.linalg.norm(rows, axis=1) > 0):
        return 0.0
    return float(np.min(apart[np.triu_indices(len(rows), 1)]))


def _smallest_singular_value(directions: Array, order: int) -> float:
    if order == 1:
        return float(np.linalg.svd(directions, compute_uv=False)[-1]) if len(directions) <= directions.shape[1] else 0.0
    lowest = np.linalg.eigvalsh((directions @ directions.T) ** order)[0]
    return float(np.sqrt(max(lowest, 0.0)))


def fit_components(tensor: Array, directions: Array) -> Components:
    """Components with these directions, the rest by least squares: coefficients of a symmetric tensor, loadings of a stack."""
    return fit_tensor_components(tensor, directions) if is_symmetric(tensor) else fit_stack_components(tensor, directions)


def fit_tensor_components(tensor: Array, directions: Array) -> Components:
    """Components of a dense symmetric tensor."""
    c = tensor_coefficients(tensor, directions)
    misfit = np.linalg.norm(tensor_misfit(tensor, directions, c)) / np.linalg.norm(tensor)
    apart = separation(directions, (c[:, None] * directions).T)
    return in_canonical_form(Components(c, directions, float(misfit), apart, tensor.ndim))


def fit_stack_components(stack: Array, directions: Array) -> Components:
    """Components of a stack of symmetric matrices or tensors; coefficients are the lengths of the loadings."""
    weights = loadings(stack, directions)
    order = stack.ndim - 1
    misfit = stack.reshape(len(stack), -1) - weights @ powers(directions, order)
    apart = separation(directions, weights, 1 if len(directions) <= directions.shape[1] else order)
    relative = float(np.linalg.norm(misfit) / np.linalg.norm(stack))
    return in_canonical_form(Components(np.linalg.norm(weights, axis=0), directions, relative, apart, order))


def tensor_coefficients(tensor: Array, directions: Array) -> Array:
    """c (r,) of the least-squares fit T ≈ Σᵢ cᵢ uᵢ^{⊗order}: (UUᵀ)^{∘order} c = T(uᵢ, …, uᵢ)."""
    return _solve_gram((directions @ directions.T) ** tensor.ndim, contract(tensor, directions, 0))


def loadings(stack: Array, directions: Array) -> Array:
    """λ (s, r) of the least-squares fit A_l ≈ Σᵢ λ_lᵢ uᵢ^{⊗q}, for a stack of matrices (q = 2) or of symmetric tensors."""
    rows = powers(directions, stack.ndim - 1)
    return _solve_gram(rows @ rows.T, rows @ stack.reshape(len(stack), -1).T).T


def tensor_misfit(tensor: Array, directions: Array, coefficients: Array) -> Array:
    """T − Σᵢ cᵢ uᵢ^{⊗order}."""
    half = tensor.ndim // 2
    left, right = powers(directions, half), powers(directions, tensor.ndim - half)
    return np.asarray(tensor - (left.T @ (coefficients[:, None] * right)).reshape(tensor.shape))


def contract(tensor: Array, directions: Array, keep: int) -> Array:
    """T(uᵢ, …, uᵢ, I, …) for every row of `directions`, with `keep` (0 or 1) axes left: (r,) or (r, k)."""
    out = tensor.reshape(-1, tensor.shape[-1]) @ directions.T
    out = out.reshape(*tensor.shape[:-1], len(directions))
    for _ in range(tensor.ndim - 1 - keep):
        out = np.einsum("...ar,ra->...r", out, directions)
    return out.T if keep else out


def _solve_gram(gram: Array, right: Array) -> Array:
    """Least squares, because equal directions make a Gram matrix singular."""
    return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0])


@dataclass(frozen=True)
class BestOf:
    """Run `decompose` `tries` times and keep the smallest residual.

    If none of them converged, the same tries are run with `longer`.
    """

    tries: int
    decompose: Decomposer
    longer: Decomposer | None = None

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise InvalidInput(
                f"{self.tries} tries were asked for.", "The best of them is kept.", "Give a positive number.", tries=self.tries)

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        again = deepcopy(rng)
        found = [self.decompose(tensor, rank, rng=rng) for _ in range(self.tries)]
        if self.longer is not None and not any(parts.converged for parts in found):
            found = [self.longer(tensor, rank, rng=again) for _ in range(self.tries)]
        return min(found, key=lambda parts: parts.residual)


def best_of(tries: int, decompose: Decomposer) -> Decomposer:
    """A decomposition that runs another one several times and keeps the smallest residual."""
    return BestOf(tries, decompose)
