"""The layer by queries, noiseless: the facets of the silent region.

While every unit sleeps f = c₀: the silent region is the polytope {w_i·x ≤ t_i}, and its facets are the units. Along a ray the
first change of f is a point of the boundary, found to all digits by halving (`laybare.lines.borders`); dim + 3 neighbouring rays
that cross the same facet give g = w/t from g·p = 1, by least squares. Any top will do that does not return c₀ when one unit
fires.

Small facets. A facet under a tiny solid angle is missed by random rays. So rays are sent where no known facet can stop them:
along v with w_i·v = 0 for all known units. Whatever such a ray meets is new, and a unit whose weights are independent of the
known ones is met by v or by -v, for all v but a set of measure zero. With independent rows nothing can hide within the reach of
the rays. Once no direction is left, rays with w_i·v ≤ 0, and random ones, look for dependent rows.
Source: Goel and Panigrahy (2019) have samples only; model extraction by critical points is an old idea, the null rays are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lines import Ask, AskBox, Purse, Rays
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.shapes import Array

RADII = np.geomspace(0.05, 1000.0, 48)
"""Coarse steps along a ray, in units of the inputs' spread: a factor 1.23 each."""

COARSE, HALFWAY, FINE = 12, 24, 56
"""Halvings along a ray that looks for a facet, and along one that measures it: 56 reach the last bit. Halfway through,
crossings that are not on one plane show, and the rest is saved."""

SPREADS = (3e-2, 1e-2, 1e-3, 1e-4)
"""Spread of neighbouring rays, wide first: the normal is as accurate as the crossings divided by it."""

NEARLY_FLAT, FLAT = 1e-6, 1e-9
"""Largest misfit of neighbouring crossings to one plane, halfway and in the end; rays that straddle two facets miss by about
their spread."""

SEEN, KNOWN = 1e-3, 1e-6
"""A coarse crossing, and a measured facet, this close (relatively) to a known facet belong to it."""


@dataclass(frozen=True, kw_only=True)
class FacetSearch:
    """Effort of the search.

    `spare` neighbouring rays beyond the dimension check that all of them cross one facet; `null_rays` directions (both signs)
    without a crossing end the search for independent units; `random_rays` in a row that meet only known facets end it
    altogether.
    """

    spare: int = 3
    null_rays: int = 3
    random_rays: int = 30


class Facets(NamedTuple):
    """What was found around `origin`: w_i·(x - origin) > t_i; largest misfit of a facet; queries spent."""

    spaces: HalfSpaces
    misfit: float
    queries: int


def _facet(rays: Rays, ray: Array, distance: float, spare: int, rng: Generator) -> tuple[Array, float] | None:
    """g = w/t of the facet that `ray` crosses, and its misfit; None if no spread keeps to one facet."""
    for spread in SPREADS:
        beside = ray + spread * rng.standard_normal((len(ray) + spare, len(ray))) / np.sqrt(len(ray))
        beside /= np.linalg.norm(beside, axis=1, keepdims=True)
        low, high = np.full(len(beside), 0.5 * distance), np.minimum(1.5 * distance, rays.ends(beside))
        inside, outside = rays.beyond(beside * low[:, None]), rays.beyond(beside * high[:, None])
        if inside.any() or not outside.all():
            continue
        low, high = rays.halved(beside, low, high, HALFWAY)
        if _plane(beside, low, high)[1] > NEARLY_FLAT:
            continue
        g, misfit = _plane(beside, *rays.halved(beside, low, high, FINE - HALFWAY))
        if misfit < FLAT:
            return g, misfit
    return None


def _plane(rays: Array, low: Array, high: Array) -> tuple[Array, float]:
    """g with g·p = 1 at the crossings p, by least squares, and the largest |g·p - 1|."""
    points = rays * ((low + high) / 2)[:, None]
    g = np.linalg.lstsq(points, np.ones(len(points)), rcond=None)[0]
    return g, float(np.abs(points @ g - 1.0).max())


def find_facets(
    ask: Ask, origin: Array, level: Array, tol: float, *, width: int | None, search: FacetSearch = FacetSearch(),
    scale: Array | None = None, box: AskBox | None = None, rng: Generator,
) -> Facets:
    """All half-spaces around a silent `origin`, where f = `level` up to `tol`.

    `ask` answers queries (n, dim) -> (n, outputs); `scale` (dim,) is the spread of the inputs; no ray leaves `box`. The search
    ends when `width` units are found or, without it, when the rays of `search` find nothing new. BudgetExhausted carries what
    was found until then.
    """
    spread = np.ones(len(origin)) if scale is None else scale
    purse = Purse(ask, box=box)
    rays = Rays(purse, origin, spread, lambda y: (np.abs(y - level) > tol).any(axis=1))
    found: list[Array] = []
    worst = 0.0
    try:
        while width is None or len(found) < width:
            hit = _new_crossing(rays, np.array(found).reshape(-1, len(origin)), search, rng)
            if hit is None:
                break
            g, misfit = hit
            found.append(g)
            worst = max(worst, misfit)
    except BudgetExhausted as error:
        raise BudgetExhausted(
            f"{len(found)} facets were found with {purse.total:,} queries. {error.seen}", error.why,
            f"Grant about {_price(len(origin), search) * (width or len(origin)):,} queries.",
            found=np.array(found), **error.values) from None
    if not found:
        raise AssumptionViolated(
            f"No ray of length {RADII[-1]:g} from the origin meets a change of the output{'' if box is None else ' in the box'}.",
            "Then no unit is in reach.",
            "Check the function, or choose another origin.", queries=purse.total)
    if width is not None and len(found) < width:
        raise NotSeparated(
            f"{len(found)} of {width} facets were found with {purse.total:,} queries.",
            "A facet under a tiny solid angle, with weights that depend on the others, is met by hardly any ray; or the width is "
            "smaller.", "Give a smaller width, or FacetSearch(random_rays=...) more rays.", found=np.array(found))
    normals = np.array(found) / spread
    lengths = np.linalg.norm(normals, axis=1)
    return Facets(HalfSpaces(normals / lengths[:, None], 1.0 / lengths), worst, purse.total)


def _new_crossing(rays: Rays, known: Array, search: FacetSearch, rng: Generator) -> tuple[Array, float] | None:
    """A facet that is not among `known` (rows w/t), or None after all rays met known ones only."""
    dim = known.shape[1]
    if len(known) < dim:
        for ray in _null_rays(known, search.null_rays, rng):
            distance = rays.first_change(ray, RADII, COARSE)
            facet = None if distance is None else _facet(rays, ray, distance, search.spare, rng)
            if facet is not None:
                return facet
    for turn in range(search.random_rays):
        ray = _downhill(known, rng) if turn % 2 and 0 < len(known) <= dim else rng.standard_normal(dim)
        ray /= np.linalg.norm(ray)
        distance = rays.first_change(ray, RADII, COARSE)
        if distance is None or (len(known) and abs(float((known @ ray).max()) * distance - 1.0) < SEEN):
            continue
        facet = _facet(rays, ray, distance, search.spare, rng)
        if facet is not None and (not len(known) or np.abs(known - facet[0]).max(axis=1).min() > KNOWN * np.abs(facet[0]).max()):
            return facet
    return None


def _null_rays(known: Array, count: int, rng: Generator) -> Array:
    """Random directions orthogonal to all known normals, each with its opposite."""
    rays = rng.standard_normal((count, known.shape[1]))
    if len(known):
        _, _, basis = np.linalg.svd(known)
        free = basis[len(known) :]
        rays = rays @ free.T @ free
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    return np.stack([rays, -rays], axis=1).reshape(-1, known.shape[1])


def _downhill(known: Array, rng: Generator) -> Array:
    """A random direction along which no known half-space is approached: w_i·v ≤ 0 for all of them, if they are independent."""
    down: Array = -np.linalg.pinv(known) @ np.abs(rng.standard_normal(len(known)))
    return down


def _price(dim: int, search: FacetSearch) -> int:
    """Queries a facet: one coarse ray, and dim + spare rays to the last bit."""
    return len(RADII) + COARSE + (dim + search.spare) * (FINE + 2)
