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

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.numerics.levels import ROUNDING_LOSS
from laybare.numerics.shapes import Array, Event, Progress, Sums, report_progress
from laybare.search import settings
from laybare.search.settings import SearchContext
from laybare.solver import Trace
from laybare.solver.loop import TraceRow
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


def search_at_width(
    context: SearchContext, trial: WidthTrial, known: Array | None, *, independent: bool = False,
    before: FittedPoint | None = None,
) -> WideFit:
    """The best of the runs at a width; with `pruned` if two agree.

    `known` units come first in the first run; `independent`: they are random, so that a second run may be made at once. `before`
    is the result of a narrower search: a run that ends there too, with spares, needs no other.
    """
    units = context.draw_units(trial.wide)
    if known is not None:
        units[: min(len(known), trial.wide)] = known[: trial.wide]
    best, other = _first_runs(context, trial, context.start(units), independent=independent)
    trace, pruned = best.wide.trace, None
    hops, rules = context.search.hops, settings.SEARCH
    for hop in range(rules.patience * hops if trial.given is not None and context.is_cheap(best.wide.point) else hops):
        if context.is_solved(best.wide, trial.floor) or trace.reason == "interrupted" or (hop >= hops and pruned is None):
            break
        if other is None:
            detail = f"relative loss {best.wide.loss / context.scale:.1e}"
            report_progress(context.progress, "repairing", hop + 1, max(hops, hop + 1), detail)
            repaired = _repair(context, best.wide.point)
            if pruned is None and best.pruned is None:
                best, other = _prune_and_repeat(context, trial, best, repaired)
            if best.pruned is not None and _may_widen(context, trial, best.wide.point):
                ended = _end_early(context, trial, best, before, trace.then(best.pruned.trace), runs=hop + 2)
                if ended is not None:
                    return ended
            other = other or WideFit(context.minimise(repaired, trial.floor))
        run, other = other, None
        trace = trace.then(run.wide.trace)
        if trace.reason == "interrupted":
            break
        if _is_comparable(context, trial, run) and losses_compatible(context, best.wide, run.wide, trial.wide - trial.units):
            first, second, trace = _prune_both(context, trial, (best, run), pruned, trace)
            if trace.reason == "interrupted":
                break
            pruned = min(first, second, key=lambda one: one.loss)
            if same_minimum(context, first, second):
                if trial.is_enough(second) and (hop >= rules.repairs_to_narrow or not _misses_spares(context, run.wide, second)):
                    return WideFit(best.wide, pruned._replace(trace=trace, runs=hop + 2))
                if not trial.is_enough(second) and trial.units < context.largest_width():  # both need more units than there are
                    best = min(best, run, key=lambda one: one.wide.loss)
                    break
        best = min(best, run, key=lambda one: one.wide.loss)
    return WideFit(best.wide._replace(trace=trace))


def _first_runs(context: SearchContext, trial: WidthTrial, start: Point, *, independent: bool) -> tuple[WideFit, WideFit | None]:
    """The first run, and a second one from other units where steps are expensive and the first does not fit."""
    single = not independent or trial.given is None or context.search.hops == 0
    if single or context.step_work(start) < settings.SEARCH.second_run:
        return WideFit(context.minimise(start, trial.floor)), None
    other = context.start(context.draw_units(trial.wide))
    if max_parallel_tasks(context.source) > 1:
        return _run_two(context, trial, start, other)
    first = context.minimise(start, trial.floor)
    over = context.is_solved(first, trial.floor) or first.trace.reason == "interrupted"
    return WideFit(first), None if over else WideFit(context.minimise(other, trial.floor))


def _run_two(context: SearchContext, trial: WidthTrial, start: Point, other: Point) -> tuple[WideFit, WideFit | None]:
    """Runs from both starts at once, each pruned when it ends: with noise pruning comes next.

    If the first fits, the second ends at its next step. An interrupt ends both.
    """
    ended: dict[int, FittedPoint] = {}

    def fits() -> bool:
        return 0 in ended and context.is_solved(ended[0], trial.floor)

    def task(number: int, point: Point) -> Callable[[Progress], WideFit]:
        def run(progress: Progress) -> WideFit:
            def report(event: Event) -> None:
                if number and fits():
                    raise KeyboardInterrupt
                progress(event)

            own = context._replace(progress=report)
            found = ended[number] = own.minimise(point, trial.floor)
            pruned = None
            if not fits() and not context.is_solved(found, trial.floor) and found.trace.reason != "interrupted":
                pruned = own.prune_only(found, trial.given)
            if not fits():
                (pruned or found).trace.raise_if_interrupted()
            return WideFit(found, pruned)

        return run

    runs = run_until_interrupted(context.source, context.progress, task(0, start), task(1, other))
    if runs is None:
        best = min(ended.values(), key=lambda one: one.loss) if ended else _unrefined(context, start)
        return WideFit(best._replace(trace=best.trace._replace(reason="interrupted"))), None
    first, second = runs
    return first, None if fits() else second


def _unrefined(context: SearchContext, start: Point) -> FittedPoint:
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
    `repaired`: with noise both are needed. An interrupt ends both, and the second run says so."""
    if not context.is_expensive(best.wide.point) or max_parallel_tasks(context.source) < 2:
        widen = _may_widen(context, trial, best.wide.point)
        return (best._replace(pruned=context.prune_only(best.wide, trial.given)) if widen else best), None

    def repeat(progress: Progress) -> FittedPoint:
        run = context._replace(progress=progress).minimise(repaired, trial.floor)
        run.trace.raise_if_interrupted()
        return run

    def prune_best(progress: Progress) -> FittedPoint:
        pruned = context._replace(progress=progress).prune_only(best.wide, trial.given)
        pruned.trace.raise_if_interrupted()
        return pruned

    ended = run_until_interrupted(context.source, context.progress, repeat, prune_best)
    if ended is None:
        return best, WideFit(best.wide._replace(trace=Trace(best.wide.trace.rows[-1:], "interrupted")))
    run, pruned = ended
    return best._replace(pruned=pruned), WideFit(run)


def _end_early(
    context: SearchContext, trial: WidthTrial, best: WideFit, before: FittedPoint | None, trace: Trace, *, runs: int
) -> WideFit | None:
    """The result if one pruned run is enough: it needs more units, or a narrower search ended there too."""
    pruned = best.pruned
    if pruned is None or trace.reason == "interrupted":
        return WideFit(best.wide._replace(trace=trace))
    if not trial.is_enough(pruned):
        return WideFit(pruned._replace(trace=trace))
    if before is not None and same_minimum(context, before, pruned):
        return WideFit(best.wide, min(before, pruned, key=lambda one: one.loss)._replace(trace=trace, runs=runs))
    return None


def _prune_both(
    context: SearchContext, trial: WidthTrial, runs: tuple[WideFit, WideFit], known: FittedPoint | None, trace: Trace
) -> tuple[FittedPoint, FittedPoint, Trace]:
    """Both runs pruned (the first may be `known`), and the steps until then; after an interrupt the first one twice."""
    best, run = runs
    first = known or best.pruned or context.prune_only(best.wide, trial.given)
    trace = trace if first is known else trace.then(first.trace)
    if trace.reason == "interrupted":
        return first, first, trace
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
