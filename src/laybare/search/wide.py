"""Over-wide search: more units than needed, Gauss-Newton, then pruning.

At exact width the squared error has bad local minima; a few spare units remove most of them, and repairs most of the rest: the
third of the units that costs least, by exact cost, is drawn again, so that what is stuck is freed and good units stay. Without
noise a run that fits ends the search. With noise none fits exactly, and spare units follow the noise, in each run in another way:
two runs whose losses differ by no more than that are pruned, and if they end at the same minimum the search is over. Spares need
equations: where these are few, hops at exact width come first (`hops.py`).

Where a step takes long and the width is given, a second run from other units is made at the same time, each on one core: dense
algebra between passes, and passes over few rows, do not keep two cores busy, and two independent runs that end at the same
minimum are stronger evidence than a repaired one. The second is dropped if the first fits: bits do not depend on cores. Where the
width is not given and runs take long, one that needs its spares is widened, not repeated: it cannot be the last one.

Agreement: noise makes a fit of P parameters differ from the truth by P σ² in the sum of squares over all rows. Two fits whose
outputs differ by a share ε of that are √ε of a standard error apart, in the mean over all directions. One unit more, fewer or
elsewhere makes a difference of several P σ² per unit, since it gains log n for each of its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from laybare.errors import Interrupted
from laybare.numerics.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.numerics.shapes import Array, Event, Progress, Sums, report_progress
from laybare.search import settings
from laybare.search.hops import search_by_hops
from laybare.search.settings import SearchContext, check_counting_limit
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


@dataclass(eq=False)
class _Runs:
    """Runs at one width: for `units`, `wide` with spares, until one leaves `floor`; whether the width is `given`, else found.

    So far: the best run, all steps, how many followed the first, and what is left of the best after pruning, if known, or the
    better of two that were compared.
    """

    context: SearchContext
    units: int
    wide: int
    floor: float
    given: bool
    best: FittedPoint
    trace: Trace
    repeats: int = 0
    pruned: FittedPoint | None = None
    compared: bool = False

    @property
    def over(self) -> bool:
        """Whether a run fits, or no further one is to be made: more of them if they are cheap and two nearly agree."""
        most = self.context.search.hops
        if self.context.is_solved(self.best, self.floor) or self.repeats >= settings.SEARCH.patience * most:
            return True
        return self.repeats >= most and not (self.given and self.context.is_cheap(self.best.point) and self.compared)

    def repeat(self) -> FittedPoint:
        """A run from the best one, repaired: the cheapest third of its units drawn again."""
        context, point, most = self.context, self.best.point, max(self.context.search.hops, self.repeats + 1)
        detail = f"relative loss {self.best.loss / context.scale:.1e}"
        report_progress(context.progress, "repairing", self.repeats + 1, most, detail)
        order, _ = elimination_order(point, Fit(*context.source.sum(FitStatistic(point), stage="repair")))
        new = -(-point.width // 3)
        rest = keep_units(point, np.sort(order[new:]))
        return context.minimise(add_units(rest, context.draw_units(new), np.zeros((new, context.source.outputs))), self.floor)

    def add(self, run: FittedPoint) -> FittedPoint | None:
        """Another run, compared with the best one if their losses allow that they end at the same minimum: the result, if any."""
        self.trace, self.repeats = self.trace.then(run.trace), self.repeats + 1
        found = self._compare(run) if self._is_comparable(run) else None
        if run.loss < self.best.loss:
            self.best, self.pruned = run, self.pruned if self.compared else None
        return found

    def widen(self, before: FittedPoint | None) -> FittedPoint | None:
        """The result where a wider search comes next: if pruning keeps spares, or ends where a narrower search did."""
        if self.compared or not self._may_widen():
            return None
        if self.pruned is None:
            self.pruned = self.context.prune_only(self.best, None)
            self.trace = self.trace.then(self.pruned.trace)
        if not self._is_enough(self.pruned):
            return self.pruned
        if before is not None and same_minimum(self.context, before, self.pruned):
            return replace(_lower(before, self.pruned), runs=self.repeats + 2)
        return None

    def _compare(self, run: FittedPoint) -> FittedPoint | None:
        """The best run and another one, both pruned: two that end at the same minimum are the result, or show that more units are
        needed than there are."""
        first, second = self._prune_both(run)
        self.trace = (self.trace if first is self.pruned else self.trace.then(first.trace)).then(second.trace)
        self.pruned, self.compared = _lower(first, second), True
        if not same_minimum(self.context, first, second):
            return None
        if self._is_enough(second):
            trusted = self.repeats > settings.SEARCH.repairs_to_narrow or not self._misses_spares(run, second)
            return replace(self.pruned, runs=self.repeats + 1) if trusted else None
        return _lower(self.best, run) if self.units < self.context.largest_width() else None

    def _prune_both(self, run: FittedPoint) -> Sequence[FittedPoint]:
        """The best run and another one without their spares, at the same time where that is expensive. An interrupt ends both."""
        context, width = self.context, self.units if self.given else None
        if self.pruned is not None:
            return self.pruned, context.prune_only(run, width)

        def prune(fit: FittedPoint, progress: Progress | None) -> FittedPoint:
            return context._replace(progress=progress).prune_only(fit, width)

        if not context.is_expensive(run.point):
            return prune(self.best, context.progress), prune(run, context.progress)
        return run_until_interrupted(context.source, context.progress, partial(prune, self.best), partial(prune, run))

    def _is_enough(self, pruned: FittedPoint) -> bool:
        """Whether pruning kept no spare: those it keeps were needed."""
        return self.given or pruned.point.width <= min(self.units, self.wide - 1)

    def _is_comparable(self, run: FittedPoint) -> bool:
        """Whether a run is worth pruning for a comparison: there is noise, it does not fit, the width is given or leaves
        equations to check, and its loss differs from the best by no more than spare units gain from noise.

        To prune a hundred units takes seconds, and with few equations an agreement proves little.
        """
        context, rules, best = self.context, settings.SEARCH, self.best
        enough = self.given or context.equations >= rules.equations_to_compare * context.count_parameters(self.wide)
        left = max(1, context.equations - parameter_count(best.point))
        noise = rules.noise_per_spare * (self.wide - self.units) * parameters_per_unit(best.point) / left
        most = max(_tolerance(context, best) * overfit(context.source, best.point), noise) * best.loss
        undecided = not context.search.exact and not context.is_solved(run, self.floor)
        return enough and undecided and abs(best.loss - run.loss) <= most

    def _misses_spares(self, wide: FittedPoint, pruned: FittedPoint) -> bool:
        """Whether the spares gained more than their penalty: other fits of the pruned width may be better."""
        lost = parameter_count(wide.point) - parameter_count(pruned.point)
        return not removal_pays(self.context.source, wide.loss, pruned.loss, self.context.scale, lost, ROUNDING_LOSS)

    def _may_widen(self) -> bool:
        """Whether the width is not given, equations are left to widen it, and runs are not so cheap that repairs come first."""
        context = self.context
        enough = settings.SEARCH.equations_to_widen * context.count_parameters(context.with_spares(2 * self.units))
        return not self.given and not context.is_cheap(self.best.point) and context.equations >= enough


def search_at_width(
    context: SearchContext, width: int, *, given: bool, before: FittedPoint | None = None
) -> FittedPoint:
    """The best of the runs at a width, or, if two agree, what is left of them after pruning. Known units come first in the first.

    `before` is the result of a narrower search: a run that ends there too, with spares, needs no other.
    """
    context.check_width(width)
    units, known = context.draw_units(context.with_spares(width)), context.known
    if known is not None:
        units[: min(len(known), len(units))] = known[: len(units)]
    matrix_free = units.size > SOLVER.dense_limit
    floor = (settings.SEARCH.close_loss if given else SOLVED_LOSS) if matrix_free else 0.0
    independent = given and context.search.hops > 0 and (known is None or context.trust == "random")
    best, run = _first_runs(context, context.start(units), floor, twice=independent)
    runs = _Runs(context, width, len(units), floor, given, best, best.trace)
    with best_so_far(lambda: runs.best):
        while not runs.over:
            found = None if run else runs.widen(before)
            if found is None:
                found, run = runs.add(run or runs.repeat()), None
            if found is not None:
                return replace(found, trace=runs.trace)
    return replace(runs.best, trace=runs.trace)


def _first_runs(
    context: SearchContext, start: Point, floor: float, *, twice: bool
) -> tuple[FittedPoint, FittedPoint | None]:
    """The first run; where steps are expensive, at the same time a second one from other units, unless the first fits."""
    if not twice or not context.is_expensive(start):
        return context.minimise(start, floor), None
    other, ended = context.start(context.draw_units(start.width)), dict[int, FittedPoint]()

    def first_fits() -> bool:
        return 0 in ended and context.is_solved(ended[0], floor)

    def run(number: int, progress: Progress) -> None:
        def report(event: Event) -> None:
            if number and first_fits():
                raise Interrupted
            progress(event)

        try:
            if not (number and first_fits()):
                ended[number] = context._replace(progress=report).minimise((start, other)[number], floor)
        except FitInterrupt:
            if number and first_fits():
                return
            raise

    with best_so_far(lambda: _lower(*ended.values()) if ended else _unrefined(context, start)):
        run_until_interrupted(context.source, context.progress, partial(run, 0), partial(run, 1))
    return ended[0], None if first_fits() else ended[1]


def _unrefined(context: SearchContext, start: Point) -> FittedPoint:
    """Where runs begin, for an interrupt that comes while this thread waits for others."""
    point, loss = project_on(context.source, start)
    rows = context.source.size
    return FittedPoint(point, loss, None, Trace((TraceRow(loss / context.scale, 0.0, 0.0, 0.0, rows),), "interrupted"), rows)


def _lower(*fits: FittedPoint) -> FittedPoint:
    """The fit with the lowest loss, of equal ones the first."""
    return min(fits, key=lambda one: one.loss)


def same_minimum(context: SearchContext, one: FittedPoint, other: FittedPoint) -> bool:
    """Whether two pruned runs ended at the same minimum; at most one pass."""
    if one.point.width != other.point.width:
        return False
    most = _tolerance(context, one) * overfit(context.source, one.point) * min(one.loss, other.loss)
    if abs(one.loss - other.loss) > most:
        return False

    def apart(x: Array, y: Array) -> Sums:
        return (np.asarray(np.sum((outputs_at(one.point, x) - outputs_at(other.point, x)) ** 2)),)

    return float(context.source.sum(apart, stage="loss")[0]) <= most


def _tolerance(context: SearchContext, found: FittedPoint) -> float:
    return settings.SEARCH.same_minimum_early if context.is_expensive(found.point) else settings.SEARCH.same_minimum


def search_with_spares(context: SearchContext, width: int | None) -> FittedPoint:
    """The best fit found and pruned: to `width` units if given, else to as many as the data call for.

    Known units come first, random spares beside them. If they may be all, they are tried alone first.
    """
    known = context.known if context.trust == "complete" else None
    if width is None:
        first = settings.SEARCH.first_width
        return grow_width(context, first if known is None else max(first, len(known)))
    if known is not None and len(known) >= width:
        return _known_alone_first(context, known[:width])
    return _search_and_prune(context, width)


def search_few_equations(context: SearchContext, width: int | None) -> FittedPoint:
    """`search_with_spares`, and hops where equations are few: before it if the width is given, else after it, in vain.

    With noise no hop fits exactly: they are in vain, or find a better fit than runs with spares, if these can be made at all.
    """
    if context.search.spares is not None or not context.search.hops:
        return search_with_spares(context, width)
    if width is None:
        wide = search_with_spares(context, width)
        over = context.is_solved(wide) or not _has_few_equations(context, wide.point.width)
        return wide if over else grow_by_hops(context, wide)
    if not _has_few_equations(context, width):
        return search_with_spares(context, width)
    check_counting_limit(context.source, context.count_parameters(width), width=width, largest_width=context.largest_width())
    known = context.draw_units(width) if context.known is None else context.known
    units = np.vstack([known, context.draw_units(max(0, width - len(known)))])[:width]
    hops = search_by_hops(context, units, _count_hops(context, width))
    if context.is_solved(hops) or context.largest_width() < width:
        return hops
    with best_so_far(hops):
        wide = search_with_spares(context, width)
    best = _lower(hops, wide)
    return replace(best, trace=hops.trace.then(wide.trace), runs=wide.runs if best is wide else 0)


def grow_by_hops(context: SearchContext, found: FittedPoint) -> FittedPoint:
    """A few hops at twice the width of a fit, and so on while equations allow; the first exact fit is pruned to its width.

    A model with half as many units again as the network is solved by as few hops as one of its width, while equations are
    left; pruning an exact fit leaves the units that are needed. If no width fits exactly, the fit as it was.
    """
    rules = settings.SEARCH
    widest = context.largest_width(max(rules.equations_to_hop, context.search.equations))
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
        second = _search_and_prune(context.knowing(first.point.units), len(known))
        runs = second.runs or 2 * same_minimum(context, first, second)
    return replace(_lower(second, first), trace=first.trace.then(second.trace), runs=runs)


def _search_and_prune(context: SearchContext, width: int) -> FittedPoint:
    """Runs with spares, each repaired from the best before it, until one fits or two agree; pruned to `width`."""
    found = search_at_width(context, width, given=True)
    return found if found.agreed else context.prune(found, width)


def grow_width(context: SearchContext, width: int) -> FittedPoint:
    """Double the width until the data are fitted, doubling does not pay (twice), or the samples do not allow it."""
    few = context._replace(search=replace(context.search, hops=min(context.search.hops, 3)))
    best, trace, worse, limit = None, None, 0, context.largest_width()
    while True:
        with best_so_far(best):
            found = search_at_width(few, width, given=False, before=best)
        trace = found.trace if trace is None else trace.then(found.trace)
        if best is None or _is_better(context, found, best):
            best, worse = found, 0
        else:
            worse += 1
        if found.agreed and same_minimum(context, best, found):
            return replace(best, trace=trace, runs=found.runs)
        if context.is_solved(best) or worse == 2 or width >= limit:
            return repeat_at_found_width(context, context.prune(replace(best, trace=trace), None))
        width = min(2 * width, limit)


def repeat_at_found_width(context: SearchContext, found: FittedPoint) -> FittedPoint:
    """Search again at the width just found; two runs may now agree, on it or on a better fit."""
    if context.search.exact or context.is_solved(found) or not context.is_cheap(found.point):
        return found
    with best_so_far(found):
        again = search_at_width(context.knowing(found.point.units), found.point.width, given=True)
    trace = found.trace.then(again.trace)
    if not again.agreed or (again.loss > found.loss and not same_minimum(context, found, again)):
        return replace(found, trace=trace)
    return replace(_lower(found, again), trace=trace, runs=again.runs)


def _is_better(context: SearchContext, wider: FittedPoint, best: FittedPoint) -> bool:
    """Whether a wider fit gains more than its parameters do by chance."""
    more = parameter_count(wider.point) - parameter_count(best.point)
    return log_likelihood_gain(context.equations, best.loss, wider.loss) > schwarz_penalty(more, context.equations)
