"""Least squares on any features of x, in one pass: the Gram matrix is a sum.

Normal equations in a basis that is nearly orthonormal (Hermite polynomials, whitened inputs) lose no accuracy that matters: the
relative error is about 1e-16 times the condition number, which is then that of a sample covariance. An SVD of all n rows
would cost 20 times as much and all the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.errors import TooFewSamples
from laybare.linear_algebra import inner, solve_spd
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

SAMPLES_A_FEATURE = 1.5
"""Fewest samples per feature: with fewer the fitted noise exceeds what is explained (measured for symmetric inputs)."""


@dataclass(frozen=True, eq=False)
class Regression:
    """y ≈ features(x) @ coefficients: `coefficients` (p, outputs), `residual` (outputs, outputs) = E[eeᵀ], `power` = E[yyᵀ]."""

    features: Callable[[Array], Array]
    coefficients: Array
    residual: Array
    power: Array

    def __call__(self, x: Array) -> Array:
        """Fitted outputs, (n, outputs)."""
        fitted: Array = self.features(x) @ self.coefficients
        return fitted

    @property
    def unexplained(self) -> float:
        """Share of E|y|² that is left."""
        return float(np.trace(self.residual) / max(np.trace(self.power), np.finfo(float).tiny))


def least_squares(source: Source, features: Callable[[Array], Array]) -> Regression:
    """Least squares of y on features, a function x (n, d) -> (n, p). Refused below 1.5 samples per feature."""
    count = features(np.zeros((1, source.dim))).shape[1]
    check_samples(source.size, count)
    gram, right, power = (part / source.size for part in source.sum(_RegressionSums(features, count), stage="least squares"))
    coefficients = solve_spd(gram, right)
    explained = coefficients.T @ right
    residual = power - explained - explained.T + coefficients.T @ gram @ coefficients
    return Regression(features, coefficients, residual, power)


def check_samples(size: int, features: int, ratio: float = SAMPLES_A_FEATURE) -> None:
    """Refuse a fit with fewer than `ratio` samples per feature."""
    if size < ratio * features:
        raise TooFewSamples(
            f"{size} samples for a least-squares fit with {features} features.",
            f"Below {ratio:g} samples per feature the fit follows the noise, and its residual is no longer the data's.",
            f"Give at least {int(np.ceil(ratio * features))} samples, or fit a lower degree.", size=size, features=features)


@dataclass(frozen=True, eq=False)
class _RegressionSums:
    """Statistic: FᵀF, FᵀY, YᵀY."""

    features: Callable[[Array], Array]
    count: int

    @property
    def row_floats(self) -> int:
        return 2 * self.count

    def __call__(self, x: Array, y: Array) -> Sums:
        F = self.features(x)
        return inner(F, F), inner(F, y), inner(y, y)
