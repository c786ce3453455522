"""A black box that is asked at chosen points: read along lines, or passed to the loop on samples with the reason.

A classifier is read inside a box: where its probabilities are 0 or 1 to rounding, nothing is left of its log-odds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Assurance, Certificate, Claim
from laybare.certificate.exchangeability import drift_claims_of_reading
from laybare.errors import AssumptionViolated, InvalidInput
from laybare.lines.assurance import AssuranceOptions, AssurancePlan, largest_share
from laybare.lines.depth import DepthProbe
from laybare.lines.folds import FoldOptions
from laybare.lines.single_layer import DepthCheck
from laybare.methods.lines import (
    Lines,
    deep_certificate,
    deep_lines_apply,
    folds_certificate,
    lines_apply,
    lines_certificate,
)
from laybare.numerics.blas import single_blas_thread
from laybare.numerics.shapes import Progress, report_progress
from laybare.pipeline.recovery import Recovery
from laybare.source import GRAIN, Oracle


def read_black_box(
    oracle: Oracle, chosen: Lines, width: int | None, activation: Activation | None, *, named: bool,
    rng: Generator, progress: Progress | None = None,
) -> tuple[Recovery | None, tuple[Claim, ...]]:
    """The network behind a black box, or nothing, with the reason, where lines do not apply and were not `named`."""
    if not named and not lines_apply(activation):
        return None, ()
    depth_check = DepthProbe(oracle) if not named and deep_lines_apply(activation, oracle) else None
    try:
        return recover_by_lines(oracle, chosen, width, depth_check=depth_check, rng=rng, progress=progress), ()
    except AssumptionViolated as refusal:
        if named:
            raise
        if refusal.values.get("kind") == "deep" and deep_lines_apply(activation, oracle):
            report_progress(progress, "lines", oracle.spent, oracle.spent, "more than one hidden layer")
            return recover_layers(oracle, replace(chosen, depth=None), rng=rng, progress=progress), ()
        return None, (_lines_refused_claim(refusal, oracle),)


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
        network = found.network.canonical()
        certificate = _with_drift(lines_certificate(found, network, width, method.assurance.level), oracle)
    return Recovery(
        network, found.network, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def recover_layers(
    oracle: Oracle, method: Lines, width: int | None = None, *, rng: Generator, progress: Progress | None = None
) -> Recovery:
    """Read layer after layer. A single layer that is wider than its input is read as such."""
    begun, before = time.perf_counter(), oracle.spent
    with single_blas_thread():
        found = method.read_deep(oracle, rng=rng, progress=progress)
        if len(found.layers) == 1 and found.layers[0].failure and not found.layers[0].observed.curved:
            return recover_by_lines(oracle, replace(method, depth=1), width, rng=rng, progress=progress)
        if not found.complete and not found.ended:
            folded = _recover_by_folds(oracle, method, begun, before, rng=rng, progress=progress)
            if folded is not None:
                return folded
        hyperplanes = found.network.top is None and not np.any(found.network.readout)
        network = found.network if hyperplanes else found.network.canonical()  # a unit without readout would be lost
        certificate = _with_drift(deep_certificate(found, network, method.depth, method.assurance.level), oracle)
    return Recovery(
        network, found.network, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def _recover_by_folds(
    oracle: Oracle, method: Lines, begun: float, before: int, *, rng: Generator, progress: Progress | None
) -> Recovery | None:
    """Read by folds what layer after layer did not give; None if that does not predict fresh answers either."""
    found = method.read_folds(oracle, rng=rng, progress=progress)
    if found.network is None or not found.complete:
        return None
    network = found.network.canonical()
    x, of_law = AssurancePlan(method.assurance, oracle.fresh_inputs).points(
        0, oracle.spent - before, oracle.budget - oracle.spent, rng)
    misfit, limit = found.fresh, FoldOptions().predicted
    if len(x):
        answers = oracle.ask(x, purpose="assurance")
        misfit = max(misfit, float(np.abs(network(x).reshape(answers.shape) - answers).max() / np.abs(answers).max()))
    level = method.assurance.level
    assurance = Assurance(level, largest_share(of_law, level), of_law) if of_law and misfit <= limit else None
    certificate = _with_drift(folds_certificate(found, network, misfit, limit, assurance), oracle)
    return Recovery(
        network, found.network, certificate, method, time.perf_counter() - begun, oracle.spent - before, (), dict(oracle.queries))


def _with_drift(certificate: Certificate, oracle: Oracle) -> Certificate:
    return replace(certificate, claims=(*certificate.claims, *drift_claims_of_reading(oracle)))


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


@dataclass(frozen=True, kw_only=True)
class UnsaturatedBoxOptions:
    """How a box is found in which no class is certain."""

    half_side: float = 2.0  # half of the first side, in standard deviations. Checked by `pytest tests/recovery`.
    halvings: int = 8  # Most halvings of the box. Checked by `pytest tests/recovery`.
    corners: int = 8  # Random corners that are asked each time. Checked by `pytest tests/recovery`.
    log_odds: float = 12.0  # largest at a corner. Derived: beyond it a float64 keeps fewer than eleven digits.


BOX = UnsaturatedBoxOptions()
"""The options in use."""


def restrict_to_unsaturated_box(oracle: Oracle, *, rng: Generator) -> Oracle:
    """The oracle inside a box where no class is certain, if it gives probabilities and has no box; `BOX.corners` queries per try.

    Lines reach far out, where the probabilities of every network are 0 or 1.
    """
    if oracle.box is not None or oracle.link == "identity" or oracle.budget - oracle.spent < 2 * BOX.corners * BOX.halvings:
        return oracle
    if oracle.spent == 0:
        oracle.ask(oracle.typical(1), purpose="first look", gaps=True)
    if oracle.link_in_use == "identity":
        return oracle
    x = oracle.typical(GRAIN)
    middle, side = x.mean(axis=0), BOX.half_side * x.std(axis=0)
    for _ in range(BOX.halvings):
        corners = middle + side * rng.choice([-1.0, 1.0], size=(BOX.corners, oracle.dim))
        odds = oracle.ask(corners, purpose="first look", gaps=True)
        if np.isfinite(odds).all() and np.abs(odds).max() < BOX.log_odds:
            break
        side = side / 2.0
    return oracle.inside((middle - side, middle + side))
