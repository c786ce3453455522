"""Joint diagonalisers: rows B with B A_l Bᵀ nearly diagonal for every slice A_l = U D_l Uᵀ, so that U = B⁻¹ up to scale.

What the algorithms share: their type, the share of energy off the diagonal, the step that two of them take, and the order in
which pairs are visited.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.decomposition.components import unit_rows
from laybare.shapes import Array

TINY = 1e-300
"""Added to a denominator that may vanish together with its numerator."""


class Diagonalisation(NamedTuple):
    """`rows` B (k, k); `steps` taken; `off`, the share of the squared entries of B A_l Bᵀ that lies off the diagonal."""

    rows: Array
    steps: int
    off: float


@runtime_checkable
class Diagonalise(Protocol):
    """Joint diagonalisation of a stack (s, k, k), from the rows `start` (k, k)."""

    def __call__(self, slices: Array, start: Array) -> Diagonalisation: ...


def transformed(slices: Array, rows: Array) -> Array:
    """B A_l Bᵀ for every slice."""
    out: Array = rows @ slices @ rows.T
    return out


def slice_last(slices: Array) -> Array:
    """The stack as (k, k, s), so that a pair of rows is one block of memory."""
    return np.ascontiguousarray(slices.transpose(1, 2, 0))


def congruence(inside: Array, matrix: Array) -> Array:
    """M A_l Mᵀ for a stack with the slices last, (k, k, s)."""
    rows = (matrix @ inside.reshape(len(inside), -1)).reshape(inside.shape)
    out: Array = matrix @ rows
    return out


def compressed(slices: Array) -> Array:
    """Fewer slices with the same Σ_l A_l⊗A_l, which is all that a joint diagonaliser sees; exact up to rounding."""
    if len(slices) <= slices.shape[1]:
        return slices
    _, sizes, right = np.linalg.svd(slices.reshape(len(slices), -1), full_matrices=False)
    kept = max(1, int(np.sum(sizes > 1e-15 * sizes[0])))
    fewer: Array = (sizes[:kept, None] * right[:kept]).reshape(kept, *slices.shape[1:])
    return fewer


def directions_of(rows: Array) -> Array:
    """The parts that rows B tell apart: the columns of B⁻¹, as unit rows."""
    return unit_rows(np.linalg.inv(rows).T)


def rows_for(directions: Array) -> Array:
    """The rows that would tell these directions apart: inverse of `directions_of` up to scale; pseudo-inverse if dependent."""
    return unit_rows(np.linalg.pinv(directions.T))


def balanced(slices: Array, rows: Array) -> tuple[Array, Array]:
    """B A_l Bᵀ and B, rows scaled so that every diagonal position has unit energy over the slices (scale is a gauge)."""
    inside = transformed(slices, rows)
    energy = np.sum(np.einsum("lii->li", inside) ** 2, axis=0)
    scale = np.where(energy > 0, np.maximum(energy, TINY) ** -0.25, 1.0)
    return inside * scale[:, None] * scale, rows * scale[:, None]


def off_share(slices: Array, rows: Array) -> float:
    """Share of the energy of the balanced stack that lies off the diagonal."""
    squares = balanced(slices, rows)[0] ** 2
    off = float(np.sum(squares * (1.0 - np.eye(len(rows)))))
    return off / (off + float(np.einsum("lii->", squares)) + TINY)


def first_order_step(inside: Array) -> Array:
    """W (k, k), zero diagonal, minimising Σ_l Σ_{i≠j} (E_ij + W_ij D_j + W_ji D_i)², where the slices are D + E, D diagonal.

    The pairs decouple into 2×2 systems: with z_ij = Σ_l D_i D_j and y_ij = Σ_l D_j E_ij,
    W_ij = (z_ij y_ji − z_ii y_ij) / (z_ii z_jj − z_ij²). Parallel diagonals make a system singular; then W_ij = 0.
    """
    diagonal = np.einsum("lii->li", inside)
    z = diagonal.T @ diagonal
    y = np.einsum("lij,lj->ij", inside, diagonal)
    own = np.diag(z)
    determinant = np.outer(own, own) - z**2
    solvable = determinant > 1e-14 * np.outer(own, own)
    step: Array = np.where(solvable, (z * y.T - own[:, None] * y) / np.where(solvable, determinant, 1.0), 0.0)
    np.fill_diagonal(step, 0.0)
    return step


@lru_cache(maxsize=64)
def rounds(size: int) -> tuple[tuple[Array, Array], ...]:
    """All pairs p < q of 0..size−1 in rounds of disjoint pairs (the circle method of tournaments): indices (p, q) a round."""
    players = list(range(size + size % 2))
    plan = []
    for _ in range(len(players) - 1):
        pairs = [(players[i], players[-1 - i]) for i in range(len(players) // 2)]
        real = np.array([sorted(pair) for pair in pairs if max(pair) < size], dtype=int).reshape(-1, 2)
        plan.append((real[:, 0], real[:, 1]))
        players.insert(1, players.pop())
    return tuple(plan)
