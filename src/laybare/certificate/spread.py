"""Standard errors of a fitted network: the inverse Fisher information with the scale gauge held fixed.

With J the Jacobian of all outputs in all parameters and noise variance s², the covariance is s² (JᵀJ)⁻¹ on the space left by the
gauge w_j·δw_j = 0 (unit rows stay unit rows). JᵀJ has one null vector ν_j a homogeneous unit (its row against its readout), and
for any constraint c with c·ν ≠ 0

    (JᵀJ + γ c cᵀ)⁻¹ = (constrained inverse) + ν νᵀ / (γ (c·ν)²).

This is the Cramér-Rao bound for Gaussian noise, at the estimate.
"""

from __future__ import annotations

import numpy as np

from laybare.certificate.claims import StandardErrors
from laybare.network import Network
from laybare.refinement.normal import Point, Step, StepStatistic, point_of
from laybare.semidefinite import solve_spd
from laybare.shapes import Array
from laybare.source import Source

LARGEST = 4000
"""Parameters up to which the information matrix is inverted: 128 MB, and a few seconds."""


def standard_errors(network: Network, source: Source, noise: float, *, biases: bool, offset: bool) -> StandardErrors:
    """Standard errors at `network` from the samples of `source`, for noise of standard deviation `noise` in every output.

    For homogeneous activations they refer to unit rows. One pass; memory (parameters)², so that networks of more than
    `LARGEST` parameters get NaN instead.
    """
    point = point_of(network, biases=biases, offset=offset, linear=network.linear is not None)
    if point.units.size + point.coefficients.size > LARGEST:
        return _shaped(np.full(point.units.size + point.coefficients.size, np.nan), network, point)
    step = Step(*source.sum(StepStatistic(point), stage="standard errors"))
    variances = noise**2 * np.maximum(np.diag(constrained_inverse(information(step, point), point)), 0.0)
    return _shaped(np.sqrt(variances), network, point)


def information(step: Step, point: Point) -> Array:
    """JᵀJ in the order (unit rows, coefficients feature by feature)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    A = point.coefficients[:k]
    G, E, H = step.gram[:q, :q], step.gram[:q, q:], step.gram[q:, q:]
    rows = (H.reshape(k, p, k, p) * (A @ A.T)[:, None, :, None]).reshape(k * p, k * p)
    cross = np.einsum("jo,fja->jafo", A, E.reshape(q, k, p)).reshape(k * p, q * m)
    return np.block([[rows, cross], [cross.T, np.kron(G, np.eye(m))]])


def constrained_inverse(matrix: Array, point: Point) -> Array:
    """Inverse on the space where rows keep their length (homogeneous activations), or the plain inverse."""
    degree = point.activation.degree
    if degree is None:
        return solve_spd(matrix, np.eye(len(matrix)))
    k, p = point.units.shape
    m = point.coefficients.shape[1]
    null = np.zeros((k, len(matrix)))
    fixed = np.zeros((k, len(matrix)))
    for j in range(k):
        null[j, j * p : (j + 1) * p] = point.units[j]
        null[j, k * p + j * m : k * p + (j + 1) * m] = -degree * point.coefficients[j]
        fixed[j, j * p : j * p + p - point.biases] = point.units[j, : p - point.biases]
    size = float(np.diag(matrix)[: k * p].mean())
    inverse = solve_spd(matrix + size * fixed.T @ fixed, np.eye(len(matrix)))
    pull = null / np.sum(null * fixed, axis=1)[:, None]
    return np.asarray(inverse - pull.T @ pull / size)


def _shaped(errors: Array, network: Network, point: Point) -> StandardErrors:
    k, p = point.units.shape
    rows = errors[: k * p].reshape(k, p)
    rest = errors[k * p :].reshape(point.coefficients.shape)
    offset = rest[k] if point.offset else np.zeros(rest.shape[1])
    biases = rows[:, -1] if point.biases else np.zeros(k)
    return StandardErrors(
        rows[:, : network.dim], biases, rest[:k].reshape(network.readout.shape), offset.reshape(np.shape(network.offset)))
