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
