"""The layer by queries, noiseless: the facets of the silent region.

While every unit sleeps f = c₀: the silent region is the polytope {w_i·x ≤ t_i}, and its facets are the units. Along a ray the
first change of f is a point of the boundary, found by bisection to all digits; dim + 3 neighbouring rays that cross the same
facet give g = w/t from g·p = 1, by least squares. Any top will do that does not return c₀ when one unit fires.

Small facets. A facet under a tiny solid angle is missed by random rays. So rays are sent where no known facet can stop them:
along v with w_i·v = 0 for all known units. Whatever such a ray meets is new, and a unit whose weights are independent of the
known ones is met by v or by -v, for all v but a set of measure zero. With independent rows nothing can hide within the reach of
the rays. Once no direction is left, rays with w_i·v ≤ 0, and random ones, look for dependent rows.
Source: Goel and Panigrahy (2019) have samples only; model extraction by critical points is an old idea, the null rays are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import AssumptionViolated, BudgetExhausted, NotSeparated
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.shapes import Array

Ask = Callable[[Array], Array]

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


class _FacetProbe:
    """Bisection along rays from an origin, in coordinates of spread 1; counts the queries."""

    def __init__(self, ask: Ask, origin: Array, spread: Array, level: Array, tol: float) -> None:
        self.ask, self.origin, self.spread, self.level, self.tol, self.queries = ask, origin, spread, level, tol, 0

    def changed(self, points: Array) -> Array:
        """Whether f differs from the baseline at origin + spread · points."""
        self.queries += len(points)
        return np.asarray((np.abs(self.ask(self.origin + points * self.spread) - self.level) > self.tol).any(axis=1))

    def bisect(self, rays: Array, low: Array, high: Array, halvings: int) -> tuple[Array, Array]:
        """Brackets of the crossings after so many halvings."""
        for _ in range(halvings):
            middle = (low + high) / 2
            beyond = self.changed(rays * middle[:, None])
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return low, high

    def crossing(self, ray: Array) -> float | None:
        """Distance to the first change along a ray, coarsely; None if there is none within reach. Radii are asked in groups."""
        before = 0.0
        for group in np.split(RADII, 6):
            beyond = self.changed(np.outer(group, ray))
            if beyond.any():
                first = int(np.argmax(beyond))
                low, high = (group[first - 1] if first else before), group[first]
                _, high_ = self.bisect(ray[None], np.array([low]), np.array([high]), COARSE)
                return float(high_[0])
            before = float(group[-1])
        return None

    def facet(self, ray: Array, distance: float, spare: int, rng: Generator) -> tuple[Array, float] | None:
        """g = w/t of the facet that `ray` crosses, and its misfit; None if no spread keeps to one facet."""
        for spread in SPREADS:
            rays = ray + spread * rng.standard_normal((len(ray) + spare, len(ray))) / np.sqrt(len(ray))
            rays /= np.linalg.norm(rays, axis=1, keepdims=True)
            low, high = (np.full(len(rays), distance * (1 + sign * 0.5)) for sign in (-1, 1))
            inside, outside = self.changed(rays * low[:, None]), self.changed(rays * high[:, None])
            if inside.any() or not outside.all():
                continue
            low, high = self.bisect(rays, low, high, HALFWAY)
            if _plane(rays, low, high)[1] > NEARLY_FLAT:
                continue
            g, misfit = _plane(rays, *self.bisect(rays, low, high, FINE - HALFWAY))
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
    scale: Array | None = None, rng: Generator,
) -> Facets:
    """All half-spaces around a silent `origin`, where f = `level` up to `tol`.

    `ask` answers queries (n, dim) -> (n, outputs); `scale` (dim,) is the spread of the inputs. The search ends when `width`
    units are found or, without it, when the rays of `search` find nothing new. BudgetExhausted carries what was found until
    then.
    """
    spread = np.ones(len(origin)) if scale is None else scale
    probe = _FacetProbe(ask, origin, spread, level, tol)
    found: list[Array] = []
    worst = 0.0
    try:
        while width is None or len(found) < width:
            hit = _new_crossing(probe, np.array(found).reshape(-1, len(origin)), search, rng)
            if hit is None:
                break
            g, misfit = hit
            found.append(g)
            worst = max(worst, misfit)
    except BudgetExhausted as error:
        raise BudgetExhausted(
            f"{len(found)} facets were found with {probe.queries:,} queries. {error.seen}", error.why,
            f"Grant about {_price(len(origin), search) * (width or len(origin)):,} queries.",
            found=np.array(found), **error.values) from None
    if not found:
        raise AssumptionViolated(
            f"No ray of length {RADII[-1]:g} from the origin meets a change of the output.", "Then no unit is in reach.",
            "Check the function, or choose another origin.", queries=probe.queries)
    if width is not None and len(found) < width:
        raise NotSeparated(
            f"{len(found)} of {width} facets were found with {probe.queries:,} queries.",
            "A facet under a tiny solid angle, with weights that depend on the others, is met by hardly any ray; or the width is "
            "smaller.", "Give a smaller width, or FacetSearch(random_rays=...) more rays.", found=np.array(found))
    normals = np.array(found) / spread
    lengths = np.linalg.norm(normals, axis=1)
    return Facets(HalfSpaces(normals / lengths[:, None], 1.0 / lengths), worst, probe.queries)


def _new_crossing(probe: _FacetProbe, known: Array, search: FacetSearch, rng: Generator) -> tuple[Array, float] | None:
    """A facet that is not among `known` (rows w/t), or None after all rays met known ones only."""
    dim = known.shape[1]
    if len(known) < dim:
        for ray in _null_rays(known, search.null_rays, rng):
            distance = probe.crossing(ray)
            facet = None if distance is None else probe.facet(ray, distance, search.spare, rng)
            if facet is not None:
                return facet
    for turn in range(search.random_rays):
        ray = _downhill(known, rng) if turn % 2 and 0 < len(known) <= dim else rng.standard_normal(dim)
        ray /= np.linalg.norm(ray)
        distance = probe.crossing(ray)
        if distance is None or (len(known) and abs(float((known @ ray).max()) * distance - 1.0) < SEEN):
            continue
        facet = probe.facet(ray, distance, search.spare, rng)
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
