"""f′: two tensors decomposed together, seen only through the moments of orders 2 and 4.

For unit rows b, with M = Σ aᵢ* bᵢ*bᵢ*ᵀ = E[y He₂]/(√2 σ₂), A = Σ aᵢ* bᵢ*^⊗4 = E[y He₄]/(√24 σ₄), K = BBᵀ, ∘ elementwise:

    f′(a, B) = w₂ |M - Σ aⱼ bⱼbⱼᵀ|² + w₄ |A - Σ aⱼ bⱼ^⊗4|²
             = aᵀ(w₂ K^∘2 + w₄ K^∘4)a - 2 Σⱼ aⱼ(w₂ bⱼᵀMbⱼ + w₄ A[bⱼ⁴]) + constant

With w_k = σ_k² this is the risk of the model Σ aⱼ γ(bⱼ·x), γ = σ₂h₂ + σ₄h₄, up to a constant. It needs no inverse of M and has no
parameters to choose; that it has no spurious minima is a conjecture, not a theorem. Points are [a | B].
Source: Ge, Lee & Ma (2018), equations (2.5), (2.6) and Theorem 2.2; the form in moments is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.landscape.domain import Domain, UnitRows
from laybare.landscape.objective import ValueAndGradient, random_rows
from laybare.landscape.operators import FourthMoment, Teacher, coefficient
from laybare.shapes import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorRisk:
    """f′ in [a | B], from `second` = M, `quartic` = E[y He₄] and the activation's σ₂, σ₄; starts with readouts tr(M)/width."""

    second: Array
    quartic: FourthMoment
    width: int
    low: float
    high: float
    constant: float = 0.0
    truth: Array | None = None

    @property
    def domain(self) -> Domain:
        """Readout free, rows of length 1."""
        return UnitRows(1)

    def slope(self, point: Array) -> ValueAndGradient:
        """Value and gradient: one contraction."""
        a, B = point[:, 0], point[:, 1:]
        w2, w4 = self.low**2, self.high**2
        K = B @ B.T
        kernel = w2 * K**2 + w4 * K**4
        image, cubes = self._images(B)
        u = np.sum(B * (w2 * image + w4 * cubes), axis=1)
        bent = (2.0 * w2 * K + 4.0 * w4 * K**3) * np.outer(a, a)
        rows = bent @ B - a[:, None] * (2.0 * w2 * image + 4.0 * w4 * cubes)
        value = float(a @ (kernel @ a) - 2.0 * a @ u) + self.constant
        return ValueAndGradient(value, 2.0 * np.column_stack([kernel @ a - u, rows]))

    def hessian_times(self, point: Array, direction: Array) -> Array:
        """Hessian product: two contractions."""
        a, B, da, V = point[:, 0], point[:, 1:], direction[:, 0], direction[:, 1:]
        w2, w4 = self.low**2, self.high**2
        K, dK = B @ B.T, V @ B.T + B @ V.T
        image, cubes = self._images(B)
        first, second = 2.0 * w2 * K + 4.0 * w4 * K**3, 2.0 * w2 + 12.0 * w4 * K**2
        pull = 2.0 * w2 * image + 4.0 * w4 * cubes
        moved = 2.0 * w2 * V @ self.second + 12.0 * w4 * self.quartic.squares(B, V)[0] / self._fourth
        column = (first * dK) @ a + (w2 * K**2 + w4 * K**4) @ da - np.sum(V * pull, axis=1)
        weights = second * dK * np.outer(a, a) + first * (np.outer(da, a) + np.outer(a, da))
        rows = weights @ B + (first * np.outer(a, a)) @ V - da[:, None] * pull - a[:, None] * moved
        return 2.0 * np.column_stack([column, rows])

    def start(self, rng: Generator) -> Array:
        """Equal readouts with the right trace, random unit rows."""
        readout = np.full(self.width, float(np.trace(self.second)) / self.width)
        return np.column_stack([readout, random_rows(self.width, len(self.second), rng)])

    def directions(self, point: Array) -> Array:
        """The rows."""
        return point[:, 1:]

    @property
    def _fourth(self) -> float:
        return sqrt(factorial(4)) * self.high

    def _images(self, B: Array) -> tuple[Array, Array]:
        """BM and A[b, b, b, ·]."""
        return B @ self.second, self.quartic.cubes(B)[0] / self._fourth


def tensor_risk(
    second: Array, quartic: FourthMoment, activation: Activation, width: int, *, truth: Array | None = None, constant: float = 0.0
) -> TensorRisk:
    """f′ from E[y He₂] (d, d) and E[y He₄] of one output."""
    low, high = coefficient(activation, 2), coefficient(activation, 4)
    return TensorRisk(
        second=second / (sqrt(2.0) * low), quartic=quartic, width=width, low=low, high=high, constant=constant, truth=truth)


def population_tensor_risk(teacher: Teacher, width: int | None = None) -> TensorRisk:
    """f′ of a known network, exact: 0 at the truth."""
    low, high = coefficient(teacher.activation, 2), coefficient(teacher.activation, 4)
    a, K = teacher.readout, teacher.directions @ teacher.directions.T
    return TensorRisk(
        second=teacher.gram(), quartic=teacher.quartic(), width=width or teacher.width, low=low, high=high,
        constant=float(a @ (low**2 * K**2 + high**2 * K**4) @ a), truth=teacher.directions)
