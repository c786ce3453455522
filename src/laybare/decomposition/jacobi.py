"""Orthogonal joint diagonalisation by Jacobi rotations.

For the pair (p, q) and g = (A_pp − A_qq, A_pq + A_qp) over the slices, the rotation by θ with
    ton = g₀·g₀ − g₁·g₁,  toff = 2 g₀·g₁,  θ = ½ atan2(toff, ton + hypot(ton, toff))
leaves the least energy at (p, q). Disjoint pairs do not disturb each other, so a round of k/2 of them is done at once.

Source: Cardoso and Souloumiac (1996), "Jacobi angles for simultaneous diagonalization", SIAM J. Matrix Anal. Appl. 17(1), real
symmetric case. The parallel order is ours.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.diagonaliser import Diagonalised, off_share, rounds
from laybare.shapes import Array

ANGLE = 1e-13
"""Rotations below this angle are rounding (convergence is quadratic: one sweep more would not be seen)."""

MAX_SWEEPS = 60


def jacobi(slices: Array, start: Array) -> Diagonalised:
    """Orthogonal B, from an orthogonal start, minimising the off-diagonal energy of B A_l Bᵀ. Indefinite slices are welcome.

    Only right for orthogonal directions; otherwise the least orthogonal compromise. Time k³ a slice and sweep, 5-10 sweeps.
    """
    rows = start.copy()
    inside = np.ascontiguousarray((rows @ slices @ rows.T).transpose(1, 2, 0))
    for sweep in range(1, MAX_SWEEPS + 1):
        if rotate_all(inside, rows) < ANGLE:
            break
    return Diagonalised(rows, sweep, off_share(slices, rows))


def rotate_all(inside: Array, rows: Array) -> float:
    """One sweep over all pairs, in place; `inside` is (k, k, s). Returns the largest |θ|."""
    largest = 0.0
    for p, q in rounds(len(rows)):
        theta = angles(inside, p, q)
        turn(inside, rows, p, q, theta)
        largest = max(largest, float(np.abs(theta).max(initial=0.0)))
    return largest


def angles(inside: Array, p: Array, q: Array) -> Array:
    """The best rotation of every pair."""
    g0 = inside[p, p] - inside[q, q]
    g1 = inside[p, q] + inside[q, p]
    ton = np.sum(g0**2 - g1**2, axis=1)
    toff = 2 * np.sum(g0 * g1, axis=1)
    theta: Array = 0.5 * np.arctan2(toff, ton + np.hypot(ton, toff))
    return theta


def turn(inside: Array, rows: Array, p: Array, q: Array, theta: Array) -> None:
    """Rows, then columns, p ← c p + s q, q ← c q − s p, of the slices; the same for the rows of B. In place."""
    c, s = np.cos(theta)[:, None], np.sin(theta)[:, None]
    rows[p], rows[q] = c * rows[p] + s * rows[q], c * rows[q] - s * rows[p]
    c, s = c[..., None], s[..., None]
    inside[p], inside[q] = c * inside[p] + s * inside[q], c * inside[q] - s * inside[p]
    c, s = c[:, 0], s[:, 0]
    inside[:, p], inside[:, q] = c * inside[:, p] + s * inside[:, q], c * inside[:, q] - s * inside[:, p]
