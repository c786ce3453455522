"""Missing units from what a fit leaves over: the fitted network is a control variate, and its residual is a smaller problem.

For x ~ N(0, I) the residual's Hermite moments are Σ a c₂ w wᵀ and Σ a c₄ w⊗⁴ over the units that are missing (and those that are
wrong, with the opposite sign). Leading eigenvectors of the second moment are sharpened by the power method on the fourth,
w <- T[w, w, w, ·], and each gets the bias, out of a grid, for which |w·x + b| explains most of the residual. What a linear (for
orders 2 and the bias) or quadratic (for order 4) fit explains is subtracted first: there it is noise. Signs remain open, as they
do in the sign-free model that this serves. Odd activations have no such moments.
Source: Awasthi et al. (2021) for the moments; the iteration on the residual is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.moments import Residual, fit_control, leading_directions, quartic, second_moment
from laybare.refinement.normal import Point, network_of
from laybare.shapes import Array, Sums
from laybare.source import Source

SHARPENING = 5
BIASES = np.linspace(-1.5, 1.5, 7)


def missing_units(source: Source, point: Point, count: int) -> Array:
    """Up to `count` rows (w, b) that the residual of `point` asks for; inputs must be whitened. About ten passes."""
    if count < 1:
        return np.empty((0, source.dim + point.biases))
    residual = Residual(source, network_of(point, vector=False))
    linear, quadratic = (Residual(residual, fit_control(residual, degree, units=None)) for degree in (1, 2))
    rows = leading_directions(second_moment(linear), min(count, source.dim)).T
    fourth = quartic(quadratic)
    for _ in range(SHARPENING):
        cubes = fourth.cubes(rows)
        cubes = cubes / max(float(np.abs(cubes).max()), np.finfo(float).tiny)  # whatever the unit of y is
        along = np.einsum("ord,rd->or", cubes, rows)
        rows = np.einsum("or,ord->rd", along, cubes)
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    if not point.biases:
        return np.asarray(rows)
    squares, moment, total, outputs = linear.sum(_Correlation(rows), stage="peeling")
    spread = np.maximum(squares - total**2 / source.size, 1e-12 * squares.max())
    pull = np.sum((moment - total[..., None] * outputs / source.size) ** 2, axis=2) / spread
    return np.column_stack([rows, BIASES[np.argmax(pull, axis=1)]])


@dataclass(frozen=True, eq=False)
class _Correlation:
    """Statistic: squares of the features |w·x + b| for every row and grid bias, and their products with the residual."""

    rows: Array

    @property
    def row_floats(self) -> int:
        return 2 * len(self.rows) * len(BIASES)

    def __call__(self, x: Array, y: Array) -> Sums:
        features = np.abs((x @ self.rows.T)[:, :, None] + BIASES)
        flat = features.reshape(len(x), -1)
        shape = features.shape[1:]
        moment = (flat.T @ y).reshape(*shape, y.shape[1])
        return np.sum(flat**2, axis=0).reshape(shape), moment, flat.sum(axis=0).reshape(shape), y.sum(axis=0)
