"""Readout, scale, bias and sign of units whose directions are known up to sign, and how many units the moments show.

Single units from their Hermite coefficients. E[y He_k(x)]/√k! = Σᵢ z_kᵢ v_k(wᵢ) in the packed basis of `laybare.moments`, with
z_kᵢ = aᵢ c_k(sᵢ, bᵢ)/√k!. One least-squares problem per order gives z; it is determined if the wᵢ^⊗k are independent, which needs
at most C(d+k-1, k) units.

RECOVERSCALARS and FIXSIGNS, for ReLU. Letters: w̃ᵢ = ξᵢwᵢ with unknown ξᵢ = ±1, b̃ᵢ = ξᵢbᵢ, φ and Φ the normal density and
distribution, He_j(z) Hermite polynomials, ζ_j the coefficient of w̃^⊗j in T_j = E[y He_j(x)]. For ReLU units ζ_j = (-1)^j a φ(b)
He_{j-2}(b̃), j ≥ 2: orders ≥ 2 never see ξ. Lemma 4.5: with β = a φ(b), γ_j = (-1)^j β He_j(b̃) = ζ_{j+2}, j = k, …, k+3, and q
the one of k+1, k+2 with the larger |γ_q| (two neighbouring Hermite polynomials have no common root: Lemma 4.3, whose bound is
false as printed), the recurrence He_{q+1} = z He_q - q He_{q-1} gives, from k = 0 on,

    b̃ = -(γ_{q+1} + q γ_{q-1}) / γ_q,        β = (-1)^q γ_q / He_q(b̃),        a = β / φ(b̃).

For l = 1 two orders are enough: b̃ = -ζ₃/ζ₂, a = ζ₂/φ(b̃). Signs: order 1 is Σ aᵢ Φ(bᵢ) wᵢ = Σ zᵢ aᵢ w̃ᵢ with zᵢ = ξᵢ Φ(bᵢ),
which is Φ(b̃ᵢ) or Φ(b̃ᵢ) - 1. As printed the sign of z decides, with a margin of Φ(-|b|); deciding whether z is nearer to Φ(b̃)
or to Φ(b̃) - 1 has the margin 1/2 for every unit, and order 0 adds an equation.

A small nonlinear fit, for all activations. A unit a·act(s ξu·x + b) has, along u, the coefficients z_k = a ξ^k c_k(s, b)/√k!. For
given (ξ, s, b) the readout a is linear: with g_k = ξ^k c_k(s, b)/√k! and noise σ_k of order k, what a unit explains of z is

    gain(ξ, s, b) = Σ_outputs (Σ_k g_k z_k/σ_k²)² / Σ_k g_k²/σ_k².

The best point of a grid is the start of a least-squares fit in (log s, b). ReLU needs no scale; in orders ≥ 2 it does not see ξ.
The error in b is smaller than that of the ratios of Lemma 4.5, and there are no poles.
Source: Awasthi, Tang and Vijayaraghavan (2021), Lemmas 4.3 and 4.5, Claim 4.6, Algorithms 2 and 3, Lemmas D.10 and D.11; the
centred form of the signs and the nonlinear fit are ours.

All units together, the step after a decomposition. Letters: U (k, r) unit rows, each ±w̄ᵢ in the coordinates of a subspace; G = U
Uᵀ; M_j the moment E[y He_j(z)]; c_j(s) = E[act(s·g) He_j(g)]; A (k, m) the readout; ξᵢ = ±1 the sign with w̄ᵢ = ξᵢuᵢ. As M_j = Σᵢ
Aᵢ c_j(sᵢ) w̄ᵢ^⊗j, even orders give Aᵢ and odd orders ξᵢAᵢ. Least squares over orders of one parity in the norm where E f² = Σ_j
|M_j|²/j!:

    (Σ_j c_j²/j! G^∘j) a = Σ_j c_j/j! M_j(uᵢ, …, uᵢ)                            G^∘j: elementwise power

Homogeneous activations of degree p have c_j(s) = s^p c_j(1): s is part of A. For odd ones only odd orders count, and (ξ, A) and
(-ξ, -A) are the same unit; for even ones only even orders, and ξ is free. Of other activations the ratio of two orders gives s:
c₃/c₁ if the activation is odd up to a constant, c₄/c₂ if it is even up to a linear part, else c₂/c₁. For tanh, erf, sigmoid and
softplus the ratio falls from 0 to -1 as s grows; for GELU it does so up to s = 2.3 only, and smaller norms are assumed.
Source: Zhong et al. (2017), Algorithm 1, RecMagSign, which the paper leaves out; derived here.

How many units do the moments show? Eigenvalues of a second moment are held against their own noise. Inside a span V that is wide
enough, a polynomial fit explains most of y; what it leaves, e, is small. V C Vᵀ + M₂(e), with C the fitted quadratic
coefficients, therefore estimates M₂ far better than the average does, and the half-difference of M₂(e) over two halves of the
samples is its noise. One eigenvalue per unit stands out. M₃(I, I, a), a in V, takes the place of M₂ for activations that are odd
up to a constant. The count needs independent weight vectors, and units strong enough to be seen.

The signs of the eigenvalues of M₂ count the units of each sign (Sylvester's law of inertia): M₂ = Σᵢ vᵢ c₂(|wᵢ|) w̄ᵢw̄ᵢᵀ with
independent w̄ᵢ has as many positive eigenvalues as there are vᵢ c₂ > 0. So Σ sign vᵢ is known before any tensor is decomposed.
Source: the printed method is given the width; counting is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
import scipy.optimize
from scipy.special import eval_hermitenorm, ndtr

from laybare import moments
from laybare.activations import Activation, relu
from laybare.activations.hermite_coefficients import VANISHING_COEFFICIENT
from laybare.decomposition import RankEstimate, detect_rank
from laybare.errors import InvalidInput, NotSeparated, Unidentifiable
from laybare.moments import PackedMoments, veronese
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.source import Source

FIRST_SPAN_WIDTH = 8
"""Width of the first span, which doubles until noise directions show in it. Checked by `pytest tests/assembly`."""


def count_units(source: Source, activation: Activation, second: int) -> RankEstimate:
    """The number of units that the moment of order `second` (2 or 3) shows, exact or as a lower bound; `source` is white."""
    width = min(FIRST_SPAN_WIDTH, source.dim)
    while True:
        estimate = detect_rank(*_spectrum(source, activation, second, width))
        if estimate.at_least < width or width == source.dim:
            return estimate
        width = min(2 * width, source.dim)


class Inertia(NamedTuple):
    """Units with a positive and with a negative readout that the second moment shows beyond its noise."""

    positive: int
    negative: int


def inertia(source: Source, activation: Activation, basis: Array) -> Inertia:
    """Signs of the readouts from M₂ in the span `basis` (dim, width) of the weights: lower bounds, `source` white, one output.

    Refused for activations without a second moment (odd up to a constant: there a sign is a matter of convention), and for
    several outputs, where a unit has no single sign.
    """
    level = float(activation.hermite(2))
    if source.outputs > 1 or abs(level) < VANISHING_COEFFICIENT:
        raise Unidentifiable(
            f"{activation.name} has Hermite coefficient {level:.1e} at order 2, and there are {source.outputs} outputs.",
            "The second moment shows the signs of readouts only if it does not vanish, and of one output at a time.",
            "Compare the networks themselves.", activation=activation.name, outputs=source.outputs)
    value, noise = _measure_moment(source, 2, basis)
    eigenvalues = np.linalg.eigvalsh(value[0])
    clear = detect_rank(eigenvalues, np.linalg.eigvalsh(noise[0])).at_least
    kept = eigenvalues[np.argsort(-np.abs(eigenvalues))[:clear]] * level
    return Inertia(int(np.sum(kept > 0)), int(np.sum(kept < 0)))


def _spectrum(source: Source, activation: Activation, second: int, width: int) -> tuple[Array, Array]:
    """Singular values of the moment in all dimensions, and of its noise."""
    value, noise = _measure_moment(source, second, moments.refine_subspace(source, width, activation, order=2).basis)
    return _singular_values(value), _singular_values(noise)


def _measure_moment(source: Source, second: int, basis: Array) -> tuple[Array, Array]:
    """M₂, or M₃(I, I, a) for the columns a of `basis`, and its noise, of every output: (matrices, dim, dim)."""
    width = basis.shape[1]
    fit = moments.fit_hermite(source, moments.affordable_degree(source.size, width, 3, samples_per_coefficient=4.0), basis)
    explained = fit.moments.up_to(max(second, fit.moments.order)).tensor(second).reshape(-1, width, width)
    moment = moments.SecondMoment() if second == 2 else moments.ThirdSlices(basis.T)
    rest = moments.measure_with_noise(moments.Residual(source, fit), moment, stage="width")
    shape = (-1, source.dim, source.dim)
    return basis @ explained @ basis.T + rest.value.reshape(shape), rest.noise.reshape(shape)


def _singular_values(matrices: Array) -> Array:
    return np.asarray(np.linalg.svd(np.concatenate(list(matrices), axis=1), compute_uv=False))


def starting_width(source: Source, seen: RankEstimate, *, searched: bool) -> int:
    """The width that the moments show. A lower bound will do if a search goes on from there."""
    if not searched and seen.exact is None:
        raise NotSeparated(
            f"The moments of {source.size:,} samples do not tell the width. {seen.explanation}",
            "Without the solver nothing else decides it.", "Give the width, more samples, or a search.",
            at_least=seen.at_least)
    return max(1, seen.at_least)


RATIO_SCALES = np.geomspace(0.05, 5.0, 30)
"""Norms of weight vectors that are looked for: beyond them activations are so close to a line, or a step, that noise decides."""


def rec_mag_sign(
    moments: PackedMoments, directions: Array, activation: Activation, orders: tuple[int, ...] = (1, 2, 3, 4)
) -> Network:
    """The network without biases whose units lie along ± `directions` (k, r), from moments in the same coordinates.

    `orders` says which moments are asked, as far as `moments` reaches. Units of a homogeneous activation come with |w| = 1 and
    offset 0, others with their norms and an offset.
    """
    asked = tuple(j for j in orders if 1 <= j <= moments.order)
    vector = moments.outputs == 1
    if activation.degree is None:
        rows, readout = _units_with_norms(moments, directions, activation)
        norms = np.linalg.norm(rows, axis=1)
        offset = moments.of(0)[:, 0] - activation.hermite(0, norms) @ readout
    else:
        rows, readout = _homogeneous_units(moments, directions, activation, asked)
        offset = np.zeros(moments.outputs)
    layer = Layer(rows, None, activation)
    return Network(layer, readout[:, 0], float(offset[0])) if vector else Network(layer, readout, offset)


def with_unit_readout(network: Network) -> Network:
    """The same function with readout ±1: a·act(w·x) = sign(a)·act(|a|^(1/p) w·x) for degree p > 0 and one output.

    This is the form that Zhong et al. (2017) assume without loss of generality.
    """
    degree = network.activation.degree
    if not degree or network.readout.ndim != 1:
        raise InvalidInput(
            f"{network.activation.name} has degree {degree}, the network {network.outputs} outputs.",
            "Only a homogeneous unit with one output can take up the size of its readout.", "Leave the readout as it is.",
            degree=degree, outputs=network.outputs)
    factor = np.abs(network.columns[0][:, 0]) ** (1.0 / degree)
    layer = Layer(factor[:, None] * network.layer.weights, factor * np.asarray(network.layer.biases), network.activation)
    return Network(layer, np.where(network.readout < 0, -1.0, 1.0), network.offset, network.linear)


class _Units(NamedTuple):
    rows: Array
    readout: Array


def _homogeneous_units(moments: PackedMoments, U: Array, activation: Activation, asked: tuple[int, ...]) -> _Units:
    shown = {j: c for j in asked if abs(c := float(activation.hermite(j))) > VANISHING_COEFFICIENT}
    if not shown:
        raise Unidentifiable(
            f"{activation.name} has no Hermite coefficient of the orders {', '.join(map(str, asked))}.",
            "Its moments show neither signs nor magnitudes.", "Ask for other orders.", activation=activation.name, orders=asked)
    parts = [{j: c for j, c in shown.items() if j % 2 == parity} for parity in (0, 1)]
    even, odd = (_fit_loadings(moments, U, part) if part else None for part in parts)
    if odd is None or even is None:
        return _Units(U, even) if even is not None else _with_positive_readout(U, np.asarray(odd))
    sign = _signs(np.sum(odd * even, axis=1))
    return _Units(sign * U, (sign * odd + even) / 2)


def _units_with_norms(moments: PackedMoments, U: Array, activation: Activation) -> _Units:
    """Norms from the ratio of two orders, then the readout."""
    low, high = norm_orders(activation)
    if moments.order < high:
        raise InvalidInput(
            f"Moments reach order {moments.order}.",
            f"The norms of {activation.name} units show in the ratio of orders {low} and {high}.",
            f"Measure moments up to order {high}.", order=moments.order, needed=high)
    first, second = (_fit_loadings(moments, U, {j: 1.0}) for j in (low, high))
    ratios = np.sum(first * second, axis=1) / np.maximum(np.sum(first * first, axis=1), np.finfo(float).tiny)
    sign = np.ones((len(U), 1))
    if activation.centre is None and activation.parity is None:
        even, odd = (_fit_loadings(moments, U, {j: float(activation.hermite(j))}) for j in (2, 1))
        sign = _signs(np.sum(odd * even, axis=1))
    turned = sign[:, 0] ** (high - low)
    norms = np.array([_norm_from_ratio(activation, float(ratio), low, high) for ratio in turned * ratios])
    readout = sign**low * first / activation.hermite(low, norms)[:, None]
    units = _Units(sign * U, readout) if activation.centre is None else _with_positive_readout(U, readout)
    return _Units(norms[:, None] * units.rows, units.readout)


def norm_orders(activation: Activation) -> tuple[int, int]:
    """Two orders whose ratio tells the norm of a unit's weights, if the activation is not homogeneous."""
    if activation.centre is not None:
        return 1, 3
    return (1, 2) if activation.mirror is None else (2, 4)


def _norm_from_ratio(activation: Activation, ratio: float, low: int, high: int) -> float:
    """The smallest s with c_high(s)/c_low(s) = ratio, or the s that comes closest: noise may take the ratio out of its range."""
    from scipy.optimize import brentq  # slow to import

    def gap(scale: Array | float) -> Array:
        return np.asarray(activation.hermite(high, scale) / activation.hermite(low, scale) - ratio)

    gaps = gap(RATIO_SCALES)
    crossings = np.flatnonzero(gaps[:-1] * gaps[1:] <= 0)
    if not len(crossings):
        return float(RATIO_SCALES[np.argmin(np.abs(gaps))])
    return float(brentq(gap, *RATIO_SCALES[crossings[0] : crossings[0] + 2], xtol=1e-15, rtol=1e-14))


def _fit_loadings(moments: PackedMoments, U: Array, coefficients: dict[int, float]) -> Array:
    """a (k, m) by least squares over the orders that have `coefficients`; M_j(u, …, u) = √j! packed moment · veronese(u)."""
    G = U @ U.T
    gram = sum((c**2 / factorial(j) * G**j for j, c in coefficients.items()), np.zeros_like(G))
    right = sum(
        (c / sqrt(factorial(j)) * veronese(U, j) @ moments.of(j).T for j, c in coefficients.items()),
        np.zeros((len(U), moments.outputs)))
    return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0])


def _with_positive_readout(rows: Array, readout: Array) -> _Units:
    """Of (w, a) and (-w, -a), which are the same unit, the one whose largest readout is positive."""
    largest = np.take_along_axis(readout, np.argmax(np.abs(readout), axis=1)[:, None], axis=1)[:, 0]
    sign = _signs(largest)
    return _Units(sign * rows, sign * readout)


def _signs(values: Array) -> Array:
    """±1 as a column; 1 for zero."""
    return np.where(values < 0, -1.0, 1.0)[:, None]


def hermite_loadings(moments: PackedMoments, directions: Array, order: int) -> Array:
    """z of that order for unit rows `directions` (k, d): (k, outputs)."""
    return np.asarray(np.linalg.lstsq(veronese(directions, order).T, moments.of(order).T, rcond=None)[0])


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
    return np.asarray(best[np.argsort(-gains[best], kind="stable")[:REFINED_STARTS]])


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
