"""The layer by queries, noiseless: the facets of the silent region.

While all units are inactive f = c₀: the silent region is the polytope {w_i·x ≤ t_i}, and its facets are the units. The first
change of f along a ray is a point of the boundary, found to all digits by bisection; dim + 3 neighbouring rays that cross the
same facet give g = w/t from g·p = 1, by least squares. Any top will do that does not return c₀ when one unit is active.

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
from laybare.lines.line import Rays
from laybare.lines.query import BlackBox, QueryBox, QueryCounter
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Steps along rays, and tolerances of the facets that they cross."""

    first_radius: float = 0.05  # in standard deviations of the inputs. Checked by `pytest tests/lowest_layer/test_facets.py`.
    last_radius: float = 1000.0  # no unit further away is found. Checked by `pytest tests/lowest_layer/test_facets.py`.
    steps: int = 48  # coarse steps along a ray, a factor of 1.23 each. Checked by `pytest tests/lowest_layer`.
    coarse_halvings: int = 12  # along a ray that looks for a facet. Checked by `pytest tests/lowest_layer`.
    plane_halvings: int = 24  # after which crossings off one plane show. Checked by `pytest tests/lowest_layer`.
    fine_halvings: int = 56  # along a ray that measures a facet. Derived: 53 bits of a double, and 3 to spare.
    spreads: tuple[float, ...] = (3e-2, 1e-2, 1e-3, 1e-4)
    """Spread of neighbouring rays, wide first: the error of a normal is that of the crossings over the spread."""

    nearly_flat: float = 1e-6  # largest misfit to a plane after `plane_halvings`. Checked by `pytest tests/lowest_layer`.
    flat: float = 1e-9  # the same at the end; across two facets it is the spread. Checked by `pytest tests/lowest_layer`.
    same_crossing: float = 1e-3  # relative distance of a coarse crossing to its facet. Checked by `pytest tests/lowest_layer`.
    same_facet: float = 1e-6  # relative difference of two facets that are one. Checked by `pytest tests/lowest_layer`.


RAYS = RayOptions()
RADII = np.geomspace(RAYS.first_radius, RAYS.last_radius, RAYS.steps)


class SilentPoint(NamedTuple):
    """A point where all units are inactive: the baseline there, deviations that count as rounding, the noise (outputs,), the
    spread of the inputs (dim,)."""

    origin: Array
    level: Array
    tol: float
    noise: Array
    spread: Array


@dataclass(frozen=True, kw_only=True)
class FacetSearch:
    """Effort of the search.

    `spare` neighbouring rays beyond the dimension check that all of them cross one facet; `null_rays` directions (both signs)
    without a crossing end the search for independent units; `random_rays` in a row that meet only known facets end the search.
    """

    spare: int = 3
    null_rays: int = 3
    random_rays: int = 30


class Facets(NamedTuple):
    """What was found around `origin`: w_i·(x - origin) > t_i; largest misfit of a facet; queries spent."""

    spaces: HalfSpaces
    misfit: float
    queries: int


def _measure_facet(rays: Rays, ray: Array, distance: float, spare: int, rng: Generator) -> tuple[Array, float] | None:
    """g = w/t of the facet that `ray` crosses, and its misfit; None if no spread keeps to one facet."""
    for spread in RAYS.spreads:
        beside = ray + spread * rng.standard_normal((len(ray) + spare, len(ray))) / np.sqrt(len(ray))
        beside /= np.linalg.norm(beside, axis=1, keepdims=True)
        low, high = np.full(len(beside), 0.5 * distance), np.minimum(1.5 * distance, rays.lengths(beside))
        inside, outside = rays.is_changed(beside * low[:, None]), rays.is_changed(beside * high[:, None])
        if inside.any() or not outside.all():
            continue
        low, high = rays.bisect(beside, low, high, RAYS.plane_halvings)
        if _fit_plane(beside, low, high)[1] > RAYS.nearly_flat:
            continue
        g, misfit = _fit_plane(beside, *rays.bisect(beside, low, high, RAYS.fine_halvings - RAYS.plane_halvings))
        if misfit < RAYS.flat:
            return g, misfit
    return None


def _fit_plane(rays: Array, low: Array, high: Array) -> tuple[Array, float]:
    """g with g·p = 1 at the crossings p, by least squares, and the largest |g·p - 1|."""
    points = rays * ((low + high) / 2)[:, None]
    g = np.linalg.lstsq(points, np.ones(len(points)), rcond=None)[0]
    return g, float(np.abs(points @ g - 1.0).max())


def find_facets(
    ask: BlackBox, start: SilentPoint, *, width: int | None, search: FacetSearch, box: QueryBox | None, rng: Generator
) -> Facets:
    """All half-spaces around a silent point; no ray leaves `box`.

    The search ends when `width` units are found or, without it, when the rays of `search` find nothing new. BudgetExhausted
    carries what was found until then.
    """
    origin, level, tol, _, spread = start
    counter = QueryCounter(ask, box=box)
    rays = Rays(counter, origin, spread, lambda y: (np.abs(y - level) > tol).any(axis=1))
    found: list[Array] = []
    worst = 0.0
    try:
        while width is None or len(found) < width:
            hit = _find_new_facet(rays, np.array(found).reshape(-1, len(origin)), search, rng)
            if hit is None:
                break
            g, misfit = hit
            found.append(g)
            worst = max(worst, misfit)
    except BudgetExhausted as error:
        raise BudgetExhausted(
            f"{len(found)} facets were found with {counter.total:,} queries. {error.seen}", error.why,
            f"Grant about {_queries_per_facet(len(origin), search) * (width or len(origin)):,} queries.",
            found=np.array(found), **error.values) from None
    if not found:
        raise AssumptionViolated(
            f"No ray of length {RADII[-1]:g} from the origin meets a change of the output{'' if box is None else ' in the box'}.",
            "Then no unit is in reach.",
            "Check the function, or choose another origin.", queries=counter.total)
    if width is not None and len(found) < width:
        raise NotSeparated(
            f"{len(found)} of {width} facets were found with {counter.total:,} queries.",
            "A facet under a tiny solid angle, with weights that depend on the others, is met by hardly any ray; or the width is "
            "smaller.", "Give a smaller width, or FacetSearch(random_rays=...) more rays.", found=np.array(found))
    normals = np.array(found) / spread
    lengths = np.linalg.norm(normals, axis=1)
    return Facets(HalfSpaces(normals / lengths[:, None], 1.0 / lengths), worst, counter.total)


def _find_new_facet(rays: Rays, known: Array, search: FacetSearch, rng: Generator) -> tuple[Array, float] | None:
    """A facet that is not among `known` (rows w/t), or None after all rays met known ones only."""
    dim = known.shape[1]
    if len(known) < dim:
        for ray in _null_rays(known, search.null_rays, rng):
            distance = rays.first_change(ray, RADII, RAYS.coarse_halvings)
            facet = None if distance is None else _measure_facet(rays, ray, distance, search.spare, rng)
            if facet is not None:
                return facet
    for turn in range(search.random_rays):
        ray = _ray_below_known(known, rng) if turn % 2 and 0 < len(known) <= dim else rng.standard_normal(dim)
        ray /= np.linalg.norm(ray)
        distance = rays.first_change(ray, RADII, RAYS.coarse_halvings)
        if distance is None or (len(known) and abs(float((known @ ray).max()) * distance - 1.0) < RAYS.same_crossing):
            continue
        facet = _measure_facet(rays, ray, distance, search.spare, rng)
        if facet is not None and not _is_known(known, facet[0]):
            return facet
    return None


def _is_known(known: Array, g: Array) -> bool:
    return len(known) > 0 and bool(np.abs(known - g).max(axis=1).min() <= RAYS.same_facet * np.abs(g).max())


def _null_rays(known: Array, count: int, rng: Generator) -> Array:
    """Random directions orthogonal to all known normals, each with its opposite."""
    rays = rng.standard_normal((count, known.shape[1]))
    if len(known):
        _, _, basis = np.linalg.svd(known)
        free = basis[len(known) :]
        rays = rays @ free.T @ free
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    return np.stack([rays, -rays], axis=1).reshape(-1, known.shape[1])


def _ray_below_known(known: Array, rng: Generator) -> Array:
    """A random direction along which no known half-space is approached: w_i·v ≤ 0 for all of them, if they are independent."""
    return np.asarray(-np.linalg.pinv(known) @ np.abs(rng.standard_normal(len(known))))


def _queries_per_facet(dim: int, search: FacetSearch) -> int:
    """One coarse ray, and dim + spare rays to the last bit."""
    return len(RADII) + RAYS.coarse_halvings + (dim + search.spare) * (RAYS.fine_halvings + 2)
