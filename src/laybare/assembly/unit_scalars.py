"""Readout, scale, bias and sign of single units whose directions are known up to sign, from their Hermite coefficients.

E[y He_k(x)]/√k! = Σᵢ z_kᵢ v_k(wᵢ) in the packed basis of `laybare.moments`, with z_kᵢ = aᵢ c_k(sᵢ, bᵢ)/√k!. One least-squares
problem per order gives z; it is determined if the wᵢ^⊗k are independent, which needs at most C(d+k-1, k) units.

RECOVERSCALARS and FIXSIGNS, for ReLU. Letters: w̃ᵢ = ξᵢwᵢ with unknown ξᵢ = ±1, b̃ᵢ = ξᵢbᵢ, φ and Φ the normal density and
distribution, He_j(z) Hermite polynomials, ζ_j the coefficient of w̃^⊗j in T_j = E[y He_j(x)]. For ReLU units
ζ_j = (-1)^j a φ(b) He_{j-2}(b̃), j ≥ 2: orders ≥ 2 never see ξ. Lemma 4.5: with β = a φ(b), γ_j = (-1)^j β He_j(b̃) = ζ_{j+2},
j = k, …, k+3, and q the one of k+1, k+2 with the larger |γ_q| (two neighbouring Hermite polynomials have no common root:
Lemma 4.3, whose bound is false as printed), the recurrence He_{q+1} = z He_q - q He_{q-1} gives, from k = 0 on,

    b̃ = -(γ_{q+1} + q γ_{q-1}) / γ_q,        β = (-1)^q γ_q / He_q(b̃),        a = β / φ(b̃).

For l = 1 two orders are enough: b̃ = -ζ₃/ζ₂, a = ζ₂/φ(b̃). Signs: order 1 is Σ aᵢ Φ(bᵢ) wᵢ = Σ zᵢ aᵢ w̃ᵢ with zᵢ = ξᵢ Φ(bᵢ), which
is Φ(b̃ᵢ) or Φ(b̃ᵢ) - 1. As printed the sign of z decides, with a margin of Φ(-|b|); deciding whether z is nearer to Φ(b̃) or to
Φ(b̃) - 1 has the margin 1/2 for every unit, and order 0 adds an equation.

A small nonlinear fit, for all activations. A unit a·act(s ξu·x + b) has, along u, the coefficients z_k = a ξ^k c_k(s, b)/√k!. For
given (ξ, s, b) the readout a is linear: with g_k = ξ^k c_k(s, b)/√k! and noise σ_k of order k, what a unit explains of z is

    gain(ξ, s, b) = Σ_outputs (Σ_k g_k z_k/σ_k²)² / Σ_k g_k²/σ_k².

The best point of a grid is the start of a least-squares fit in (log s, b). ReLU needs no scale; in orders ≥ 2 it does not see ξ.
The error in b is smaller than that of the ratios of Lemma 4.5, and there are no poles.
Source: Awasthi, Tang and Vijayaraghavan (2021), Lemmas 4.3 and 4.5, Claim 4.6, Algorithms 2 and 3, Lemmas D.10 and D.11; the
centred form of the signs and the nonlinear fit are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
import scipy.optimize
from scipy.special import eval_hermitenorm, ndtr

from laybare.activations import Activation, relu
from laybare.errors import InvalidInput
from laybare.moments import PackedMoments, veronese
from laybare.numerics.shapes import Array


def hermite_loadings(moments: PackedMoments, directions: Array, order: int) -> Array:
    """z of that order for unit rows `directions` (k, d): (k, outputs)."""
    solved: Array = np.linalg.lstsq(veronese(directions, order).T, moments.of(order).T, rcond=None)[0]
    return solved


def all_loadings(moments: PackedMoments, directions: Array, orders: Iterable[int]) -> Array:
    """The same for several orders, (orders, k, outputs)."""
    return np.stack([hermite_loadings(moments, directions, order) for order in orders])


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
    return scalars_by_recurrence([zeta[j] for j in orders], order - 2)


def scalars_by_recurrence(gammas: list[Array], first: int) -> Scalars:
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


BIASES = np.linspace(-2.5, 2.5, 41)
SCALES = np.geomspace(0.3, 4.0, 14)
"""The grid. Units beyond |b| = 2.5 leave next to nothing in orders ≥ 2 (φ(2.5) = 0.018)."""

REFINED_STARTS = 4
"""Grid points that are refined: for GELU the best may belong to another minimum. Checked by `pytest tests/assembly`."""


class UnitFits(NamedTuple):
    """Per unit: sign ξ, scale, bias, (k,) each; readout (k, outputs); `explained`, the share of |z/σ|² that the fit explains."""

    signs: Array
    scales: Array
    biases: Array
    readout: Array
    explained: Array


def fit_units(activation: Activation, loadings: Array, orders: Sequence[int], noise: Array) -> UnitFits:
    """The best (ξ, s, b, a) of every unit from `loadings` (orders, k, outputs) with noise (orders,) of each order."""
    grid = _grid(activation)
    z = loadings / noise[:, None, None]
    with np.errstate(over="ignore", invalid="ignore"):
        shapes = _shapes(activation, orders, *grid) / noise[:, None]
        gains = np.sum(np.einsum("jg,jko->kgo", shapes, z) ** 2, axis=2) / np.maximum(np.sum(shapes**2, axis=0), 1e-300)
    gains = np.where(np.isfinite(gains), gains, -np.inf)
    if np.isneginf(gains).all(axis=1).any():
        raise InvalidInput(
            f"The moments of {activation.name} overflow.", "Units of every size and bias on the grid leave the range of floats.",
            "Give another activation.")
    found = [
        _best_point(activation, orders, noise, z[:, i], [part[_starts(gains[i])] for part in grid]) for i in range(z.shape[1])]
    signs, scales, biases = (np.array([one[i] for one in found]) for i in range(3))
    g = _shapes(activation, orders, signs, scales, biases) / noise[:, None]
    pull = np.einsum("jk,jko->ko", g, z)
    readout = pull / np.maximum(np.sum(g**2, axis=0), 1e-300)[:, None]
    total = np.maximum(np.sum(z**2, axis=(0, 2)), 1e-300)
    return UnitFits(signs, scales, biases, readout, np.sum(pull * readout, axis=1) / total)


def _starts(gains: Array) -> Array:
    """The best bias of each sign and scale, the best of these."""
    rows = gains.reshape(-1, len(BIASES))
    best = np.argmax(rows, axis=1) + len(BIASES) * np.arange(len(rows))
    chosen: Array = best[np.argsort(-gains[best], kind="stable")[:REFINED_STARTS]]
    return chosen


def _grid(activation: Activation) -> tuple[Array, Array, Array]:
    """All (ξ, s, b): one scale if the activation is homogeneous, both signs unless turning a unit over is a symmetry."""
    symmetric = activation.centre is not None or activation.mirror is not None
    scales = SCALES if activation.degree is None else np.ones(1)
    signs, s, b = np.meshgrid([1.0] if symmetric else [1.0, -1.0], scales, BIASES, indexing="ij")
    return signs.ravel(), s.ravel(), b.ravel()


def _shapes(activation: Activation, orders: Sequence[int], signs: Array, scales: Array, biases: Array) -> Array:
    """g_k at many points: (orders, points)."""
    return np.stack([signs**k * activation.hermite(k, scales, biases) / sqrt(factorial(k)) for k in orders])


class _Point(NamedTuple):
    sign: float
    scale: float
    bias: float
    misfit: float


def _best_point(activation: Activation, orders: Sequence[int], noise: Array, z: Array, starts: list[Array]) -> _Point:
    """The best refined start; `z` (orders, outputs) is in units of its noise, `starts` are ξ, s, b."""
    points = [
        _refine_point(activation, orders, noise, z, _Point(float(sign), float(scale), float(bias), np.inf))
        for sign, scale, bias in zip(*starts, strict=True)]
    return min(points, key=lambda point: point.misfit)


def _refine_point(activation: Activation, orders: Sequence[int], noise: Array, z: Array, at: _Point) -> _Point:
    """Least squares in (b, log s), or in b alone, from a point of the grid."""
    free = activation.degree is None

    def misfit(point: Array) -> Array:
        s = np.exp(point[1:]) if free else np.ones(1)
        g = _shapes(activation, orders, np.array([at.sign]), s, point[:1])[:, 0] / noise
        return np.asarray(z - np.outer(g, g @ z) / max(float(g @ g), 1e-300)).ravel()

    low, high = BIASES[0] - 0.5, BIASES[-1] + 0.5
    start = [at.bias, np.log(at.scale)] if free else [at.bias]
    bounds = ([low, np.log(0.1)], [high, np.log(10.0)]) if free else ([low], [high])
    found = scipy.optimize.least_squares(misfit, start, bounds=bounds, xtol=1e-9, ftol=1e-12, gtol=1e-12, max_nfev=40)
    return _Point(at.sign, float(np.exp(found.x[1])) if free else 1.0, float(found.x[0]), float(found.cost))
