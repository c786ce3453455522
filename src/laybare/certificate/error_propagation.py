"""Information matrix, its inverse where the scale of units is held fixed, and errors on other inputs.

With J the Jacobian of all outputs in all parameters, JᵀJ has one null vector ν_j per homogeneous unit (its row against its
readout). For any constraint c with c·ν ≠ 0, and any strength γ,

    (JᵀJ + γ c cᵀ)⁻¹ = (inverse on the space c·δ = 0) + ν νᵀ / (γ (c·ν)²).

We take c_j = (w_j, 0): unit rows stay unit rows. Errors on white inputs are propagated through the affine map to the given ones,
into the gauge of unit rows there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from laybare.numerics.levels import TINY
from laybare.numerics.linear_algebra import inverse_spd
from laybare.numerics.shapes import Array
from laybare.solver.normal import Step
from laybare.solver.point import Point
from laybare.source import Affine


@dataclass(frozen=True, kw_only=True)
class ErrorOptions:
    """Sizes and tolerances of standard errors."""

    max_parameters: int = 4000
    """Parameters up to which the information matrix is inverted: 128 MB, and a few seconds. Convention: memory."""
    singular_information: float = 1e-12
    """Information below this share of the largest is none. Derived: 2^12 roundings of a double."""
    min_null_share: float = 1e-6
    """Share of a parameter in directions without information from which it is undetermined. Checked by
    `pytest tests/certificate`."""
    sandwich_rows: int = 12_000
    """Rows for the middle of the sandwich: P variances are asked, not a matrix, and 2,000 rows know those to three per cent,
    standard errors to half of that. Checked by `laybare reproduce coverage --full`."""
    sandwich_operations: int = 2_000_000_000  # Fewer where rows · parameters² exceeds this ... Checked by `make bench`.
    min_sandwich_rows_per_parameter: int = 2  # ... but no fewer than this. Checked by `laybare reproduce coverage --full`.
    single_precision_condition: float = 1e4
    """Norm of the inverse information of unit diagonal up to which single precision errs by less than a hundredth.
    Derived: rounding of a single (1.2e-7) times this norm, and ten for the sums."""
    max_kept_parameters: int = 300
    """Parameters up to which the covariance of all of them is kept with the certificate. Convention: 0.7 MB, and a
    twentieth of a second."""
    min_residual_share: float = 1e-3
    """Least 1 - h: a row that one unit follows entirely has no residual. Checked by `laybare reproduce coverage`."""


ERRORS = ErrorOptions()


def information_matrix(step: Step, point: Point) -> Array:
    """JᵀJ in the order (unit rows, coefficients feature by feature)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    A = point.coefficients[:k]
    G, E, H = step.gram[:q, :q], step.gram[:q, q:], step.gram[q:, q:]
    whole = np.empty((k * p + q * m,) * 2)
    for j, weights in enumerate(np.repeat(A @ A.T, p, axis=1)):  # in place, unit by unit: copies would take most of the time
        np.multiply(H[j * p : (j + 1) * p], weights, out=whole[j * p : (j + 1) * p, : k * p])
    cross = np.einsum("jo,fja->jafo", A, E.reshape(q, k, p)).reshape(k * p, q * m)
    whole[: k * p, k * p :], whole[k * p :, : k * p] = cross, cross.T
    whole[k * p :, k * p :] = np.kron(G, np.eye(m))
    return whole


def score_vector(step: Step, point: Point) -> Array:
    """Jᵀr, in the same order."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    rows = np.einsum("jao,jo->ja", step.moment[q:].reshape(k, p, m), point.coefficients[:k])
    return np.concatenate([rows.ravel(), step.moment[:q].ravel()])


class Gauge(NamedTuple):
    """`constraints` (units, parameters): c; `null_vectors`: ν / (c·ν). No rows where the scale is not free."""

    constraints: Array
    null_vectors: Array


def gauge_constraints(point: Point) -> Gauge:
    """The constraints |w| = const and the directions that they hold fixed."""
    k, p = point.units.shape
    m = point.coefficients.shape[1]
    degree = point.activation.degree
    free = 0 if degree is None else k
    null, fixed = np.zeros((2, free, point.units.size + point.coefficients.size))
    for j in range(free):
        null[j, j * p : (j + 1) * p] = point.units[j]
        null[j, k * p + j * m : k * p + (j + 1) * m] = -(degree or 0) * point.coefficients[j]
        fixed[j, j * p : j * p + p - point.biases] = point.units[j, : p - point.biases]
    return Gauge(fixed, null / np.sum(null * fixed, axis=1)[:, None])


class InverseInformation(NamedTuple):
    """`matrix`: the constrained inverse of JᵀJ; `undetermined` (parameters,): those with a share where there is no information;
    `condition`: a bound on how much it amplifies rounding of the information, scaled to unit diagonal."""

    matrix: Array
    undetermined: Array
    condition: float


def constrained_inverse(matrix: Array, point: Point) -> InverseInformation:
    """The inverse of the information where the gauge is fixed; a pseudo-inverse, with undetermined parameters, if singular."""
    gauge = gauge_constraints(point)
    strength = float(np.diag(matrix)[: point.units.size].mean()) if point.width else 1.0
    whole = gauge.constraints.T @ (strength * gauge.constraints)
    whole += matrix
    inverse = inverse_spd(whole)
    undetermined, condition = _undetermined(whole, inverse)
    inverse -= gauge.null_vectors.T @ (gauge.null_vectors / strength)
    return InverseInformation(inverse, undetermined, condition)


def _undetermined(matrix: Array, inverse: Array) -> tuple[Array, float]:
    """Parameters with a share in a direction without information, and the norm of the inverse information of unit diagonal
    (infinite where it is no inverse).

    1 / ‖inverse‖ bounds the smallest eigenvalue from below if it is an inverse; only otherwise eigenvectors are computed.
    (The pivots of a Cholesky factor bound it from above only.)
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), TINY))
    back = inverse * scale[:, None]
    back *= scale
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(back))
    if not np.isfinite(norm) and not np.isfinite(back).all():
        return np.ones(len(matrix), dtype=bool), np.inf
    norm = norm if abs(float(np.vdot(matrix, inverse)) - len(matrix)) < 0.5 else np.inf  # the trace of the product is the rank
    if norm * ERRORS.singular_information < 1.0:
        return np.zeros(len(matrix), dtype=bool), norm
    values, vectors = scipy.linalg.eigh(matrix / scale[:, None] / scale, check_finite=False)
    share: Array = np.sum(vectors[:, values <= ERRORS.singular_information * values[-1]] ** 2, axis=1)
    return np.asarray(share > ERRORS.min_null_share), norm


class PropagatedErrors(NamedTuple):
    """Standard errors of the parameters on other inputs, and the network there."""

    errors: Array
    point: Point


def propagate_errors(covariance: Array, point: Point, transform: Affine) -> PropagatedErrors:
    """Errors on inputs x with z = transform(x), from those on z.

    A row obeys w_x = matrix w_z and b_x = b_z - mean·w_x, the linear part and the offset alike; readouts change by the scale of
    homogeneous units alone, whose rows have length one on both sides. So each unit is propagated by itself.
    """
    k, p = point.units.shape
    there, own, jacobians, others, rest = _propagation(point, transform)
    errors = np.empty(len(covariance))
    errors[own] = _propagated_deviations(jacobians, covariance[own[:, :, None], own[:, None]])
    errors[others] = _propagated_deviations(rest, covariance[np.ix_(others, others)])
    if point.activation.degree is not None:
        errors[: k * p] = _errors_on_sphere(errors[: k * p].reshape(k, p), there).ravel()
    return PropagatedErrors(errors, there)


def propagate_covariance(covariance: Array, point: Point, transform: Affine) -> Array:
    """The whole covariance on inputs x with z = transform(x), to first order."""
    _, own, jacobians, others, rest = _propagation(point, transform)
    whole = np.zeros_like(covariance)
    whole[own[:, :, None], own[:, None]] = jacobians
    whole[np.ix_(others, others)] = rest
    return np.asarray(whole @ covariance @ whole.T)


class _Propagation(NamedTuple):
    """The point on other inputs; places of each unit's parameters and their Jacobian; the same for what belongs to no unit."""

    there: Point
    own: Array
    jacobians: Array
    others: Array
    rest: Array


def _propagation(point: Point, transform: Affine) -> _Propagation:
    rows, rest = _transform_jacobians(transform, point)
    k, p = point.units.shape
    q, m = point.coefficients.shape
    scale, back, degree = np.ones(k), np.ones(q), point.activation.degree
    if degree is not None:
        lengths = np.linalg.norm((point.units @ rows.T)[:, : p - point.biases], axis=1)
        scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        back[:k] = scale**-degree
    there = point.moved(scale[:, None] * (point.units @ rows.T), back[:, None] * np.vstack([
        point.coefficients[:k], rest @ point.coefficients[k:]]))
    hidden, readouts, others = np.split(np.arange(point.size), [k * p, k * (p + m)])
    own = np.hstack([hidden.reshape(k, p), readouts.reshape(k, m)])
    jacobians = _unit_jacobians(there, scale[:, None, None] * rows, back[:k])
    return _Propagation(there, own, jacobians, others, np.kron(rest, np.eye(m)))


def _propagated_deviations(carriers: Array, covariance: Array) -> Array:
    """Standard deviations after a linear map, for one block of parameters or several."""
    return np.asarray(np.sqrt(np.maximum(np.sum((carriers @ covariance) * carriers, axis=-1), 0.0)))


def _unit_jacobians(there: Point, rows: Array, readouts: Array) -> Array:
    """∂(row, readouts on x)/∂(row, readouts on z) of every unit (k, p + m, p + m), into the gauge of unit rows there."""
    (k, p), m = there.units.shape, there.coefficients.shape[1]
    carriers = np.zeros((k, p + m, p + m))
    carriers[:, :p, :p] = rows
    carriers[:, np.arange(p, p + m), np.arange(p, p + m)] = readouts[:, None]
    degree = there.activation.degree
    if degree is None:
        return carriers
    null = np.hstack([there.units, -degree * there.coefficients[:k]])
    fixed = np.hstack([there.units, np.zeros((k, m))])
    fixed[:, p - there.biases :] = 0.0
    pull = null / np.sum(null * fixed, axis=1)[:, None]
    return np.asarray(carriers - pull[:, :, None] * (fixed[:, None, :] @ carriers))


def _errors_on_sphere(rows: Array, point: Point) -> Array:
    """Errors of unit rows to second order: a row moves by δ across itself and by |δ|²/2 along itself, which is all the error of
    a weight near ±1. For Gaussian δ in one direction |δ|²/2 has root mean square √3/2 times the variance; in several less."""
    weights = np.zeros_like(rows)
    dim = rows.shape[1] - point.biases
    weights[:, :dim] = point.units[:, :dim]
    total = np.sum(rows[:, :dim] ** 2, axis=1, keepdims=True)
    return np.asarray(np.hypot(rows, np.sqrt(0.75) * np.abs(weights) * total))


def standardising_transform(transform: Affine) -> Affine:
    """From inputs with columns of mean zero and standard deviation one to white ones."""
    spread = np.sqrt(np.diag(np.linalg.inv(transform.matrix @ transform.matrix.T)))
    return Affine(np.zeros_like(transform.mean), spread[:, None] * transform.matrix)


def _transform_jacobians(transform: Affine, point: Point) -> tuple[Array, Array]:
    """∂(on x)/∂(on z) of one row (p, p), and of the offset and the linear part (q - k, q - k)."""
    d = len(transform.mean)
    B = np.zeros((d + 1, d + 1))
    B[:d, :d], B[d, :d], B[d, d] = transform.matrix, -transform.mean @ transform.matrix, 1.0
    turned = [*([d] if point.offset else []), *(range(d) if point.linear else [])]  # the order of the coefficients
    p = point.units.shape[1]
    return B[:p, :p], B[np.ix_(turned, turned)]


def standard_deviations(covariance: Array) -> Array:
    """Standard deviations."""
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))
