"""Directional Hermite correlations of one output, with their derivatives: the pieces of the paper's objectives.

For z of any length, s = z·x, N = |z|²:

    H₂(z) = (s² - N)/√2,      H₄(z) = (s⁴ - 6N s² + 3N²)/√24,      E[u(a·x - t) H_l(z)] = u_l (a·z)^l  for |a| = 1,

with u_l = E[u(g - t) h_l(g)]. So E[f H_l(z)] = u_l Σ cᵢ (z·wᵢ)^l up to the rare products of units.
Source: Goel and Panigrahy (2019), section 2, Lemma 9, Corollary 2 and Claim 1 (which omits cᵢ at order 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.shapes import Array, Sums
from laybare.source import Source


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
    """Statistic: Σr, Σrs², Σrs⁴, Σrsx, Σrs³x for r = y - baseline, s = z·x."""

    z: Array
    baseline: float

    def __call__(self, x: Array, y: Array) -> Sums:
        r, s = y[:, 0] - self.baseline, x @ self.z
        return np.asarray(r.sum()), np.asarray(r @ s**2), np.asarray(r @ s**4), x.T @ (r * s), x.T @ (r * s**3)


@dataclass(frozen=True, eq=False)
class _SquaredContractions:
    """Statistic: Σr, Σrs², Σrsx, Σr xxᵀ, Σrs² xxᵀ."""

    z: Array
    baseline: float

    def __call__(self, x: Array, y: Array) -> Sums:
        r, s = y[:, 0] - self.baseline, x @ self.z
        return (
            np.asarray(r.sum()), np.asarray(r @ s**2), x.T @ (r * s), x.T @ (x * r[:, None]), x.T @ (x * (r * s**2)[:, None]))


def correlation(source: Source, z: Array, baseline: float = 0.0) -> Correlation:
    """Both correlations at z with their slopes, in one pass; `source` is white and has one output."""
    S0, m2, m4, v1, v3 = (part / source.size for part in source.sum(_Contractions(z, baseline), stage="objective"))
    N = float(z @ z)
    return Correlation(
        float(m2 - N * S0) / sqrt(2), float(m4 - 6 * N * m2 + 3 * N**2 * S0) / sqrt(24),
        sqrt(2) * (v1 - S0 * z), (4 * v3 - 12 * m2 * z - 12 * N * v1 + 12 * N * S0 * z) / sqrt(24))


def curvature(source: Source, z: Array, baseline: float = 0.0) -> ObjectiveCurvature:
    """Second derivatives of both correlations at z, in one pass."""
    S0, m2, v1, M0, Ms = (part / source.size for part in source.sum(_SquaredContractions(z, baseline), stage="curvature"))
    N, eye = float(z @ z), np.eye(len(z))
    cross = np.outer(z, v1)
    return ObjectiveCurvature(
        sqrt(2) * (M0 - S0 * eye),
        12 * (Ms - m2 * eye - 2 * (cross + cross.T) - N * M0 + N * S0 * eye + 2 * S0 * np.outer(z, z)) / sqrt(24))
