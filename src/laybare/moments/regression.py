"""Least squares on any features of x in one pass, sources of residuals, and least-squares Hermite polynomials.

Regression. The Gram matrix is a sum. Normal equations in a nearly orthonormal basis (Hermite polynomials, whitened inputs) lose
no accuracy that matters: the relative error is about 1e-16 times the condition number, which is that of a sample covariance. An
SVD of all n rows would take 20 times the time and all the memory.

Hermite fits. The c_α that minimise E(y - Σ_{|α| ≤ K} c_α h_α(x))² are E[y h_α], the packed moments, for x ~ N(0, I). From samples
they are a far better estimate than the average of y h_α: what other coefficients explain does not enter their noise. The Gram
matrix of all monomials of degree ≤ K holds moments of order ≤ 2K, each many times: in 10 dimensions at K = 4 a million entries
from 43,758 moments. One pass of `monomial_sums` with y = 1 gives it, with C(d+2K, 2K) multiply-adds per row instead of C(d+K,
K)². In many dimensions conjugate gradients on the normal equations are cheaper still: for Gaussian x the Gram matrix is close to
the identity, and 12 to 31 passes converge (at 40 to 4 samples per coefficient).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.errors import TooFewSamples
from laybare.moments.hermite_moments import HermiteMoments, hermite_from_monomials, monomials_from_hermite
from laybare.moments.measurement import MEMORY_LIMIT, check_memory, check_order, measure
from laybare.moments.monomials import evaluate_polynomial, monomial_sums
from laybare.moments.packed import PackedMoments, count_monomials_up_to, product_places
from laybare.numerics.linear_algebra import inner, solve_spd
from laybare.numerics.shapes import Array, Sums
from laybare.source.protocol import Rows, Source
from laybare.source.views import DerivedSource


@dataclass(frozen=True, kw_only=True)
class RegressionOptions:
    """When a fit is refused, how it is solved, and how residuals are formed."""

    samples_per_feature: float = 1.5  # fewer are refused: noise is fitted. Checked by `pytest tests/moments/test_control.py`.
    direct_features: int = 1000
    """Quadratic fits with more features take conjugate gradients: 20 passes of n·d² against one of n·d⁴/12 and a solve of d⁶/24.
    Checked by `pytest tests/moments/test_control.py`."""
    cg_tol: float = 1e-8  # relative residual of conjugate gradients. Checked by `pytest tests/moments/test_control.py`.
    cg_max_steps: int = 100  # three times the 31 passes above. Checked by `pytest tests/moments/test_control.py`.
    residual_rows: int = 4096  # rows per call of a model: bounds memory. Checked by `pytest tests/moments/test_control.py`.


REGRESSION = RegressionOptions()


@dataclass(frozen=True, eq=False)
class Regression:
    """y ≈ features(x) @ coefficients: `coefficients` (p, outputs), `residual` (outputs, outputs) = E[eeᵀ], `power` = E[yyᵀ]."""

    features: Callable[[Array], Array]
    coefficients: Array
    residual: Array
    power: Array

    def __call__(self, x: Array) -> Array:
        """Fitted outputs, (n, outputs)."""
        fitted: Array = self.features(x) @ self.coefficients
        return fitted

    @property
    def unexplained(self) -> float:
        """Share of E|y|² that is left."""
        return float(np.trace(self.residual) / max(np.trace(self.power), np.finfo(float).tiny))


def least_squares(source: Source, features: Callable[[Array], Array]) -> Regression:
    """Least squares of y on features, a function x (n, d) -> (n, p). Refused below 1.5 samples per feature."""
    count = features(np.zeros((1, source.dim))).shape[1]
    check_samples(source.size, count)
    gram, right, power = (part / source.size for part in source.sum(_RegressionSums(features, count), stage="least squares"))
    coefficients = solve_spd(gram, right)
    explained = coefficients.T @ right
    residual = power - explained - explained.T + coefficients.T @ gram @ coefficients
    return Regression(features, coefficients, residual, power)


def check_samples(size: int, features: int, ratio: float = REGRESSION.samples_per_feature) -> None:
    """Refuse a fit with fewer than `ratio` samples per feature."""
    if size < ratio * features:
        raise TooFewSamples(
            f"{size} samples for a least-squares fit with {features} features.",
            f"Below {ratio:g} samples per feature the fit follows the noise, and its residual is no longer the data's.",
            f"Give at least {int(np.ceil(ratio * features))} samples, or fit a lower degree.", size=size, features=features)


@dataclass(frozen=True, eq=False)
class _RegressionSums:
    """Statistic: FᵀF, FᵀY, YᵀY."""

    features: Callable[[Array], Array]
    count: int

    @property
    def row_floats(self) -> int:
        return 2 * self.count

    def __call__(self, x: Array, y: Array) -> Sums:
        F = self.features(x)
        return inner(F, F), inner(F, y), inner(y, y)


@dataclass(frozen=True, eq=False)
class Residual(DerivedSource):
    """`origin` with y - model(x) in place of y; `model` maps x (n, d) to (n, outputs), or to (n,) for one output.

    Nothing is stored: the model is evaluated on a few thousand rows at a time as they are read.
    """

    model: Callable[[Array], Array]

    def map_rows(self, x: Array, y: Array) -> Rows:
        left = np.empty(y.shape)
        size = REGRESSION.residual_rows
        for at in range(0, len(x), size):
            some = slice(at, at + size)
            np.subtract(y[some], self.model(x[some]).reshape(y[some].shape), out=left[some])
        return Rows(x, left)


@dataclass(frozen=True, eq=False)
class HermiteFit:
    """A fitted polynomial f(x) = Σ c_α h_α(x·basis), or of x itself."""

    moments: PackedMoments
    basis: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Its values, (n, outputs)."""
        fitted = self.moments
        z = x if self.basis is None else x @ self.basis
        return evaluate_polynomial(monomials_from_hermite(fitted.values, fitted.dim, fitted.order), z, fitted.order)


def fit_hermite(source: Source, degree: int, basis: Array | None = None, *, memory: int = MEMORY_LIMIT) -> HermiteFit:
    """The least-squares Hermite polynomial of that degree, in all inputs or, given an orthonormal `basis` (d, k), in x·basis.

    Its `moments` are the OLS moments of orders 0, …, degree. Refused below 1.5 samples per coefficient (`affordable_degree`).
    """
    check_order(degree, 6)
    dim = source.dim if basis is None else basis.shape[1]
    features = count_monomials_up_to(dim, degree)
    check_samples(source.size, features)
    if degree == 2 and features > REGRESSION.direct_features:
        return HermiteFit(_conjugate_gradients(source, degree, basis), basis)
    check_memory(
        3 * features**2 + 8 * count_monomials_up_to(dim, 2 * degree), f"A fit with {features} coefficients",
        "Fit a lower degree, or fit in a subspace.", memory)
    ones, right = source.sum(_HermiteSums(degree, basis), stage=f"fit of degree {degree}")
    gram = _hermite_gram(ones[0] / source.size, dim, degree)
    coefficients = solve_spd(gram, hermite_from_monomials(right / source.size, dim, degree).T).T
    return HermiteFit(PackedMoments(dim, degree, coefficients), basis)


def affordable_degree(size: int, dim: int, most: int, samples_per_coefficient: float = 2.0) -> int:
    """The highest degree up to `most` with that many samples per coefficient; 0 if a linear fit has too few."""
    fine = (k for k in range(most, 0, -1) if size >= samples_per_coefficient * count_monomials_up_to(dim, k))
    return next(fine, 0)


@dataclass(frozen=True, eq=False)
class _HermiteSums:
    """Statistic: Σ x^α for |α| ≤ 2K, and Σ y x^α for |α| ≤ K."""

    degree: int
    basis: Array | None

    def __call__(self, x: Array, y: Array) -> Sums:
        ones = np.ones((len(x), 1))
        return monomial_sums(x, ones, 2 * self.degree, self.basis), monomial_sums(x, y, self.degree, self.basis)


def _hermite_gram(moments: Array, dim: int, degree: int) -> Array:
    """E[h_α h_β] from E[x^γ], |γ| ≤ 2·degree: gather E[x^(α+β)], then pass to Hermite polynomials on both sides."""
    gram = moments[product_places(dim + 1, degree, degree)]
    half = hermite_from_monomials(gram, dim, degree)
    return hermite_from_monomials(half.T, dim, degree)


@dataclass(frozen=True, eq=False)
class _GramProduct:
    """Moment: E[p(x) h_α(x)] for a polynomial p: the Gram matrix times its coefficients, without forming the matrix."""

    polynomial: HermiteFit

    def __call__(self, x: Array, y: Array) -> Sums:
        return self._hermite(x, self.polynomial(x))

    @property
    def _hermite(self) -> HermiteMoments:
        return HermiteMoments(self.polynomial.moments.order, self.polynomial.basis)

    def read(self, sums: Sums, size: int) -> PackedMoments:
        return self._hermite.read(sums, size)


def _conjugate_gradients(source: Source, degree: int, basis: Array | None) -> PackedMoments:
    """Conjugate gradients on the normal equations, all outputs side by side, to the relative residual `cg_tol`.

    The fit is a control variate: an unfinished one is still unbiased, only a little noisier.
    """
    start = measure(source, HermiteMoments(degree, basis), stage="fit")
    found, residual = np.zeros_like(start.values), start.values
    direction, power = residual, _squared_norms(residual)
    enough = REGRESSION.cg_tol**2 * power
    for _ in range(REGRESSION.cg_max_steps):
        if (power <= enough).all():
            break
        polynomial = HermiteFit(PackedMoments(start.dim, degree, direction), basis)
        image = measure(source, _GramProduct(polynomial), stage="fit").values
        step = power / np.maximum((direction * image).sum(axis=1, keepdims=True), np.finfo(float).tiny)
        found, residual = found + step * direction, residual - step * image
        before, power = power, _squared_norms(residual)
        direction = residual + power / np.maximum(before, np.finfo(float).tiny) * direction
    return PackedMoments(start.dim, degree, found)


def _squared_norms(rows: Array) -> Array:
    power: Array = np.square(rows).sum(axis=1, keepdims=True)
    return power
