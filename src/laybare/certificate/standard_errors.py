"""Standard errors of a fitted network, right whether or not the noise is the same everywhere.

With H = JᵀJ, constrained as in `error_propagation`, and a least-squares fit, the estimates have the covariance H⁻¹ S H⁻¹ with
S = Σ_n (J_nᵀ r_n)(J_nᵀ r_n)ᵀ (Huber 1967, White 1980): no assumption on the noise but independence from row to row. Where it is
the same everywhere, S = σ² H and this is the Cramér-Rao bound. A fit pulls the residual of a row down by its leverage
h_n = J_n H⁻¹ J_nᵀ: residuals are divided by 1 - h_n (HC3, MacKinnon and White 1985), without which few rows look too certain.
Where rows are dependent, products of neighbours are added to S (`exchangeability`). The spread of minima nearby that fit as well
(`local_minima`) is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.certificate.certificate import RULES, Claim, ClaimName, StandardErrors
from laybare.certificate.error_propagation import (
    ERRORS,
    InverseInformation,
    constrained_inverse,
    information_matrix,
    propagate_covariance,
    propagate_errors,
    standard_deviations,
    standardising_transform,
)
from laybare.certificate.exchangeability import DEPENDENCE, Dependence, Inflation, RowInfluences, variance_inflation
from laybare.certificate.fitted_network import FittedNetwork
from laybare.certificate.local_minima import NearbyMinima, find_nearby_minima, searches_nearby
from laybare.networks import Network
from laybare.numerics.linear_algebra import Precision, inner
from laybare.numerics.shapes import Array, Sums
from laybare.numerics.workspace import workspace
from laybare.solver.matrix_free import GradientStatistic, joined
from laybare.solver.normal import (
    InPrecision,
    Step,
    StepStatistic,
    khatri_rao,
    pre_activations,
    step_of,
    with_ones,
    working_precision,
)
from laybare.solver.point import Point, Split, output_gradients, point_of
from laybare.source import Source
from laybare.source.problem import prefix_or_all


class ErrorEstimate(NamedTuple):
    """Standard errors on the given inputs; the largest of a unit relative to its row or readout, columns of variance one, and
    which unit that is; the largest step to the minimum in standard errors (0 for an exact fit); minima nearby; the covariance of
    all parameters on the given inputs (`Certificate.covariance`); and the median factor by which dependent rows make standard
    errors larger, 1 for independent ones, NaN if it is not known."""

    errors: StandardErrors
    largest_relative: float
    worst_unit: int
    steps_to_minimum: float
    nearby: NearbyMinima
    covariance: Array | None = None
    inflation: float = 1.0

    @property
    def design_effect(self) -> float:
        """By how much fewer rows dependent ones count (Kish 1965); 1 where it is not known."""
        return self.inflation**2 if self.inflation == self.inflation else 1.0


def standard_errors_at(network: Network, source: Source, noise: float, *, biases: bool, offset: bool) -> StandardErrors:
    """Standard errors at `network` from the inputs of `source`, for noise of standard deviation `noise` in every output.

    For homogeneous activations they refer to unit rows. A parameter that can move without any change at the samples has an
    infinite one. One pass; memory (parameters)², so that networks beyond `ErrorOptions.max_parameters` get NaN.
    """
    point = point_of(network, biases=biases, offset=offset, linear=network.linear is not None)
    if _parameter_count(point) > ERRORS.max_parameters:
        return as_standard_errors(np.full(_parameter_count(point), np.nan), network, point)
    step = Step(*source.sum(StepStatistic(point), stage="standard errors"))
    inverse = constrained_inverse(information_matrix(step, point), point)
    errors = noise * np.sqrt(np.maximum(np.diag(inverse.matrix), 0.0))
    return as_standard_errors(np.where(inverse.undetermined, np.inf, errors), network, point)


def estimate_errors(
    fitted: FittedNetwork, information: Information | None, dependent: Sequence[Dependence] = (), *, rng: Generator
) -> ErrorEstimate:
    """Standard errors of a fit from its own residuals; two passes over white rows, and with noise the refits from nearby.
    NaN without `information` (`invert_information`). Larger where rows are `dependent`.

    y is taken in units of its standard deviation, so that no size of y or of a column does harm.
    """
    unit, point = float(np.sqrt(fitted.output_variance)), _scaled_point(fitted)
    if information is None:
        unknown = as_standard_errors(np.full(_parameter_count(point), np.nan), fitted.network, point)
        return ErrorEstimate(unknown, np.nan, 0, 0.0, NearbyMinima())
    gram, inverse, factor = information
    covariance = _covariance(fitted, point, unit, inverse) / factor
    factors, as_seen = _inflation(fitted, point, unit, inverse, [one for one in dependent if one.found])
    covariance = covariance * np.sqrt(np.outer(factors, factors)) if (factors > 1.0).any() else covariance
    undetermined = inverse.undetermined | ~np.isfinite(covariance).all(axis=1)
    # robust errors vanish where noise does; least squares still errs
    plain = np.sqrt(fitted.noise_variance) / unit * standard_deviations(inverse.matrix)
    move = inverse.matrix @ _gradient(fitted, point, unit)
    robust = np.where(undetermined, np.inf, standard_deviations(covariance))
    steps = 0.0 if fitted.exact else _steps_to_minimum(move, np.maximum(robust, plain))
    at_minimum = not fitted.exact and not undetermined.any() and steps <= RULES.max_steps_to_minimum
    nearby = find_nearby_minima(fitted, gram, covariance, rng=rng) if at_minimum else NearbyMinima()
    covariance = covariance + nearby.covariance(len(covariance)) if len(nearby.moves) else covariance
    transform = fitted.problem.transform
    given = with_infinite(propagate_errors(covariance, point, transform).errors, undetermined)
    given[point.units.size :] *= unit
    relative = relative_errors(*propagate_errors(covariance, point, standardising_transform(transform)), undetermined)
    worst = int(np.argmax(relative)) if len(relative) else 0
    errors = as_standard_errors(given, fitted.network, point)
    kept = None
    if len(covariance) <= ERRORS.max_kept_parameters and not undetermined.any():
        units = np.repeat([1.0, unit], [point.units.size, point.coefficients.size])
        kept = propagate_covariance(covariance, point, transform) * units[:, None] * units
    inflation = float(np.sqrt(np.median(as_seen)))
    return ErrorEstimate(errors, float(relative.max(initial=0.0)), worst, steps, nearby, kept, inflation)


def relative_error_claim(value: float, unit: int, left_open: int, most: float) -> Claim:
    """That errors are small against rows and readouts: the largest is `value`, of a `unit`, NaN if there are too many parameters
    to tell. It is infinite where parameters are `left_open`."""
    worst, known = np.inf if left_open else value, not np.isnan(value)
    text = (
        f"{left_open} weights, biases and readouts could change without any change at the samples." if left_open else
        f"of the row or the readout of unit {unit + 1}, on columns of variance one; where it is large, other networks fit as "
        "well, and error bars are no guide to them." if known else "there are too many parameters to look for it.")
    return Claim(ClaimName.RELATIVE_ERROR, worst, most, not worst > most, "proved" if known else "assumed", text)


def _inflation(
    fitted: FittedNetwork, point: Point, unit: float, inverse: InverseInformation, found: Sequence[Dependence]
) -> Inflation:
    """What dependent rows multiply the variance of every parameter by; NaN where rows are too many to tell."""
    factors = Inflation(*np.ones((2, _parameter_count(point))))
    for one in found:
        rows = len(one.neighbours)
        if rows * _parameter_count(point) > DEPENDENCE.influences or not one.fades:
            return Inflation(factors.variance * np.nan, factors.as_seen * np.nan)
        x, y = fitted.used.read(0, rows)
        influences = np.array(_Sandwich(point, inverse.matrix, unit, np.float64).influences(x, y))
        slopes = np.stack([output_gradients(point, x, output) for output in range(y.shape[1])], axis=1)
        further = variance_inflation(RowInfluences(influences, slopes, slopes @ inverse.matrix), one, ERRORS.min_residual_share)
        factors = Inflation(*(np.maximum(*pair) for pair in zip(factors, further, strict=True)))
    return factors


class Information(NamedTuple):
    """The Gram matrix of a step for all used rows, the inverse information, and the divisor of a sandwich with it."""

    gram: Array
    inverse: InverseInformation
    wishart_factor: float = 1.0


def _scaled_point(fitted: FittedNetwork) -> Point:
    """The point for y in units of its standard deviation."""
    return fitted.point.moved(fitted.point.units, fitted.point.coefficients / float(np.sqrt(fitted.output_variance)))


def curvature_gram(fitted: FittedNetwork) -> Array | None:
    """Gram matrix of a step on the curvature rows, scaled to the number of used rows; None beyond `ErrorOptions.max_parameters`.
    With noise and many parameters in single precision."""
    if _parameter_count(fitted.point) > ERRORS.max_parameters:
        return None
    part, rest = fitted.curvature_rows, None if fitted.exact else fitted.search_rows_and_rest[1]
    if rest is not None:
        gram = fitted.gram_on_search_rows + _gram(fitted, rest, working_precision(fitted.point))
    else:
        gram = _gram(fitted, part, np.float64 if fitted.exact else working_precision(fitted.point))
    gram *= fitted.used.size / part.size
    return gram


def invert_information(fitted: FittedNetwork, gram: Array | None = None) -> Information | None:
    """Inverse information from `curvature_gram`, y in units of its standard deviation; None without one.

    The curvature rows decide if they determine every parameter, and with noise if the inverse is well conditioned; otherwise all
    rows are read, in double precision.

    The mean inverse of a sample covariance of n₁ rows in P dimensions is too large by n₁/(n₁ - P) (Wishart), which is corrected.
    A sandwich whose middle comes from the same rows is too large by that only once.
    """
    gram = curvature_gram(fitted) if gram is None else gram
    if gram is None:
        return None
    point, part = _scaled_point(fitted), fitted.curvature_rows
    inverse = constrained_inverse(information_matrix(step_of(gram), point), point)
    best = part is fitted.used and (fitted.exact or working_precision(point) is np.float64)
    poor = inverse.undetermined.any() if fitted.exact else inverse.condition >= ERRORS.single_precision_condition
    if best or not poor:
        factor = 1.0 if fitted.exact or part is fitted.used else 1.0 - fitted.unknowns / (part.size * part.outputs)
        np.multiply(inverse.matrix, factor, out=inverse.matrix)
        return Information(gram, inverse, factor)
    gram = _gram(fitted, fitted.used, np.float64)
    return Information(gram, constrained_inverse(information_matrix(step_of(gram), point), point))


def _gram(fitted: FittedNetwork, view: Source, dtype: Precision) -> Array:
    return Step(*view.sum(StepStatistic(fitted.point, dtype), stage="standard errors")).gram


def _gradient(fitted: FittedNetwork, point: Point, unit: float) -> Array:
    """Jᵀr of all used rows, y in units of `unit`; one pass. Single precision errs by a millionth of a standard error."""
    _, *parts = fitted.used.sum(GradientStatistic(fitted.point, fitted.precision), stage="standard errors")
    rows, coefficients = joined(fitted.point, Split(*parts))
    return np.concatenate([rows.ravel() / unit**2, coefficients.ravel() / unit])


@dataclass(frozen=True, eq=False)
class _Sandwich(InPrecision):
    """(z, y) -> H⁻¹ Σ_n s_n s_nᵀ H⁻¹ with s_n = J_nᵀ r_n / (1 - h_n), y in units of `unit`; h_n: mean leverage of its outputs.

    With one output H⁻¹ J_nᵀ, which the leverages need, is enough: its weighted squares are added up. Unless `whole`, only the
    blocks of single units are formed; the rest is zero.
    """

    point: Point
    inverse: Array
    unit: float
    dtype: Precision
    whole: bool = True

    @property
    def row_floats(self) -> int:
        return 4 * _parameter_count(self.point)

    @property
    def sum_floats(self) -> int:
        return _parameter_count(self.point) ** 2

    def __call__(self, x: Array, y: Array) -> Sums:
        V = self.influences(x, y)
        return (inner(V, V).astype(np.float64, copy=False) if self.whole else _unit_blocks(V, self.point),)

    def influences(self, x: Array, y: Array) -> Array:
        """H⁻¹ s_n of every row, (n, parameters)."""
        point, n = self.point, len(x)
        k, p = point.units.shape
        q, m = point.coefficients.shape
        C, X1 = point.coefficients.astype(self.dtype, copy=False), with_ones(point, x, self.dtype)
        H, S = point.activation.value_and_slope(pre_activations(point, X1))
        F = np.hstack([H, *([X1[:, -1:]] if point.offset else []), *([X1[:, :-1]] if point.linear else [])])
        R = (y / self.unit).astype(self.dtype, copy=False) - F @ C
        whole = self.inverse.astype(self.dtype, copy=False)
        J, V, lever = *workspace("scores", (2, n, k * p + q * m), self.dtype), np.zeros(n)
        rows, rest = J[:, : k * p], J[:, k * p :].reshape(n, q, m)
        for o in range(m):  # of one output alone, then the scores of all in the same place
            khatri_rao(S * C[:k, o], X1[:, :p], rows)
            rest[:], rest[:, :, o] = 0.0, F
            np.matmul(J, whole, out=V)
            lever += np.einsum("np,np->n", V, J, dtype=np.float64) / m
        R = R / np.maximum(1.0 - lever, ERRORS.min_residual_share)[:, None].astype(self.dtype)
        if m == 1:
            V *= R
        else:
            khatri_rao(S * (R @ C[:k].T), X1[:, :p], rows)
            np.multiply(F[:, :, None], R[:, None, :], out=rest)
            np.matmul(J, whole, out=V)
        return np.asarray(V)


def _unit_blocks(V: Array, point: Point) -> Array:
    """VᵀV of the parameters of each unit, and of those that belong to none."""
    (k, p), (q, m) = point.units.shape, point.coefficients.shape
    blocks = np.zeros((k * p + q * m,) * 2)
    for j in range(k):
        row, readout = slice(j * p, (j + 1) * p), slice(k * p + j * m, k * p + (j + 1) * m)
        blocks[row, row], blocks[row, readout] = V[:, row].T @ V[:, row], V[:, row].T @ V[:, readout]
        blocks[readout, row], blocks[readout, readout] = blocks[row, readout].T, V[:, readout].T @ V[:, readout]
    rest = slice(k * (p + m), None)
    blocks[rest, rest] = V[:, rest].T @ V[:, rest]
    return blocks


def _covariance(fitted: FittedNetwork, point: Point, unit: float, inverse: InverseInformation) -> Array:
    """H⁻¹ S H⁻¹; for an exact fit, whose residuals are rounding, σ² H⁻¹."""
    if fitted.exact:
        return np.asarray(fitted.noise_variance / unit**2 * inverse.matrix)
    parameters = _parameter_count(point)
    rows = min(ERRORS.sandwich_rows, ERRORS.sandwich_operations // parameters**2)
    rows = max(ERRORS.min_sandwich_rows_per_parameter * parameters, rows)
    part = prefix_or_all(fitted.curvature_rows, rows)  # rows that H is made of: the Wishart factor holds for these
    dtype = fitted.precision if inverse.condition < ERRORS.single_precision_condition else np.float64
    whole = parameters <= ERRORS.max_kept_parameters or searches_nearby(fitted, parameters)
    statistic = _Sandwich(point, inverse.matrix, unit, dtype, whole=whole)
    (covariance,) = part.sum(statistic, stage="robust errors")
    return np.asarray(covariance * (fitted.used.size / part.size))


def _steps_to_minimum(move: Array, errors: Array) -> float:
    known = np.isfinite(errors) & (errors > 0.0)
    return float(np.max(np.abs(move[known]) / errors[known], initial=0.0))


def relative_errors(errors: Array, point: Point, undetermined: Array) -> Array:
    """For every unit: the standard error of its row over the row, or of its readout over the readout, whichever is larger."""
    k, p = point.units.shape
    errors = with_infinite(errors, undetermined)
    rows, rest = errors[: k * p].reshape(k, p), errors[k * p :].reshape(point.coefficients.shape)[:k]
    parts = ((rows, point.units), (rest, point.coefficients[:k]))
    sizes = [np.linalg.norm(error, axis=1) / np.maximum(np.linalg.norm(part, axis=1), 1e-300) for error, part in parts]
    return np.asarray(np.maximum(*sizes))


def with_infinite(errors: Array, undetermined: Array) -> Array:
    """Errors, infinite for undetermined parameters and where they overflowed: NaN would mean "not computed"."""
    return np.where(undetermined | ~np.isfinite(errors), np.inf, errors)


def _parameter_count(point: Point) -> int:
    return int(point.units.size + point.coefficients.size)


def as_standard_errors(errors: Array, network: Network, point: Point) -> StandardErrors:
    k, p = point.units.shape
    rows = errors[: k * p].reshape(k, p)
    rest = errors[k * p :].reshape(point.coefficients.shape)
    offset = rest[k] if point.offset else np.zeros(rest.shape[1])
    biases = rows[:, -1] if point.biases else np.zeros(k)
    return StandardErrors(
        rows[:, : network.dim], biases, rest[:k].reshape(network.readout.shape), offset.reshape(np.shape(network.offset)))
