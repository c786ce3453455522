"""Joint diagonalisers: rows B with B A_l Bᵀ nearly diagonal for every slice A_l = U D_l Uᵀ, so that U = B⁻¹ up to scale.

    jacobi   orthogonal B, by rotations of pairs of rows
    qrj1d    any B, by rotations and shears of pairs of rows
    ffdiag   any B, by multiplicative updates B ← (I + W) B
    uwedge   any B, by fitting the mixing: B ← (I − W)⁻¹ B

Rotation. For the pair (p, q) and g = (A_pp − A_qq, A_pq + A_qp) over the slices, the rotation by θ with
    ton = g₀·g₀ − g₁·g₁,  toff = 2 g₀·g₁,  θ = ½ atan2(toff, ton + hypot(ton, toff))
leaves the least energy at (p, q). Disjoint pairs do not disturb each other, so a round of k/2 of them is done at once.

Shear. row_i += a row_j with a = −Σ_l Σ_{m≠i} A_im A_jm / Σ_l Σ_{m≠i} A_jm² leaves the least energy off the diagonal in row i.

First-order step. W (k, k) minimises the off-diagonal energy of (I + W) A_l (I + W)ᵀ to first order. With A = I + (off-diagonal
part), fitting the slices by A diag(·) Aᵀ gives the same step with the other sign. Rows are balanced after every step: every
diagonal position gets unit energy over the slices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from laybare.decomposition.components import unit_rows
from laybare.numerics.shapes import Array

UNDERFLOW_GUARD = 1e-300
"""Added to a denominator that may vanish together with its numerator. Derived: above the smallest normal float, 2e-308."""


@dataclass(frozen=True, kw_only=True)
class DiagonaliserOptions:
    """When iterations end, and how long a step may be."""

    max_steps: int = 300  # steps or sweeps; for rotations alone see below. Checked by `pytest tests/decomposition`.
    max_rotation_sweeps: int = 60  # 5 to 10 sweeps are usual. Checked by `pytest tests/decomposition/test_diagonalisers.py`.
    step_tol: float = 1e-14  # largest entry of W that is rounding. Checked by `pytest tests/decomposition/test_population.py`.
    angle_tol: float = 1e-13  # angles and shears that are rounding. Checked by `pytest tests/decomposition/test_population.py`.
    max_shear: float = 0.9  # longer ones from a bad start make rows parallel. Checked by `pytest tests/decomposition`.
    max_multiplicative_step: float = 0.9  # |W|_F. Derived: any bound below 1 keeps I + W invertible.
    max_mixing_step: float = 3.0  # |W|_F, far above steps near a solution. Checked by `pytest tests/decomposition`.


OPTIONS = DiagonaliserOptions()


class Diagonalisation(NamedTuple):
    """`rows` B (k, k); `steps` taken; `off`, the share of the squared entries of B A_l Bᵀ that lies off the diagonal."""

    rows: Array
    steps: int
    off: float


@runtime_checkable
class Diagonaliser(Protocol):
    """Joint diagonalisation of a stack (s, k, k) from the rows `start` (k, k)."""

    def __call__(self, slices: Array, start: Array) -> Diagonalisation: ...


def transform_slices(slices: Array, rows: Array) -> Array:
    """B A_l Bᵀ for every slice."""
    return np.asarray(rows @ slices @ rows.T)


def move_slices_last(slices: Array) -> Array:
    """The stack as (k, k, s): a pair of rows is one block of memory."""
    return np.ascontiguousarray(slices.transpose(1, 2, 0))


def congruence(inside: Array, matrix: Array) -> Array:
    """M A_l Mᵀ for a stack with the slices last, (k, k, s)."""
    rows = (matrix @ inside.reshape(len(inside), -1)).reshape(inside.shape)
    return np.asarray(matrix @ rows)


def compress_slices(slices: Array) -> Array:
    """Fewer slices with the same Σ_l A_l⊗A_l, which is all that a joint diagonaliser depends on; exact up to rounding."""
    if len(slices) <= slices.shape[1]:
        return slices
    _, sizes, right = np.linalg.svd(slices.reshape(len(slices), -1), full_matrices=False)
    kept = max(1, int(np.sum(sizes > 1e-15 * sizes[0])))
    return np.asarray((sizes[:kept, None] * right[:kept]).reshape(kept, *slices.shape[1:]))


def directions_of(rows: Array) -> Array:
    """The directions that rows B separate: the columns of B⁻¹, as unit rows."""
    return unit_rows(np.linalg.inv(rows).T)


def rows_for(directions: Array) -> Array:
    """The rows that separate these directions: inverse of `directions_of` up to scale; pseudo-inverse if dependent."""
    return unit_rows(np.linalg.pinv(directions.T))


def balance_rows(slices: Array, rows: Array) -> tuple[Array, Array]:
    """B A_l Bᵀ and B, rows scaled so that every diagonal position has unit energy over the slices (scale is a gauge)."""
    inside = transform_slices(slices, rows)
    energy = np.sum(np.einsum("lii->li", inside) ** 2, axis=0)
    scale = np.where(energy > 0, np.maximum(energy, UNDERFLOW_GUARD) ** -0.25, 1.0)
    return inside * scale[:, None] * scale, rows * scale[:, None]


def off_diagonal_share(slices: Array, rows: Array) -> float:
    """Share of the energy of the balanced stack that lies off the diagonal."""
    squares = balance_rows(slices, rows)[0] ** 2
    off = float(np.sum(squares * (1.0 - np.eye(len(rows)))))
    return off / (off + float(np.einsum("lii->", squares)) + UNDERFLOW_GUARD)


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
def disjoint_pair_rounds(size: int) -> tuple[tuple[Array, Array], ...]:
    """All pairs p < q of 0..size−1 in rounds of disjoint pairs (the circle method of tournaments): indices (p, q) per round."""
    players = list(range(size + size % 2))
    plan = []
    for _ in range(len(players) - 1):
        pairs = [(players[i], players[-1 - i]) for i in range(len(players) // 2)]
        real = np.array([sorted(pair) for pair in pairs if max(pair) < size], dtype=int).reshape(-1, 2)
        plan.append((real[:, 0], real[:, 1]))
        players.insert(1, players.pop())
    return tuple(plan)


def jacobi(slices: Array, start: Array) -> Diagonalisation:
    """Orthogonal B, from an orthogonal start, minimising the off-diagonal energy of B A_l Bᵀ. Slices may be indefinite.

    Right for orthogonal directions; otherwise the best orthogonal compromise. Time k⁴ per slice and sweep (BLAS-3), 5-10 sweeps.
    Source: Cardoso and Souloumiac (1996), SIAM J. Matrix Anal. Appl. 17(1), real symmetric case. The parallel order is ours.
    """
    rows = start
    inside = move_slices_last(transform_slices(compress_slices(slices), rows))
    sweeps = 0
    for _ in range(OPTIONS.max_rotation_sweeps):
        sweeps += 1
        largest = 0.0
        for p, q in disjoint_pair_rounds(len(rows)):
            theta = jacobi_angles(inside, p, q)
            turn = rotation_matrix(len(rows), p, q, theta)
            inside, rows = congruence(inside, turn), turn @ rows
            largest = max(largest, float(np.abs(theta).max(initial=0.0)))
        if largest < OPTIONS.angle_tol:
            break
    return Diagonalisation(rows, sweeps, off_diagonal_share(slices, rows))


def jacobi_angles(inside: Array, p: Array, q: Array) -> Array:
    """The angle of the best rotation of every pair; `inside` is (k, k, s)."""
    g0 = inside[p, p] - inside[q, q]
    g1 = inside[p, q] + inside[q, p]
    ton = np.sum(g0**2 - g1**2, axis=1)
    toff = 2 * np.sum(g0 * g1, axis=1)
    return np.asarray(0.5 * np.arctan2(toff, ton + np.hypot(ton, toff)))


def rotation_matrix(size: int, p: Array, q: Array, theta: Array) -> Array:
    """The matrix of p ← c p + s q, q ← c q − s p for disjoint pairs."""
    matrix = np.eye(size)
    matrix[p, p] = matrix[q, q] = np.cos(theta)
    matrix[p, q], matrix[q, p] = np.sin(theta), -np.sin(theta)
    return matrix


def qrj1d(slices: Array, start: Array) -> Diagonalisation:
    """Rows B minimising the off-diagonal energy of B A_l Bᵀ under |row| = 1.

    At rank 5 with 3 % noise as accurate as FFDIAG; in two noisy stacks of rank 32 its error was 1.3 and 2.5 times FFDIAG's,
    at 50-80 times the time. With many slices `condense` the stack first. Source: Afsari (2006), LNCS 3889. Deviation: disjoint
    pairs are sheared together; their shears meet only in products of off-diagonal entries, which vanish in the limit.
    """
    small, rows = compress_slices(slices), unit_rows(start)
    sweeps = 0
    for _ in range(OPTIONS.max_steps):
        sweeps += 1
        rows, moved = _sweep(move_slices_last(transform_slices(small, rows)), rows)
        rows = unit_rows(rows)
        if moved < OPTIONS.angle_tol:
            break
    return Diagonalisation(rows, sweeps, off_diagonal_share(slices, rows))


def _sweep(inside: Array, rows: Array) -> tuple[Array, float]:
    """One sweep over all pairs: the new rows, and the largest angle or shear."""
    largest = 0.0
    for p, q in disjoint_pair_rounds(len(rows)):
        theta = jacobi_angles(inside, p, q)
        turn = rotation_matrix(len(rows), p, q, theta)
        inside, rows = congruence(inside, turn), turn @ rows
        moves = [theta]
        for i, j in ((p, q), (q, p)):
            a = np.clip(best_shear(inside, i, j), -OPTIONS.max_shear, OPTIONS.max_shear)
            inside, rows = _apply_shear(inside, rows, i, j, a)
            moves.append(a)
        largest = max(largest, *(float(np.abs(move).max(initial=0.0)) for move in moves))
    return rows, largest


def _apply_shear(inside: Array, rows: Array, i: Array, j: Array, a: Array) -> tuple[Array, Array]:
    """row_i += a row_j, and the same for columns, for disjoint pairs at once."""
    matrix = np.eye(len(rows))
    matrix[i, j] = a
    return congruence(inside, matrix), matrix @ rows


def best_shear(inside: Array, i: Array, j: Array) -> Array:
    """The shear of every pair that leaves row i the least off-diagonal energy."""
    top, bottom = inside[i], inside[j]
    both = np.einsum("hms,hms->h", top, bottom) - np.einsum("hs,hs->h", inside[i, i], inside[j, i])
    own = np.einsum("hms,hms->h", bottom, bottom) - np.einsum("hs,hs->h", inside[j, i], inside[j, i])
    return np.asarray(-both / (own + UNDERFLOW_GUARD))


def ffdiag(slices: Array, start: Array) -> Diagonalisation:
    """Rows B with B A_l Bᵀ nearly diagonal: Σ_l (B A_l Bᵀ)_ij (B A_l Bᵀ)_jj = 0 for i ≠ j on return.

    Quadratic convergence on exact input, linear on noisy input. It follows the start, so give it a good one. Time s·k³ per step.
    Slices need not be definite. Source: Ziehe, Laskov, Nolte and Müller (2004), JMLR 5. Deviation: rows are balanced.
    """
    return _first_order_steps(slices, start, OPTIONS.max_multiplicative_step, lambda rows, W: rows + W @ rows)


def uwedge(slices: Array, start: Array) -> Diagonalisation:
    """Rows B with B A_l Bᵀ nearly diagonal; the same fixed points as FFDIAG, reached in fewer steps where A is far from I.

    Source: Tichavský and Yeredor (2009), IEEE Trans. Signal Process. 57(3). Deviation: their rows are scaled by the first slice,
    which must be positive definite; ours by the energy of all slices, which may be indefinite.
    """
    identity = np.eye(len(start))
    return _first_order_steps(slices, start, OPTIONS.max_mixing_step, lambda rows, W: np.linalg.solve(identity - W, rows))


def _first_order_steps(
    slices: Array, start: Array, longest: float, update: Callable[[Array, Array], Array]
) -> Diagonalisation:
    """First-order steps, shortened to the Frobenius norm `longest`, until all entries are rounding."""
    inside, rows = balance_rows(slices, start)
    steps = 0
    for _ in range(OPTIONS.max_steps):
        steps += 1
        change = first_order_step(inside)
        rows = update(rows, longest / max(float(np.linalg.norm(change)), longest) * change)
        inside, rows = balance_rows(slices, rows)
        if float(np.abs(change).max()) < OPTIONS.step_tol:
            break
    return Diagonalisation(rows, steps, off_diagonal_share(slices, rows))
