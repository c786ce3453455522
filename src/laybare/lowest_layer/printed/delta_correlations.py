"""Correlations with Dirac's delta and its derivatives: directions in which f rises abruptly.

    C₁(z, s) = E[f δ(z·x - s)] = φ(s) E[f | z·x = s]
    C₂ = C₁(z, t + ε) - C₁(z, t - ε)  → φ(t) E[∂P/∂X_i | w_i·x = t]  at z = w_i for step units, 0 away from all units
    C₃ = jump of C₁' at t             → the same at z = w_i for ReLU units

Closed forms: `theory.delta_slopes`. Lemma 19 adds two terms that cancel.

From samples, δ is a slab of width ε (`slab_correlations`), or the derivative of a Gaussian of width ε, which is smooth in z and
can be climbed (`ascend`). Polynomially many samples suffice without any linear term in P, but the search is local.
Source: Goel and Panigrahy (2019), section 3, Theorems 3 and 6, Corollary 1, Lemma 8, Claims 3-5, appendix C,
Lemmas 19 and 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.lowest_layer.profile import HIGH, LOW
from laybare.lowest_layer.union_fit import HalfSpaces
from laybare.shapes import Array, Sums
from laybare.source import Source


class Slabs(NamedTuple):
    """C₁, C₂ and C₃ at (z, t), by finite differences with step ε."""

    first: float
    second: float
    third: float


def slab_correlations(source: Source, z: Array, threshold: float, step: float, baseline: float = 0.0) -> Slabs:
    """Delta as a slab of width ε: C₁ around t, C₂ between t ± ε, C₃ from slopes on both sides; one pass, one output."""
    if not 0 < step < (HIGH - LOW) / 4:
        raise InvalidInput(f"The step is {step}.", "It is the width of a slab.", "Give a small positive number.", step=step)
    edges = threshold + step * np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])

    def sums(x: Array, y: Array) -> Sums:
        return (np.histogram(x @ z, bins=edges, weights=y[:, 0] - baseline)[0],)

    (total,) = source.sum(sums, stage="slabs")
    far_below, below, at, above, far_above = (float(part) / (source.size * step) for part in total)
    return Slabs(at, above - below, ((far_above - above) - (below - far_below)) / step)


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Statistic: Σ r κ(v), Σ r κ'(v) x, Σ r κ'(v) for v = (z·x - t)/ε; κ is v e^{-v²/2} (order 1) or (v² - 1) e^{-v²/2} (order
    2)."""

    z: Array
    threshold: float
    width: float
    order: int
    baseline: float

    def __call__(self, x: Array, y: Array) -> Sums:
        r, v = y[:, 0] - self.baseline, (x @ self.z - self.threshold) / self.width
        bell = np.exp(-(v**2) / 2)
        value = v * bell if self.order == 1 else (v**2 - 1) * bell
        slope = (1 - v**2) * bell if self.order == 1 else (3 * v - v**3) * bell
        return np.asarray(r @ value), x.T @ (r * slope), np.asarray(np.sum(r * slope))


class Climb(NamedTuple):
    """Where the ascent ended: a direction, its threshold, the correlation there, and the number of steps."""

    direction: Array
    threshold: float
    value: float
    steps: int


def smooth_correlation(
    source: Source, z: Array, threshold: float, width: float, *, order: int = 1, baseline: float = 0.0
) -> tuple[float, Array, float]:
    """E[f κ((z·x - t)/ε)]/ε², its gradient in z (tangent to the sphere) and in t; order 1 for step units, 2 for ReLU."""
    value, slope, level = source.sum(_Kernel(z, threshold, width, order, baseline), stage="correlation")
    scale = source.size * width**2
    gradient = slope / (scale * width)
    return float(value) / scale, gradient - (gradient @ z) * z, -float(level) / (scale * width)


def ascend(
    source: Source, z: Array, threshold: float, *, width: float = 0.3, order: int = 1, baseline: float = 0.0,
    max_steps: int = 100, free_threshold: bool = True,
) -> Climb:
    """Local ascent on the sphere (and in t) with step halving, from a direction near a unit."""
    value, slope, lift = smooth_correlation(source, z, threshold, width, order=order, baseline=baseline)
    length, steps = 0.1, 0
    for steps in range(1, max_steps + 1):  # noqa: B007
        size = float(np.hypot(np.linalg.norm(slope), lift if free_threshold else 0.0))
        if size == 0.0 or length < 1e-9:
            break
        moved = z + length * slope / size
        moved /= np.linalg.norm(moved)
        raised = threshold + (length * lift / size if free_threshold else 0.0)
        trial = smooth_correlation(source, moved, raised, width, order=order, baseline=baseline)
        if trial[0] > value:
            (value, slope, lift), z, threshold, length = trial, moved, raised, 1.5 * length
        else:
            length /= 2
    return Climb(z, threshold, value, steps)


@dataclass(frozen=True, kw_only=True)
class DeltaAscent:
    """The search of section 3 for a whole layer: ascent of the correlation with δ' (a kernel of this width) from every unit.

    Works on the activity of rows, a polynomial of step units; local, so the start has to be near.
    """

    width: float = 0.3
    max_steps: int = 100

    def __call__(self, activity: Source, start: HalfSpaces, *, rng: Generator) -> HalfSpaces:
        """The half-spaces at which the ascents end."""
        climbs = [
            ascend(activity, w, float(t), width=self.width, max_steps=self.max_steps)
            for w, t in zip(start.weights, start.thresholds, strict=True)]
        return HalfSpaces(np.array([climb.direction for climb in climbs]), np.array([climb.threshold for climb in climbs]))
