"""QRJ1D: non-orthogonal joint diagonalisation by rotations and shears.

A sweep visits all pairs: the Jacobi rotation, then the shears row_i += a row_j and row_j += a row_i with
    a = −Σ_l Σ_{m≠i} A_im A_jm / Σ_l Σ_{m≠i} A_jm²,
which leave the least energy off the diagonal in row i. Rows of B are scaled to unit length after every sweep.

Source: Afsari (2006), ICA 2006, LNCS 3889, algorithm QRJ1D. Deviation: disjoint pairs are sheared together; their shears meet
only in products of off-diagonal entries, which vanish as the slices become diagonal.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.components import unit_rows
from laybare.decomposition.diagonaliser import (
    TINY,
    Diagonalisation,
    compressed,
    congruence,
    off_share,
    rounds,
    slice_last,
    transformed,
)
from laybare.decomposition.rotations import angles, rotation
from laybare.shapes import Array

STILL = 1e-13
"""Angles and shears below this are rounding."""

LONGEST = 0.9
"""Cap on a shear: an unbounded one from a bad start makes two rows parallel."""

MAX_SWEEPS = 300


def qrj1d(slices: Array, start: Array) -> Diagonalisation:
    """Rows B minimising the off-diagonal energy of B A_l Bᵀ under |row| = 1.

    At rank 5 with 3 % noise as accurate as FFDIAG; in two noisy stacks of rank 32 its error was 1.3 and 2.5 times FFDIAG's,
    at 50-80 times the time. With many slices `condense` the stack first.
    """
    small, rows = compressed(slices), unit_rows(start)
    sweeps = 0
    for _ in range(MAX_SWEEPS):
        sweeps += 1
        rows, moved = _sweep(slice_last(transformed(small, rows)), rows)
        rows = unit_rows(rows)
        if moved < STILL:
            break
    return Diagonalisation(rows, sweeps, off_share(slices, rows))


def _sweep(inside: Array, rows: Array) -> tuple[Array, float]:
    """One sweep over all pairs: the new rows, and the largest angle or shear."""
    largest = 0.0
    for p, q in rounds(len(rows)):
        theta = angles(inside, p, q)
        turn = rotation(len(rows), p, q, theta)
        inside, rows = congruence(inside, turn), turn @ rows
        moves = [theta]
        for i, j in ((p, q), (q, p)):
            a = np.clip(best_shear(inside, i, j), -LONGEST, LONGEST)
            inside, rows = _sheared(inside, rows, i, j, a)
            moves.append(a)
        largest = max(largest, *(float(np.abs(move).max(initial=0.0)) for move in moves))
    return rows, largest


def _sheared(inside: Array, rows: Array, i: Array, j: Array, a: Array) -> tuple[Array, Array]:
    """row_i += a row_j, and the same for columns, for disjoint pairs at once."""
    matrix = np.eye(len(rows))
    matrix[i, j] = a
    return congruence(inside, matrix), matrix @ rows


def best_shear(inside: Array, i: Array, j: Array) -> Array:
    """The shear of every pair that leaves row i the least off-diagonal energy."""
    top, bottom = inside[i], inside[j]
    both = np.einsum("hms,hms->h", top, bottom) - np.einsum("hs,hs->h", inside[i, i], inside[j, i])
    own = np.einsum("hms,hms->h", bottom, bottom) - np.einsum("hs,hs->h", inside[j, i], inside[j, i])
    a: Array = -both / (own + TINY)
    return a
