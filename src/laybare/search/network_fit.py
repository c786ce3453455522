"""From a start to a fit: a search on some of the rows, then the signs, and all rows for the last digits.

The search sees only as many rows as its free parameters call for, and more only if that fails. What it finds is refined on all
rows, by then in its own activation if some rows have decided the signs.

Unsupported units: pruning inside the search assumes equal noise everywhere and exact labels, so units may follow noise that is
larger in some places, or the last digits of float32. The certificate allows for both; where it finds a unit of a width that was
not given unsupported, its own measure of the least needed unit decides here as well.

Where there are fewer units than inputs, the search begins in the few directions of the inputs along which the outputs bend. For
white normal inputs the second moment of the residual of a linear fit has the span of the weights (Stein's identity),

    E[(y - c - β·x)(x xᵀ - I)] = Σᵢ aᵢ c₂(bᵢ) wᵢ wᵢᵀ,

and y is a function of x in that span, plus a linear part. A search there has r + 1 parameters per unit instead of d + 1, and a
step costs (r/d)² of one with all inputs. What the estimated span misses is noise to that search: its units are a start for a fit
with all inputs, not an end. Where inputs are not normal the span may be wrong; then the fit is poor, and is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.assembly.sign_decoding import sign_free_model
from laybare.certificate import Claim, ClaimName
from laybare.certificate.evidence import bic_penalty_per_unit
from laybare.certificate.fitted_network import evaluate_fit
from laybare.certificate.unit_support import drop_least_needed_unit
from laybare.moments import SecondMoment, measure_with_noise
from laybare.moments.regression import HermiteFit, Residual, fit_hermite
from laybare.networks import Layer, Network
from laybare.numerics.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.numerics.shapes import Array, report_progress
from laybare.search import settings
from laybare.search.settings import SearchContext, Trust
from laybare.search.signs import choose_signs, match_signs, restore_linear_part
from laybare.search.wide import run_with_spares, search_few_equations, search_with_spares
from laybare.solver import Effort, FitInterrupt, Trace, best_so_far, options
from laybare.solver.minimise import minimise
from laybare.solver.normal import Fit, FitStatistic, elimination_order, project_on
from laybare.solver.point import FittedPoint, Point, keep_units, network_of, parameter_count, unit_rows
from laybare.source import Source
from laybare.source.derived import ProjectedInputs
from laybare.source.problem import Problem, ladder_from, prefix_or_all, total_variation


class Subspace(NamedTuple):
    """Where outputs bend: an orthonormal basis (dim, r), and the best linear function of all inputs."""

    basis: Array
    linear: HermiteFit


def estimate_subspace(source: Source, width: int | None) -> Subspace | None:
    """As many directions as the width, or as stand out from the noise; None where that saves little.

    For white inputs; the moments of several outputs are placed side by side. Two passes, n·d² operations.
    """
    most = settings.SEARCH.subspace_share * source.dim
    if width is not None and width > most:
        return None
    linear = fit_hermite(source, 1)
    moment = measure_with_noise(Residual(source, linear), SecondMoment(), stage="second moment")
    vectors, values, _ = np.linalg.svd(np.hstack(list(moment.value)))
    edge = float(np.linalg.norm(np.hstack(list(moment.noise)), 2))  # a direction of noise too many costs less than one too few
    count = int(np.sum(values > edge)) if width is None else width
    return Subspace(vectors[:, :count], linear) if 0 < count <= most else None


def search_in_subspace(context: SearchContext, width: int | None, subspace: Subspace, rows: int) -> FittedPoint:
    """A search with spares on this many rows, projected to the subspace, of the residual of the linear function.

    Its units on all inputs, its loss per row; two runs count as agreed only if they leave little. A width that is not given is at
    least the dimension of the subspace.
    """
    basis, r = subspace.basis, subspace.basis.shape[1]
    low = ProjectedInputs(Residual(prefix_or_all(context.source, rows), subspace.linear), basis).kept()
    inside = context._replace(source=low, scale=total_variation(low), known=None)
    if width is None:
        inside = inside.knowing(inside.draw_units(r), "complete")

    def on_all_inputs(found: FittedPoint) -> FittedPoint:
        units = found.point.units
        return replace(found, point=context.start(np.hstack([units[:, :r] @ basis.T, units[:, r:]])))

    with best_so_far(view=on_all_inputs):
        found = search_with_spares(inside, width)
    trusted = found.loss <= settings.SEARCH.subspace_residual * inside.scale
    return replace(on_all_inputs(found), loss=found.loss / low.size, runs=found.runs if trusted else 0)


class NetworkFit(NamedTuple):
    """A fit in its own activation, on white inputs: the network, its squared error, and that as a share of the variation of y.

    `trace` has the solver's steps, `claims` what was learnt on the way, `searched` the search and what it had found before signs
    were chosen (None for a fit without one), `runs` the number of runs until two agreed (0: none did; None: one is enough).
    """

    network: Network
    loss: float
    share: float
    trace: Trace | None = None
    claims: tuple[Claim, ...] = ()
    searched: tuple[SearchContext, FittedPoint] | None = None
    runs: int | None = None

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.share <= SOLVED_LOSS

    @property
    def agreed(self) -> bool:
        """Whether a second run, from other units, ended at the same fit."""
        return self.searched is not None and self.searched[1].agreed

    @property
    def interrupted(self) -> bool:
        return self.trace is not None and self.trace.interrupted


def random_start(context: SearchContext, activation: Activation, width: int | None) -> Network:
    """Units in random directions with readout zero: the start of a search that knows nothing."""
    width, dim, outputs = width or settings.SEARCH.first_width, context.source.dim, context.source.outputs
    rows = context.draw_units(width + context.search.count_spares(width))
    layer = Layer(rows[:, :dim], rows[:, -1] if context.model.biases else None, activation)
    return Network(layer, np.zeros(len(rows)) if outputs == 1 else np.zeros((len(rows), outputs)))


def find_fit(context: SearchContext, first: Network, width: int | None, trust: Trust) -> NetworkFit:
    """The best fit found from the units of `first`, in its activation, with this width or as many units as the data call for."""
    point = context.point_of(first)
    search = context.knowing(unit_rows(point, point.units, point.coefficients).units, trust)

    def search_and_finish() -> NetworkFit:
        return finish_fit(context, _search(search, width), first.activation)

    return fit_or_best(context, first.activation, search_and_finish, width)


def fit_or_best(
    context: SearchContext, activation: Activation, fit: Callable[[], NetworkFit], width: int | None = None
) -> NetworkFit:
    """The fit; if it is interrupted, the best until then, with no more units than were asked for. Handles interrupts of fits."""
    try:
        return fit()
    except FitInterrupt as stop:
        best: FittedPoint = stop.best
    point, loss = project_on(context.source, best.point)
    if width is not None and point.width > width:
        order, _ = elimination_order(point, Fit(*context.source.sum(FitStatistic(point), stage="pruning")))
        point, loss = project_on(context.source, keep_units(point, np.sort(order[point.width - width :])))
    network = context.network_of(point)
    if point.linear and point.activation == sign_free_model(activation, biases=point.biases).activation:
        network = match_signs(network, activation, loss, context.scale).network
    return _network_fit(context, network, loss, best.trace._replace(reason="interrupted"))


def _search(context: SearchContext, width: int | None) -> FittedPoint:
    """Up the row ladder, until a search fits or two runs agree. Its loss is scaled up to all rows."""
    found, rows = None, context.source
    assert context.known is not None  # a search begins with units
    for part in ladder_from(rows, _first_rows(context, width or 2 * len(context.known))):
        with best_so_far(found):
            found = _search_on(context, part, width)
        if part is rows or context.on(part).is_solved(found) or found.agreed:
            break
        shorter = replace(context.search, hops=min(context.search.hops, settings.SEARCH.later_repairs))
        trust: Trust = "partial" if context.trust == "random" else context.trust
        context = context._replace(search=shorter, known=found.point.units, trust=trust)
    assert found is not None  # the ladder has a rung
    return found if part is rows else replace(found, loss=found.loss * rows.size / part.size)


def _search_on(context: SearchContext, part: Source, width: int | None) -> FittedPoint:
    """Search on all rows or on a prefix. A prefix ends at rounding, and begins in a subspace where that may save time."""
    if part is context.source:
        return search_few_equations(context, width)
    effort = context.search.effort
    shallow = replace(context.search, effort=replace(effort, floor=max(effort.floor, ROUNDING_LOSS)))
    few = context.on(part)._replace(search=shallow)
    low = None if context.trust == "complete" else try_subspace(context, width, part.size)
    if low is None:
        return search_with_spares(few, width)
    return _fit_from_subspace(few, width, low) or search_with_spares(few.knowing(low.point.units, "complete"), width)


def try_subspace(context: SearchContext, width: int | None, rows: int) -> FittedPoint | None:
    """A search in a subspace, where one with all inputs is expensive and there are many more inputs than units."""
    source, model, rules = context.source, context.model, settings.SEARCH
    parameters = rows * source.outputs / rules.first_rows
    if not model.linear or not model.biases or not options.COST.is_expensive(rows, parameters):
        return None
    subspace = estimate_subspace(source, width)
    if subspace is None:
        return None
    few = max(rules.fewest_rows, rows * (subspace.basis.shape[1] + 1) // (source.dim + 1))
    return search_in_subspace(context, width, subspace, few)


def _fit_from_subspace(context: SearchContext, width: int | None, low: FittedPoint) -> FittedPoint | None:
    """Units that two runs in the subspace agreed on, fitted to all inputs; None if that does not fit better.

    A width that was not given may be too small there: spares are tried beside, and None if one of them is needed.
    """
    if not low.agreed:
        return None
    if width is None:
        found = run_with_spares(context, low.point.units)
    else:
        found = _minimise_early(context, low.point)
    better = found.loss / context.source.size < low.loss and found.point.width <= low.point.width
    return replace(found, trace=low.trace.then(found.trace), runs=low.runs) if better else None


def finish_fit(context: SearchContext, found: FittedPoint, activation: Activation) -> NetworkFit:
    """What a search found, in its own activation, refined on all rows.

    If some rows leave no doubt about the signs, all rows are fitted once. A fit that is then worse than expected had wrong signs,
    and all rows decide them. If units alone then fit all rows worse than the search did, by more than the penalty of a linear
    part, the network has one of its own.
    """
    whole, rules, claims = found.rows == context.source.size, settings.SEARCH, list[Claim]()
    network = folded = context.network_of(found.point)
    matched = match_signs(folded, activation, found.loss, context.scale) if found.point.linear else None
    if matched is not None:
        if not whole and not matched.signs.unique:
            return finish_fit(context, _fit_all_rows(context, found), activation)
        with best_so_far(found, lambda refitted: None):
            network, claim = choose_signs(context, folded, matched, found.loss)
        claims = [claim]
    effort = Effort(gain_tol=rules.last_gain_tol, kink_tol=rules.last_kink_tol)
    effort = effort if whole else replace(effort, damping=rules.last_damping)
    with best_so_far(found):
        again = refit(context, network, near=True, effort=effort)
    if not whole and degraded_on_all_rows(context, found, again.loss):
        return finish_fit(context, _fit_all_rows(context, found), activation)
    if whole and matched is not None and network.linear is None:
        restored = restore_linear_part(context, folded, activation, found.loss, again.loss)
        if restored is not None:
            network, *claims = restored
            with best_so_far(found):
                again = refit(context, network, near=True, effort=effort)
    runs = found.runs if found.loss > SOLVED_LOSS * context.scale else None
    trace = found.trace if again.trace is None else found.trace.then(again.trace)
    return again._replace(trace=trace, claims=(*claims, *again.claims), searched=(context, found), runs=runs)


def fit_narrower(problem: Problem, fit: NetworkFit) -> NetworkFit:
    """The same without units that the samples do not support, signs chosen again; only for a fit that was searched."""
    assert fit.searched is not None
    context, found = fit.searched
    found = drop_unsupported_units(problem, context, _fit_all_rows(context, found))
    return finish_fit(context, found, fit.network.activation)


def drop_unsupported_units(problem: Problem, context: SearchContext, found: FittedPoint) -> FittedPoint:
    """The fit without units that gain less than Schwarz's penalty of their parameters.

    Two refits for every unit that is tested, and one for every unit that goes; the last unit stays.
    """
    width, rules = found.point.width, settings.SEARCH
    least = max(1, width - rules.narrow_by) if width <= rules.narrow_up_to else width
    while found.point.width > least:
        fitted = evaluate_fit(problem.given(context.network_of(found.point)), problem, context.progress)
        fewer = drop_least_needed_unit(fitted)
        if fewer.unit_gain >= bic_penalty_per_unit(fitted):
            break
        report_progress(context.progress, "narrowing", detail=f"{fewer.point.width} units")
        again = minimise(context.source, fewer.point, context.scale, progress=context.progress)
        found = replace(again, trace=found.trace.then(again.trace), runs=found.runs)
    return found


def _fit_all_rows(context: SearchContext, found: FittedPoint) -> FittedPoint:
    """What a search found, its signs still free, refined on all rows."""
    if found.rows == context.source.size:
        return found
    last = _minimise_early(context, found.point, near=True)
    return replace(last, trace=found.trace.then(last.trace), runs=found.runs)


def _minimise_early(context: SearchContext, start: Point, *, near: bool = False) -> FittedPoint:
    """The nearest minimum, as far as the choice of signs calls for."""
    effort = context.search.effort
    effort = replace(effort, gain_tol=max(effort.gain_tol, settings.SEARCH.all_rows_gain_tol))
    return minimise(context.source, start, context.scale, near=near, effort=effort, progress=context.progress)


def degraded_on_all_rows(context: SearchContext, found: FittedPoint, loss: float) -> bool:
    """Whether a fit to all rows leaves more than expected from the fit to some, which has followed their noise."""
    followed = min(0.5, parameter_count(found.point) / (found.rows * context.source.outputs))
    return loss > max(settings.SEARCH.degraded * found.loss / (1.0 - followed), SOLVED_LOSS * context.scale)


def refit(context: SearchContext, network: Network, *, near: bool = False, effort: Effort = Effort()) -> NetworkFit:
    """From a network on white inputs to the nearest minimum on all rows. `near`: it has been fitted to some of the rows."""
    start = context.point_of(network)
    found = minimise(context.source, start, context.scale, near=near, effort=effort, progress=context.progress)
    refitted = network_of(found.point, vector=network.readout.ndim == 1)
    return _network_fit(context, refitted, found.loss, found.trace)


def evaluate_start(context: SearchContext, network: Network) -> NetworkFit:
    """The loss of a network as it is, without a fit: what a literal form gives."""
    statistic = FitStatistic(context.point_of(network))
    return _network_fit(context, network, float(context.source.sum(statistic, stage="loss")[2]))


def _network_fit(context: SearchContext, network: Network, loss: float, trace: Trace | None = None) -> NetworkFit:
    claims = () if trace is None else (_finished_claim(trace),)
    return NetworkFit(network, loss, loss / context.scale, trace, claims)


def _finished_claim(trace: Trace) -> Claim:
    steps = len(trace.rows) - 1
    return Claim(
        ClaimName.REFINEMENT_FINISHED, float(trace.finished), 1.0, trace.finished, "tested",
        f"the solver took {steps} step{'s' * (steps != 1)} and stopped: {trace.reason}; relative loss {trace.loss:.1e}.")


def _first_rows(context: SearchContext, width: int) -> int:
    """Rows of the first search."""
    parameters, rules = context.count_parameters(width + context.search.count_spares(width)), settings.SEARCH
    return max(rules.fewest_rows, rules.first_rows * parameters // context.source.outputs)
