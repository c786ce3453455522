"""FFDIAG: non-orthogonal joint diagonalisation by multiplicative updates B ← (I + W) B.

W is the first-order step, shortened to Frobenius norm 0.9 so that I + W stays invertible. Neither the slices nor any combination
of them need be positive definite.

Source: Ziehe, Laskov, Nolte and Müller (2004), JMLR 5, pages 777-800. Deviation: rows are balanced after every step.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.diagonaliser import Diagonalisation, balanced, first_order_step, off_share
from laybare.shapes import Array

LONGEST = 0.9
"""Cap on |W|: any bound below 1 keeps I + W invertible."""

STILL = 1e-14
"""A step whose entries are all smaller is rounding."""

MAX_STEPS = 300


def ffdiag(slices: Array, start: Array) -> Diagonalisation:
    """Rows B with B A_l Bᵀ nearly diagonal: Σ_l (B A_l Bᵀ)_ij (B A_l Bᵀ)_jj = 0 for i ≠ j on return.

    Quadratic convergence on exact input, linear on noisy input; it follows the start, so give it a good one. Time s·k³ a step.
    """
    inside, rows = balanced(slices, start)
    steps = 0
    for _ in range(MAX_STEPS):
        steps += 1
        change = first_order_step(inside)
        size = float(np.linalg.norm(change))
        rows = rows + LONGEST / max(size, LONGEST) * change @ rows
        inside, rows = balanced(slices, rows)
        if float(np.abs(change).max()) < STILL:
            break
    return Diagonalisation(rows, steps, off_share(slices, rows))
