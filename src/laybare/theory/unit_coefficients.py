"""Hermite coefficients of units with a threshold, u_l = E[u(g - t) h_l(g)], and of units that enter P with powers.

General degrees (appendix B.8): each unit acts like one of its own activation q_i ∘ u.

q_i(X) collects the monomials of P in X_i alone. Then E[f H_l(z)] ≈ Σ_i E[q_i(u(g - t)) h_l(g)] (z·w_i)^l: whitening and third
moments are unchanged as long as the coefficients of order 2 share a sign. For step units q_i∘u = (q_i(1) - q_i(0)) u.
Source: Goel and Panigrahy (2019), Lemmas 10 to 12 (how the coefficients fall with t; here exactly), appendix B.8, Assumption 4,
Lemmas 17 and 18.
"""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np

from laybare.activations import Activation
from laybare.activations.quadrature import expected_product
from laybare.networks.polynomials import Polynomial
from laybare.shapes import Array


def threshold_coefficient(activation: Activation, order: int, threshold: float) -> float:
    """u_l = E[act(g - t) h_l(g)], h_l normalised."""
    return float(activation.hermite(order, 1.0, -float(threshold))) / sqrt(factorial(order))


def composed_coefficients(top: Polynomial, activation: Activation, threshold: float, order: int) -> Array:
    """E[q_i(u(g - t)) h_l(g)] for every unit, (k,), h_l normalised."""
    width = top.exponents.shape[1]
    return np.array([_one(top.alone(unit), activation, threshold, order) for unit in range(width)])


def _one(q: Polynomial, activation: Activation, threshold: float, order: int) -> float:
    def value(t: Array) -> Array:
        return q(activation(t.ravel())[:, None]).reshape(t.shape)

    found = expected_product(value, order, np.ones(1), np.array([-float(threshold)]), activation.kinks)
    return float(found[0]) / sqrt(factorial(order))
