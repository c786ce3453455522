"""Gauss-Newton for many samples: gradients from all rows, the curvature from a part of them, few passes.

The part has been fitted before (`minimise.py`), so that the minimum over all rows is near. Each step costs a least-squares fit
(the projected loss; the last one in double precision), a gradient, and some products with JᵀJ, all of them n·k·d operations and
none n·P²; the products make up for what the part does not know of the curvature (`part_curvature.py`). A step that promises less
than what settles the fit costs no product: the metric of the part tells. The part may be all rows: their normal equations then
serve for several steps (Shamanskii 1967 for Newton's method), and it need not have been fitted.
Source: Byrd, Chin, Neveitt, Nocedal (2011) for curvature from a part of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.damping import Effort, Place, Trial
from laybare.linear_algebra import Precision
from laybare.refinement.conjugate import newton_trial
from laybare.refinement.levenberg import Refined, overfit, project
from laybare.refinement.normal import Fit, FitStatistic, Point, Split, split
from laybare.refinement.part_curvature import PartCurvature, PartNormal
from laybare.refinement.products import GradientStatistic, ProductStatistic, Tangents
from laybare.refinement.two_precisions import single_then_double
from laybare.shapes import Progress
from laybare.source import Source
from laybare.source.views import reads_one_block


def newton_from_part(
    source: Source, part: Source, start: Point, scale: float, *, nearby: PartNormal | None = None, effort: Effort = Effort(),
    progress: Progress | None = None,
) -> Refined:
    """Minimise the squared error over `source` from a point where `part`, some of its rows, is fitted, with their curvature.

    `nearby`: the curvature of all rows, known at a point that is near.
    """
    curvature, enough = PartCurvature(part, source.size, nearby), effort.settled * overfit(source, start)

    def rule(dtype: Precision) -> _FromPart:
        return _FromPart(source, scale, curvature, dtype, enough, progress)

    end = single_then_double(rule, source, start, scale, effort=effort, progress=progress)
    return Refined(*project(end.best.point, Fit(*source.sum(FitStatistic(end.best.point), stage="loss"))), end.trace)


class _PartSystem(NamedTuple):
    here: Place[Point, None]
    gradient: Split
    known: Tangents | None
    normal: PartNormal


@dataclass(frozen=True, eq=False)
class _FromPart:
    """The step rule: least squares judges, a gradient and the metric of the part make the system, CG the trial."""

    source: Source
    scale: float
    curvature: PartCurvature
    dtype: Precision
    enough: float  # gain, as a share of the loss, that is not worth a product
    progress: Progress | None

    @property
    def passes(self) -> float:
        return 1.0 + self.curvature.part.size / self.source.size

    def judge(self, point: Point) -> Place[Point, None]:
        return Place(*project(point, Fit(*self.source.sum(FitStatistic(point, self.dtype), stage="loss"))), None)

    def system(self, here: Place[Point, None]) -> _PartSystem:
        statistic = GradientStatistic(here.point, self.dtype, tangents=self._one_block(here.point))
        _, rows, readout, affine, *known = self.source.sum(statistic, stage="gradient")
        return _PartSystem(
            here, Split(rows, readout, affine), Tangents(*known) if known else None, self.curvature.at(here.point, self.dtype))

    def _one_block(self, point: Point) -> bool:
        """Whether a product reads all rows at once, so that the tangents can wait for it, no more than a block of memory."""
        direction = split(point, point.units, point.coefficients)
        return self.dtype is np.float32 and all(reads_one_block(self.source, statistic) for statistic in (
            GradientStatistic(point, self.dtype), ProductStatistic(point, direction, self.dtype)))

    def trial(self, system: _PartSystem, damping: float) -> Trial[Point]:
        forcing = float(np.sqrt(system.here.loss / self.scale))
        metric = self.curvature.metric(system.normal, damping)
        trial = newton_trial(
            self.source, system.here.point, system.gradient, metric, forcing, self.enough * system.here.loss, known=system.known,
            progress=self.progress)
        self.curvature.used(trial.passes)
        return trial
