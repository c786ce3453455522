"""Layers that another reading has given: their rows are checked and made exact at located points, and reading goes on above.

A given row says where the unit's surface is. There it is located (four queries a place), and the row is the null vector of the
features at the located points (fact b), as for every unit: about four queries per weight. A row whose surface is not met where it
should be is no unit of the layer; Wald's test decides, as in `FoldedSurface.verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from laybare.lines.folds.facts import null_vector
from laybare.lines.folds.probe import BentPlace, SurfaceProbe
from laybare.lines.folds.stack import KnownLayers, room_in_cell
from laybare.lines.folds.surface import FoldedSurface
from laybare.numerics.shapes import Array

Gradients = Callable[[Array], tuple[Array, Array]]
"""Gradients (n, dim) and values (n,) of a unit's pre-activation at inputs."""


class GivenLayer(NamedTuple):
    """Rows (width, below) and biases (width,), the last `always_on` of them of units that never bend.

    `complete` if no unit is missing and active sides are decided; else further units are looked for.
    """

    weights: Array
    biases: Array
    always_on: int = 0
    complete: bool = True


def row_space(given: Sequence[GivenLayer], dim: int) -> Array | None:
    """Orthonormal columns V (dim, width) of all that a complete lowest layer reads, if it is narrower than its input.

    The function depends on Vᵀx alone, so that it is asked at x = V v and read in v: of 784 inputs eight are left above eight
    units, and a normal costs as many queries. Where x is N(0, I), so is v.
    """
    if not given or not given[0].complete or len(given[0].biases) >= dim:
        return None
    return np.asarray(np.linalg.qr(given[0].weights.T)[0])


class LocatedRow(NamedTuple):
    """A row (below + 1,) with its bias at the end, norm of the weights 1, and its surface."""

    row: Array
    surface: FoldedSurface


def located_row(probe: SurfaceProbe, known: KnownLayers, row: Array, *, trusted: bool = False) -> LocatedRow | None:
    """A unit whose row is given, measured again at its surface; None if the surface is not there.

    A trusted row is kept as it is where what lies above hides most of its surface.
    """
    starts = probe.inputs(40 * len(row))
    places = surface_points(partial(_preactivation, known, row), starts)
    places = places[np.linalg.norm(places, axis=1) <= probe.options.reach * probe.scale * np.sqrt(known.dim)]
    points = _located(probe, known, row, places, trusted)
    if len(points) >= len(row) + probe.options.spare:
        null = null_vector(_features(known, points))
        if null.closes <= probe.options.closes and null.gap >= np.sqrt(probe.options.rank):
            row = np.where(null.open, row, null.row * (row @ null.row) / (null.row @ null.row))
    elif not trusted or len(points) < probe.options.spare:
        return None
    row = row / np.linalg.norm(row[:-1])
    return LocatedRow(row, _surface(probe, known, row, points, starts))


def _located(probe: SurfaceProbe, known: KnownLayers, row: Array, places: Array, trusted: bool) -> Array:
    """Located points beside computed ones, until they are enough, or Wald's test says that the surface is not there."""
    options, located, score = probe.options, list[Array](), 0.0
    for x in places[: 2 * len(row) + options.most_looks]:
        if len(located) >= len(row) + options.spare or (score <= options.refuse and not trusted):
            break
        point = _locate(probe, known, row, x)
        score = min(score + options.log_ratio(hit=point is not None), 2.0 * options.accept)
        if point is not None:
            located.append(point)
    return np.array(located).reshape(-1, known.dim)


def _surface(probe: SurfaceProbe, known: KnownLayers, row: Array, points: Array, starts: Array) -> FoldedSurface:
    """The surface with its located points, and computed ones for what wrong orientations below would add."""
    gradients = partial(_preactivation, known, row)
    computed = surface_points(gradients, starts)[: 2 * len(row) + known.dim + probe.options.spare]
    every = [*points, *computed]
    normal = gradients(every[0][None])[0][0]
    base = BentPlace(every[0], normal / np.linalg.norm(normal), 0.0, probe.scale)
    return FoldedSurface(probe, known, base, every, [known.cell(x) for x in every], [0.0] * len(every))


def _features(known: KnownLayers, x: Array) -> Array:
    return np.hstack([known.features(x, known.depth), np.ones((len(x), 1))])


def _preactivation(known: KnownLayers, row: Array, x: Array) -> tuple[Array, Array]:
    z = known.preactivations(x)
    values = _features(known, x) @ row
    return known.pulled_back(z, known.depth, np.broadcast_to(row[:-1], (len(x), len(row) - 1))), values


def _locate(probe: SurfaceProbe, known: KnownLayers, row: Array, x: Array) -> Array | None:
    """The point of the surface beside a computed one, if it is there."""
    cell = known.cell(x)
    normal = _preactivation(known, row, x[None])[0][0]
    v = normal / np.linalg.norm(normal)
    room = min(room_in_cell(known.maps(cell), cell, x, v)) if known.depth else np.inf
    half = min(0.3 * room, probe.options.window * probe.scale)
    place = probe.hits(x, v, half) if half > 1e-8 * probe.scale else None
    return None if place is None else x + place.offset * v


def surface_points(surface: Gradients, x: Array, *, steps: int = 30, tol: float = 1e-11) -> Array:
    """Points (n, dim) at which a piecewise-linear function vanishes, by Newton steps from x (many, dim), without a query."""
    met = []
    for _ in range(steps):
        g, z = surface(x)
        square = (g * g).sum(axis=1)
        done = (z * z <= tol**2 * square) & (square > 0.0)
        met.append(x[done])
        go = ~done & (square > 0.0)
        if not go.any():
            break
        x = x[go] - (z[go] / square[go])[:, None] * g[go]
    return np.vstack(met)
