"""Units measured again where it is best to measure them: in networks too large for the polish, or before it.

On the first line a unit is measured wherever the line happens to meet it, between neighbours that may be very near. Once all
units are known, and if their normals are independent (width ≤ dim), there is a point at any wanted distance from every
hyperplane, on any wanted side of it: N (x - p) = h + z is a linear system. So unit i is measured where it alone is active and
all hyperplanes are ρ away,

    f(x) = c + v·(x - p) + aᵢ (nᵢ·(x - p) - hᵢ),

and c and v where none is. One star each, with steps as long as the known hyperplanes allow: dim + 1 queries a unit, error
rounding / ρ, and errors of other units do not enter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laybare.lines.asking import Purse
from laybare.lines.book import Book, LineUnits
from laybare.lines.polishing import SURE, error_bars
from laybare.shapes import Array
from laybare.source.rounding import Rounding

ROOM = 1.0
"""Distance from all hyperplanes, in units of the inputs' spread."""

SHARE = 0.5
"""Steps end at half the way to the nearest known hyperplane."""

WORST_CONDITION = 100.0
"""Of the normals: beyond it the points would be far away."""

CREDIBLE = 50.0
"""A unit that moves by more than so many of its error bars has not been measured but mistaken."""


class _Star(NamedTuple):
    """Value (outputs,) and gradient (dim, outputs) at a point, and the standard deviation of the gradient's entries."""

    centre: Array
    value: Array
    gradient: Array
    sd: float

    def at(self, x: Array) -> Array:
        """The affine function of this piece at a point, (outputs,)."""
        return np.asarray(self.value + (x - self.centre) @ self.gradient)


def remeasure(
    purse: Purse, book: Book, rounding: Rounding, *, precision: float, most: int, spread: float = 1.0
) -> Book:
    """The book with its worst units measured again, until all error bars are below `precision` or `most` queries are spent.

    Nothing is done if there are more units than dimensions, or their normals are dependent.
    """
    price = len(book.point) + 1
    if purse.left is not None:
        most = min(most, purse.left - price)
    bars = error_bars(book)
    again = [int(i) for i in np.argsort(-bars) if SURE * bars[i] > precision][: max(0, most // price - 1)]
    inverse = _inverse(book.units) if again else None
    if inverse is None:
        return book
    home = _star(purse, book, rounding, _place(book, inverse, None, ROOM * spread))
    if np.abs(home.gradient - book.gradient).max() > CREDIBLE * (home.sd + book.gradient_sd):
        return book
    book = replace(book, value=home.at(book.point), gradient=home.gradient, gradient_sd=home.sd)
    for i in again:
        book = _again(book, i, _star(purse, book, rounding, _place(book, inverse, i, ROOM * spread)), home)
    return book


def _inverse(units: LineUnits) -> Array | None:
    """The pseudo-inverse of the normals (dim, k), if they are independent enough."""
    if len(units) > units.normals.shape[1] or np.linalg.cond(units.normals) > WORST_CONDITION:
        return None
    return np.asarray(np.linalg.pinv(units.normals))


def _place(book: Book, inverse: Array, i: int | None, room: float) -> Array:
    """The nearest point to p at which unit i alone is active (none of them for i None), with room on all sides."""
    units = book.units
    now = -units.distances
    wanted = np.minimum(now, -room)
    if i is not None:
        wanted[i] = room
    return np.asarray(book.point + inverse @ (wanted - now))


def _again(book: Book, i: int, behind: _Star, before: _Star) -> Book:
    """The book with unit i from the two sides of its hyperplane, if that is an improvement."""
    units = book.units
    jump = behind.gradient - before.gradient
    along = units.readouts[i] / np.linalg.norm(units.readouts[i])
    row = jump @ along
    size = float(np.linalg.norm(row))
    normal, sd = row / size, float(np.hypot(behind.sd, before.sd)) / size
    off = float(np.abs(normal - units.normals[i]).max())
    if sd >= units.normal_sd[i] or off > CREDIBLE * (units.normal_sd[i] + sd):
        return book
    beyond = float((behind.at(behind.centre) - before.at(behind.centre)) @ along) / size
    distance = float((behind.centre - book.point) @ normal) - beyond
    return replace(book, units=_replaced(units, i, normal, distance, jump.T @ normal, sd))


def _replaced(units: LineUnits, i: int, normal: Array, distance: float, readout: Array, sd: float) -> LineUnits:
    def put(old: Array, value: Array | float) -> Array:
        new = old.copy()
        new[i] = value
        return new

    return replace(
        units,
        normals=put(units.normals, normal), distances=put(units.distances, distance), readouts=put(units.readouts, readout),
        normal_sd=put(units.normal_sd, sd), distance_sd=put(units.distance_sd, (1.0 + distance) * sd),
        readout_sd=put(units.readout_sd, sd * float(np.abs(readout).max())))


def _star(purse: Purse, book: Book, rounding: Rounding, centre: Array) -> _Star:
    """Value and gradient at a point, with steps that stay on its side of every known hyperplane."""
    units = book.units
    z = np.abs((centre - book.point) @ units.normals.T - units.distances)
    with np.errstate(divide="ignore"):
        steps = SHARE * (z[:, None] / np.abs(units.normals)).min(axis=0)
    steps = np.minimum(steps, np.linalg.norm(centre) + 1.0)
    value = purse.ask(centre[None], "polish")
    y = purse.ask_star(centre, np.arange(len(centre)), steps, "polish")
    noise = np.sqrt(2.0) * rounding.sd(centre[None], value)[0]
    return _Star(centre, value[0], (y - value) / steps[:, None], float(np.sqrt(np.mean((noise / steps) ** 2))))
