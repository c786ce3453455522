"""Runs with spare units at one width: two at once, then repairs, until one fits or two agree once they are pruned.

A *repair* throws the cheapest third of the units away, by exact cost, and draws them anew: what is stuck comes free, the good
ones stay. Where a step takes long and the width is told, a second run from units of its own goes beside the first, each on one
core: dense algebra between passes, and passes over few rows, do not keep two busy, and two independent runs that end at the same
minimum say more than one that was repaired. The second is dropped if the first fits, so that bits do not depend on cores.

Where the width is not told and runs take long, one that needs its spares is widened, not repeated: it cannot be the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from laybare.damping import Trace
from laybare.damping.trace import TraceRow
from laybare.levels import ROUNDING_LOSS
from laybare.refinement.agreement import may_be_same, same
from laybare.refinement.hunt import Hunt
from laybare.refinement.levenberg import Refined, project
from laybare.refinement.normal import Fit, FitStatistic, Point
from laybare.refinement.peeling import missing_units
from laybare.refinement.pruning import elimination_order, parameter_count, removal_pays, with_units, without
from laybare.shapes import Array, Event, Progress, tell
from laybare.source.lanes import lanes, until_interrupted

BESIDE = 2e8
"""n·P² from which a second run goes beside the first: a step takes a few milliseconds there."""

PATIENT, QUICK = 3, 2e7
"""Times as many repairs where the width is told, n·P² is less than that, and some runs came as near to each other as noise makes
them: of plain noisy networks 2 in 100 are met once only then (`laybare reproduce plain-noise`)."""

STUBBORN = 3
"""Repairs after which two runs that miss their spares may agree all the same: the width that was told may be too small."""

ROOMY, TIGHT = 4, 2
"""Equations for each number at twice the width, from which a run that needs its spares is widened; and at a width that is not
told, below which no two runs are compared: to prune a hundred units takes seconds there, and what they agree on proves little."""


class WideRun(NamedTuple):
    """A run, and what is left of it once it is pruned, if that is known."""

    found: Refined
    pruned: Refined | None = None


class WideRuns(NamedTuple):
    """The best of several runs with spares; and, if two agree once they are pruned, the better of those."""

    best: Refined
    pruned: Refined | None = None


class WidthAttempt(NamedTuple):
    """A width that is tried: how many units, how many with spares, the loss at which a run ends, and how many are `told`, or None
    for as many as are needed."""

    units: int
    wide: int
    floor: float
    told: int | None

    def enough(self, pruned: Refined) -> bool:
        """A spare that pruning keeps was needed, and where there was none nobody knows."""
        return self.told is not None or pruned.point.width <= min(self.units, self.wide - 1)


def runs_at(
    hunt: Hunt, attempt: WidthAttempt, known: Array | None, *, blind: bool = False, before: Refined | None = None
) -> WideRuns:
    """Runs at a width until one fits, or two agree once they are pruned.

    `known` units come first in the first run; if `blind`, they know nothing, so that another run may go beside it. `before` is
    what a narrower search ended with: a run that ends there too, with spares, needs no other.
    """
    units = hunt.random(attempt.wide)
    if known is not None:
        units[: min(len(known), attempt.wide)] = known[: attempt.wide]
    best, other = _first(hunt, attempt, hunt.start(units), blind=blind)
    trace, pruned = best.found.trace, None
    hops = hunt.search.hops
    for hop in range(PATIENT * hops if attempt.told is not None and quick(hunt, best.found.point) else hops):
        if hunt.solved(best.found, attempt.floor) or trace.reason == "interrupted" or (hop >= hops and pruned is None):
            break
        if other is None:
            tell(hunt.progress, "repairing", hop + 1, max(hops, hop + 1), f"relative loss {best.found.loss / hunt.scale:.1e}")
            repaired = _repaired(hunt, best.found.point)
            if pruned is None and best.pruned is None:
                best, other = _pruned_first(hunt, attempt, best, repaired)
            if best.pruned is not None and _roomy(hunt, attempt, best.found.point):
                ended = _ended_early(hunt, attempt, best, before, trace.then(best.pruned.trace), runs=hop + 2)
                if ended is not None:
                    return ended
            other = other or WideRun(hunt.minimise(repaired, attempt.floor))
        run, other = other, None
        trace = trace.then(run.found.trace)
        if trace.reason == "interrupted":
            break
        if _comparable(hunt, attempt, run) and may_be_same(hunt, best.found, run.found, attempt.wide - attempt.units):
            first, second, trace = _both_pruned(hunt, attempt, (best, run), pruned, trace)
            if trace.reason == "interrupted":
                break
            pruned = min(first, second, key=lambda one: one.loss)
            if same(hunt, first, second):
                if attempt.enough(second) and (hop >= STUBBORN or not _misses_spares(hunt, run.found, second)):
                    return WideRuns(best.found, pruned._replace(trace=trace, runs=hop + 2))
                if not attempt.enough(second) and attempt.units < hunt.largest_width():  # both need more units than there are
                    best = min(best, run, key=lambda one: one.found.loss)
                    break
        best = min(best, run, key=lambda one: one.found.loss)
    return WideRuns(best.found._replace(trace=trace))


def _both_pruned(
    hunt: Hunt, attempt: WidthAttempt, runs: tuple[WideRun, WideRun], known: Refined | None, trace: Trace
) -> tuple[Refined, Refined, Trace]:
    """What is left of two runs, of the first as far as it is `known`, and the steps until then; an interrupt says so there."""
    best, run = runs
    first = known or best.pruned or hunt.pruned(best.found, attempt.told)
    trace = trace if first is known else trace.then(first.trace)
    if trace.reason == "interrupted":
        return first, first, trace
    second = run.pruned or hunt.pruned(run.found, attempt.told)
    return first, second, trace.then(second.trace)


def _first(hunt: Hunt, attempt: WidthAttempt, start: Point, *, blind: bool) -> tuple[WideRun, WideRun | None]:
    """The first run, and a second one from other units where that is worth it and the first does not fit."""
    if not blind or attempt.told is None or hunt.search.hops == 0 or hunt.work(start) < BESIDE:
        return WideRun(hunt.minimise(start, attempt.floor)), None
    other = hunt.start(hunt.random(attempt.wide))
    if lanes(hunt.source) > 1:
        return _two_at_once(hunt, attempt, start, other)
    first = hunt.minimise(start, attempt.floor)
    over = hunt.solved(first, attempt.floor) or first.trace.reason == "interrupted"
    return WideRun(first), None if over else WideRun(hunt.minimise(other, attempt.floor))


def _two_at_once(hunt: Hunt, attempt: WidthAttempt, start: Point, other: Point) -> tuple[WideRun, WideRun | None]:
    """Runs from both, each pruned as soon as it has ended: with noise that is what comes next.

    Nobody needs the second if the first fits: it ends at its next step. An interrupt ends both.
    """
    ended: dict[int, Refined] = {}

    def fits() -> bool:
        return 0 in ended and hunt.solved(ended[0], attempt.floor)

    def lane(number: int, point: Point) -> Callable[[Progress], WideRun]:
        def run(progress: Progress) -> WideRun:
            def heard(event: Event) -> None:
                if number and fits():
                    raise KeyboardInterrupt
                progress(event)

            own = hunt._replace(progress=heard)
            found = ended[number] = own.minimise(point, attempt.floor)
            pruned = None
            if not fits() and not hunt.solved(found, attempt.floor) and found.trace.reason != "interrupted":
                pruned = own.pruned(found, attempt.told)
            if not fits():
                (pruned or found).trace.pass_on_interrupt()
            return WideRun(found, pruned)

        return run

    runs = until_interrupted(hunt.source, hunt.progress, lane(0, start), lane(1, other))
    if runs is None:
        best = min(ended.values(), key=lambda one: one.loss) if ended else _not_begun(hunt, start)
        return WideRun(best._replace(trace=best.trace._replace(reason="interrupted"))), None
    first, second = runs
    return first, None if fits() else second


def _not_begun(hunt: Hunt, start: Point) -> Refined:
    point, loss = project(start, Fit(*hunt.source.sum(FitStatistic(start), stage="loss")))
    return Refined(point, loss, Trace((TraceRow(loss / hunt.scale, 0.0, 0.0, 0.0, hunt.source.size),), "interrupted"))


def _pruned_first(hunt: Hunt, attempt: WidthAttempt, best: WideRun, repaired: Point) -> tuple[WideRun, WideRun | None]:
    """The best run, pruned where that comes first, and a run from `repaired` meanwhile where there are two cores for that: with
    noise both are needed. An interrupt ends both, and the run is said to be interrupted."""
    beside = hunt.dear(best.found.point) and lanes(hunt.source) > 1
    if not beside:
        roomy = _roomy(hunt, attempt, best.found.point)
        return (best._replace(pruned=hunt.pruned(best.found, attempt.told)) if roomy else best), None

    def run_on(progress: Progress) -> Refined:
        run = hunt._replace(progress=progress).minimise(repaired, attempt.floor)
        run.trace.pass_on_interrupt()
        return run

    def prune_best(progress: Progress) -> Refined:
        pruned = hunt._replace(progress=progress).pruned(best.found, attempt.told)
        pruned.trace.pass_on_interrupt()
        return pruned

    ended = until_interrupted(hunt.source, hunt.progress, run_on, prune_best)
    if ended is None:
        stopped = best.found._replace(trace=Trace(best.found.trace.rows[-1:], "interrupted"))
        return best, WideRun(stopped)
    run, pruned = ended
    return best._replace(pruned=pruned), WideRun(run)


def _ended_early(
    hunt: Hunt, attempt: WidthAttempt, best: WideRun, before: Refined | None, trace: Trace, *, runs: int
) -> WideRuns | None:
    """What a run that was pruned first says by itself: that more units are needed, or what a narrower search had found too."""
    pruned = best.pruned
    if pruned is None or trace.reason == "interrupted":
        return WideRuns(best.found._replace(trace=trace))
    if not attempt.enough(pruned):
        return WideRuns(pruned._replace(trace=trace))
    if before is not None and same(hunt, before, pruned):
        return WideRuns(best.found, min(before, pruned, key=lambda one: one.loss)._replace(trace=trace, runs=runs))
    return None


def quick(hunt: Hunt, point: Point) -> bool:
    """Whether runs at that width take so little time that many can be made."""
    return hunt.work(point) < QUICK


def _comparable(hunt: Hunt, attempt: WidthAttempt, run: WideRun) -> bool:
    """Whether a run is worth pruning for a comparison: it does not fit, and the width is told or leaves equations to check."""
    loose = attempt.told is not None or hunt.equations >= TIGHT * hunt.numbers(attempt.wide)
    return loose and not hunt.solved(run.found, attempt.floor)


def _misses_spares(hunt: Hunt, wide: Refined, pruned: Refined) -> bool:
    """Whether a fit without its spares is worse than these are worth: others of that width may be better."""
    lost = parameter_count(wide.point) - parameter_count(pruned.point)
    return not removal_pays(hunt.source, wide.loss, pruned.loss, hunt.scale, lost, ROUNDING_LOSS)


def _roomy(hunt: Hunt, attempt: WidthAttempt, point: Point) -> bool:
    """Whether the width is not told, enough equations are left to widen it, and repairs are not so quick that they come first."""
    slow = not quick(hunt, point)
    return attempt.told is None and slow and hunt.equations >= ROOMY * hunt.numbers(hunt.wide(2 * attempt.units))


def _repaired(hunt: Hunt, point: Point) -> Point:
    """The point with its cheapest third of units drawn anew."""
    order, _ = elimination_order(point, Fit(*hunt.source.sum(FitStatistic(point), stage="repair")))
    new = -(-point.width // 3)
    rest = without(point, np.sort(order[new:]))
    fresh = hunt.random(new)
    if hunt.search.peel:
        peeled = missing_units(hunt.source, rest, new // 2)
        fresh[: len(peeled)] = peeled
    return with_units(rest, fresh, np.zeros((new, hunt.source.outputs)))
