"""Algorithm 5 as printed: least squares on the units of Algorithm 4, truncated and in a ball, by projected gradient descent.

    φ(x) = (ãᵢ relu(w̃ᵢ·x + b̃ᵢ), ãᵢ relu(-w̃ᵢ·x - b̃ᵢ) for every unit of S,  x,  1)
    L_τ(β) = 1/N Σ (y - β·φ(x))² 1{|φ(x)| ≤ τ},     τ = 20 m (8|S| + d) B √log(mdB|S|/ε)
    L_τ(β) ≤ min { L_τ(β') : |β'| ≤ √(8|S|) + m(1 + B) } + ε²/100

The proof has eight features a unit and remarks that two suffice, because ã and the sign that w̃ and b̃ share are known; m is |S|,
and B the least number that bounds ã, 1/ã and b̃. The loss is quadratic, so one pass over the samples gives all of its gradients;
steps have the length 1/λ_max and end when the gap to the minimum, at most ∇·β + radius |∇|, is ε²/100. τ is far beyond any
sample: the printed truncation serves the proof, and the projection hardly ever binds (both are counted in the claims).
Source: Awasthi, Tang and Vijayaraghavan (2021), Algorithm 5, Lemma D.12, Claim D.14.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from laybare.activations import relu
from laybare.assembly.relu_scalars import Scalars
from laybare.assembly.unfold import absorb_linear
from laybare.certificate import Claim
from laybare.networks import Layer, Network
from laybare.shapes import Array, Sums
from laybare.source import Source

MOST_STEPS = 200_000


class BallRegression(NamedTuple):
    """Where projected gradient descent ended: coefficients, an upper bound of what is left to gain, steps, rows cut off."""

    coefficients: Array
    gap: float
    steps: int
    truncated: int


class PrintedSizes(NamedTuple):
    """τ, the radius of the ball, and the gap ε²/100."""

    truncation: float
    radius: float
    gap: float

    @classmethod
    def of(cls, scalars: Scalars, dim: int, accuracy: float) -> PrintedSizes:
        """As printed, with m = |S| and B that of the units found."""
        m = len(scalars.readout)
        a, b = np.abs(scalars.readout), np.abs(scalars.biases)
        B = float(max(a.max(), (1.0 / a).max(), b.max()))
        size = 20.0 * m * (8 * m + dim) * B * sqrt(log(max(m * dim * B * m / accuracy, np.e)))
        return cls(size, sqrt(8.0 * m) + m * (1.0 + B), accuracy**2 / 100.0)


def truncated_network(
    source: Source, directions: Array, scalars: Scalars, accuracy: float
) -> tuple[Network, tuple[Claim, ...]]:
    """Algorithm 5 on the units of Algorithm 4, merged to at most |S| + 2 ReLU units by Claim D.14; `accuracy` is ε."""
    sizes = PrintedSizes.of(scalars, source.dim, accuracy)
    fit = regressed_in_ball(source, UnitPairs(directions, scalars), sizes)
    k = len(directions)
    plus, minus = fit.coefficients[:k] * scalars.readout, fit.coefficients[k : 2 * k] * scalars.readout
    linear, offset = fit.coefficients[2 * k : -1], fit.coefficients[-1]
    layer = Layer(directions, scalars.biases, relu)
    folded = Network(layer, plus + minus, offset - minus @ scalars.biases, linear - minus @ directions)
    text = f"{fit.steps:,} steps of projected gradient descent, {fit.truncated:,} rows beyond τ = {sizes.truncation:.3g}"
    return absorb_linear(folded), (
        Claim("gap of the regression", fit.gap, sizes.gap, fit.gap <= sizes.gap, "tested", f"{text}."),)


def regressed_in_ball(source: Source, features: UnitPairs, sizes: PrintedSizes) -> BallRegression:
    """Projected gradient descent on L_τ; one pass, then steps on the sums."""
    gram, cross, kept = source.sum(_TruncatedSums(features, sizes.truncation), stage="regression")
    hessian, slope = 2.0 * gram / source.size, 2.0 * cross / source.size
    length = 1.0 / float(np.linalg.eigvalsh(hessian)[-1])
    beta = np.zeros(len(slope))
    for step in range(MOST_STEPS + 1):  # noqa: B007
        gradient = hessian @ beta - slope
        gap = float(gradient @ beta + sizes.radius * np.linalg.norm(gradient))
        if gap <= sizes.gap:
            break
        beta = beta - length * gradient
        beta *= min(1.0, sizes.radius / max(float(np.linalg.norm(beta)), np.finfo(float).tiny))
    return BallRegression(beta, gap, step, source.size - int(kept))


@dataclass(frozen=True, eq=False)
class UnitPairs:
    """φ: both ReLUs of every unit with its readout, the inputs, and 1."""

    directions: Array
    scalars: Scalars

    def __call__(self, x: Array) -> Array:
        u = x @ self.directions.T + self.scalars.biases
        a = self.scalars.readout
        return np.column_stack([a * np.maximum(u, 0.0), a * np.maximum(-u, 0.0), x, np.ones(len(x))])


@dataclass(frozen=True, eq=False)
class _TruncatedSums:
    """Statistic: φφᵀ, φy and the number of rows, over rows with |φ| ≤ τ."""

    features: UnitPairs
    truncation: float

    def __call__(self, x: Array, y: Array) -> Sums:
        phi = self.features(x)
        kept = np.linalg.norm(phi, axis=1) <= self.truncation
        phi = phi[kept]
        return phi.T @ phi, phi.T @ y[kept, 0], np.asarray(np.sum(kept))
