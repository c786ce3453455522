"""Fewer units: remove what the data do not need, by the exact increase of the squared error.

Removing feature i from a least-squares fit with Gram matrix G raises the loss by exactly |C_i|² / (G⁻¹)_ii; that orders the
candidates. A removal stands only if, after refining again, the loss has not risen by more than the removed parameters are worth

    n m log((loss_without + floor) / (loss_with + floor)) < parameters · log(n m)        (Schwarz 1978)

where `floor` is rounding, so that the same rule serves noiseless data (any true unit raises the loss 1e10-fold) and noisy data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laybare.damping import Effort
from laybare.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import dear, minimise
from laybare.refinement.normal import Fit, FitStatistic, Point
from laybare.shapes import Array, Progress
from laybare.source import Source

TELLING = 0.1
"""A tentative refit goes on while three steps gain this share of what would change the answer."""


def prune(
    source: Source, refined: Refined, scale: float, *, width: int | None = None, effort: Effort = Effort(),
    progress: Progress | None = None,
) -> Refined:
    """Remove units one batch after another: down to `width` if given, else as long as the removals are worth it.

    A batch that does not stand is halved. With a width given the first batch is the whole surplus, else what looks free.
    """
    goal = 1 if width is None else width
    batch = refined.point.width
    while refined.point.width > goal and batch >= 1:
        order, cumulative = elimination_order(refined.point, Fit(*source.sum(FitStatistic(refined.point), stage="pruning")))
        batch = min(batch, refined.point.width - goal)
        if width is None:
            # what looks free before refinement: it wins back what a solver wins back from a solved search
            batch = max(1, min(batch, int(np.sum(_worth(source, refined, refined.loss + cumulative, scale, SOLVED_LOSS)))))
        kept = np.sort(order[batch:])
        lost = batch * parameters_per_unit(refined.point)
        exact, equations = refined.loss <= SOLVED_LOSS * scale, source.size * source.outputs
        spare = max(1, equations - parameter_count(refined.point))
        at_once = width is not None and not exact and dear(source, refined.point)  # normal equations are formed once, then
        tried = quick(effort, refined.point) if exact else telling(effort, lost * float(np.log(equations)), spare)
        tried = effort if at_once else tried
        shorter = minimise(source, without(refined.point, kept), scale, effort=tried, progress=progress)
        if shorter.trace.reason == "interrupted":
            return refined._replace(trace=refined.trace.then(shorter.trace))
        if removal_pays(source, refined.loss, shorter.loss, scale, lost, ROUNDING_LOSS) or (width is not None and batch == 1):
            last = shorter if at_once else minimise(source, shorter.point, scale, effort=effort, progress=progress)
            refined = last._replace(trace=refined.trace.then(shorter.trace).then(last.trace))
            if last.trace.reason == "interrupted":
                return refined
            batch = refined.point.width
        else:
            batch //= 2
    return refined


def quick(effort: Effort, point: Point) -> Effort:
    """For exact data: a refit of kinked units that does not halve its loss in four steps does not fit; smooth units creep."""
    return replace(effort, stall_steps=4, stall_gain=0.5) if point.activation.degree is not None else effort


def telling(effort: Effort, price: float, spare: int) -> Effort:
    """For noisy data: as long as three steps gain a share of `price`, the log-likelihood that decides, of `spare` equations."""
    return replace(effort, stall_steps=3, stall_gain=TELLING * min(1.0, price / spare))


def elimination_order(point: Point, fit: Fit) -> tuple[Array, Array]:
    """Units from the cheapest to the dearest, each time the cheapest of those left, and the loss added up so far."""
    k = point.width
    inverse = _inverse(fit.gram)
    coefficients = point.coefficients + inverse @ fit.moment
    left, order, costs = list(range(k)), [], []
    for _ in range(k):
        rows = np.array(left)
        each = np.sum(coefficients[rows] ** 2, axis=1) / np.diag(inverse)[rows]
        i = left.pop(int(np.argmin(each)))
        order.append(i)
        costs.append(float(each.min()))
        ratio = inverse[:, i] / inverse[i, i]
        coefficients = coefficients - ratio[:, None] * coefficients[i]
        inverse = inverse - np.outer(ratio, inverse[i])
        inverse[i, i] = 1.0  # gone: keeps the diagonal positive
    return np.array(order, dtype=int), np.cumsum(costs)


def with_units(point: Point, rows: Array, readouts: Array) -> Point:
    """The point with further units, last among them."""
    coefficients = np.insert(point.coefficients, [point.width] * len(rows), readouts, axis=0)
    return point.moved(np.vstack([point.units, rows]), coefficients)


def without(point: Point, kept: Array) -> Point:
    """The point with only the units `kept` (their indices)."""
    k = point.width
    rows = np.concatenate([kept, np.arange(k, len(point.coefficients))]).astype(int)
    return replace(point, units=point.units[kept], coefficients=point.coefficients[rows])


def columns_of(point: Point, kept: Array) -> Array:
    """Where the columns [F, Xs] of `without(point, kept)` are among those of the point."""
    (k, p), q = point.units.shape, len(point.coefficients)
    return np.concatenate([kept, np.arange(k, q), (q + kept[:, None] * p + np.arange(p)).ravel()]).astype(int)


def parameters_per_unit(point: Point) -> int:
    """Free numbers of one unit: its row and readout, less the direction in which rows do not move."""
    gauge = 0 if point.normals is None else 1
    return int(point.units.shape[1] + point.coefficients.shape[1]) - gauge


def parameter_count(point: Point) -> int:
    """Free numbers of the whole model."""
    k, m = point.width, int(point.coefficients.shape[1])
    return k * parameters_per_unit(point) + (len(point.coefficients) - k) * m


def _worth(source: Source, refined: Refined, losses: Array, scale: float, floor: float) -> Array:
    lost = parameters_per_unit(refined.point) * np.arange(1, len(losses) + 1)
    pairs = zip(losses, lost, strict=True)
    return np.array([removal_pays(source, refined.loss, loss, scale, int(numbers), floor) for loss, numbers in pairs])


def removal_pays(source: Source, loss: float, without_loss: float, scale: float, parameters: int, floor: float) -> bool:
    """Whether so many numbers are not worth what they gain, beyond a floor of rounding (Schwarz's criterion)."""
    size = source.size * source.outputs
    rounding = floor * scale
    return bool(size * np.log((without_loss + rounding) / (max(loss, 0.0) + rounding)) < parameters * np.log(size))


def _inverse(gram: Array) -> Array:
    """Inverse of a Gram matrix with a whisper of ridge: a redundant or dead feature gets a huge entry, so a tiny cost."""
    diagonal = np.diag(gram)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-30 * diagonal.max(initial=1e-270)))
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale)
    values = np.maximum(values, 1e-15 * values[-1])
    inverse: Array = (vectors / values) @ vectors.T * scale[:, None] * scale
    return inverse
