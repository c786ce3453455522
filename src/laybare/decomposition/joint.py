"""The default decomposition: joint diagonalisation of all slices, then least squares.

    stack → its span, r slices → starts (a definite combination + Jacobi; Jennrich) → FFDIAG (or UWEDGE, QRJ1D) → least squares

One pencil throws most slices away; all of them together leave noise of the size that least squares leaves. The starts only
choose the basin: whichever ends with the smaller residual is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.decomposition.checks import as_slices, is_symmetric
from laybare.decomposition.components import Components, Decomposer, unit_rows
from laybare.decomposition.cp import polish_tensor
from laybare.decomposition.definite import definite_jacobi
from laybare.decomposition.diagonaliser import Diagonalise, directions_of, rows_for
from laybare.decomposition.explanation import explain, explain_stack
from laybare.decomposition.multiplicative import ffdiag
from laybare.decomposition.pencil import jennrich
from laybare.decomposition.shrinkage import shrink_to_orthogonal
from laybare.decomposition.slices import condense, project
from laybare.decomposition.stack_fit import polish_stack
from laybare.errors import AssumptionViolated
from laybare.shapes import Array

MOST_UNKNOWNS = 2000
"""Rank times dimension above which the cubic cost of the least-squares step (seconds) is not worth it."""


@dataclass(frozen=True, kw_only=True)
class JointDiagonalisation:
    """Rank-one parts of a symmetric tensor, or of a stack of slices, of either sign, not orthogonal, rank at most dimension.

    `diagonalise` works on the stack in its span, from each of `starts`. `polish` ends with least squares on the input itself, a
    symmetric CP for a symmetric tensor, free loadings for a stack; then it shrinks cosines that are within noise (tensors only).
    `separation`: the smallest sine between the loadings of two parts times the smallest singular value of the directions.
    """

    diagonalise: Diagonalise = ffdiag
    starts: tuple[Decomposer, ...] = (definite_jacobi, jennrich)
    polish: bool = True

    def __call__(self, tensor: Array, rank: int, *, rng: Generator) -> Components:
        slices = as_slices(tensor, rank)
        span = project(slices, rank)
        small = condense(span.slices, rank)
        tries = [self._diagonalised(small, start) for start in self._begin(small, rank, rng)]
        best = min(tries, key=lambda directions: explain_stack(small, directions).residual)
        directions = unit_rows(best @ span.basis.T)
        return explain(slices, polished(slices, directions) if self.polish else directions)

    def _begin(self, small: Array, rank: int, rng: Generator) -> list[Array]:
        """Directions from every start that accepts the stack."""
        found = []
        for start in self.starts:
            try:
                found.append(start(small, rank, rng=rng).directions)
            except AssumptionViolated:
                continue
        return found or [np.eye(rank)]

    def _diagonalised(self, small: Array, start: Array) -> Array:
        """Directions after joint diagonalisation, or the start's if that came out worse."""
        rows = self.diagonalise(small, rows_for(start)).rows
        if not np.linalg.cond(rows) < 1e12:
            return start
        return min((directions_of(rows), start), key=lambda directions: explain_stack(small, directions).residual)


def polished(slices: Array, directions: Array) -> Array:
    """Directions after least squares on the input; unchanged where that would cost too much."""
    if directions.size > MOST_UNKNOWNS:
        return directions
    if not is_symmetric(slices):
        return polish_stack(slices, directions)
    return shrink_to_orthogonal(slices, polish_tensor(slices, directions))


joint_diagonalisation = JointDiagonalisation()
