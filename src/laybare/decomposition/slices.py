"""Stacks of symmetric slices A_l = Σᵢ λ_lᵢ uᵢuᵢᵀ: compressed without loss of a part, and what a decomposition accepts.

Two compressions are exact in the population and remove noise in samples: `project` onto the r-dimensional span of the columns,
and `condense` to r slices, because the stack, as a matrix with one row per slice, is Λ (U⊙U)ᵀ and has rank at most r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    fewer: Array = (sizes[:kept, None] * right[:kept]).reshape(kept, *slices.shape[1:])
    return fewer


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
