"""CP by alternating least squares on a stack of slices: A_l ≈ Σᵢ λ_lᵢ uᵢ vᵢᵀ, with uᵢ = vᵢ at the end.

The three factors are refitted in turn, each a linear least-squares problem. A symmetric tensor of order 3 is a stack with
λᵢ = cᵢuᵢ; a tensor of order 4 is one after reshaping to (k², k, k). Convergence is linear, slow ("swamps") for ill-conditioned
directions, and depends on the start: use it inside `best_of`, or prefer `GaussNewton`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_slices
from laybare.decomposition.components import Components, Decomposer, unit_rows
from laybare.decomposition.explanation import explain
from laybare.decomposition.slices import condense, project
from laybare.shapes import Array

STILL = 1e-12
"""So little a direction moves in one round near the end of noiseless fits."""


@dataclass(frozen=True, kw_only=True)
class AlternatingLeastSquares:
    """CP by alternating least squares from `start`, or from random directions if None.

    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions.
    Source: Harshman (1970); Carroll and Chang (1970) for a stack of symmetric slices. Deviations: the stack is compressed to its
    span and to `rank` slices first, which changes no minimum on exact input; the two symmetric factors are averaged at the end.
    `still`: it ends when no entry of a direction moves by more in one round.
    """

    start: Decomposer | None = None
    max_steps: int = 2000
    still: float = STILL

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        small = condense(span.slices, rank)
        if self.start is None:  # two draws: equal ones lose a part half of the time on orthogonal input, different ones a third
            u, v = unit_rows(rng.standard_normal((2, rank, rank)))
        else:
            u = v = self.start(small, rank, rng=rng).directions
        return explain(slices, unit_rows(alternate(small, u, v, self.max_steps, self.still) @ span.basis.T))


alternating_least_squares = AlternatingLeastSquares()


def alternate(slices: Array, u: Array, v: Array, max_steps: int, still: float = STILL) -> Array:
    """Unit rows of the fit A_l ≈ Σᵢ λ_lᵢ uᵢ vᵢᵀ after alternating least squares from u and v (r, k): the mean of uᵢ and ±vᵢ."""
    by_slice = slices.reshape(len(slices), -1)
    by_row = slices.transpose(1, 0, 2).reshape(slices.shape[1], -1)
    for _ in range(max_steps):
        before = u
        weights = _refit(by_slice, u, v)
        u = unit_rows(_refit(by_row, weights, v))
        v = unit_rows(_refit(by_row, weights, u))
        if float(np.abs(np.abs(u) - np.abs(before)).max()) < still:
            break
    signs = np.where(np.einsum("ia,ia->i", u, v) < 0, -1.0, 1.0)
    return unit_rows(u + signs[:, None] * v)


def _refit(unfolded: Array, first: Array, second: Array) -> Array:
    """Least squares for one factor (r, ·), the other two being `first` and `second` (r, ·); a ridge of rounding size."""
    both = (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)
    gram = (first @ first.T) * (second @ second.T)
    gram[np.diag_indices(len(gram))] *= 1.0 + 1e-14
    factor: Array = np.linalg.solve(gram, both @ unfolded.T)
    return factor
