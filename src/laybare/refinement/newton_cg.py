"""Gauss-Newton by conjugate gradients: one rule for networks that are too large for their normal equations, and for many samples.

Each outer step solves (JᵀJ + μD) δ = Jᵀr by preconditioned CG, J never formed (`conjugate.py`, `products.py`). The metric is

- a Kronecker product (`newton_cg`), where the normal equations would not fit: above about 2000 hidden parameters. While the fit
  is far off, a part of the samples decides the steps; the last ones see all of them;
- the normal equations of a part of the rows (`newton_from_part`), where those of all would cost too much: many samples per
  parameter. The part has been fitted before (`minimise.py`), and the minimum over all rows is next to its minimum.

The forcing term (how far CG goes) shrinks with the residual, so that convergence is superlinear near an exact fit. Slopes are
taken in single precision until they need more, which noisy data never do: the rounding of a slope is a millionth of its standard
error. A step is judged by the pass that also gives the slope of the next one.
Source: Dembo, Eisenstat, Steihaug (1982) for the forcing terms; Byrd et al. (2011) for curvature from a part of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from laybare.damping import Effort, Place, Trial, damped_descent
from laybare.levels import DIGITS_LOSS, SINGLE_LOSS
from laybare.refinement.conjugate import DampedSystem, Direction, Metric
from laybare.refinement.kronecker import KroneckerCurvature
from laybare.refinement.levenberg import Refined, overfit, project, unit_rows
from laybare.refinement.normal import Fit, FitStatistic, Point
from laybare.refinement.part_curvature import PartCurvature
from laybare.refinement.products import Precision, Slope, SlopeStatistic, Split, joined
from laybare.shapes import Progress
from laybare.source import Source

FORCING = 0.1
TIGHTEST = 1e-4
"""Single-precision products carry CG to about 1e-5; the outer iteration does the rest."""

FAR = 1e-2
"""Relative loss above which a sub-sample decides the step."""

ENOUGH = 4
"""Samples a parameter in a sub-sample."""


def newton_cg(
    source: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error from `start` without forming normal equations; `scale` as in `levenberg_marquardt`."""
    wanted = ENOUGH * (start.units.size + start.coefficients.size)
    if 2 * wanted >= source.size:
        return _by_kronecker(source, start, scale, effort, progress)
    part, far = source.take(wanted), replace(effort, floor=max(effort.floor, FAR))
    begun = _by_kronecker(part, start, scale * part.size / source.size, far, progress)
    full = _by_kronecker(source, begun.point, scale, effort, progress)
    return full._replace(trace=begun.trace.then(full.trace))


def newton_from_part(
    source: Source, part: Source, start: Point, scale: float, *, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Minimise the squared error over `source` from a point where `part`, some of its rows, is fitted, with their curvature."""
    return _descend(source, start, scale, effort, PartCurvature.of(part, source.size, start), progress)


def _by_kronecker(source: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> Refined:
    return _descend(source, start, scale, effort, KroneckerCurvature.of(source), progress)


Y = TypeVar("Y")


@runtime_checkable
class Curvature(Protocol[Y]):
    """Where metrics come from: sums at a point, then a factor for each damping."""

    @property
    def passes(self) -> float:
        """Passes over all rows that the sums take."""

    @property
    def close(self) -> bool:
        """Whether a step of the metric alone promises about as much as that of all rows."""

    def at(self, here: Place[Point, Slope]) -> Y: ...

    def metric(self, sums: Y, damping: float) -> Metric: ...


def _descend(
    source: Source, start: Point, scale: float, effort: Effort, curvature: Curvature[Y], progress: Progress | None
) -> Refined:
    """Slopes in single precision down to where they are too coarse; if that is not where the fit ends, the rest in double."""
    effort = replace(effort, floor=max(effort.floor, DIGITS_LOSS))
    share = overfit(source, start)
    point, _ = project(start, Fit(*source.sum(FitStatistic(start), stage="loss")))
    single = _Products(source, scale, curvature, np.float32, effort.settled * share if curvature.close else 0.0)
    coarse = replace(effort, floor=max(effort.floor, SINGLE_LOSS))
    end = damped_descent(single, point, scale, effort=coarse, size=source.size, before=2, overfit=share, progress=progress)
    best, trace = end.best, end.trace
    left = effort.max_steps - (len(trace.rows) - 1)
    if trace.loss <= effort.floor or trace.reason not in ("floor", "flat") or left == 0:
        return Refined(*project(best.point, Fit(*source.sum(FitStatistic(best.point), stage="loss"))), trace)
    rest = replace(effort, max_steps=left, damping=min(trace.rows[-1].damping, effort.damping))
    double = replace(single, dtype=np.float64)
    end = damped_descent(double, best.point, scale, effort=rest, size=source.size, overfit=share, progress=progress)
    trace = trace.then(end.trace._replace(rows=end.trace.rows[1:] or end.trace.rows))
    return Refined(end.best.point, end.best.loss, trace)


@dataclass(frozen=True, eq=False)
class _System(Generic[Y]):
    here: Place[Point, Slope]
    sums: Y


@dataclass(frozen=True, eq=False)
class _Products(Generic[Y]):
    """The step rule: CG from products; the pass that judges a point also gives its slope."""

    source: Source
    scale: float
    curvature: Curvature[Y]
    dtype: Precision
    enough: float  # gain, as a share of the loss, that is not worth a product

    @property
    def passes(self) -> float:
        return self.curvature.passes

    def judge(self, point: Point) -> Place[Point, Slope]:
        slope = Slope(*self.source.sum(SlopeStatistic(point, self.dtype), stage="gradient"))
        return Place(point, float(slope.loss), slope)

    def system(self, here: Place[Point, Slope]) -> _System[Y]:
        return _System(here, self.curvature.at(here))

    def trial(self, system: _System[Y], damping: float) -> Trial[Point]:
        here, point, slope = system.here, system.here.point, system.here.sums
        gradient = Direction(*joined(point, Split(slope.rows, slope.readout, slope.affine)))
        tolerance = max(TIGHTEST, min(FORCING, float(np.sqrt(here.loss / self.scale))))
        matrix = DampedSystem(self.source, point, self.curvature.metric(system.sums, damping))
        found = matrix.solve(gradient, tolerance, self.enough * here.loss)
        moved = unit_rows(point, point.units + found.step.rows, point.coefficients + found.step.coefficients)
        return Trial(moved, found.gain, float(np.abs(found.step.rows).max()), found.products)
