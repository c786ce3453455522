"""Solving with symmetric positive semi-definite matrices that may be close to singular."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from laybare.levels import GRAM
from laybare.shapes import Array


def solve_spd(matrix: Array, right: Array) -> Array:
    """Solution of matrix · z = right: Cholesky on the unit-diagonal scaling, or the pseudo-inverse when that breaks down.

    `right` is (p,) or (p, columns). Scaling to a unit diagonal is within a factor √p of the best diagonal scaling
    (van der Sluis 1969), so that units of very different size do not spoil each other. Where a number is not finite, or becomes
    so by scaling, the solution is NaN: a solver then rejects the step. (LAPACK's eigenvalue routines may never return from NaN.)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
        scaled = matrix * scale[:, None] * scale
        columns = right.reshape(len(right), -1) * scale[:, None]
        if not (np.isfinite(scaled.sum()) and np.isfinite(columns.sum())):
            return np.full(right.shape, np.nan)
    try:
        factor = scipy.linalg.cholesky(scaled, lower=True, check_finite=False)
        if np.square(np.diag(factor)).min() < GRAM:
            raise scipy.linalg.LinAlgError
        solved = scipy.linalg.cho_solve((factor, True), columns, check_finite=False)
    except scipy.linalg.LinAlgError:
        values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
        kept = values > GRAM * values[-1]
        V = vectors[:, kept]
        solved = V @ ((V.T @ columns) / values[kept, None])
    with np.errstate(over="ignore"):
        solution: Array = (solved * scale[:, None]).reshape(right.shape)
    return solution
