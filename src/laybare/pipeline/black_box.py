"""A black box that is asked at chosen points: read along lines, or handed to the loop on samples with the reason."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.blas import single_blas_thread
from laybare.certificate import Certificate, Claim
from laybare.certificate.drift import drift_of_reading
from laybare.errors import AssumptionViolated, InvalidInput
from laybare.lines.search import Watch
from laybare.methods.lines.claims import lines_certificate
from laybare.methods.lines.deep_claims import deep_certificate
from laybare.methods.lines.early import EarlyLook
from laybare.methods.lines.method import Lines, applies, deep_applies
from laybare.pipeline.recovery import Recovery
from laybare.shapes import Progress, tell
from laybare.source import Oracle


def read_black_box(
    oracle: Oracle, method: Lines | None, width: int | None, activation: Activation | None, *,
    rng: Generator, progress: Progress | None = None,
) -> tuple[Recovery | None, tuple[Claim, ...]]:
    """The network behind a black box, or nothing, with the reason, where lines do not apply and were not asked for by name."""
    if method is None and not applies(activation):
        return None, ()
    chosen = _agreed(method, activation)
    watch = EarlyLook(oracle) if method is None and deep_applies(activation, oracle) else None
    try:
        return recover_by_lines(oracle, chosen, width, watch=watch, rng=rng, progress=progress), ()
    except AssumptionViolated as refusal:
        if method is not None:
            raise
        if refusal.values.get("kind") == "deep" and deep_applies(activation, oracle):
            tell(progress, "lines", oracle.spent, oracle.spent, "more than one hidden layer")
            return recover_layers(oracle, replace(chosen, depth=None), rng=rng, progress=progress), ()
        return None, (_why_not(refusal, oracle),)


def recover_by_lines(
    oracle: Oracle, method: Lines, width: int | None = None, *, watch: Watch | None = None, rng: Generator,
    progress: Progress | None = None,
) -> Recovery:
    """Read along lines: network, certificate, and what the queries were spent on."""
    if method.depth != 1:
        return recover_layers(oracle, method, width, rng=rng, progress=progress)
    begun, before = time.perf_counter(), oracle.spent
    with single_blas_thread():
        found = method.read(oracle, watch=watch, rng=rng, progress=progress)
        network = found.network.canonical()
        certificate = _with_drift(lines_certificate(found, network, width), oracle)
    return Recovery(
        network, found.network, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def recover_layers(
    oracle: Oracle, method: Lines, width: int | None = None, *, rng: Generator, progress: Progress | None = None
) -> Recovery:
    """Read layer after layer. A single layer that is wider than its input is read as such."""
    begun, before = time.perf_counter(), oracle.spent
    with single_blas_thread():
        found = method.read_deep(oracle, rng=rng, progress=progress)
        if len(found.reads) == 1 and found.reads[0].trouble and not found.reads[0].seen.bent:
            return recover_by_lines(oracle, replace(method, depth=1), width, rng=rng, progress=progress)
        hyperplanes = found.network.top is None and not np.any(found.network.readout)
        network = found.network if hyperplanes else found.network.canonical()  # a unit without readout would be lost
        certificate = _with_drift(deep_certificate(found, network, method.depth), oracle)
    return Recovery(
        network, found.network, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def _with_drift(certificate: Certificate, oracle: Oracle) -> Certificate:
    return replace(certificate, claims=(*certificate.claims, *drift_of_reading(oracle)))


def _agreed(method: Lines | None, activation: Activation | None) -> Lines:
    if method is None:
        return Lines(activation=activation)
    if activation is not None and method.activation is not None and method.activation != activation:
        raise InvalidInput(
            f"activation={activation.name} was given, and a method for {method.activation.name}.",
            "They contradict each other.", "Give the activation once, or the same twice.")
    return method if activation is None else replace(method, activation=activation)


def _why_not(refusal: AssumptionViolated, oracle: Oracle) -> Claim:
    return Claim(
        "queries of lines before samples", float(oracle.spent), 0.0, True, "tested",
        f"the black box was not read along lines: {refusal.seen} {refusal.why} Samples were drawn from it instead.")
