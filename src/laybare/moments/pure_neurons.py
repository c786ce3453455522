"""The pure-neuron detector: a linear map on symmetric matrices whose null space is spanned by zᵢzᵢᵀ, zᵢ the rows of A⁺.

Model y = A act(Wx) + noise, x ~ -x, act(t) = t for t > 0 and a·t for t ≤ 0 (a is the `slope` below zero; ReLU has 0), A of full
column rank. Let L = AW. For a symmetric matrix U of the size of y,

    r_U(x, y) = -(y - Lx)ᵀ U (y - aLx)        f(U) = Cov(r_U, φ(x)),   φ(x) = svec(zzᵀ), z = x or its row-space coordinates.

Without noise r_U(x) = (1-a)² Σ_{i<j} (AᵀUA)_ij (wᵢ·x)(wⱼ·x) 1{signs differ} at every point, so r_U = 0 for U = zᵢzᵢᵀ: given L,
every finite sample has the exact null space. Noise that is independent of x adds a constant to r_U, which centring removes.
Symmetry of x is used for one thing only: L = 2/(1+a) E[yxᵀ] E[xxᵀ]⁻¹.

T is the matrix of f in svec coordinates, (q(q+1)/2, m(m+1)/2) for q coordinates and m outputs. It fails where the inputs do not
tell the pairs (i, j) apart (the smallest singular value of the distinguishing matrix), and for a = -1, where L is not seen.
Error O(n^-½), all of it from L if there is no noise; time n·m²q²/2; memory T and a block.
Source: Ge, Kuditipudi, Li & Wang (2019), Lemmas 1 to 4, 6, 7, 9 and 10, Corollary 1, Algorithms 2 and 3; the centred form is
ours, equal in the population.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from laybare.errors import InvalidInput, Unidentifiable
from laybare.moments.measurement import measure
from laybare.moments.memory import MEMORY_LIMIT, check_memory
from laybare.moments.regression import least_squares
from laybare.moments.symmetric import svec_products, svec_squares
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

Even = Callable[[Array], Array]
"""Features φ(x) = φ(-x) of the inputs, (n, d) -> (n, p)."""


@dataclass(frozen=True, eq=False)
class PureNeuronDetector:
    """Moment: T for a given `product` L = AW (m, d); `rows` (q, d) gives the coordinates z = rows·x, None means z = x.

    Not `centred`, f(U) is E[r_U φ(x)], as in Algorithm 2 of the paper: right without noise, biased with it.
    """

    product: Array
    slope: float = 0.0
    rows: Array | None = None
    centred: bool = True

    @property
    def row_floats(self) -> int:
        m, q = len(self.product), self.product.shape[1] if self.rows is None else len(self.rows)
        return 3 * (m * (m + 1) + q * (q + 1)) // 2

    def __call__(self, x: Array, y: Array) -> Sums:
        fitted = x @ self.product.T
        r = svec_products(fitted - y, y - self.slope * fitted)
        phi = svec_squares(x if self.rows is None else x @ self.rows.T)
        return phi.T @ r, phi.sum(axis=0), r.sum(axis=0)

    def read(self, sums: Sums, size: int) -> Array:
        raw, phi, r = (part / size for part in sums)
        T: Array = raw - np.outer(phi, r) if self.centred else raw
        return T


def detector(
    source: Source, product: Array, *, slope: float = 0.0, rows: Array | None = None, memory: int = MEMORY_LIMIT
) -> Array:
    """The second of two passes: T from the data and L (`linear_product`), with row-space coordinates if `rows` is given."""
    _check_size(source.outputs, source.dim if rows is None else len(rows), memory)
    return measure(source, PureNeuronDetector(product, slope, rows), stage="detector")


class OddPart(NamedTuple):
    """`product` L = AW (m, d), and `residual` (m, m), E[eeᵀ] of what x and the even features leave of y."""

    product: Array
    residual: Array


def constant(x: Array) -> Array:
    """The even feature 1."""
    return np.ones((len(x), 1))


def linear_product(source: Source, *, slope: float = 0.0, even: Even = constant) -> OddPart:
    """The first pass: L from least squares of y on x and even features of x. Refused below 1.5 samples per feature.

    Even features are orthogonal to x under a symmetric law, so they change no expectation; they take away the even part of y,
    which is the noise of L. At low noise svec(zzᵀ) in row-space coordinates (`even_quadratic`) makes the error of A 20 times
    smaller; |Ŵx| of an estimate Ŵ (`even_absolute`), iterated, takes it to rounding.
    """
    _check_slope(slope)
    fit = least_squares(source, _OddEven(even))
    return OddPart(2 / (1 + slope) * fit.coefficients[: source.dim].T, fit.residual)


def even_quadratic(rows: Array) -> Even:
    """The even features 1 and svec(zzᵀ), z = rows·x: 1 + q(q+1)/2 of them."""
    return lambda x: np.concatenate([constant(x), svec_squares(x @ rows.T)], axis=1)


def even_absolute(weights: Array) -> Even:
    """The even features 1 and |w·x| for every row w: 1 + k of them."""
    return lambda x: np.concatenate([constant(x), np.abs(x @ weights.T)], axis=1)


@dataclass(frozen=True, eq=False)
class _OddEven:
    even: Even

    def __call__(self, x: Array) -> Array:
        return np.concatenate([x, self.even(x)], axis=1)


def _check_size(outputs: int, coordinates: int, memory: int) -> None:
    check_memory(
        4 * (outputs * (outputs + 1) // 2) * (coordinates * (coordinates + 1) // 2),
        f"The detector of {outputs} outputs in {coordinates} coordinates",
        "Reduce x to the row space of L (`rows`) and y to its leading directions.", memory)


def _check_slope(slope: float) -> None:
    if not np.isfinite(slope):
        raise InvalidInput(f"The slope is {slope}.", "It is a number.", "Give 0 for ReLU.", slope=slope)
    if abs(1 + slope) < 1e-6:
        raise Unidentifiable(
            f"The slope below zero is {slope}: the activation is even.", "Its outputs have no odd part to show AW.",
            "Use a method for even activations.", slope=slope)
