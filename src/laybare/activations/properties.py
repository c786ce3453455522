"""Properties 3.1-3.3 of an activation, which local convergence proofs ask for.

With z ~ N(0, 1), α_q = E[act'(s·z) z^q] and β_q = E[act'(s·z)² z^q]:

    3.1  0 ≤ act'(z) ≤ L₁|z|^p for all z. (The paper says p > 0; ReLU and sigmoid need p = 0, and its proofs allow it.)
         This p is the growth of the derivative, one less than the degree of homogeneity: 0 for ReLU, 1 for squared ReLU.
    3.2  ρ(s) = min{β₀ - α₀² - α₁², β₂ - α₁² - α₂², α₀α₂ - α₁²} > 0. Linear and quadratic units have ρ ≤ 0, and
         their weights are not identifiable. The converse is false: the absolute value has ρ < 0.
    3.3  |act''| ≤ L₂ everywhere, or act'' = 0 except at finitely many points.

The first two terms of 3.2 are what is left of act'(s·z) and z·act'(s·z) after projection on span{1, z}. They are computed as
such, E[(act' - α₀ - α₁z)²] and E[(z·act' - α₁ - α₂z)²], because the differences cancel: ρ of a sigmoid falls like s⁴.

3.2 is an integral, exact to rounding. 3.1 and 3.3 follow from the degree if there is one; otherwise the bounds are the largest
values on a grid over |z| ≤ 500, and "bounded" means that the part beyond 100, or within 1e-3 of a kink, adds less than 1 %.
Source: Zhong, Song, Jain, Bartlett & Dhillon (2017), Properties 3.1-3.3; Theorem 3.5 says which activations have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.activations.hermite_coefficients import gaussian_nodes
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array


@dataclass(frozen=True)
class Properties:
    """What was found at one `scale` (the norm of a hidden unit's weights). Bounds are None where there is none."""

    scale: float
    terms: tuple[float, float, float]
    """The three terms of 3.2, in the order of the paper."""
    nonnegative_slope: bool
    slope_growth: float | None
    """p of 3.1."""
    slope_bound: float | None
    """L₁ of 3.1."""
    curvature_bound: float | None
    """L₂ of 3.3; 0 for piecewise linear activations."""
    piecewise_linear: bool
    floor: float
    """Below this a term of 3.2 is rounding."""

    @property
    def rho(self) -> float:
        """ρ(scale), the smallest of the three terms."""
        return min(self.terms)

    @property
    def monotone(self) -> bool:
        """Property 3.1: a nonnegative derivative that grows like a power at most."""
        return self.nonnegative_slope and self.slope_bound is not None

    @property
    def positive_rho(self) -> bool:
        """Property 3.2: ρ(scale) > 0, beyond rounding."""
        return self.rho > self.floor

    @property
    def smooth(self) -> bool:
        """Property 3.3: bounded second derivative, or piecewise linear."""
        return self.piecewise_linear or self.curvature_bound is not None

    @property
    def all_hold(self) -> bool:
        """All three."""
        return self.monotone and self.positive_rho and self.smooth


def measure(slope: Callable[[Array], Array], kinks: tuple[float, ...], degree: float | None, scale: float) -> Properties:
    """Properties of the activation with this derivative, these kinks and this degree of homogeneity."""
    terms, floor = _terms(slope, kinks, scale)
    grid = _grid(kinks)
    with np.errstate(all="ignore"):  # an unbounded derivative may overflow, which is what we look for
        seen = slope(grid.z)
        curvatures = _curvature(slope, grid)
        growth, bound = _slope_bound(seen, slope, grid, degree)
        curvature = _curvature_bound(curvatures, slope, grid, kinks, degree)
    linear = degree in (0, 1) or not curvatures.any()
    return Properties(scale, terms, bool((seen >= 0).all()), growth, bound, 0.0 if linear else curvature, linear, floor)


def _terms(slope: Callable[[Array], Array], kinks: tuple[float, ...], scale: float) -> tuple[tuple[float, float, float], float]:
    z, weights = (part[0] for part in gaussian_nodes(np.array([scale]), np.zeros(1), kinks))
    d = slope(scale * z)
    a0, a1, a2 = (float(weights @ (d * z**q)) for q in range(3))
    first = float(weights @ (d - a0 - a1 * z) ** 2)
    second = float(weights @ (z * d - a1 - a2 * z) ** 2)
    return (first, second, a0 * a2 - a1 * a1), ROUNDING**2 * float(weights @ (d * d * (1 + z * z)))


@dataclass(frozen=True)
class _Grid:
    z: Array
    distance: Array
    """To the nearest kink (to infinity, if there is none)."""
    inner: Array
    """Which points a bound is first read from; the others only tell whether it keeps growing."""


def _grid(kinks: tuple[float, ...]) -> _Grid:
    """Points that are dense around 0, reach to ±500 and approach every kink to 1e-6 from both sides, never touching it."""
    ray = np.concatenate([np.arange(0.005, 10, 0.01), np.geomspace(10, 500, 200)])
    near = [kink + side * np.geomspace(1e-6, 1e-2, 40) for kink in kinks for side in (-1, 1)]
    z = np.sort(np.concatenate([-ray, [] if 0.0 in kinks else [0.0], ray, *near]))
    distance = np.min([np.abs(z - kink) for kink in kinks], axis=0) if kinks else np.full(z.shape, np.inf)
    keep = distance > 1e-7
    z, distance = z[keep], distance[keep]
    return _Grid(z, distance, (np.abs(z) <= 100) & (distance >= 1e-3))


def _curvature(slope: Callable[[Array], Array], grid: _Grid) -> Array:
    """|act''| by central differences that stay on one side of every kink; what rounding can make up counts as zero."""
    h = np.minimum(1e-4, grid.distance / 4)
    above, below = slope(grid.z + h), slope(grid.z - h)
    curvatures = np.abs(above - below) / (2 * h)
    return np.where(np.abs(above - below) <= 1e-13 * (np.abs(above) + np.abs(below)), 0.0, curvatures)


def _slope_bound(
    seen: Array, slope: Callable[[Array], Array], grid: _Grid, degree: float | None
) -> tuple[float | None, float | None]:
    """(p, L₁) of Property 3.1, or (None, None)."""
    if degree is None:
        bound = _bound_if_any(np.abs(seen), grid)
        return (None, None) if bound is None else (0.0, bound)
    if 0 < degree < 1:  # the derivative is infinite at 0
        return None, None
    return max(degree - 1, 0.0), _unit_slope(slope)


def _curvature_bound(
    curvatures: Array, slope: Callable[[Array], Array], grid: _Grid, kinks: tuple[float, ...], degree: float | None
) -> float | None:
    """L₂ of Property 3.3, or None; a jump of the derivative shows as a huge difference quotient across the kink."""
    if degree is not None:
        return _unit_slope(slope) if degree == 2 else None
    bound, here = _bound_if_any(curvatures, grid), np.array(kinks)
    across = np.abs(slope(here + 1e-6) - slope(here - 1e-6)) / 2e-6
    return None if bound is None or (across > 1.01 * bound).any() else bound


def _unit_slope(slope: Callable[[Array], Array]) -> float:
    return float(np.max(np.abs(slope(np.array([-1.0, 1.0])))))


def _bound_if_any(size: Array, grid: _Grid) -> float | None:
    """The largest size, unless it keeps growing outwards or towards a kink."""
    top, inner = float(np.max(size)), float(np.max(size[grid.inner]))
    return top if top <= 1.01 * inner else None  # NaN compares false, as it should
