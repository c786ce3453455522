"""The annihilator: quadratic relations between outputs and inputs that every noiseless sample of a ReLU network obeys.

For y = A act(Wx + b) with independent columns of A, slope a below zero, zᵢ the rows of A⁺, vᵢ the weights and x̃ = [x, 1],

    (zᵢ·y - vᵢ·x̃)(zᵢ·y - a vᵢ·x̃) = 0          at every x, whatever the law of x,

which is linear in (zzᵀ, -(1+a) z vᵀ, a vvᵀ). So the matrix with one row [svec(yyᵀ), vec(yx̃ᵀ), svec(x̃x̃ᵀ)] a sample (the last part
only if a ≠ 0) has a null space that contains k such vectors. Their parts [zzᵀ, -(1+a) z vᵀ] are matrices of rank one. Neither
symmetry nor width ≤ dim is needed; only noiseless outputs, at least as many as units.

If the null space has dimension k, the parts zzᵀ are found by joint diagonalisation. It is larger if some unit is never off while
another one is on: then (zᵢ·y - vᵢ·x̃)(zⱼ·y) = 0 as well, for a = 0. Such relations have rank two, and the units are the rank-one
elements of the null space (`rank_one`).

The null space comes from the Gram matrix, which is a sum, and is then corrected by passes that form F(FN) from the samples: that
wins back the digits that squaring lost. Time n·p² for p = k(k+1)/2 + k·dim columns; memory p².
Source: ours, for the model of Ge, Kuditipudi, Li and Wang (2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import Decomposer
from laybare.decomposition.joint import JointDiagonalisation
from laybare.decomposition.rank_one import rank_one_elements
from laybare.errors import AssumptionViolated, TooFewSamples, Unidentifiable
from laybare.levels import GRAM
from laybare.moments.memory import MEMORY_LIMIT, check_memory
from laybare.moments.symmetric import smat, svec_squares
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

BLURRED = 0.5
"""Largest singular value of the null space over the smallest of the rest: above it there is no null space to speak of."""

CORRECTIONS = 3


class Relations(NamedTuple):
    """Pure neurons `z` (k, m), their weights (k, d) and biases (k,), so that z·y = act(w·x + b), and `gap`.

    `gap` is the smallest singular value outside of the null space over the largest inside.
    """

    z: Array
    weights: Array
    biases: Array
    gap: float


def annihilator(
    source: Source, width: int, *, rng: Generator, slope: float = 0.0, biases: bool = False,
    decompose: Decomposer = JointDiagonalisation(polish=False), memory: int = MEMORY_LIMIT,
) -> Relations:
    """Units from the quadratic relations of noiseless samples with at least `width` outputs. About five passes.

    `slope` is that of the activation below zero. Refuses outputs that vary in fewer directions than units, fewer samples than
    columns, relations that belong to no unit (units that are always on or off), and data without any (noise).
    """
    reduce = _white_outputs(source, width)
    form = _Form(reduce, biases, slope != 0.0)
    columns = form.columns(source.dim)
    check_memory(4 * columns**2, f"The relations of {width} units in dimension {source.dim}", "Use RandomStart().", memory)
    if source.size < columns - width:
        raise TooFewSamples(
            f"{source.size:,} samples for {columns:,} products of outputs and inputs.",
            "With fewer samples than products every network has relations that mean nothing.",
            f"Give at least {int(np.ceil(1.3 * columns)):,} samples.", samples=source.size, columns=columns)
    gram, means = (part / source.size for part in source.sum(_Gram(form), stage="relations"))
    values, vectors = np.linalg.eigh(gram)
    size = _null_size(values, width)
    null = _corrected(source, form, values, vectors, size)
    residual = np.linalg.eigvalsh(null.T @ _applied(source, form, null))[-1]
    gap = float(np.sqrt(values[size] / max(residual, np.finfo(float).tiny)))
    return _read(form, null, means, dim=source.dim, gap=gap, slope=slope, decompose=decompose, rng=rng)


@dataclass(frozen=True, eq=False)
class _Form:
    """The products that enter: y @ reduce (k outputs), x or [x, 1], squares of inputs or not."""

    reduce: Array
    biases: bool
    squares: bool

    def columns(self, dim: int) -> int:
        k, d = self.reduce.shape[1], dim + self.biases
        return int(k * (k + 1) // 2 + k * d + self.squares * d * (d + 1) // 2)

    def parts(self, x: Array, y: Array) -> tuple[Array, Array]:
        return y @ self.reduce, np.column_stack([x, np.ones(len(x))]) if self.biases else x

    def __call__(self, x: Array, y: Array) -> Array:
        """F, a row for each sample."""
        outputs, inputs = self.parts(x, y)
        both = [svec_squares(outputs), (outputs[:, :, None] * inputs[:, None]).reshape(len(x), -1)]
        return np.hstack([*both, svec_squares(inputs)] if self.squares else both)


@dataclass(frozen=True, eq=False)
class _Gram:
    """Statistic: FᵀF, and the sums of outputs and inputs."""

    form: _Form

    @property
    def row_floats(self) -> int:
        return 3 * self.form.columns(len(self.form.reduce))

    def __call__(self, x: Array, y: Array) -> Sums:
        F = self.form(x, y)
        return F.T @ F, np.concatenate([part.sum(axis=0) for part in self.form.parts(x, y)])


def _applied(source: Source, form: _Form, null: Array) -> Array:
    """FᵀF N over the number of samples, with F N formed first: small where N annihilates."""
    def statistic(x: Array, y: Array) -> Sums:
        F = form(x, y)
        return (F.T @ (F @ null),)

    (total,) = source.sum(statistic, stage="relations")
    image: Array = total / source.size
    return image


def _corrected(source: Source, form: _Form, values: Array, vectors: Array, size: int) -> Array:
    """The null space (columns, size), each pass shrinking its error by the rounding of the Gram matrix over its gap."""
    null, rest = vectors[:, :size], vectors[:, size:]
    for _ in range(CORRECTIONS):
        change = rest @ ((rest.T @ _applied(source, form, null)) / values[size:, None])
        null = np.linalg.qr(null - change)[0]
        if np.abs(change).max() < 1e-15:
            break
    return null


def _read(
    form: _Form, null: Array, means: Array, *, dim: int, gap: float, slope: float, decompose: Decomposer, rng: Generator
) -> Relations:
    """Units from the null space: its rank-one elements z [zᵀ, -(1+a)vᵀ], then signs."""
    k, d = form.reduce.shape[1], dim + form.biases
    K = k * (k + 1) // 2
    squares, cross = smat(null[:K].T), null[K : K + k * d].T.reshape(-1, k, d)
    pairs = np.concatenate([squares, cross], axis=2)
    if len(pairs) == k:
        z = decompose(squares, k, rng=rng).directions
        wanted = (z[:, :, None] * z[:, None]).reshape(k, -1)
        mix = np.linalg.lstsq(squares.reshape(k, -1).T, wanted.T, rcond=None)[0].T
    else:
        mix = rank_one_elements(pairs, k, decompose, rng=rng)
    left, _, right = np.linalg.svd(np.einsum("is,sab->iab", mix, pairs))
    z, along = left[:, :, 0], right[:, 0] * np.sign(np.sum(left[:, :, 0] * right[:, 0, :k], axis=1))[:, None]
    rows = -along[:, k:] / ((1 + slope) * np.linalg.norm(along[:, :k], axis=1)[:, None])
    bend = (1 - slope) * (z @ means[:k] - 0.5 * (1 + slope) * rows @ means[k:])
    sign = np.where(bend < 0.0, -1.0, 1.0)[:, None]
    rows = sign * rows
    return Relations(sign * z @ form.reduce.T, rows[:, :dim], rows[:, dim] if form.biases else np.zeros(k), gap)


def _white_outputs(source: Source, width: int) -> Array:
    """(m, k): the k leading directions of the outputs, scaled to mean square 1."""
    (power,) = source.sum(lambda x, y: (y.T @ y,), stage="outputs")
    scale = np.sqrt(np.maximum(np.diag(power), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(power / np.outer(scale, scale))
    if source.outputs < width or values[-width] <= GRAM * values[-1]:
        seen = int(np.sum(values > GRAM * values[-1]))
        raise Unidentifiable(
            f"The {source.outputs} outputs span {seen} directions and {width} units were asked for.",
            "Every unit needs a combination of outputs that shows it alone.",
            f"Ask for at most {seen} units, or use RandomStart(), which needs no such combination.", width=width, directions=seen)
    reduce: Array = vectors[:, -width:] / np.sqrt(values[-width:] / source.size) / scale[:, None]
    return reduce


def _null_size(values: Array, width: int) -> int:
    """Dimension of the null space: at least the width, more if more relations hold to rounding; refuses if there is none."""
    zeros = int(np.sum(values <= GRAM * values[-1]))
    if zeros >= width:
        return zeros
    blur = float(np.sqrt(max(values[width - 1], 0.0) / values[width]))
    if blur > BLURRED:
        raise AssumptionViolated(
            f"No {width} quadratic relations hold: the last of them is {blur:.2g} of what the next product has.",
            "The samples have noise, biases that were not asked for, another activation, or another number of units.",
            "Use SymmetricInputs() or RandomStart(), which fit noise; or ask for biases, or another width.", blur=blur)
    return width
