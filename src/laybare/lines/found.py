"""A black box read by lines: the network, and everything a certificate needs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.errors import BudgetExhausted
from laybare.lines.asking import Ask, AskBox, Booking, Purse
from laybare.lines.book import Book
from laybare.lines.polishing import DENSE, SURE, ask_random, contradictions, error_bar, misfits, parameters, polish
from laybare.lines.remeasure import remeasure
from laybare.lines.search import Patience, Reading, Watch, needed, read_lines, toward
from laybare.lines.unfolding import name_units
from laybare.networks import Network
from laybare.shapes import Array
from laybare.source.rounding import Rounding

FRESH = 6
"""Queries at random points that the result must predict; none of them is used for it."""

LOOSE = 0.03
"""Error bar beyond which nothing is known."""

GOOD_START = 1e-4
"""Error bar of a unit from which Gauss-Newton goes to the answer. Worse ones, which coarse answers leave where two kinks are near
each other, put points on the wrong sides of hyperplanes, and are measured again first."""

BOXED = "units that do not bend inside the box are part of its linear map, or of its offset: no query inside can tell them apart"

FINE, LARGE = 6e-11, 2e-8
"""Precision that is wanted unless another is asked for."""

RETURNS, ATTEMPTS = 8, 3
"""Times that a contradiction may send the search back to the lines, and that it may begin anew if it does not end well."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How to read a black box.

    Attributes
    ----------
    activation : what the units are; None: found out (ReLU, leaky ReLU, absolute value)
    precision : wanted accuracy of weights, distances and readouts; fresh queries are spent until the error bars are below it,
        but not beyond what the rounding of the answers allows. None: 6e-11, or 2e-8 for networks too large for the polish
    spread : scale of the inputs
    patience : how many lines must show nothing new; None: 4, more in a box or with coarse answers
    fresh_share : queries for the polish at most, relative to the number of parameters
    watch : looks at the kinks of the first line, and may refuse the black box
    log_odds : answers were probabilities, so that they are the less exact the more certain they are
    """

    activation: Activation | None = relu
    precision: float | None = None
    spread: float = 1.0
    patience: Patience | None = None
    fresh_share: float = 1.2
    watch: Watch | None = None
    log_odds: bool = False


@dataclass(frozen=True, eq=False)
class LinesFound:
    """What the lines have told.

    Attributes
    ----------
    network : in its activation, with the signs decided where they can be
    sign_free : the same function with |u| units and a linear part
    book : units with error bars and the line each was found on
    complete : every unit that the lines can see is in it; False if the budget ended before, or fresh answers contradict
    signs_unique : no other pattern of signs gives the same function
    signs_searched : False if there are too many units to look for their signs
    rounding : what the answers were rounded to, as measured
    lines, quiet : lines looked at, and how many at the end showed no unknown unit
    queries : what was spent on what
    misfit : of the polish, root mean square, in standard deviations of rounding (NaN without polish)
    fresh : misfits of the fresh queries that check the result, in standard deviations
    error_bar : largest standard deviation of a normal, a distance or a relative readout
    needed : about how many queries it would have taken, if they ended too early
    ended : the budget ended before the search did
    notes : what is to be said about the units
    """

    network: Network
    sign_free: Network
    book: Book
    complete: bool
    signs_unique: bool
    rounding: Rounding
    lines: int
    quiet: int
    queries: dict[str, int]
    misfit: float
    fresh: Array
    error_bar: float
    needed: int | None = None
    ended: bool = False
    notes: tuple[str, ...] = field(default=())
    signs_searched: bool = True

    @property
    def width(self) -> int:
        return len(self.book.units)


def read_network(
    ask: Ask, dim: int, reader: Reader = Reader(), *, budget: int | None = None, box: tuple[Array, Array] | None = None,
    purpose: Booking = nullcontext, rng: Generator,
) -> LinesFound:
    """Read a network with one hidden layer of ReLU-like units out of a black box, to rounding.

    `ask` answers x (n, dim) with (n,) or (n, outputs). At most `budget` queries are asked, all of them inside the box (low,
    high), each inside the context `purpose(name)`. AssumptionViolated if the box is noisy, smooth or made of steps (at most 100
    queries are then spent); BudgetExhausted if the budget ends before the first unit. Otherwise too small a budget gives the
    units found so far, `complete` False and `needed`.
    About (width + 1) · dim + 5 · width + 40 queries. Sources: Jagielski et al. (2020), Carlini et al. (2020) for kinks and jumps.
    """
    within = None if box is None else AskBox(*(np.broadcast_to(np.asarray(side, dtype=float), (dim,)) for side in box))
    purse = Purse(ask, budget=budget, box=within, book=purpose, log_odds=reader.log_odds)
    found = _attempt(purse, dim, reader, rng)
    for _ in range(ATTEMPTS - 1):
        if found.complete or found.ended:
            break
        try:
            found = _attempt(purse, dim, reader, rng)
        except BudgetExhausted:
            break
    return found


def _attempt(purse: Purse, dim: int, reader: Reader, rng: Generator) -> LinesFound:
    """From the first line to the result; answers of earlier attempts are used again by the polish."""
    reading = read_lines(purse, dim, reader.patience, spread=reader.spread, watch=reader.watch, rng=rng)
    return _finished(purse, reading, reader, rng)


def _finished(purse: Purse, reading: Reading, reader: Reader, rng: Generator) -> LinesFound:
    """Polish and check with fresh queries; what contradicts the book sends the search back to the lines."""
    precision = _precision(reading, reader)
    fresh, misfit, complete = np.empty(0), np.nan, reading.short is None and not reading.lost
    try:
        for _ in range(RETURNS if complete else 0):
            reading = reading.with_book(_measured_again(purse, reading, reader, precision))
            polished = polish(
                purse, reading.book, reading.rounding, precision=precision, fresh_share=reader.fresh_share, spread=reader.spread,
                reserve=FRESH, rng=rng)
            surprises, misfit, book = polished.surprises, polished.misfit, polished.book
            if not polished.plausible or error_bar(book) > LOOSE:
                complete = False
                break
            if not len(surprises):
                answers = ask_random(purse, book, FRESH, reader.spread, "verify", rng)
                fresh, surprises = misfits(answers, book, reading.rounding), contradictions(answers, book, reading.rounding)
            if not len(surprises):
                reading = reading.with_book(book)
                break
            complete = False
            for target in surprises[:3]:
                reading = toward(purse, reading, target, rng=rng)
            complete = not reading.lost
            if reading.lost:
                break
        else:
            complete = False
    except BudgetExhausted as ended:
        complete, reading = False, reading.ended(ended)
    return _result(purse, reading, reader, complete, misfit, fresh)


def _precision(reading: Reading, reader: Reader) -> float:
    usual = FINE if parameters(reading.book) <= DENSE else LARGE
    return max(usual if reader.precision is None else reader.precision, 100.0 * reading.rounding.unit)


def _measured_again(purse: Purse, reading: Reading, reader: Reader, precision: float) -> Book:
    """The worst units once more: all of them for networks too large for the polish, else those that it could not start from."""
    p = parameters(reading.book)
    if purse.box is not None:
        return reading.book
    wanted = precision if p > DENSE else max(precision, SURE * GOOD_START)
    most = int(reader.fresh_share * p)
    return remeasure(purse, reading.book, reading.rounding, precision=wanted, most=most, spread=reader.spread)


def _result(purse: Purse, reading: Reading, reader: Reader, complete: bool, misfit: float, fresh: Array) -> LinesFound:
    book = reading.book
    bar = error_bar(book)
    fitted = book.sign_free(vector=len(book.value) == 1)
    tol = float(np.clip(100.0 * bar, 1e-9, 1e-3))
    named = name_units(fitted, reader.activation, tol)
    notes = named.notes if purse.box is None else (*named.notes, BOXED)
    wanted = None
    if not complete:
        wanted = max(purse.total + len(book.point), needed(len(book.point), max(len(book.units), reading.kinks)))
        notes = (f"at least {max(len(book.units), reading.kinks)} units; {len(book.units)} were measured", *notes)
    return LinesFound(
        named.network, fitted, book, complete, named.unique, reading.rounding, reading.lines, reading.quiet, dict(purse.spent),
        misfit, fresh, bar, wanted, reading.short is not None, notes, named.searched)
