"""From a start to a fit: a search on some of the rows, then the signs, and all rows for the last digits.

The search sees only as many rows as its free parameters call for, and more only if that fails. What it finds is refined on all
rows, by then in its own activation if some rows have decided the signs.

Unsupported units: pruning inside the search assumes equal noise everywhere and exact labels, so units may follow noise that is
larger in some places, or the last digits of float32. The certificate allows for both; where it finds a unit of a width that was
not given unsupported, its own measure of the least needed unit decides here as well.

A search in the few directions of the inputs along which the outputs bend, where there are fewer units than inputs.

For white normal inputs the second moment of the residual of a linear fit has the span of the weights (Stein's identity),

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
from numpy.random import Generator

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
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.search import settings
from laybare.search.settings import Search, SearchContext, SearchStart, random_units
from laybare.search.signs import choose_signs, match_signs, restore_linear_part
from laybare.search.wide import run_with_spares, search_few_equations, search_with_spares
from laybare.solver import Effort, FitInterrupt, Trace, best_so_far, options
from laybare.solver.minimise import minimise
from laybare.solver.normal import Fit, FitStatistic, elimination_order, project_on
from laybare.solver.point import FittedPoint, Model, keep_units, network_of, parameter_count, point_of
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
    inside = context._replace(source=low, scale=total_variation(low))
    known = None if width is not None else inside.draw_units(r)

    def on_all_inputs(found: FittedPoint) -> FittedPoint:
        units = found.point.units
        return replace(found, point=context.start(np.hstack([units[:, :r] @ basis.T, units[:, r:]])))

    with best_so_far(view=on_all_inputs):
        found = search_with_spares(inside, width, SearchStart(known, "partial" if known is None else "complete"))
    trusted = found.loss <= settings.SEARCH.subspace_residual * inside.scale
    return replace(on_all_inputs(found), loss=found.loss / low.size, runs=found.runs if trusted else 0)


class SearchTask(NamedTuple):
    """What to search for, and where the search begins."""

    problem: Problem
    activation: Activation
    width: int | None
    search: Search
    rng: Generator
    progress: Progress | None = None
    start: SearchStart = SearchStart(trust="random")

    @property
    def model(self) -> Model:
        """The activation itself if signs are known, else a form in which flipping a unit changes the linear part alone."""
        biases = self.problem.biases
        return Model(self.activation, biases=biases) if self.start.signed else sign_free_model(self.activation, biases=biases)

    def on(self, source: Source, scale: float) -> SearchContext:
        """The search on some rows, or on all."""
        return SearchContext(source, self.model, self.search, scale, self.rng, self.progress)


class SearchResult(NamedTuple):
    """What a search found before signs are chosen; its loss is scaled up to all rows.

    `equations` that it saw, whether these are all, and the effort of the next fit.
    """

    fit: FittedPoint
    equations: int
    whole: bool
    effort: Effort


class NetworkFit(NamedTuple):
    """A fit in its own activation, on white inputs: the network, its squared error, and that as a share of the variation of y.

    `agreed`: a second run, from other units, ended at the same fit. `trace` has the solver's steps, `claims` what was learnt on
    the way, `searched` what the search had found before signs were chosen (None for a fit without a search), `runs` the number of
    runs until two agreed (0: none did; None: one is enough).
    """

    network: Network
    loss: float
    share: float
    agreed: bool = False
    trace: Trace | None = None
    claims: tuple[Claim, ...] = ()
    searched: SearchResult | None = None
    runs: int | None = None

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.share <= SOLVED_LOSS

    @property
    def interrupted(self) -> bool:
        return self.trace is not None and self.trace.interrupted


def random_start(task: SearchTask) -> Network:
    """Units in random directions with readout zero: the start of a search that knows nothing."""
    width, source, search = task.width or settings.SEARCH.first_width, task.problem.used, task.search
    wide, biases = width + search.count_spares(width), task.problem.biases
    rows = random_units(wide, source.dim, search.bias_scale if biases else None, task.rng)
    layer = Layer(rows[:, : source.dim], rows[:, -1] if biases else None, task.activation)
    return Network(layer, np.zeros(wide) if source.outputs == 1 else np.zeros((wide, source.outputs)))


def find_fit(task: SearchTask, first: Network) -> NetworkFit:
    """The best fit found from the units of `first`, with the width of the task or as many units as the data call for."""
    rows = _unit_rows(first, biases=task.problem.biases)
    task = task._replace(start=task.start._replace(rows=rows))

    def search_and_finish() -> NetworkFit:
        found = _search(task, _first_rows(task, task.width or 2 * len(rows)))
        return finish_fit(task.problem, found, task.activation, task.progress)

    return fit_or_best(task.problem, task.activation, search_and_finish, task.width)


def fit_or_best(
    problem: Problem, activation: Activation, fit: Callable[[], NetworkFit], width: int | None = None
) -> NetworkFit:
    """The fit; if it is interrupted, the best until then, with no more units than were asked for. Handles interrupts of fits."""
    try:
        return fit()
    except FitInterrupt as stop:
        best: FittedPoint = stop.best
    point, loss = project_on(problem.used, best.point)
    if width is not None and point.width > width:
        order, _ = elimination_order(point, Fit(*problem.used.sum(FitStatistic(point), stage="pruning")))
        point, loss = project_on(problem.used, keep_units(point, np.sort(order[point.width - width :])))
    network = network_of(point, vector=problem.used.outputs == 1)
    if point.linear and point.activation == sign_free_model(activation, biases=problem.biases).activation:
        network = match_signs(network, activation, loss, problem.variation).network
    trace = best.trace._replace(reason="interrupted")
    return _network_fit(problem, network, loss)._replace(trace=trace, claims=(_finished_claim(trace),))


def _search(task: SearchTask, rows: int) -> SearchResult:
    """From this many rows up the row ladder, until a search fits or two runs agree."""
    found = None
    for part in ladder_from(task.problem.used, rows):
        with best_so_far(found):
            found = _search_on(task, part)
        if part is task.problem.used or found.loss <= SOLVED_LOSS * _variation_of(task, part) or found.agreed:
            break
        trust = "partial" if task.start.trust == "random" else task.start.trust
        shorter = replace(task.search, hops=min(task.search.hops, settings.SEARCH.later_repairs))
        task = task._replace(search=shorter, start=task.start._replace(rows=found.point.units, trust=trust))
    assert found is not None  # the ladder has a rung
    return as_result(task, found, part)


def _search_on(task: SearchTask, part: Source) -> FittedPoint:
    """Search on all rows or on a prefix. A prefix ends at rounding, and begins in a subspace where that may save time."""
    if part is task.problem.used:
        return search_few_equations(task.on(part, task.problem.variation), task.width, task.start)
    floor = max(task.search.effort.floor, ROUNDING_LOSS)
    shallow = replace(task.search, effort=replace(task.search.effort, floor=floor))
    context = task.on(part, _variation_of(task, part))._replace(search=shallow)
    low = None if task.start.trust == "complete" else try_subspace(task, part.size)
    found = None if low is None else _fit_from_subspace(context, task.width, low)
    start = task.start if low is None else SearchStart(low.point.units, "complete")
    return found or search_with_spares(context, task.width, start)


def _variation_of(task: SearchTask, part: Source) -> float:
    """The share of these rows in the variation of y."""
    return part.size / task.problem.used.size * task.problem.variation


def as_result(task: SearchTask, found: FittedPoint, part: Source) -> SearchResult:
    """What was found on some of the rows, or on all."""
    problem = task.problem
    if part is problem.used:
        return SearchResult(found, problem.equations, True, task.search.effort)
    loss = found.loss * problem.used.size / part.size
    return SearchResult(replace(found, loss=loss), part.size * part.outputs, False, task.search.effort)


def try_subspace(task: SearchTask, rows: int) -> FittedPoint | None:
    """A search in a subspace, where one with all inputs is expensive and there are many more inputs than units."""
    source, model, rules = task.problem.used, task.model, settings.SEARCH
    parameters = rows * source.outputs / rules.first_rows
    if not model.linear or not model.biases or not options.COST.is_expensive(rows, parameters):
        return None
    subspace = estimate_subspace(source, task.width)
    if subspace is None:
        return None
    few = max(rules.fewest_rows, rows * (subspace.basis.shape[1] + 1) // (source.dim + 1))
    return search_in_subspace(task.on(source, task.problem.variation), task.width, subspace, few)


def _fit_from_subspace(context: SearchContext, width: int | None, low: FittedPoint) -> FittedPoint | None:
    """Units that two runs in the subspace agreed on, fitted to all inputs; None if that does not fit better.

    A width that was not given may be too small there: spares are tried beside, and None if one of them is needed.
    """
    if not low.agreed:
        return None
    if width is None:
        found = run_with_spares(context, low.point.units)
    else:
        effort = replace(
            context.search.effort, gain_tol=max(context.search.effort.gain_tol, settings.SEARCH.all_rows_gain_tol))
        found = minimise(context.source, low.point, context.scale, effort=effort, progress=context.progress)
    better = found.loss / context.source.size < low.loss and found.point.width <= low.point.width
    if not better:
        return None
    return replace(found, trace=low.trace.then(found.trace), runs=low.runs)


def finish_fit(problem: Problem, searched: SearchResult, activation: Activation, progress: Progress | None) -> NetworkFit:
    """What a search found, in its own activation, refined on all rows.

    If some rows leave no doubt about the signs, all rows are fitted once. A fit that is then worse than expected had wrong signs,
    and all rows decide them. If units alone then fit all rows worse than the search did, by more than the penalty of a linear
    part, the network has one of its own.
    """
    found, rules, claims = searched.fit, settings.SEARCH, tuple[Claim, ...]()
    network = network_of(found.point, vector=problem.used.outputs == 1)
    matched = match_signs(network, activation, found.loss, problem.variation) if found.point.linear else None
    if matched is not None:
        if not searched.whole and not matched.signs.unique:
            return finish_fit(problem, _fit_all_rows(problem, searched, progress), activation, progress)
        with best_so_far(found, lambda refitted: None):
            network, claim = choose_signs(
                problem.used, network, matched, found.loss, problem.variation, biases=problem.biases)
        claims = (claim,)
    effort = Effort(gain_tol=rules.last_gain_tol, kink_tol=rules.last_kink_tol)
    effort = effort if searched.whole else replace(effort, damping=rules.last_damping)
    with best_so_far(found):
        again = refit(problem, network, near=True, effort=effort, progress=progress)
    if not searched.whole and degraded_on_all_rows(problem, searched, again.loss):
        return finish_fit(problem, _fit_all_rows(problem, searched, progress), activation, progress)
    if searched.whole and matched is not None and network.linear is None:
        folded = network_of(found.point, vector=problem.used.outputs == 1)
        restored = restore_linear_part(problem, folded, activation, found.loss, again.loss)
        if restored is not None:
            claims = (restored.claim,)
            with best_so_far(found):
                again = refit(problem, restored.network, near=True, effort=effort, progress=progress)
    runs = found.runs if found.loss > SOLVED_LOSS * problem.variation else None
    trace = found.trace if again.trace is None else found.trace.then(again.trace)
    return again._replace(agreed=found.agreed, trace=trace, claims=(*claims, *again.claims), searched=searched, runs=runs)


def fit_narrower(problem: Problem, fit: NetworkFit, *, progress: Progress | None = None) -> NetworkFit:
    """The same without units that the samples do not support, signs chosen again; only for a fit that was searched."""
    assert fit.searched is not None
    whole = _fit_all_rows(problem, fit.searched, progress)
    found = whole._replace(fit=drop_unsupported_units(problem, whole.fit, progress=progress))
    return finish_fit(problem, found, fit.network.activation, progress)


def drop_unsupported_units(problem: Problem, found: FittedPoint, *, progress: Progress | None = None) -> FittedPoint:
    """The fit without units that gain less than Schwarz's penalty of their parameters.

    Two refits for every unit that is tested, and one for every unit that goes; the last unit stays.
    """
    width, rules = found.point.width, settings.SEARCH
    least = max(1, width - rules.narrow_by) if width <= rules.narrow_up_to else width
    while found.point.width > least:
        fitted = evaluate_fit(problem.given(network_of(found.point, vector=problem.used.outputs == 1)), problem, progress)
        fewer = drop_least_needed_unit(fitted)
        if fewer.unit_gain >= bic_penalty_per_unit(fitted):
            break
        report_progress(progress, "narrowing", detail=f"{fewer.point.width} units")
        again = minimise(problem.used, fewer.point, problem.variation, progress=progress)
        found = replace(again, trace=found.trace.then(again.trace), runs=found.runs)
    return found


def _fit_all_rows(problem: Problem, searched: SearchResult, progress: Progress | None) -> SearchResult:
    """What a search found, its signs still free, refined on all rows."""
    if searched.whole:
        return searched
    found = searched.fit
    effort = replace(searched.effort, gain_tol=max(searched.effort.gain_tol, settings.SEARCH.all_rows_gain_tol))
    last = minimise(problem.used, found.point, problem.variation, near=True, effort=effort, progress=progress)
    return searched._replace(
        fit=replace(last, trace=found.trace.then(last.trace), runs=found.runs), equations=problem.equations, whole=True)


def degraded_on_all_rows(problem: Problem, searched: SearchResult, loss: float) -> bool:
    """Whether a fit to all rows leaves more than expected from the fit to some, which has followed their noise."""
    followed = min(0.5, parameter_count(searched.fit.point) / searched.equations)
    return loss > max(settings.SEARCH.degraded * searched.fit.loss / (1.0 - followed), SOLVED_LOSS * problem.variation)


def refit(
    problem: Problem, network: Network, *, near: bool = False, effort: Effort = Effort(), progress: Progress | None = None
) -> NetworkFit:
    """From a network on white inputs to the nearest minimum on all rows. `near`: it has been fitted to some of the rows."""
    point = point_of(network, biases=problem.biases, offset=True, linear=network.linear is not None)
    found = minimise(problem.used, point, problem.variation, near=near, effort=effort, progress=progress)
    fit = _network_fit(problem, network_of(found.point, vector=network.readout.ndim == 1), found.loss)
    return fit._replace(trace=found.trace, claims=(_finished_claim(found.trace),))


def evaluate_start(problem: Problem, network: Network) -> NetworkFit:
    """The loss of a network as it is, without a fit: what a literal form gives."""
    point = point_of(network, biases=problem.biases, offset=True, linear=network.linear is not None)
    return _network_fit(problem, network, float(problem.used.sum(FitStatistic(point), stage="loss")[2]))


def _network_fit(problem: Problem, network: Network, loss: float) -> NetworkFit:
    return NetworkFit(network, loss, loss / problem.variation)


def _finished_claim(trace: Trace) -> Claim:
    steps = len(trace.rows) - 1
    return Claim(
        ClaimName.REFINEMENT_FINISHED, float(trace.finished), 1.0, trace.finished, "tested",
        f"the solver took {steps} step{'s' * (steps != 1)} and stopped: {trace.reason}; relative loss {trace.loss:.1e}.")


def _unit_rows(network: Network, *, biases: bool) -> Array:
    """Rows (w, b) of the units, of length |w| = 1 for homogeneous activations."""
    rows = network.layer.rows if biases else np.array(network.layer.weights)
    if network.activation.degree is None:
        return rows
    lengths = np.linalg.norm(network.layer.weights, axis=1)[:, None]
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))


def _first_rows(task: SearchTask, width: int) -> int:
    """Rows of the first search."""
    source, rules = task.problem.used, settings.SEARCH
    units = np.zeros((width + task.search.count_spares(width), source.dim + task.problem.biases))
    return max(rules.fewest_rows, rules.first_rows * parameter_count(task.model.start(units, source.outputs)) // source.outputs)
