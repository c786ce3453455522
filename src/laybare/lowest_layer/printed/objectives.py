"""The printed objectives on the fourth moment, in the span of the units: one unit at a time, or all at once.

Pieces. For z of any length, s = z·x, N = |z|²:

    H₂(z) = (s² - N)/√2,      H₄(z) = (s⁴ - 6N s² + 3N²)/√24,      E[u(a·x - t) H_l(z)] = u_l (a·z)^l  for |a| = 1,

with u_l = E[u(g - t) h_l(g)]. So E[f H_l(z)] = u_l Σ cᵢ (z·wᵢ)^l up to the rare products of units.

Span. E[f H_l(z)] does not depend on the part of z outside of the span of the weights. With samples it does: the noise of the
fourth moment grows like |z|⁴ there, and the objective falls without end. The span is that of the leading eigenvectors of
E[f (xxᵀ - I)] = √2 u₂ Σ c_i w_i w_iᵀ; inside it the inputs are white, and there are as many units as inputs, as in the paper.

One unit at a time: local minima of a quartic with a quadratic constraint as penalty.

    G(z) = -sgn(u₄) E[f H₄(z)] + λ (E[f H₂(z)] - u₂)²

In the population, for f without products, its minima are z = ±aᵢ · column i of (TW)⁻¹, T = diag(√cᵢ), with
aᵢ = (1 - |u₄|/(λ u₂² cᵢ))^(-½). So λ must exceed |u₄|/(u₂² min cᵢ): below it G is unbounded (the printed λ = Θ(|u₄|/u₂²) hides
that). Minima are orthogonal to each other in the metric of M₂, so the next one is sought in the M₂-complement of those found
(deflation), then refined without the constraint. Weights come from all columns together: rows of Z^{-T} are √cᵢ wᵢ up to sign.
No information where u₄ = 0: step units at t = √3, ReLU at t = 1, sigmoid at t ≈ 3.01.

All units at once, as printed in appendix B.4, with its ψ corrected.

    G(W) = sgn(u₄) { E f Σ_{j≠k} ψ(w_j, w_k) - γ E f Σ_j H₄(w_j) } + λ Σ_j (E f H₂(w_j) - u₂)²
    ψ(v, w) = H₂(v) H₂(w) + (v·w)² - 2 (v·w)(v·x)(w·x) = ½ He₄(x)[v, v, w, w],     E[u(a·x - t) ψ] = √6 u₄ (a·v)² (a·w)².

The printed ψ is no Hermite polynomial, and sgn(u₄) is missing, without which u₄ < 0 turns minima into maxima. Minimum:
W^{-T} = P D T W*, T = diag(√cᵢ) (T is missing in the text).
Source: Goel and Panigrahy (2019), section 2, Lemma 9, Corollary 2, Claims 1 (which omits cᵢ at order 4) and 2, Theorems 1 and 4,
Lemma 13, Definition 1 (which must read λ_min ≥ -τ), Theorems 10 and 11, after Ge, Lee and Ma (2018); the span is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, step
from laybare.certificate import Claim
from laybare.errors import TooFewSamples, Unidentifiable
from laybare.lowest_layer.acceptance import LayerClaimName
from laybare.lowest_layer.layer_start import Directions
from laybare.moments import leading_directions, projected_tensors, second_moment
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source
from laybare.source.derived import ProjectedInputs
from laybare.theory.high_threshold_forms import threshold_coefficient

MAX_GROWTH = 1e3
"""Growth of |z| from which on the objective is called unbounded. Checked by `pytest tests/lowest_layer`."""

Objective = Callable[[Array], tuple[float, Array]]


def restrict_to_span(source: Source, width: int) -> ProjectedInputs:
    """`source`, white and with one output, seen in the span that `width` units have according to its second moment."""
    return ProjectedInputs(source, leading_directions(second_moment(source), width))


def minimise_bounded(objective: Objective, start: Array, max_steps: int) -> Array:
    """Where L-BFGS ends from `start`; refused if the objective falls without end."""
    from scipy.optimize import minimize

    reach = MAX_GROWTH * float(np.linalg.norm(start))

    def guarded(z: Array) -> tuple[float, Array]:
        length = float(np.linalg.norm(z))
        if not length < reach:
            raise TooFewSamples(
                f"The printed objective falls without end: from |z| = {reach / MAX_GROWTH:.2g} descent came to {length:.2g}.",
                "Its penalty has to outweigh the fourth moment, which is noisy, in every direction.",
                "Give more samples, the right threshold, or a larger `factor` if the top has small coefficients; "
                "or use HighThreshold() instead of its literal form.", length=length)
        return objective(z)

    return np.asarray(minimize(guarded, start, jac=True, method="L-BFGS-B", options={"maxiter": max_steps}).x)


class Correlation(NamedTuple):
    """E[f H₂(z)] and E[f H₄(z)], and their gradients (d,)."""

    second: float
    fourth: float
    second_gradient: Array
    fourth_gradient: Array


class ObjectiveCurvature(NamedTuple):
    """Hessians (d, d) of E[f H₂(z)] and E[f H₄(z)]."""

    second: Array
    fourth: Array


@dataclass(frozen=True, eq=False)
class _Contractions:
    """Statistic: Σr, Σrs², Σrs⁴, Σrsx, Σrs³x for r = y, s = z·x."""

    z: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        r, s = y[:, 0], x @ self.z
        return np.asarray(r.sum()), np.asarray(r @ s**2), np.asarray(r @ s**4), x.T @ (r * s), x.T @ (r * s**3)


@dataclass(frozen=True, eq=False)
class _SquaredContractions:
    """Statistic: Σr, Σrs², Σrsx, Σr xxᵀ, Σrs² xxᵀ."""

    z: Array

    def __call__(self, x: Array, y: Array) -> Sums:
        r, s = y[:, 0], x @ self.z
        return (np.asarray(r.sum()), np.asarray(r @ s**2), x.T @ (r * s), x.T @ (x * r[:, None]), x.T @ (x * (r * s**2)[:, None]))


def hermite_correlation(source: Source, z: Array) -> Correlation:
    """Both correlations at z with their slopes, in one pass; `source` is white and has one output."""
    S0, m2, m4, v1, v3 = (part / source.size for part in source.sum(_Contractions(z), stage="objective"))
    N = float(z @ z)
    return Correlation(
        float(m2 - N * S0) / sqrt(2), float(m4 - 6 * N * m2 + 3 * N**2 * S0) / sqrt(24),
        sqrt(2) * (v1 - S0 * z), (4 * v3 - 12 * m2 * z - 12 * N * v1 + 12 * N * S0 * z) / sqrt(24))


def hermite_curvature(source: Source, z: Array) -> ObjectiveCurvature:
    """Second derivatives of both correlations at z, in one pass."""
    S0, m2, v1, M0, Ms = (part / source.size for part in source.sum(_SquaredContractions(z), stage="curvature"))
    N, eye = float(z @ z), np.eye(len(z))
    cross = np.outer(z, v1)
    return ObjectiveCurvature(
        sqrt(2) * (M0 - S0 * eye),
        12 * (Ms - m2 * eye - 2 * (cross + cross.T) - N * M0 + N * S0 * eye + 2 * S0 * np.outer(z, z)) / sqrt(24))


MIN_FOURTH_COEFFICIENT = 1e-3
"""|u₄|/u₂ below which the quartic carries no information. Checked by `pytest tests/lowest_layer`."""

MINIMUM_TOL = 1e-2
"""Slope and negative curvature of a minimum, over those of the penalty. Checked by `pytest tests/lowest_layer`."""


class PrintedObjective(NamedTuple):
    """G, its gradient and its Hessian at a point."""

    value: float
    gradient: Array
    hessian: Array


class Constants(NamedTuple):
    """u₂, u₄ and λ."""

    second: float
    fourth: float
    penalty: float


def one_by_one_constants(activation: Activation, threshold: float, *, factor: float = 5.0, smallest: float = 1.0) -> Constants:
    """λ = factor · |u₄|/(u₂² c_min), which needs factor > 1; refuses thresholds at which u₄ vanishes."""
    u2, u4 = (threshold_coefficient(activation, order, threshold) for order in (2, 4))
    if abs(u4) < MIN_FOURTH_COEFFICIENT * abs(u2):
        raise Unidentifiable(
            f"{activation.name} units at threshold {threshold:g} have the fourth Hermite coefficient {u4:.1e}.",
            "The printed objective is built on the fourth moment, which shows nothing of the weights there.",
            "Use ThirdMoments(), the default.", u4=u4, threshold=threshold)
    return Constants(u2, u4, factor * abs(u4) / (u2**2 * smallest))


def one_by_one_slope(source: Source, z: Array, constants: Constants) -> tuple[float, Array]:
    """G(z) and its gradient; one pass."""
    u2, u4, penalty = constants
    c, sign = hermite_correlation(source, z), float(np.sign(u4))
    gap = c.second - u2
    return -sign * c.fourth + penalty * gap**2, -sign * c.fourth_gradient + 2 * penalty * gap * c.second_gradient


def one_by_one_objective(source: Source, z: Array, constants: Constants) -> PrintedObjective:
    """G(z) with both derivatives; three passes."""
    u2, u4, penalty = constants
    c, curved = hermite_correlation(source, z), hermite_curvature(source, z)
    across = np.outer(c.second_gradient, c.second_gradient)
    hessian = -float(np.sign(u4)) * curved.fourth + 2 * penalty * ((c.second - u2) * curved.second + across)
    return PrintedObjective(*one_by_one_slope(source, z, constants), hessian)


def is_local_minimum(found: PrintedObjective, gradient: float, curvature: float) -> bool:
    """Definition 1, with the sign of the curvature corrected: |∇G| ≤ ε and λ_min(∇²G) ≥ -τ."""
    return bool(np.linalg.norm(found.gradient) <= gradient and np.linalg.eigvalsh(found.hessian)[0] >= -curvature)


@dataclass(frozen=True, kw_only=True)
class OneByOne:
    """A start for HighThreshold: the printed objective in the span of the units, its minima by L-BFGS with deflation.

    `activation` and `threshold` are those of the output that is looked at: step for the activity of rows.
    """

    activation: Activation = step
    threshold: float = 2.0
    factor: float = 5.0
    max_steps: int = 200

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions:
        """Unit rows with signs; `source` is white and has one output."""
        constants = one_by_one_constants(self.activation, self.threshold, factor=self.factor)
        inside = restrict_to_span(source, width)
        metric = second_moment(inside)[0]
        columns: list[Array] = []
        for _ in range(width):
            columns.append(self._minimum(inside, constants, metric, columns, rng))
        found = directions_from_columns(inside, np.array(columns))
        return found._replace(claims=(minima_claim(inside, np.array(columns), constants),))

    def _minimum(self, source: Source, constants: Constants, metric: Array, found: list[Array], rng: Generator) -> Array:
        """A minimum in the M₂-complement of those found, then without the constraint."""
        free = metric_complement(metric, found)
        start = free @ rng.standard_normal(free.shape[1])
        level = float(start @ metric @ start) / np.sqrt(2.0)
        start *= np.sqrt(constants.second / level) if level > 0 else 1.0 / np.linalg.norm(start)

        def outside(z: Array) -> tuple[float, Array]:
            value, slope = one_by_one_slope(source, z, constants)
            return value / abs(constants.fourth), slope / abs(constants.fourth)  # L-BFGS stops at slopes of 1e-5

        def inside(a: Array) -> tuple[float, Array]:
            value, slope = outside(free @ a)
            return value, free.T @ slope

        return minimise_bounded(outside, free @ minimise_bounded(inside, free.T @ start, self.max_steps), self.max_steps)


def minima_claim(source: Source, columns: Array, constants: Constants) -> Claim:
    """Definition 1 at every row of `columns`, with slopes and curvatures over those of the penalty; three passes per unit."""
    scale = constants.penalty * constants.second**2
    lengths = np.linalg.norm(columns, axis=1)
    points = [one_by_one_objective(source, z, constants) for z in columns]
    held = sum(
        is_local_minimum(at, MINIMUM_TOL * scale / length, MINIMUM_TOL * scale / length**2)
        for at, length in zip(points, lengths, strict=True))
    return Claim(
        LayerClaimName.PRINTED_MINIMUM, float(held), float(len(columns)), held == len(columns), "tested",
        f"slope and negative curvature below {MINIMUM_TOL:g} of the penalty's, as Definition 1 asks of an approximate minimum.")


def metric_complement(metric: Array, found: list[Array]) -> Array:
    """An orthonormal basis (d, d - len(found)) of all z with z·M₂z_j = 0."""
    dim = len(metric)
    if not found:
        return np.eye(dim)
    _, _, rows = np.linalg.svd(np.array(found) @ metric)
    return np.asarray(rows[len(found) :].T)


def directions_from_columns(source: ProjectedInputs, columns: Array) -> Directions:
    """From rows zᵢ ∝ columns of (TW)⁻¹ in the span to wᵢ: rows of Z^{-T}, their signs from E[f x] = Σ aᵢ wᵢ, aᵢ > 0."""
    weights = np.linalg.pinv(columns).T
    lengths = np.linalg.norm(weights, axis=1)
    weights = weights / lengths[:, None]
    _, first = (tensor[0] for tensor in projected_tensors(source, np.eye(source.dim), 1))
    slopes = np.linalg.lstsq(weights.T, first, rcond=None)[0]
    turn = np.where(slopes < 0, -1.0, 1.0)
    return Directions(weights * turn[:, None] @ source.basis.T, slopes * turn, lengths**2)


@dataclass(frozen=True, eq=False)
class _LayerSums:
    """Statistic: what G and its gradient are made of; W (k, d) are the rows."""

    W: Array

    @property
    def row_floats(self) -> int:
        return 8 * len(self.W)

    def __call__(self, x: Array, y: Array) -> Sums:
        r, a = y[:, 0], x @ self.W.T
        N, G = np.sum(self.W**2, axis=1), self.W @ self.W.T - np.diag(np.sum(self.W**2, axis=1))
        h = (a**2 - N) / sqrt(2)
        total = h.sum(axis=1)
        pairs = total**2 - np.sum(h**2, axis=1) + np.sum(G**2) - 2 * np.einsum("nj,jk,nk->n", a, G, a)
        rest = (total[:, None] - h) * a
        others = a @ G
        return (
            np.asarray(r @ pairs), np.asarray(r.sum()), r @ h, r @ a**2, r @ a**4,
            (rest * r[:, None]).T @ x, r @ (total[:, None] - h), (a * r[:, None]).T @ a, (others * r[:, None]).T @ x,
            (a * r[:, None]).T @ x, (a**3 * r[:, None]).T @ x)


def simultaneous_objective(source: Source, W: Array, constants: Constants, gamma: float = 0.01) -> tuple[float, Array]:
    """G(W) and its gradient (k, d); one pass."""
    u2, u4, penalty = constants
    sums = source.sum(_LayerSums(W), stage="objective")
    pairs, S0, h, m2, m4, rest, rest0, aa, others, v1, v3 = (part / source.size for part in sums)
    N, G = np.sum(W**2, axis=1), W @ W.T - np.diag(np.sum(W**2, axis=1))
    quartic = (m4 - 6 * N * m2 + 3 * N**2 * S0) / sqrt(24)
    gap, sign = h - u2, float(np.sign(u4))
    value = sign * (float(pairs) - gamma * float(quartic.sum())) + penalty * float(gap @ gap)
    off = aa - np.diag(np.diag(aa))
    slope_pairs = 2 * sqrt(2) * (rest - rest0[:, None] * W) + 4 * S0 * G @ W - 4 * (off @ W + others)
    slope_quartic = (4 * v3 + (12 * N * S0 - 12 * m2)[:, None] * W - 12 * N[:, None] * v1) / sqrt(24)
    slope_second = sqrt(2) * (v1 - S0 * W)
    return value, sign * (slope_pairs - gamma * slope_quartic) + 2 * penalty * gap[:, None] * slope_second


@dataclass(frozen=True, kw_only=True)
class Simultaneous:
    """A start for HighThreshold: the objective above in the span of the units, minimised by L-BFGS from rows that are random on
    the penalty's ellipsoid."""

    activation: Activation = step
    threshold: float = 2.0
    factor: float = 5.0
    gamma: float = 0.01
    max_steps: int = 500

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions:
        """Unit rows with signs; `source` is white and has one output."""
        constants = one_by_one_constants(self.activation, self.threshold, factor=self.factor)
        inside = restrict_to_span(source, width)
        start = rng.standard_normal((width, width))
        levels = np.einsum("ki,ij,kj->k", start, second_moment(inside)[0], start) / sqrt(2)
        start *= np.sqrt(constants.second / np.maximum(np.abs(levels), 1e-12))[:, None]

        def objective(flat: Array) -> tuple[float, Array]:
            value, slope = simultaneous_objective(inside, flat.reshape(start.shape), constants, self.gamma)
            return value / abs(constants.fourth), slope.ravel() / abs(constants.fourth)

        return directions_from_columns(inside, minimise_bounded(objective, start.ravel(), self.max_steps).reshape(start.shape))
