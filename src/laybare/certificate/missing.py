"""Is a unit missing? Where one may be, what it would gain there, and whether that is more than noise grants (see `width`).

A missing unit is looked for from the random units that explain most of the residual, from the found ones split in two, at the
rows with the largest residuals if rows are few, and where all rows bend if they are many. The others stand by, linearised
(`further_unit`); what some rows found all confirm (`confirming`), and what seems worth it is fitted with all units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import repeat

import numpy as np

from laybare.certificate.claims import Claim
from laybare.certificate.confirming import Sighting, confirmed
from laybare.certificate.curved import curved_units
from laybare.certificate.fitted import State
from laybare.certificate.further_unit import (
    Further,
    Linearised,
    NewUnits,
    Together,
    foretold,
    held_information,
    settle_beside,
    without_unit,
)
from laybare.certificate.likelihood import Gain, robust_gain
from laybare.certificate.splits import likely_splits, split_unit
from laybare.certificate.starts import MET
from laybare.certificate.structure import SIGMAS
from laybare.certificate.worth import CLEAR, effort_of, price_of_a_unit, worth_of
from laybare.refinement.normal import Point
from laybare.refinement.parts import enough_rows
from laybare.refinement.pruning import parameters_per_unit, with_units, without
from laybare.shapes import Array, Sums
from laybare.source import Source
from laybare.source.sums import even_pair
from laybare.source.views import KeptRows, block_results

MORE_UNITS = "gain of one more unit"

MORE, SPLITS = 2, 3
"""Starts: the best new units (one less where many rows tell which way they bend), and the likeliest splits (one less where many
rows tell which)."""

FARTHEST, NEARER, FEW_ROWS = 2, 0.7, 5000
"""Starts at the rows with the largest residuals, where of white inputs, as a share of their length, such a unit begins, and up to
how many rows single ones are asked."""

SEEMS = 0.5
"""Share of the price of a unit beyond which one that was found beside the linearised others is fitted with all of them."""

BESIDE_LINEAR = 0.85
"""Share of the price of a unit that one more may gain where the network has a linear part of its own: two units that are nearly
opposite look like that, and one more had stood at 0.88 on 59 rows."""

PROMISING = 1
"""Starts that go on, where there are many rows: those whose first step promises most."""

CURVED, SIXTH = 1, 6
"""Starts where all rows bend most, and the share of many rows on which it shows whether a unit is more than noise. One that is
just visible on all of them has a quarter of its price there: of 52 numbers, with 100,000 rows, 150 residual variances beside the
52 that noise grants, and the limit of 4 standard deviations of noise, 93, is 4 of its own below that."""

FEWEST_SEEN = 16_384
"""Rows of that share at least."""

FIRST_STEPS, FEWER_STEPS = 4, 2
"""Steps from every start before the best goes on: by then a unit that is there has shown most of its worth. On some of many rows
fewer do, since all of them come later."""


def one_more(state: State, units: Array, gram: Array | None) -> Claim:
    """What another unit gains: a few steps from the likeliest splits and from the first of `units` (rows w, b), then the best.

    `gram` is that of a step at the fit (`normal.Step`), with which the others are linearised while a new one looks for its place
    (`further_unit`); a unit that seems worth it is fitted with all of them. Without `gram`: five short refits and a long one.
    """
    gain, limit = Gain(0.0, 1.0), price_of_a_unit(state)
    allowed = limit * (BESIDE_LINEAR if state.point.linear else 1.0)
    value = 0.0
    if state.equations > state.unknowns + parameters_per_unit(state.point) and not state.exact:
        best = _refitted(state, units, CLEAR * limit) if gram is None else _beside(state, units, gram, SEEMS * limit)
        value = max(0.0, worth_of(state, float(state.fit.loss), best.loss, wider=1))
        gain = _gain(state, best) if value >= limit else gain
        value /= gain.local
    return Claim(
        MORE_UNITS, value, allowed, value < allowed, "tested",
        "how much more likely another unit makes the used samples, against what its free numbers would gain from noise; more "
        f"than the threshold means that a unit may be missing, more than {CLEAR * limit:.3g} that one is.",
        decisive=min(value, gain.counted) >= CLEAR * limit)


def too_narrow(claims: tuple[Claim, ...]) -> bool:
    """Whether a unit is missing although two searches agree on the best network of this width: none of that width is better."""
    missing = any(claim.name == MORE_UNITS and claim.decisive for claim in claims)
    return missing and any(claim.name == MET and np.isfinite(claim.value) for claim in claims)


def _starts(state: State, units: Array) -> list[Point]:
    """Where a unit may be missing: the likeliest splits, then the first of `units`; the new unit stands last."""
    likely = likely_splits(state.some, state.point, float(np.sqrt(state.noise)), state.precision)
    few, many = state.view.size <= FEW_ROWS, state.some is not state.view
    nothing = np.zeros((1, state.view.outputs))
    new, splits = [*units[: MORE - many], *_at_farthest(state)], SPLITS if few else SPLITS - 1
    further = (with_units(state.point, row[None], nothing) for row in new)
    return [*(split_unit(state.point, split) for split in likely[:splits]), *further]


def _at_farthest(state: State) -> list[Array]:
    """Units that are on around the rows with the largest residuals alone: among few rows, a rare unit shows on one or two."""
    point = state.point
    if state.view.size > FEW_ROWS or not point.biases or not point.width:
        return []
    x, left = (np.concatenate(part) for part in zip(*block_results(state.view, partial(_farthest, point)), strict=True))
    dim = x.shape[1]
    steep = float(np.median(np.linalg.norm(point.units[:, :dim], axis=1)))
    lengths = np.maximum(np.linalg.norm(x, axis=1), np.finfo(float).tiny)
    return [steep * np.append(x[i] / lengths[i], -NEARER * lengths[i]) for i in np.argsort(-left, kind="stable")[:FARTHEST]]


def _farthest(point: Point, x: Array, y: Array) -> Sums:
    """The rows of a block with the largest residuals, and these."""
    left = np.abs(y - point.features(x, point.extended(x) @ point.units.T) @ point.coefficients).max(axis=1)
    rows = np.argsort(-left, kind="stable")[:FARTHEST]
    return x[rows], left[rows]


def _beside(state: State, units: Array, gram: Array, worth: float) -> Further:
    """The best place of a further unit, found on some of the rows and confirmed by all, which are refitted if it seems worth it.

    `gram` is that of all rows. Some of them have their own: what the others make up for is then counted as on those rows.
    """
    unit = float(np.sqrt(state.variance))
    point = state.point.moved(state.point.units, state.point.coefficients / unit)
    part, effort = state.some, effort_of(state)
    some, every = (Together(source, point, unit, state.precision) for source in (part, state.view))
    if part is not state.view:
        gram = state.gram_on_some
    beside = cache(partial(without_unit, held_information(gram, point), point))
    places = [_place(start, point, beside) for start in _starts(state, units)]
    if part is state.view:
        tried = settle_beside(some, places, replace(effort, max_steps=FIRST_STEPS))
        best, place = min(zip(tried, places, strict=True), key=lambda one: one[0].loss)
        (last,) = settle_beside(some, [place._replace(rows=best.point.units[-len(place.rows) :])], effort)
    else:
        last = _confirmed(state, some, every, places, beside(None))
    if worth_of(state, float(state.fit.loss), last.loss, wider=1) < worth:
        return last
    refit = state.refit(last.point, effort)
    return Further(refit.point, refit.loss)


def _confirmed(state: State, some: Together, every: Together, places: list[NewUnits], whole: Linearised) -> Further:
    """The best of the places by some rows, and where all rows bend, as many rows see them; followed on all while that gains.

    A unit that is no better on many rows than chance lets its numbers be is not followed, and counts for what it is beyond them.
    """
    curved = [NewUnits(row[None], whole) for row in curved_units(state.view, state.point, CURVED, state.precision)]
    judged = some.judge([*places, *curved])
    looks = foretold(some, [*places, *curved], judged)
    chosen = sorted(range(len(places)), key=lambda i: looks[i].loss)[:PROMISING]
    promising, effort = [places[i] for i in chosen], replace(effort_of(state), max_steps=FEWER_STEPS, damping_limit=1.0)
    tried = settle_beside(some, promising, effort, [judged[i] for i in chosen])
    best, place = min(zip(tried, promising, strict=True), key=lambda one: one[0].loss)
    begun = [_sighted(best, place, some.unit), *(map(_sighted, looks[len(places) :], curved, repeat(some.unit)))]
    many, noise = replace(every, source=_many(state)), state.noise / some.unit**2
    last = max(confirmed(some, many, whole, begun), key=lambda one: one.gain - noise * one.numbers)
    if last.gain <= noise * (last.numbers + SIGMAS * float(np.sqrt(2.0 * last.numbers))):
        return _wider(state, last, max(0.0, last.gain - noise * last.numbers) * (state.view.size / many.source.size), some.unit)
    (last,) = confirmed(some, every, whole, [last])
    for _ in range(FIRST_STEPS):
        (further,) = confirmed(some, every, whole, [last])
        if further.gain <= last.gain:
            break
        last = further
    return _wider(state, last, last.gain, some.unit)


def _many(state: State) -> Source:
    """Rows on which units are looked at that may only follow noise: a part of those in memory, or all as they are read."""
    if not isinstance(state.view, KeptRows):
        return state.view
    return enough_rows(state.view, even_pair(max(FEWEST_SEEN, state.view.size // SIXTH)))


def _wider(state: State, new: Sighting, gain: float, unit: float) -> Further:
    """The network with new units, y in its own units, and its loss after a gain in squares of `unit`."""
    others, readouts = state.point, unit * new.readouts
    if new.left_out is not None:
        others = without(others, np.delete(np.arange(others.width), new.left_out))
    return Further(with_units(others, new.rows, readouts), max(0.0, float(state.fit.loss) - unit**2 * gain))


def _sighted(found: Further, place: NewUnits, unit: float) -> Sighting:
    new = slice(found.point.width - len(place.rows), found.point.width)
    return Sighting(found.point.units[new], found.point.coefficients[new] / unit, place.others.left_out)


def _place(start: Point, point: Point, beside: Callable[[int | None], Linearised]) -> NewUnits:
    """The new unit of a start, and the one that it splits, if any, beside the others."""
    moved = np.flatnonzero(np.any(start.units[:-1] != point.units, axis=1))
    return NewUnits(start.units[[*moved, -1]], beside(int(moved[0]) if len(moved) else None))


def _refitted(state: State, units: Array, clear: float) -> Further:
    """The best fit with one unit more, all units refitted; the first that is clearly worth it, if any."""
    best, loss = Further(state.point, float(state.fit.loss)), float(state.fit.loss)
    for start in _starts(state, units):
        tried = state.refit(start, replace(effort_of(state), max_steps=FIRST_STEPS))
        best = Further(tried.point, tried.loss) if tried.loss < best.loss else best
        if worth_of(state, loss, best.loss, wider=1) >= clear:
            return best
    last = state.refit(best.point, effort_of(state))
    return Further(last.point, last.loss)


def _gain(state: State, wider: Further) -> Gain:
    """What the rows one by one say of a wider fit."""
    rest = max(1, state.equations - state.unknowns - parameters_per_unit(state.point))
    return robust_gain(state.view, state.point, wider.point, max(wider.loss / rest, state.floor))
