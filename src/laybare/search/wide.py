"""Over-wide search: more units than needed, Gauss-Newton, then pruning.

At exact width the squared error has bad local minima; a few spare units remove most of them, and repairs most of the rest
(`runs.py`). Without noise a run that fits ends the search. With noise none fits exactly, and spare units follow the noise, in
each run in another way: two runs whose losses differ by no more than that are pruned, and if they end at the same minimum the
search is over.

Spares need equations. Where these are few, hops at exact width come first (`hops.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laybare.numerics import cost
from laybare.numerics.levels import SOLVED_LOSS
from laybare.numerics.shapes import Array
from laybare.search import settings
from laybare.search.hops import search_by_hops
from laybare.search.runs import WidthTrial, same_minimum, search_at_width
from laybare.search.settings import SearchContext, SearchStart
from laybare.solver import best_so_far
from laybare.solver.options import SOLVER
from laybare.solver.point import FittedPoint, parameter_count


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
    return settings.SEARCH.hop_seconds / cost.COST.step_seconds(context.source.size, context.count_parameters(width))


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
        if best is None or _bic(context, found) < _bic(context, best):
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


def _bic(context: SearchContext, found: FittedPoint) -> float:
    """Schwarz's criterion; smaller is better."""
    size = context.equations
    return size * float(np.log(max(found.loss, np.finfo(float).tiny))) + parameter_count(found.point) * float(np.log(size))
