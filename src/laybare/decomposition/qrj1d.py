"""QRJ1D: non-orthogonal joint diagonalisation by rotations and shears.

A sweep visits all pairs: the Jacobi rotation, then the shears row_i += a row_j and row_j += a row_i with
    a = −Σ_l Σ_{m≠i} A_im A_jm / Σ_l Σ_{m≠i} A_jm²,
which leave the least energy off the diagonal in row i. Rows of B are scaled to unit length after every sweep.

Source: Afsari (2006), ICA 2006, LNCS 3889, algorithm QRJ1D. Deviation: disjoint pairs are sheared together; their shears meet only in
products of off-diagonal entries, which vanish as the slices become diagonal.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.components import unit_rows
from laybare.decomposition.diagonaliser import TINY, Diagonalised, off_share, rounds
from laybare.decomposition.jacobi import angles, turn
from laybare.shapes import Array

STILL = 1e-13
"""Angles and shears below this are rounding."""

LONGEST = 0.9
"""Cap on a shear: an unbounded one from a bad start makes two rows parallel."""

MAX_SWEEPS = 300


def qrj1d(slices: Array, start: Array) -> Diagonalised:
    """Rows B minimising the off-diagonal energy of B A_l Bᵀ under |row| = 1. Slower than FFDIAG, and as accurate."""
    rows = unit_rows(start)
    for sweep in range(1, MAX_SWEEPS + 1):
        inside = np.ascontiguousarray((rows @ slices @ rows.T).transpose(1, 2, 0))
        moved = _sweep(inside, rows)
        rows = unit_rows(rows)
        if moved < STILL:
            break
    return Diagonalised(rows, sweep, off_share(slices, rows))


def _sweep(inside: Array, rows: Array) -> float:
    """One sweep in place; `inside` is (k, k, s). Returns the largest angle or shear."""
    largest = 0.0
    for p, q in rounds(len(rows)):
        theta = angles(inside, p, q)
        turn(inside, rows, p, q, theta)
        moves = (theta, _shear(inside, rows, p, q), _shear(inside, rows, q, p))
        largest = max(largest, *(float(np.abs(move).max(initial=0.0)) for move in moves))
    return largest


def _shear(inside: Array, rows: Array, i: Array, j: Array) -> Array:
    """row_i += a row_j, and the same for columns, for disjoint pairs at once, in place. Returns a."""
    a = np.clip(_best_shear(inside, i, j), -LONGEST, LONGEST)
    rows[i] += a[:, None] * rows[j]
    inside[i] += a[:, None, None] * inside[j]
    inside[:, i] += a[:, None] * inside[:, j]
    return a


def _best_shear(inside: Array, i: Array, j: Array) -> Array:
    """The shear of every pair that leaves row i the least off-diagonal energy."""
    top, bottom = inside[i], inside[j]
    both = np.einsum("hms,hms->h", top, bottom) - np.einsum("hs,hs->h", inside[i, i], inside[j, i])
    own = np.einsum("hms,hms->h", bottom, bottom) - np.einsum("hs,hs->h", inside[j, i], inside[j, i])
    a: Array = -both / (own + TINY)
    return a
