"""Polynomials of hidden features: the layers above the lowest one, and what is fitted to them.

P(X) = Σ_r c_r Π_j X_j^{r_j}, one row of `exponents` per monomial. Subsets S of units are rows of zeros and ones (multilinear).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from laybare.numerics.shapes import Array


@dataclass(frozen=True, eq=False)
class Polynomial:
    """`exponents` (q, k), whole numbers ≥ 0, and `coefficients` (q,) or (q, outputs)."""

    exponents: Array
    coefficients: Array

    def __call__(self, features: Array) -> Array:
        """P at the rows of `features` (n, k): (n,) or (n, outputs)."""
        return np.asarray(monomials(self.exponents, features) @ self.coefficients)

    def gradient(self, features: Array) -> Array:
        """∂P/∂X_j at the rows of `features`, for one output: (n, k)."""
        width = self.exponents.shape[1]
        slopes = [_differentiate(self.exponents, j) for j in range(width)]
        return np.column_stack([monomials(lower, features) @ (factor * self.coefficients) for lower, factor in slopes])

    def alone(self, unit: int) -> Polynomial:
        """q_unit: all other features set to 0, without the constant (appendix B.8)."""
        others = np.delete(self.exponents, unit, axis=1).sum(axis=1)
        kept = (others == 0) & (self.exponents[:, unit] > 0)
        return Polynomial(self.exponents[kept][:, [unit]], self.coefficients[kept])


def monomials(exponents: Array, features: Array) -> Array:
    """Π_j X_j^{r_j} for every row r of `exponents`: (n, q)."""
    out = np.ones((len(features), len(exponents)))
    for j in range(exponents.shape[1]):
        for power in range(1, int(exponents[:, j].max(initial=0)) + 1):
            with_power = exponents[:, j] >= power
            out[:, with_power] *= features[:, [j]]
    return out


def multilinear(width: int, degree: int) -> Array:
    """Exponents of all products of at most `degree` different units, the constant first."""
    rows = [subset for size in range(min(degree, width) + 1) for subset in combinations(range(width), size)]
    exponents = np.zeros((len(rows), width), dtype=int)
    for row, subset in enumerate(rows):
        exponents[row, list(subset)] = 1
    return exponents


def with_powers(exponents: Array, highest: int) -> Array:
    """The same monomials and the pure powers X_j², …, X_j^highest."""
    width = exponents.shape[1]
    pure = [power * np.eye(width, dtype=int) for power in range(2, highest + 1)]
    return np.vstack([exponents, *pure]) if pure else exponents


def count_multilinear(width: int, degree: int) -> int:
    """Number of rows of `multilinear`."""
    return sum(comb(width, size) for size in range(min(degree, width) + 1))


def _differentiate(exponents: Array, unit: int) -> tuple[Array, Array]:
    """Exponents and factors of ∂/∂X_unit of every monomial; those without the unit get the factor 0."""
    lower = exponents.copy()
    lower[:, unit] = np.maximum(lower[:, unit] - 1, 0)
    return lower, exponents[:, unit].astype(float)
