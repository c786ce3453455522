"""Control variates: subtract a function with known moments, take moments of the rest, add the known moments back.

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
from laybare.moments.hermite_moments import HermiteMoments, check_packed, hermite_features, population_moments
from laybare.moments.measurement import MEMORY_LIMIT, Measurement, measure_with_noise
from laybare.moments.packed import PackedMoments, count_monomials_up_to
from laybare.moments.regression import HermiteFit, Residual, affordable_degree, fit_hermite, least_squares
from laybare.networks import Layer, Network
from laybare.numerics.shapes import Array
from laybare.source.protocol import Source

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
