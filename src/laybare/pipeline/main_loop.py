"""The loop: pose the problem, ask the method for a start, search, choose the signs, certify."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import count
from os import PathLike
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from laybare.activations import Activation, relu
from laybare.assembly.sign_decoding import sign_free_model
from laybare.certificate import Certificate, Claim, SearchRecord, certify, unfinished_certificate
from laybare.certificate.data_profile import profile_data
from laybare.errors import Interrupted, InvalidInput
from laybare.likelihood import Judgement, judgement_of, random_start_of, recover_by_likelihood
from laybare.lines.assurance import AssuranceLike, AssuranceOptions, as_assurance
from laybare.methods import Method
from laybare.methods.black_box_reading import LinesRefusal, chosen_lines, read_black_box
from laybare.methods.guess_activation import candidate_activations, check_not_piecewise_constant
from laybare.methods.lines import Lines
from laybare.methods.start import Start, check_activation, required_network
from laybare.networks import Network
from laybare.numerics.checks import as_generator, check_instance
from laybare.numerics.progress import resolve_progress
from laybare.numerics.shapes import Progress, report_progress
from laybare.numerics.workspace import return_freed_memory, single_blas_thread
from laybare.pipeline.arguments import LimitLike, MethodLike, SourceLike, as_limit, parse_arguments
from laybare.pipeline.black_box import ROUNDS, BlackBoxChecks, fit_in_rounds
from laybare.pipeline.monitor import LONGEST, LONGEST_CHOSEN, Clock, SearchLimit, run_on_first_step, with_progress
from laybare.pipeline.portfolio import try_methods
from laybare.pipeline.recovery import Recovery
from laybare.search.network_fit import NetworkFit, evaluate_start, find_fit, fit_narrower, fit_or_best, random_start, refit
from laybare.search.settings import Search, SearchContext, check_counting_limit
from laybare.solver.point import Model, parameter_count
from laybare.source import Law, Oracle, Source
from laybare.source.checkpoint import with_checkpoint
from laybare.source.losses import Loss, as_loss
from laybare.source.problem import Problem, pose
from laybare.source.protocol import check_source
from laybare.source.provenance import provenance_of
from laybare.source.sums import BackgroundTask


@overload
def recover(
    x: ArrayLike, y: ArrayLike, /, method: MethodLike = None, width: int | None = None,
    activation: Activation | str | None = None, *, law: Law | str | None = None, rng: Generator | int = 0,
    progress: Progress | bool | None = None, checkpoint: str | PathLike[str] | None = None, seconds: LimitLike = None,
    assurance: AssuranceLike = None, loss: Loss | str = "squared", sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Recovery: ...
@overload
def recover(
    source: SourceLike, /, method: MethodLike = None, width: int | None = None, activation: Activation | str | None = None,
    *, law: Law | str | None = None, rng: Generator | int = 0, progress: Progress | bool | None = None,
    checkpoint: str | PathLike[str] | None = None, seconds: LimitLike = None,
    assurance: AssuranceLike = None, loss: Loss | str = "squared", sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Recovery: ...
def recover(
    source: object, *further: object, method: object = None, width: object = None, activation: object = None,
    law: object = None, rng: Generator | int = 0, progress: object = None, checkpoint: str | PathLike[str] | None = None,
    seconds: LimitLike = None, assurance: AssuranceLike = None, loss: Loss | str = "squared", sample_weight: object = None,
    groups: object = None,
) -> Recovery:
    """Recover the network behind a source.

    Parameters
    ----------
    source : Source, or what one is made of
        Samples, files or an oracle; also a model or anything else that an Oracle asks (100,000 queries are granted), the name
        of a file, pairs (x, y), or x alone with y in the next place.
    *further
        Method, width and activation may stand after the source without their names, in this order.
    method : Method, optional
        How to find the start. By default a black box is read by Lines where that applies; else a first look says what it is,
        and it is fitted on samples in rounds that grow. For samples methods are chosen by what the data show, tried in turn
        until one is not refuted, and the certificate says which and why (`laybare.methods.choosing`).
    width : int, optional
        Number of hidden units; detected if not given.
    activation : Activation or its name, optional
        Detected if not given: ReLU is tried first. May be given here, in the method, or in both if equal.
    law : Law or its name, optional
        Of the inputs, where `source` is no source yet.
    rng : Generator or int
        Same seed, same bits.
    progress : callable or True, optional
        Called with an Event (stage, done, total, detail) at every step; True: a bar in the terminal or the notebook.
    seconds : float or SearchLimit, optional
        A search that is still running then ends with the best that it has, and the certificate says so; by default an hour,
        and ten minutes if no method is given; rounds of a black box after a minute of work. A limit of work
        (`laybare.pipeline.SearchLimit`) ends it at the same step on every machine.
    checkpoint : folder, optional
        What long passes returned is written there; after a crash the same call goes on from it, to the same bits.
    assurance : AssuranceOptions, (level, share) or (level, share, resolution), optional
        For a black box that is read: as far as the budget goes, fresh answers are asked until the network is wrong on at most
        this share of inputs, at this level; by default (0.05, 0.01). For samples: at this level no challenger may be better by
        more than the resolution, in standard deviations of y; by default 0.5.
    loss : "squared", "huber", "poisson" or "bernoulli"
        How outputs scatter: alike, with heavy tails, as counts, as labels 0 and 1. The network of counts answers logarithms of
        means, that of labels log odds; `found.predict` gives means.
    sample_weight : array (n,), optional
        Scales the log-likelihood of every row; the certificate counts effective rows.
    groups : array (n,), optional
        Labels of groups whose rows may be dependent: standard errors allow for that, and groups are held out whole.
    """
    given = parse_arguments(source, further, law=law, method=method, width=width, activation=activation)
    judged = judgement_of(given.source, as_loss(loss), sample_weight, groups)
    choices: dict[str, Any] = {"method": given.method, "width": given.width, "activation": given.activation}
    choices |= {} if judged.loss == Loss() else {"loss": judged.loss.name}
    draws, limit = as_generator(rng), as_limit(seconds)
    with resolve_progress(progress) as listener, _ignore_overflow():
        report_progress(listener, "reading")
        origin = BackgroundTask(partial(provenance_of, "recover", given.source, rng, **choices), given.source.schedule.threads(2))
        rows = with_checkpoint(given.source, checkpoint, verb="recover", **choices, rng=draws)
        rows, listener = with_progress(rows, listener)
        call = _Call(
            rows, given.width, given.activation, draws, run_on_first_step(listener, origin.begin), time.perf_counter(),
            as_assurance(assurance))
        found = _dispatch(call, given.method, limit) if judged.plain else _judged(call, given.method, judged, limit)
    return_freed_memory()
    return replace(found, provenance=origin.result())


class _Call(NamedTuple):
    """What every stage of one recovery needs; `begun` is when it started, `looks` counts networks certified before."""

    source: Source
    width: int | None
    activation: Activation | None
    rng: Generator
    progress: Progress | None
    begun: float
    assurance: AssuranceOptions | None = None
    looks: int = 0


def _dispatch(call: _Call, method: Method | None, limit: SearchLimit | None) -> Recovery:
    """By queries, if the source is a black box with queries left and no other method is given; else from its rows."""
    oracle = call.source
    if isinstance(oracle, Oracle) and (isinstance(method, Lines) or (method is None and oracle.spent < oracle.budget)):
        found, reason = _recover_by_lines(call, oracle, method)
        return _with_structure(found or _recover_in_rounds(call, oracle, reason, limit), oracle.structure)
    clock = Clock(call.progress, limit or (LONGEST_CHOSEN if method is None else LONGEST), call.begun)
    timed = call._replace(progress=clock)
    with single_blas_thread():
        if method is None:
            return _recover_by_choice(timed, clock)
        return _recover_from_samples(timed, check_activation(method, call.activation))


def _with_structure(found: Recovery, structure: str) -> Recovery:
    """With what the model's own graph says, where the black box was not read and the graph is no chain of layers."""
    failed = next((claim for claim in found.certificate.claims if not claim.passed), None)
    if not structure or failed is None:
        return found
    said = replace(failed, explanation=f"{failed.explanation} {structure}")
    claims = tuple(said if claim is failed else claim for claim in found.certificate.claims)
    return replace(found, certificate=replace(found.certificate, claims=claims))


def _judged(call: _Call, method: Method | None, judged: Judgement, limit: SearchLimit | None) -> Recovery:
    """By another likelihood than equal normal noise."""
    clock = Clock(call.progress, limit or LONGEST_CHOSEN, call.begun)
    with single_blas_thread():
        chosen = random_start_of(call.source, method and check_activation(method, call.activation), call.activation)
        judged = judged._replace(assurance=call.assurance or AssuranceOptions())
        fit = recover_by_likelihood(call.source, judged, chosen, call.width, rng=call.rng, progress=clock)
    return Recovery(
        fit.network, fit.network, fit.certificate, chosen, time.perf_counter() - call.begun, fit.rows, (fit.trace,),
        profile=fit.profile, loss=fit.loss)


def _recover_from_samples(
    call: _Call, method: Method, *, claims: tuple[Claim, ...] = (), problem: Problem | None = None
) -> Recovery:
    """Pose, start, fit, certify; then again without units that the certificate does not support, if the width is not given."""
    posed = problem or _pose(call, biases=method.biases)
    start = method.start(posed.used, call.width, rng=call.rng, progress=call.progress)
    first, fit = _fit_from(call, method, posed, start)

    def certified(fit: NetworkFit, look: int) -> Recovery:
        later, now = () if start.later is None or fit.interrupted else start.later(posed.used, fit), call.looks + look
        return _certify(call._replace(looks=now), posed, fit, posed.given(first), method, (*claims, *start.claims, *later))

    found = certified(fit, 0)
    searched = call.width is None and fit.searched is not None and not fit.interrupted
    if fit.runs is not None and method.search is not None and method.search.exact:
        return found  # without noise, and not exact: no network of fewer units is
    if searched and found.certificate.findings.unit_unsupported:
        try:
            return certified(fit_narrower(posed, fit), 1)
        except KeyboardInterrupt:
            return found
    return found


def _pose(call: _Call, *, biases: bool) -> Problem:
    """The problem; the width, if given, says how many rows can be held out: a fit without signs has a linear part besides."""
    source, unknowns = call.source, None
    if call.width is not None:
        unknowns = call.width * (source.dim + source.outputs) + (source.dim + 1) * source.outputs
    return pose(source, biases=biases, rng=call.rng, unknowns=unknowns, progress=call.progress)


def _fit_from(call: _Call, method: Method, problem: Problem, start: Start) -> tuple[Network, NetworkFit]:
    """The network that a search begins with, and the best fit found from it; a literal form stays as it is."""
    search, activation, width = start.search or method.search, method.activation or relu, start.width or call.width
    context = _search_context(call, problem, activation, search or Search(), signed=start.signed)
    if search is None:
        first = required_network(start)
        return first, evaluate_start(context, first)
    first = start.network or random_start(context, activation, width)
    return first, find_fit(context, first, width, "random" if start.network is None else "complete")


def _search_context(
    call: _Call, problem: Problem, activation: Activation, search: Search = Search(), *, signed: bool = False
) -> SearchContext:
    """A search on all rows: with the activation itself if signs are known, else with units whose signs do not matter."""
    model = Model(activation, biases=problem.biases) if signed else sign_free_model(activation, biases=problem.biases)
    return SearchContext(problem.used, model, search, problem.variation, call.rng, call.progress)


def _certify(
    call: _Call, problem: Problem, fit: NetworkFit, start: Network, method: Method | None = None, claims: tuple[Claim, ...] = ()
) -> Recovery:
    """The fit in canonical form on the given inputs, with its certificate; after an interrupt without tests."""
    record = SearchRecord(fit.claims, fit.runs, claims, call.looks)
    network, profile = problem.given(fit.network).canonical(), None
    clock = call.progress
    ended = clock if isinstance(clock, Clock) and clock.over else None  # else the user interrupted it, and waits
    try:
        if fit.interrupted and ended is None:
            raise Interrupted
        report_progress(call.progress, "certifying")
        certificate = certify(
            network, problem, rng=call.rng, search=record, progress=call.progress,
            assurance=call.assurance or AssuranceOptions())
        profile = profile_data(network, problem)
        report_progress(call.progress, "certified")
        if fit.interrupted and ended is not None:
            certificate = _ended_by_limit(certificate, ended)
    except KeyboardInterrupt:
        certificate = unfinished_certificate(network, (*fit.claims, *claims))
    queries = dict(call.source.queries) if isinstance(call.source, Oracle) else {}
    traces = () if fit.trace is None else (fit.trace,)
    return Recovery(
        network, start, certificate, method, time.perf_counter() - call.begun, problem.rows, traces, queries, profile=profile)


def _ended_by_limit(certificate: Certificate, clock: Clock) -> Certificate:
    """After a limit ended the search: its fit may be far from the best, so no test of it speaks against the data."""
    ended = clock.claim("the search did: this is the best fit until then, and what fails below may be for that reason alone.")
    advice = f"{'work' if clock.worked_out else 'time'} ended before the search did: give more, or the width if you know it."
    return replace(certificate, claims=(ended, *(claim.not_decisive() for claim in certificate.claims)), reason=advice)


def _recover_by_choice(call: _Call, clock: Clock) -> Recovery:
    """Try the methods that suit the data. Methods with biases share the problem that is summarised."""
    from laybare.methods import choosing  # imports every method

    problem, looks = _pose(call._replace(progress=clock.progress), biases=True), count(0, 2)  # a fit may certify two networks

    def fit(method: Method) -> Recovery:
        return _recover_from_samples(call._replace(looks=next(looks)), method, problem=problem if method.biases else None)

    def choose() -> choosing.Choice:
        report_progress(clock.progress, "looking")
        summary = choosing.summarise_data(problem.used, call.source, rng=np.random.default_rng(0))
        return choosing.choose_from_summary(summary, call.width, call.activation)

    first = choosing.first_candidate(problem.used.outputs, call.activation)
    return try_methods(choose, fit, clock, first=first, width_given=call.width is not None, progress=clock.progress)


def _recover_by_lines(
    call: _Call, oracle: Oracle, method: Lines | None
) -> tuple[Recovery | None, LinesRefusal]:
    """Read along lines where that applies, layer after layer; else the reason. Steps and trees are refused early."""
    if method is None and call.activation is None:
        check_not_piecewise_constant(oracle, rng=call.rng, progress=call.progress)
    begun, before, oracle = time.perf_counter(), oracle.spent, oracle.standardised()
    chosen = chosen_lines(method, call.activation, call.assurance)
    with single_blas_thread():
        read, reason = read_black_box(
            oracle, chosen, call.width, named=method is not None, rng=call.rng, progress=call.progress)
    if read is None:
        return None, reason
    seconds, spent = time.perf_counter() - begun, oracle.spent - before
    return Recovery(read.network, read.start, read.certificate, read.method, seconds, spent, (), dict(oracle.queries)), reason


def _recover_in_rounds(call: _Call, oracle: Oracle, reason: LinesRefusal, limit: SearchLimit | None) -> Recovery:
    """Lines do not apply, for this reason: guess the activation, fit samples."""
    looks = count(0, 2)  # a fit may certify two networks

    def fit(source: Source, method: Method, progress: Progress) -> Recovery:
        this = call._replace(source=source, progress=progress, looks=next(looks))
        return _recover_from_samples(this, method, claims=reason.claims)

    candidates = candidate_activations(oracle, call.activation, refused=bool(reason.claims), rng=call.rng, progress=call.progress)
    with single_blas_thread():
        checks = BlackBoxChecks(call.rng, reason.moved, call.assurance or AssuranceOptions())
        return fit_in_rounds(oracle, candidates, fit, checks, progress=call.progress, limit=limit or ROUNDS.limit)


def refine(
    source: Source, start: Network, *, rng: Generator | int = 0, progress: Progress | bool | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Recovery:
    """Refinement and certificate only, from any start; the start's biases are refined if it has any. Checkpoint as in recover."""
    begun, draws = time.perf_counter(), as_generator(rng)
    _check_start(source, start)
    origin = BackgroundTask(partial(provenance_of, "refine", source, rng, start=start.architecture), source.schedule.threads(2))
    source = with_checkpoint(source, checkpoint, verb="refine", start=start, rng=draws)
    with single_blas_thread(), _ignore_overflow(), resolve_progress(progress) as listener:
        source, listener = with_progress(source, listener)
        call = _Call(source, None, None, draws, run_on_first_step(listener, origin.begin), begun)
        problem = pose(source, biases=bool(np.any(start.layer.biases != 0.0)), rng=draws, progress=call.progress)
        white = problem.white(start)
        context = _search_context(call, problem, start.activation)
        check_counting_limit(problem.used, parameter_count(context.point_of(white)))
        fit = fit_or_best(context, start.activation, lambda: refit(context, white))
        found = _certify(call, problem, fit, start)
    return replace(found, provenance=origin.result())


def _ignore_overflow() -> np.errstate:
    """Inside, NumPy neither warns nor raises, whatever the caller set: results are checked where they are used."""
    return np.errstate(all="ignore")


def _check_start(source: Source, start: Network) -> None:
    if isinstance(source, Network):
        raise InvalidInput(
            "refine() was given a network first.", "Its arguments stand in the order of recover(): the source, then the start.",
            "Write refine(source, start).")
    check_source(source)
    check_instance("start", start, Network, "Give a Network, such as that of a recovery, found.network.")
    if start.dim != source.dim or start.outputs != source.outputs:
        raise InvalidInput(
            f"The start maps dimension {start.dim} to {start.outputs} outputs, the source has {source.dim} and {source.outputs}.",
            "They describe different functions.", "Give a start of the source's shape.", start=(start.dim, start.outputs))
