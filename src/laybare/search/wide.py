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
from laybare.search.settings import SearchContext, SearchStart, check_counting_limit
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
from laybare.source.views import run_until_interrupted


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
    """Runs at one width so far: the best, all steps, how many followed the first; what is left of the best after pruning, if
    known, or the better of two runs that were `compared`; and the result, once there is one."""

    best: FittedPoint
    trace: Trace
    repeats: int = 0
    pruned: FittedPoint | None = None
    compared: bool = False
    result: FittedPoint | None = None


def search_at_width(context: SearchContext, trial: WidthTrial, start: SearchStart) -> FittedPoint:
    """The best of the runs at a width, or, if two agree, what is left of them after pruning. Rows of the start come first in the
    first run."""
    units = context.draw_units(trial.wide)
    if start.rows is not None:
        units[: min(len(start.rows), trial.wide)] = start.rows[: trial.wide]
    best, run = _first_runs(context, trial, context.start(units), independent=start.random)
    state = SearchState(best, best.trace)
    with best_so_far(lambda: state.best):
        while state.result is None and not _is_over(context, trial, state):
            if run is None:
                state = _widened(context, trial, state, start.before)
                run = None if state.result else _repeat(context, trial, state)
            if run is not None:
                state, run = _with_run(context, trial, state, run), None
    return state.result or replace(state.best, trace=state.trace)


def _is_over(context: SearchContext, trial: WidthTrial, state: SearchState) -> bool:
    """Whether a run fits, or no further one is to be made: more of them if they are cheap and two nearly agree."""
    best, most = state.best, context.search.hops
    if context.is_solved(best, trial.floor) or state.repeats >= settings.SEARCH.patience * most:
        return True
    return state.repeats >= most and not (trial.given is not None and context.is_cheap(best.point) and state.compared)


def _repeat(context: SearchContext, trial: WidthTrial, state: SearchState) -> FittedPoint:
    """A run from the best one, repaired: the cheapest third of its units drawn again."""
    point, most = state.best.point, max(context.search.hops, state.repeats + 1)
    detail = f"relative loss {state.best.loss / context.scale:.1e}"
    report_progress(context.progress, "repairing", state.repeats + 1, most, detail)
    order, _ = elimination_order(point, Fit(*context.source.sum(FitStatistic(point), stage="repair")))
    new = -(-point.width // 3)
    rest = keep_units(point, np.sort(order[new:]))
    return context.minimise(add_units(rest, context.draw_units(new), np.zeros((new, context.source.outputs))), trial.floor)


def _with_run(context: SearchContext, trial: WidthTrial, state: SearchState, run: FittedPoint) -> SearchState:
    """After another run, which is compared with the best one if their losses allow that they end at the same minimum."""
    state = state._replace(trace=state.trace.then(run.trace), repeats=state.repeats + 1)
    if _is_comparable(context, trial, run) and losses_compatible(context, state.best, run, trial.wide - trial.units):
        state = _compare(context, trial, state, run)
    if run.loss >= state.best.loss:
        return state
    return state._replace(best=run, pruned=state.pruned if state.compared else None)


def _compare(context: SearchContext, trial: WidthTrial, state: SearchState, run: FittedPoint) -> SearchState:
    """The best run and another one, both pruned: two that end at the same minimum are the result, or show that more units are
    needed than there are."""
    first, second = _prune_both(context, trial, state, run)
    trace = (state.trace if first is state.pruned else state.trace.then(first.trace)).then(second.trace)
    lower = min(first, second, key=lambda one: one.loss)
    state = state._replace(trace=trace, pruned=lower, compared=True)
    if not same_minimum(context, first, second):
        return state
    if trial.is_enough(second):
        trusted = state.repeats > settings.SEARCH.repairs_to_narrow or not _misses_spares(context, run, second)
        return state._replace(result=replace(lower, trace=trace, runs=state.repeats + 1)) if trusted else state
    if trial.units < context.largest_width():
        return state._replace(result=replace(min(state.best, run, key=lambda one: one.loss), trace=trace))
    return state


def _prune_both(
    context: SearchContext, trial: WidthTrial, state: SearchState, run: FittedPoint
) -> tuple[FittedPoint, FittedPoint]:
    """The best run and another one without their spares; at the same time, where that is expensive. An interrupt ends both."""
    if state.pruned is not None:
        return state.pruned, context.prune_only(run, trial.given)

    def prune(fit: FittedPoint, progress: Progress | None) -> FittedPoint:
        return context._replace(progress=progress).prune_only(fit, trial.given)

    if not context.is_expensive(run.point):
        return prune(state.best, context.progress), prune(run, context.progress)
    first, second = run_until_interrupted(context.source, context.progress, partial(prune, state.best), partial(prune, run))
    return first, second


def _widened(context: SearchContext, trial: WidthTrial, state: SearchState, before: FittedPoint | None) -> SearchState:
    """Where a wider search comes next: the result, if pruning keeps spares, or ends where a narrower search did."""
    if state.compared or not _may_widen(context, trial, state.best.point):
        return state
    pruned = state.pruned or context.prune_only(state.best, trial.given)
    trace = state.trace if state.pruned else state.trace.then(pruned.trace)
    state = state._replace(pruned=pruned, trace=trace)
    if not trial.is_enough(pruned):
        return state._replace(result=replace(pruned, trace=trace))
    if before is not None and same_minimum(context, before, pruned):
        lower = min(before, pruned, key=lambda one: one.loss)
        return state._replace(result=replace(lower, trace=trace, runs=state.repeats + 2))
    return state


def _first_runs(
    context: SearchContext, trial: WidthTrial, start: Point, *, independent: bool
) -> tuple[FittedPoint, FittedPoint | None]:
    """The first run; where steps are expensive, at the same time a second one from other units, unless the first fits."""
    single = not independent or trial.given is None or context.search.hops == 0
    if single or not context.is_expensive(start):
        return context.minimise(start, trial.floor), None
    other, ended = context.start(context.draw_units(trial.wide)), dict[int, FittedPoint]()

    def first_fits() -> bool:
        return 0 in ended and context.is_solved(ended[0], trial.floor)

    def run(number: int, progress: Progress) -> None:
        def report(event: Event) -> None:
            if number and first_fits():
                raise Interrupted
            progress(event)

        try:
            if not (number and first_fits()):
                ended[number] = context._replace(progress=report).minimise((start, other)[number], trial.floor)
        except FitInterrupt:
            if number and first_fits():
                return
            raise

    with best_so_far(lambda: min(ended.values(), key=lambda one: one.loss, default=None) or _unrefined(context, start)):
        run_until_interrupted(context.source, context.progress, partial(run, 0), partial(run, 1))
    return ended[0], None if first_fits() else ended[1]


def _unrefined(context: SearchContext, start: Point) -> FittedPoint:
    """Where runs begin, for an interrupt that comes while this thread waits for others."""
    point, loss = project_on(context.source, start)
    rows = context.source.size
    return FittedPoint(point, loss, None, Trace((TraceRow(loss / context.scale, 0.0, 0.0, 0.0, rows),), "interrupted"), rows)


def _is_comparable(context: SearchContext, trial: WidthTrial, run: FittedPoint) -> bool:
    """Whether a run is worth pruning for a comparison: it does not fit, and the width is given or leaves equations to check.

    To prune a hundred units takes seconds, and with few equations an agreement proves little.
    """
    enough = settings.SEARCH.equations_to_compare * context.count_parameters(trial.wide)
    return (trial.given is not None or context.equations >= enough) and not context.is_solved(run, trial.floor)


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
    check_counting_limit(context.source, context.count_parameters(width), width=width, largest_width=context.largest_width())
    known = context.draw_units(width) if start.rows is None else start.rows
    units = np.vstack([known, context.draw_units(max(0, width - len(known)))])[:width]
    hops = search_by_hops(context, units, _count_hops(context, width))
    if context.is_solved(hops) or context.largest_width() < width:
        return hops
    with best_so_far(hops):
        wide = search_with_spares(context, width, start)
    best = min(hops, wide, key=lambda one: one.loss)
    return replace(best, trace=hops.trace.then(wide.trace), runs=wide.runs if best is wide else 0)


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
        if _affordable_hops(context, width, rules.seconds_per_width) < rules.hops_per_width:
            break
        units = np.vstack([found.point.units, context.draw_units(width)])[:width]
        with best_so_far(found):
            wider = search_by_hops(context, units, rules.hops_per_width)
        trace = trace.then(wider.trace)
        if context.is_solved(wider):
            return context.prune(replace(wider, trace=trace), None)
    return replace(found, trace=trace)


def _count_hops(context: SearchContext, width: int) -> int:
    """How many hops are made at most: the more, the nearer the counting limit.

    With ρ equations per free parameter, the hops that 20-10-1 took grew from a few at ρ = 2 to hundreds at 1.3, like (ρ - 1)⁻³.
    """
    rules, unknowns = settings.SEARCH, context.count_parameters(width)
    near = rules.hops_at_double / max(context.equations / unknowns - 1.0, 0.1) ** 3
    return int(min(width * min(near, rules.most_hops), _affordable_hops(context, width, rules.hop_seconds)))


def _affordable_hops(context: SearchContext, width: int, seconds: float) -> float:
    return seconds / options.COST.step_seconds(context.source.size, context.count_parameters(width))


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
    return replace(best, trace=first.trace.then(second.trace), runs=runs)


def _search_and_prune(context: SearchContext, width: int, start: SearchStart) -> FittedPoint:
    """Runs with spares, each repaired from the best before it, until one fits or two agree; pruned to `width`."""
    found = search_at_width(context, _trial(context, width, settings.SEARCH.close_loss, width), start)
    return found if found.agreed else context.prune(found, width)


def grow_width(context: SearchContext, start: SearchStart, width: int) -> FittedPoint:
    """Double the width until the data are fitted, doubling does not pay (twice), or the samples do not allow it."""
    few = context._replace(search=replace(context.search, hops=min(context.search.hops, 3)))
    best, trace, worse, limit = None, None, 0, context.largest_width()
    while True:
        trial = _trial(context, width, SOLVED_LOSS, None)
        with best_so_far(best):
            found = search_at_width(few, trial, start._replace(before=best))
        trace = found.trace if trace is None else trace.then(found.trace)
        if best is None or _is_better(context, found, best):
            best, worse = found, 0
        else:
            worse += 1
        if found.agreed and same_minimum(context, best, found):
            return replace(best, trace=trace, runs=found.runs)
        if context.is_solved(best, trial.floor) or worse == 2 or width >= limit:
            return repeat_at_found_width(context, context.prune(replace(best, trace=trace), None))
        width = min(2 * width, limit)


def repeat_at_found_width(context: SearchContext, found: FittedPoint) -> FittedPoint:
    """Search again at the width just found; two runs may now agree, on it or on a better fit."""
    width = found.point.width
    if context.is_solved(found) or not context.is_cheap(found.point):
        return found
    trial = _trial(context, width, settings.SEARCH.close_loss, width)
    with best_so_far(found):
        again = search_at_width(context, trial, SearchStart(found.point.units))
    if not again.agreed or (again.loss > found.loss and not same_minimum(context, found, again)):
        return replace(found, trace=found.trace.then(again.trace))
    return replace(min(found, again, key=lambda one: one.loss), trace=found.trace.then(again.trace), runs=again.runs)


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
