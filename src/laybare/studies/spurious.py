"""Appendix F of Ge, Lee & Ma (2018): a spurious minimum of P′, and how R removes it.

d = 4, B* = I, a = (1, 2+t, 2+t, 2+t), B = [e₁; e₁; e₂; (e₃ + e₄)/√2]. In ordered pairs P′ = 2 there (the paper counts each pair
once and has 1). One curvature is exactly zero, so that the minimum is not strict: turning b₄ towards e₃ or e₄ does not change P′
but makes the curvature of b₁ and b₂ negative once the other share is below 1/(2+t). R = -μ Σ aᵢ⟨bᵢ*, bⱼ⟩⁴ makes it negative at
the point itself.
"""

from __future__ import annotations

import numpy as np

from laybare.landscape import Objective, critical_points, descend, pairs_on_spheres, second_order
from laybare.networks import unsigned_error
from laybare.report.plots import Line, Panel, lines_figure
from laybare.shapes import Array, Event
from laybare.studies.study import Cell, Outcome, Settings, Study

EXCESS = 0.5
"""t of a = (1, 2+t, …)."""

MUS = (0.0, 0.01, 0.05, 0.2)
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


COLUMNS = (
    "mu", "value at the point", "gradient", "smallest eigenvalue", "distance after descent from it", "random starts",
    "at the truth", "distinct minima")


def _study(settings: Settings) -> Outcome:
    rows: list[tuple[Cell, ...]] = []
    for done, mu in enumerate(MUS):
        rows.append(_row(mu, settings))
        if settings.progress is not None:
            settings.progress(Event("landscapes", done + 1, len(MUS), f"mu={mu:g}"))
    return Outcome(COLUMNS, rows, _sentence(rows), _figure())


def _row(mu: float, settings: Settings) -> tuple[Cell, ...]:
    f, point, rng = objective(mu), turned(np.pi / 4), np.random.default_rng(settings.seeds[0])
    order = second_order(f, point, rng=rng)
    end = unsigned_error(descend(f, point, rng=rng).point, np.eye(4))
    starts = [f.start(np.random.default_rng([seed, 5])) for seed in settings.seeds]
    found = critical_points(f, starts, saddles=False, rng=rng)
    right = sum(each.runs for each in found.minima if each.distance < FOUND)
    return mu, f.slope(point).value, order.gradient_norm, order.smallest, end, len(starts), right, len(found.minima)


def _sentence(rows: list[tuple[Cell, ...]]) -> str:
    parts = (f"mu={row[0]:g}: curvature {float(row[3]):.2g}, descent ends {float(row[4]):.2g} from the truth" for row in rows)
    return "; ".join(parts) + "."


def _figure() -> str:
    angles = np.linspace(np.pi / 4, np.pi / 2, 41)
    bends = [Line(f"mu={mu:g}", angles.tolist(), [curvature(mu, angle) for angle in angles]) for mu in MUS]
    values = [Line(f"mu={mu:g}", angles.tolist(), [objective(mu).slope(turned(angle)).value for angle in angles]) for mu in MUS]
    panels = (
        Panel("Value", "angle of b4", "P' + R", values, ""),
        Panel("Smallest Hessian eigenvalue", "angle of b4", "eigenvalue", bends, ""))
    return lines_figure(panels, "P' + R along the flat direction of its spurious minimum")


APPENDIX_F = Study(
    "glm-appendix-f", "The spurious minimum of P' and how R removes it: curvature at the point, and where descents end",
    "The paper: B is a local minimum of P'; with R there is none but the truth.", _study)
