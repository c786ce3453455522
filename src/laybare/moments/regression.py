"""Polynomial regression, and moments with its fit as a control variate.

Least squares on any features of x in one pass, sources of residuals, and least-squares Hermite polynomials.

Regression. The Gram matrix is a sum. Normal equations in a nearly orthonormal basis (Hermite polynomials, whitened inputs) lose
no accuracy that matters: the relative error is about 1e-16 times the condition number, which is that of a sample covariance. An
SVD of all n rows would take 20 times the time and all the memory.

Hermite fits. The c_α that minimise E(y - Σ_{|α| ≤ K} c_α h_α(x))² are E[y h_α], the packed moments, for x ~ N(0, I). From samples
they are a far better estimate than the average of y h_α: what other coefficients explain does not enter their noise. The Gram
matrix of all monomials of degree ≤ K holds moments of order ≤ 2K, each many times: in 10 dimensions at K = 4 a million entries
from 43,758 moments. One pass of `monomial_sums` with y = 1 gives it, with C(d+2K, 2K) multiply-adds per row instead of C(d+K,
K)². In many dimensions conjugate gradients on the normal equations are cheaper still: for Gaussian x the Gram matrix is close to
the identity, and 12 to 31 passes converge (at 40 to 4 samples per coefficient).

Control variates: subtract a function with known moments, take moments of the rest, add the known moments back.

E[y h_α] = E[(y - g) h_α] + E[g h_α], and the noise is that of y - g alone. A least-squares constant + linear + quadratic g cuts
the error of orders 3 and more by 3 to 25, because those degrees carry nearly all of E y²: for ReLU without bias 0.5, of which
0.0908 is left after degree 1 and 0.0113 after degree 2. But h_α weighs the tails, where a quadratic grows faster than a network.
Hidden units |u·x ± b| in fixed directions, fitted with the polynomial, correct that: the error falls by another quarter to third
at d = 8. A fitted network takes most of the rest; it must be fitted on other samples, or the error is understated.

The fit takes part of what is orthogonal to it: signals of order k > 2 come out too small, by the factor 1 - R/n with

    R = E[h_k(x₁)² Σ_β h_β(x)²] = 1 + d/2 + (6k² + 6k + 3 + 2(d-1)(2k+1) + d² - 1)/2        for a quadratic fit,

1.6 % at d = 8, k = 4, n = 10,000. This is far below the noise. Dividing by n - p, or leave-one-out residuals, are unbiased but
gave larger errors in all four settings tried. Degrees above 2 gain a tenth on order 6 at d = 8 and lose about as much at d = 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from laybare.activations import absolute
from laybare.errors import TooFewSamples
from laybare.moments.hermite_moments import (
    HermiteMoments,
    check_packed,
    evaluate_polynomial,
    hermite_features,
    hermite_from_monomials,
    monomial_sums,
    monomials_from_hermite,
    population_moments,
)
from laybare.moments.measurement import MEMORY_LIMIT, Measurement, check_memory, check_order, measure, measure_with_noise
from laybare.moments.packed import PackedMoments, count_monomials_up_to, product_places
from laybare.networks import Layer, Network
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
        return np.asarray(self.features(x) @ self.coefficients)

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


def check_samples(size: int, features: int) -> None:
    """Refuse a fit with too few samples per feature."""
    ratio = REGRESSION.samples_per_feature
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
    return np.asarray(np.square(rows).sum(axis=1, keepdims=True))


Units = Callable[[int], Layer]
"""Hidden units to fit beside the polynomial, for inputs of a given dimension."""


@dataclass(frozen=True, kw_only=True)
class ControlOptions:
    """The units beside the polynomial, and when they are fitted."""

    pair_offset: float = 0.6  # |b| of the units |u·x ± b|. Checked by `python benchmarks/control_variate.py`.
    most_features: int = 600  # polynomial alone above: n·600² operations. Checked by `pytest tests/moments/test_control.py`.
    samples_per_feature: int = 8  # polynomial alone below. Checked by `pytest tests/moments/test_control.py`.


CONTROL = ControlOptions()


def pair_units(dim: int) -> Layer:
    """|u·x ± 0.6| for all u = eᵢ and (eᵢ ± eⱼ)/√2: 2·dim² units, whose quadratic parts span all quadratics."""
    axes = np.eye(dim)
    i, j = np.triu_indices(dim, 1)
    directions = np.concatenate([axes, (axes[i] + axes[j]) / np.sqrt(2), (axes[i] - axes[j]) / np.sqrt(2)])
    offsets = np.repeat([CONTROL.pair_offset, -CONTROL.pair_offset], len(directions))
    return Layer(np.concatenate([directions, directions]), offsets, absolute)


@dataclass(frozen=True, eq=False)
class Control:
    """A fitted function whose moments are known: a polynomial, and hidden units with fitted readout or none."""

    polynomial: HermiteFit
    network: Network | None = None

    def __call__(self, x: Array) -> Array:
        """Its values, (n, outputs)."""
        values = self.polynomial(x)
        return values if self.network is None else values + self.network(x).reshape(values.shape)

    def moments(self, order: int) -> PackedMoments:
        """Its Hermite moments of orders 0, …, `order`, exact for x ~ N(0, I): what to add to those of the residual."""
        exact = self.polynomial.moments.up_to(order)
        return exact if self.network is None else exact + population_moments(self.network, order)


def fit_control(source: Source, degree: int = 2, *, units: Units | None = pair_units, memory: int = MEMORY_LIMIT) -> Control:
    """Least squares by a polynomial of degree at most `degree` (two samples per coefficient) and, if affordable, `units`.

    `Residual(source, control)` is a source of what it leaves, for other moments than packed ones.
    """
    degree = affordable_degree(source.size, source.dim, degree)
    layer = None if units is None else units(source.dim)
    width = 0 if layer is None else layer.width
    features = count_monomials_up_to(source.dim, degree) + width
    if layer is None or features > CONTROL.most_features or source.size < CONTROL.samples_per_feature * features:
        return Control(fit_hermite(source, degree, memory=memory))
    fit = least_squares(source, _PolynomialAndUnits(degree, layer)).coefficients
    moments = PackedMoments(source.dim, degree, fit[:-width].T)
    return Control(HermiteFit(moments), Network(layer, fit[-width:]))


def controlled_moments(
    source: Source, order: int, *, degree: int = 2, units: Units | None = pair_units, network: Network | None = None,
    memory: int = MEMORY_LIMIT,
) -> Measurement[PackedMoments]:
    """Hermite moments of orders 0, …, `order` with their split-half noise, for inputs that are N(0, I).

    Subtracted first: `network` if given, then `fit_control` of the rest. Two passes (about 20 more for d > 43).
    """
    check_packed(source.dim, order, 2 * source.outputs, memory)  # the two halves give the noise
    rest = source if network is None else Residual(source, network)
    control = fit_control(rest, min(degree, order), units=units, memory=memory)
    measured = measure_with_noise(Residual(rest, control), HermiteMoments(order), stage=f"moments of order {order}")
    added = control.moments(order)
    if network is not None:
        added = added + population_moments(network, order, memory=memory)
    return Measurement(measured.value + added, measured.noise)


@dataclass(frozen=True, eq=False)
class _PolynomialAndUnits:
    degree: int
    layer: Layer

    def __call__(self, x: Array) -> Array:
        return np.concatenate([hermite_features(x, self.degree).T, self.layer(x)], axis=1)
