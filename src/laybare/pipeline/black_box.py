"""A black box that is asked at chosen points: read along lines, or passed to the loop on samples with the reason.

A classifier is read along lines that end where its probabilities are 0 or 1 to rounding: nothing is left of its log-odds there.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Assurance, Certificate, Claim, ClaimName
from laybare.certificate.repeatability import lack_of_fit_claim, repeat_claims
from laybare.errors import AssumptionViolated, InvalidInput, NotSeparated
from laybare.lines.assurance import AssuranceOptions, AssurancePlan, largest_share
from laybare.lines.depth import DepthProbe
from laybare.lines.folds import FoldOptions, FoldsResult
from laybare.lines.model_fit import FIT
from laybare.lines.read import DeepReadResult
from laybare.lines.single_layer import DepthCheck
from laybare.methods.lines import (
    Lines,
    deep_certificate,
    deep_lines_apply,
    error_bars,
    folds_certificate,
    given_layers,
    lines_apply,
    lines_certificate,
)
from laybare.networks import Network
from laybare.numerics.blas import single_blas_thread
from laybare.numerics.levels import NOISELESS
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.pipeline.recovery import Recovery
from laybare.source import Oracle
from laybare.source.oracle.repeats import RepeatedAnswers, ask_earlier_queries_again, reserved_queries


class LinesRefusal(NamedTuple):
    """Why a black box was not read along lines, and by how much answers to the same question were seen to differ."""

    claims: tuple[Claim, ...] = ()
    moved: float = 0.0


def read_black_box(
    oracle: Oracle, chosen: Lines, width: int | None, activation: Activation | None, *, named: bool,
    rng: Generator, progress: Progress | None = None,
) -> tuple[Recovery | None, LinesRefusal]:
    """The network behind a black box, or nothing, with the reason, where lines do not apply and were not `named`."""
    if not named and not lines_apply(activation):
        return None, LinesRefusal()
    depth_check = DepthProbe(oracle) if not named and deep_lines_apply(activation, oracle) else None
    try:
        return recover_by_lines(oracle, chosen, width, depth_check=depth_check, rng=rng, progress=progress), LinesRefusal()
    except AssumptionViolated as refusal:
        if named:
            raise
        if refusal.values.get("kind") == "deep" and deep_lines_apply(activation, oracle):
            report_progress(progress, "lines", oracle.spent, oracle.spent, "more than one hidden layer")
            return recover_layers(oracle, replace(chosen, depth=None), rng=rng, progress=progress), LinesRefusal()
        return None, LinesRefusal((_lines_refused_claim(refusal, oracle),), float(refusal.values.get("moved", 0.0)))


def recover_by_lines(
    oracle: Oracle, method: Lines, width: int | None = None, *, depth_check: DepthCheck | None = None, rng: Generator,
    progress: Progress | None = None,
) -> Recovery:
    """Read along lines: network, certificate, and what the queries were spent on."""
    if method.depth != 1:
        return recover_layers(oracle, method, width, rng=rng, progress=progress)
    begun, before = time.perf_counter(), oracle.spent
    with single_blas_thread():
        found = method.read(oracle, depth_check=depth_check, rng=rng, progress=progress)
        start = oracle.on_given_inputs(found.network)
        network = start.canonical()
        certified = lines_certificate(found, network, width, method.assurance.level)
        certificate = _completed(certified, found.error_bar, network, oracle)
    return Recovery(
        network, start, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def recover_layers(
    oracle: Oracle, method: Lines, width: int | None = None, *, rng: Generator, progress: Progress | None = None
) -> Recovery:
    """Read layer after layer. A single layer that is wider than its input is read as such."""
    begun, before = time.perf_counter(), oracle.spent
    with single_blas_thread():
        found = method.read_deep(oracle, rng=rng, progress=progress)
        if len(found.layers) == 1 and found.layers[0].failure and not found.layers[0].observed.curved:
            return recover_by_lines(oracle, replace(method, depth=1), width, rng=rng, progress=progress)
        last = found.layers[-1]
        deeper = len(found.layers) == method.depth and not last.failure and last.readout is None  # than the depth that was given
        if not found.complete and not found.ended and not deeper:
            folded = _recover_by_folds(oracle, method, found, rng=rng, progress=progress)
            if folded is not None:
                start, network, certificate = folded
                return Recovery(
                    network, start, certificate, method, time.perf_counter() - begun, oracle.spent - before, (),
                    dict(oracle.queries))
        start = oracle.on_given_inputs(found.network)
        hyperplanes = start.top is None and not np.any(start.readout)
        network = start if hyperplanes else start.canonical()  # a unit without readout would be lost
        certified = deep_certificate(found, network, method.depth, method.assurance.level)
        certificate = _completed(certified, found.error_bar, network, oracle)
    return Recovery(
        network, start, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def _recover_by_folds(
    oracle: Oracle, method: Lines, below: DeepReadResult, *, rng: Generator, progress: Progress | None
) -> tuple[Network, Network, Certificate] | None:
    """Start, network and certificate, read by folds above the layers `below`; None if that reads no more than these."""
    try:
        found = method.read_folds(oracle, given=given_layers(below), rng=rng, progress=progress)
    except (InvalidInput, NotSeparated):
        if oracle.resolution is None:
            raise
        return None  # surfaces lead to where a class is certain to rounding
    if found.network is None:
        return _layers_without_readout(oracle, found, below)
    start = oracle.on_given_inputs(found.network)
    network = start.canonical()
    misfit, limit, assurance = found.fresh, FoldOptions().predicted, None
    if found.complete:
        x, of_law = AssurancePlan(method.assurance, oracle.fresh_inputs).points(
            0, sum(found.queries.values()), max(0, oracle.budget - oracle.spent - reserved_queries(oracle)), rng)
        level = method.assurance.level
        misfit = max(misfit, _misfit(oracle, found.network, x))
        assurance = Assurance(level, largest_share(of_law, level), of_law) if of_law and misfit <= limit else None
    return start, network, _completed(
        folds_certificate(found, network, misfit, limit, assurance), float("nan"), network, oracle)


def _misfit(oracle: Oracle, network: Network, x: Array) -> float:
    """Largest difference of fresh answers, relative to the largest one."""
    if not len(x):
        return 0.0
    answers = oracle.ask(x, purpose="assurance")
    return float(np.abs(network(x).reshape(answers.shape) - answers).max() / np.abs(answers).max())


def _layers_without_readout(
    oracle: Oracle, found: FoldsResult, below: DeepReadResult
) -> tuple[Network, Network, Certificate] | None:
    """The layers that were read, nothing on top; None if they are no more than those below."""
    if sum(layer.width for layer in found.layers) <= sum(len(layer.biases) for layer in below.layers if not layer.failure):
        return None
    outputs = below.layers[0].observed.outputs
    width = found.layers[-1].width
    start = oracle.on_given_inputs(Network(found.layers, np.zeros(width) if outputs == 1 else np.zeros((width, outputs))))
    return start, start, _completed(
        folds_certificate(found, start, float("inf"), FoldOptions().predicted, None), float("nan"), start, oracle)


def _completed(certificate: Certificate, bar: float, network: Network, oracle: Oracle) -> Certificate:
    """With error bars on the inputs as they are given, the region of the assurance, and the claim on repeated queries."""
    region = oracle.region
    if oracle is not oracle.as_given and region is not None:
        certificate = replace(certificate, standard_errors=error_bars(bar, network, region.location, region.scale))
    if region is not None and certificate.assurance is not None:
        certificate = replace(certificate, assurance=certificate.assurance._replace(where=region.said))
    repeated = repeat_claims(ask_earlier_queries_again(oracle), noise_allowed=False)
    return replace(certificate, claims=(*certificate.claims, *repeated))


def check_fit_of_black_box(
    oracle: Oracle, found: Recovery, repeats: RepeatedAnswers | None, moved: float, assurance: AssuranceOptions, rng: Generator
) -> Recovery:
    """A fit to samples of a black box, with the claims on repeated queries, and on fresh answers if it has no noise.

    `moved`: by how much answers to the same question were seen to differ before.
    """
    certificate = found.certificate
    claims = (*repeat_claims(repeats, noise_allowed=True, moved=moved), *lack_of_fit_claim(certificate.noise, repeats))
    certificate = replace(certificate, claims=(*certificate.claims, *claims))
    if certificate.verdict == "verified" and repeats is not None and repeats.kind == "same":
        certificate = _with_fresh_answers(oracle, found.network, certificate, repeats, assurance, rng)
    return replace(found, certificate=certificate)


def _with_fresh_answers(
    oracle: Oracle, network: Network, certificate: Certificate, repeats: RepeatedAnswers, options: AssuranceOptions,
    rng: Generator,
) -> Certificate:
    """Answers at inputs that nothing else asks: without noise every one must be predicted, up to the residual of the fit."""
    begun = oracle.queries.get("assurance", 0)
    left = max(0, oracle.budget - oracle.spent - reserved_queries(oracle))
    x, of_law = AssurancePlan(options, oracle.fresh_inputs).points(begun, oracle.spent - begun, left, rng)
    if not len(x):
        return certificate
    oracle.ask(x, purpose="assurance", gaps=True)
    asked = oracle.answered("assurance")
    x, answers = asked.read(0, asked.size)  # those of earlier rounds as well
    usable = np.isfinite(answers).all(axis=1)
    limit = max(
        FIT.contradiction_sds * certificate.noise, float(repeats.tol.max()), NOISELESS * float(np.std(answers[usable])))
    worst = float(np.abs(network(x[usable]).reshape(answers[usable].shape) - answers[usable]).max(initial=0.0))
    claim = Claim(
        ClaimName.FRESH_ANSWERS, worst, limit, worst <= limit, "tested",
        f"largest difference at {int(usable.sum()):,} inputs that nothing else used, against rounding and the residual of the "
        "fit; a larger one means that something is missing.", decisive=True)
    shown = Assurance(options.level, largest_share(of_law, options.level), of_law) if claim.passed else None
    return replace(certificate, claims=(*certificate.claims, claim), assurance=shown)


def chosen_lines(method: Lines | None, activation: Activation | None, assurance: AssuranceOptions | None) -> Lines:
    """The method that was given, or the default, with the activation and the assurance of the call."""
    chosen = _chosen_method(method, activation)
    return chosen if assurance is None else replace(chosen, assurance=assurance)


def _chosen_method(method: Lines | None, activation: Activation | None) -> Lines:
    if method is None:
        return Lines(activation=activation)
    if activation is not None and method.activation is not None and method.activation != activation:
        raise InvalidInput(
            f"activation={activation.name} was given, and a method for {method.activation.name}.",
            "They contradict each other.", "Give the activation once, or the same twice.")
    return method if activation is None else replace(method, activation=activation)


def _lines_refused_claim(refusal: AssumptionViolated, oracle: Oracle) -> Claim:
    return Claim(
        "queries of lines before samples", float(oracle.spent), 0.0, True, "tested",
        f"the black box was not read along lines: {refusal.seen} {refusal.why} Samples were drawn from it instead.")
