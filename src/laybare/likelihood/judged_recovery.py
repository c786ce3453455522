"""Recovery by another likelihood than equal normal noise: other losses, weights of rows, groups of rows.

The same way as in `main_loop`: used and fresh rows, white inputs, a search, signs, a certificate; every fit is a weighted
Gauss-Newton fit (`laybare.likelihood.weighted_fit`). Groups stay together: all rows of one are used, or all are fresh.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.certificate import Certificate, SearchRecord, unfinished_certificate
from laybare.certificate.data_profile import DataProfile, profile_data
from laybare.errors import Interrupted, InvalidInput, TooFewSamples
from laybare.likelihood.deviance_tests import JudgedParts, certify_likelihood
from laybare.likelihood.width_search import LikelihoodSearch, search_likelihood, with_own_signs
from laybare.lines.assurance import AssuranceOptions
from laybare.methods import Method, RandomStart
from laybare.networks import Network
from laybare.numerics.checks import as_reals, show_value
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.search.settings import Search
from laybare.solver.loop import Trace
from laybare.solver.point import FittedPoint, network_of, outputs_at
from laybare.source import Affine, Oracle, Source
from laybare.source.losses import LikelihoodRows, Loss, likelihood_rows
from laybare.source.problem import Problem, held_out, pose_parts
from laybare.source.views import View

SCALE_ROUNDS = 3
"""Fits with Huber's loss, each with the scale of the residuals before it. Derived: the first begins with that of a linear fit."""


class Judgement(NamedTuple):
    """How rows are judged: by a loss, with weights (n,), in groups (n,), at a level."""

    loss: Loss
    weights: Array | None
    groups: Array | None
    assurance: AssuranceOptions = AssuranceOptions()

    @property
    def plain(self) -> bool:
        """Whether that is the squared error of rows that are alike."""
        return self.loss.name == "squared" and self.weights is None and self.groups is None


class JudgedFit(NamedTuple):
    """A network with its certificate, how the search went, how the data look beside it, and the loss with its scale."""

    network: Network
    certificate: Certificate
    trace: Trace
    rows: int
    profile: DataProfile | None
    loss: Loss


def judgement_of(source: Source, loss: Loss, sample_weight: Any, groups: Any) -> Judgement:
    """Checked against the rows of the source; equal weights are none."""
    weights = None if sample_weight is None else _as_weights(sample_weight, source.size)
    labels = None if groups is None else _as_labels(groups, source.size)
    if weights is not None and weights.min() == weights.max():
        weights = None
    return Judgement(loss, weights, labels)


def _as_labels(given: Any, size: int) -> Array:
    """The group of every row."""
    try:
        labels = np.asarray(given).reshape(-1)
        kinds = len(np.unique(labels)) if np.all(labels == labels) else 0  # a missing label is not equal to itself
    except Exception:  # labels without an order, rows of different length, whatever an object does
        labels, kinds = np.zeros(0), 0
    if len(labels) != size or kinds < 2:
        raise InvalidInput(
            f"groups is {show_value(given)}: {kinds} groups, for {size} rows.",
            "Every row belongs to one of at least two groups.",
            "Give one label per row, all numbers or all text and none missing, or leave groups out.")
    return labels


def _as_weights(given: Any, size: int) -> Array:
    weights = as_reals("sample_weight", given).reshape(-1)
    if len(weights) != size or not np.isfinite(weights).all() or (weights < 0.0).any() or not (weights > 0.0).any():
        raise InvalidInput(
            f"sample_weight is {show_value(given)} for {size} rows.",
            "Every row has a weight that is finite and not negative, and some row has one above zero.",
            "Give one weight per row, or leave sample_weight out.")
    return weights


def recover_by_likelihood(
    source: Source, judged: Judgement, method: RandomStart, width: int | None, *, rng: Generator, progress: Progress | None = None
) -> JudgedFit:
    """Split, search, choose signs, certify."""
    activation, search = method.activation, method.search or Search()
    report_progress(progress, "reading")
    problem, used, fresh = _pose(source, judged, rng)
    if judged.loss.name == "huber":
        fit, used, context = _with_scale(used, width, activation, search, rng, progress)
    else:
        context = LikelihoodSearch.of(used, activation, search, rng=rng, progress=progress)
        fit = search_likelihood(context, width)
    signed = with_own_signs(context, fit, activation)
    found = signed.fit
    network = problem.given(network_of(found.point, vector=used.outputs == 1)).canonical()
    record = SearchRecord(signed.claims, found.runs)
    fresh = fresh.with_loss(used.loss)
    profile = None
    try:
        if found.trace.interrupted:
            raise Interrupted
        report_progress(progress, "certifying")
        parts = JudgedParts(used, fresh, judged.assurance)
        certificate = certify_likelihood(network, problem, parts, rng=rng, search=record, progress=progress)
        profile = profile_data(network, problem, used.loss)
    except KeyboardInterrupt:
        certificate = unfinished_certificate(network, record.claims)
    return JudgedFit(network, certificate, found.trace, problem.rows, profile, used.loss)


def random_start_of(source: Source, method: Method | None, activation: Activation | None) -> RandomStart:
    """The method that serves every likelihood, with the activation that was given, or ReLU; others are refused."""
    if isinstance(source, Oracle):
        raise InvalidInput(
            "A loss, weights or groups were given with a black box.", "They say how rows scatter, and it has no rows yet.",
            "Draw rows from it, or say how its answers are linked: Oracle(..., link=\"logit\").")
    if method is not None and not isinstance(method, RandomStart):
        raise InvalidInput(
            f"The method is {type(method).__name__}, with a loss, weights or groups.",
            "Only a search from random units serves every likelihood.", "Leave the method out, or give RandomStart().")
    chosen = RandomStart() if method is None else method
    return chosen if activation is None else replace(chosen, activation=activation)


def _pose(source: Source, judged: Judgement, rng: Generator) -> tuple[Problem, LikelihoodRows, LikelihoodRows]:
    """The problem, with used and fresh rows as they are judged; rows of one group, or of one input, stay together."""
    x, y = source.read(0, source.size)
    judged.loss.check(y)
    counted = np.flatnonzero(np.ones(len(x)) if judged.weights is None else judged.weights)
    if judged.groups is None:
        together = np.unique(x[counted], axis=0, return_inverse=True)[1].ravel()
    else:
        together = np.unique(judged.groups[counted], return_inverse=True)[1].ravel()
    numbers = rng.permutation(int(together.max()) + 1)
    sizes = np.bincount(together)
    enough = int(np.searchsorted(np.cumsum(sizes[numbers]), held_out(len(counted)))) + 1
    if enough >= len(numbers):
        raise TooFewSamples(
            f"{len(counted):,} rows with weight in {len(numbers):,} groups.", "Some are fitted and others are held out.",
            "Give more rows, or more groups.", samples=len(counted))
    held = np.isin(together, numbers[:enough])
    parts = [counted[~held], counted[held]]
    views = (View(source, part, Affine.identity(source.dim), source.law, source.schedule) for part in parts)
    problem = pose_parts(*views, biases=True)
    used, fresh = (
        likelihood_rows(
            rows, judged.loss, None if judged.weights is None else judged.weights[part],
            None if judged.groups is None else judged.groups[part], schedule=source.schedule, law=rows.law)
        for rows, part in zip((problem.used, problem.fresh), parts, strict=True))
    return problem, used, fresh


def _with_scale(
    used: LikelihoodRows, width: int | None, activation: Activation, search: Search, rng: Generator, progress: Progress | None
) -> tuple[FittedPoint, LikelihoodRows, LikelihoodSearch]:
    """Huber's loss needs the scale of the residuals, and these need a fit: both are found in turn."""
    x, labels = used.rows.read(0, used.size).x, used.labels
    features = np.column_stack([np.ones(len(x)), x])
    coefficients = np.linalg.lstsq(features, labels.y, rcond=None)[0]
    residual, known = labels.y - features @ coefficients, None
    for _ in range(SCALE_ROUNDS):
        used = used.with_loss(used.loss.scaled_to(residual))
        context = LikelihoodSearch.of(used, activation, search, rng=rng, progress=progress)
        fit = search_likelihood(context, width, known)
        residual, known = labels.y - outputs_at(fit.point, x), fit.point.units
        if fit.trace.reason == "interrupted":
            break
    return fit, used, context
