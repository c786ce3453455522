"""A descent whose slopes are taken in single precision for as long as that is enough, and in double from there on.

Residuals that are thousands of times their rounding have slopes that are good to a thousandth, which a Newton step does not need
to be. With noise that is always so: the rounding of a slope, averaged over the samples, is a millionth of its standard error. A
single-precision run that ends for want of gain therefore ends for good; one that ends at its floor, or finds no step that lowers
the loss, is continued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from laybare.damping import Arrival, Effort, Rule, damped_descent
from laybare.levels import DIGITS_LOSS, SINGLE_LOSS
from laybare.linear_algebra import Precision
from laybare.refinement.levenberg import overfit
from laybare.refinement.normal import Point
from laybare.shapes import Progress
from laybare.source import Source

K = TypeVar("K")
Y = TypeVar("Y")


def single_then_double(
    rule: Callable[[Precision], Rule[Point, K, Y]], source: Source, start: Point, scale: float, *,
    effort: Effort, before: int = 0, progress: Progress | None = None,
) -> Arrival[Point, K]:
    """Descend by the rule of either precision; `before` passes were made already."""
    share, effort = overfit(source, start), replace(effort, floor=max(effort.floor, DIGITS_LOSS))
    coarse = replace(effort, floor=max(effort.floor, SINGLE_LOSS))
    first = damped_descent(
        rule(np.float32), start, scale, effort=coarse, size=source.size, overfit=share, before=before, progress=progress)
    rows = first.trace.rows
    left = effort.max_steps - (len(rows) - 1)
    if rows[-1].loss <= effort.floor or first.trace.reason not in ("floor", "flat") or left == 0:
        return first
    rest = replace(effort, max_steps=left, damping=min(rows[-1].damping, effort.damping))
    last = damped_descent(
        rule(np.float64), first.best.point, scale, effort=rest, size=source.size, overfit=share, progress=progress)
    later = last.trace._replace(rows=last.trace.rows[1:] or last.trace.rows)  # it begins where the first run ended
    return replace(last, trace=first.trace.then(later))
