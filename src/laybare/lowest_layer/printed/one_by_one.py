"""One unit at a time, as printed: local minima of a quartic with a quadratic constraint as penalty.

    G(z) = -sgn(u₄) E[f H₄(z)] + λ (E[f H₂(z)] - u₂)²

In the population, for f without products, its minima are z = ±aᵢ · column i of (TW)⁻¹, T = diag(√cᵢ), with
aᵢ = (1 - |u₄|/(λ u₂² cᵢ))^(-½). So λ must exceed |u₄|/(u₂² min cᵢ): below it G is unbounded (the printed λ = Θ(|u₄|/u₂²) hides
that). With fewer units than inputs G is taken in their span (`span`). Minima are orthogonal to each other in the metric of M₂,
so the next one is looked for in the M₂-complement of those found (deflation), then polished without the constraint. Weights come
from all columns together: rows of Z^{-T} are √cᵢ wᵢ up to sign.
No information where u₄ = 0: step units at t = √3, ReLU at t = 1, sigmoid at t ≈ 3.01.
Source: Goel and Panigrahy (2019), section 2, Theorems 1 and 4, Claims 1 and 2, Lemma 13, after Ge, Lee and Ma (2018).
Definition 1 must read λ_min ≥ -τ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, step
from laybare.certificate import Claim
from laybare.errors import Unidentifiable
from laybare.lowest_layer.printed.hermite_objective import correlation, curvature
from laybare.lowest_layer.printed.span import InSpan, in_span, lowest_point
from laybare.lowest_layer.start import Directions
from laybare.moments import projected_tensors, second_moment
from laybare.shapes import Array
from laybare.source import Source
from laybare.theory.unit_coefficients import threshold_coefficient

VANISHING = 1e-3
"""|u₄|/u₂ below which the quartic is called uninformative."""


MINIMAL = 1e-2
"""Slope and negative curvature, over those of the penalty, at which a point still counts as a minimum."""


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
    if abs(u4) < VANISHING * abs(u2):
        raise Unidentifiable(
            f"{activation.name} units at threshold {threshold:g} have the fourth Hermite coefficient {u4:.1e}.",
            "The printed objective is built on the fourth moment, which shows nothing of the weights there.",
            "Use ThirdMoments(), the default.", u4=u4, threshold=threshold)
    return Constants(u2, u4, factor * abs(u4) / (u2**2 * smallest))


def one_by_one_slope(source: Source, z: Array, constants: Constants, baseline: float = 0.0) -> tuple[float, Array]:
    """G(z) and its gradient; one pass."""
    u2, u4, penalty = constants
    c, sign = correlation(source, z, baseline), float(np.sign(u4))
    gap = c.second - u2
    return -sign * c.fourth + penalty * gap**2, -sign * c.fourth_gradient + 2 * penalty * gap * c.second_gradient


def one_by_one_objective(source: Source, z: Array, constants: Constants, baseline: float = 0.0) -> PrintedObjective:
    """G(z) with both derivatives; three passes."""
    u2, u4, penalty = constants
    c, curved = correlation(source, z, baseline), curvature(source, z, baseline)
    across = np.outer(c.second_gradient, c.second_gradient)
    hessian = -float(np.sign(u4)) * curved.fourth + 2 * penalty * ((c.second - u2) * curved.second + across)
    return PrintedObjective(*one_by_one_slope(source, z, constants, baseline), hessian)


def is_local_minimum(found: PrintedObjective, gradient: float, curvature: float) -> bool:
    """Definition 1, with the sign of the curvature mended: |∇G| ≤ ε and λ_min(∇²G) ≥ -τ."""
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
        inside = in_span(source, width)
        metric = second_moment(inside)[0]
        columns: list[Array] = []
        for _ in range(width):
            columns.append(self._minimum(inside, constants, metric, columns, rng))
        found = from_columns(inside, np.array(columns))
        return found._replace(claims=(all_minima(inside, np.array(columns), constants),))

    def _minimum(self, source: Source, constants: Constants, metric: Array, found: list[Array], rng: Generator) -> Array:
        """A minimum in the M₂-complement of those found, then without the constraint."""
        free = complement(metric, found)
        start = free @ rng.standard_normal(free.shape[1])
        level = float(start @ metric @ start) / np.sqrt(2.0)
        start *= np.sqrt(constants.second / level) if level > 0 else 1.0 / np.linalg.norm(start)

        def outside(z: Array) -> tuple[float, Array]:
            value, slope = one_by_one_slope(source, z, constants)
            return value / abs(constants.fourth), slope / abs(constants.fourth)  # L-BFGS stops at slopes of 1e-5

        def inside(a: Array) -> tuple[float, Array]:
            value, slope = outside(free @ a)
            return value, free.T @ slope

        return lowest_point(outside, free @ lowest_point(inside, free.T @ start, self.max_steps), self.max_steps)


def all_minima(source: Source, columns: Array, constants: Constants) -> Claim:
    """Definition 1 at every row of `columns`, with slopes and curvatures over those of the penalty; three passes per unit."""
    scale = constants.penalty * constants.second**2
    lengths = np.linalg.norm(columns, axis=1)
    points = [one_by_one_objective(source, z, constants) for z in columns]
    held = sum(
        is_local_minimum(at, MINIMAL * scale / length, MINIMAL * scale / length**2)
        for at, length in zip(points, lengths, strict=True))
    return Claim(
        "units at a local minimum of the printed objective", float(held), float(len(columns)), held == len(columns), "tested",
        f"slope and negative curvature below {MINIMAL:g} of the penalty's, as Definition 1 asks of an approximate minimum.")


def complement(metric: Array, found: list[Array]) -> Array:
    """An orthonormal basis (d, d - len(found)) of all z with z·M₂z_j = 0."""
    dim = len(metric)
    if not found:
        return np.eye(dim)
    _, _, rows = np.linalg.svd(np.array(found) @ metric)
    return np.asarray(rows[len(found) :].T)


def from_columns(source: InSpan, columns: Array) -> Directions:
    """From rows zᵢ ∝ columns of (TW)⁻¹ in the span to wᵢ: rows of Z^{-T}, their signs from E[f x] = Σ aᵢ wᵢ, aᵢ > 0."""
    weights = np.linalg.pinv(columns).T
    lengths = np.linalg.norm(weights, axis=1)
    weights = weights / lengths[:, None]
    _, first = (tensor[0] for tensor in projected_tensors(source, np.eye(source.dim), 1))
    slopes = np.linalg.lstsq(weights.T, first, rcond=None)[0]
    turn = np.where(slopes < 0, -1.0, 1.0)
    return Directions(weights * turn[:, None] @ source.basis.T, slopes * turn, lengths**2)
