"""Losses: minus log-likelihoods of the outputs given what a network says, and all that fits and error bars need of them.

A network answers η. The mean of y is μ = mean(η): the link. For each row a loss gives

    score        u = -∂(loss)/∂η        y - μ for canonical links, clipped for Huber's loss
    information  i = -E ∂u/∂η           the weight of the row in a Gauss-Newton step
    deviance     2 · loss, less that of a perfect fit

so that one damped Gauss-Newton loop (`laybare.likelihood.weighted_fit`) serves all of them, with Σ i JᵀJ and Σ Jᵀu as its sums,
and one sandwich H⁻¹ S H⁻¹ with H = Σ i JᵀJ and S = Σ u² JᵀJ gives the standard errors.
Source: Nelder and Wedderburn (1972) for the links; Huber (1964) for clipped residuals.

Rows that are judged by a likelihood: each with its weight and its group, and the loss that they share.

Weight and group stand beside the outputs, in the last two columns of y, so that every pass over them is `Source.sum` as always.
Weights scale a row's log-likelihood. They are normalised so that they add up to the effective number of rows,

    n_eff = (Σ w)² / Σ w²        (Kish 1965)

which is what tests and penalties count; equal weights are all one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from laybare.errors import InvalidInput
from laybare.numerics.checks import show_value
from laybare.numerics.shapes import Array, Statistic, Sums
from laybare.source.protocol import Affine, Law, Source
from laybare.source.sums import Schedule
from laybare.source.views import RowsInMemory


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """Numbers of the losses."""

    huber_threshold: float = 1.345  # Standard deviations of residuals that are clipped. Paper: Huber (1964), 95 % efficiency.
    largest_log_mean: float = 30.0  # Counts with larger means do not occur. Derived: exp(30) is 1e13.
    largest_log_odds: float = 30.0  # Derived: probabilities then differ from 0 and 1 by a hundred roundings.
    separated: float = 1e-3  # Share of the deviance that is left where labels are separated. Convention: a thousandth.
    least_mean: float = 1e-3  # Mean count, or odds, that a starting value has at least. Convention: a thousandth.


LOSS = LossOptions()

MAD_TO_SD = 0.6744897501960817
"""Median of |g| for a standard normal g. Derived: the quantile of the normal law at 3/4."""


class RowLikelihood(NamedTuple):
    """Score, information and deviance of every row and output, each (n, outputs)."""

    score: Array
    information: Array
    deviance: Array


@dataclass(frozen=True)
class Loss:
    """A loss by its name; `scale` is the standard deviation beyond which Huber's loss clips, in multiples of its threshold."""

    name: str = "squared"
    scale: float = 1.0

    @property
    def linked(self) -> bool:
        """Whether the mean of y is another number than what the network answers."""
        return self.name in ("poisson", "bernoulli")

    def mean(self, eta: Array) -> Array:
        """The mean of y where the network answers `eta`."""
        if self.name == "poisson":
            return np.asarray(np.exp(np.clip(eta, -LOSS.largest_log_mean, LOSS.largest_log_mean)))
        return np.asarray(expit(np.clip(eta, -LOSS.largest_log_odds, LOSS.largest_log_odds)) if self.name == "bernoulli" else eta)

    def variance(self, mean: Array) -> Array:
        """The variance of y at a mean, up to the dispersion."""
        if self.name == "poisson":
            return np.asarray(mean)
        return np.asarray(mean * (1.0 - mean) if self.name == "bernoulli" else np.ones_like(mean))

    def answer(self, mean: Array) -> Array:
        """What a network answers where the mean of y is this: the link."""
        if self.name == "poisson":
            return np.asarray(np.log(np.maximum(mean, LOSS.least_mean)))
        if self.name == "bernoulli":
            inside = np.clip(mean, LOSS.least_mean, 1.0 - LOSS.least_mean)
            return np.asarray(np.log(inside / (1.0 - inside)))
        return np.asarray(mean)

    def rows(self, eta: Array, y: Array) -> RowLikelihood:
        """Of every row."""
        mean = self.mean(eta)
        residual = y - mean
        if self.name == "huber":
            limit = LOSS.huber_threshold * self.scale
            clipped = np.clip(residual, -limit, limit)
            return RowLikelihood(clipped, (np.abs(residual) <= limit).astype(float), clipped * (2.0 * residual - clipped))
        if self.name == "poisson":
            return RowLikelihood(residual, mean, 2.0 * (xlogy(y, y / mean) - residual))
        if self.name == "bernoulli":
            deviance = -2.0 * (xlogy(y, mean) + xlogy(1.0 - y, 1.0 - mean))
            return RowLikelihood(residual, mean * (1.0 - mean), deviance)
        return RowLikelihood(residual, np.ones_like(residual), residual**2)

    def scaled_to(self, residual: Array) -> Loss:
        """Huber's loss for residuals of this size, by their median; others as they are."""
        if self.name != "huber":
            return self
        middle = float(np.median(np.abs(residual)))
        return replace(self, scale=middle / MAD_TO_SD if middle > 0.0 else 1.0)

    def check(self, y: Array) -> None:
        """Raise InvalidInput for outputs that the likelihood cannot have."""
        if self.name == "poisson" and (y < 0.0).any():
            raise InvalidInput(
                f"An output is {float(y.min()):.3g}.", "The Poisson loss is for counts and rates, which are not negative.",
                'Use loss="squared" or loss="huber".', smallest=float(y.min()))
        if self.name == "bernoulli" and ((y < 0.0) | (y > 1.0)).any():
            raise InvalidInput(
                f"Outputs run from {float(y.min()):.3g} to {float(y.max()):.3g}.",
                "The Bernoulli loss is for labels 0 and 1, or shares between them.", "Give labels 0 and 1.",
                smallest=float(y.min()), largest=float(y.max()))


LOSSES = ("squared", "huber", "poisson", "bernoulli")


def as_loss(given: Any) -> Loss:
    """A loss, or its name."""
    if isinstance(given, Loss):
        return given
    if not isinstance(given, str) or given not in LOSSES:
        raise InvalidInput(
            f"loss is {show_value(given)}.", "It says how outputs scatter about their mean.", f"Give one of {', '.join(LOSSES)}.")
    return Loss(given)


class Labels(NamedTuple):
    """Outputs (n, outputs), weights (n,) and numbers of groups (n,) of a block of rows."""

    y: Array
    weights: Array
    groups: Array


def labels_of(columns: Array) -> Labels:
    """Outputs, weights and groups from the columns of y."""
    return Labels(columns[:, :-2], columns[:, -2], columns[:, -1].astype(np.intp))


@dataclass(frozen=True, eq=False)
class LikelihoodRows:
    """Rows in memory whose y is [outputs, weight, group]; `groups` is the number of groups, 0 if every row is its own."""

    rows: Source
    loss: Loss
    groups: int = 0

    @property
    def dim(self) -> int:
        return self.rows.dim

    @property
    def outputs(self) -> int:
        return self.rows.outputs - 2

    @property
    def size(self) -> int:
        return self.rows.size

    @property
    def labels(self) -> Labels:
        """Of all rows."""
        return labels_of(self.rows.read(0, self.size).y)

    @cached_property
    def counted(self) -> bool:
        """Whether outputs are whole numbers, as counts and labels are, and rates and shares are not."""
        y = self.labels.y
        return bool((y == np.rint(y)).all())

    @property
    def effective(self) -> float:
        """The effective number of rows, which the weights add up to."""
        (total,) = self.sum(lambda x, y: (np.asarray(y[:, -2].sum()),), stage="weights")
        return float(total)

    def sum(self, statistic: Statistic, *, stage: str) -> Sums:
        """`statistic` of (x, [outputs, weight, group]) summed over all rows."""
        return self.rows.sum(statistic, stage=stage)

    def with_loss(self, loss: Loss) -> LikelihoodRows:
        """The same rows, judged by another loss."""
        return LikelihoodRows(self.rows, loss, self.groups)


def likelihood_rows(
    source: Source, loss: Loss, weights: Array | None = None, groups: Array | None = None, *, schedule: Schedule, law: Law
) -> LikelihoodRows:
    """The rows of a source with weights (n,) and labels of groups (n,)."""
    x, y = source.read(0, source.size)
    counted = np.ones(len(x)) if weights is None else weights * (weights.sum() / np.sum(weights**2))
    names, numbers = np.unique(np.zeros(len(x)) if groups is None else groups, return_inverse=True)
    columns = np.column_stack([y, counted, numbers.ravel()])
    rows = RowsInMemory(np.ascontiguousarray(x), columns, Affine.identity(source.dim), law, schedule, exchangeable=False)
    return LikelihoodRows(rows, loss, 0 if groups is None else len(names))
