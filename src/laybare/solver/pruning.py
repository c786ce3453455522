"""Fewer units: backward elimination by the exact increase of the squared error.

`elimination_order` ranks the units. A removal stands only if, after a refit, the loss has risen by less than Schwarz's penalty,

    n m log((loss_without + floor) / (loss_with + floor)) < parameters · log(n m)        (Schwarz 1978)

where `floor` is rounding, so that the same rule serves noiseless data (any true unit raises the loss 1e10-fold) and noisy data.
"""

from __future__ import annotations

import numpy as np

from laybare.numerics.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.numerics.shapes import Array, Progress
from laybare.solver import Effort, best_so_far
from laybare.solver.minimise import exact_refit_effort, is_expensive, minimise, stop_when_decided
from laybare.solver.normal import Fit, FitStatistic, elimination_order
from laybare.solver.point import FittedPoint, keep_units, parameter_count, parameters_per_unit
from laybare.source import Source


def prune(
    source: Source, fit: FittedPoint, scale: float, *, width: int | None = None, effort: Effort = Effort(),
    progress: Progress | None = None,
) -> FittedPoint:
    """Remove units batch by batch: down to `width` if given, else as long as the removals pay.

    A batch that does not stand is halved. With a width given the first batch is the whole surplus, else what looks free.
    """
    goal = 1 if width is None else width
    batch = fit.point.width
    while fit.point.width > goal and batch >= 1:
        order, cumulative = elimination_order(fit.point, Fit(*source.sum(FitStatistic(fit.point), stage="pruning")))
        batch = min(batch, fit.point.width - goal)
        if width is None:  # what looks free before a refit: the floor is what a refit wins back from a solved search
            batch = max(1, min(batch, _count_free_removals(source, fit, fit.loss + cumulative, scale)))
        point, lost = keep_units(fit.point, np.sort(order[batch:])), batch * parameters_per_unit(fit.point)
        exact = fit.loss <= SOLVED_LOSS * scale
        at_once = width is not None and not exact and is_expensive(source, fit.point)  # normal equations are formed once
        tentative = effort if at_once else _tentative_effort(source, fit, effort, lost, exact=exact)
        with best_so_far(fit):
            shorter = minimise(source, point, scale, effort=tentative, progress=progress)
        if removal_pays(source, fit.loss, shorter.loss, scale, lost, ROUNDING_LOSS) or (width is not None and batch == 1):
            last = shorter if at_once else minimise(source, shorter.point, scale, effort=effort, progress=progress)
            fit = last._replace(trace=fit.trace.then(shorter.trace).then(last.trace))
            batch = fit.point.width
        else:
            batch //= 2
    return fit


def _tentative_effort(source: Source, fit: FittedPoint, effort: Effort, lost: int, *, exact: bool) -> Effort:
    """Effort of a refit that decides whether `lost` parameters may go."""
    if exact:
        return exact_refit_effort(effort, fit.point)
    equations = source.size * source.outputs
    return stop_when_decided(effort, lost * float(np.log(equations)), max(1, equations - parameter_count(fit.point)))


def _count_free_removals(source: Source, fit: FittedPoint, losses: Array, scale: float) -> int:
    lost = parameters_per_unit(fit.point) * np.arange(1, len(losses) + 1)
    pairs = zip(losses, lost, strict=True)
    return sum(removal_pays(source, fit.loss, loss, scale, int(parameters), SOLVED_LOSS) for loss, parameters in pairs)


def removal_pays(source: Source, loss: float, without_loss: float, scale: float, parameters: int, floor: float) -> bool:
    """Whether the parameters gain less than Schwarz's penalty, beyond a floor of rounding."""
    size = source.size * source.outputs
    rounding = floor * scale
    return bool(size * np.log((without_loss + rounding) / (max(loss, 0.0) + rounding)) < parameters * np.log(size))
