"""How far the answers of a network may be from the true ones, if its numbers were measured with known errors.

To first order a unit's row and bias with errors δw, δb change the answer at x by D (δw·h + δb), where h are the features that it
reads at x, and D = ∂y/∂z. Errors of different units, and of the entries of a row, come from different queries:

    Var y(x) = Σ_layers Σ_units D² (sd(w)² |h|² + sd(b)²).

A fit of all numbers to the answers would leave rounding alone. Where a network is too large for it, what is left of the answers
is compared with this, beside rounding: far more than that is something else than errors of measurement, such as a unit that is
missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.lines.joint_polish import Deep, hidden_features, unit_slopes
from laybare.shapes import Array


class LayerErrors(NamedTuple):
    """Standard deviations of the entries of every row, (m,), and of every bias, (m,)."""

    rows: Array
    biases: Array

    @property
    def largest(self) -> float:
        return float(max(self.rows.max(initial=0.0), self.biases.max(initial=0.0)))

    def improved(self, measured: LayerErrors) -> LayerErrors:
        """The errors of units that were measured again; those of others, for which `measured` is infinite, as they were."""
        again = np.isfinite(measured.rows)
        return LayerErrors(np.where(again, measured.rows, self.rows), np.where(again, measured.biases, self.biases))


def answer_sd(network: Deep, errors: tuple[LayerErrors, ...], x: Array) -> Array:
    """Standard deviations (n,) of the worst output at inputs x (n, dim), from the errors of all layers; the readout is exact."""
    features = hidden_features(network, x)
    variance = np.zeros((len(x), len(network.offset)))
    for output in range(len(network.offset)):
        for below, slope, layer in zip(features, unit_slopes(network, features, output), errors, strict=False):
            square, size = slope**2, np.sum(below**2, axis=1)
            variance[:, output] += size * (square @ layer.rows**2) + square @ layer.biases**2
    return np.asarray(np.sqrt(variance.max(axis=1)))
