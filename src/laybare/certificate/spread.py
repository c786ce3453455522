"""Standard errors of a fitted network: the inverse Fisher information with the scale gauge held fixed.

With J the Jacobian of all outputs in all parameters and noise variance s², the covariance is s² (JᵀJ)⁻¹ on the space left by the
gauge w_j·δw_j = 0 (unit rows stay unit rows). JᵀJ has one null vector ν_j a homogeneous unit (its row against its readout), and
for any constraint c with c·ν ≠ 0

    (JᵀJ + γ c cᵀ)⁻¹ = (constrained inverse) + ν νᵀ / (γ (c·ν)²).

This is the Cramér-Rao bound for Gaussian noise, at the estimate.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from laybare.certificate.claims import StandardErrors
from laybare.linear_algebra import solve_spd
from laybare.networks import Network
from laybare.refinement.normal import Point, Step, StepStatistic, point_of
from laybare.shapes import Array
from laybare.source import Source

LARGEST = 4000
"""Parameters up to which the information matrix is inverted: 128 MB, and a few seconds."""


SINGULAR, SHARE = 1e-12, 1e-6
"""Information below this share of the largest is none; a parameter with less than this share in such a direction is not hurt."""


def standard_errors(network: Network, source: Source, noise: float, *, biases: bool, offset: bool) -> StandardErrors:
    """Standard errors at `network` from the samples of `source`, for noise of standard deviation `noise` in every output.

    For homogeneous activations they refer to unit rows. A parameter that can move without any change at the samples has an
    infinite one. One pass; memory (parameters)², so that networks of more than `LARGEST` parameters get NaN instead.
    """
    point = point_of(network, biases=biases, offset=offset, linear=network.linear is not None)
    if point.units.size + point.coefficients.size > LARGEST:
        return _shaped(np.full(point.units.size + point.coefficients.size, np.nan), network, point)
    step = Step(*source.sum(StepStatistic(point), stage="standard errors"))
    gauge = _gauge(point)
    matrix = information(step, point)
    strength = float(np.diag(matrix)[: point.units.size].mean())
    whole = matrix + strength * gauge.fixed.T @ gauge.fixed
    inverse = np.diag(solve_spd(whole, np.eye(len(whole)))) - np.sum(gauge.pull**2, axis=0) / strength
    errors = noise * np.sqrt(np.maximum(inverse, 0.0))
    return _shaped(np.where(_undetermined(whole), np.inf, errors), network, point)


def information(step: Step, point: Point) -> Array:
    """JᵀJ in the order (unit rows, coefficients feature by feature)."""
    k, p = point.units.shape
    q, m = point.coefficients.shape
    A = point.coefficients[:k]
    G, E, H = step.gram[:q, :q], step.gram[:q, q:], step.gram[q:, q:]
    rows = (H.reshape(k, p, k, p) * (A @ A.T)[:, None, :, None]).reshape(k * p, k * p)
    cross = np.einsum("jo,fja->jafo", A, E.reshape(q, k, p)).reshape(k * p, q * m)
    return np.block([[rows, cross], [cross.T, np.kron(G, np.eye(m))]])


class _Gauge(NamedTuple):
    """`fixed` (units, parameters): constraints c; `pull`: null vectors ν / (c·ν). No rows where the scale is not free."""

    fixed: Array
    pull: Array


def _gauge(point: Point) -> _Gauge:
    k, p = point.units.shape
    m = point.coefficients.shape[1]
    degree = point.activation.degree
    free = 0 if degree is None else k
    null, fixed = np.zeros((2, free, point.units.size + point.coefficients.size))
    for j in range(free):
        null[j, j * p : (j + 1) * p] = point.units[j]
        null[j, k * p + j * m : k * p + (j + 1) * m] = -(degree or 0) * point.coefficients[j]
        fixed[j, j * p : j * p + p - point.biases] = point.units[j, : p - point.biases]
    return _Gauge(fixed, null / np.sum(null * fixed, axis=1)[:, None])


def _undetermined(matrix: Array) -> Array:
    """Parameters with a share in a direction along which the information vanishes (relative to each parameter's own)."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    scaled = matrix * scale[:, None] * scale
    with contextlib.suppress(np.linalg.LinAlgError):
        if np.diag(np.linalg.cholesky(scaled)).min() ** 2 > SINGULAR:
            return np.zeros(len(matrix), dtype=bool)
    values, vectors = np.linalg.eigh(scaled)
    share: Array = np.sum(vectors[:, values <= SINGULAR * values[-1]] ** 2, axis=1)
    return np.asarray(share > SHARE)


def _shaped(errors: Array, network: Network, point: Point) -> StandardErrors:
    k, p = point.units.shape
    rows = errors[: k * p].reshape(k, p)
    rest = errors[k * p :].reshape(point.coefficients.shape)
    offset = rest[k] if point.offset else np.zeros(rest.shape[1])
    biases = rows[:, -1] if point.biases else np.zeros(k)
    return StandardErrors(
        rows[:, : network.dim], biases, rest[:k].reshape(network.readout.shape), offset.reshape(np.shape(network.offset)))
