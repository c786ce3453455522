"""Values and derivatives (slope, curvature) of the built-in activations, elementwise on float arrays, in the precision of these.

Each is written so that no intermediate overflows, however large |t| is. Where the result itself passes the largest float it is
inf, quietly: a warning in the middle of a pass over the data could not name the row. At a kink the derivative is that of the
left piece (relu'(0) = 0), except sign(0) = 0 for the absolute value.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
from scipy import special

from laybare.numerics.shapes import Array

UNDERFLOW_AT = 40.0
"""|t| at which arguments are clipped, lest t² overflow. Derived: exp(-t²/2) and exp(-t²) are exactly zero from there on."""


def normal_density(t: Array) -> Array:
    """φ(t) = exp(-t²/2)/√(2π)."""
    near = np.clip(t, -UNDERFLOW_AT, UNDERFLOW_AT)
    density: Array = np.exp(-0.5 * near * near) / sqrt(2 * pi)
    return density


def relu(t: Array) -> Array:
    return np.maximum(t, 0.0)


def relu_slope(t: Array) -> Array:
    return (t > 0).astype(t.dtype)


def leaky(t: Array, *, slope: float) -> Array:
    return np.where(t > 0, t, slope * t)


def leaky_slope(t: Array, *, slope: float) -> Array:
    slopes: Array = np.where(t > 0, t.dtype.type(1.0), t.dtype.type(slope))
    return slopes


def flat(t: Array) -> Array:
    """The second derivative of everything piecewise linear."""
    return np.zeros_like(t)


def power(t: Array, *, power: float) -> Array:
    return _power(np.maximum(t, 0.0), power)


def power_slope(t: Array, *, power: float) -> Array:
    return power * _power(np.maximum(t, 0.0), power - 1)


def power_curvature(t: Array, *, power: float) -> Array:
    positive = t > 0
    with np.errstate(over="ignore"):
        curvature: Array = power * (power - 1) * np.where(positive, np.power(np.where(positive, t, 1.0), power - 2), 0.0)
    return curvature


def absolute(t: Array) -> Array:
    return np.abs(t)


def absolute_slope(t: Array) -> Array:
    return np.sign(t)


def sigmoid(t: Array) -> Array:
    value: Array = special.expit(t)
    return value


def sigmoid_slope(t: Array) -> Array:
    """e/(1 + e)² with e = exp(-|t|): no cancellation, where expit·(1 - expit) loses all digits for large t."""
    e = np.exp(-np.abs(t))
    slope: Array = e / (1 + e) ** 2
    return slope


def sigmoid_curvature(t: Array) -> Array:
    """sigmoid'·(1 - 2 sigmoid), the second factor as -tanh(t/2)."""
    return -sigmoid_slope(t) * np.tanh(t / 2)


def tanh(t: Array) -> Array:
    return np.tanh(t)


def tanh_slope(t: Array) -> Array:
    """1/cosh²(t), as 4 sigmoid'(2t)."""
    return 4 * sigmoid_slope(2 * t)


def tanh_curvature(t: Array) -> Array:
    return -2 * np.tanh(t) * tanh_slope(t)


def erf(t: Array) -> Array:
    value: Array = special.erf(t)
    return value


def erf_slope(t: Array) -> Array:
    near = np.clip(t, -UNDERFLOW_AT, UNDERFLOW_AT)
    slope: Array = 2 / sqrt(pi) * np.exp(-near * near)
    return slope


def erf_curvature(t: Array) -> Array:
    return -2 * np.clip(t, -UNDERFLOW_AT, UNDERFLOW_AT) * erf_slope(t)


def softplus(t: Array) -> Array:
    """log(1 + exp t) = t₊ + log(1 + exp(-|t|))."""
    return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))


def gelu(t: Array) -> Array:
    value: Array = t * special.ndtr(t)
    return value


def gelu_slope(t: Array) -> Array:
    slope: Array = special.ndtr(t) + t * normal_density(t)
    return slope


def gelu_curvature(t: Array) -> Array:
    near = np.clip(t, -UNDERFLOW_AT, UNDERFLOW_AT)
    curvature: Array = normal_density(t) * (2 - near * near)
    return curvature


def step(t: Array) -> Array:
    return (t > 0).astype(t.dtype)


def step_slope(t: Array) -> Array:
    return np.zeros_like(t)


def exponential(t: Array, *, rate: float) -> Array:
    with np.errstate(over="ignore"):
        return np.exp(rate * t)


def exponential_slope(t: Array, *, rate: float) -> Array:
    return rate * exponential(t, rate=rate)


def exponential_curvature(t: Array, *, rate: float) -> Array:
    return rate * rate * exponential(t, rate=rate)


def _power(base: Array, exponent: float) -> Array:
    """base**exponent for base ≥ 0; small whole exponents by multiplication, which is several times faster than pow."""
    with np.errstate(over="ignore"):
        if exponent not in (1, 2, 3, 4):
            return np.power(base, exponent)
        raised = base
        for _ in range(int(exponent) - 1):
            raised = raised * base
        return raised
