"""Stacks of symmetric slices A_l = Σᵢ λ_lᵢ uᵢuᵢᵀ, made smaller without losing a part.

Two compressions are exact in the population and remove noise in samples: `project` onto the r-dimensional span of the columns,
and `condense` to r slices, because the stack, as a matrix with one row per slice, is Λ (U⊙U)ᵀ and has rank at most r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.errors import Unidentifiable
from laybare.levels import ROUNDING
from laybare.shapes import Array


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
            f"The slices span only {found} dimensions and rank {rank} was asked.",
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
