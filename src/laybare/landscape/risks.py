"""The squared loss in the population, f = E(y - Σ aⱼ γ(bⱼ·x))², and f′, which sees the moments of orders 2 and 4 alone.

f as Hermite series (unit rows; σ_k of the teacher's activation, γ_k of the student's; κ(r) applied elementwise):

    f = a*ᵀ κ_σσ(B*B*ᵀ) a* + aᵀ κ_γγ(BBᵀ) a - 2 a*ᵀ κ_σγ(B*Bᵀ) a,      κ_στ(r) = Σ_k σ_k τ_k r^k

f for ReLU (rows w of any length, the readout is part of it; θ the angle of w and v):

    E[relu(w·x) relu(v·x)] = |w||v| (sin θ + (π - θ) cos θ)/(2π),      ∂/∂w = (|v| sin θ w̄ + (π - θ) v)/(2π)

with w̄ = w/|w|. Its second derivatives are those of Safran & Shamir (2018), n_vw = (v̄ - cos θ w̄)/sin θ:

    ∂²/∂w² = |v| sin θ/(2π|w|) (I - w̄w̄ᵀ + n_vw n_vwᵀ),      ∂²/∂v∂w · x = ((π - θ) x + w̄ (n_vw·x) + v̄ (n_wv·x))/(2π)

The ReLU series has terms of order k^-5/2 and converges slowly; the closed form has no such error.

f′ for unit rows b, with M = Σ aᵢ* bᵢ*bᵢ*ᵀ = E[y He₂]/(√2 σ₂), A = Σ aᵢ* bᵢ*^⊗4 = E[y He₄]/(√24 σ₄), K = BBᵀ, ∘ elementwise:

    f′(a, B) = w₂ |M - Σ aⱼ bⱼbⱼᵀ|² + w₄ |A - Σ aⱼ bⱼ^⊗4|²
             = aᵀ(w₂ K^∘2 + w₄ K^∘4)a - 2 Σⱼ aⱼ(w₂ bⱼᵀMbⱼ + w₄ A[bⱼ⁴]) + constant

With w_k = σ_k² this is the risk of the model Σ aⱼ γ(bⱼ·x), γ = σ₂h₂ + σ₄h₄, up to a constant. It needs no inverse of M and has no
parameters to choose; that it has no spurious minima is a conjecture, not a theorem. Points are [a | B].
Source: Ge, Lee & Ma (2018), Theorems 2.1, 2.2 and A.4, Claims A.2 and A.3, equations (2.5), (2.6); Cho & Saul (2009) for the
kernel; the form of f′ in moments is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial, sqrt

import numpy as np
from numpy.polynomial import polynomial
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition.components import unit_rows
from laybare.landscape.objective import (
    Domain,
    FourthMoment,
    FreeSpace,
    Teacher,
    UnitRows,
    ValueAndGradient,
    coefficient,
    random_rows,
)
from laybare.numerics.shapes import Array

PARALLEL_SINE = 1e-12
"""sin θ below which rows are parallel: there is no second derivative, n is zero. Checked by `pytest tests/landscape`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesRisk:
    """f_γ in [a | B] with unit rows; `true` and `model` are the coefficients σ_k and γ_k, k = 0, 1, …

    The domain UnitRows(1, held=1) keeps the readout as it starts: at 1.
    """

    teacher: Teacher
    true: Array
    model: Array
    domain: Domain = UnitRows(1)

    @property
    def truth(self) -> Array:
        return self.teacher.directions

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
        """Value and gradient. Time m²·(d + terms)."""
        a, B, a0, B0 = point[:, 0], point[:, 1:], self.teacher.readout, self.teacher.directions
        K, L = B @ B.T, B @ B0.T
        own, cross = self.model**2, self.model * self.true
        kernel, other = _kernel(K, own), _kernel(L, cross)
        value = self._constant + float(a @ kernel @ a - 2.0 * a @ other @ a0)
        rows = (_kernel(K, own, 1) * np.outer(a, a)) @ B - (_kernel(L, cross, 1) * np.outer(a, a0)) @ B0
        return ValueAndGradient(value, 2.0 * np.column_stack([kernel @ a - other @ a0, rows]))

    def hessian_times(self, point: Array, direction: Array) -> Array:
        """Hessian product."""
        a, B, da, V = point[:, 0], point[:, 1:], direction[:, 0], direction[:, 1:]
        a0, B0 = self.teacher.readout, self.teacher.directions
        K, L, dK, dL = B @ B.T, B @ B0.T, V @ B.T + B @ V.T, V @ B0.T
        own, cross = self.model**2, self.model * self.true
        first, side = _kernel(K, own, 1), _kernel(L, cross, 1)
        column = (first * dK) @ a + _kernel(K, own) @ da - (side * dL) @ a0
        rows = (_kernel(K, own, 2) * dK * np.outer(a, a) + first * (np.outer(da, a) + np.outer(a, da))) @ B
        rows += (first * np.outer(a, a)) @ V
        rows -= (_kernel(L, cross, 2) * dL * np.outer(a, a0) + side * np.outer(da, a0)) @ B0
        return 2.0 * np.column_stack([column, rows])

    def start(self, rng: Generator) -> Array:
        """Readouts 1, random unit rows."""
        rows = random_rows(self.teacher.width, self.teacher.dim, rng)
        return np.column_stack([np.ones(len(rows)), rows])

    def directions(self, point: Array) -> Array:
        """The rows."""
        return point[:, 1:]

    @cached_property
    def _constant(self) -> float:
        a0, B0 = self.teacher.readout, self.teacher.directions
        return float(a0 @ _kernel(B0 @ B0.T, self.true**2) @ a0)


def series_risk(
    teacher: Teacher, orders: int, model: Activation | None = None, *, keep: tuple[int, ...] | None = None,
    domain: Domain = UnitRows(1),
) -> SeriesRisk:
    """f with the Hermite coefficients of orders 0, …, `orders`; `model` is the student's activation, the teacher's by default.

    `keep` leaves only those orders in the student: (2, 4) gives f′.
    """
    true, own = (
        np.array([coefficient(activation, k) for k in range(orders + 1)])
        for activation in (teacher.activation, model or teacher.activation))
    if keep is not None:
        own = np.where(np.isin(np.arange(orders + 1), keep), own, 0.0)
    return SeriesRisk(teacher=teacher, true=true, model=own, domain=domain)


def _kernel(r: Array, coefficients: Array, derivative: int = 0) -> Array:
    """κ(r) = Σ_k coefficients_k r^k, or one of its derivatives, elementwise."""
    kept = polynomial.polyder(coefficients, derivative) if derivative else coefficients
    return np.asarray(polynomial.polyval(r, kept))


@dataclass(frozen=True, eq=False)
class ReLURisk:
    """f of a ReLU teacher in rows W (width, dim) of free length, wⱼ = aⱼbⱼ; exact. 0 at the truth."""

    teacher: Teacher

    @property
    def domain(self) -> Domain:
        """All rows."""
        return FreeSpace()

    @property
    def truth(self) -> Array:
        return self.teacher.directions

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
        """Value and gradient. Time m²·d."""
        own, other = _Angles.of(point, point), _Angles.of(point, self._target)
        value = self._constant + float(own.kernel.sum() - 2.0 * other.kernel.sum())
        return ValueAndGradient(value, 2.0 * (own.gradient() - other.gradient()))

    def hessian_times(self, point: Array, direction: Array) -> Array:
        """Hessian product. Time m²·d."""
        own, other = _Angles.of(point, point), _Angles.of(point, self._target)
        return 2.0 * (own.second_derivative(direction) + own.mixed_derivative(direction) - other.second_derivative(direction))

    def start(self, rng: Generator) -> Array:
        """Unit rows, as the paper's a = 1."""
        return random_rows(self.teacher.width, self.teacher.dim, rng)

    def directions(self, point: Array) -> Array:
        """The rows, scaled to length 1."""
        return unit_rows(point)

    @cached_property
    def _target(self) -> Array:
        return np.asarray(self.teacher.readout[:, None] * self.teacher.directions)

    @cached_property
    def _constant(self) -> float:
        return float(_Angles.of(self._target, self._target).kernel.sum())


@dataclass(frozen=True, eq=False)
class _Angles:
    """Rows w and v, their lengths, unit rows, cos, sin and π - θ of all pairs."""

    left: Array
    right: Array
    lengths: Array
    across: Array
    cos: Array
    sin: Array
    rest: Array

    @staticmethod
    def of(w: Array, v: Array) -> _Angles:
        left, right = unit_rows(w), unit_rows(v)
        cos = np.clip(left @ right.T, -1.0, 1.0)
        sin = np.sqrt(np.maximum(1.0 - cos**2, 0.0))
        if w is v:
            np.fill_diagonal(cos, 1.0)
            np.fill_diagonal(sin, 0.0)
        lengths, across = np.linalg.norm(w, axis=1)[:, None], np.linalg.norm(v, axis=1)
        return _Angles(left, right, lengths, across, cos, sin, np.pi - np.arctan2(sin, cos))

    @property
    def kernel(self) -> Array:
        """E[relu(w·x) relu(v·x)] of all pairs."""
        return np.asarray(self.lengths * self.across * (self.sin + self.rest * self.cos) / (2.0 * np.pi))

    def gradient(self) -> Array:
        """Σ_v ∂kernel(w, v)/∂w for every w."""
        along = (self.sin @ self.across)[:, None] * self.left + (self.rest * self.across) @ self.right
        return np.asarray(along / (2.0 * np.pi))

    def second_derivative(self, x: Array) -> Array:
        """Σ_v ∂²kernel(w, v)/∂w² x_w for every w."""
        own = np.sum(self.left * x, axis=1, keepdims=True)
        scale = self.across / (2.0 * np.pi * np.maximum(self.lengths, np.finfo(float).tiny))
        tilt = scale * self._inverse_sin * (x @ self.right.T - self.cos * own)
        rows = np.sum(scale * self.sin, axis=1, keepdims=True) * (x - own * self.left)
        return np.asarray(rows + tilt @ self.right - np.sum(tilt * self.cos, axis=1, keepdims=True) * self.left)

    def mixed_derivative(self, x: Array) -> Array:
        """Σ_v ∂²kernel(w, v)/∂v∂w x_v for every w; x has the rows of v."""
        own = np.sum(self.right * x, axis=1)
        toward, away = self.left @ x.T, self._inverse_sin
        first = np.sum(away * (own - self.cos * toward), axis=1, keepdims=True) * self.left
        second = (away * (toward - self.cos * own)) @ self.right
        return np.asarray((self.rest @ x + first + second) / (2.0 * np.pi))

    @cached_property
    def _inverse_sin(self) -> Array:
        return np.where(self.sin > PARALLEL_SINE, 1.0 / np.maximum(self.sin, PARALLEL_SINE), 0.0)


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

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
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


def order_energy(teacher: Teacher, order: int) -> float:
    """σ_k² |Σ aᵢ bᵢ^⊗k|²: what order k of a network adds to E[y²]."""
    a, K = teacher.readout, teacher.directions @ teacher.directions.T
    return float(coefficient(teacher.activation, order) ** 2 * (a @ K**order @ a))


def least_risk(teacher: Teacher, orders: tuple[int, ...]) -> float:
    """The constant of (2.6) for a ReLU teacher: E[y²] less what these orders have of it, the least risk of a model of them."""
    return ReLURisk(teacher).value_and_gradient(np.zeros_like(teacher.directions)).value - sum(
        order_energy(teacher, order) for order in orders)
