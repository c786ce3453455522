"""UWEDGE: non-orthogonal joint diagonalisation by fitting the mixing: B ← (I − W)⁻¹ B.

Uniformly weighted exhaustive diagonalisation with Gauss iterations: with A = I + (off-diagonal part), the slices B A_l Bᵀ are
fitted by A diag(·) Aᵀ to first order, which is the step W of FFDIAG with the other sign, and B is multiplied by A⁻¹.

Source: Tichavský and Yeredor (2009), IEEE Trans. Signal Process. 57(3). Deviation: their rows are scaled by the first
slice, which must then be positive definite; ours by the energy of all slices, so indefinite slices are welcome.
"""

from __future__ import annotations

import numpy as np

from laybare.decomposition.diagonaliser import Diagonalisation, balanced, first_order_step, off_share
from laybare.shapes import Array

STILL = 1e-14
"""A step whose entries are all smaller is rounding."""

LONGEST = 3.0
"""Cap on |W|, far above any step near a solution: it only keeps a bad start from being thrown away in one step."""

MAX_STEPS = 300


def uwedge(slices: Array, start: Array) -> Diagonalisation:
    """Rows B with B A_l Bᵀ nearly diagonal; the same fixed points as FFDIAG, reached in fewer steps where A is far from I."""
    inside, rows = balanced(slices, start)
    identity = np.eye(len(start))
    steps = 0
    for _ in range(MAX_STEPS):
        steps += 1
        change = first_order_step(inside)
        size = float(np.linalg.norm(change))
        rows = np.linalg.solve(identity - LONGEST / max(size, LONGEST) * change, rows)
        inside, rows = balanced(slices, rows)
        if float(np.abs(change).max()) < STILL:
            break
    return Diagonalisation(rows, steps, off_share(slices, rows))
