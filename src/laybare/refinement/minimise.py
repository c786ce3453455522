"""One entry to the two solvers: dense normal equations while they are small, conjugate gradients beyond."""

from __future__ import annotations

from laybare.damping import Effort
from laybare.refinement.levenberg import Refined, levenberg_marquardt
from laybare.refinement.newton_cg import newton_cg
from laybare.refinement.normal import Point
from laybare.shapes import Progress
from laybare.source import Source

DENSE_LIMIT = 2000
"""Hidden parameters up to which the normal matrix (32 MB there) is formed and factored."""


def minimise(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Refine `start` to the nearest minimum of the squared error, by the solver that suits its size."""
    solver = levenberg_marquardt if start.units.size <= DENSE_LIMIT else newton_cg
    return solver(source, start, scale, effort=effort, progress=progress)
