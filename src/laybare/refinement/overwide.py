"""Over-wide search: more units than needed, Gauss-Newton, then pruning: the practical engine for noiseless networks.

At exact width the squared error has bad local minima; a few spare units remove most of them. What is still stuck is *repaired*:
the cheapest third of the units, by exact cost, is thrown away and drawn anew, the good ones stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.errors import TooFewSamples
from laybare.refinement.levenberg import Effort, Refined
from laybare.refinement.minimise import DENSE_LIMIT, minimise
from laybare.refinement.normal import Fit, FitStatistic, Model, Point
from laybare.refinement.peeling import missing_units
from laybare.refinement.pruning import elimination_order, parameter_count, prune, without
from laybare.refinement.variation import total_variation
from laybare.shapes import Array, Event, Progress
from laybare.source import Source

SOLVED = 1e-12
"""Relative loss at which noiseless data count as fitted: stuck fits end above 1e-5, solved ones below 1e-28."""

CLOSE = 1e-5
"""Relative loss at which a matrix-free search hands over to pruning if the width is told: with spare units the rest is slow."""

FIRST_WIDTH = 4
"""Units that a search begins with if the width is not known; it doubles from there."""

AGREE = 1e-6
"""Two runs from different units that end at the same loss, to this relative difference, have found the same minimum."""


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


def over_wide(
    source: Source, model: Model, width: int | None, known: Array | None = None, *,
    search: Search = Search(), bare: bool = False, scale: float | None = None, rng: Generator, progress: Progress | None = None,
) -> Refined:
    """The best fit found and pruned: to `width` units if given, else to as many as the data call for.

    `known` rows (from a spectral start, say) come first, random spares beside them; if `bare`, they are first tried without.
    `scale` is the variation of y, if known.
    """
    scale = total_variation(source) if scale is None else scale
    if bare and width is not None and known is not None and len(known) >= width:
        return _bare_first(source, model, known[:width], search, scale, rng, progress)
    if width is None:
        found = _widen(source, model, known, scale, search, rng, progress)
    else:
        found = _search(source, model, width, known, scale, search, rng, progress, CLOSE)
    if found.trace.reason == "interrupted":
        return found
    return prune(source, found, scale, width=width, effort=search.effort, progress=progress)


def _bare_first(
    source: Source, model: Model, known: Array, search: Search, scale: float, rng: Generator, progress: Progress | None
) -> Refined:
    """The known units alone; if that does not fit, again with spares beside where they ended, and repairs."""
    first = minimise(source, model.start(known, source.outputs), scale, effort=search.effort, progress=progress)
    if first.loss <= SOLVED * scale or first.trace.reason == "interrupted":
        return first
    second = over_wide(
        source, model, len(known), first.point.units, search=search, scale=scale, rng=rng, progress=progress)
    agreed = second.agreed or abs(first.loss - second.loss) <= AGREE * min(first.loss, second.loss)
    best = first if first.loss < second.loss and second.trace.reason != "interrupted" else second
    return best._replace(trace=first.trace.then(second.trace), agreed=agreed)


def random_units(count: int, dim: int, bias_scale: float | None, rng: Generator) -> Array:
    """Unit rows in random directions for whitened inputs, with Gaussian biases unless `bias_scale` is None."""
    rows = rng.standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows if bias_scale is None else np.column_stack([rows, bias_scale * rng.standard_normal(count)])


def _widen(
    source: Source, model: Model, known: Array | None, scale: float, search: Search, rng: Generator, progress: Progress | None
) -> Refined:
    """Double the width until the data are fitted, or until doubling no longer pays or the samples no longer allow it."""
    width, best, trace, worse = max(FIRST_WIDTH, 0 if known is None else len(known)), None, None, 0
    while True:
        found = _search(source, model, width, known, scale, replace(search, hops=min(search.hops, 3)), rng, progress, SOLVED)
        trace = found.trace if trace is None else trace.then(found.trace)
        if best is None or _schwarz(source, found) < _schwarz(source, best):
            best, worse = found, 0
        else:
            worse += 1
        limit = _largest_width(source, model)
        if best.loss <= SOLVED * scale or worse == 2 or width >= limit or trace.reason == "interrupted":
            return best._replace(trace=trace)
        width = min(2 * width, limit)


def _search(
    source: Source, model: Model, width: int, known: Array | None, scale: float, search: Search, rng: Generator,
    progress: Progress | None, enough: float,
) -> Refined:
    limit = _largest_width(source, model)
    if limit < width:
        raise TooFewSamples(
            f"{source.size:,} samples for width {width} in dimension {source.dim}.",
            f"The network has more free numbers than that leaves to check: at most width {limit} could be told from noise.",
            f"About {int(3 * source.size * width / max(limit, 1)):,} samples would do, or ask for a smaller width.",
            samples=source.size, width=width, largest_width=limit)
    wide = min(width + search.extra(width), limit)
    units = random_units(wide, source.dim, search.bias_scale if model.biases else None, rng)
    if known is not None:
        units[: min(len(known), wide)] = known[:wide]
    effort = _search_effort(search.effort, units, enough)
    best = minimise(source, model.start(units, source.outputs), scale, effort=effort, progress=progress)
    trace = best.trace
    for hop in range(search.hops):
        if best.loss <= max(SOLVED, effort.floor) * scale or trace.reason == "interrupted":
            break
        if progress is not None:
            progress(Event("repairing", hop + 1, search.hops, f"relative loss {best.loss / scale:.1e}"))
        start = _repaired(source, model, best.point, search, rng)
        run = minimise(source, start, scale, effort=effort, progress=progress)
        trace = trace.then(run.trace)
        agree = abs(run.loss - best.loss) <= AGREE * best.loss
        best = (run if run.loss < best.loss else best)._replace(agreed=agree)
        if agree:
            break
    return best._replace(trace=trace)


def _search_effort(effort: Effort, units: Array, enough: float) -> Effort:
    """Matrix-free runs stop at a relative loss of `enough`: spare units make the last digits slow, and pruning refines again."""
    return replace(effort, floor=max(effort.floor, enough)) if units.size > DENSE_LIMIT else effort


def _repaired(source: Source, model: Model, point: Point, search: Search, rng: Generator) -> Point:
    """The point with its cheapest third of units drawn anew."""
    order, _ = elimination_order(point, Fit(*source.sum(FitStatistic(point), stage="repair")))
    new = -(-point.width // 3)
    rest = without(point, np.sort(order[new:]))
    fresh = random_units(new, source.dim, search.bias_scale if model.biases else None, rng)
    if search.peel:
        peeled = missing_units(source, rest, new // 2)
        fresh[: len(peeled)] = peeled
    k = rest.width
    coefficients = np.vstack([rest.coefficients[:k], np.zeros((new, source.outputs)), rest.coefficients[k:]])
    return rest.moved(np.vstack([rest.units, fresh]), coefficients)


def _schwarz(source: Source, found: Refined) -> float:
    size = source.size * source.outputs
    return size * float(np.log(max(found.loss, np.finfo(float).tiny))) + parameter_count(found.point) * float(np.log(size))


def _largest_width(source: Source, model: Model) -> int:
    """Largest width that leaves at least a sixth of the equations over."""
    one, two = (parameter_count(model.start(np.zeros((k, source.dim + model.biases)), source.outputs)) for k in (1, 2))
    return int((source.size * source.outputs / 1.2 - (2 * one - two)) // (two - one))
