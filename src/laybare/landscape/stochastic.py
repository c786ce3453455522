"""The squared loss over samples, (1/n) Σ (y - Σⱼ aⱼ γ(bⱼ·x))² for any response γ, and stochastic gradients with fresh samples.

With γ = act it is the empirical f, with γ = σ₂h₂ + σ₄h₄ and unit rows the empirical f′ as printed. Its gradient needs one pass,
its Hessian products another. A stream gives one objective per step, each on samples of its own. The average over a batch is an
unbiased gradient of the population objective (of F's too: its penalty is a U-statistic).
Source: Ge, Lee & Ma (2018), section 4, Corollary 2.4, equations (2.2) and (2.5); steps, μ, λ and start are not stated there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition.components import unit_rows
from laybare.errors import InvalidInput, TooFewSamples
from laybare.landscape.fourth_moment import coefficient
from laybare.landscape.minimisers import OPTIONS
from laybare.landscape.objective import Domain, Objective, UnitRows, ValueAndGradient, random_rows
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source

SECOND_DIFFERENCE_STEP = 1e-5
"""Step h of the difference quotient for γ″. Derived: its errors, h² and rounding/h, are both about 1e-11."""

Curve = Callable[[Array], Array]


class Response(NamedTuple):
    """What a hidden unit of the model computes, with two derivatives."""

    value: Curve
    derivative: Curve
    second: Curve


def response_of(activation: Activation) -> Response:
    """The activation itself; γ″ by differences, and 0 for piecewise linear ones."""
    def second(t: Array) -> Array:
        if activation.degree == 1:
            return np.zeros_like(t)
        h = SECOND_DIFFERENCE_STEP
        return (activation.derivative(t + h) - activation.derivative(t - h)) / (2.0 * h)

    return Response(activation, activation.derivative, second)


def even_response(activation: Activation) -> Response:
    """γ = σ₂h₂ + σ₄h₄."""
    c2, c4 = coefficient(activation, 2) / sqrt(2.0), coefficient(activation, 4) / sqrt(24.0)
    def value(t: Array) -> Array:
        square = t * t  # a power of an array takes ten times a product
        return np.asarray(c2 * (square - 1.0) + c4 * ((square - 6.0) * square + 3.0))

    return Response(
        value, lambda t: t * (2.0 * c2 + c4 * (4.0 * (t * t) - 12.0)), lambda t: 2.0 * c2 + c4 * (12.0 * (t * t) - 12.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledRisk:
    """The mean squared loss in [a | B] over `source` (one output); the domain says whether rows have length 1."""

    source: Source
    response: Response
    width: int
    domain: Domain = UnitRows(1)
    truth: Array | None = None

    def value_and_gradient(self, point: Array) -> ValueAndGradient:
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


Stream = Callable[[int], Objective]

@dataclass(frozen=True, kw_only=True)
class StepSchedule:
    """Step length and number of steps. The length is divided by `factor` after every `every` steps once `hold` are done.

    The paper divides by 4 every 5000 steps after 10,000.
    """

    step: float = 0.01
    count: int = 2000
    hold: int = 10_000
    every: int = 5000
    factor: float = 4.0
    record: int = 100

    def length(self, step: int) -> float:
        """Length of that step."""
        return self.step / self.factor ** max(0, (step - self.hold) // self.every + 1) if step >= self.hold else self.step


class DescentPath(NamedTuple):
    """The last point, and at every `record` steps: the step's number, the point, the batch's value."""

    point: Array
    at: tuple[int, ...]
    points: tuple[Array, ...]
    values: tuple[float, ...]


def stochastic_descent(stream: Stream, start: Array, steps: StepSchedule = StepSchedule()) -> DescentPath:
    """b ← project(b - step · tangent gradient), a fresh objective from `stream` every time."""
    point, at, points, values = start, list[int](), list[Array](), list[float]()
    for number in range(steps.count + 1):
        objective = stream(number)
        slope = objective.value_and_gradient(point)
        if number % steps.record == 0 or number == steps.count:
            at, points, values = [*at, number], [*points, point], [*values, slope.value]
        if number == steps.count:
            break
        gradient = objective.domain.tangent(point, slope.gradient)
        point = objective.domain.project(point - steps.length(number) * gradient)
        if not np.abs(point).max() < OPTIONS.diverged_entry:
            raise InvalidInput(
                f"With step {steps.step:g} the rows grew beyond {OPTIONS.diverged_entry:g} after {number + 1} steps.",
                "The step is longer than the curvature of the objective allows.", f"Try a step of {steps.step / 10:g}.",
                step=steps.step, steps=number + 1)
    return DescentPath(point, tuple(at), tuple(points), tuple(values))


def batch_stream(source: Source, batch: int, make: Callable[[Source], Objective]) -> Stream:
    """A stream over consecutive batches of a source, none used twice."""
    def stream(step: int) -> Objective:
        if (step + 1) * batch > source.size:
            raise TooFewSamples(
                f"{source.size:,} samples hold {source.size // batch:,} batches of {batch:,}; step {step} asks for one more.",
                "Every step takes samples that no step before it has seen.",
                f"Give {(step + 1) * batch:,} samples or more, smaller batches, or fewer steps.",
                samples=source.size, batch=batch)
        return make(source.between(step * batch, (step + 1) * batch))

    return stream
