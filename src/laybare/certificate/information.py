"""What the samples say about every number of a network: JᵀJ, inverted where the scale gauge is held fixed.

With J the Jacobian of all outputs in all parameters, JᵀJ has one null vector ν_j per homogeneous unit (its row against its
readout). For any constraint c with c·ν ≠ 0, and any strength γ,

    (JᵀJ + γ c cᵀ)⁻¹ = (inverse on the space c·δ = 0) + ν νᵀ / (γ (c·ν)²).

We take c_j = (w_j, 0): unit rows stay unit rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from laybare.linear_algebra import inverse_spd
from laybare.refinement.normal import Point, Step
from laybare.shapes import Array

SINGULAR, SHARE = 1e-12, 1e-6
"""Information below this share of the largest is none; a parameter with less than this share in such a direction is not hurt."""


def information(step: Step, point: Point) -> Array:
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


def slope(step: Step, point: Point) -> Array:
    """Jᵀr, in the same order."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    rows = np.einsum("jao,jo->ja", step.moment[q:].reshape(k, p, m), point.coefficients[:k])
    return np.concatenate([rows.ravel(), step.moment[:q].ravel()])


class Gauge(NamedTuple):
    """`fixed` (units, parameters): constraints c; `pull`: null vectors ν / (c·ν). No rows where the scale is not free."""

    fixed: Array
    pull: Array


def gauge_of(point: Point) -> Gauge:
    """The constraints |w| = const and the directions that they stop."""
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


class Inverse(NamedTuple):
    """`matrix`: the constrained inverse of JᵀJ; `open` (parameters,): those with a share where there is no information;
    `condition`: a bound on how much rounding of the information, each number's own counted as one, is blown up in it."""

    matrix: Array
    open: Array
    condition: float


def constrained_inverse(matrix: Array, point: Point) -> Inverse:
    """The inverse of the information where the gauge is fixed; a pseudo-inverse, with the numbers named, if it is singular."""
    gauge = gauge_of(point)
    strength = float(np.diag(matrix)[: point.units.size].mean()) if point.width else 1.0
    whole = gauge.fixed.T @ (strength * gauge.fixed)
    whole += matrix
    inverse = inverse_spd(whole)
    loose, condition = _undetermined(whole, inverse)
    inverse -= gauge.pull.T @ (gauge.pull / strength)
    return Inverse(inverse, loose, condition)


def _undetermined(matrix: Array, inverse: Array) -> tuple[Array, float]:
    """Parameters with a share in a direction along which the information vanishes (relative to each parameter's own), and the
    norm of the inverse of the information with diagonal one; infinite where it is none.

    1 / ‖inverse‖ bounds the smallest eigenvalue from below if it is an inverse indeed; only else the eigenvectors are asked.
    (The pivots of a Cholesky factor bound it from above only.)
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    back = inverse * scale[:, None]
    back *= scale
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(back))
    if not np.isfinite(norm) and not np.isfinite(back).all():
        return np.ones(len(matrix), dtype=bool), np.inf
    norm = norm if abs(float(np.vdot(matrix, inverse)) - len(matrix)) < 0.5 else np.inf  # the trace of the product is the rank
    if norm * SINGULAR < 1.0:
        return np.zeros(len(matrix), dtype=bool), norm
    values, vectors = scipy.linalg.eigh(matrix / scale[:, None] / scale, check_finite=False)
    share: Array = np.sum(vectors[:, values <= SINGULAR * values[-1]] ** 2, axis=1)
    return np.asarray(share > SHARE), norm
