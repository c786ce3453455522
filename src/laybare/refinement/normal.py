"""Normal equations of a network, added up block by block.

Letters: F (n, q) the features that enter linearly, [act(U), 1, x] with U = x Wᵀ + b; C (q, m) their coefficients (readout,
offset, linear part); R = y - F C the residual; X̃ = [x, 1] (or x, without biases); S = act'(U); Xs (n, k·p) the Khatri-Rao rows
S_j ⊗ X̃, so that moving unit j by δ_j changes output o by C_jo · Xs_j δ_j.

Variable projection: for any hidden layer the best C is a least-squares fit, so C is eliminated. With G = FᵀF the projected
problem has (for all outputs at once)

    Schur[(j,a),(l,b)] = (C Cᵀ)_jl · [XsᵀXs - XsᵀF G⁻¹ FᵀXs]_(ja,lb)
    gradient[(j,a)]    = Σ_o C_jo [XsᵀR - XsᵀF G⁻¹ FᵀR]_(ja,o)

Both come from the Gram matrix of [F, Xs] and its product with R: one pass. R is formed inside the pass from the current C, never
as a difference of Gram matrices, so that the gradient keeps its relative accuracy down to a residual of 1e-16.
Source: Golub and Pereyra (1973); Kaufman (1975); the form for several outputs is derived in Ge et al.'s setting (A is their C).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.networks import Layer, Network
from laybare.shapes import Array, Sums
from laybare.workspace import workspace


@dataclass(frozen=True, eq=False)
class Point:
    """A network as the solver sees it: hidden rows `units` (k, p), p = dim + 1 with biases; `coefficients` (q, m).

    `unit` says that |w| = 1 for every unit, so that rows move in tangent spaces: a constraint for most activations (Ge, Lee and
    Ma's model), a mere choice of gauge for homogeneous ones, which always have it.
    """

    units: Array
    coefficients: Array
    activation: Activation
    biases: bool
    offset: bool
    linear: bool
    unit: bool = False

    @property
    def width(self) -> int:
        return len(self.units)

    @property
    def normals(self) -> Array | None:
        """Directions in which rows do not move, (k, p) of length 1: along (w, b) if homogeneous, along w if unit, else none."""
        if self.activation.degree is None and not self.unit:
            return None
        rows = self.units.copy()
        if self.activation.degree is None and self.biases:
            rows[:, -1] = 0.0
        lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0)[:, None])

    def moved(self, units: Array, coefficients: Array) -> Point:
        """The same model at other parameters."""
        return replace(self, units=units, coefficients=coefficients)

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
    unit: bool = False

    def start(self, units: Array, outputs: int) -> Point:
        """Units with coefficients still to be fitted (zero)."""
        dim = units.shape[1] - self.biases
        rows = len(units) + self.offset + self.linear * dim
        return Point(units, np.zeros((rows, outputs)), *self)


def point_of(network: Network, *, biases: bool, offset: bool, linear: bool, unit: bool = False) -> Point:
    """The solver's view of a network; parts that are not free must be zero in it."""
    readout, shift, slope = network.columns
    units = network.layer.rows if biases else np.array(network.layer.weights)
    rows = [readout, *([shift[None]] if offset else []), *([slope] if linear else [])]
    return Point(units, np.vstack(rows), network.activation, biases, offset, linear, unit)


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


class Fit(NamedTuple):
    """Sums that decide the linear coefficients: FᵀF, FᵀR, RᵀR summed over outputs, and the number of rows."""

    gram: Array
    moment: Array
    loss: Array
    rows: Array


class Step(NamedTuple):
    """Sums of one Gauss-Newton step: Gram of [F, Xs], its product with R, the loss, the number of rows."""

    gram: Array
    moment: Array
    loss: Array
    rows: Array


@dataclass(frozen=True, eq=False)
class FitStatistic:
    """(x, y) -> Fit at a point: cheap, n·(q² + k·d)."""

    point: Point

    @property
    def row_floats(self) -> int:
        return 3 * len(self.point.coefficients)

    def __call__(self, x: Array, y: Array) -> Sums:
        F = self.point.features(x, self.point.extended(x) @ self.point.units.T)
        R = y - F @ self.point.coefficients
        return Fit(F.T @ F, F.T @ R, np.asarray(np.einsum("no,no->", R, R)), np.array(float(len(x))))


@dataclass(frozen=True, eq=False)
class StepStatistic:
    """(x, y) -> Step at a point: n·(q + k·p)², one symmetric product per block, in single precision if `dtype` says so.

    Residuals are always double, and so are the sums over blocks.
    """

    point: Point
    dtype: type[np.floating[Any]] = np.float64

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients))

    @property
    def sum_floats(self) -> int:
        return (self.point.units.size + len(self.point.coefficients)) ** 2

    def __call__(self, x: Array, y: Array) -> Sums:
        point = self.point
        X1 = point.extended(x)
        U = X1 @ point.units.T
        F = point.features(x, U)
        R = y - F @ point.coefficients
        q = F.shape[1]
        Z = workspace("step", (len(x), q + point.units.size), self.dtype)
        Z[:, :q] = F
        slopes, inputs = (array.astype(self.dtype, copy=False) for array in (point.activation.derivative(U), X1))
        np.multiply(slopes[:, :, None], inputs[:, None, :], out=Z[:, q:].reshape(len(x), *point.units.shape))
        gram, moment = Z.T @ Z, Z.T @ R.astype(self.dtype, copy=False)
        return Step(
            gram.astype(np.float64, copy=False), moment.astype(np.float64, copy=False),
            np.asarray(np.einsum("no,no->", R, R)), np.array(float(len(x))))
