"""Errors of a network on other inputs: carried through an affine map, into the gauge of unit rows there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare.certificate.information import gauge_of
from laybare.refinement.normal import Point
from laybare.shapes import Array
from laybare.source import Affine


class Carried(NamedTuple):
    """Standard errors of the parameters on other inputs, and the network there."""

    errors: Array
    point: Point


def carried(covariance: Array, point: Point, transform: Affine) -> Carried:
    """Errors on inputs x with z = transform(x), from those on z: carried there, then into the gauge of unit rows there.

    A row obeys w_x = matrix w_z and b_x = b_z - mean·w_x, the linear part and the offset alike; readouts stay as they are, but
    for the scale of homogeneous units, whose rows have length one on both sides.
    """
    rows, rest = _carriers(transform, point)
    k, p = point.units.shape
    q, m = point.coefficients.shape
    scale, back, degree = np.ones(k), np.ones(q), point.activation.degree
    if degree is not None:
        lengths = np.linalg.norm((point.units @ rows.T)[:, : p - point.biases], axis=1)
        scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        back[:k] = scale**-degree
    there = point.moved(scale[:, None] * (point.units @ rows.T), back[:, None] * (rest @ point.coefficients))
    gauge = gauge_of(there)

    def left(columns: Array) -> Array:
        count = columns.shape[1]  # no -1 in shapes: there may be no unit
        top = scale[:, None, None] * (rows @ columns[: k * p].reshape(k, p, count))
        low = back[:, None] * (rest @ columns[k * p :].reshape(q, m * count))
        moved = np.vstack([top.reshape(k * p, count), low.reshape(q * m, count)])
        return np.asarray(moved - gauge.pull.T @ (gauge.fixed @ moved))

    errors = root_of(left(left(covariance).T))
    if degree is not None:
        errors[: k * p] = _on_sphere(errors[: k * p].reshape(k, p), there).ravel()
    return Carried(errors, there)


def _on_sphere(rows: Array, point: Point) -> Array:
    """Errors of unit rows to second order: across itself a row moves by δ, along itself by |δ|²/2, all that a number near ±1 has.

    For Gaussian δ in one direction |δ|²/2 has the root mean square √3/2 times the variance; in several it has less.
    """
    weights = np.zeros_like(rows)
    dim = rows.shape[1] - point.biases
    weights[:, :dim] = point.units[:, :dim]
    total = np.sum(rows[:, :dim] ** 2, axis=1, keepdims=True)
    return np.asarray(np.hypot(rows, np.sqrt(0.75) * np.abs(weights) * total))


def standardised(transform: Affine) -> Affine:
    """From inputs of mean zero whose columns have standard deviation one, each by itself, to white ones."""
    spread = np.sqrt(np.diag(np.linalg.inv(transform.matrix @ transform.matrix.T)))
    return Affine(np.zeros_like(transform.mean), spread[:, None] * transform.matrix)


def _carriers(transform: Affine, point: Point) -> tuple[Array, Array]:
    """∂(on x)/∂(on z) of one row (p, p), and of the coefficients (q, q)."""
    d = len(transform.mean)
    B = np.zeros((d + 1, d + 1))
    B[:d, :d], B[d, :d], B[d, d] = transform.matrix, -transform.mean @ transform.matrix, 1.0
    k, p = point.units.shape
    turned = [*([d] if point.offset else []), *(range(d) if point.linear else [])]  # the order of the coefficients
    A = np.eye(len(point.coefficients))
    A[k:, k:] = B[np.ix_(turned, turned)]
    return B[:p, :p], A


def root_of(covariance: Array) -> Array:
    """Standard deviations."""
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))
