"""First-order baselines, for study: gradient descent as printed, L-BFGS, Adam. None of them is a default.

The risk is f = |y - net(x)|² / (2n), as in Zhong et al. (2017), section 4. Their Algorithm 2 moves the hidden weights only, with
a fixed step, and with resampling takes a fresh part of the data at every step (T + 1 parts for T steps; the pseudo-code's q + 1
is a slip). Near the truth one step shrinks the error by 1 - step · λ_min of the Hessian.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput, TooFewSamples
from laybare.numerics.levels import FLOOR_LOSS
from laybare.numerics.shapes import Array
from laybare.solver import Trace, TraceRow, options
from laybare.solver.matrix_free import GradientStatistic, ProductStatistic, joined
from laybare.solver.point import FittedPoint, Point, Split, split
from laybare.source import Source

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
    return FittedPoint(point, gradient(source, point).loss, Trace(tuple(rows), "steps"))


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
    return FittedPoint(_at(start, result.x, cut), float(result.fun) * 2.0 * source.size, Trace(kept, reason))


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
    return FittedPoint(point, rows[-1].loss * scale, Trace(tuple(rows), reason))


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
