"""Hermite coefficients c_k(s, b) = E[act(s·g + b) He_k(g)], g ~ N(0, 1), in closed form.

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
"""

from __future__ import annotations

from functools import partial
from math import factorial, gamma, perm, pi, sqrt

import numpy as np
from scipy import special

from laybare.activations import values
from laybare.activations.quadrature import expected_product
from laybare.numerics.shapes import Array

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
