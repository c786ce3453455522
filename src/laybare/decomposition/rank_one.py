"""Rank-one matrices in a linear space of matrices.

A matrix has rank one if and only if all its 2×2 minors vanish. Minors are quadratic: those of M = Σ cₐMₐ are Σ cₐc_b Φ(Mₐ, M_b)
with a bilinear Φ, linear in ccᵀ. If Φ vanishes on nothing but the span of the ccᵀ of the rank-one matrices, as it does in general
position, joint diagonalisation of its null space tells them apart.

Source: De Lathauwer, Castaing and Cardoso (2007), FOOBI, IEEE Trans. Signal Processing 55(6), in the form for matrices that need
not be symmetric.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import Decomposer
from laybare.errors import NotSeparated
from laybare.levels import GRAM
from laybare.moments.symmetric import smat, triangle
from laybare.shapes import Array

MINORS = 1e4 * GRAM
"""Singular values of the map of minors below this share of the largest are zero: its input is a Gram matrix."""

LARGEST = 20_000_000
"""Numbers in the map of minors: 160 MB."""


def rank_one_elements(basis: Array, rank: int, decompose: Decomposer, *, rng: Generator) -> Array:
    """Coefficients (rank, s), unit rows c, of the rank-one matrices Σ cₐ basisₐ in the span of `basis` (s, p, q).

    Refuses spaces that are too large, and those in which the minors leave more room than `rank` matrices have.
    """
    minors = minor_map(basis)
    _, values, right = np.linalg.svd(minors, full_matrices=len(minors) < minors.shape[1])
    zeros = minors.shape[1] - int(np.sum(values > MINORS * values[0]))
    if zeros != rank:
        raise NotSeparated(
            f"Among {len(basis)} independent relations {zeros} could belong to a single unit, and there are {rank} units.",
            "Units that are always on, or off, or bend together leave relations that belong to no unit.",
            "Give more samples, or inputs that cross every kink; if the width is wrong, give the right one.",
            relations=len(basis), found=zeros, rank=rank)
    return decompose(smat(right[-rank:]), rank, rng=rng).directions


def minor_map(basis: Array) -> Array:
    """Φ in svec coordinates: (minors, s(s+1)/2), with Φ svec(ccᵀ) the 2×2 minors of Σ cₐ basisₐ."""
    s, p, q = basis.shape
    (i, k), (j, l) = np.triu_indices(p, 1), np.triu_indices(q, 1)
    if len(i) * len(j) * s * (s + 1) // 2 > LARGEST:
        raise NotSeparated(
            f"{s} independent relations hold for all samples of {p} units.",
            "Which of them belong to units is too much to compute.",
            "Give more samples, so that only one relation a unit is left.", relations=s, rank=p)
    a, b, scale = triangle(s)
    first = basis[:, i][:, :, j], basis[:, k][:, :, l]
    second = basis[:, i][:, :, l], basis[:, k][:, :, j]
    product = sum(
        sign * 0.5 * (left[a] * right[b] + left[b] * right[a])
        for sign, (left, right) in ((1.0, first), (-1.0, second)))
    flat: Array = (np.asarray(product).reshape(len(a), -1) * scale[:, None]).T
    return flat
