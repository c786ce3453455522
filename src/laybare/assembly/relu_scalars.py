"""Readouts, biases and signs of ReLU units whose directions are known up to sign: RECOVERSCALARS and FIXSIGNS.

Letters: w̃ᵢ = ξᵢwᵢ with unknown ξᵢ = ±1, b̃ᵢ = ξᵢbᵢ, φ and Φ the normal density and distribution, He_j(z) Hermite polynomials,
ζ_j the coefficient of w̃^⊗j in T_j = E[y He_j(x)]. For ReLU units ζ_j = (-1)^j a φ(b) He_{j-2}(b̃), j ≥ 2: orders ≥ 2 never see ξ.

Lemma 4.5. With β = a φ(b), γ_j = (-1)^j β He_j(b̃) = ζ_{j+2}, j = k, …, k+3, and q the one of k+1, k+2 with the larger |γ_q|
(two neighbouring Hermite polynomials have no common root: Lemma 4.3, whose bound is false as printed), the recurrence
He_{q+1} = z He_q - q He_{q-1} gives

    b̃ = -(γ_{q+1} + q γ_{q-1}) / γ_q,        β = (-1)^q γ_q / He_q(b̃),        a = β / φ(b̃).

It holds from k = 0 on. For l = 1 two orders are enough: b̃ = -ζ₃/ζ₂, a = ζ₂/φ(b̃).

Signs: order 1 is Σ aᵢ Φ(bᵢ) wᵢ = Σ zᵢ aᵢ w̃ᵢ with zᵢ = ξᵢ Φ(bᵢ), which is Φ(b̃ᵢ) or Φ(b̃ᵢ) - 1. As printed the sign of z decides,
with a margin of Φ(-|b|); deciding whether z is nearer to Φ(b̃) or to Φ(b̃) - 1 has the margin 1/2 for every unit, and order 0 adds
an equation.
Source: Awasthi, Tang and Vijayaraghavan (2021), Lemmas 4.3 and 4.5, Claim 4.6, Algorithms 2 and 3, Lemmas D.10
and D.11; the centred form is ours.
"""

from __future__ import annotations

from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import eval_hermitenorm, ndtr

from laybare.activations import relu
from laybare.assembly.loadings import hermite_loadings
from laybare.moments import PackedMoments
from laybare.shapes import Array


class Scalars(NamedTuple):
    """Readout and bias of every unit, (k,) each; the bias belongs to the direction as it was given."""

    readout: Array
    biases: Array


def recover_scalars(moments: PackedMoments, directions: Array, order: int) -> Scalars:
    """Algorithm 2, from the moments l, …, l+3 of one output (l = 1: from 2 and 3); `directions` (k, d) are unit rows."""
    orders = (2, 3) if order == 1 else range(order, order + 4)
    zeta = {j: sqrt(factorial(j)) * hermite_loadings(moments, directions, j)[:, 0] for j in orders}
    if order == 1:
        biases = -zeta[3] / _not_zero(zeta[2])
        return Scalars(zeta[2] / _density(biases), biases)
    return by_recurrence([zeta[j] for j in orders], order - 2)


def by_recurrence(gammas: list[Array], first: int) -> Scalars:
    """Lemma 4.5: (a, b̃) from γ_j = (-1)^j a φ(b) He_j(b̃), j = first, …, first + 3."""
    nearer, farther = gammas[1], gammas[2]
    lower = np.abs(nearer) >= np.abs(farther)
    q = np.where(lower, first + 1, first + 2)
    below, at, above = (np.where(lower, gammas[i], gammas[i + 1]) for i in range(3))
    biases = -(above + q * below) / _not_zero(at)
    beta = (-1.0) ** q * at / _not_zero(eval_hermitenorm(q, biases))
    return Scalars(beta / _density(biases), biases)


def fix_signs(moments: PackedMoments, directions: Array, scalars: Scalars, *, centred: bool = True) -> Array:
    """Algorithm 3: ξ (k,) with wᵢ = ξᵢ·directionsᵢ. As printed (`centred` False), or with the larger margin and order 0."""
    a, b = scalars
    system, right = (a[:, None] * directions).T, moments.of(1)[0]
    if not centred:
        z = np.linalg.lstsq(system, right, rcond=None)[0]
        return np.where(z < 0, -1.0, 1.0)
    system = np.vstack([system, a * b])
    if_right = np.append((a * ndtr(b)) @ directions, a @ relu.hermite(0, bias=b))
    turned = np.linalg.lstsq(system, if_right - np.append(right, moments.of(0)[0]), rcond=None)[0]
    return np.where(turned > 0.5, -1.0, 1.0)


def _density(z: Array) -> Array:
    """φ(z), not below 1e-150: a noisy bias of 30 must not divide by zero."""
    return np.asarray(np.maximum(np.exp(-0.5 * np.minimum(np.abs(z), 26.0) ** 2), 1e-150) / sqrt(2.0 * np.pi))


def _not_zero(values: Array) -> Array:
    return np.where(np.abs(values) > 1e-300, values, 1e-300)
