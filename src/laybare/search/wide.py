"""Over-wide search: more units than needed, Gauss-Newton, then pruning.

At exact width the squared error has bad local minima; a few spare units remove most of them, and repairs most of the rest
(`search_at_width`). Without noise a run that fits ends the search. With noise none fits exactly, and spare units follow the
noise, in each run in another way: two runs whose losses differ by no more than that are pruned, and if they end at the same
minimum the search is over.

Spares need equations. Where these are few, hops at exact width come first (`hops.py`).

Runs with spare units at one width, until one fits or two agree after pruning.

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

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from laybare.errors import Interrupted
from laybare.numerics.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.numerics.shapes import Array, Event, Progress, Sums, report_progress
from laybare.search import settings
from laybare.search.hops import search_by_hops
from laybare.search.settings import SearchContext, SearchStart
from laybare.solver import FitInterrupt, Trace, TraceRow, best_so_far, options
from laybare.solver.minimise import log_likelihood_gain, removal_pays, schwarz_penalty
from laybare.solver.normal import Fit, FitStatistic, elimination_order, project_on
from laybare.solver.options import SOLVER
from laybare.solver.point import (
    FittedPoint,
    Point,
    add_units,
    keep_units,
    outputs_at,
    overfit,
    parameter_count,
    parameters_per_unit,
)
from laybare.source.views import max_parallel_tasks, run_until_interrupted


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
        trusted = state.repeats >= settings.SEARCH.repairs_to_narrow or not _misses_spares(context, run.wide, second)
        agreed = WideFit(state.best.wide, lower._replace(trace=trace, runs=state.repeats + 2))
        return state._replace(result=agreed) if trusted else state
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
        first, second = (outputs_at(p, x) for p in (self.one, self.other))
        return (np.asarray(np.sum((first - second) ** 2)),)


def search_with_spares(context: SearchContext, width: int | None, start: SearchStart = SearchStart()) -> FittedPoint:
    """The best fit found and pruned: to `width` units if given, else to as many as the data call for.

    Rows of the start come first, random spares beside them. If they may be all, they are tried alone first.
    """
    known = start.complete_rows()
    if width is None:
        first = settings.SEARCH.first_width
        return grow_width(context, start, first if known is None else max(first, len(known)))
    if known is not None and len(known) >= width:
        return _known_alone_first(context, known[:width])
    return _search_and_prune(context, width, start)


def search_few_equations(context: SearchContext, width: int | None, start: SearchStart) -> FittedPoint:
    """`search_with_spares`, and hops where equations are few: before it if the width is given, else after it, in vain.

    With noise no hop fits exactly: they are in vain, or find a better fit than runs with spares, if these can be made at all.
    """
    if context.search.spares is not None or not context.search.hops:
        return search_with_spares(context, width, start)
    if width is None:
        wide = search_with_spares(context, width, start)
        over = context.is_solved(wide) or not _has_few_equations(context, wide.point.width)
        return wide if over else grow_by_hops(context, wide)
    if not _has_few_equations(context, width):
        return search_with_spares(context, width, start)
    context.check_counting_limit(width)
    known = context.draw_units(width) if start.rows is None else start.rows
    units = np.vstack([known, context.draw_units(max(0, width - len(known)))])[:width]
    hops = search_by_hops(context, units, _count_hops(context, width))
    if context.is_solved(hops) or context.largest_width() < width:
        return hops
    with best_so_far(hops):
        wide = search_with_spares(context, width, start)
    best = min(hops, wide, key=lambda one: one.loss)
    return best._replace(trace=hops.trace.then(wide.trace), runs=wide.runs if best is wide else 0)


def grow_by_hops(context: SearchContext, found: FittedPoint) -> FittedPoint:
    """A few hops at twice the width of a fit, and so on while equations allow; the first exact fit is pruned to its width.

    A model with half as many units again as the network is solved by as few hops as one of its width, while equations are
    left; pruning an exact fit leaves the units that are needed. If no width fits exactly, the fit as it was.
    """
    rules = settings.SEARCH
    widest = context.largest_width(rules.equations_to_hop)
    trace, width = found.trace, min(found.point.width, widest - 1)
    while 0 < width < widest:
        width = min(2 * width, widest)
        if _affordable_hops(context, width) < rules.hops_per_width:
            break
        units = np.vstack([found.point.units, context.draw_units(width)])[:width]
        with best_so_far(found):
            wider = search_by_hops(context, units, rules.hops_per_width)
        trace = trace.then(wider.trace)
        if context.is_solved(wider):
            return context.prune(wider._replace(trace=trace), None)
    return found._replace(trace=trace)


def _count_hops(context: SearchContext, width: int) -> int:
    """How many hops are made at most: the more, the nearer the counting limit.

    With ρ equations per free parameter, the hops that 20-10-1 took grew from a few at ρ = 2 to hundreds at 1.3, like (ρ - 1)⁻³.
    """
    rules, unknowns = settings.SEARCH, context.count_parameters(width)
    near = rules.hops_at_double / max(context.equations / unknowns - 1.0, 0.1) ** 3
    return int(min(width * min(near, rules.most_hops), _affordable_hops(context, width)))


def _affordable_hops(context: SearchContext, width: int) -> float:
    return settings.SEARCH.hop_seconds / options.COST.step_seconds(context.source.size, context.count_parameters(width))


def _has_few_equations(context: SearchContext, width: int) -> bool:
    """Whether an over-wide model has few equations per parameter, and a normal matrix of the width itself is formed."""
    small = width * (context.source.dim + context.model.biases) <= SOLVER.dense_limit
    wide = context.count_parameters(width + context.search.count_spares(width))
    return small and context.equations < settings.SEARCH.few_equations * wide


def run_with_spares(context: SearchContext, known: Array) -> FittedPoint:
    """One run from `known` rows with random spares beside them, pruned to as many units as the data call for."""
    spares = context.draw_units(context.with_spares(len(known)) - len(known))
    return context.prune(context.minimise(context.start(np.vstack([known, spares]))), None)


def _known_alone_first(context: SearchContext, known: Array) -> FittedPoint:
    """The known units alone; if that does not fit, again from where they ended with spares and repairs."""
    first = context.minimise(context.start(known))
    if context.is_solved(first):
        return first
    with best_so_far(first):
        second = _search_and_prune(context, len(known), SearchStart(first.point.units))
        runs = second.runs or 2 * same_minimum(context, first, second)
    best = min(second, first, key=lambda one: one.loss)
    return best._replace(trace=first.trace.then(second.trace), runs=runs)


def _search_and_prune(context: SearchContext, width: int, start: SearchStart) -> FittedPoint:
    """Runs with spares, each repaired from the best before it, until one fits or two agree; pruned to `width`."""
    ended = search_at_width(context, _trial(context, width, settings.SEARCH.close_loss, width), start)
    return ended.pruned or context.prune(ended.wide, width)


def grow_width(context: SearchContext, start: SearchStart, width: int) -> FittedPoint:
    """Double the width until the data are fitted, doubling does not pay (twice), or the samples do not allow it."""
    few = context._replace(search=replace(context.search, hops=min(context.search.hops, 3)))
    best, trace, worse, limit = None, None, 0, context.largest_width()
    while True:
        trial = _trial(context, width, SOLVED_LOSS, None)
        with best_so_far(best):
            ended = search_at_width(few, trial, start._replace(before=best))
        found = ended.pruned or ended.wide
        trace = found.trace if trace is None else trace.then(found.trace)
        if best is None or _is_better(context, found, best):
            best, worse = found, 0
        else:
            worse += 1
        if ended.pruned is not None and same_minimum(context, best, found):
            return best._replace(trace=trace, runs=ended.pruned.runs)
        if context.is_solved(best, trial.floor) or worse == 2 or width >= limit:
            return repeat_at_found_width(context, context.prune(best._replace(trace=trace), None))
        width = min(2 * width, limit)


def repeat_at_found_width(context: SearchContext, found: FittedPoint) -> FittedPoint:
    """Search again at the width just found; two runs may now agree, on it or on a better fit."""
    width = found.point.width
    if context.is_solved(found) or not context.is_cheap(found.point):
        return found
    trial = _trial(context, width, settings.SEARCH.close_loss, width)
    with best_so_far(found):
        ended = search_at_width(context, trial, SearchStart(found.point.units))
    again = ended.pruned
    if again is None or (again.loss > found.loss and not same_minimum(context, found, again)):
        return found._replace(trace=found.trace.then((again or ended.wide).trace))
    return min(found, again, key=lambda one: one.loss)._replace(trace=found.trace.then(again.trace), runs=again.runs)


def _trial(context: SearchContext, width: int, floor: float, given: int | None) -> WidthTrial:
    """A width with its spares; `floor` applies where steps are matrix-free."""
    context.check_width(width)
    wide = context.with_spares(width)
    matrix_free = wide * (context.source.dim + context.model.biases) > SOLVER.dense_limit
    return WidthTrial(width, wide, floor if matrix_free else 0.0, given)


def _is_better(context: SearchContext, wider: FittedPoint, best: FittedPoint) -> bool:
    """Whether a wider fit gains more than its parameters do by chance."""
    more = parameter_count(wider.point) - parameter_count(best.point)
    return log_likelihood_gain(context.equations, best.loss, wider.loss) > schwarz_penalty(more, context.equations)
