"""Errors of a network on other inputs: carried through an affine map, into the gauge of unit rows there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    for the scale of homogeneous units, whose rows have length one on both sides. So a unit's numbers depend on its own alone.
    """
    rows, rest = _carriers(transform, point)
    k, p = point.units.shape
    q, m = point.coefficients.shape
    scale, back, degree = np.ones(k), np.ones(q), point.activation.degree
    if degree is not None:
        lengths = np.linalg.norm((point.units @ rows.T)[:, : p - point.biases], axis=1)
        scale = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        back[:k] = scale**-degree
    there = point.moved(scale[:, None] * (point.units @ rows.T), back[:, None] * np.vstack([
        point.coefficients[:k], rest @ point.coefficients[k:]]))
    numbers = np.arange(len(covariance))
    hidden, readouts, others = np.split(numbers, [k * p, k * (p + m)])
    own = np.hstack([hidden.reshape(k, p), readouts.reshape(k, m)])
    errors = np.empty(len(covariance))
    errors[own] = _errors(_unit_carriers(there, scale[:, None, None] * rows, back[:k]), covariance[own[:, :, None], own[:, None]])
    errors[others] = _errors(np.kron(rest, np.eye(m)), covariance[np.ix_(others, others)])
    if degree is not None:
        errors[: k * p] = _on_sphere(errors[: k * p].reshape(k, p), there).ravel()
    return Carried(errors, there)


def _errors(carriers: Array, covariance: Array) -> Array:
    """Standard deviations of what is carried, for one block of numbers or several."""
    return np.asarray(np.sqrt(np.maximum(np.sum((carriers @ covariance) * carriers, axis=-1), 0.0)))


def _unit_carriers(there: Point, rows: Array, readouts: Array) -> Array:
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
    """∂(on x)/∂(on z) of one row (p, p), and of the offset and the linear part (q - k, q - k)."""
    d = len(transform.mean)
    B = np.zeros((d + 1, d + 1))
    B[:d, :d], B[d, :d], B[d, d] = transform.matrix, -transform.mean @ transform.matrix, 1.0
    turned = [*([d] if point.offset else []), *(range(d) if point.linear else [])]  # the order of the coefficients
    p = point.units.shape[1]
    return B[:p, :p], B[np.ix_(turned, turned)]


def root_of(covariance: Array) -> Array:
    """Standard deviations."""
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))
