"""All units at once, as printed in appendix B.4, with its ψ mended.

    G(W) = sgn(u₄) { E f Σ_{j≠k} ψ(w_j, w_k) - γ E f Σ_j H₄(w_j) } + λ Σ_j (E f H₂(w_j) - u₂)²
    ψ(v, w) = H₂(v) H₂(w) + (v·w)² - 2 (v·w)(v·x)(w·x) = ½ He₄(x)[v, v, w, w],     E[u(a·x - t) ψ] = √6 u₄ (a·v)² (a·w)².

The printed ψ is no Hermite polynomial (`theory.hermite_pairs` has both), and sgn(u₄) is missing, without which u₄ < 0 turns
minima into maxima. Minimum: W^{-T} = P D T W*, T = diag(√cᵢ) (T is missing in the text).
Source: Goel and Panigrahy (2019), Theorems 10 and 11, after Ge, Lee and Ma (2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, step
from laybare.lowest_layer.printed.one_by_one import Constants, from_columns, one_by_one_constants
from laybare.lowest_layer.printed.span import in_span, lowest_point
from laybare.lowest_layer.start import Directions
from laybare.moments import second_moment
from laybare.shapes import Array, Sums
from laybare.source import Source


@dataclass(frozen=True, eq=False)
class _LayerSums:
    """Statistic: what G and its gradient are made of; W (k, d) are the rows."""

    W: Array
    baseline: float

    @property
    def row_floats(self) -> int:
        return 8 * len(self.W)

    def __call__(self, x: Array, y: Array) -> Sums:
        r, a = y[:, 0] - self.baseline, x @ self.W.T
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


def simultaneous_objective(
    source: Source, W: Array, constants: Constants, gamma: float = 0.01, baseline: float = 0.0
) -> tuple[float, Array]:
    """G(W) and its gradient (k, d); one pass."""
    u2, u4, penalty = constants
    sums = source.sum(_LayerSums(W, baseline), stage="objective")
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
        inside = in_span(source, width)
        start = rng.standard_normal((width, width))
        levels = np.einsum("ki,ij,kj->k", start, second_moment(inside)[0], start) / sqrt(2)
        start *= np.sqrt(constants.second / np.maximum(np.abs(levels), 1e-12))[:, None]

        def objective(flat: Array) -> tuple[float, Array]:
            value, slope = simultaneous_objective(inside, flat.reshape(start.shape), constants, self.gamma)
            return value / abs(constants.fourth), slope.ravel() / abs(constants.fourth)

        return from_columns(inside, lowest_point(objective, start.ravel(), self.max_steps).reshape(start.shape))
