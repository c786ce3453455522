"""Least-squares Hermite polynomials: c_α minimising E(y - Σ_{|α| ≤ K} c_α h_α(x))², in all coordinates or in a subspace.

For x ~ N(0, I) the solution is c_α = E[y h_α], the packed moments. From samples it is a far better estimate of them than the
average of y h_α: what the other coefficients explain does not enter its noise.

The Gram matrix of all monomials of degree ≤ K holds moments of order ≤ 2K, each many times: in 10 dimensions at K = 4 a million
entries from 43,758 moments. So one pass of `monomial_sums` with y = 1 gives it, C(d+2K, 2K) multiply-adds a row instead of
C(d+K, K)². In many dimensions conjugate gradients on the normal equations are cheaper still; for Gaussian x the Gram matrix is
close to the identity and 12 to 31 passes did (n = 40 to 4 samples per coefficient).
Source: standard least squares; the Gram matrix from packed moments is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.linear_algebra import solve_spd
from laybare.moments.hermite import HermiteMoments, hermite_from_monomials, monomials_from_hermite
from laybare.moments.indices import count_up_to
from laybare.moments.measurement import measure
from laybare.moments.memory import MEMORY_LIMIT, check_memory, check_order
from laybare.moments.packed import PackedMoments, same_monomial
from laybare.moments.polynomial import evaluate
from laybare.moments.products import monomial_sums
from laybare.moments.regression import check_samples
from laybare.shapes import Array, Sums
from laybare.source.protocol import Source

DIRECT_FEATURES = 1000
"""Quadratic fits with more features go by conjugate gradients: 20 passes of n·d² against one of n·d⁴/12 and a solve of d⁶/24."""

TOL = 1e-8
MAX_STEPS = 100


@dataclass(frozen=True, eq=False)
class HermiteFit:
    """A fitted polynomial f(x) = Σ c_α h_α(x·basis), or of x itself."""

    moments: PackedMoments
    basis: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Its values, (n, outputs)."""
        fitted = self.moments
        z = x if self.basis is None else x @ self.basis
        return evaluate(monomials_from_hermite(fitted.values, fitted.dim, fitted.order), z, fitted.order)


def fit_hermite(source: Source, degree: int, basis: Array | None = None, *, memory: int = MEMORY_LIMIT) -> HermiteFit:
    """The least-squares Hermite polynomial of that degree, in all inputs or, given an orthonormal `basis` (d, k), in x·basis.

    Its `moments` are the OLS moments of orders 0, …, degree. Refused below 1.5 samples per coefficient (`affordable_degree`).
    """
    check_order(degree, 6)
    dim = source.dim if basis is None else basis.shape[1]
    features = count_up_to(dim, degree)
    check_samples(source.size, features)
    if degree == 2 and features > DIRECT_FEATURES:
        return HermiteFit(_conjugate_gradients(source, degree, basis), basis)
    check_memory(
        3 * features**2 + 8 * count_up_to(dim, 2 * degree), f"A fit with {features} coefficients",
        "Fit a lower degree, or fit in a subspace.", memory)
    ones, right = source.sum(_HermiteSums(degree, basis), stage=f"fit of degree {degree}")
    gram = _hermite_gram(ones[0] / source.size, dim, degree)
    coefficients = solve_spd(gram, hermite_from_monomials(right / source.size, dim, degree).T).T
    return HermiteFit(PackedMoments(dim, degree, coefficients), basis)


def affordable_degree(size: int, dim: int, most: int, samples_a_coefficient: float = 2.0) -> int:
    """The highest degree up to `most` with at least that many samples per coefficient; 0 if even a linear fit has too few."""
    fine = (k for k in range(most, 0, -1) if size >= samples_a_coefficient * count_up_to(dim, k))
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
    gram = moments[same_monomial(dim + 1, degree, degree)]
    half = hermite_from_monomials(gram, dim, degree)
    return hermite_from_monomials(half.T, dim, degree)


@dataclass(frozen=True, eq=False)
class _Applied:
    """Moment: E[p(x) h_α(x)] for a polynomial p: the Gram matrix times its coefficients, without the matrix."""

    polynomial: HermiteFit

    def __call__(self, x: Array, y: Array) -> Sums:
        return self._hermite(x, self.polynomial(x))

    @property
    def _hermite(self) -> HermiteMoments:
        return HermiteMoments(self.polynomial.moments.order, self.polynomial.basis)

    def read(self, sums: Sums, size: int) -> PackedMoments:
        return self._hermite.read(sums, size)


def _conjugate_gradients(source: Source, degree: int, basis: Array | None) -> PackedMoments:
    """Conjugate gradients on the normal equations, all outputs side by side, to a relative residual of TOL.

    The fit is a control variate: an unfinished one is still unbiased, only a little noisier.
    """
    start = measure(source, HermiteMoments(degree, basis), stage="fit")
    found, residual = np.zeros_like(start.values), start.values
    direction, power = residual, _power(residual)
    enough = TOL**2 * power
    for _ in range(MAX_STEPS):
        if (power <= enough).all():
            break
        polynomial = HermiteFit(PackedMoments(start.dim, degree, direction), basis)
        image = measure(source, _Applied(polynomial), stage="fit").values
        step = power / np.maximum((direction * image).sum(axis=1, keepdims=True), np.finfo(float).tiny)
        found, residual = found + step * direction, residual - step * image
        before, power = power, _power(residual)
        direction = residual + power / np.maximum(before, np.finfo(float).tiny) * direction
    return PackedMoments(start.dim, degree, found)


def _power(rows: Array) -> Array:
    power: Array = np.square(rows).sum(axis=1, keepdims=True)
    return power
