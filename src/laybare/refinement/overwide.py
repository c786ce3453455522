"""Over-wide search: more units than needed, Gauss-Newton, then pruning: the practical engine for noiseless networks.

At exact width the squared error has bad local minima; a few spare units remove most of them, and what is still stuck is repaired
(`runs.py`). Without noise a run that fits ends the search. With noise none fits, and spare units follow the noise, each time in
another way: two runs whose losses differ by no more than that are pruned, and if they end at the same minimum (`agreement.py`)
the search is over.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from laybare.levels import SOLVED_LOSS
from laybare.refinement.agreement import same
from laybare.refinement.hunt import Hunt, Search
from laybare.refinement.levenberg import Refined
from laybare.refinement.minimise import DENSE_LIMIT
from laybare.refinement.normal import Model
from laybare.refinement.pruning import parameter_count
from laybare.refinement.runs import WidthAttempt, quick, runs_at
from laybare.refinement.variation import total_variation
from laybare.shapes import Array, Progress
from laybare.source import Source

CLOSE = 1e-5
"""Relative loss at which a matrix-free search hands over to pruning if the width is told: with spare units the rest is slow."""

FIRST_WIDTH = 4
"""Units that a search begins with if the width is not known; it doubles from there."""


def over_wide(
    source: Source, model: Model, width: int | None, known: Array | None = None, *, search: Search = Search(),
    bare: bool = False, blind: bool = False, scale: float | None = None, rng: Generator, progress: Progress | None = None,
) -> Refined:
    """The best fit found and pruned: to `width` units if given, else to as many as the data call for.

    `known` rows (from a spectral start, say) come first, random spares beside them; if `bare`, they are first tried without; if
    `blind`, they are random as well. `scale` is the variation of y, if known.
    """
    hunt = Hunt(source, model, search, total_variation(source) if scale is None else scale, rng, progress)
    if width is None:
        return _widen(hunt, known, max(FIRST_WIDTH, len(known)) if bare and known is not None else FIRST_WIDTH)
    if bare and known is not None and len(known) >= width:
        return _bare_first(hunt, known[:width])
    return _at_width(hunt, width, known, blind=blind or known is None)


def beside_spares(
    source: Source, model: Model, known: Array, *, search: Search, scale: float, rng: Generator, progress: Progress | None = None
) -> Refined:
    """One run from `known` rows with random spares beside them, pruned to as many units as the data call for."""
    hunt = Hunt(source, model, search, scale, rng, progress)
    run = hunt.minimise(hunt.start(np.vstack([known, hunt.random(hunt.wide(len(known)) - len(known))])))
    return run if run.trace.reason == "interrupted" else hunt.prune(run, None)


def _bare_first(hunt: Hunt, known: Array) -> Refined:
    """The known units alone; if that does not fit, again with spares beside where they ended, and repairs."""
    first = hunt.minimise(hunt.start(known))
    if hunt.solved(first) or first.trace.reason == "interrupted":
        return first
    second = _at_width(hunt, len(known), first.point.units)
    runs = second.runs or 2 * same(hunt, first, second)
    best = first if first.loss < second.loss and second.trace.reason != "interrupted" else second
    return best._replace(trace=first.trace.then(second.trace), runs=runs)


def _at_width(hunt: Hunt, width: int, known: Array | None, *, blind: bool = False) -> Refined:
    """Runs with spares, each repaired from the best before it, until one fits or two agree; pruned to `width`."""
    ended = runs_at(hunt, _attempt(hunt, width, CLOSE, width), known, blind=blind)
    if ended.pruned is not None or ended.best.trace.reason == "interrupted":
        return ended.pruned or ended.best
    return hunt.prune(ended.best, width)


def _widen(hunt: Hunt, known: Array | None, width: int) -> Refined:
    """Double the width until the data are fitted, or until doubling no longer pays or the samples no longer allow it."""
    few = hunt._replace(search=replace(hunt.search, hops=min(hunt.search.hops, 3)))
    best, trace, worse, limit = None, None, 0, hunt.largest_width()
    while True:
        attempt = _attempt(hunt, width, SOLVED_LOSS, None)
        ended = runs_at(few, attempt, known, before=best)
        found = ended.pruned or ended.best
        trace = found.trace if trace is None else trace.then(found.trace)
        if best is None or _schwarz(hunt, found) < _schwarz(hunt, best):
            best, worse = found, 0
        else:
            worse += 1
        if trace.reason == "interrupted":
            return best._replace(trace=trace)
        if ended.pruned is not None and same(hunt, best, found):
            return best._replace(trace=trace, runs=ended.pruned.runs)
        if hunt.solved(best, attempt.floor) or worse == 2 or width >= limit:
            return _met_again(hunt, hunt.prune(best._replace(trace=trace), None))
        width = min(2 * width, limit)


def _met_again(hunt: Hunt, found: Refined) -> Refined:
    """What a search ended with that was not told the width, told it: two runs may agree on it, or on a better fit, then."""
    width = found.point.width
    if hunt.solved(found) or found.trace.reason == "interrupted" or not quick(hunt, found.point):
        return found
    ended = runs_at(hunt, _attempt(hunt, width, CLOSE, width), found.point.units)
    again = ended.pruned
    if again is None or (again.loss > found.loss and not same(hunt, found, again)):
        return found._replace(trace=found.trace.then((again or ended.best).trace))  # an interrupt is not forgotten
    return min(found, again, key=lambda one: one.loss)._replace(trace=found.trace.then(again.trace), runs=again.runs)


def _attempt(hunt: Hunt, width: int, floor: float, told: int | None) -> WidthAttempt:
    """A width with its spares; `floor` where steps are matrix-free."""
    hunt.check_width(width)
    wide = hunt.wide(width)
    return WidthAttempt(width, wide, floor if wide * (hunt.source.dim + hunt.model.biases) > DENSE_LIMIT else 0.0, told)


def _schwarz(hunt: Hunt, found: Refined) -> float:
    size = hunt.equations
    return size * float(np.log(max(found.loss, np.finfo(float).tiny))) + parameter_count(found.point) * float(np.log(size))
