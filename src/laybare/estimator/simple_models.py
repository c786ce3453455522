"""The simplest network that the rows support: no hidden unit, a linear part as far as it predicts, down to a constant.

For rows that are too few for a hidden unit, outputs that do not vary, or more columns than rows. The linear part is shrunk by a
ridge whose size generalised cross-validation chooses (Golub, Heath and Wahba 1979), from none to one that leaves a constant:

    GCV(λ) = n · Σ w r² / (n - 1 - Σ s² / (s² + λ))²,       s the singular values of the standardised, weighted columns

Counts and labels have the linear part of a generalised linear model, its standardised slopes shrunk by a normal prior of variance
one, so that separated labels have a finite one too; heavy tails that of Huber's loss, with the same prior. A row that occurs
twice is one row of twice the weight: copies and weights mean the same.

No row is held out from so few. Intervals of new answers rest on what each row is missed by if it is left out (the jackknife;
Barber, Candès, Ramdas and Tibshirani 2021), which one fit tells: residual / (1 - leverage), for likelihoods by one step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.activations import relu
from laybare.certificate import Certificate, Claim, ClaimName, StandardErrors
from laybare.certificate.data_profile import DATA_PROFILE, DataProfile, spaced_rows
from laybare.certificate.error_propagation import ERRORS
from laybare.likelihood.judged_recovery import SCALE_ROUNDS
from laybare.likelihood.weighted_fit import constant_point, deviance_at, dispersion, maximise_likelihood, sums_at
from laybare.networks import Layer, Network
from laybare.numerics.levels import EPS
from laybare.numerics.linear_algebra import inverse_spd
from laybare.numerics.shapes import Array
from laybare.pipeline.recovery import Recovery
from laybare.solver.point import Model
from laybare.source import Rows, Schedule, Unknown
from laybare.source.derived import StackedRows
from laybare.source.losses import Loss, likelihood_rows
from laybare.source.samples import StackedArrays


@dataclass(frozen=True, kw_only=True)
class SimpleModelOptions:
    """The ridge of the linear part."""

    smallest_ridge: float = 1e-10  # Times the largest squared singular value. Derived: its root is half of the digits.
    largest_ridge: float = 1e4  # Times the same. Derived: what is left is a ten-thousandth, beside which a constant is tried.
    ridges: int = 57  # Sizes between them. Derived: four per factor of ten.
    prior_precision: float = 1.0  # Of standardised slopes for counts and labels. Convention: as in scikit-learn's C = 1.


SIMPLE = SimpleModelOptions()


class WeightedRows(NamedTuple):
    """Different rows, and what each counts."""

    x: Array
    y: Array
    weights: Array


class LinearFit(NamedTuple):
    """y ≈ offset + x·slopes (dim, outputs); the variance of the noise, and the covariance of (offset, slopes) for one output of
    that variance, both NaN where no row is left to tell; how much each row moves the fit to itself, (n,) or (n, outputs)."""

    offset: Array
    slopes: Array
    noise: float
    covariance: Array
    explained: float
    leverage: Array


def merge_copies(x: Array, y: Array, weights: Array | None) -> WeightedRows:
    """Rows that differ, in sorted order, with the weights of their copies added up; rows without weight are left out."""
    counted = np.ones(len(x)) if weights is None else weights
    x, y, counted = (part[counted > 0.0] for part in (x, y.reshape(len(y), -1), counted))
    rows, place = np.unique(np.hstack([x, y]), axis=0, return_inverse=True)
    return WeightedRows(rows[:, : x.shape[1]], rows[:, x.shape[1] :], np.bincount(place.ravel(), weights=counted))


def fit_linear(rows: WeightedRows) -> LinearFit:
    """The linear part that predicts best, by generalised cross-validation."""
    x, y, share = rows.x, rows.y, rows.weights / rows.weights.sum()
    n, centre, middle = len(x), share @ x, share @ y
    spread = np.sqrt(share @ (x - centre) ** 2)
    spread[~(spread > EPS * np.abs(centre))] = np.inf  # a constant column has no part
    root = np.sqrt(n * share)[:, None]
    left, singular, right = np.linalg.svd(root * (x - centre) / spread, full_matrices=False)
    target = root * (y - middle)
    along = left.T @ target
    total, outside = float(np.sum(target**2)), float(max(0.0, np.sum(target**2) - np.sum(along**2)))
    largest = float(singular.max(initial=0.0)) ** 2
    ridges = np.append(np.geomspace(SIMPLE.smallest_ridge, SIMPLE.largest_ridge, SIMPLE.ridges) * max(largest, EPS), np.inf)
    kept = singular**2 / (singular**2 + ridges[:, None])
    losses = outside + np.sum((1.0 - kept) ** 2 * np.sum(along**2, axis=1), axis=1)
    free = n - 1.0 - kept.sum(axis=1)
    scores = np.where(free > 0.5, losses / np.maximum(free, 0.5) ** 2, np.inf)  # half a row: fewer tell nothing
    best = len(ridges) - 1 if total <= EPS**2 * n * float(np.sum(middle**2)) else int(np.argmin(scores))
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk = np.where(kept[best] > 0.0, kept[best] / singular, 0.0)
    carry = (right.T * shrunk) / spread[:, None]  # from `along` to slopes
    slopes = carry @ along
    noise = losses[best] / max(free[best], 0.5) / y.shape[1] if free[best] > 0.5 else np.nan
    jacobian = np.vstack([-centre @ carry, carry])
    covariance = noise * (jacobian @ jacobian.T)
    covariance[0, 0] += noise * float(share @ share)
    explained = 1.0 - float(losses[best]) / total if total > 0.0 else 0.0
    leverage = left**2 @ kept[best] + share
    return LinearFit(middle - centre @ slopes, slopes, float(noise), covariance, explained, leverage)


def fit_linear_likelihood(rows: WeightedRows, loss: Loss) -> LinearFit:
    """The linear part of a generalised linear model, slopes shrunk by the prior."""
    centre, spread = rows.x.mean(axis=0), rows.x.std(axis=0)
    spread[~(spread > EPS * np.abs(centre))] = np.inf
    white = StackedRows(StackedArrays(((rows.x - centre) / spread,)), StackedArrays((rows.y,)))
    judged = likelihood_rows(white, loss, rows.weights, schedule=Schedule(), law=Unknown())
    dim, outputs = rows.x.shape[1], rows.y.shape[1]
    start = constant_point(judged, Model(relu, linear=True).start(np.zeros((0, dim + 1)), outputs))
    scale = max(deviance_at(judged, start), np.finfo(float).tiny)
    point = maximise_likelihood(judged, start, scale, ridge=SIMPLE.prior_precision).point
    sums = sums_at(judged, point)
    slopes = point.coefficients[1:] / spread[:, None]
    information = sums.information[::outputs, ::outputs] + np.diag(np.append(0.0, np.full(dim, SIMPLE.prior_precision)))
    carry = np.diag(np.append(1.0, 1.0 / spread))
    carry[0, 1:] = -centre / spread
    covariance = carry @ inverse_spd(information) @ carry.T
    offset, beside = point.coefficients[0] - centre @ slopes, np.column_stack([np.ones(len(rows.x)), rows.x])
    each = loss.rows(offset + rows.x @ slopes, rows.y).information * rows.weights[:, None]
    leverage = each * np.einsum("np,np->n", beside @ covariance, beside)[:, None]
    phi = 1.0 if loss.linked else dispersion(judged, sums, max(1.0 - (dim + 1.0) / len(rows.x), 0.5 / len(rows.x)))
    return LinearFit(offset, slopes, phi, phi * covariance, 1.0 - float(sums.deviance) / scale, leverage)


def fit_linear_robustly(rows: WeightedRows, loss: Loss) -> tuple[LinearFit, Loss]:
    """The same by Huber's loss, whose scale is that of the residuals of the fit before."""
    fit = fit_linear(rows)
    for _ in range(SCALE_ROUNDS):
        loss = loss.scaled_to(rows.y - fit.offset - rows.x @ fit.slopes)
        fit = fit_linear_likelihood(rows, loss)
    return fit, loss


def _left_out_scores(rows: WeightedRows, fit: LinearFit, loss: Loss) -> Array:
    """|residual| / √variance of every row, where the fit leaves it out; sorted, (n, outputs)."""
    mean = loss.mean(fit.offset + rows.x @ fit.slopes)
    rest = np.maximum(1.0 - fit.leverage.reshape(len(mean), -1), ERRORS.min_residual_share)
    scores = np.abs(rows.y - mean) / rest / np.sqrt(np.maximum(loss.variance(mean), np.finfo(float).tiny))
    few = min(len(scores), DATA_PROFILE.scores)
    return np.asarray(np.sort(scores, axis=0)[np.linspace(0, len(scores) - 1, few).astype(int)])


def _profile(x: Array, y: Array, rows: WeightedRows, fit: LinearFit, loss: Loss) -> DataProfile:
    """No row is fresh; some rows are kept for plots."""
    shown = spaced_rows(len(x), x.shape[1] + rows.y.shape[1])
    return DataProfile(
        x.mean(axis=0), x.std(axis=0), np.zeros(0), _left_out_scores(rows, fit, loss),
        Rows(x[shown], y.reshape(len(y), -1)[shown]), len(x), 0, np.nan)


def simplest_recovery(x: Array, y: Array, weights: Array | None, why: str, loss: Loss = Loss()) -> Recovery:
    """A recovery without hidden units, whose certificate says why there is none."""
    begun = time.perf_counter()
    rows = merge_copies(x, y, weights)
    fit, loss = _fit_by_loss(rows, loss)
    outputs = rows.y.shape[1]
    vector = outputs == 1
    readout, offset = np.zeros((0, outputs)), fit.offset
    network = Network(
        Layer(np.zeros((0, x.shape[1])), np.zeros(0)), readout[:, 0] if vector else readout,
        float(offset[0]) if vector else offset, fit.slopes[:, 0] if vector else fit.slopes)
    covariance = np.kron(fit.covariance, np.eye(outputs)) if np.isfinite(fit.noise) else None
    error = np.full(np.shape(network.offset), np.sqrt(fit.covariance[0, 0]))
    errors = StandardErrors(np.zeros((0, x.shape[1])), np.zeros(0), np.zeros_like(np.asarray(network.readout)), error)
    certificate = Certificate(
        (_no_unit_claim(why),), errors, float(np.sqrt(fit.noise)), fit.explained, reason="the rows are too few or too plain.",
        covariance=covariance)
    return Recovery(
        network, network, certificate, None, time.perf_counter() - begun, len(x), (), by="the simplest model that rows support",
        profile=_profile(x, y, rows, fit, loss), loss=loss)


def _fit_by_loss(rows: WeightedRows, loss: Loss) -> tuple[LinearFit, Loss]:
    """The linear part, and the loss with its scale."""
    if loss.name == "huber":
        return fit_linear_robustly(rows, loss)
    return fit_linear_likelihood(rows, loss) if loss.linked else fit_linear(rows), loss


def _no_unit_claim(why: str) -> Claim:
    return Claim(ClaimName.HIDDEN_UNITS, 0.0, 1.0, False, "proved", f"no hidden unit was fitted. {why}")
