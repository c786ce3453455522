"""Gauss-Newton by conjugate gradients, for networks whose normal equations would not fit: above about 2000 hidden parameters.

Each outer step solves (JᵀJ + μD) δ = Jᵀr by CG in a Kronecker metric, J never formed (`conjugate.py`, `kronecker.py`). While the
fit is far off, a part of the samples is enough; the last steps see all of them. A step is judged by the pass that also gives the
slope of the next one, in single precision until it needs more (`two_precisions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from laybare.damping import Effort, Place, Trial
from laybare.levels import ROUNDING_LOSS
from laybare.linear_algebra import Precision
from laybare.refinement.conjugate import newton_trial
from laybare.refinement.kronecker import KroneckerCurvature
from laybare.refinement.levenberg import Refined, project
from laybare.refinement.normal import Fit, FitStatistic, Point, Split
from laybare.refinement.products import Slope, SlopeStatistic
from laybare.refinement.two_precisions import single_then_double
from laybare.shapes import Progress
from laybare.source import Source

FAR = 1e-2
"""Relative loss above which a sub-sample decides the step."""

ENOUGH = 4
"""Samples per parameter in a sub-sample."""


def newton_cg(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error from `start` without forming normal equations; `scale` as in `levenberg_marquardt`.

    Ends where fits are exact, with 12 digits: at the price of products the last bits are not worth having.
    """
    effort = replace(effort, floor=max(effort.floor, ROUNDING_LOSS))
    wanted = ENOUGH * (start.units.size + start.coefficients.size)
    if 2 * wanted >= source.size:
        return _descend(source, start, scale, effort, progress)
    part, far = source.take(wanted), replace(effort, floor=max(effort.floor, FAR))
    begun = _descend(part, start, scale * part.size / source.size, far, progress)
    if begun.trace.reason == "interrupted":
        return Refined(*project(begun.point, Fit(*source.sum(FitStatistic(begun.point), stage="loss"))), begun.trace)
    full = _descend(source, begun.point, scale, effort, progress)
    return full._replace(trace=begun.trace.then(full.trace))


def _descend(source: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> Refined:
    curvature = KroneckerCurvature.of(source)

    def rule(dtype: Precision) -> _ByProducts:
        return _ByProducts(source, scale, curvature, dtype, progress)

    point, _ = project(start, Fit(*source.sum(FitStatistic(start), stage="loss")))
    end = single_then_double(rule, source, point, scale, effort=effort, before=2, progress=progress)
    return Refined(end.best.point, end.best.loss, end.trace)


@dataclass(frozen=True, eq=False)
class _ByProducts:
    """The step rule: CG from products; the pass that judges a point also gives its slope."""

    source: Source
    scale: float
    curvature: KroneckerCurvature
    dtype: Precision
    progress: Progress | None
    passes: ClassVar[float] = 0.0

    def judge(self, point: Point) -> Place[Point, Slope]:
        slope = Slope(*self.source.sum(SlopeStatistic(point, self.dtype), stage="gradient"))
        return Place(point, float(slope.loss), slope)

    def system(self, here: Place[Point, Slope]) -> Place[Point, Slope]:
        return here

    def trial(self, system: Place[Point, Slope], damping: float) -> Trial[Point]:
        slope, forcing = system.sums, float(np.sqrt(system.loss / self.scale))
        gradient = Split(slope.rows, slope.readout, slope.affine)
        metric = self.curvature.metric(system.point, slope, damping)
        return newton_trial(self.source, system.point, gradient, metric, forcing, progress=self.progress)
