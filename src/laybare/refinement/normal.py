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
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.linear_algebra import Precision, inner
from laybare.networks import Layer, Network
from laybare.shapes import Array, Sums
from laybare.workspace import workspace

LARGE_SYSTEM = 300
"""Hidden numbers from which single precision is worth it for what need not be exact."""


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


class Split(NamedTuple):
    """A direction or a point in full form: hidden rows (k, d+1), readout (k, m), affine part (d+1, m)."""

    rows: Array
    readout: Array
    affine: Array


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


def step_of(gram: Array) -> Step:
    """A step of which the Gram matrix alone is known: its curvature."""
    nothing = np.zeros(0)
    return Step(gram, nothing, nothing, nothing)


class InPrecision:
    """A statistic that works in the precision `dtype`, and says so to whoever reads the rows (`laybare.source.sums`)."""

    dtype: Precision

    @property
    def single(self) -> bool:
        return self.dtype is np.float32


@dataclass(frozen=True, eq=False)
class FitStatistic(InPrecision):
    """(x, y) -> Fit at a point: cheap, n·(q² + k·d); products in single precision if `dtype` says so."""

    point: Point
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return 3 * len(self.point.coefficients)

    def __call__(self, x: Array, y: Array) -> Sums:
        point, k = self.point, self.point.width
        X1, unit = with_ones(point, x, self.dtype), unit_of(point, y, self.dtype)
        at = split(point, point.units, point.coefficients / unit)
        ahead = images(X1, at.rows, at.affine.T)
        H = point.activation.in_precision(ahead[:k])
        R = (y.T / unit).astype(self.dtype, copy=False) - np.dot(at.readout.T.astype(self.dtype, copy=False), H) - ahead[k:]
        rest = _affine_features(point, X1)
        gram, moment = np.empty((len(point.coefficients),) * 2), np.empty(point.coefficients.shape)
        gram[:k, :k], gram[:k, k:], gram[k:, k:] = np.dot(H, H.T), np.dot(H, rest), np.dot(rest.T, rest)
        gram[k:, :k] = gram[:k, k:].T
        moment[:k], moment[k:] = np.dot(H, R.T), np.dot(R, rest).T
        loss = unit**2 * np.einsum("on,on->", R, R, dtype=np.float64)
        return Fit(gram, moment if unit == 1.0 else unit * moment, np.asarray(loss), np.array(float(len(x))))


@dataclass(frozen=True, eq=False)
class StepStatistic(InPrecision):
    """(x, y) -> Step at a point: n·(q + k·p)², one symmetric product per block, in single precision if `dtype` says so.

    Sums over blocks are always double.
    """

    point: Point
    dtype: Precision = np.float64

    @property
    def row_floats(self) -> int:
        return 2 * (self.point.units.size + len(self.point.coefficients))

    @property
    def sum_floats(self) -> int:
        return (self.point.units.size + len(self.point.coefficients)) ** 2

    def __call__(self, x: Array, y: Array) -> Sums:
        point, (k, p), q = self.point, self.point.units.shape, len(self.point.coefficients)
        X1, unit = with_ones(point, x, self.dtype), unit_of(point, y, self.dtype)
        Z = workspace("step", (len(x), q + k * p), self.dtype)
        Z[:, :k], slopes = point.activation.value_and_slope(pre_activations(point, X1))
        if point.offset:
            Z[:, k] = 1.0
        if point.linear:
            Z[:, k + point.offset : q] = X1[:, :-1]
        R = (y / unit).astype(self.dtype, copy=False) - Z[:, :q] @ (point.coefficients / unit).astype(self.dtype, copy=False)
        khatri_rao(slopes, X1[:, :p], Z[:, q:])
        loss = unit**2 * np.einsum("no,no->", R, R, dtype=np.float64)
        return Step(*doubles(inner(Z, Z), inner(Z, R), unit), np.asarray(loss), np.array(float(len(x))))


def quick_precision(point: Point) -> Precision:
    """Single for so many hidden numbers that half the time is worth it, where a few digits are enough."""
    return np.float32 if point.units.size >= LARGE_SYSTEM else np.float64


def with_ones(point: Point, x: Array, dtype: Precision) -> Array:
    """[x, 1] in the precision asked for; kept rows come like that if it is single (`laybare.source.views`)."""
    dim = point.units.shape[1] - point.biases
    if x.shape[1] == dim + 1:
        return x
    X1 = workspace("with ones", (len(x), dim + 1), dtype)
    X1[:, :-1] = x
    X1[:, -1] = 1.0
    return X1


def pre_activations(point: Point, X1: Array) -> Array:
    """U = X̃ Wᵀ (with biases) in the precision of [x, 1]."""
    return np.asarray(X1[:, : point.units.shape[1]] @ point.units.T.astype(X1.dtype, copy=False))


def outputs_of(point: Point, X1: Array, activations: Array) -> Array:
    """F C from act(U) and [x, 1], in their precision; the result in double."""
    k, C = point.width, point.coefficients.astype(X1.dtype, copy=False)
    outputs = activations @ C[:k]
    if point.offset:
        outputs += C[k]
    if point.linear:
        outputs += X1[:, :-1] @ C[k + point.offset :]
    return np.asarray(outputs, dtype=np.float64)


def khatri_rao(slopes: Array, inputs: Array, out: Array) -> None:
    """S_j ⊗ X̃ of every row, (n, k·p), into `out`; einsum takes half the time of a product that is broadcast."""
    np.einsum("nk,np->nkp", slopes, inputs, out=out.reshape(len(slopes), slopes.shape[1], inputs.shape[1]))


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


def _affine_features(point: Point, X1: Array) -> Array:
    """Those among [1, x], in this order."""
    rest = workspace("affine", (len(X1), point.offset + point.linear * (X1.shape[1] - 1)), X1.dtype.type)
    rest[:, : point.offset] = 1.0
    if point.linear:
        rest[:, point.offset :] = X1[:, :-1]
    return rest


def images(X1: Array, *rows: Array) -> Array:
    """All these rows times X̃ᵀ, in its precision: one product, a row of the result for each."""
    weights = np.vstack(rows).astype(X1.dtype, copy=False)
    return np.matmul(weights, X1.T, out=workspace("ahead", (len(weights), len(X1)), X1.dtype.type))


def unit_of(point: Point, y: Array, dtype: Precision) -> float:
    """What labels are measured in, within a block: 1, or a power of two near the largest number where single precision might
    not hold it."""
    if dtype is np.float64:
        return 1.0
    largest = max(float(np.abs(y).max()), float(np.abs(point.coefficients).max(initial=0.0)))
    return float(2.0 ** np.round(np.log2(largest))) if 0.0 < largest < np.inf else 1.0


def doubles(gram: Array, moment: Array, unit: float) -> tuple[Array, Array]:
    """Both as doubles, the moment in the labels' own unit."""
    moment = moment.astype(np.float64, copy=False)
    return gram.astype(np.float64, copy=False), moment if unit == 1.0 else unit * moment
