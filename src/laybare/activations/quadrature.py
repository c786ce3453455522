"""Gaussian expectations of piecewise smooth units, one or a pair: Gauss-Legendre on panels that never straddle a kink.

One unit. Gauss-Hermite, the usual choice, converges like 1/nodes at the kink of a ReLU. Here the panels end at every kink, shrink
towards it (so that powers such as t^1.5 do no harm), are one unit of the pre-activation t = scale·g + bias wide where an
activation is curved, and never wider than one standard deviation of g. Accuracy: about 1e-15 of the largest |integrand| for
activations that are analytic between their kinks with no feature narrower than about 1/5 in t. It fails, slowly and silently, at
a kink that was not declared.

Two units: E[F(u) G(v) zᵅ] for z ~ N(0, I₂), u = z₁, v = c·z₁ + √(1-c²)·z₂, |α| ≤ 2. In polar coordinates the kinks at u = 0 and v
= 0 are four rays, so panels end there; they shrink geometrically towards every ray, because far out a sigmoid changes within 1/r
of it. If F·G is homogeneous of degree D, the radial integral is ∫ r^(D+a+1) exp(-r²/2) dr = 2^((D+a)/2) Γ((D+a)/2 + 1) exactly.
Accuracy about 1e-13 of the largest |F·G| for activations with no kink but 0 and scales up to about 3, where 1/scale is the length
of features of F or G; fractional powers lose digits at their kink (1e-9 for t^1.5).
Source: polar coordinates as for arc-cosine kernels (Cho and Saul 2009), which are the case of ReLU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import gamma, pi
from typing import NamedTuple

import numpy as np
from scipy import special

from laybare.activations.values import normal_density
from laybare.numerics.shapes import Array


@dataclass(frozen=True, kw_only=True)
class QuadratureOptions:
    """Nodes and panels, for one unit and for a pair."""

    nodes: int = 20  # per panel: tanh on a panel of width one is exact to rounding. Checked by `pytest tests/activations`.
    reach: float = 16.0  # standard deviations covered. Derived: φ(16) = 1e-56 is below the rounding of every moment in use.
    unit_panels_to: float = 16.0  # |t| up to which panels have width one; wider beyond. Convention: no test depends on it.
    rows: int = 256  # pairs (scale, bias) per block. Derived: about 16 MB per array.
    pair_nodes: int = 12  # Checked by `pytest tests/activations/test_pairs.py`.
    pair_reach: float = 10.0  # Derived: exp(-10²/2) = 2e-22.


OPTIONS = QuadratureOptions()

KINK_DISTANCES = 4.0 ** -np.arange(7)
"""Distances of panel edges from a kink. Derived: on [a, 4a] twenty nodes integrate t^p exactly; the last panel is 2e-4 wide."""


def expected_product(
    value: Callable[[Array], Array], order: int, scale: Array, bias: Array, kinks: tuple[float, ...]
) -> Array:
    """E[value(scale·g + bias) He_order(g)] for each pair of two vectors."""
    found = np.empty(scale.shape)
    for start in range(0, scale.size, OPTIONS.rows):
        s, b = scale[start : start + OPTIONS.rows], bias[start : start + OPTIONS.rows]
        g, weights = gaussian_nodes(s, b, kinks)
        weights *= special.eval_hermitenorm(order, g)
        found[start : start + OPTIONS.rows] = np.sum(weights * value(s[:, None] * g + b[:, None]), axis=1)
    return found


def gaussian_nodes(scale: Array, bias: Array, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Nodes g and weights (pairs, nodes) with Σ weights·f(scale·g + bias, g) = E[f] for f smooth between the kinks of its t."""
    edges = _edges(OPTIONS.reach * float(scale.max(initial=0)) + float(np.abs(bias).max(initial=0)), kinks)
    with np.errstate(over="ignore"):  # a tiny scale sends edges to infinity, and the clip brings them back
        inner = np.clip((edges - bias[:, None]) / scale[:, None], -OPTIONS.reach, OPTIONS.reach)
    outer = np.broadcast_to(np.arange(-OPTIONS.reach, OPTIONS.reach + 1), (len(scale), int(2 * OPTIONS.reach) + 1))
    edges = np.sort(np.concatenate([inner, outer], axis=1), axis=1)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    x, w = _legendre()
    g = (edges[:, :-1, None] + half + half * x).reshape(len(scale), -1)
    return g, (half * w).reshape(g.shape) * normal_density(g)


def _edges(reach: float, kinks: tuple[float, ...]) -> Array:
    """Panel edges in t, from -reach to reach: units, then geometric, and shrinking towards each kink."""
    last = OPTIONS.unit_panels_to
    doublings = int(np.ceil(max(0.0, np.log2(max(reach, last) / last)) * 2))
    ray = np.concatenate([np.arange(1.0, last + 1), last * 2 ** (np.arange(1, doublings + 1) / 2)])
    near = [kink + side * np.append(KINK_DISTANCES, 0.0) for kink in kinks for side in (-1, 1)]
    return np.concatenate([-ray, [0.0], ray, *near])


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(OPTIONS.nodes)


ARC_SHARES = 0.5 * 4.0 ** -np.arange(5)
"""Edges of panels on an arc, as shares of its length from either end. Derived: as KINK_DISTANCES, to 1e-3 of the arc."""


class Factor(NamedTuple):
    """A function of one pre-activation: `value` on arrays, `degree` if homogeneous, `scale` (features have length 1/scale)."""

    value: Callable[[Array], Array]
    degree: float | None
    scale: float


class PairMoments(NamedTuple):
    """E[FG], E[FG z] (2,), E[FG zzᵀ] (2, 2)."""

    mean: float
    first: Array
    second: Array


def pair_moments(one: Factor, other: Factor, cosine: float) -> PairMoments:
    """Moments of one(u)·other(v), with u and v standard normal of correlation `cosine`."""
    cosine = float(np.clip(cosine, -1.0, 1.0))
    angle, weight = _angles(cosine)
    z = np.stack([np.cos(angle), np.sin(angle)])
    u, v = z[0], cosine * z[0] + np.sqrt(1.0 - cosine * cosine) * z[1]
    if one.degree is not None and other.degree is not None:
        ring = one.value(u) * other.value(v) * weight
        radial = [_radial_moment(one.degree + other.degree + a) for a in range(3)]
        rings = [ring * part for part in radial]
    else:
        r, radius = _radii(max(one.scale, other.scale))
        product = one.value(np.outer(u, r)) * other.value(np.outer(v, r)) * weight[:, None]
        rings = list((product @ np.stack([radius * r**a for a in range(3)], axis=1)).T)
    return PairMoments(float(rings[0].sum()), z @ rings[1], np.asarray((z * rings[2]) @ z.T))


def _angles(cosine: float) -> tuple[Array, Array]:
    """Nodes and weights on the circle, the weights over 2π; panels end at the four rays where u or v vanishes."""
    theta = np.arccos(cosine)
    rays = np.sort(np.mod([pi / 2, -pi / 2, theta + pi / 2, theta - pi / 2], 2 * pi))
    lengths = np.diff(np.append(rays, rays[0] + 2 * pi))
    shares = np.unique(np.concatenate([[0.0], ARC_SHARES, 1.0 - ARC_SHARES, [1.0]]))
    edges = rays[:, None] + lengths[:, None] * shares
    nodes, weights = _panels(edges[:, :-1].ravel(), edges[:, 1:].ravel())
    return nodes, weights / (2 * pi)


def _radii(scale: float) -> tuple[Array, Array]:
    """Nodes r on [0, OPTIONS.pair_reach] and weights that contain r·exp(-r²/2)."""
    count = int(np.ceil(OPTIONS.pair_reach * max(2.0, scale)))
    edges = np.linspace(0.0, OPTIONS.pair_reach, count + 1)
    r, weights = _panels(edges[:-1], edges[1:])
    return r, weights * r * np.exp(-0.5 * r * r)


def _panels(low: Array, high: Array) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(OPTIONS.pair_nodes)
    half = (high - low)[:, None] / 2
    return (low[:, None] + half * (1.0 + x)).ravel(), (half * w).ravel()


def _radial_moment(power: float) -> float:
    return float(2.0 ** (power / 2) * gamma(power / 2 + 1))
