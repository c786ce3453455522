"""The squared loss over samples, a whole source or one batch: (1/n) Σ (y - Σⱼ aⱼ γ(bⱼ·x))² for any response γ.

With γ = act it is the empirical f, with γ = σ₂h₂ + σ₄h₄ and unit rows the empirical f′ as printed. Its gradient needs one pass,
its Hessian products another; stochastic gradients take a fresh batch for each.
Source: Ge, Lee & Ma (2018), equations (2.2) and (2.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.landscape.domain import Domain, UnitRows
from laybare.landscape.objective import ValueAndGradient, random_rows, unit_rows
from laybare.landscape.operators import coefficient
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

NUDGE = 1e-5
"""Step of the difference quotient for γ″: its errors, NUDGE² and rounding/NUDGE, are both about 1e-11."""

Curve = Callable[[Array], Array]


class Response(NamedTuple):
    """What a hidden unit of the model does, with two derivatives."""

    value: Curve
    derivative: Curve
    second: Curve


def response_of(activation: Activation) -> Response:
    """The activation itself; γ″ by differences, and 0 for those made of straight lines."""
    def second(t: Array) -> Array:
        if activation.degree == 1:
            return np.zeros_like(t)
        return (activation.derivative(t + NUDGE) - activation.derivative(t - NUDGE)) / (2.0 * NUDGE)

    return Response(activation, activation.derivative, second)


def even_response(activation: Activation) -> Response:
    """γ = σ₂h₂ + σ₄h₄."""
    c2, c4 = coefficient(activation, 2) / sqrt(2.0), coefficient(activation, 4) / sqrt(24.0)
    return Response(
        lambda t: c2 * (t * t - 1.0) + c4 * (t**4 - 6.0 * t * t + 3.0),
        lambda t: 2.0 * c2 * t + c4 * (4.0 * t**3 - 12.0 * t),
        lambda t: 2.0 * c2 + c4 * (12.0 * t * t - 12.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledRisk:
    """The mean squared loss in [a | B] over `source` (one output); the domain says whether rows have length 1."""

    source: Source
    response: Response
    width: int
    domain: Domain = UnitRows(1)
    truth: Array | None = None

    def slope(self, point: Array) -> ValueAndGradient:
        """Value and gradient; one pass, time n·m·d."""
        loss, column, rows = self.source.sum(_Gradient(point, self.response), stage="batch")
        return ValueAndGradient(float(loss) / self.source.size, self._joined(column, rows))

    def hessian_times(self, point: Array, direction: Array) -> Array:
        """Hessian product; one pass."""
        column, rows = self.source.sum(_Hessian(point, direction, self.response), stage="batch")
        return self._joined(column, rows)

    def start(self, rng: Generator) -> Array:
        """Readouts 1, random unit rows."""
        return np.column_stack([np.ones(self.width), random_rows(self.width, self.source.dim, rng)])

    def directions(self, point: Array) -> Array:
        """The rows, scaled to length 1."""
        return unit_rows(point[:, 1:])

    def _joined(self, column: Array, rows: Array) -> Array:
        return 2.0 * np.column_stack([column, rows]) / self.source.size


@dataclass(frozen=True, eq=False)
class _Gradient:
    """Statistic: Σ e², Σ e γ(z), Σ e aγ′(z) x with e = aᵀγ(z) - y."""

    point: Array
    response: Response

    def __call__(self, x: Array, y: Array) -> Sums:
        a, B = self.point[:, 0], self.point[:, 1:]
        Z = x @ B.T
        features = self.response.value(Z)
        error = features @ a - y[:, 0]
        pull = self.response.derivative(Z) * (error[:, None] * a)
        return np.asarray(error @ error), error @ features, pull.T @ x


@dataclass(frozen=True, eq=False)
class _Hessian:
    """Statistic: the change of the two gradients along `direction`."""

    point: Array
    direction: Array
    response: Response

    def __call__(self, x: Array, y: Array) -> Sums:
        a, B, da, V = self.point[:, 0], self.point[:, 1:], self.direction[:, 0], self.direction[:, 1:]
        Z, dZ = x @ B.T, x @ V.T
        features, slopes = self.response.value(Z), self.response.derivative(Z)
        error = features @ a - y[:, 0]
        moved = slopes * dZ
        change = features @ da + moved @ a
        pull = slopes * (change[:, None] * a + error[:, None] * da) + self.response.second(Z) * dZ * (error[:, None] * a)
        return change @ features + error @ moved, pull.T @ x
