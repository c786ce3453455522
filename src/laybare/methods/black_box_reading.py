"""Reading a black box along lines, and what stands in the way, in words.

A black box that is read along lines at chosen points: network and certificate, or the reason why lines do not apply.

A classifier is read along lines that end where its probabilities are 0 or 1 to rounding: nothing is left of its log-odds there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Assurance, Certificate, Claim, ClaimName
from laybare.certificate.repeatability import repeat_claims
from laybare.errors import AssumptionViolated, BudgetExhausted, InvalidInput, NotSeparated
from laybare.lines.assurance import AssuranceOptions
from laybare.lines.depth import DepthProbe
from laybare.lines.folds import FoldOptions, FoldsResult
from laybare.lines.read import DeepReadResult, ReadResult
from laybare.lines.single_layer import DepthCheck
from laybare.lines.surfaces import Surface
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
from laybare.methods.misfit import check_not_rounded, with_named_misfit
from laybare.methods.start import check_activation
from laybare.networks import Network
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.source import Oracle
from laybare.source.oracle.repeats import ask_earlier_queries_again, reserved_queries


class LinesRefusal(NamedTuple):
    """Why a black box was not read along lines, by how much answers to the same question were seen to differ, and whether lines
    met a curve."""

    claims: tuple[Claim, ...] = ()
    moved: float = 0.0
    curved: bool = False


class BlackBoxReading(NamedTuple):
    """What lines found, on the given inputs: the method that did, the network as it was read and in canonical form, and its
    certificate."""

    method: Lines
    start: Network
    network: Network
    certificate: Certificate


def read_black_box(
    oracle: Oracle, chosen: Lines, width: int | None, *, named: bool, rng: Generator, progress: Progress | None = None,
) -> tuple[BlackBoxReading | None, LinesRefusal]:
    """The network behind a black box, or nothing, with the reason, where lines do not apply and were not `named`."""
    if not named and not lines_apply(chosen.activation):
        return None, LinesRefusal()
    may_be_deep = not named and deep_lines_apply(chosen.activation, oracle)
    depth_check = DepthProbe(oracle) if may_be_deep else None
    try:
        return read_single_layer(oracle, chosen, width, depth_check=depth_check, rng=rng, progress=progress), LinesRefusal()
    except BudgetExhausted as ended:
        check_not_rounded(oracle, ended)
        raise
    except AssumptionViolated as refusal:
        if named:
            raise
        if refusal.values.get("kind") == "deep" and may_be_deep:
            report_progress(progress, "lines", oracle.spent, oracle.spent, "more than one hidden layer")
            try:
                deep, located = replace(chosen, depth=None), refusal.values.get("located", ())
                return read_layers(oracle, deep, located=located, rng=rng, progress=progress), LinesRefusal()
            except BudgetExhausted as ended:
                raise _of_all_queries(ended, oracle) from ended
        moved, curved = float(refusal.values.get("moved", 0.0)), refusal.values.get("kind") == "smooth"
        return None, LinesRefusal((_lines_refused_claim(refusal, oracle),), moved, curved)


def _of_all_queries(ended: BudgetExhausted, oracle: Oracle) -> BudgetExhausted:
    """The same with what all readings have spent, and not only the last one."""
    if ended.values.get("spent", oracle.spent) == oracle.spent:
        return ended
    return BudgetExhausted(
        ended.seen, f"{oracle.spent:,} of the {oracle.budget:,} queries that were granted are spent, and no layer is complete.",
        "Grant more queries, four times as many for instance.", **{**ended.values, "spent": oracle.spent})


def read_single_layer(
    oracle: Oracle, method: Lines, width: int | None = None, *, depth_check: DepthCheck | None = None, rng: Generator,
    progress: Progress | None = None,
) -> BlackBoxReading:
    """Read along lines, as many layers as the method asks for."""
    if method.depth != 1:
        return read_layers(oracle, method, width, rng=rng, progress=progress)
    found = method.read(oracle, depth_check=depth_check, rng=rng, progress=progress)
    start = oracle.on_given_inputs(found.network)
    network = start.canonical()
    certified = lines_certificate(found, network, width, method.assurance.level)
    return BlackBoxReading(method, start, network, _finished(certified, found, network, oracle, rng))


def read_layers(
    oracle: Oracle, method: Lines, width: int | None = None, *, located: tuple[Surface, ...] = (), rng: Generator,
    progress: Progress | None = None,
) -> BlackBoxReading:
    """Read layer after layer. A single layer that is wider than its input is read as such."""
    found = method.read_deep(oracle, located=located, rng=rng, progress=progress)
    if len(found.layers) == 1 and found.layers[0].failure and not (found.ended or found.layers[0].observed.curved):
        try:
            return read_single_layer(oracle, replace(method, depth=1), width, rng=rng, progress=progress)
        except AssumptionViolated as refusal:
            if refusal.values.get("kind") != "deep":
                raise
    last = found.layers[-1]
    deeper = len(found.layers) == method.depth and not last.failure and last.readout is None  # than the depth that was given
    if not found.complete and not found.ended and not deeper:
        if not found.rounding.fine:
            found = replace(found, failure=_where_rounding_ends(found))
        read_above = _read_folds if found.rounding.fine else _read_coarse
        folded = read_above(oracle, method, found, rng=rng, progress=progress)
        if folded is not None:
            return folded._replace(certificate=with_named_misfit(folded.certificate, oracle, folded.network, rng=rng))
    start = oracle.on_given_inputs(found.network)
    hyperplanes = start.top is None and not np.any(start.readout)
    network = start if hyperplanes else start.canonical()  # a unit without readout would be lost
    certified = deep_certificate(found, network, method.depth, method.assurance.level)
    return BlackBoxReading(method, start, network, _finished(certified, found, network, oracle, rng))


def _where_rounding_ends(found: DeepReadResult) -> str:
    """What is missing, and how to get it: rows of surfaces that are followed across folds close to rounding, and not before."""
    return (
        f"{found.failure}. Answers rounded as {found.rounding.kind} leave too few digits to follow surfaces of units above: ask "
        "the same model in float64, exported or computed with float64 numbers, and those layers are read too")


def _read_folds(
    oracle: Oracle, method: Lines, below: DeepReadResult, *, rng: Generator, progress: Progress | None
) -> BlackBoxReading | None:
    """What folds read above the layers `below`; None if that is no more than these."""
    try:
        found = method.read_folds(oracle, given=given_layers(below), rng=rng, progress=progress)
    except (InvalidInput, NotSeparated):
        if oracle.resolution is None:
            raise
        return None  # surfaces lead to where a class is certain to rounding
    if found.network is None:
        return _layers_without_readout(oracle, method, found, below)
    start = oracle.on_given_inputs(found.network)
    network = start.canonical()
    misfit, limit, assurance = found.fresh, FoldOptions().predicted, None
    if found.complete:
        points = method.plan(oracle).points(
            0, sum(found.queries.values()), max(0, oracle.budget - oracle.spent - reserved_queries(oracle)), rng)
        misfit, shown = max(misfit, _misfit(oracle, found.network, points.x)), points.assured()
        assurance = (
            Assurance(method.assurance.level, shown.share, shown.answers) if shown.answers and misfit <= limit else None)
    certificate = folds_certificate(found, start, network, misfit, limit, assurance)
    return BlackBoxReading(method, start, network, _completed(certificate, found.error_bar, network, oracle))


def _read_coarse(
    oracle: Oracle, method: Lines, below: DeepReadResult, *, rng: Generator, progress: Progress | None
) -> BlackBoxReading | None:
    """What coarse answers tell of the layers above the lowest; None if that is no more than it."""
    if method.depth == 1 or oracle.dim == 1 or not len(below.layers[0].weights):
        return None
    try:
        found = method.read_coarse(oracle, below, rng=rng, progress=progress)
    except NotSeparated:
        return None  # a class is certain to rounding wherever it was asked
    if found.network is None:
        return _layers_without_readout(oracle, method, found, below)
    start = oracle.on_given_inputs(found.network)
    network, shown = start.canonical(), found.assured
    assurance = Assurance(method.assurance.level, shown.share, shown.answers) if found.complete and shown.answers else None
    certificate = folds_certificate(found, start, network, found.fresh, found.limit, assurance)
    return BlackBoxReading(method, start, network, _completed(certificate, found.error_bar, network, oracle))


def _misfit(oracle: Oracle, network: Network, x: Array) -> float:
    """Largest difference of fresh answers, relative to the largest one."""
    if not len(x):
        return 0.0
    answers = oracle.ask(x, purpose="assurance")
    return float(np.abs(network(x).reshape(answers.shape) - answers).max() / np.abs(answers).max())


def _layers_without_readout(
    oracle: Oracle, method: Lines, found: FoldsResult, below: DeepReadResult
) -> BlackBoxReading | None:
    """The layers that were read, nothing on top; None if they are no more than those below."""
    if sum(layer.width for layer in found.layers) <= sum(len(layer.biases) for layer in below.layers if not layer.failure):
        return None
    outputs = below.layers[0].observed.outputs
    width = found.layers[-1].width
    start = oracle.on_given_inputs(Network(found.layers, np.zeros(width) if outputs == 1 else np.zeros((width, outputs))))
    certificate = folds_certificate(found, start, start, float("inf"), FoldOptions().predicted, None)
    return BlackBoxReading(method, start, start, _completed(certificate, float("nan"), start, oracle))


def _finished(
    certificate: Certificate, found: ReadResult | DeepReadResult, network: Network, oracle: Oracle, rng: Generator
) -> Certificate:
    """Completed, and with a name for what fresh answers leave, where there is one."""
    completed = _completed(certificate, found.error_bar, network, oracle)
    return with_named_misfit(completed, oracle, network, ended=found.ended, rng=rng)


def _completed(certificate: Certificate, bar: float, network: Network, oracle: Oracle) -> Certificate:
    """With error bars on the inputs as they are given, the region of the assurance, and the claim on repeated queries."""
    region = oracle.region
    if oracle is not oracle.as_given and region is not None:
        certificate = replace(certificate, standard_errors=error_bars(bar, network, region.location, region.scale))
    if region is not None and certificate.assurance is not None:
        certificate = replace(certificate, assurance=certificate.assurance._replace(where=region.said))
    repeated = repeat_claims(ask_earlier_queries_again(oracle), noise_allowed=False)
    return replace(certificate, claims=(*certificate.claims, *repeated))


def chosen_lines(method: Lines | None, activation: Activation | None, assurance: AssuranceOptions | None) -> Lines:
    """The method that was given, or the default, with the activation and the assurance of the call."""
    chosen = Lines(activation=activation) if method is None else check_activation(method, activation)
    asked = {"activation": activation, "assurance": assurance}
    return replace(chosen, **{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]


def _lines_refused_claim(refusal: AssumptionViolated, oracle: Oracle) -> Claim:
    return Claim(
        ClaimName.LINES_BEFORE, float(oracle.spent), 0.0, True, "tested",
        f"the black box was not read along lines: {refusal.seen} {refusal.why} Samples were drawn from it instead.")
