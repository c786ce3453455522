"""Units measured again where it is best to measure them, for networks too large for the polish.

On the first line a unit is measured wherever the line happens to meet it, between neighbours that may be very near. Once all
units are known, a better place can be chosen: a point on the unit's hyperplane that is far from all others. One star on each
side of it, with steps as long as the known hyperplanes allow, gives two affine functions; the unit is their difference:

    G₊ - G₋ = n ⊗ a,      and the two agree on the hyperplane.

Cost 2 (dim + 1) queries a unit; error rounding / step. Errors of other units do not enter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.lines.asking import Purse
from laybare.lines.book import Book, Units
from laybare.lines.polish import SURE, error_bars
from laybare.lines.rounding import Rounding
from laybare.shapes import Array

CANDIDATES = 200
"""Points of a hyperplane among which the best is taken."""

SHARE = 0.5
"""Steps end at half the way to the nearest known hyperplane."""


class _Side(NamedTuple):
    centre: Array
    value: Array
    gradient: Array
    sd: float

    def at(self, x: Array) -> Array:
        """The affine function of this side at a point, (outputs,)."""
        return np.asarray(self.value + (x - self.centre) @ self.gradient)


def remeasure(
    purse: Purse, book: Book, rounding: Rounding, *, precision: float, most: int, spread: float = 1.0, rng: Generator
) -> Book:
    """The book with its worst units measured again, until all error bars are below `precision` or `most` queries are spent."""
    begin, price = purse.total, 2 * (len(book.point) + 1)
    tried: set[int] = set()
    while True:
        bars = error_bars(book)
        bars[list(tried)] = 0.0
        if not len(bars) or SURE * bars.max() <= precision or purse.total - begin + price > most:
            return book
        if purse.left is not None and purse.left < 2 * price:
            return book
        worst = int(np.argmax(bars))
        tried.add(worst)
        book = _again(purse, book, rounding, worst, spread, rng)


def _again(purse: Purse, book: Book, rounding: Rounding, i: int, spread: float, rng: Generator) -> Book:
    units = book.units
    foot, clearance = _place(book, i, spread, rng)
    plus, minus = (_side(purse, book, rounding, foot + sign * clearance / 2.0 * units.normals[i]) for sign in (1.0, -1.0))
    jump = plus.gradient - minus.gradient
    along = units.readouts[i] / np.linalg.norm(units.readouts[i])
    row = jump @ along
    size = float(np.linalg.norm(row))
    normal = row / size
    apart = plus.at(book.point) - minus.at(book.point)
    readout = jump.T @ normal
    sd = float(np.hypot(plus.sd, minus.sd)) / size
    fresh = _replaced(units, i, normal, -float(apart @ along) / size, readout, sd, float(np.linalg.norm(foot - book.point)))
    better = sd < units.normal_sd[i] and np.abs(normal - units.normals[i]).max() < 50.0 * (units.normal_sd[i] + sd)
    return replace(book, units=fresh) if better else book


def _replaced(units: Units, i: int, normal: Array, distance: float, readout: Array, sd: float, far: float) -> Units:
    def put(old: Array, value: Array | float) -> Array:
        new = old.copy()
        new[i] = value
        return new

    return replace(
        units,
        normals=put(units.normals, normal), distances=put(units.distances, distance), readouts=put(units.readouts, readout),
        normal_sd=put(units.normal_sd, sd), distance_sd=put(units.distance_sd, far * sd),
        readout_sd=put(units.readout_sd, sd * float(np.abs(readout).max())))


def _place(book: Book, i: int, spread: float, rng: Generator) -> tuple[Array, float]:
    """A point on hyperplane i and its distance to the nearest other one; near the foot of the book's point."""
    units = book.units
    away = spread * rng.standard_normal((CANDIDATES, len(book.point)))
    away += (units.distances[i] - away @ units.normals[i])[:, None] * units.normals[i]
    others = np.delete(np.arange(len(units)), i)
    if not len(others):
        return book.point + away[0], spread
    gaps = np.abs(away @ units.normals[others].T - units.distances[others]).min(axis=1)
    best = int(np.argmax(gaps))
    return book.point + away[best], float(min(gaps[best], spread))


def _side(purse: Purse, book: Book, rounding: Rounding, centre: Array) -> _Side:
    """Value and gradient at a point, with steps that stay on its side of every known hyperplane."""
    units = book.units
    z = np.abs((centre - book.point) @ units.normals.T - units.distances)
    with np.errstate(divide="ignore"):
        steps = SHARE * (z[:, None] / np.abs(units.normals)).min(axis=0)
    steps = np.minimum(steps, np.linalg.norm(centre - book.point) + 1.0)
    value = purse.ask(centre[None], "polish")
    y = purse.ask_star(centre, np.arange(len(centre)), steps, "polish")
    noise = np.sqrt(2.0) * rounding.sd(centre[None], value)[0]
    return _Side(centre, value[0], (y - value) / steps[:, None], float(np.sqrt(np.mean((noise / steps) ** 2))))
