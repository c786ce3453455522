"""The annihilator: quadratic relations between outputs and inputs that every noiseless sample of a ReLU network obeys.

For y = A act(Wx + b) with independent columns of A, slope a below zero, zᵢ the rows of A⁺, vᵢ the weights and x̃ = [x, 1],

    (zᵢ·y - vᵢ·x̃)(zᵢ·y - a vᵢ·x̃) = 0          at every x, whatever the law of x,

which is linear in (zzᵀ, -(1+a) z vᵀ, a vvᵀ). So the matrix with one row [svec(yyᵀ), vec(yx̃ᵀ), svec(x̃x̃ᵀ)] per sample (the last
part only if a ≠ 0) has a null space that contains k such vectors. Their parts [zzᵀ, -(1+a) z vᵀ] are matrices of rank one.
Neither symmetry nor width ≤ dim is needed; only noiseless outputs, at least as many as units.

If the null space has dimension k, the parts zzᵀ are found by joint diagonalisation. It is larger if some unit is never off while
another one is on: then (zᵢ·y - vᵢ·x̃)(zⱼ·y) = 0 as well, for a = 0. Such relations have rank two, and the units are the rank-one
elements of the null space. A matrix has rank one if and only if all its 2×2 minors vanish. Those of M = Σ cₐMₐ are Σ cₐc_b
Φ(Mₐ, M_b) with a bilinear Φ, linear in ccᵀ. If Φ vanishes on nothing but the span of the ccᵀ of the rank-one matrices, as it does
in general position, joint diagonalisation of its null space separates them.

The null space comes from the Gram matrix, which is a sum, and is then corrected by passes that form F(FN) from the samples: that
recovers the digits that squaring lost. Time n·p² for p = k(k+1)/2 + k·dim columns; memory p².
Source: ours, for the model of Ge, Kuditipudi, Li and Wang (2019). Rank-one elements: De Lathauwer, Castaing and Cardoso (2007),
FOOBI, IEEE Trans. Signal Processing 55(6), in the form for matrices that need not be symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.decomposition.components import Decomposer
from laybare.decomposition.joint import JointDiagonalisation
from laybare.errors import AssumptionViolated, NotSeparated, TooFewSamples, Unidentifiable
from laybare.moments.measurement import check_memory
from laybare.moments.packed import smat, svec_squares, triangle
from laybare.numerics.levels import GRAM
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Source


@dataclass(frozen=True, kw_only=True)
class RelationOptions:
    """When there is a null space, and how it is sharpened and taken apart."""

    max_null_ratio: float = 0.5  # largest singular value inside over smallest outside. Checked by `pytest tests/decomposition`.
    max_corrections: int = 3  # passes that sharpen it. Checked by `pytest tests/decomposition/test_annihilator.py`.
    minor_tol: float = 1e4 * GRAM  # relative singular value of the minors: zero. Checked by `pytest tests/decomposition`.
    most_minor_floats: int = 20_000_000  # in the map of minors. Derived: 160 MB.


OPTIONS = RelationOptions()


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
    decompose: Decomposer = JointDiagonalisation(polish=False),
) -> Relations:
    """Units from the quadratic relations of noiseless samples with at least `width` outputs. About five passes.

    `slope` is that of the activation below zero. Refuses outputs that vary in fewer directions than units, fewer samples than
    columns, relations that belong to no unit (units that are always on or off), and data without any (noise).
    """
    reduce = _white_outputs(source, width)
    form = _ProductForm(reduce, biases, slope)
    columns = form.columns(source.dim)
    check_memory(4 * columns**2, f"The relations of {width} units in dimension {source.dim}", "Use RandomStart().")
    if source.size < columns - width:
        raise TooFewSamples(
            f"{source.size:,} samples for {columns:,} products of outputs and inputs.",
            "With fewer samples than products every network has relations that mean nothing.",
            f"Give at least {int(np.ceil(1.3 * columns)):,} samples.", samples=source.size, columns=columns)
    gram, means = (part / source.size for part in source.sum(_ProductSums(form), stage="relations"))
    values, vectors = np.linalg.eigh(gram)
    size = _null_dimension(values, width)
    null = _correct_null_space(source, form, values, vectors, size)
    residual = np.linalg.eigvalsh(null.T @ _gram_product(source, form, null))[-1]
    gap = float(np.sqrt(values[size] / max(residual, np.finfo(float).tiny)))
    return _read_units(form, null, means, gap=gap, decompose=decompose, rng=rng)


@dataclass(frozen=True, eq=False)
class _ProductForm:
    """The products that enter: y @ reduce (k outputs), x or [x, 1], and squares of inputs if the slope below zero is not 0."""

    reduce: Array
    biases: bool
    slope: float

    @property
    def squares(self) -> bool:
        return self.slope != 0.0

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
class _ProductSums:
    """Statistic: FᵀF, and the sums of outputs and inputs."""

    form: _ProductForm

    @property
    def row_floats(self) -> int:
        return 3 * self.form.columns(len(self.form.reduce))

    def __call__(self, x: Array, y: Array) -> Sums:
        F = self.form(x, y)
        return F.T @ F, np.concatenate([part.sum(axis=0) for part in self.form.parts(x, y)])


def _gram_product(source: Source, form: _ProductForm, null: Array) -> Array:
    """FᵀF N over the number of samples, with F N formed first: small where N annihilates."""
    def statistic(x: Array, y: Array) -> Sums:
        F = form(x, y)
        return (F.T @ (F @ null),)

    (total,) = source.sum(statistic, stage="relations")
    return np.asarray(total / source.size)


def _correct_null_space(source: Source, form: _ProductForm, values: Array, vectors: Array, size: int) -> Array:
    """The null space (columns, size), each pass shrinking its error by the rounding of the Gram matrix over its gap."""
    null, rest = vectors[:, :size], vectors[:, size:]
    for _ in range(OPTIONS.max_corrections):
        change = rest @ ((rest.T @ _gram_product(source, form, null)) / values[size:, None])
        null = np.linalg.qr(null - change)[0]
        if np.abs(change).max() < 1e-15:
            break
    return null


def _read_units(
    form: _ProductForm, null: Array, means: Array, *, gap: float, decompose: Decomposer, rng: Generator
) -> Relations:
    """Units from the null space: its rank-one elements z [zᵀ, -(1+a)vᵀ], then signs."""
    k, slope = form.reduce.shape[1], form.slope
    d, K = len(means) - k, k * (k + 1) // 2
    dim = d - form.biases
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
    return np.asarray(vectors[:, -width:] / np.sqrt(values[-width:] / source.size) / scale[:, None])


def _null_dimension(values: Array, width: int) -> int:
    """Dimension of the null space: at least the width, more if more relations hold to rounding; refuses if there is none."""
    zeros = int(np.sum(values <= GRAM * values[-1]))
    if zeros >= width:
        return zeros
    blur = float(np.sqrt(max(values[width - 1], 0.0) / values[width]))
    if blur > OPTIONS.max_null_ratio:
        raise AssumptionViolated(
            f"No {width} quadratic relations hold: the last of them is {blur:.2g} of what the next product has.",
            "The samples have noise, biases that were not asked for, another activation, or another number of units.",
            "Use SymmetricInputs() or RandomStart(), which fit noise; or ask for biases, or another width.", blur=blur)
    return width


def rank_one_elements(basis: Array, rank: int, decompose: Decomposer, *, rng: Generator) -> Array:
    """Coefficients (rank, s), unit rows c, of the rank-one matrices Σ cₐ basisₐ in the span of `basis` (s, p, q).

    Refuses spaces that are too large, and those in which the minors leave more room than `rank` matrices have.
    """
    minors = minor_map(basis)
    _, values, right = np.linalg.svd(minors, full_matrices=len(minors) < minors.shape[1])
    zeros = minors.shape[1] - int(np.sum(values > OPTIONS.minor_tol * values[0]))
    if zeros != rank:
        raise NotSeparated(
            f"Among {len(basis)} independent relations {zeros} could belong to a single unit, and there are {rank} units.",
            "Units that are always on, or always off, or share a kink leave relations that belong to no unit.",
            "Give more samples, or inputs that cross every kink; if the width is wrong, give the right one.",
            relations=len(basis), found=zeros, rank=rank)
    return decompose(smat(right[-rank:]), rank, rng=rng).directions


def minor_map(basis: Array) -> Array:
    """Φ in svec coordinates: (minors, s(s+1)/2), with Φ svec(ccᵀ) the 2×2 minors of Σ cₐ basisₐ."""
    s, p, q = basis.shape
    (i, k), (j, l) = np.triu_indices(p, 1), np.triu_indices(q, 1)
    if len(i) * len(j) * s * (s + 1) // 2 > OPTIONS.most_minor_floats:
        raise NotSeparated(
            f"{s} independent relations hold for all samples of {p} units.",
            "Which of them belong to units is too much to compute.",
            "Give more samples, so that only one relation per unit is left.", relations=s, rank=p)
    a, b, scale = triangle(s)
    first = basis[:, i][:, :, j], basis[:, k][:, :, l]
    second = basis[:, i][:, :, l], basis[:, k][:, :, j]
    product = sum(
        sign * 0.5 * (left[a] * right[b] + left[b] * right[a])
        for sign, (left, right) in ((1.0, first), (-1.0, second)))
    return np.asarray((np.asarray(product).reshape(len(a), -1) * scale[:, None]).T)
