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
from laybare.source import Affine, Source

LARGEST = 4000
"""Parameters up to which the information matrix is inverted: 128 MB, and a few seconds."""


SINGULAR, SHARE = 1e-12, 1e-6
"""Information below this share of the largest is none; a parameter with less than this share in such a direction is not hurt."""


def standard_errors(
    network: Network, source: Source, noise: float, *, biases: bool, offset: bool, transform: Affine | None = None
) -> StandardErrors:
    """Standard errors at `network` from the samples of `source`, for noise of standard deviation `noise` in every output.

    For homogeneous activations they refer to unit rows. A parameter that can move without any change at the samples has an
    infinite one. With `transform` the samples are those of `source` mapped back: the network is one on the inputs before the map,
    `source` reads those after it. One pass; memory (parameters)², so that networks of more than `LARGEST` parameters get NaN.
    """
    point = point_of(network, biases=biases, offset=offset, linear=network.linear is not None)
    if point.units.size + point.coefficients.size > LARGEST:
        return _shaped(np.full(point.units.size + point.coefficients.size, np.nan), network, point)
    seen = point
    if transform is not None:
        mapped = transform.inverse().pull_back(network)
        seen = point_of(mapped, biases=biases, offset=offset, linear=network.linear is not None)
    matrix = information(Step(*source.sum(StepStatistic(seen), stage="standard errors")), seen)
    if transform is not None and not transform.trivial:
        matrix = _carried_back(matrix, point, transform)
    gauge = _gauge(point)
    strength = float(np.diag(matrix)[: point.units.size].mean())
    whole = matrix + strength * gauge.fixed.T @ gauge.fixed
    inverse = np.diag(solve_spd(whole, np.eye(len(whole)))) - np.sum(gauge.pull**2, axis=0) / strength
    errors = noise * np.sqrt(np.maximum(inverse, 0.0))
    return _shaped(np.where(_undetermined(whole), np.inf, errors), network, point)


def _carried_back(matrix: Array, point: Point, transform: Affine) -> Array:
    """The information about the parameters on x from that about those on z: Lᵀ I L, with L = ∂(on z)/∂(on x).

    A row obeys w_z = matrix⁻¹ w_x and b_z = b_x + mean·w_x, the linear part and the offset alike; readouts stay as they are.
    """
    d = len(transform.mean)
    B = np.zeros((d + 1, d + 1))
    B[:d, :d], B[d, :d], B[d, d] = np.linalg.inv(transform.matrix), transform.mean, 1.0
    k, p = point.units.shape
    q, m = point.coefficients.shape
    turned = [*([d] if point.offset else []), *(range(d) if point.linear else [])]  # the order of the coefficients
    A = np.eye(q)
    A[k:, k:] = B[np.ix_(turned, turned)]

    def left(columns: Array) -> Array:
        rows = np.einsum("ab,kac->kbc", B[:p, :p], columns[: k * p].reshape(k, p, -1)).reshape(k * p, -1)
        rest = np.einsum("ab,amc->bmc", A, columns[k * p :].reshape(q, m, -1)).reshape(q * m, -1)
        return np.vstack([rows, rest])

    return left(left(matrix).T)


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
