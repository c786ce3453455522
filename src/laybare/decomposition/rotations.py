"""Orthogonal joint diagonalisation by Jacobi rotations.

For the pair (p, q) and g = (A_pp − A_qq, A_pq + A_qp) over the slices, the rotation by θ with
    ton = g₀·g₀ − g₁·g₁,  toff = 2 g₀·g₁,  θ = ½ atan2(toff, ton + hypot(ton, toff))
leaves the least energy at (p, q). Disjoint pairs do not disturb each other, so a round of k/2 of them is done at once.

Source: Cardoso and Souloumiac (1996), "Jacobi angles for simultaneous diagonalization", SIAM J. Matrix Anal. Appl. 17(1), real
symmetric case. The parallel order is ours.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.diagonaliser import Diagonalisation, compressed, congruence, off_share, rounds, slice_last, transformed
from laybare.shapes import Array

ANGLE = 1e-13
"""Rotations below this angle are rounding (convergence is quadratic: one sweep more would not be seen)."""

MAX_SWEEPS = 60


def jacobi(slices: Array, start: Array) -> Diagonalisation:
    """Orthogonal B, from an orthogonal start, minimising the off-diagonal energy of B A_l Bᵀ. Indefinite slices are welcome.

    Right for orthogonal directions; otherwise the best orthogonal compromise. Time k⁴ a slice and sweep (BLAS-3), 5-10 sweeps.
    """
    rows = start
    inside = slice_last(transformed(compressed(slices), rows))
    sweeps = 0
    for _ in range(MAX_SWEEPS):
        sweeps += 1
        largest = 0.0
        for p, q in rounds(len(rows)):
            theta = angles(inside, p, q)
            turn = rotation(len(rows), p, q, theta)
            inside, rows = congruence(inside, turn), turn @ rows
            largest = max(largest, float(np.abs(theta).max(initial=0.0)))
        if largest < ANGLE:
            break
    return Diagonalisation(rows, sweeps, off_share(slices, rows))


def angles(inside: Array, p: Array, q: Array) -> Array:
    """The best rotation of every pair; `inside` is (k, k, s)."""
    g0 = inside[p, p] - inside[q, q]
    g1 = inside[p, q] + inside[q, p]
    ton = np.sum(g0**2 - g1**2, axis=1)
    toff = 2 * np.sum(g0 * g1, axis=1)
    theta: Array = 0.5 * np.arctan2(toff, ton + np.hypot(ton, toff))
    return theta


def rotation(size: int, p: Array, q: Array, theta: Array) -> Array:
    """The matrix of p ← c p + s q, q ← c q − s p for disjoint pairs."""
    matrix = np.eye(size)
    matrix[p, p] = matrix[q, q] = np.cos(theta)
    matrix[p, q], matrix[q, p] = np.sin(theta), -np.sin(theta)
    return matrix
