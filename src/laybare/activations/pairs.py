"""Gaussian expectations of products of two units: E[F(u) G(v) zᵅ] for z ~ N(0, I₂), u = z₁, v = c·z₁ + √(1-c²)·z₂, |α| ≤ 2.

Any network of two hidden units lives in a plane. In polar coordinates the kinks at u = 0 and v = 0 are four rays, so panels of
Gauss-Legendre nodes end there; they shrink geometrically towards every ray, because far out a sigmoid bends within 1/r of it. If
F·G is homogeneous of degree D, the radial integral is ∫ r^(D+a+1) exp(-r²/2) dr = 2^((D+a)/2) Γ((D+a)/2 + 1) exactly.

Accuracy about 1e-13 of the largest |F·G| for activations with no kink but 0 and scales up to about 3, where 1/scale is the length
over which F or G bends; fractional powers lose digits at their kink (1e-9 for t^1.5).
Source: polar coordinates as for arc-cosine kernels (Cho and Saul 2009), which are the case of ReLU.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gamma, pi
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array

NODES = 12
REACH = 10.0
"""Standard deviations covered; exp(-10²/2) = 2e-22."""

SHRINK = 0.5 * 4.0 ** -np.arange(5)
"""Edges of panels on an arc, as shares of its length from either end."""


class Factor(NamedTuple):
    """A function of one pre-activation: `value` on arrays, its `degree` if it is homogeneous, the `scale` at which it bends."""

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
    shares = np.unique(np.concatenate([[0.0], SHRINK, 1.0 - SHRINK, [1.0]]))
    edges = rays[:, None] + lengths[:, None] * shares
    nodes, weights = _panels(edges[:, :-1].ravel(), edges[:, 1:].ravel())
    return nodes, weights / (2 * pi)


def _radii(scale: float) -> tuple[Array, Array]:
    """Nodes r on [0, REACH] and weights that contain r·exp(-r²/2)."""
    count = int(np.ceil(REACH * max(2.0, scale)))
    edges = np.linspace(0.0, REACH, count + 1)
    r, weights = _panels(edges[:-1], edges[1:])
    return r, weights * r * np.exp(-0.5 * r * r)


def _panels(low: Array, high: Array) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(NODES)
    half = (high - low)[:, None] / 2
    return (low[:, None] + half * (1.0 + x)).ravel(), (half * w).ravel()


def _radial_moment(power: float) -> float:
    return float(2.0 ** (power / 2) * gamma(power / 2 + 1))
