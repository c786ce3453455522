"""Runs with spare units at one width, until one fits or two agree after pruning.

A *repair* removes the third of the units that costs least, by exact cost, and draws them again: what is stuck is freed, good
units stay. Where a step takes long and the width is given, a second run from other units is made at the same time, each on one
core: dense algebra between passes, and passes over few rows, do not keep two cores busy, and two independent runs that end at the
same minimum are stronger evidence than a repaired one. The second is dropped if the first fits: bits do not depend on cores.
Where the width is not given and runs take long, one that needs its spares is widened, not repeated: it cannot be the last one.

Agreement: noise makes a fit of P parameters differ from the truth by P σ² in the sum of squares over all rows. Two fits whose
outputs differ by a share ε of that are √ε of a standard error apart, in the mean over all directions. One unit more, fewer or
elsewhere makes a difference of several P σ² per unit, since it gains log n for each of its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from laybare.errors import Interrupted
from laybare.numerics.levels import ROUNDING_LOSS
from laybare.numerics.shapes import Array, Event, Progress, Sums, report_progress
from laybare.search import settings
from laybare.search.settings import SearchContext, SearchStart
from laybare.solver import FitInterrupt, Trace, TraceRow, best_so_far
from laybare.solver.normal import Fit, FitStatistic, elimination_order, project_on
from laybare.solver.point import FittedPoint, Point, add_units, keep_units, overfit, parameter_count, parameters_per_unit
from laybare.solver.pruning import removal_pays
from laybare.source.parallel import max_parallel_tasks, run_until_interrupted


class WideFit(NamedTuple):
    """A fit with spare units, and what is left of it after pruning, if that is known."""

    wide: FittedPoint
    pruned: FittedPoint | None = None


class WidthTrial(NamedTuple):
    """A width to try: units, units with spares, the loss at which a run ends, and the width to prune to (None: find it)."""

    units: int
    wide: int
    floor: float
    given: int | None

    def is_enough(self, pruned: FittedPoint) -> bool:
        """Whether pruning kept no spare: those it keeps were needed."""
        return self.given is not None or pruned.point.width <= min(self.units, self.wide - 1)


class SearchState(NamedTuple):
    """Runs at one width so far: the best, all steps, a run that waits to be compared, the better of two that were compared,
    how many followed the first; and the result, once there is one."""

    best: WideFit
    trace: Trace
    waiting: WideFit | None
    pruned: FittedPoint | None = None
    repeats: int = 0
    result: WideFit | None = None


def search_at_width(context: SearchContext, trial: WidthTrial, start: SearchStart) -> WideFit:
    """The best of the runs at a width; with `pruned` if two agree. Rows of the start come first in the first run."""
    units = context.draw_units(trial.wide)
    if start.rows is not None:
        units[: min(len(start.rows), trial.wide)] = start.rows[: trial.wide]
    best, waiting = _first_runs(context, trial, context.start(units), independent=start.random)
    state = SearchState(best, best.wide.trace, waiting)
    with best_so_far(lambda: state.best.wide):
        while state.result is None and not _is_over(context, trial, state):
            state = _next_state(context, trial, state, start.before)
    return state.result or WideFit(state.best.wide._replace(trace=state.trace))


def _is_over(context: SearchContext, trial: WidthTrial, state: SearchState) -> bool:
    """Whether a run fits, or no further one is to be made: more of them if they are cheap and two nearly agree."""
    best, most = state.best.wide, context.search.hops
    if context.is_solved(best, trial.floor) or state.repeats >= settings.SEARCH.patience * most:
        return True
    patient = trial.given is not None and context.is_cheap(best.point) and state.pruned is not None
    return state.repeats >= most and not patient


def _next_state(context: SearchContext, trial: WidthTrial, state: SearchState, before: FittedPoint | None) -> SearchState:
    """Another run, compared with the best one."""
    state = state if state.waiting is not None else _repeat(context, trial, state, before)
    run = state.waiting
    if run is None:
        return state
    state = state._replace(waiting=None, trace=state.trace.then(run.wide.trace))
    spares = trial.wide - trial.units
    if _is_comparable(context, trial, run) and losses_compatible(context, state.best.wide, run.wide, spares):
        state = _compare(context, trial, state, run)
    return state._replace(best=_better(state.best, run), repeats=state.repeats + 1)


def _better(one: WideFit, other: WideFit) -> WideFit:
    return min(one, other, key=lambda fit: fit.wide.loss)


def _repeat(context: SearchContext, trial: WidthTrial, state: SearchState, before: FittedPoint | None) -> SearchState:
    """A run from the best one, repaired; or the result, if that one alone is enough."""
    best, run = state.best, None
    detail = f"relative loss {best.wide.loss / context.scale:.1e}"
    report_progress(context.progress, "repairing", state.repeats + 1, max(context.search.hops, state.repeats + 1), detail)
    repaired = _repair(context, best.wide.point)
    if state.pruned is None and best.pruned is None:
        best, run = _prune_and_repeat(context, trial, best, repaired)
    if best.pruned is not None and _may_widen(context, trial, best.wide.point):
        trace = state.trace.then(best.pruned.trace)
        if not trial.is_enough(best.pruned):
            return state._replace(result=WideFit(best.pruned._replace(trace=trace)))
        if before is not None and same_minimum(context, before, best.pruned):
            lower = min(before, best.pruned, key=lambda one: one.loss)
            return state._replace(result=WideFit(best.wide, lower._replace(trace=trace, runs=state.repeats + 2)))
    return state._replace(best=best, waiting=run or WideFit(context.minimise(repaired, trial.floor)))


def _compare(context: SearchContext, trial: WidthTrial, state: SearchState, run: WideFit) -> SearchState:
    """The best run and another one, both pruned: two that end at the same minimum are the result, or show that more units are
    needed than there are."""
    first, second, trace = _prune_both(context, trial, (state.best, run), state.pruned, state.trace)
    lower = min(first, second, key=lambda one: one.loss)
    state = state._replace(trace=trace, pruned=lower)
    if not same_minimum(context, first, second):
        return state
    if trial.is_enough(second):
        believed = state.repeats >= settings.SEARCH.repairs_to_narrow or not _misses_spares(context, run.wide, second)
        agreed = WideFit(state.best.wide, lower._replace(trace=trace, runs=state.repeats + 2))
        return state._replace(result=agreed) if believed else state
    if trial.units < context.largest_width():
        return state._replace(result=WideFit(_better(state.best, run).wide._replace(trace=trace)))
    return state


def _first_runs(context: SearchContext, trial: WidthTrial, start: Point, *, independent: bool) -> tuple[WideFit, WideFit | None]:
    """The first run, and a second one from other units where steps are expensive and the first does not fit."""
    single = not independent or trial.given is None or context.search.hops == 0
    if single or not context.is_expensive(start):
        return WideFit(context.minimise(start, trial.floor)), None
    other = context.start(context.draw_units(trial.wide))
    if max_parallel_tasks(context.source) > 1:
        return _run_two(context, trial, start, other)
    first = context.minimise(start, trial.floor)
    if context.is_solved(first, trial.floor):
        return WideFit(first), None
    with best_so_far(first):
        return WideFit(first), WideFit(context.minimise(other, trial.floor))


def _run_two(context: SearchContext, trial: WidthTrial, start: Point, other: Point) -> tuple[WideFit, WideFit | None]:
    """Runs from both starts at once, each pruned when it ends: with noise pruning comes next.

    If the first fits, the second is dropped at its next step. An interrupt ends both.
    """
    ended: dict[int, FittedPoint] = {}

    def first_fits() -> bool:
        return 0 in ended and context.is_solved(ended[0], trial.floor)

    def run(number: int, point: Point, progress: Progress) -> WideFit | None:
        def report(event: Event) -> None:
            if number and first_fits():
                raise Interrupted
            progress(event)

        own = context._replace(progress=report)
        try:
            found = ended[number] = own.minimise(point, trial.floor)
            fits = first_fits() or context.is_solved(found, trial.floor)
            return WideFit(found, None if fits else own.prune_only(found, trial.given))
        except FitInterrupt:
            if number and first_fits():
                return None
            raise

    with best_so_far(lambda: min(ended.values(), key=lambda one: one.loss, default=None) or _unrefined(context, start)):
        first, second = run_until_interrupted(context.source, context.progress, partial(run, 0, start), partial(run, 1, other))
    return first, None if first_fits() else second


def _unrefined(context: SearchContext, start: Point) -> FittedPoint:
    """Where runs begin, for an interrupt that comes while this thread waits for others."""
    point, loss = project_on(context.source, start)
    return FittedPoint(point, loss, Trace((TraceRow(loss / context.scale, 0.0, 0.0, 0.0, context.source.size),), "interrupted"))


def _repair(context: SearchContext, point: Point) -> Point:
    """The point with the cheapest third of its units drawn again."""
    order, _ = elimination_order(point, Fit(*context.source.sum(FitStatistic(point), stage="repair")))
    new = -(-point.width // 3)
    rest = keep_units(point, np.sort(order[new:]))
    return add_units(rest, context.draw_units(new), np.zeros((new, context.source.outputs)))


def _prune_and_repeat(
    context: SearchContext, trial: WidthTrial, best: WideFit, repaired: Point
) -> tuple[WideFit, WideFit | None]:
    """The best run, pruned if that comes first; where steps are expensive and there are two cores, at the same time a run from
    `repaired`: with noise both are needed. An interrupt ends both."""
    if not context.is_expensive(best.wide.point) or max_parallel_tasks(context.source) < 2:
        widen = _may_widen(context, trial, best.wide.point)
        return (best._replace(pruned=context.prune_only(best.wide, trial.given)) if widen else best), None
    run, pruned = run_until_interrupted(
        context.source, context.progress,
        lambda progress: context._replace(progress=progress).minimise(repaired, trial.floor),
        lambda progress: context._replace(progress=progress).prune_only(best.wide, trial.given))
    return best._replace(pruned=pruned), WideFit(run)


def _prune_both(
    context: SearchContext, trial: WidthTrial, runs: tuple[WideFit, WideFit], known: FittedPoint | None, trace: Trace
) -> tuple[FittedPoint, FittedPoint, Trace]:
    """Both runs pruned (the first may be `known`), and the steps until then."""
    best, run = runs
    first = known or best.pruned or context.prune_only(best.wide, trial.given)
    trace = trace if first is known else trace.then(first.trace)
    second = run.pruned or context.prune_only(run.wide, trial.given)
    return first, second, trace.then(second.trace)


def _is_comparable(context: SearchContext, trial: WidthTrial, run: WideFit) -> bool:
    """Whether a run is worth pruning for a comparison: it does not fit, and the width is given or leaves equations to check.

    To prune a hundred units takes seconds, and with few equations an agreement proves little.
    """
    enough = settings.SEARCH.equations_to_compare * context.count_parameters(trial.wide)
    return (trial.given is not None or context.equations >= enough) and not context.is_solved(run.wide, trial.floor)


def _misses_spares(context: SearchContext, wide: FittedPoint, pruned: FittedPoint) -> bool:
    """Whether the spares gained more than their penalty: other fits of the pruned width may be better."""
    lost = parameter_count(wide.point) - parameter_count(pruned.point)
    return not removal_pays(context.source, wide.loss, pruned.loss, context.scale, lost, ROUNDING_LOSS)


def _may_widen(context: SearchContext, trial: WidthTrial, point: Point) -> bool:
    """Whether the width is not given, equations are left to widen it, and runs are not so cheap that repairs come first."""
    enough = settings.SEARCH.equations_to_widen * context.count_parameters(context.with_spares(2 * trial.units))
    return trial.given is None and not context.is_cheap(point) and context.equations >= enough


def losses_compatible(context: SearchContext, one: FittedPoint, other: FittedPoint, spares: int) -> bool:
    """Whether the losses of two runs differ by no more than spare units gain from noise."""
    left = max(1, context.equations - parameter_count(one.point))
    noise = settings.SEARCH.noise_per_spare * spares * parameters_per_unit(one.point) / left
    return abs(one.loss - other.loss) <= max(_tolerance(context, one) * overfit(context.source, one.point), noise) * one.loss


def same_minimum(context: SearchContext, one: FittedPoint, other: FittedPoint) -> bool:
    """Whether two pruned runs ended at the same minimum; at most one pass."""
    if one.point.width != other.point.width:
        return False
    most = _tolerance(context, one) * overfit(context.source, one.point) * min(one.loss, other.loss)
    if abs(one.loss - other.loss) > most:
        return False
    return float(context.source.sum(_OutputDifference(one.point, other.point), stage="loss")[0]) <= most


def _tolerance(context: SearchContext, found: FittedPoint) -> float:
    return settings.SEARCH.same_minimum_early if context.is_expensive(found.point) else settings.SEARCH.same_minimum


@dataclass(frozen=True, eq=False)
class _OutputDifference:
    """(x, y) -> the sum of squares of the differences between the outputs of two points."""

    one: Point
    other: Point

    def __call__(self, x: Array, y: Array) -> Sums:
        first, second = (p.features(x, p.extended(x) @ p.units.T) @ p.coefficients for p in (self.one, self.other))
        return (np.asarray(np.sum((first - second) ** 2)),)
