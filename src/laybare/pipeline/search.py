"""From a start to a fit: an over-wide search on some of the rows, then the signs, and all rows for the last digits.

The search sees only as many rows as its free numbers call for, and more only if that fails; whatever it finds is refined on all,
by then in its own activation, if some rows have settled the signs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Claim
from laybare.certificate.starts import met
from laybare.damping import Effort, Trace
from laybare.levels import ROUNDING_LOSS, SOLVED_LOSS
from laybare.methods import Outcome
from laybare.networks import Layer, Network
from laybare.pipeline.narrowing import supported
from laybare.pipeline.signs import settle_signs, unfolded_by
from laybare.refinement.hunt import Search, random_units
from laybare.refinement.leading import Leading, leading_directions, search_leading
from laybare.refinement.levenberg import Refined, project
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import Fit, FitStatistic, Model, network_of, point_of
from laybare.refinement.overwide import FIRST_WIDTH, beside_spares, over_wide
from laybare.refinement.problem import Problem
from laybare.refinement.pruning import parameter_count
from laybare.refinement.sign_free import sign_free_model
from laybare.shapes import Array, Progress
from laybare.source import Source

GROWTH, AGAIN = 4, 2
"""A search that fails on some of the samples is repeated on so many times as many, with no more than two repairs: what is
left then is most often noise."""

SAMPLES_A_NUMBER, FEWEST = 6, 4000
"""Samples that the search sees first: 6 per free number (5 are enough from random directions) and at least 4000."""


DEAR = 2e9
"""Rows times the square of the numbers of a search, from which it is worth looking in the leading directions first."""

ALMOST = 0.1
"""`Effort.settled` of the first fit to all rows: the signs are settled by it, and the last steps come after that."""


LAST, LAST_ROUGH = 0.005, 0.00025
"""The same for the last fit of what a search has found: its steps are less than a tenth of a standard error long by then; and
`Effort.rough`. On few rows steps between kinks gain little and still lead a standard error away."""


WORSE = 1.1
"""Times what a fit to some rows promises of all that a fit to all of them may leave, for the signs of the former to stand."""


DAMPED, LITTLE = Effort().damping, 1e-4
"""Damping of the first step on all rows; after a fit to some of them it begins a fraction of their standard errors away, where
steps need hardly any."""


class Searched(NamedTuple):
    """What a search found, before signs are settled, its loss as if all rows were like those that it has seen; how many equations
    these are, whether they are all, and how far the next fit goes."""

    fit: Refined
    equations: int
    whole: bool
    effort: Effort


class NetworkFit(NamedTuple):
    """How a fit ended, on white inputs and in its own activation, the solver's steps, claims made on the way, and what the
    search had found (none for a fit without a search)."""

    outcome: Outcome
    trace: Trace | None
    claims: tuple[Claim, ...] = ()
    searched: Searched | None = None

    @property
    def interrupted(self) -> bool:
        return self.trace is not None and self.trace.reason == "interrupted"


def random_start(problem: Problem, activation: Activation, width: int | None, search: Search, *, rng: Generator) -> Network:
    """Units in random directions, without effect yet: where a search begins that knows nothing."""
    wide, outputs = (width or FIRST_WIDTH) + search.extra(width or FIRST_WIDTH), problem.used.outputs
    rows = random_units(wide, problem.used.dim, search.bias_scale if problem.biases else None, rng)
    layer = Layer(rows[:, : problem.used.dim], rows[:, -1] if problem.biases else None, activation)
    return Network(layer, np.zeros(wide) if outputs == 1 else np.zeros((wide, outputs)))


def find_fit(
    problem: Problem, first: Network, width: int | None, search: Search, *,
    signed: bool = False, bare: bool = False, rng: Generator, progress: Progress | None = None,
) -> NetworkFit:
    """The best fit that `search` finds from the units of `first`, with `width` units or as many as the data call for.

    `signed`: the signs of the units are known. `bare`: they may well be all of them, so that spares come only if they fail.
    """
    activation, biases = first.activation, problem.biases
    model = Model(activation, biases=biases) if signed else sign_free_model(activation, biases=biases)
    known = _rows(first, biases=biases)
    rows = _first_rows(problem.used, model, search, width or 2 * len(known))
    found = _searched(_Task(problem, model, width, search, bare, not bare, rng, progress), known, rows)
    return _settled(problem, found, activation, progress)


def narrower_fit(problem: Problem, fit: NetworkFit, *, progress: Progress | None = None) -> NetworkFit:
    """The same without units that the samples do not support, its signs settled again; only for a fit that was searched."""
    assert fit.searched is not None
    whole = _on_all_rows(problem, fit.searched, progress)
    found = whole._replace(fit=supported(problem, whole.fit, progress=progress))
    return _settled(problem, found, fit.outcome.network.activation, progress)


def _settled(problem: Problem, searched: Searched, activation: Activation, progress: Progress | None) -> NetworkFit:
    """What a search found, in its own activation, refined on all rows.

    If some rows leave no doubt about the signs, all of them are asked only once. A fit that is then worse than was promised had
    wrong signs, and all rows decide them.
    """
    found = searched.fit
    network = network_of(found.point, vector=problem.used.outputs == 1)
    if found.trace.reason == "interrupted":
        return _stopped(problem, network, searched)
    claims: tuple[Claim, ...] = ()
    if found.point.linear:
        unfolded = unfolded_by(network, activation, found.loss, problem.variation)
        if not searched.whole and not unfolded.signs.unique:
            return _settled(problem, _on_all_rows(problem, searched, progress), activation, progress)
        try:
            network, claim = settle_signs(
                problem.used, network, activation, found.loss, problem.variation, biases=problem.biases, unfolded=unfolded)
        except KeyboardInterrupt:
            return _stopped(problem, network, searched)
        claims = (claim,)
    again = refit(problem, network, near=True, damping=DAMPED if searched.whole else LITTLE, progress=progress)
    if not searched.whole and not again.interrupted and _worse(problem, searched, again.outcome.loss):
        return _settled(problem, _on_all_rows(problem, searched, progress), activation, progress)
    if found.loss > SOLVED_LOSS * problem.variation:
        claims = (*claims, met(found.runs))
    trace = found.trace if again.trace is None else found.trace.then(again.trace)
    return NetworkFit(again.outcome._replace(agreed=found.agreed), trace, (*claims, *again.claims), searched)


def _on_all_rows(problem: Problem, searched: Searched, progress: Progress | None) -> Searched:
    """What a search found, its signs still free, refined on all rows."""
    if searched.whole or searched.fit.trace.reason == "interrupted":
        return searched
    found = searched.fit
    effort = replace(searched.effort, settled=max(searched.effort.settled, ALMOST))
    last = minimise(problem.used, found.point, problem.variation, near=True, effort=effort, progress=progress)
    return searched._replace(
        fit=last._replace(trace=found.trace.then(last.trace), runs=found.runs), equations=problem.equations, whole=True)


def _worse(problem: Problem, searched: Searched, loss: float) -> bool:
    """Whether a fit to all rows leaves more than one to some rows promises, which has followed their noise."""
    followed = min(0.5, parameter_count(searched.fit.point) / searched.equations)
    return loss > max(WORSE * searched.fit.loss / (1.0 - followed), SOLVED_LOSS * problem.variation)


def _stopped(problem: Problem, network: Network, searched: Searched) -> NetworkFit:
    """What there is when a search is interrupted, or what follows it."""
    trace = searched.fit.trace._replace(reason="interrupted")
    return NetworkFit(_outcome(problem, network, searched.fit.loss), trace, (_finished(trace),), searched)


def as_it_is(problem: Problem, network: Network) -> NetworkFit:
    """No fit at all: what a literal form gives."""
    point = point_of(network, biases=problem.biases, offset=True, linear=network.linear is not None)
    loss = float(problem.used.sum(FitStatistic(point), stage="loss")[2])
    return NetworkFit(_outcome(problem, network, loss), None)


def refit(
    problem: Problem, network: Network, *, near: bool = False, damping: float = DAMPED, progress: Progress | None = None
) -> NetworkFit:
    """The nearest minimum from a network on white inputs, on all rows; `near`: these, or some of them, have been fitted already,
    and the first step need not be damped more than by `damping`."""
    point = point_of(network, biases=problem.biases, offset=True, linear=network.linear is not None)
    effort = replace(Effort(), damping=damping, settled=LAST, rough=LAST_ROUGH) if near else Effort()
    refined = minimise(problem.used, point, problem.variation, near=near, effort=effort, progress=progress)
    found = network_of(refined.point, vector=network.readout.ndim == 1)
    return NetworkFit(_outcome(problem, found, refined.loss), refined.trace, (_finished(refined.trace),))


def _outcome(problem: Problem, network: Network, loss: float) -> Outcome:
    return Outcome(network, loss, loss / problem.variation)


def _finished(trace: Trace) -> Claim:
    steps = len(trace.rows) - 1
    return Claim(
        "refinement finished", float(trace.finished), 1.0, trace.finished, "tested",
        f"the solver took {steps} step{'s' * (steps != 1)} and stopped: {trace.reason}; relative loss {trace.loss:.1e}.")


def _rows(network: Network, *, biases: bool) -> Array:
    """Rows (w, b) of the units, of length |w| = 1 where the length means nothing."""
    rows = network.layer.rows if biases else np.array(network.layer.weights)
    if network.activation.degree is None:
        return rows
    lengths = np.linalg.norm(network.layer.weights, axis=1)[:, None]
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0))


def _first_rows(source: Source, model: Model, search: Search, width: int) -> int:
    """Samples for the first search."""
    wide = width + search.extra(width)
    numbers = parameter_count(model.start(np.zeros((wide, source.dim + model.biases)), source.outputs))
    return max(FEWEST, SAMPLES_A_NUMBER * numbers // source.outputs)


class _Task(NamedTuple):
    """What does not change from one part of the rows to the next; `bare` and `blind` as for `over_wide`."""

    problem: Problem
    model: Model
    width: int | None
    search: Search
    bare: bool
    blind: bool
    rng: Generator
    progress: Progress | None


def _searched(task: _Task, known: Array, rows: int) -> Searched:
    """On so many rows, and on more where that fails."""
    whole = task.problem.used
    if 2 * rows > whole.size:
        return _told(task, over_wide(
            whole, task.model, task.width, known, search=task.search, bare=task.bare, blind=task.blind,
            scale=task.problem.variation, rng=task.rng, progress=task.progress))
    share = rows / whole.size
    part = whole.split(share, rng=task.rng).first.kept()
    short = replace(task.search, effort=replace(task.search.effort, floor=max(task.search.effort.floor, ROUNDING_LOSS)))
    scale = share * task.problem.variation
    lead = None if task.bare else _led(task, rows)
    if lead is not None and lead.fit.trace.reason == "interrupted":
        return _told(task, _as_lifted(task, lead))
    found = None if lead is None else _from_lead(task._replace(search=short), part, scale, lead)
    if found is None:
        found = over_wide(
            part, task.model, task.width, known if lead is None else lead.rows, search=short, bare=task.bare or lead is not None,
            blind=task.blind and lead is None, scale=scale, rng=task.rng, progress=task.progress)
    if found.loss > SOLVED_LOSS * scale and not found.agreed and found.trace.reason != "interrupted":
        again = task._replace(search=replace(task.search, hops=min(task.search.hops, AGAIN)), blind=False)
        return _searched(again, found.point.units, GROWTH * rows)
    return _told(task, found, part)


def _told(task: _Task, found: Refined, part: Source | None = None) -> Searched:
    """What was found on some of the rows, or on all."""
    problem = task.problem
    if part is None:
        return Searched(found, problem.equations, True, task.search.effort)
    loss = found.loss * problem.used.size / part.size
    return Searched(found._replace(loss=loss), part.size * part.outputs, False, task.search.effort)


def _led(task: _Task, rows: int) -> Leading | None:
    """A search in the leading directions, where one with all inputs is dear and there are many more of these than units."""
    source, model = task.problem.used, task.model
    numbers = rows * source.outputs / SAMPLES_A_NUMBER
    if not model.linear or not model.biases or rows * numbers**2 < DEAR:
        return None
    directions = leading_directions(source, task.width)
    if directions is None:
        return None
    few = max(FEWEST, rows * (directions.basis.shape[1] + 1) // (source.dim + 1))
    return search_leading(
        source, model, task.width, directions, few, search=task.search, rng=task.rng, progress=task.progress)


def _from_lead(task: _Task, part: Source, scale: float, lead: Leading) -> Refined | None:
    """Units that two runs in the leading directions agreed on, fitted to all inputs; nothing if that does not fit better.

    A width that was not told may be too small there, so that spares are tried beside: nothing if one of them is needed.
    """
    if not lead.agreed:
        return None
    if task.width is None:
        found = beside_spares(
            part, task.model, lead.rows, search=task.search, scale=scale, rng=task.rng, progress=task.progress)
    else:
        effort = replace(task.search.effort, settled=max(task.search.effort.settled, ALMOST))
        found = minimise(part, task.model.start(lead.rows, part.outputs), scale, effort=effort, progress=task.progress)
    better = found.loss / part.size < lead.loss and found.point.width <= len(lead.rows)
    if not better and found.trace.reason != "interrupted":
        return None
    return found._replace(trace=lead.fit.trace.then(found.trace), runs=lead.fit.runs)


def _as_lifted(task: _Task, lead: Leading) -> Refined:
    """What an interrupted search in the leading directions had found, on all rows."""
    point = task.model.start(lead.rows, task.problem.used.outputs)
    return Refined(*project(point, Fit(*task.problem.used.sum(FitStatistic(point), stage="loss"))), lead.fit.trace)
