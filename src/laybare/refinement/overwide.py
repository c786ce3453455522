"""Over-wide search: more units than needed, Gauss-Newton, then pruning: the practical engine for noiseless networks.

At exact width the squared error has bad local minima; a few spare units remove most of them. What is still stuck is *repaired*:
the cheapest third of the units, by exact cost, is thrown away and drawn anew, the good ones stay.

Without noise a run that fits ends the search. With noise none fits, and spare units follow the noise, each time in another way:
two runs whose losses differ by no more than that are pruned, and if they end at the same minimum the search is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.damping import Effort, Trace
from laybare.errors import TooFewSamples
from laybare.levels import SOLVED_LOSS
from laybare.refinement.levenberg import Refined, overfit
from laybare.refinement.minimise import CHEAP, DENSE_LIMIT, minimise
from laybare.refinement.normal import Fit, FitStatistic, Model, Point
from laybare.refinement.peeling import missing_units
from laybare.refinement.pruning import elimination_order, parameter_count, parameters_per_unit, prune, with_units, without
from laybare.refinement.variation import total_variation
from laybare.shapes import Array, Progress, Sums, tell
from laybare.source import Source
from laybare.source.lanes import lanes, until_interrupted

CLOSE = 1e-5
"""Relative loss at which a matrix-free search hands over to pruning if the width is told: with spare units the rest is slow."""

FIRST_WIDTH = 4
"""Units that a search begins with if the width is not known; it doubles from there."""

AGREE = 0.01
"""Two runs from different units whose losses differ by less than so many residual variances per unknown have found the same
minimum: they are a tenth of a standard error apart."""

COARSE, COARSE_ROUGH, ALIKE = 1.0, 0.3, 0.5
"""Where steps are dear, runs with noise end earlier (`Effort.settled` and `rough`, times the width: a share of what a unit is
worth), since all rows come later; two of them have found the same minimum if their losses, and the squares of what differs
between their outputs, are no more than so many residual variances per unknown apart: half of what noise makes of a minimum."""

FOLLOWED = 3.0
"""Residual variances that a free number of a spare unit may gain by following noise: two runs differ by less than so many."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """How hard to look: `spares` None means max(2, 15 % of the width); `hops` repairs after the first run.

    `peel` takes half of the redrawn units from the moments of the residual (Gaussian inputs) instead of at random. `laybare
    reproduce overwide` prints both; it was no better, so it is off.
    """

    spares: int | None = None
    hops: int = 8
    peel: bool = False
    bias_scale: float = 0.5
    effort: Effort = Effort()

    def extra(self, width: int) -> int:
        return self.spares if self.spares is not None else max(2, -(-15 * width // 100))


class _Hunt(NamedTuple):
    """What does not change during a search."""

    source: Source
    model: Model
    search: Search
    scale: float
    rng: Generator
    progress: Progress | None

    def minimise(self, start: Point, floor: float = 0.0) -> Refined:
        effort = self.effort(start)
        return minimise(
            self.source, start, self.scale, effort=replace(effort, floor=max(effort.floor, floor)), progress=self.progress)

    def prune(self, found: Refined, width: int | None) -> Refined:
        return prune(self.source, found, self.scale, width=width, effort=self.effort(found.point), progress=self.progress)

    def dear(self, point: Point) -> bool:
        """Whether a step at that width takes more than some milliseconds."""
        return self.source.size * float(parameter_count(point)) ** 2 >= CHEAP

    def effort(self, point: Point) -> Effort:
        """Of one run."""
        effort = self.search.effort
        if not self.dear(point):
            return effort
        settled, rough = (min(0.1 * share, share / point.width) for share in (COARSE, COARSE_ROUGH))
        return replace(effort, settled=max(effort.settled, settled), rough=max(effort.rough, rough))

    def solved(self, found: Refined, floor: float = 0.0) -> bool:
        return found.loss <= max(SOLVED_LOSS, floor) * self.scale

    def random(self, count: int) -> Array:
        return random_units(count, self.source.dim, self.search.bias_scale if self.model.biases else None, self.rng)


def over_wide(
    source: Source, model: Model, width: int | None, known: Array | None = None, *,
    search: Search = Search(), bare: bool = False, scale: float | None = None, rng: Generator, progress: Progress | None = None,
) -> Refined:
    """The best fit found and pruned: to `width` units if given, else to as many as the data call for.

    `known` rows (from a spectral start, say) come first, random spares beside them; if `bare`, they are first tried without.
    `scale` is the variation of y, if known.
    """
    hunt = _Hunt(source, model, search, total_variation(source) if scale is None else scale, rng, progress)
    if width is None:
        return _widen(hunt, known, max(FIRST_WIDTH, len(known)) if bare and known is not None else FIRST_WIDTH)
    if bare and known is not None and len(known) >= width:
        return _bare_first(hunt, known[:width])
    return _at_width(hunt, width, known)


def beside_spares(
    source: Source, model: Model, known: Array, *, search: Search, scale: float, rng: Generator, progress: Progress | None = None
) -> Refined:
    """One run from `known` rows with random spares beside them, pruned to as many units as the data call for."""
    hunt = _Hunt(source, model, search, scale, rng, progress)
    units = np.vstack([known, hunt.random(_wide(hunt, len(known)) - len(known))])
    run = hunt.minimise(model.start(units, source.outputs))
    return run if run.trace.reason == "interrupted" else hunt.prune(run, None)


def random_units(count: int, dim: int, bias_scale: float | None, rng: Generator) -> Array:
    """Unit rows in random directions for whitened inputs, with Gaussian biases unless `bias_scale` is None."""
    rows = rng.standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows if bias_scale is None else np.column_stack([rows, bias_scale * rng.standard_normal(count)])


def _bare_first(hunt: _Hunt, known: Array) -> Refined:
    """The known units alone; if that does not fit, again with spares beside where they ended, and repairs."""
    first = hunt.minimise(hunt.model.start(known, hunt.source.outputs))
    if hunt.solved(first) or first.trace.reason == "interrupted":
        return first
    second = _at_width(hunt, len(known), first.point.units)
    agreed = second.agreed or _same(hunt, first, second)
    best = first if first.loss < second.loss and second.trace.reason != "interrupted" else second
    return best._replace(trace=first.trace.then(second.trace), agreed=agreed)


def _at_width(hunt: _Hunt, width: int, known: Array | None) -> Refined:
    """Runs with spares, each repaired from the best before it, until one fits or two agree; pruned to `width`."""
    floor = CLOSE if _wide(hunt, width) * (hunt.source.dim + hunt.model.biases) > DENSE_LIMIT else 0.0
    ended = _runs(hunt, width, known, floor, width)
    if ended.pruned is not None or ended.best.trace.reason == "interrupted":
        return ended.pruned or ended.best
    return hunt.prune(ended.best, width)


def _widen(hunt: _Hunt, known: Array | None, width: int) -> Refined:
    """Double the width until the data are fitted, or until doubling no longer pays or the samples no longer allow it."""
    few = hunt._replace(search=replace(hunt.search, hops=min(hunt.search.hops, 3)))
    best, trace, worse, limit = None, None, 0, _largest_width(hunt)
    while True:
        floor = SOLVED_LOSS if _wide(hunt, width) * (hunt.source.dim + hunt.model.biases) > DENSE_LIMIT else 0.0
        ended = _runs(few, width, known, floor, None)
        found = ended.pruned or ended.best
        trace = found.trace if trace is None else trace.then(found.trace)
        if best is None or _schwarz(hunt.source, found) < _schwarz(hunt.source, best):
            best, worse = found, 0
        else:
            worse += 1
        if trace.reason == "interrupted":
            return best._replace(trace=trace)
        if ended.pruned is not None and best.point.width == found.point.width and _same(hunt, best, found):
            return best._replace(trace=trace, agreed=True)
        if hunt.solved(best, floor) or worse == 2 or width >= limit:
            return hunt.prune(best._replace(trace=trace), None)
        width = min(2 * width, limit)


class _Runs(NamedTuple):
    """The best of several runs with spares; and, if two agree once they are pruned, the better of those."""

    best: Refined
    pruned: Refined | None = None


def _runs(hunt: _Hunt, width: int, known: Array | None, floor: float, told: int | None) -> _Runs:
    """Runs with spares beside `width` units until one fits, or two agree when pruned to `told` (None: to what they need)."""
    _check_width(hunt, width)
    wide = _wide(hunt, width)
    units = hunt.random(wide)
    if known is not None:
        units[: min(len(known), wide)] = known[:wide]
    best = hunt.minimise(hunt.model.start(units, hunt.source.outputs), floor)
    trace, pruned, early = best.trace, None, None
    for hop in range(hunt.search.hops):
        if hunt.solved(best, floor) or trace.reason == "interrupted":
            break
        tell(hunt.progress, "repairing", hop + 1, hunt.search.hops, f"relative loss {best.loss / hunt.scale:.1e}")
        repaired = _repaired(hunt, best.point)
        if pruned is None and early is None and hunt.dear(best.point) and lanes(hunt.source) > 1:
            run, early = _while_pruning(hunt, repaired, floor, best, told)
        else:
            run = hunt.minimise(repaired, floor)
        trace = trace.then(run.trace)
        if trace.reason == "interrupted":
            break
        if not hunt.solved(run, floor) and abs(run.loss - best.loss) <= _noise_band(hunt, best.point, wide - width) * best.loss:
            first = pruned or early or _pruned(hunt, best, told)
            trace = trace if first is pruned else trace.then(first.trace)
            if trace.reason == "interrupted":
                break
            second = _pruned(hunt, run, told)
            trace = trace.then(second.trace)
            if trace.reason == "interrupted":
                break
            pruned = min(first, second, key=lambda one: one.loss)
            # a spare that pruning keeps was needed, and where there was none nobody knows
            enough = told is not None or second.point.width <= min(width, wide - 1)
            if first.point.width == second.point.width and _same(hunt, first, second):
                if enough:
                    return _Runs(best, pruned._replace(trace=trace, agreed=True))
                if width < _largest_width(hunt):  # both need more units than there are
                    best = min(best, run, key=lambda one: one.loss)
                    break
        best, early = (run, None) if run.loss < best.loss else (best, early)
    return _Runs(best._replace(trace=trace))


def _while_pruning(hunt: _Hunt, start: Point, floor: float, best: Refined, width: int | None) -> tuple[Refined, Refined | None]:
    """A run from `start`, and the best one so far pruned meanwhile: with noise that is what comes next, and each keeps one core.

    An interrupt ends both, and the run is said to be interrupted.
    """

    def run_on(progress: Progress) -> Refined:
        run = hunt._replace(progress=progress).minimise(start, floor)
        run.trace.pass_on_interrupt()
        return run

    def prune_best(progress: Progress) -> Refined:
        pruned = _pruned(hunt._replace(progress=progress), best, width)
        pruned.trace.pass_on_interrupt()
        return pruned

    ended = until_interrupted(hunt.source, hunt.progress, run_on, prune_best)
    if ended is None:
        return best._replace(trace=Trace(best.trace.rows[-1:], "interrupted")), None
    run, pruned = ended
    return run, pruned


def _pruned(hunt: _Hunt, found: Refined, width: int | None) -> Refined:
    """A run pruned, with the steps that took."""
    return hunt.prune(found._replace(trace=Trace(found.trace.rows[-1:], found.trace.reason)), width)


def _same(hunt: _Hunt, one: Refined, other: Refined) -> bool:
    """Whether two runs ended at the same minimum; by their outputs as well where they ended early."""
    dear, noise = hunt.dear(one.point), overfit(hunt.source, one.point) * min(one.loss, other.loss)
    if abs(one.loss - other.loss) > (ALIKE if dear else AGREE) * noise:
        return False
    return not dear or float(hunt.source.sum(_Apart(one.point, other.point), stage="loss")[0]) <= ALIKE * noise


@dataclass(frozen=True, eq=False)
class _Apart:
    """(x, y) -> the sum of squares of what differs between the outputs of two points."""

    one: Point
    other: Point

    def __call__(self, x: Array, y: Array) -> Sums:
        first, second = (p.features(x, p.extended(x) @ p.units.T) @ p.coefficients for p in (self.one, self.other))
        return (np.asarray(np.sum((first - second) ** 2)),)


def _noise_band(hunt: _Hunt, point: Point, spares: int) -> float:
    """Relative difference of two losses that spare units make by following noise."""
    left = max(1, hunt.source.size * hunt.source.outputs - parameter_count(point))
    return max(AGREE * overfit(hunt.source, point), FOLLOWED * spares * parameters_per_unit(point) / left)


def _wide(hunt: _Hunt, width: int) -> int:
    return min(width + hunt.search.extra(width), _largest_width(hunt))


def _check_width(hunt: _Hunt, width: int) -> None:
    limit = _largest_width(hunt)
    if limit < width:
        raise TooFewSamples(
            f"{hunt.source.size:,} samples for width {width} in dimension {hunt.source.dim}.",
            f"The network has more free numbers than that leaves to check: at most width {limit} could be told from noise.",
            f"About {int(3 * hunt.source.size * width / max(limit, 1)):,} samples would do, or ask for a smaller width.",
            samples=hunt.source.size, width=width, largest_width=limit)


def _repaired(hunt: _Hunt, point: Point) -> Point:
    """The point with its cheapest third of units drawn anew."""
    order, _ = elimination_order(point, Fit(*hunt.source.sum(FitStatistic(point), stage="repair")))
    new = -(-point.width // 3)
    rest = without(point, np.sort(order[new:]))
    fresh = hunt.random(new)
    if hunt.search.peel:
        peeled = missing_units(hunt.source, rest, new // 2)
        fresh[: len(peeled)] = peeled
    return with_units(rest, fresh, np.zeros((new, hunt.source.outputs)))


def _schwarz(source: Source, found: Refined) -> float:
    size = source.size * source.outputs
    return size * float(np.log(max(found.loss, np.finfo(float).tiny))) + parameter_count(found.point) * float(np.log(size))


def _largest_width(hunt: _Hunt) -> int:
    """Largest width that leaves at least a sixth of the equations over."""
    source, model = hunt.source, hunt.model
    one, two = (parameter_count(model.start(np.zeros((k, source.dim + model.biases)), source.outputs)) for k in (1, 2))
    return int((source.size * source.outputs / 1.2 - (2 * one - two)) // (two - one))
