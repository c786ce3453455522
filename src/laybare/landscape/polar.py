"""The polar iteration: all components of an orthogonal fourth-order tensor at once, O ← polar(T[o, o, o, ·]).

For T = Σ cᵢ oᵢ^⊗4 with orthonormal oᵢ and c > 0, the power method on all rows with symmetric orthogonalisation in between; cubic
convergence. In whitened coordinates (W = U D^{-1/2} of M = U D Uᵀ) the tensor of the network is such: cᵢ = σ/aᵢ.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from laybare.landscape.operators import FourthMoment
from laybare.shapes import Array

MAX_STEPS = 300
SETTLED = 1e-12


def polar_iteration(quartic: FourthMoment, sign: float, dim: int, *, rng: Generator, max_steps: int = MAX_STEPS) -> Array:
    """Orthonormal rows (dim, dim) with sign·T[o, o, o, ·] symmetric positive along them; from a random rotation."""
    rows = _polar(rng.standard_normal((dim, dim)))
    for _ in range(max_steps):
        moved = _polar(sign * quartic.cubes(rows)[0])
        change = 1.0 - float(np.abs(np.sum(moved * rows, axis=1)).min())
        rows = moved
        if change <= SETTLED:
            break
    return rows


def whitening(matrix: Array, width: int) -> tuple[Array, Array]:
    """W = U D^{-1/2} (d, width) and its left inverse transposed, U D^{1/2}, from the `width` largest eigenvalues of M.

    WWᵀ = M⁻¹, which equation (C.4) prints as M.
    """
    values, vectors = np.linalg.eigh(matrix)
    U, D = vectors[:, -width:], values[-width:]
    return U / np.sqrt(D), U * np.sqrt(D)


def _polar(matrix: Array) -> Array:
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)
