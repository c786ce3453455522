"""A network as the solver sees it: hidden rows, and the coefficients of what enters linearly (readout, offset, linear part)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from laybare.activations import Activation
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.solver.loop import Iterate
from laybare.source import Source


@dataclass(frozen=True, eq=False)
class Point:
    """Hidden rows `units` (k, p), p = dim + 1 with biases, and `coefficients` (q, m).

    Units of homogeneous activations have |w| = 1, a choice of gauge: their rows move in tangent spaces.
    """

    units: Array
    coefficients: Array
    activation: Activation
    biases: bool
    offset: bool
    linear: bool

    @property
    def width(self) -> int:
        return len(self.units)

    @property
    def size(self) -> int:
        """All parameters, the gauge among them."""
        return int(self.units.size + self.coefficients.size)

    @cached_property
    def normals(self) -> Array | None:
        """Directions in which rows do not move, (k, p) of length 1: along (w, b) if homogeneous, else none."""
        if self.activation.degree is None:
            return None
        lengths = np.linalg.norm(self.units, axis=1)
        return np.asarray(self.units / np.where(lengths > 0.0, lengths, 1.0)[:, None])

    def moved(self, units: Array, coefficients: Array) -> Point:
        """The same model at other parameters."""
        return Point(units, coefficients, self.activation, self.biases, self.offset, self.linear)

    def extended(self, x: Array) -> Array:
        """X̃: the inputs with a column of ones if there are biases."""
        return np.column_stack([x, np.ones(len(x))]) if self.biases else x

    def features(self, x: Array, u: Array) -> Array:
        """F = [act(U), 1, x]."""
        parts = [self.activation(u)]
        if self.offset:
            parts.append(np.ones((len(x), 1)))
        if self.linear:
            parts.append(x)
        return np.hstack(parts)


class Model(NamedTuple):
    """Which model is fitted: its activation and which parts are free."""

    activation: Activation
    biases: bool = True
    offset: bool = True
    linear: bool = False

    def start(self, units: Array, outputs: int) -> Point:
        """Units whose coefficients are still to be fitted (zero)."""
        dim = units.shape[1] - self.biases
        rows = len(units) + self.offset + self.linear * dim
        return Point(units, np.zeros((rows, outputs)), *self)


FittedPoint: TypeAlias = Iterate[Point, Any]
"""Where the solver stopped: the loss is the residual sum of squares, least squares in the readout."""


def point_of(network: Network, *, biases: bool, offset: bool, linear: bool) -> Point:
    """The solver's view of a network; parts that are not free must be zero in it."""
    readout, shift, slope = network.columns
    units = network.layer.rows if biases else np.array(network.layer.weights)
    rows = [readout, *([shift[None]] if offset else []), *([slope] if linear else [])]
    return Point(units, np.vstack(rows), network.activation, biases, offset, linear)


def network_of(point: Point, *, vector: bool) -> Network:
    """Back to a network; `vector` says that the readout is one-dimensional."""
    k, dim = point.width, point.units.shape[1] - point.biases
    rest = point.coefficients[k:]
    readout = point.coefficients[:k]
    offset = rest[0] if point.offset else np.zeros(readout.shape[1])
    slope = rest[int(point.offset) :] if point.linear else None
    layer = Layer(point.units[:, :dim], point.units[:, dim] if point.biases else None, point.activation)
    if not vector:
        return Network(layer, readout, offset, slope)
    return Network(layer, readout[:, 0], float(offset[0]), None if slope is None else slope[:, 0])


class Split(NamedTuple):
    """A direction or a point in full form: hidden rows (k, d+1), readout (k, m), affine part (d+1, m)."""

    rows: Array
    readout: Array
    affine: Array


def split(point: Point, rows: Array, coefficients: Array) -> Split:
    """Full form of (rows, coefficients) of a point's model; what is not free is zero."""
    k, dim, m = point.width, point.units.shape[1] - point.biases, coefficients.shape[1]
    full = rows if point.biases else np.column_stack([rows, np.zeros(k)])
    affine = np.zeros((dim + 1, m))
    if point.offset:
        affine[-1] = coefficients[k]
    if point.linear:
        affine[:-1] = coefficients[k + point.offset :]
    return Split(full, coefficients[:k], affine)


def parameters_per_unit(point: Point) -> int:
    """Free parameters per unit: its row and readout, less the direction in which rows do not move."""
    gauge = 0 if point.activation.degree is None else 1
    return int(point.units.shape[1] + point.coefficients.shape[1]) - gauge


def parameter_count(point: Point) -> int:
    """Free parameters of the model."""
    k, m = point.width, int(point.coefficients.shape[1])
    return k * parameters_per_unit(point) + (len(point.coefficients) - k) * m


def add_units(point: Point, rows: Array, readouts: Array) -> Point:
    """The point with further units, placed last."""
    coefficients = np.insert(point.coefficients, [point.width] * len(rows), readouts, axis=0)
    return point.moved(np.vstack([point.units, rows]), coefficients)


def keep_units(point: Point, kept: Array) -> Point:
    """The point with only the units `kept` (indices)."""
    k = point.width
    rows = np.concatenate([kept, np.arange(k, len(point.coefficients))]).astype(int)
    return replace(point, units=point.units[kept], coefficients=point.coefficients[rows])


def columns_of(point: Point, kept: Array) -> Array:
    """Where the columns [F, Xs] of `keep_units(point, kept)` are among those of the point."""
    (k, p), q = point.units.shape, len(point.coefficients)
    return np.concatenate([kept, np.arange(k, q), (q + kept[:, None] * p + np.arange(p)).ravel()]).astype(int)


def tangent(rows: Array, normals: Array | None) -> Array:
    """Rows without their parts along the normals."""
    if normals is None:
        return rows
    return np.asarray(rows - np.sum(rows * normals, axis=1)[:, None] * normals)


def unit_rows(point: Point, units: Array, coefficients: Array) -> Point:
    """|w| = 1 for homogeneous activations: the length goes into the readout."""
    degree = point.activation.degree
    if degree is None:
        return point.moved(units, coefficients)
    dim = units.shape[1] - point.biases
    lengths = np.linalg.norm(units[:, :dim], axis=1)[:, None]
    lengths[lengths == 0.0] = 1.0
    scaled = coefficients.copy()
    scaled[: len(units)] *= lengths**degree
    return point.moved(units / lengths, scaled)


def overfit(source: Source, point: Point) -> float:
    """P / (N - P) for P unknowns in N equations: the share by which fitting noise lowers the loss; at most P."""
    unknowns = parameter_count(point)
    return float(unknowns / max(1, source.size * source.outputs - unknowns))


def outputs_at(point: Point, x: Array) -> Array:
    """η at the rows of x, (n, outputs)."""
    return np.asarray(point.features(x, point.extended(x) @ point.units.T) @ point.coefficients)


def output_gradients(point: Point, x: Array, output: int) -> Array:
    """∂ output / ∂ parameters at the rows of x (n, parameters): (w, b) of every unit, then coefficients, each for all outputs."""
    (k, p), (q, m) = point.units.shape, point.coefficients.shape
    inputs = point.extended(x)
    values, slopes = point.activation.value_and_slope(inputs @ point.units.T)
    parts = [values, *([np.ones((len(x), 1))] if point.offset else []), *([x] if point.linear else [])]
    J = np.zeros((len(x), k * p + q * m))
    J[:, : k * p] = ((slopes * point.coefficients[:k, output])[:, :, None] * inputs[:, None, :]).reshape(len(x), k * p)
    J[:, k * p + output :: m] = np.hstack(parts)
    return J
