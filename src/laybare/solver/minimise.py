"""One entry to the solvers, and the test by which fewer units do.

The choice of a solver depends on the cost of a step, for n rows and P unknowns:

- few rows: the normal equations of all rows, n·P² per step (`dense.py`), formed once for several steps where that is expensive;
- many rows per unknown: first the normal equations of a subsample, to its own minimum, then all rows: by conjugate gradients in
  the metric of the subsample (`subsampled.py`), or by their own normal equations where P is so small that these cost no more;
- more unknowns than a matrix is worth: conjugate gradients in a Kronecker metric (`matrix_free.py`).

Fewer units: backward elimination by the exact increase of the squared error. A removal stands only if, after a refit, the loss
has risen by less than Schwarz's penalty: for N equations with equal normal noise, its variance fitted, twice the logarithm of the
likelihood ratio of two fits is

    gain = N log((loss without + floor) / (loss with + floor)),

where `floor` is rounding, so that exact fits compare as well. A model with q more parameters is better if that exceeds q log N
(Schwarz 1978). Pruning, widths, signs and the certificate ask this.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laybare.numerics.levels import ROUNDING_LOSS, SOLVED_LOSS, TINY
from laybare.numerics.shapes import Array, Progress
from laybare.solver import Effort, best_so_far, options
from laybare.solver.dense import levenberg_marquardt
from laybare.solver.matrix_free import matrix_free_newton
from laybare.solver.normal import Fit, FitStatistic, elimination_order
from laybare.solver.point import FittedPoint, Point, keep_units, overfit, parameter_count, parameters_per_unit
from laybare.solver.subsampled import ReducedNormal, SubsampledCurvature, subsampled_newton
from laybare.source import Source
from laybare.source.problem import prefix
from laybare.source.sums import balance_two_blocks


def log_likelihood_gain(equations: float, without: float, loss: float, floor: float = TINY) -> float:
    """Twice the log-likelihood ratio of a fit with squared error `loss` over one with squared error `without`."""
    return equations * float(np.log((max(without, 0.0) + floor) / (max(loss, 0.0) + floor)))


def schwarz_penalty(parameters: float, equations: float) -> float:
    """The largest gain of this number of parameters by chance."""
    return parameters * float(np.log(equations))


def minimise(
    source: Source, start: Point, scale: float, *, near: bool = False, nearby: ReducedNormal | None = None,
    effort: Effort = Effort(), progress: Progress | None = None,
) -> FittedPoint:
    """Refine `start` to the nearest minimum of the squared error; `scale` is the centred sum of squares of y.

    `near`: all rows, or as many as a subsample has, have been fitted already, so that only its curvature is of use. With the
    curvature of all rows `nearby` no subsample is fitted first. An interrupt is raised, with the best so far.
    """
    limits, expensive, by_products = options.SOLVER, is_expensive(source, start), _by_products(source, start)

    def in_metric_of(part: Source, point: Point) -> FittedPoint:
        curvature = SubsampledCurvature(part, source.size, nearby)
        return subsampled_newton(source, curvature, point, scale, effort=effort, progress=progress)

    if nearby is not None and (by_products or expensive):
        return in_metric_of(prefix(source, part_rows(source, start)) if by_products else source, start)
    if start.units.size > limits.dense_limit:
        return matrix_free_newton(source, start, scale, effort=effort, progress=progress)
    if not expensive:
        return levenberg_marquardt(source, start, scale, effort=effort, progress=progress)
    rows = part_rows(source, start)
    if source.size < limits.part_ratio * rows:
        return in_metric_of(source, start)
    part = prefix(source, rows)
    if near and by_products:
        return in_metric_of(part, start)
    begun = _fit_part(part, start, scale * part.size / source.size, effort, progress)
    point = start if _gained_only_noise(begun, overfit(part, start)) else begun.point
    if by_products:
        full = in_metric_of(part, point)
    else:
        full = levenberg_marquardt(source, point, scale, effort=effort, progress=progress)
    return replace(full, trace=begun.trace.then(full.trace))


def _by_products(source: Source, point: Point) -> bool:
    """Whether products with all rows are cheaper than their normal equations."""
    limits = options.SOLVER
    few = point.units.size <= limits.dense_limit and point.size > limits.products_from
    return few and source.size >= limits.part_ratio * part_rows(source, point)


def part_rows(source: Source, point: Point) -> int:
    """Rows of the subsample: `part_rows` equations per unknown, of which a row has one per output, at most one per unit.

    Where there are very many rows, more are taken, until a pass over them costs as much as a product with all rows: the minimum
    and the metric are then so near to those of all rows that few products remain.
    """
    limits, unknowns = options.SOLVER, point.size
    equations = -(-limits.part_rows * unknowns // min(source.outputs, point.width))
    return balance_two_blocks(max(equations, limits.product_operations * source.size // unknowns))


def _fit_part(part: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> FittedPoint:
    """A subsample as far as its noise allows, by its normal equations, formed again for every step if they are cheap."""
    limits = options.SOLVER
    rough = replace(
        effort, gain_tol=max(effort.gain_tol, limits.part_gain_tol), kink_tol=max(effort.kink_tol, limits.part_kink_tol))
    if not is_expensive(part, start):
        return levenberg_marquardt(part, start, scale, effort=rough, progress=progress)
    return subsampled_newton(part, SubsampledCurvature(part, part.size), start, scale, effort=rough, progress=progress)


def is_expensive(source: Source, point: Point) -> bool:
    """Whether one set of normal equations should serve several steps, and a subsample be fitted first."""
    return options.COST.is_expensive(source.size, point.size)


def _gained_only_noise(begun: FittedPoint, share: float) -> bool:
    """Whether the subsample gained at most twice what noise grants: the start may have been better for all rows."""
    return begun.trace.rows[0].loss <= (1.0 + 2.0 * share) * begun.trace.loss


def exact_refit_effort(effort: Effort, point: Point) -> Effort:
    """For exact data: a refit of kinked units must halve its loss in four steps; smooth units may be slower."""
    return replace(effort, stall_steps=4, stall_gain=0.5) if point.activation.degree is not None else effort


def stop_when_decided(effort: Effort, penalty: float, spare: int) -> Effort:
    """For noisy data: stop when three steps gain less than a share of `penalty`, the log-likelihood that decides.

    `spare` is the number of equations beyond the unknowns.
    """
    return replace(effort, stall_steps=3, stall_gain=options.SOLVER.decided_share * min(1.0, penalty / spare))


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
            fit = replace(last, trace=fit.trace.then(shorter.trace).then(last.trace))
            batch = fit.point.width
        else:
            batch //= 2
    return fit


def _tentative_effort(source: Source, fit: FittedPoint, effort: Effort, lost: int, *, exact: bool) -> Effort:
    """Effort of a refit that decides whether `lost` parameters may go."""
    if exact:
        return exact_refit_effort(effort, fit.point)
    equations = source.size * source.outputs
    return stop_when_decided(effort, schwarz_penalty(lost, equations), max(1, equations - parameter_count(fit.point)))


def _count_free_removals(source: Source, fit: FittedPoint, losses: Array, scale: float) -> int:
    lost = parameters_per_unit(fit.point) * np.arange(1, len(losses) + 1)
    pairs = zip(losses, lost, strict=True)
    return sum(removal_pays(source, fit.loss, loss, scale, int(parameters), SOLVED_LOSS) for loss, parameters in pairs)


def removal_pays(source: Source, loss: float, without_loss: float, scale: float, parameters: int, floor: float) -> bool:
    """Whether the parameters gain less than Schwarz's penalty, beyond a floor of rounding."""
    size = source.size * source.outputs
    return log_likelihood_gain(size, without_loss, loss, floor * scale) < schwarz_penalty(parameters, size)
