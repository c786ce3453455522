"""Hops at exact width: minimise, draw the cheapest units anew, minimise again, keep what is better. For few equations.

    units at random -> minimise -> [ draw some units anew -> minimise -> keep, or go back ] ... until the loss is rounding

Spare units make bad minima rare, and spend equations: a network of k units in d inputs has k(d + 1) + 1 degrees of freedom
(parameters minus hidden units; Grillo and Montúfar 2026), and near as many equations an over-wide model fits anything. At exact
width every equation beyond that number tells right from wrong. Bad minima are left by hops instead: between one and half of the
units are drawn anew, those that cost least to remove (|C_i|² over the diagonal of the inverse Gram matrix, exact and free), in an
order that chance blurs. A hop that ends at a slightly higher loss may be kept as well (a small temperature).

With fewer than two equations per unknown wrong units follow the labels with large readouts that cancel each other. A penalty on
squared readouts, `hop_penalty` per row, makes such minima expensive and moves the right one by next to nothing; minima near the
lowest so far are minimised again without it. With more equations there is none: beside bad minima that leave a thousandth of the
variation it would be what the hops minimise. With noise no loss is rounding, and hops end after a number (`search_few_equations`
in `wide.py`). They follow each other on one core: the same bits for any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from laybare.numerics.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.numerics.shapes import Array, report_progress
from laybare.search import settings
from laybare.search.settings import SearchContext
from laybare.solver import Effort, Iterate, Trace, TraceRow, best_so_far
from laybare.solver.dense import HeldRows, Projected
from laybare.solver.normal import project_on
from laybare.solver.point import FittedPoint

HopFit: TypeAlias = Iterate[Array, Projected]


def search_by_hops(context: SearchContext, units: Array, hops: int) -> FittedPoint:
    """The best fit of as many units as are given, by at most this many hops from there."""
    chain, rules = _Chain.of(context, len(units)), settings.SEARCH
    with best_so_far(view=chain.result):
        here = chain.minimise(units)
        best, lowest, stale = chain.without_penalty(here), here.loss, 0
    with best_so_far(lambda: chain.result(best), chain.result):
        for hop in range(hops):
            if best.loss <= SOLVED_LOSS * context.scale:
                break
            detail = f"relative loss {best.loss / context.scale:.1e}"
            report_progress(context.progress, "hopping", hop + 1, hops, detail)
            again = stale >= rules.stale_hops
            new = chain.minimise(context.draw_units(len(units)) if again else redraw_units(context, here))
            if again or new.loss < here.loss * (1.0 + rules.hop_temperature * context.rng.exponential()):
                here = new
                if again or new.loss < lowest * (1.0 + rules.hop_temperature):
                    best = min(best, chain.without_penalty(new), key=lambda fit: fit.loss)
            stale = 0 if again or new.loss < rules.hop_progress * lowest else stale + 1
            lowest = new.loss if again else min(lowest, new.loss)
    return chain.result(best)


def redraw_units(context: SearchContext, here: HopFit) -> Array:
    """The units with one to half of them drawn anew, cheap ones first."""
    width, rng = len(here.point), context.rng
    count = int(rng.integers(1, max(2, width // 2 + 1)))
    order = np.argsort(here.sums.removal_costs * np.exp(settings.SEARCH.hop_blur * rng.standard_normal(width)))
    units = here.point.copy()
    units[order[:count]] = context.draw_units(count)
    return units


@dataclass(frozen=True, eq=False)
class _Chain:
    """What every hop of a search shares: the rows with and without the penalty, and the effort of a fit."""

    context: SearchContext
    rows: HeldRows
    penalised: HeldRows
    effort: Effort

    @staticmethod
    def of(context: SearchContext, width: int) -> _Chain:
        rules, rows = settings.SEARCH, HeldRows.of(context.source, context.model, context.scale)
        effort = Effort(
            max_steps=rules.hop_steps, stall_steps=1, stall_gain=rules.hop_gain, gain_tol=0.0, kink_tol=0.0, floor=ROUNDING_LOSS)
        few = context.equations < rules.penalty_up_to * context.count_parameters(width)
        penalised = replace(rows, penalty=rules.hop_penalty * context.source.size) if few else rows
        return _Chain(context, rows, penalised, effort)

    def minimise(self, units: Array) -> HopFit:
        return self.penalised.minimise(units, self.effort, self.context.progress)

    def without_penalty(self, fit: HopFit) -> HopFit:
        """The minimum of the squared error alone near a fit."""
        if self.penalised is self.rows:
            return fit
        return self.rows.minimise(fit.point, self.effort, self.context.progress)

    def result(self, best: HopFit) -> FittedPoint:
        """The best fit with its readout, and the steps that led there from its start."""
        source = self.context.source
        point, _ = project_on(source, self.context.start(best.point))
        point, loss = project_on(source, point)  # of a small residual: the loss keeps its digits
        last = TraceRow(loss / self.context.scale, 0.0, 0.0, best.trace.rows[-1].seconds, best.trace.samples)
        return FittedPoint(point, loss, None, Trace((*best.trace.rows, last), best.trace.reason), source.size)
