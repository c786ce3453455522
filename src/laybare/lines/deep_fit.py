"""Fits of a deep network to answers, each weighted by its own rounding, and the effect of parameter errors on answers.

    y = h_L A + c,      h_l = relu(h_{l-1} W_lᵀ + b_l),      h₀ = x

**All layers.** With D_l = ∂y/∂z_l the derivatives are D_l h_{l-1} and D_l for the rows and biases of layer l, h_L and 1 for the
readout. The network is so near that it gives the active units of every answer. Rows keep their length (wᵢ·δwᵢ = 0), which is free
against the column above. Every pass over the answers is a sum (`source.sum`): the normal equations, scaled by columns, whose
inverse gives the error bars, at a cost of n p² for p parameters; beyond FIT.max_deep_parameters their products with vectors, for
conjugate gradients, without error bars.

**Biases and readout only**, where all parameters are too many. A bias is the product of a row and a place away from the origin,
so its error is that of the row times the distance; many answers together determine it better. One Gauss-Newton step: n q² for q
units, readout weights and outputs.

**Expected errors.** To first order, errors δw, δb of a unit change the answer at x by D (δw·h + δb), where h are the features
it reads. Errors of units, and of entries of a row, come from different queries:

    Var y(x) = Σ_layers Σ_units D² (sd(w)² |h|² + sd(b)²).

Where no fit of all parameters is possible, residuals are compared with this beside rounding: much larger ones mean something
else, such as a missing unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from laybare.lines.feature_space import Layers
from laybare.lines.model_fit import FIT, cholesky_with_jitter
from laybare.numerics.shapes import Array
from laybare.source import Source

Deviation = Callable[[Array, Array], Array]
"""Standard deviations (n,) of answers y (n, outputs) at x (n, dim)."""


class DeepParameters(NamedTuple):
    """Layers, readout (m, outputs), offset (outputs,)."""

    layers: Layers
    readout: Array
    offset: Array

    def __call__(self, x: Array) -> Array:
        """Outputs (n, outputs)."""
        return np.asarray(self.features(x) @ self.readout + self.offset)

    def features(self, x: Array) -> Array:
        """What the readout reads, (n, m)."""
        return hidden_features(self, x)[-1]

    @property
    def size(self) -> int:
        """The number of parameters, with one for each unit's length."""
        return sum(w.size + b.size for w, b in self.layers) + self.readout.size + self.offset.size


class DeepFit(NamedTuple):
    """The network after a fit, the largest standard deviation of a parameter, and the residual in standard deviations."""

    parameters: DeepParameters
    error_bar: float
    rms: float


class LayerErrors(NamedTuple):
    """Standard deviations of the entries of every row, (m,), and of every bias, (m,)."""

    rows: Array
    biases: Array

    @property
    def largest(self) -> float:
        return float(max(self.rows.max(initial=0.0), self.biases.max(initial=0.0)))

    def improved(self, measured: LayerErrors) -> LayerErrors:
        """The errors of units that were measured again; unchanged where `measured` is infinite."""
        again = np.isfinite(measured.rows)
        return LayerErrors(np.where(again, measured.rows, self.rows), np.where(again, measured.biases, self.biases))


def fit_all_layers(network: DeepParameters, source: Source, sd: Deviation, *, prior: float | Array = 1e-3) -> DeepFit:
    """Fit all parameters to the answers of `source` with standard deviations sd(x, y), from a network that is nearly right.

    A parameter that the answers leave undetermined stays where it is within `prior`, its standard deviation before: one number,
    or one for every parameter (rows and biases layer by layer, readout, offset).
    """
    rms, bar = residual_rms_of(network, source, sd), np.inf
    step = _dense_step if network.size <= FIT.max_deep_parameters else _matrix_free_step
    for _ in range(FIT.max_deep_steps if network.size <= FIT.max_deep_parameters else 1):
        moved, now_bar = step(network, source, sd, prior)
        now = residual_rms_of(moved, source, sd)
        if not now <= 1.5 * rms:
            break
        network, rms, bar = moved, now, now_bar
        if network.size > FIT.max_parameters_with_errors and rms <= FIT.contradiction_sds:
            break
    count = source.size * source.outputs
    free = count / max(count - network.size, 1)
    return DeepFit(network, bar * max(1.0, rms * float(np.sqrt(free))), rms)


class WeightErrors(NamedTuple):
    """For every layer the standard deviations (m, below) of weights relative to their rows, infinite where no answer tells one:
    along some change of parameters that leaves all answers as they are, up to rounding. NaN for units that never bend."""

    layers: tuple[Array, ...]

    @property
    def largest(self) -> float:
        """Of the weights that are told."""
        return max((float(sd[np.isfinite(sd)].max(initial=0.0)) for sd in self.layers), default=0.0)

    @property
    def open(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """(unit, feature) pairs of every layer whose weight no answer tells."""
        return tuple(tuple((int(m), int(k)) for m, k in np.argwhere(np.isinf(sd))) for sd in self.layers)


def weight_errors(network: DeepParameters, source: Source, sd: Deviation) -> WeightErrors:
    """What the answers of `source` tell about every weight of a network that predicts them.

    The normal matrix, scaled to a unit diagonal, lengths of rows held, is factored with pivots: J P = Q [R₁₁ R₁₂]. Parameters
    that are left over at the level of rounding may be changed, and the others with them, by [-R₁₁⁻¹ R₁₂; I]; the others have
    the covariance R₁₁⁻¹ R₁₁⁻ᵀ.
    """
    A = source.sum(DeepNormalEquations(network, sd))[0]
    _fix_row_lengths(A, network)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300))
    A *= scale[:, None]
    A *= scale
    scale[np.diag(A) < 0.5] = 1.0  # no answer depends on it
    R, pivots, rank, _ = scipy.linalg.lapack.dpstrf(A, tol=FIT.untold, overwrite_a=True)
    R11, told, left = R[:rank, :rank], pivots[:rank] - 1, pivots[rank:] - 1
    variance = np.zeros(len(A))
    inverse, _ = scipy.linalg.lapack.dtrtri(R11)
    variance[told] = scale[told] ** 2 * (np.triu(inverse) ** 2).sum(axis=1)
    free = np.zeros((len(A), len(left)))
    free[told] = -scale[told, None] * scipy.linalg.solve_triangular(R11, R[:rank, rank:])
    free[left, np.arange(len(left))] = scale[left]
    return WeightErrors(tuple(_relative_to_rows(network, np.sqrt(variance), free, _bending(network, source))))


def _relative_to_rows(network: DeepParameters, sd: Array, free: Array, bends: tuple[Array, ...]) -> Iterator[Array]:
    """Standard deviations and free changes of the weights of every layer, relative to the length of their rows."""
    rows = [np.linalg.norm(weights, axis=1) for weights, _ in network.layers]
    sizes = [np.append(np.repeat(size, w.shape[1]), size) for size, (w, _) in zip(rows, network.layers, strict=True)]
    above = np.full(network.readout.size + network.offset.size, np.abs(network.readout).max())
    size = np.concatenate([*sizes, above])
    change = np.abs(free) / size[:, None]
    untold = (change > FIT.untold_share * change.max(axis=0, initial=1e-300)).any(axis=1)
    errors, at = np.where(untold, np.inf, sd / size), 0
    for (weights, biases), bend in zip(network.layers, bends, strict=True):
        yield np.where(bend[:, None], errors[at : at + weights.size].reshape(weights.shape), np.nan)
        at += weights.size + biases.size


def _bending(network: DeepParameters, source: Source) -> tuple[Array, ...]:
    """Which units of every layer are on for some of the answers, and off for others."""
    def counts(x: Array, y: Array) -> tuple[Array, ...]:
        return tuple(np.sum(h > 0.0, axis=0) for h in hidden_features(network, x)[1:])

    return tuple((count > 0) & (count < source.size) for count in source.sum(counts))


def fit_biases_and_readout(network: DeepParameters, source: Source, sd: Deviation) -> DeepParameters:
    """The network with its biases, readout and offset fitted.

    Undetermined combinations stay as they are, such as the bias of an always active unit against the offset.
    """
    A, b = source.sum(DeepNormalEquations(network, sd, rows=False))
    size = np.sqrt(np.diag(A))
    scale = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0)
    sizes, vectors = np.linalg.eigh(scale[:, None] * A * scale)
    kept = sizes > FIT.min_eigenvalue * sizes[-1]
    delta = scale * (vectors[:, kept] @ (vectors[:, kept].T @ (scale * b) / sizes[kept]))
    at, layers = 0, []
    for weights, biases in network.layers:
        layers.append((weights, biases + delta[at : at + len(biases)]))
        at += len(biases)
    end = at + network.readout.size
    readout = network.readout + delta[at:end].reshape(network.readout.shape)
    return DeepParameters(tuple(layers), readout, network.offset + delta[end:])


def answer_sd(network: DeepParameters, errors: tuple[LayerErrors, ...], x: Array) -> Array:
    """Standard deviations (n,) of the worst output at inputs x (n, dim), from the errors of all layers; the readout is exact."""
    features = hidden_features(network, x)
    variance = np.zeros((len(x), len(network.offset)))
    for output in range(len(network.offset)):
        for below, slope, layer in zip(features, output_derivatives(network, features, output), errors, strict=False):
            square, size = slope**2, np.sum(below**2, axis=1)
            variance[:, output] += size * (square @ layer.rows**2) + square @ layer.biases**2
    return np.asarray(np.sqrt(variance.max(axis=1)))


def residual_rms_of(network: DeepParameters, source: Source, sd: Deviation) -> float:
    """Root mean square of the residuals, in standard deviations."""
    def squares(x: Array, y: Array) -> tuple[Array]:
        return (np.sum(((y - network(x)) / sd(x, y)[:, None]) ** 2, axis=0),)

    return float(np.sqrt(source.sum(squares)[0].sum() / (source.size * source.outputs)))


def hidden_features(network: DeepParameters, x: Array) -> list[Array]:
    """The inputs, and the features of every layer."""
    features = [x]
    for weights, biases in network.layers:
        features.append(np.maximum(features[-1] @ weights.T + biases, 0.0))
    return features


def output_derivatives(network: DeepParameters, features: list[Array], output: int) -> list[Array]:
    """∂y/∂z of one output for the units of every layer, from the lowest up: (n, m) each."""
    slopes, above = [], np.broadcast_to(network.readout[:, output], features[-1].shape)
    for level in range(len(network.layers) - 1, -1, -1):
        slopes.append(np.where(features[level + 1] > 0.0, above, 0.0))
        above = slopes[-1] @ network.layers[level][0]
    return slopes[::-1]


def _jacobian(network: DeepParameters, features: list[Array], output: int, *, rows: bool) -> tuple[Array, Array]:
    """(n, q) of one output, and the places of its q parameters: rows, if they are fitted, and biases layer by layer; then what
    this output alone reads, its part of readout and offset."""
    n, parts = len(features[0]), list[Array]()
    for below, slope in zip(features, output_derivatives(network, features, output), strict=False):
        parts += [(slope[:, :, None] * below[:, None, :]).reshape(n, -1), slope] if rows else [slope]
    common, (width, outputs) = sum(part.shape[1] for part in parts), network.readout.shape
    own = common + np.append(output + outputs * np.arange(width), outputs * width + output)
    return np.hstack([*parts, features[-1], np.ones((n, 1))]), np.append(np.arange(common), own)


@dataclass(frozen=True, eq=False)
class DeepNormalEquations:
    """JᵀJ (p, p) and Jᵀr (p,) of the answers, each divided by its standard deviation; `rows`: whether rows are fitted."""

    network: DeepParameters
    sd: Deviation
    rows: bool = True

    @property
    def row_floats(self) -> int:
        """Numbers of a row of J."""
        return self.network.size - (0 if self.rows else sum(weights.size for weights, _ in self.network.layers))

    def __call__(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The sums over one block."""
        A, b = np.zeros((self.row_floats, self.row_floats)), np.zeros(self.row_floats)
        features, sd = hidden_features(self.network, x), self.sd(x, y)[:, None]
        rest = (y - self.network(x)) / sd
        for output in range(y.shape[1]):
            J, places = _jacobian(self.network, features, output, rows=self.rows)
            J /= sd
            A[np.ix_(places, places)] += J.T @ J
            b[places] += J.T @ rest[:, output]
        return A, b


def _dense_step(network: DeepParameters, source: Source, sd: Deviation, prior: float | Array) -> tuple[DeepParameters, float]:
    A, b = source.sum(DeepNormalEquations(network, sd))
    A[np.diag_indices(len(A))] += prior**-2
    _fix_row_lengths(A, network)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(A), 1e-300))
    A *= scale[:, None]
    A *= scale
    A[np.diag_indices(len(A))] += FIT.damping
    factor = cholesky_with_jitter(A)
    delta = scale * scipy.linalg.cho_solve((factor, True), scale * b, check_finite=False)
    if network.size > FIT.max_parameters_with_errors:
        return _add(network, delta), np.inf
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return _add(network, delta), float((scale * np.sqrt(np.maximum(np.diag(inverse), 0.0))).max())


def _matrix_free_step(
    network: DeepParameters, source: Source, sd: Deviation, prior: float | Array
) -> tuple[DeepParameters, float]:
    def gradient(x: Array, y: Array) -> tuple[Array, Array]:
        features, weight = hidden_features(network, x), 1.0 / sd(x, y)[:, None]
        pulled = _transposed_jacobian_times(network, features, weight**2 * (y - network(x)))
        return pulled, _column_squares(network, features, weight)

    b, squares = source.sum(gradient)
    scale = 1.0 / np.sqrt(squares + prior**-2)

    def product(v: Array) -> Array:
        def curved(x: Array, y: Array) -> tuple[Array]:
            features, weight = hidden_features(network, x), 1.0 / sd(x, y)[:, None]
            change = _jacobian_times(network, features, scale * v)
            return (_transposed_jacobian_times(network, features, weight**2 * change),)

        return np.asarray(scale * (source.sum(curved)[0] + prior**-2 * scale * v))

    return _add(network, scale * _conjugate_gradients(product, scale * b)), np.inf


def _conjugate_gradients(product: Callable[[Array], Array], b: Array) -> Array:
    x, r = np.zeros_like(b), b.copy()
    p, square = r.copy(), float(r @ r)
    begun = square
    for _ in range(FIT.max_cg_iterations):
        if square <= FIT.cg_tol**2 * begun:
            break
        q = product(p)
        step = square / float(p @ q)
        x, r = x + step * p, r - step * q
        last, square = square, float(r @ r)
        p = r + square / last * p
    return x


def _column_squares(network: DeepParameters, features: list[Array], weight: Array) -> Array:
    """Squared lengths of the Jacobian's columns, (p,), one output after the other."""
    total = np.zeros(network.size)
    for output in range(network.readout.shape[1]):
        alone = network._replace(readout=network.readout[:, [output]])
        parts = [np.zeros(network.readout.shape), np.zeros(network.offset.shape)]
        parts[0][:, output], parts[1][output] = np.sum((weight * features[-1]) ** 2, axis=0), np.sum(weight**2)
        above = weight @ alone.readout.T
        for level in range(len(network.layers) - 1, -1, -1):
            slope = np.where(features[level + 1] > 0.0, above, 0.0)
            parts = [(slope**2).T @ features[level] ** 2, np.sum(slope**2, axis=0), *parts]
            above = slope @ network.layers[level][0]
        total += np.concatenate([part.ravel() for part in parts])
    return total


def _jacobian_times(network: DeepParameters, features: list[Array], v: Array) -> Array:
    """The Jacobian times a change of all parameters, (n, outputs)."""
    change = _add(_zeros_like(network), v)
    up = np.zeros_like(features[0])
    for level, ((weights, _), (rows, biases)) in enumerate(zip(network.layers, change.layers, strict=True)):
        up = np.where(features[level + 1] > 0.0, up @ weights.T + features[level] @ rows.T + biases, 0.0)
    return np.asarray(up @ network.readout + features[-1] @ change.readout + change.offset)


def _transposed_jacobian_times(network: DeepParameters, features: list[Array], u: Array) -> Array:
    """The transposed Jacobian times answers u (n, outputs)."""
    parts = [(features[-1].T @ u).ravel(), u.sum(axis=0)]
    above = u @ network.readout.T
    for level in range(len(network.layers) - 1, -1, -1):
        slope = np.where(features[level + 1] > 0.0, above, 0.0)
        parts = [(slope.T @ features[level]).ravel(), slope.sum(axis=0), *parts]
        above = slope @ network.layers[level][0]
    return np.concatenate(parts)


def _zeros_like(network: DeepParameters) -> DeepParameters:
    layers = tuple((np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in network.layers)
    return DeepParameters(layers, np.zeros_like(network.readout), np.zeros_like(network.offset))


def _fix_row_lengths(A: Array, network: DeepParameters) -> None:
    """Weight on wᵢ·δwᵢ, the direction that changes nothing."""
    at, diagonal = 0, np.diag(A).copy()
    for weights, biases in network.layers:
        for row in weights:
            part = slice(at, at + len(row))
            A[part, part] += max(float(diagonal[part].max()), 1e-300) * np.outer(row, row)
            at += len(row)
        at += len(biases)


def _add(network: DeepParameters, delta: Array) -> DeepParameters:
    at, layers = 0, []
    for weights, biases in network.layers:
        middle, end = at + weights.size, at + weights.size + biases.size
        layers.append((weights + delta[at:middle].reshape(weights.shape), biases + delta[middle:end]))
        at = end
    readout = network.readout + delta[at : at + network.readout.size].reshape(network.readout.shape)
    return DeepParameters(tuple(layers), readout, network.offset + delta[at + network.readout.size :])
