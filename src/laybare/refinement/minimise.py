"""One entry to the solvers. Which of them depends on the cost of a step, for n rows, P unknowns and n·k·d for a gradient:

- few samples: the normal equations of all rows, n·P² a step (`levenberg.py`), or once for several steps where that is dear;
- many samples per unknown: first the normal equations of a part of the rows, to the part's own minimum, which is as far from the
  truth as n₁ rows tell, then all rows: by conjugate gradients in the metric of the part, each product at the price of a gradient,
  or by their own normal equations where P is so small that these are no dearer;
- more unknowns than a matrix is worth: conjugate gradients in a Kronecker metric (`newton_cg.py`).
"""

from __future__ import annotations

from dataclasses import replace

from laybare.damping import Effort
from laybare.refinement.levenberg import Refined, levenberg_marquardt, overfit, project
from laybare.refinement.newton_cg import newton_cg
from laybare.refinement.normal import Fit, FitStatistic, Point
from laybare.refinement.part_curvature import PartNormal
from laybare.refinement.part_newton import newton_from_part
from laybare.refinement.parts import some_rows
from laybare.shapes import Progress
from laybare.source import Source
from laybare.source.sums import even_pair

DENSE_LIMIT = 2000
"""Hidden parameters up to which the normal matrix (32 MB there) is formed and factored."""

ROWS_AN_UNKNOWN, MANY = 8, 3
"""Rows of the part per unknown (its metric then has condition number 4.4), and how many times as many are worth a part."""

PRODUCT = 6
"""Operations of a product with JᵀJ per row and unknown; the normal equations take as many as there are unknowns."""

SMALL = 100
"""Unknowns up to which n·P² costs less than the five or six gradients of a step by products: 50 against 6 · 15 ms at P = 41 and
n = 100,000, 3.8 against 6 · 0.055 s at P = 1041."""

CHEAP = 5e8
"""n·P² below which a step is over in some milliseconds: a part would only add passes."""

DEAR = 1e9
"""n·P² beyond which normal equations serve for several steps, as the metric of conjugate gradients."""

PART_SETTLED, PART_ROUGH = 0.1, 0.01
"""When the part has been fitted: what is left to gain there is a tenth of what its own noise makes."""


def minimise(
    source: Source, start: Point, scale: float, *, near: bool = False, effort: Effort = Effort(), progress: Progress | None = None
) -> Refined:
    """Refine `start` to the nearest minimum of the squared error; `scale` is the centred sum of squares of y.

    `near`: all rows, or as many as a part would have, have been fitted already: a part has nothing to tell but its curvature.
    """
    if start.units.size > DENSE_LIMIT:
        return newton_cg(source, start, scale, effort=effort, progress=progress)
    rows = part_rows(source, start)
    if source.size < MANY * rows or source.size * _numbers(start) ** 2 < CHEAP:
        return _dense(source, start, scale, effort, progress)
    if near and _by_products(source, start):
        return newton_from_part(source, some_rows(source, rows), start, scale, effort=effort, progress=progress)
    return _part_first(source, some_rows(source, rows), start, scale, effort, progress)


def deciding_refit(
    source: Source, start: Point, scale: float, *, nearby: PartNormal | None = None, effort: Effort = Effort(),
    progress: Progress | None = None,
) -> Refined:
    """The same for a refit whose loss decides something. Cut short it would decide wrongly: an interrupt is passed on.

    With the curvature of all rows `nearby` there is no need for a part to begin with.
    """
    if nearby is not None and (_by_products(source, start) or dear(source, start)):
        part = some_rows(source, part_rows(source, start)) if _by_products(source, start) else source
        refined = newton_from_part(source, part, start, scale, nearby=nearby, effort=effort, progress=progress)
    else:
        refined = minimise(source, start, scale, effort=effort, progress=progress)
    refined.trace.pass_on_interrupt()
    return refined


def _by_products(source: Source, point: Point) -> bool:
    """Whether all rows are so many that products with them are cheaper than their normal equations."""
    return point.units.size <= DENSE_LIMIT and _numbers(point) > SMALL and source.size >= MANY * part_rows(source, point)


def part_rows(source: Source, point: Point) -> int:
    """Rows that give ROWS_AN_UNKNOWN equations for each unknown; units with few outputs share what a row tells of them.

    Of very many samples more, as many as cost no more than a product with all rows: the part's minimum and its metric are then
    so near to those of all rows that few products are left to do.
    """
    unknowns = _numbers(point)
    return even_pair(max(-(-ROWS_AN_UNKNOWN * unknowns // min(source.outputs, point.width)), PRODUCT * source.size // unknowns))


def _part_first(
    source: Source, part: Source, start: Point, scale: float, effort: Effort, progress: Progress | None
) -> Refined:
    rough = replace(effort, settled=max(effort.settled, PART_SETTLED), rough=max(effort.rough, PART_ROUGH))
    begun = _dense(part, start, scale * part.size / source.size, rough, progress)
    if begun.trace.reason == "interrupted":
        return Refined(*project(begun.point, Fit(*source.sum(FitStatistic(begun.point), stage="loss"))), begun.trace)
    point = start if _no_news(begun, overfit(part, start)) else begun.point
    if _numbers(start) <= SMALL:
        full = levenberg_marquardt(source, point, scale, effort=effort, progress=progress)
    else:
        full = newton_from_part(source, part, point, scale, effort=effort, progress=progress)
    return full._replace(trace=begun.trace.then(full.trace))


def _dense(source: Source, start: Point, scale: float, effort: Effort, progress: Progress | None) -> Refined:
    """By the normal equations of all rows, which are formed anew for every step if they are cheap."""
    if not dear(source, start):
        return levenberg_marquardt(source, start, scale, effort=effort, progress=progress)
    return newton_from_part(source, source, start, scale, effort=effort, progress=progress)


def dear(source: Source, point: Point) -> bool:
    """Whether normal equations of all rows should serve for several steps."""
    return source.size * _numbers(point) ** 2 >= DEAR


def _no_news(begun: Refined, share: float) -> bool:
    """Whether the part gained no more than twice what noise grants it: the start may have been better for all rows."""
    return begun.trace.rows[0].loss <= (1.0 + 2.0 * share) * begun.trace.loss


def _numbers(point: Point) -> int:
    return int(point.units.size + point.coefficients.size)
