"""The loop: pose the problem, ask the method for a start, search, settle the signs, certify."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.bars import shown
from laybare.blas import single_blas_thread
from laybare.certificate import Claim, certify, unjudged
from laybare.certificate.width import unsupported
from laybare.errors import InvalidInput, TooFewSamples
from laybare.methods import Method
from laybare.methods.lines import Lines
from laybare.methods.lines.method import applies
from laybare.methods.start import network_at
from laybare.networks import Network
from laybare.pipeline.arguments import meant
from laybare.pipeline.black_box import read_black_box
from laybare.pipeline.clock import LONGEST, LONGEST_CHOSEN, Clock, time_is_up
from laybare.pipeline.passes import at_first_step, listened_to
from laybare.pipeline.probabilities import away_from_certainty
from laybare.pipeline.provenance import provenance_of
from laybare.pipeline.recovery import Recovery
from laybare.pipeline.rounds import recover_in_rounds
from laybare.pipeline.search import NetworkFit, as_it_is, find_fit, narrower_fit, random_start, refit
from laybare.pipeline.unlike_lines import name_units, refuse_steps
from laybare.refinement.normal import point_of
from laybare.refinement.problem import Problem, pose
from laybare.refinement.pruning import parameter_count
from laybare.shapes import Progress, tell
from laybare.source import Oracle, Source
from laybare.source.checkpoint import with_checkpoint
from laybare.source.threads import Later


def recover(
    source: Any, *further: Any, method: Any = None, width: Any = None, activation: Any = None, law: Any = None,
    rng: Generator | int = 0, progress: Any = None, checkpoint: str | PathLike[str] | None = None, seconds: float | None = None,
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
        Found out if not given: ReLU is tried first. May be given here, in the method, or in both if equal.
    law : Law or its name, optional
        Of the inputs, where `source` is no source yet.
    rng : Generator or int
        Same seed, same bits.
    progress : callable or True, optional
        Called with an Event (stage, done, total, detail) at every step; True: a bar in the terminal or the notebook.
    seconds : float, optional
        A search that is still under way then ends with the best that it has, and the certificate says so; by default an hour,
        and ten minutes if no method is given.
    checkpoint : folder, optional
        What long passes returned is written there; after a crash the same call goes on from it, to the same bits.
    """
    source, method, width, activation = meant(source, further, law=law, method=method, width=width, activation=activation)
    draws = np.random.default_rng(rng)
    with shown(progress) as told:
        tell(told, "reading")
        origin = Later(
            partial(provenance_of, "recover", source, rng, method=method, width=width, activation=activation),
            source.schedule.threads(2))
        if checkpoint is not None:
            source = with_checkpoint(
                source, checkpoint, verb="recover", method=method, width=width, activation=activation, rng=draws)
        source, told = listened_to(source, told)
        found = _found(
            source, method, width, activation, rng=draws, progress=at_first_step(told, origin.begin), seconds=seconds)
    return replace(found, provenance=origin.result())


def _numbers_of_any_size() -> np.errstate:
    """Inside, NumPy does not warn of numbers that overflow: they are no numbers then, and whoever uses them looks for that."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _found(
    source: Any, method: Method | Lines | None, width: int | None, activation: Activation | None, *, rng: Generator,
    progress: Progress | None, seconds: float | None,
) -> Recovery:
    """By asking, if the source can be asked and nobody chose otherwise; else from its rows."""
    begun = time.perf_counter()
    if isinstance(source, Oracle) and (isinstance(method, Lines) or (method is None and _can_be_asked(source))):
        found, reason = _by_lines(source, method, width, activation, rng=rng, progress=progress)
        return found or _in_rounds(source, width, activation, reason, begun, rng=rng, progress=progress)
    clock = Clock(progress, begun + (seconds or (LONGEST_CHOSEN if method is None else LONGEST)))
    with single_blas_thread(), _numbers_of_any_size():
        if method is None:
            return _by_choice(source, width, activation, begun, rng, clock)
        return _recovered(source, _agreed(method, activation), width, begun, rng, clock)


def _by_choice(
    source: Source, width: int | None, activation: Activation | None, begun: float, rng: Generator, clock: Clock
) -> Recovery:
    """Look at the data, then try what suits them. The problem that was looked at is the one of methods with biases."""
    from laybare.methods.choosing.evidence import gather_evidence  # every method: imported when it is needed
    from laybare.methods.choosing.ranking import choose_after
    from laybare.pipeline.portfolio import recover_by_choice

    problem = pose(source, biases=True, rng=rng, progress=clock.progress)
    tell(clock.progress, "looking")
    choice = choose_after(gather_evidence(problem.used, source, rng=np.random.default_rng(0)), width, activation)

    def fit(method: Method) -> Recovery:
        return _recovered(source, method, width, begun, rng, clock, problem=problem if method.biases else None)

    return recover_by_choice(choice, fit, clock, told=width is not None, progress=clock.progress)


def _by_lines(
    oracle: Oracle, method: Lines | None, width: int | None, activation: Activation | None, *,
    rng: Generator, progress: Progress | None,
) -> tuple[Recovery | None, tuple[Claim, ...]]:
    """Read along lines where that applies, layer after layer. Whoever has not chosen that is told of steps and trees early."""
    if method is None and activation is None:
        refuse_steps(oracle, rng=rng, progress=progress)
    asked = away_from_certainty(oracle, rng=rng) if applies(activation) else oracle
    return read_black_box(asked, method, width, activation, rng=rng, progress=progress)


def _in_rounds(
    oracle: Oracle, width: int | None, activation: Activation | None, reason: tuple[Claim, ...], begun: float, *,
    rng: Generator, progress: Progress | None,
) -> Recovery:
    """Lines do not apply, for this reason: name the units, fit them on samples."""

    def fit(source: Source, method: Method, told: Progress) -> Recovery:
        return _recovered(source, method, width, begun, rng, told, claims=reason)

    candidates = name_units(oracle, activation, refused=bool(reason), rng=rng, progress=progress)
    with single_blas_thread():
        return recover_in_rounds(oracle, candidates, fit, progress=progress)


def _recovered(
    source: Source, method: Method, width: int | None, begun: float, rng: Generator, progress: Progress | None, *,
    claims: tuple[Claim, ...] = (), problem: Problem | None = None,
) -> Recovery:
    problem = problem or pose(source, biases=method.biases, rng=rng, progress=progress)
    start = method.start(problem.used, width, rng=rng, progress=progress)
    search = start.search or method.search
    if search is None:
        first = network_at(start)
        fit = as_it_is(problem, first)
    else:
        first = start.network or random_start(problem, method.activation, start.width or width, search, rng=rng)
        fit = find_fit(
            problem, first, start.width or width, search, signed=start.signed, bare=start.network is not None, rng=rng,
            progress=progress)

    def judged(fit: NetworkFit) -> Recovery:
        later = () if start.later is None or fit.interrupted else start.later(problem.used, fit.outcome)
        return _certified(
            problem, fit, claims=(*claims, *start.claims, *later), start=problem.given(first), method=method, begun=begun,
            rng=rng, progress=progress, queries=_queries(source))

    found = judged(fit)
    if width is None and fit.searched is not None and not fit.interrupted and unsupported(found.certificate.claims):
        return judged(narrower_fit(problem, fit, progress=progress))
    return found


def refine(
    source: Source, start: Network, *, rng: Generator | int = 0, progress: Any = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Recovery:
    """Refinement and certificate only, from any start; the start's biases are refined if it has any. Checkpoint as in recover."""
    begun, draws = time.perf_counter(), np.random.default_rng(rng)
    _check_start(source, start)
    origin = Later(partial(provenance_of, "refine", source, rng, start=start.architecture), source.schedule.threads(2))
    source = with_checkpoint(source, checkpoint, verb="refine", start=start, rng=draws)
    with single_blas_thread(), _numbers_of_any_size(), shown(progress) as told:
        source, told = listened_to(source, told)
        told = at_first_step(told, origin.begin)
        problem = pose(source, biases=bool(np.any(start.layer.biases != 0.0)), rng=draws, progress=told)
        white = problem.white(start)
        _check_equations(problem, white)
        fit = refit(problem, white, progress=told)
        found = _certified(
            problem, fit, start=start, method=None, begun=begun, rng=draws, progress=told, queries=_queries(source))
    return replace(found, provenance=origin.result())


def _certified(
    problem: Problem, fit: NetworkFit, *, start: Network, method: Method | None, begun: float, rng: Generator,
    claims: tuple[Claim, ...] = (), progress: Progress | None = None, queries: dict[str, int],
) -> Recovery:
    """The fit in canonical form on the given inputs, with its certificate; whoever interrupts is not kept waiting for that."""
    network, extra = problem.given(fit.outcome.network).canonical(), (*fit.claims, *claims)
    if fit.interrupted and not time_is_up(progress):
        certificate = unjudged(network, extra)
    else:
        try:
            tell(progress, "certifying")
            certificate = certify(network, problem, rng=rng, extra=extra, progress=progress)
        except KeyboardInterrupt:
            certificate = unjudged(network, extra)
    seconds = time.perf_counter() - begun
    return Recovery(
        network, start, certificate, method, seconds, problem.rows, () if fit.trace is None else (fit.trace,), queries)


def _can_be_asked(oracle: Oracle) -> bool:
    """Where every row is paid for already, the rows are samples."""
    return oracle.spent < oracle.budget


def _queries(source: Source) -> dict[str, int]:
    return dict(source.queries) if isinstance(source, Oracle) else {}


def _agreed(method: Method | Lines, activation: Activation | None) -> Method:
    if isinstance(method, Lines):
        raise InvalidInput(
            "Lines was given samples.", "It asks a black box at points of its own choice, and samples cannot answer.",
            "Give an Oracle, or use RandomStart() on the samples.")
    if not isinstance(method, Method):
        raise InvalidInput(
            f"The method is a {type(method).__name__}.", "It does not find whole networks.",
            "Use recover_layer() with HighThreshold, or another method here.")
    if activation is not None and method.activation != activation:
        raise InvalidInput(
            f"activation={activation.name} was given, and a method for {method.activation.name}.",
            "They contradict each other.", "Give the activation once, or the same twice.")
    return method


def _check_start(source: Source, start: Network) -> None:
    if isinstance(source, Network):
        raise InvalidInput(
            "refine() was given a network first.", "Its arguments stand in the order of recover(): the source, then the start.",
            "Write refine(source, start).")
    if start.dim != source.dim or start.outputs != source.outputs:
        raise InvalidInput(
            f"The start maps dimension {start.dim} to {start.outputs} outputs, the source has {source.dim} and {source.outputs}.",
            "They describe different functions.", "Give a start of the source's shape.", start=(start.dim, start.outputs))


def _check_equations(problem: Problem, white: Network) -> None:
    point = point_of(white, biases=problem.biases, offset=True, linear=white.linear is not None)
    unknowns, outputs = parameter_count(point), problem.used.outputs
    if problem.equations <= unknowns:
        raise TooFewSamples(
            f"{problem.used.size:,} samples of {outputs} outputs for a network with {unknowns:,} free numbers.",
            "Some network fits as many equations as it has unknowns, whatever the truth is.",
            f"Give at least {3 * unknowns // outputs:,} samples, or a smaller network.",
            samples=problem.used.size, unknowns=unknowns)
