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
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, column_or_1d

from laybare.certificate import Claim, ClaimName
from laybare.certificate.certificate import RULES, StandardErrors
from laybare.certificate.error_propagation import ERRORS
from laybare.certificate.prediction import covered_point
from laybare.errors import BudgetExhausted, ClusterFailure, InvalidInput, LaybareError, TooFewSamples
from laybare.estimator.simple_models import WeightedRows, merge_copies, simplest_recovery
from laybare.estimator.sklearn_conventions import check_weights, generator_from, in_own_words, schedule_from
from laybare.lines.assurance import AssuranceOptions
from laybare.networks import Layer, Network
from laybare.numerics.levels import EPS, SOLVED
from laybare.numerics.shapes import Array
from laybare.pipeline import Recovery, recover
from laybare.solver.point import output_gradients, point_of
from laybare.source import Gaussian, Samples, Source, as_law
from laybare.source.losses import Loss
from laybare.source.samples import ColumnNames

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
