"""The whole pipeline on one screen: source -> start -> refinement -> certificate."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.certificate import Certificate, Claim, certify
from laybare.errors import InvalidInput, TooFewSamples
from laybare.methods import Method, RandomStart
from laybare.networks import Network
from laybare.refinement.minimise import minimise
from laybare.refinement.normal import network_of, point_of
from laybare.refinement.overwide import total_variation
from laybare.refinement.pruning import parameter_count
from laybare.refinement.trace import Trace
from laybare.shapes import Event, Progress
from laybare.source import Source
from laybare.source.white import white_view


@dataclass(frozen=True)
class Recovery:
    """A recovered network with its certificate.

    Attributes
    ----------
    network : Network
        In canonical form, on the inputs as they were given.
    start : Network
        What the method found, before refinement.
    certificate : Certificate
    method : Method
    seconds : float
    samples_used : int
        Rows that were read, those of the certificate among them.
    traces : tuple of Trace
        The solver's steps: of the method, if it ran the solver, and of the refinement.
    """

    network: Network
    start: Network
    certificate: Certificate
    method: Method | None
    seconds: float
    samples_used: int
    traces: tuple[Trace, ...]

    def __str__(self) -> str:
        net = self.network
        name = "refine" if self.method is None else type(self.method).__name__
        return (
            f"{net.dim}-{net.width}-{net.outputs} network of {net.activation.name} units, by {name} "
            f"from {self.samples_used:,} samples in {self.seconds:.1f} s\n{self.certificate.explain()}")

    def report(self, path: str) -> None:
        """Write a self-contained HTML page."""
        from laybare.report import write_report

        write_report(self, path)


def recover(
    source: Source, method: Method | None = None, width: int | None = None, activation: Activation | None = None, *,
    rng: Generator | int = 0, progress: Progress | None = None,
) -> Recovery:
    """Recover the network behind a source.

    Parameters
    ----------
    source : Source
        Samples, files or an oracle.
    method : Method, optional
        How to find the start; by default RandomStart.
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
    method = _agreed(method, activation)
    _check_width(width)
    used, fresh = source.split(1.0 - _held_out(source.size) / source.size, rng=rng)
    view = white_view(used, centred=method.biases)
    start = method.find(view, width, rng=rng, progress=progress)
    traces: tuple[Trace, ...] = () if start.trace is None else (start.trace,)
    if traces and traces[-1].reason == "interrupted":
        network = start.network
    else:
        network, trace = _refined(start.network, view, biases=method.biases, progress=progress)
        traces = (*traces, trace)
    network = view.transform.pull_back(network).canonical()
    _tell(progress, "certifying")
    certificate = certify(
        network, used, fresh, biases=method.biases and bool(np.any(network.layer.biases)), offset=True, rng=rng,
        extra=(*start.claims, _converged(traces[-1])))
    first = view.transform.pull_back(start.network)
    return Recovery(network, first, certificate, method, time.perf_counter() - begun, source.size, traces)


def refine(start: Network, source: Source, *, rng: Generator | int = 0, progress: Progress | None = None) -> Recovery:
    """Refinement and certificate only, from any start; the start's biases are refined if it has any."""
    begun, rng = time.perf_counter(), np.random.default_rng(rng)
    if start.dim != source.dim or start.outputs != source.outputs:
        raise InvalidInput(
            f"The start maps dimension {start.dim} to {start.outputs} outputs, the source has {source.dim} and {source.outputs}.",
            "They describe different functions.", "Give a start of the source's shape.", start=(start.dim, start.outputs))
    used, fresh = source.split(1.0 - _held_out(source.size) / source.size, rng=rng)
    biases = bool(np.any(start.layer.biases != 0.0))
    view = white_view(used, centred=biases)
    network, trace = _refined(view.transform.inverse().pull_back(start), view, biases=biases, progress=progress)
    network = view.transform.pull_back(network).canonical()
    _tell(progress, "certifying")
    certificate = certify(network, used, fresh, biases=biases, offset=True, rng=rng, extra=(_converged(trace),))
    return Recovery(network, start, certificate, None, time.perf_counter() - begun, source.size, (trace,))


def _refined(start: Network, view: Source, *, biases: bool, progress: Progress | None) -> tuple[Network, Trace]:
    point = point_of(start, biases=biases, offset=True, linear=start.linear is not None)
    equations, unknowns = view.size * view.outputs, parameter_count(point)
    if equations <= unknowns:
        raise TooFewSamples(
            f"{view.size:,} samples of {view.outputs} outputs for a network with {unknowns:,} free numbers.",
            "Some network fits as many equations as it has unknowns, whatever the truth is.",
            f"Give at least {3 * unknowns // view.outputs:,} samples, or a smaller network.",
            samples=view.size, unknowns=unknowns)
    refined = minimise(view, point, total_variation(view), progress=progress)
    return network_of(refined.point, vector=start.readout.ndim == 1), refined.trace


def _agreed(method: Method | None, activation: Activation | None) -> Method:
    if method is None:
        return RandomStart(activation=activation or relu)
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


def _held_out(size: int) -> int:
    """Rows kept for the certificate: a tenth of few, a twentieth of many, never more than 20,000."""
    return max(1, min(20_000, max(size // 20, min(size // 10, 100))))


def _converged(trace: Trace) -> Claim:
    steps = len(trace.rows) - 1
    return Claim(
        "refinement finished", float(trace.finished), 1.0, trace.finished, "tested",
        f"the solver took {steps} step{'s' * (steps != 1)} and stopped: {trace.reason}; relative loss {trace.loss:.1e}.")


def _tell(progress: Progress | None, stage: str) -> None:
    if progress is not None:
        progress(Event(stage, 0, 0))
