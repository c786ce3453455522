"""The loop: pose the problem, ask the method for a start, search, settle the signs, certify."""

from __future__ import annotations

import time

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.blas import single_blas_thread
from laybare.certificate import Claim, certify
from laybare.errors import InvalidInput, TooFewSamples
from laybare.methods import Method, RandomStart
from laybare.methods.lines import Lines
from laybare.methods.start import network_at
from laybare.networks import Network
from laybare.pipeline.black_box import read_black_box
from laybare.pipeline.recovery import Recovery
from laybare.pipeline.search import Fit, as_it_is, find_fit, random_start, refit
from laybare.refinement.normal import point_of
from laybare.refinement.problem import Problem, pose
from laybare.refinement.pruning import parameter_count
from laybare.shapes import Progress, tell
from laybare.source import Oracle, Source


def recover(
    source: Source, method: Method | Lines | None = None, width: int | None = None, activation: Activation | None = None, *,
    rng: Generator | int = 0, progress: Progress | None = None,
) -> Recovery:
    """Recover the network behind a source.

    Parameters
    ----------
    source : Source
        Samples, files or an oracle.
    method : Method, optional
        How to find the start. By default a black box is read by Lines where that applies; everything else starts from
        RandomStart.
    width : int, optional
        Number of hidden units; detected if not given.
    activation : Activation, optional
        ReLU by default; may be given here, in the method, or in both if equal.
    rng : Generator or int
        Same seed, same bits.
    progress : callable, optional
        Called with an Event at every step.
    """
    begun, rng = time.perf_counter(), np.random.default_rng(rng)
    _check_width(width)
    reason: tuple[Claim, ...] = ()
    if isinstance(source, Oracle) and (method is None or isinstance(method, Lines)):
        found, reason = read_black_box(source, method, width, activation, rng=rng, progress=progress)
        if found is not None:
            return found
    method = _agreed(method, activation)
    with single_blas_thread():
        return _recovered(source, method, width, begun, rng, progress, claims=reason)


def _recovered(
    source: Source, method: Method, width: int | None, begun: float, rng: Generator, progress: Progress | None, *,
    claims: tuple[Claim, ...] = (),
) -> Recovery:
    problem = pose(source, biases=method.biases, rng=rng, progress=progress)
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
    later = () if start.later is None or fit.interrupted else start.later(problem.used, fit.outcome)
    return _certified(
        problem, fit, claims=(*claims, *start.claims, *later), start=problem.given(first), method=method, begun=begun, rng=rng,
        progress=progress)


def refine(source: Source, start: Network, *, rng: Generator | int = 0, progress: Progress | None = None) -> Recovery:
    """Refinement and certificate only, from any start; the start's biases are refined if it has any."""
    begun, rng = time.perf_counter(), np.random.default_rng(rng)
    _check_start(source, start)
    with single_blas_thread():
        problem = pose(source, biases=bool(np.any(start.layer.biases != 0.0)), rng=rng, progress=progress)
        white = problem.white(start)
        _check_equations(problem, white)
        fit = refit(problem, white, progress=progress)
        return _certified(problem, fit, start=start, method=None, begun=begun, rng=rng, progress=progress)


def _certified(
    problem: Problem, fit: Fit, *, start: Network, method: Method | None, begun: float, rng: Generator,
    claims: tuple[Claim, ...] = (), progress: Progress | None = None,
) -> Recovery:
    """The fit in canonical form on the given inputs, with its certificate."""
    network = problem.given(fit.outcome.network).canonical()
    tell(progress, "certifying")
    certificate = certify(network, problem, rng=rng, extra=(*fit.claims, *claims))
    seconds = time.perf_counter() - begun
    return Recovery(network, start, certificate, method, seconds, problem.rows, () if fit.trace is None else (fit.trace,))


def _agreed(method: Method | Lines | None, activation: Activation | None) -> Method:
    if method is None:
        return RandomStart(activation=activation or relu)
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


def _check_width(width: int | None) -> None:
    if width is not None and (isinstance(width, bool) or not isinstance(width, (int, np.integer)) or width < 1):
        raise InvalidInput(
            f"width={width!r}.", "A network has at least one hidden unit.", "Give a positive integer, or None to detect it.")


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
