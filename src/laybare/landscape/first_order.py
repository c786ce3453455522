"""First-order descent, for study: with all samples, in batches, with fresh samples.

First-order baselines, for study: gradient descent as printed, L-BFGS, Adam. None of them is a default.

The risk is f = |y - net(x)|² / (2n), as in Zhong et al. (2017), section 4. Their Algorithm 2 moves the hidden weights only, with
a fixed step, and with resampling takes a fresh part of the data at every step (T + 1 parts for T steps; the pseudo-code's q + 1
is a slip). Near the truth one step shrinks the error by 1 - step · λ_min of the Hessian.

The squared loss over samples, (1/n) Σ (y - Σⱼ aⱼ γ(bⱼ·x))² for any response γ, and stochastic gradients with fresh samples.

With γ = act it is the empirical f, with γ = σ₂h₂ + σ₄h₄ and unit rows the empirical f′ as printed. Its gradient needs one pass,
its Hessian products another. A stream gives one objective per step, each on samples of its own. The average over a batch is an
unbiased gradient of the population objective (of F's too: its penalty is a U-statistic).
Source: Ge, Lee & Ma (2018), section 4, Corollary 2.4, equations (2.2) and (2.5); steps, μ, λ and start are not stated there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.decomposition.components import unit_rows
from laybare.errors import InvalidInput, TooFewSamples
from laybare.landscape.minimisers import OPTIONS
from laybare.landscape.objective import Domain, Objective, UnitRows, ValueAndGradient, coefficient, random_rows
from laybare.numerics.levels import FLOOR_LOSS
from laybare.numerics.shapes import Array, Sums
from laybare.solver import Trace, TraceRow, options
from laybare.solver.matrix_free import GradientStatistic, ProductStatistic, joined
from laybare.solver.point import FittedPoint, Point, Split, split
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


_Samples: TypeAlias = Callable[[int], Source]


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Fixed-step descent: `step`, how many of them, whether the coefficients move too, whether every step has fresh samples.

    It ends early at a relative loss of `tol`, and if the loss fell by less than the share `flat` of it within `window` steps.
    `momentum` is Nesterov's, begun anew whenever the loss grows.
    """

    step: float = 0.02
    max_steps: int = 1000
    readout: bool = False
    resample: bool = False
    momentum: bool = False
    flat: float = 0.0
    window: int = 500
    tol: float = FLOOR_LOSS


@dataclass(frozen=True, kw_only=True)
class MiniBatches:
    """Steps of a stochastic descent: their size, how many, and the rows of each. Convention: what is usual for Adam."""

    step: float = 1e-2
    max_steps: int = 1500
    size: int = 512


class Gradient(NamedTuple):
    """Residual sum of squares, and the gradient of the risk f in rows and coefficients."""

    loss: float
    rows: Array
    coefficients: Array


def gradient(source: Source, point: Point) -> Gradient:
    """Loss and gradient of the risk at a point; one pass."""
    loss, *parts = source.sum(GradientStatistic(point), stage="gradient")
    rows, coefficients = joined(point, Split(*parts))
    return Gradient(float(loss), -rows / source.size, -coefficients / source.size)


def gradient_descent(source: Source, start: Point, scale: float, descent: Descent = Descent()) -> FittedPoint:
    """Algorithm 2 of Zhong et al. (2017): `descent.max_steps` steps of fixed size, the hidden rows alone unless `readout`."""
    parts = list(_parts(source, descent.max_steps + 1)) if descent.resample else None
    return _walk(start, scale, descent, lambda step: source if parts is None else parts[step], source)


def adam(source: Source, start: Point, scale: float, batches: MiniBatches = MiniBatches(), *, rng: Generator) -> FittedPoint:
    """Adam with its usual constants on hidden rows and coefficients; each step takes `batches.size` consecutive rows, in an order
    drawn again for every epoch.

    Source: Kingma and Ba (2015), Algorithm 1.
    """
    begun, cut, rows = time.perf_counter(), start.units.size, []
    step, parts = batches.step, list(_parts(source, max(1, source.size // batches.size)))
    order = np.concatenate([rng.permutation(len(parts)) for _ in range(-(-batches.max_steps // len(parts)))])
    theta = np.concatenate([start.units.ravel(), start.coefficients.ravel()])
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, batches.max_steps + 1):
        part = parts[order[t - 1]]
        slope = gradient(part, _at(start, theta, cut))
        g = np.concatenate([slope.rows.ravel(), slope.coefficients.ravel()])
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        theta = theta - step * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        loss = slope.loss * source.size / part.size / scale
        rows.append(TraceRow(loss, step, 0.0, time.perf_counter() - begun, t * batches.size))
    point = _at(start, theta, cut)
    return FittedPoint(point, gradient(source, point).loss, None, Trace(tuple(rows), "steps"))


def lbfgs(source: Source, start: Point, scale: float, *, max_steps: int = 500) -> FittedPoint:
    """SciPy's L-BFGS on all parameters, hidden rows and coefficients."""
    from scipy.optimize import minimize

    begun, rows, passes = time.perf_counter(), [], 0
    cut = start.units.size

    def risk(theta: Array) -> tuple[float, Array]:
        nonlocal passes
        passes += 1
        slope = gradient(source, _at(start, theta, cut))
        rows.append(TraceRow(slope.loss / scale, 0.0, 0.0, time.perf_counter() - begun, passes * source.size))
        return slope.loss / (2.0 * source.size), np.concatenate([slope.rows.ravel(), slope.coefficients.ravel()])

    theta = np.concatenate([start.units.ravel(), start.coefficients.ravel()])
    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "ftol": 0.0, "gtol": 0.0}
    result = minimize(risk, theta, jac=True, method="L-BFGS-B", options=options)
    best = np.minimum.accumulate([row.loss for row in rows])
    kept = tuple(row for row, low in zip(rows, best, strict=True) if row.loss <= low)
    reason = "steps" if result.status == 1 else "flat"
    return FittedPoint(_at(start, result.x, cut), float(result.fun) * 2.0 * source.size, None, Trace(kept, reason))


def _at(start: Point, theta: Array, cut: int) -> Point:
    """The point with these parameters: `cut` of them are hidden rows."""
    return start.moved(theta[:cut].reshape(start.units.shape), theta[cut:].reshape(start.coefficients.shape))


def largest_curvature(source: Source, point: Point, *, rng: Generator, iterations: int = 20) -> float:
    """Largest eigenvalue of the Gauss-Newton Hessian of f in the hidden rows, by the power method; steps above 2/λ diverge."""
    v = np.asarray(rng.standard_normal(point.units.shape))
    zero = np.zeros_like(point.coefficients)
    value = 0.0
    for _ in range(iterations):
        v = v / np.linalg.norm(v)
        image, _ = joined(point, Split(*source.sum(ProductStatistic(point, split(point, v, zero)), stage="curvature")))
        value, v = float(np.vdot(v, image)) / source.size, image
    return value


def _walk(start: Point, scale: float, descent: Descent, samples: _Samples, source: Source) -> FittedPoint:
    begun, point, touched, rows, reason = time.perf_counter(), start, 0, [], "steps"
    first, reached, pace = np.inf, start, 0
    try:
        for step in range(descent.max_steps + 1):
            part = samples(step)
            slope = gradient(part, point)
            touched += part.size
            loss = slope.loss * source.size / part.size
            first = min(first, loss) if step == 0 else first
            if not loss <= options.SOLVER.diverged * max(first, scale):
                raise _diverged(source, start, descent.step, first, loss)
            length = descent.step * float(np.abs(slope.rows).max())
            rows.append(TraceRow(loss / scale, length, descent.step, time.perf_counter() - begun, touched))
            if loss <= descent.tol * scale:
                reason = "floor"
                break
            if _is_flat(rows, descent):
                reason = "flat"
                break
            if step < descent.max_steps:
                change = descent.step * slope.coefficients if descent.readout else 0.0
                before, reached = reached, point.moved(point.units - descent.step * slope.rows, point.coefficients - change)
                pace = pace + 1 if descent.momentum and (step == 0 or rows[-1].loss <= rows[-2].loss) else 0
                point = _extrapolated(before, reached, pace / (pace + 3)) if pace else reached
    except KeyboardInterrupt:
        if not rows:
            raise
        reason = "interrupted"
    return FittedPoint(point, rows[-1].loss * scale, None, Trace(tuple(rows), reason))


def _is_flat(rows: list[TraceRow], descent: Descent) -> bool:
    """The loss fell by less than the share `flat` of it within the last `window` steps."""
    return len(rows) > descent.window and rows[-1 - descent.window].loss - rows[-1].loss < descent.flat * rows[-1].loss


def _extrapolated(before: Point, reached: Point, share: float) -> Point:
    """`share` of the last move further."""
    units, coefficients = reached.units - before.units, reached.coefficients - before.coefficients
    return reached.moved(reached.units + share * units, reached.coefficients + share * coefficients)


def _diverged(source: Source, start: Point, step: float, first: float, loss: float) -> InvalidInput:
    limit = 2.0 / largest_curvature(source, start, rng=np.random.default_rng(0))
    return InvalidInput(
        f"With step {step:g} the squared error grew from {first:.2e} to {loss:.2e}.",
        f"At the start, steps above 2/λ_max = {limit:.2g} climb instead of descending.",
        f"Give a step below {limit / 2:.2g}.", step=step, limit=limit)


def _parts(source: Source, count: int) -> Iterator[Source]:
    if count > source.size:
        raise TooFewSamples(
            f"{source.size:,} samples for {count:,} parts.", "Every step with resampling needs samples of its own.",
            f"Take at most {source.size - 1:,} steps, or no resampling.", samples=source.size, parts=count)
    edges = np.linspace(0, source.size, count + 1).astype(int)
    for low, high in pairwise(edges):
        yield source.between(int(low), int(high))
