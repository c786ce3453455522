"""Appendix F of Ge, Lee & Ma (2018): a spurious minimum of P′, and how R removes it.

d = 4, B* = I, a = (1, 2+t, 2+t, 2+t), B = [e₁; e₁; e₂; (e₃ + e₄)/√2]. In ordered pairs P′ = 2 there (the paper counts each pair
once and has 1). One curvature is exactly zero, so that the minimum is not strict: turning b₄ towards e₃ or e₄ does not change P′
but makes the curvature of b₁ and b₂ negative once the other share is below 1/(2+t). R = -μ Σ aᵢ⟨bᵢ*, bⱼ⟩⁴ makes it negative at
the point itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laybare.landscape import Objective, critical_points, descend, pairs_on_spheres, second_order
from laybare.networks import unsigned_error
from laybare.report.plots import Curve, LinesFigure, Panel
from laybare.shapes import Array
from laybare.studies.study import Settings, Study, StudyResult, headings

EXCESS = 0.5
"""t of a = (1, 2+t, …)."""

FOUND = 1e-4


def objective(mu: float) -> Objective:
    """P′ + R on unit rows."""
    return pairs_on_spheres(np.array([1.0, *[2.0 + EXCESS] * 3]), np.eye(4), mu=mu)


def turned(angle: float) -> Array:
    """The paper's B with b₄ = cos e₃ + sin e₄; the paper has π/4."""
    e = np.eye(4)
    return np.array([e[0], e[0], e[1], np.cos(angle) * e[2] + np.sin(angle) * e[3]])


def curvature(mu: float, angle: float) -> float:
    """Smallest Hessian eigenvalue there."""
    return second_order(objective(mu), turned(angle), rng=np.random.default_rng(0)).smallest


class SpuriousGrid(NamedTuple):
    """Strengths μ of R."""

    mus: tuple[float, ...] = (0.0, 0.01, 0.05, 0.2)


class SpuriousRow(NamedTuple):
    """A row of the table: the point itself, a descent from it, and descents from random starts."""

    mu: float
    value_at_the_point: float
    gradient: float
    smallest_eigenvalue: float
    distance_after_descent_from_it: float
    random_starts: int
    at_the_truth: int
    distinct_minima: int


def measure(settings: Settings[SpuriousGrid]) -> list[SpuriousRow]:
    """One row per μ; the seeds are those of the random starts."""
    rows: list[SpuriousRow] = []
    for mu in settings.grid.mus:
        rows.append(row(mu, settings.seeds))
        settings.tick("landscapes", len(rows), len(settings.grid.mus), f"mu={mu:g}")
    return rows


def row(mu: float, seeds: Sequence[int]) -> SpuriousRow:
    """What the landscape is at the point, and where descents end."""
    f, point, rng = objective(mu), turned(np.pi / 4), np.random.default_rng(seeds[0])
    order = second_order(f, point, rng=rng)
    end = unsigned_error(descend(f, point, rng=rng).point, np.eye(4))
    starts = [f.start(np.random.default_rng([seed, 5])) for seed in seeds]
    found = critical_points(f, starts, saddles=False, rng=rng)
    right = sum(each.runs for each in found.minima if each.distance < FOUND)
    return SpuriousRow(
        mu, f.slope(point).value, order.gradient_norm, order.smallest, end, len(starts), right, len(found.minima))


def summary(grid: SpuriousGrid, rows: Sequence[SpuriousRow]) -> StudyResult:
    """The rows, and what curvature and descents say."""
    parts = (
        f"mu={one.mu:g}: curvature {one.smallest_eigenvalue:.2g}, descent ends {one.distance_after_descent_from_it:.2g} from the "
        "truth" for one in rows)
    return StudyResult(headings(SpuriousRow), rows, "; ".join(parts) + ".", _figure(grid.mus))


def _figure(mus: Sequence[float]) -> LinesFigure:
    angles = np.linspace(np.pi / 4, np.pi / 2, 41)
    bends = [Curve(f"mu={mu:g}", angles.tolist(), [curvature(mu, angle) for angle in angles]) for mu in mus]
    values = [Curve(f"mu={mu:g}", angles.tolist(), [objective(mu).slope(turned(angle)).value for angle in angles]) for mu in mus]
    panels = (
        Panel("Value", "angle of b4", "P' + R", values, ""),
        Panel("Smallest Hessian eigenvalue", "angle of b4", "eigenvalue", bends, ""))
    return LinesFigure(panels, "P' + R along the flat direction of its spurious minimum")


APPENDIX_F = Study(
    "glm-appendix-f", "The spurious minimum of P' and how R removes it: curvature at the point, and where descents end",
    "The paper: B is a local minimum of P'; with R there is none but the truth.",
    SpuriousGrid(), SpuriousGrid(), measure, summary)
