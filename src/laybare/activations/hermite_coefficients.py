"""Expectations of activations under normal laws: Hermite coefficients in closed form, everything else by quadrature.

Hermite coefficients c_k(s, b) = E[act(s·g + b) He_k(g)], g ~ N(0, 1), in closed form.

Derivation, once for all of them. Let m(b) = E[act(s·g + b)]. Stein's identity, k times, gives

    c_k = s^k m^(k)(b),          hence  ∂c_k/∂b = c_{k+1}/s.

So one needs m and its derivatives. With u = b/s and Φ^(j)(z) = (-1)^(j-1) He_{j-1}(z) φ(z) for j ≥ 1:

    (t)₊^p, p whole   c_k = s^p p!/(p-k)! M_{p-k}(u) for k ≤ p,  s^p p! Φ^(k-p)(u) for k > p,  M_q(u) = E[(g + u)₊^q]
    erf(t)            m = erf(b/√(1+2s²)) = 2Φ(b/r) - 1,  r² = s² + 1/2
    t Φ(t)  (GELU)    m = b F + s² F',  F = Φ(b/R),  R² = 1 + s²;  m^(k) = b F^(k) + k F^(k-1) + s² F^(k+1)
    exp(ρt)           c_k = (ρs)^k exp(ρb + ρ²s²/2)

(-t)₊^p follows from g → -g: a factor (-1)^k and -b for b. Every function takes vectors s > 0 and b of one length.
Sources: Awasthi, Tang & Vijayaraghavan (2021), Lemma 3.5 (ReLU); Goel & Panigrahy, section 3 (step, ReLU, exponential).
Powers, erf and GELU are derived here; all are tested against adaptive quadrature.

Gaussian expectations of piecewise smooth units, one or a pair: Gauss-Legendre on panels that never straddle a kink.

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

Properties 3.1-3.3, which local convergence proofs ask for. With z ~ N(0, 1), α_q = E[act'(s·z) z^q] and β_q = E[act'(s·z)² z^q]:

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
from functools import lru_cache, partial
from math import factorial, gamma, perm, pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy import special

from laybare.activations import values
from laybare.activations.values import normal_density
from laybare.numerics.levels import ROUNDING
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


VANISHING_COEFFICIENT = 1e-8
"""A Hermite coefficient below this is zero: its moment shows nothing of the weights. Checked by `pytest tests/moments`."""


def homogeneous(order: int, scale: Array, bias: Array, *, right: float, left: float, power: int) -> Array:
    """Coefficients of right·(t)₊^p + left·(-t)₊^p for a whole p ≥ 0."""
    u = bias / scale
    total = right * _positive_part(order, power, u)
    if left:
        total = total + left * (-1) ** order * _positive_part(order, power, -u)
    return scale**power * total


def fractional_power(order: int, scale: Array, bias: Array, *, power: float) -> Array:
    """Coefficients of (t)₊^p for real p: closed form at bias 0, quadrature elsewhere.

    At bias 0 it is s^p Γ(p+1) 2^((k-p)/2 - 1) / Γ((p-k)/2 + 1), of which the values h_0..h_4 of the powers' table are cases.
    """
    at_one = gamma(power + 1) * 2 ** ((order - power) / 2 - 1) * float(special.rgamma((power - order) / 2 + 1))
    value = partial(values.power, power=power)
    found: Array = np.where(bias == 0, scale**power * at_one, expected_product(value, order, scale, bias, (0.0,)))
    return found


def erf(order: int, scale: Array, bias: Array) -> Array:
    """Coefficients of erf(t) = 2/√π ∫₀ᵗ exp(-z²) dz."""
    if order == 0:
        mean: Array = special.erf(bias / np.sqrt(1 + 2 * scale * scale))
        return mean
    r = np.sqrt(scale * scale + 0.5)
    return 2 * (scale / r) ** order * _normal_derivative(order, bias / r)


def gelu(order: int, scale: Array, bias: Array) -> Array:
    """Coefficients of t Φ(t)."""
    spread = np.sqrt(1 + scale * scale)
    z, ratio = bias / spread, scale / spread
    total: Array = ratio**order * (bias * _normal_derivative(order, z) + scale * ratio * _normal_derivative(order + 1, z))
    if order > 0:
        total = total + order * scale * ratio ** (order - 1) * _normal_derivative(order - 1, z)
    return total


def exponential(order: int, scale: Array, bias: Array, *, rate: float) -> Array:
    """Coefficients of exp(ρt)."""
    slope = rate * scale
    with np.errstate(over="ignore"):
        found: Array = slope**order * np.exp(rate * bias + 0.5 * slope * slope)
    return found


def at_zero_bias(order: int, scale: Array, centre: float | None, mirror: float | None) -> Array | None:
    """The coefficient without bias if a symmetry gives it exactly, else None.

    act(t) + act(-t) = 2·centre fixes the even orders, act(t) - act(-t) = mirror·t the odd ones. Quadrature would return 1e-17
    where the truth is 0, and "is this moment zero?" is a question that methods ask.
    """
    if order % 2 == 0 and centre is not None:
        return np.full_like(scale, centre if order == 0 else 0.0)
    if order % 2 == 1 and mirror is not None:
        return scale * (mirror / 2 if order == 1 else 0.0)
    return None


def _positive_part(order: int, power: int, u: Array) -> Array:
    """E[(g + u)₊^p He_k(g)]."""
    if order > power:
        return factorial(power) * _normal_derivative(order - power, u)
    return perm(power, order) * _truncated_moment(power - order, u)


def _normal_derivative(order: int, z: Array) -> Array:
    """Φ^(j)(z), the j-th derivative of the normal distribution function; j = 0 is Φ itself."""
    if order == 0:
        cdf: Array = special.ndtr(z)
        return cdf
    near = np.clip(z, -values.UNDERFLOW_AT, values.UNDERFLOW_AT)
    derivative: Array = (-1) ** (order - 1) * special.eval_hermitenorm(order - 1, near) * values.normal_density(near)
    return derivative


def _truncated_moment(q: int, u: Array) -> Array:
    """M_q(u) = E[(g + u)₊^q], accurate relative to its own size on both sides.

    M_q = u M_{q-1} + (q-1) M_{q-2} adds only positive terms for u ≥ 0. For u < 0 it cancels, and
    M_q = q!/√(2π) exp(-u²/4) D_{-q-1}(-u) with the parabolic cylinder function D takes its place.
    """
    if q == 0:
        return _normal_derivative(0, u)
    above = np.maximum(u, 0.0)
    older, newer = special.ndtr(above), above * special.ndtr(above) + values.normal_density(above)
    for j in range(2, q + 1):
        older, newer = newer, above * newer + (j - 1) * older
    below = np.clip(u, -values.UNDERFLOW_AT, 0.0)
    tail = factorial(q) / sqrt(2 * pi) * np.exp(-below * below / 4) * special.pbdv(-q - 1.0, -below)[0]
    moment: Array = np.where(u < 0, tail, newer)
    return moment


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
