"""An answer for any data: where `recover` would refuse, the simplest model that the rows support, with a warning.

The ladder, from the top: the search as asked; narrower networks, if rows are too few for it, or as long as they do not support
one of its units; a linear part without hidden units, shrunk to what it predicts; a constant. A width that is given is the largest
one. Columns that are constant or follow from others are left out first, with weight zero. A warning says what was done, and a
claim in the certificate failed where no wider network was looked for, or none has hidden units.

How far a network misses rows that are left out is computed from one fit (`left_out_deviance`). A row with score u and information
i at the outputs η moves the fit to itself by its leverage. Without it the output there is, by one Gauss-Newton step,

    η - l u / (1 - h),      l = Jᵀ (Σ w i J Jᵀ)⁻¹ J,      h = w i l,      J the gradient of the output in all parameters

which is exact for least squares in the linear part (Allen 1974), and an approximation for kinks and for likelihoods (Pregibon
1981). A unit whose slope a few rows determine has h near one there: it fits them, and says nothing about the next row like them.

The simplest network has no hidden unit, and a linear part as far as it predicts, down to a constant: for rows that are too few
for a hidden unit, outputs that do not vary, or more columns than rows. The linear part is shrunk by a ridge whose size
generalised cross-validation chooses (Golub, Heath and Wahba 1979), from none to one that leaves a constant:

    GCV(λ) = n · Σ w r² / (n - 1 - Σ s² / (s² + λ))²,       s the singular values of the standardised, weighted columns

Counts and labels have the linear part of a generalised linear model, its standardised slopes shrunk by a normal prior of variance
one, so that separated labels have a finite one too; heavy tails that of Huber's loss, with the same prior. A row that occurs
twice is one row of twice the weight: copies and weights mean the same.

No row is held out from so few. Intervals of new answers rest on what each row is missed by if it is left out (the jackknife;
Barber, Candès, Ramdas and Tibshirani 2021), which one fit tells: residual / (1 - leverage), for likelihoods by one step.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, column_or_1d

from laybare.activations import relu
from laybare.certificate import Certificate, Claim, ClaimName, StandardErrors
from laybare.certificate.certificate import RULES
from laybare.certificate.data_profile import DATA_PROFILE, DataProfile, spaced_rows
from laybare.certificate.error_propagation import ERRORS
from laybare.certificate.prediction import covered_point
from laybare.errors import BudgetExhausted, ClusterFailure, InvalidInput, LaybareError, TooFewSamples
from laybare.estimator.sklearn_conventions import check_weights, generator_from, in_own_words, schedule_from
from laybare.likelihood.judged_recovery import SCALE_ROUNDS
from laybare.likelihood.weighted_fit import constant_point, deviance_at, dispersion, maximise_likelihood, sums_at
from laybare.lines.assurance import AssuranceOptions
from laybare.networks import Layer, Network
from laybare.numerics.levels import EPS, SOLVED
from laybare.numerics.linear_algebra import inverse_spd
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.solver.point import Model, output_gradients, point_of
from laybare.source import Gaussian, Rows, Samples, Schedule, Source, Unknown, as_law
from laybare.source.derived import StackedRows
from laybare.source.losses import Loss, likelihood_rows
from laybare.source.samples import ColumnNames, StackedArrays

WIDEST_INSTEAD = 3
"""Units of the widest network that is tried where rows are too few to look for a width. Derived: the search begins with four."""

OF_A_UNIT = (ClaimName.ONE_UNIT_FEWER, ClaimName.KINK_CROSSED, ClaimName.BETWEEN_KINKS)
"""Checks of whether the rows need a unit, and see where it bends. Equations per unknown are about all parameters together: rows
that are too few to be sure of a network may need its units all the same."""

Search = Callable[[Array, int | None, int], Recovery]
"""Recovers a network from inputs and a width, after a number of other recoveries; it knows the outputs."""


class Labelled(NamedTuple):
    """Rows with outputs, weights and groups, and the loss that they are judged by."""

    x: Array
    y: Array
    weights: Array | None = None
    groups: Array | None = None
    loss: Loss = Loss()

    @staticmethod
    def of(x: Array, y: Array, weights: Any, groups: Any, loss: Loss) -> Labelled:
        """Rows that count; equal weights are none."""
        checked = None if weights is None else check_weights(x, weights)
        with in_own_words("groups"):
            labels = None if groups is None else column_or_1d(groups)
            check_consistent_length(x, labels)
        if checked is None:
            return Labelled(x, y, None, labels, loss)
        kept = checked > 0.0
        equal = bool((checked[kept] == checked[kept][0]).all())
        return Labelled(x[kept], y[kept], None if equal else checked[kept], None if labels is None else labels[kept], loss)


def answer(rows: Labelled, width: int | None, search: Search) -> Recovery:
    """The recovery of `search`, or of the simplest model that the rows support."""
    x, y = rows.x, rows.y
    columns = independent_columns(x)
    if not len(columns) or (y == y[0]).all():
        what = "inputs" if not len(columns) else "outputs"
        return _simplest(rows, f"All {len(x)} rows have the same {what}.")
    found = _descend(rows._replace(x=x[:, columns]), width, search)
    return found if len(columns) == x.shape[1] else _with_all_columns(found, columns, x)


def recover_rows(estimator: Any, rows: Labelled, x: Array, width: int | None, looks: int) -> Recovery:
    """`recover` with the parameters of an estimator, from some columns of its rows, after this number of others: all of them
    spend one level."""
    law = Gaussian() if estimator.law is None else as_law(estimator.law)
    source = Samples(x, rows.y, law=law, schedule=schedule_from(estimator.n_jobs))
    level = AssuranceOptions().of_recovery(looks)
    return recover_as(estimator, source, width, loss=rows.loss, sample_weight=rows.weights, groups=rows.groups, assurance=level)


def recover_as(estimator: Any, source: Source, width: int | None, **judged: Any) -> Recovery:
    """`recover` with the parameters of an estimator; a method brings its own activation where that is the default."""
    by_default = isinstance(estimator.activation, str) and estimator.activation == "relu"
    known = None if estimator.method is not None and by_default else estimator.activation
    return recover(
        source, method=estimator.method, width=width, activation=known, rng=generator_from(estimator.random_state),
        progress=estimator.progress, **judged)


def independent_columns(x: Array) -> Array:
    """Columns that vary and do not follow from each other, in their order; all that vary where rows are too few to tell."""
    centred = x - x.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    varying = np.flatnonzero(spread > SOLVED * np.abs(x).max(axis=0, initial=0.0))
    if not len(varying) or len(x) <= len(varying) + 1:
        return varying  # too few rows to tell
    corner, order = scipy.linalg.qr(centred[:, varying] / spread[varying], mode="r", pivoting=True)
    sizes = np.abs(np.diag(corner))
    return np.sort(varying[order[sizes > SOLVED * sizes[0]]])


def _descend(rows: Labelled, width: int | None, search: Search) -> Recovery:
    """The search, then narrower ones, then no hidden unit; one warning says why."""
    why, looked_wider, detected = "", True, None
    for looks in count():
        try:
            found = search(rows.x, width, looks)
        except (InvalidInput, BudgetExhausted, ClusterFailure):
            raise
        except TooFewSamples as error:
            looked_wider, reason = False, f"{error.seen} {error.why}"
            fewer = _widest_supported(rows, WIDEST_INSTEAD if width is None else width - 1)
        except LaybareError as error:
            return _simplest(rows, why or str(error))
        else:
            reason, fewer = _units_unsupported(rows, found), found.network.width - 1
            if not reason:
                return _narrower(found, why, looked_wider) if why else found
            if fewer > WIDEST_INSTEAD and detected is None:
                detected = found.network.width if width is None else _detected_width(rows, search)
                fewer = min(fewer, detected)
        why, width = why or reason, fewer
        if width < 1:
            break
    return _simplest(rows, why)


def _detected_width(rows: Labelled, search: Search) -> int:
    """What the search finds by itself: one look instead of all the widths between."""
    try:
        return max(1, search(rows.x, None, 0).network.width)  # its verdict is not used
    except TooFewSamples:
        return WIDEST_INSTEAD


def _widest_supported(given: Labelled, most: int) -> int:
    """Units for which there are as many equations per unknown as a certificate asks for where there is noise, at most `most`."""
    x, y = given.x, given.y
    rows, outputs, dim = len(merge_copies(x, y, given.weights).x), y.size // len(y), x.shape[1]
    spare = rows * outputs / RULES.min_equations_per_unknown_noisy - (dim + 1) * outputs
    return int(max(0, min(most, WIDEST_INSTEAD, spare // (dim + outputs))))


def _units_unsupported(rows: Labelled, found: Recovery) -> str:
    """Why the rows do not support all units: a check of the certificate says that one is not needed or that few rows see it
    bend, or rows that are left out are missed by more than without any. Such a unit follows single rows, and predicts far off
    beside them. Empty where the rows do support them.

    A literal form is what its paper gives, and a search that was stopped has no certificate.
    """
    width = found.network.width
    if not width or found.literal or found.interrupted:
        return ""
    units = f"The rows do not support {width} hidden unit{'s' * (width > 1)}"
    failed = [check.name for check in found.certificate.checks if check.name in OF_A_UNIT and not check.passed]
    if failed:
        return f"{units}: {', '.join(failed)}."
    return f"{units}: rows that are left out are predicted better without any." if _predicts_worse(rows, found) else ""


def _predicts_worse(given: Labelled, found: Recovery) -> bool:
    """Whether rows that are left out are missed by more than a linear part alone misses them."""
    if sum(part.size for part in found.certificate.standard_errors) > ERRORS.max_kept_parameters:
        return False
    shown = np.linspace(0, len(given.x) - 1, min(len(given.x), ERRORS.sandwich_rows)).astype(int)
    x, y, weights = given.x[shown], given.y[shown], None if given.weights is None else given.weights[shown]
    rows, plain = merge_copies(x, y, weights), simplest_recovery(x, y, weights, "", given.loss)
    own, other = (left_out_deviance(network, rows, found.loss) for network in (found.network, plain.network))
    return own > other


def _narrower(found: Recovery, why: str, looked_wider: bool) -> Recovery:
    """With a warning. Its certificate is its own, also about a further unit; a claim failed if no wider one was looked for."""
    width = found.network.width
    _warn(f"{why} A network with {width} unit{'s' * (width > 1)}, as many as they support, was fitted instead.")
    if looked_wider:
        return found
    claim = Claim(
        ClaimName.HIDDEN_UNITS, float(width), float(width + 1), False, "proved", f"no wider network was looked for. {why}")
    return replace(found, certificate=replace(found.certificate, claims=(claim, *found.certificate.claims)))


def _simplest(rows: Labelled, why: str) -> Recovery:
    _warn(f"{why} A model without hidden units was fitted instead; its certificate says so.")
    return simplest_recovery(rows.x, rows.y, rows.weights, why, rows.loss)


def _warn(text: str) -> None:
    warnings.warn(text, ConvergenceWarning, stacklevel=2)


def _with_all_columns(found: Recovery, columns: Array, x: Array) -> Recovery:
    """The same on all columns: those that were left out have weight zero, known to be no more than a choice.

    The covariance is that of the parameters that were fitted: predictions keep their errors on rows like those given.
    """
    dim = x.shape[1]
    what = f"{dim - len(columns)} of {dim} columns are constant, or follow from the others"
    _warn(f"{what}. They were left out: their weights are zero by choice.")
    claim = Claim(
        ClaimName.COLUMNS_LEFT_OUT, float(dim - len(columns)), 0.0, False, "proved",
        "columns that are constant, or follow from the others, were left out: their weights are zero by choice.")
    certificate = found.certificate
    errors = certificate.standard_errors
    spread = np.full((len(errors.weights), dim), np.inf)
    spread[:, columns] = errors.weights
    certificate = replace(
        certificate, claims=(claim, *certificate.claims), standard_errors=StandardErrors(spread, *errors[1:]),
        covariance=_widened_covariance(found, columns, dim))
    profile = found.profile
    if profile is not None:
        means, spreads = x.mean(axis=0), x.std(axis=0)
        means[columns], spreads[columns] = profile.means, profile.spreads
        profile = replace(profile, means=means, spreads=spreads, rows=None)
    network, start = (_widened(one, columns, dim) for one in (found.network, found.start))
    return replace(found, network=network, start=start, certificate=certificate, profile=profile)


def _widened_covariance(found: Recovery, columns: Array, dim: int) -> Array | None:
    """With zeros for the parameters of columns that were left out."""
    known = found.certificate.covariance
    if known is None:
        return None
    point = covered_point(found.network, len(known))
    units = np.ones((point.width, point.units.shape[1] - len(columns) + dim), dtype=bool)
    rest = np.ones((len(point.coefficients) + (dim - len(columns)) * point.linear, found.network.outputs), dtype=bool)
    left_out = np.setdiff1d(np.arange(dim), columns)
    units[:, left_out] = False
    if point.linear:
        rest[point.width + 1 + left_out] = False
    fitted = np.concatenate([units.ravel(), rest.ravel()])
    wide = np.zeros((len(fitted), len(fitted)))
    wide[np.ix_(fitted, fitted)] = known
    return wide


def with_columns(found: Recovery, inputs: Iterable[str], outputs: tuple[str, ...]) -> Recovery:
    """The recovery with the names of the columns that were fitted, for tables and plots."""
    if found.provenance is None:
        return found
    return replace(found, provenance=replace(found.provenance, columns=ColumnNames(tuple(inputs), outputs)))


def _widened(network: Network, columns: Array, dim: int) -> Network:
    """The network on more columns, the others with weight zero."""
    weights = np.zeros((network.layer.width, dim))
    weights[:, columns] = network.layer.weights
    linear = None
    if network.linear is not None:
        linear = np.zeros((dim, *np.shape(network.linear)[1:]))
        linear[columns] = network.linear
    return Network(Layer(weights, network.layer.biases, network.activation), network.readout, network.offset, linear)


def left_out_deviance(network: Network, rows: WeightedRows, loss: Loss) -> float:
    """The deviance of all rows, each left out in turn; the outputs one after the other."""
    point = point_of(network, biases=True, offset=True, linear=network.linear is not None)
    eta = np.asarray(network(rows.x)).reshape(rows.y.shape)
    each, w = loss.rows(eta, rows.y), rows.weights[:, None]
    gradients = [output_gradients(point, rows.x, output) for output in range(network.outputs)]
    information = sum(J.T @ (J * (w * each.information)[:, [o]]) for o, J in enumerate(gradients))
    inverse = _pseudo_inverse(np.asarray(information))
    lever = np.column_stack([np.einsum("np,np->n", J @ inverse, J) for J in gradients])
    rest = np.maximum(1.0 - w * each.information * lever, ERRORS.min_residual_share)
    return float(np.sum(w * loss.rows(eta - w * lever * each.score / rest, rows.y).deviance))


def _pseudo_inverse(information: Array) -> Array:
    """Scaled to unit diagonal; directions without information, as the free scale of every ReLU unit, are left out."""
    scale = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(information / scale / scale[:, None])
    kept = values > ERRORS.singular_information * values.max(initial=EPS)
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T / scale / scale[:, None])


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
