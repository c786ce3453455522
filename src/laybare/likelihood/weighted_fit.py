"""Gauss-Newton for any loss: minimise Σ w · deviance(η(x), y), rows weighted by their information at the current outputs.

With J the Jacobian of the outputs η, and of each row the score u and the information i (`laybare.source.losses`):

    H = Σ w i JᵀJ,      g = Σ w Jᵀu,      (H + μ D + gauge + ridge) δ = g

The deviance falls by 2 g·δ - δᵀHδ, to second order. For the squared loss this is the step of `dense.py`, the readout not
eliminated: elimination is exact for least squares alone. Every sum is one pass.
Source: Nelder and Wedderburn (1972), who take H as it is for generalised linear models; Marquardt (1963) for the damping.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from laybare.numerics.linear_algebra import solve_spd
from laybare.numerics.shapes import Array, Progress, Sums
from laybare.solver.dense import cap_rows
from laybare.solver.loop import Effort, FitScale, Iterate, Trial, damped_descent
from laybare.solver.normal import Fit
from laybare.solver.point import FittedPoint, Point, output_gradients, outputs_at, parameter_count, unit_rows
from laybare.source.losses import LOSS, LikelihoodRows, Loss, labels_of


class LikelihoodSums(NamedTuple):
    """H, g, the deviance, and the sums Σ w u² and Σ w i of the dispersion."""

    information: Array
    gradient: Array
    deviance: Array
    squares: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class LikelihoodStatistic:
    """(x, [y, weight, group]) -> LikelihoodSums at a point."""

    point: Point
    loss: Loss

    @property
    def row_floats(self) -> int:
        return 3 * self.point.size

    @property
    def sum_floats(self) -> int:
        return self.point.size**2

    def __call__(self, x: Array, y: Array) -> Sums:
        labels = labels_of(y)
        each = self.loss.rows(outputs_at(self.point, x), labels.y)
        w = labels.weights[:, None]
        H, g = np.zeros((self.point.size,) * 2), np.zeros(self.point.size)
        for output in range(labels.y.shape[1]):
            J = output_gradients(self.point, x, output)
            g += J.T @ (labels.weights * each.score[:, output])
            J *= np.sqrt(labels.weights * each.information[:, output])[:, None]
            H += J.T @ J
        return LikelihoodSums(
            H, g, *(np.asarray(np.sum(w * part)) for part in (each.deviance, each.score**2, each.information)))


@dataclass(frozen=True, eq=False)
class DevianceStatistic:
    """(x, [y, weight, group]) -> the deviance at a point."""

    point: Point
    loss: Loss

    def __call__(self, x: Array, y: Array) -> Sums:
        labels = labels_of(y)
        deviance = self.loss.rows(outputs_at(self.point, x), labels.y).deviance
        return (np.asarray(np.sum(labels.weights[:, None] * deviance)),)


@dataclass(frozen=True, eq=False)
class FeatureStatistic:
    """(x, [y, weight, group]) -> Fit of the features that enter linearly, rows weighted by their information."""

    point: Point
    loss: Loss

    def __call__(self, x: Array, y: Array) -> Sums:
        labels = labels_of(y)
        features = self.point.features(x, self.point.extended(x) @ self.point.units.T)
        each = self.loss.rows(features @ self.point.coefficients, labels.y)
        weights = labels.weights * each.information.mean(axis=1)
        moment = features.T @ (labels.weights[:, None] * each.score)
        deviance = np.asarray(np.sum(labels.weights[:, None] * each.deviance))
        return Fit(features.T @ (features * weights[:, None]), moment, deviance, np.array(float(len(x))))


def sums_at(rows: LikelihoodRows, point: Point) -> LikelihoodSums:
    """All sums at a point; one pass."""
    return LikelihoodSums(*rows.sum(LikelihoodStatistic(point, rows.loss), stage="likelihood"))


def deviance_at(rows: LikelihoodRows, point: Point) -> float:
    """The deviance at a point; one pass."""
    (deviance,) = rows.sum(DevianceStatistic(point, rows.loss), stage="likelihood")
    return float(deviance)


class _LikelihoodSystem(NamedTuple):
    point: Point
    information: Array
    held: Array  # with the gauge and the ridge
    weight: Array  # of the damping
    gradient: Array


@dataclass(frozen=True, eq=False)
class LikelihoodRule:
    """The step rule; `ridge` penalises squared coefficients, but for the offset."""

    rows: LikelihoodRows
    ridge: float = 0.0
    passes: ClassVar[float] = 1.0

    def evaluate(self, point: Point) -> Iterate[Point, None]:
        loss = deviance_at(self.rows, point) + self.ridge * float(np.sum((self._penalised(point) * point.coefficients) ** 2))
        return Iterate(point, loss, None)

    def system(self, here: Iterate[Point, None]) -> _LikelihoodSystem:
        point, (k, p) = here.point, here.point.units.shape
        sums = sums_at(self.rows, point)
        penalty = np.append(np.zeros(k * p), np.broadcast_to(self.ridge * self._penalised(point), point.coefficients.shape))
        H = sums.information + np.diag(penalty)
        gradient = sums.gradient - penalty * np.append(point.units.ravel(), point.coefficients.ravel())
        diagonal = np.diag(H)
        weight = np.maximum(diagonal, 1e-12 * diagonal.max(initial=1e-270))
        held = H.copy()
        normals = point.normals
        if normals is not None:
            for j, normal in enumerate(normals):
                own = slice(j * p, (j + 1) * p)
                held[own, own] += weight[own].mean() * np.outer(normal, normal)
        return _LikelihoodSystem(point, H, held, weight, gradient)

    def trial(self, system: _LikelihoodSystem, damping: float) -> Trial[Point]:
        point, (k, p) = system.point, system.point.units.shape
        matrix = system.held.copy()
        matrix[np.diag_indices(len(matrix))] += damping * system.weight
        delta = solve_spd(matrix, system.gradient)
        rows = cap_rows(point.activation, point.units, delta[: k * p].reshape(k, p))
        delta[: k * p] = rows.ravel()
        predicted = float(delta @ (2.0 * system.gradient - system.information @ delta))
        coefficients = point.coefficients + delta[k * p :].reshape(point.coefficients.shape)
        return Trial(unit_rows(point, point.units + rows, coefficients), predicted, float(np.abs(delta).max(initial=0.0)))

    def _penalised(self, point: Point) -> Array:
        marks = np.ones((len(point.coefficients), 1))
        marks[point.width : point.width + point.offset] = 0.0
        return marks


def maximise_likelihood(
    rows: LikelihoodRows, start: Point, scale: float, *, ridge: float = 0.0, effort: Effort = Effort(),
    progress: Progress | None = None,
) -> FittedPoint:
    """The nearest minimum of the deviance; `scale` is that of a constant, the unit of the relative loss.

    Labels that the network separates have no minimum: the fit ends where next to none of the deviance is left.
    """
    if rows.loss.linked:
        effort = replace(effort, floor=max(effort.floor, LOSS.separated))
    unknowns = parameter_count(start)
    units = FitScale(scale, rows.size, unknowns / max(1.0, rows.size * rows.outputs - unknowns), unknowns=unknowns, normal=1)
    return damped_descent(LikelihoodRule(rows, ridge), start, units, effort=effort, progress=progress)


def constant_point(rows: LikelihoodRows, like: Point) -> Point:
    """The model of `like` without its units: the best constant, the linear part zero."""
    labels = rows.labels
    mean = labels.weights @ labels.y / labels.weights.sum()
    if rows.loss.name == "huber":
        mean = np.median(labels.y, axis=0)
    coefficients = np.zeros((1 + like.linear * rows.dim, rows.outputs))
    coefficients[0] = rows.loss.answer(mean)
    return replace(like, units=like.units[:0], coefficients=coefficients)


def dispersion(rows: LikelihoodRows, sums: LikelihoodSums, spare: float) -> float:
    """φ: the variance of the scores over what the likelihood says, unknowns counted; at least one for counts and labels. Rates
    and shares vary less, as each is the mean of so many counts or labels as its weight says.

    `spare` is the share of the equations that the unknowns leave.
    """
    share = float(sums.squares) / max(float(sums.weight), np.finfo(float).tiny) / max(spare, np.finfo(float).eps)
    return max(1.0, share) if rows.loss.linked and rows.counted else share
