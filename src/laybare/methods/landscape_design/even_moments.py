"""Moments of orders 1, 2 and 4 in the span of the weights, for designed objectives; and what order 2 says about the readouts.

M = E[y He₂(x)]/(√2 σ₂) = Σ aᵢ bᵢbᵢᵀ has one eigenvalue for every unit, of the sign of aᵢ (Sylvester), and the others zero.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.decomposition import margins
from laybare.errors import AssumptionViolated, NotSeparated
from laybare.landscape import Bounds, FourthMoment, TurnedQuartic, coefficient
from laybare.methods.tensor_init.routes import subspace_moments
from laybare.moments import (
    PackedMoments,
    PackedQuartic,
    Residual,
    SecondMoment,
    affordable_degree,
    controlled_moments,
    fit_hermite,
    leading_directions,
    measure_with_noise,
    packed_moments,
    quartic,
    refine_subspace,
)
from laybare.shapes import Array, Sums
from laybare.source import Source

LARGEST_PACKED = 64
"""Dimension up to which the fourth moment is formed (35 MB there): beyond it, that takes longer than a descent without."""


class EvenMoments(NamedTuple):
    """E[yx] (r,), M (r, r) and E[y He₄] in coordinates x·basis, `basis` (dim, r); the spectrum of M in all inputs, its noise."""

    basis: Array
    linear: Array
    gram: Array
    fourth: FourthMoment
    spectrum: Array
    edge: float


def controlled(source: Source, width: int, activation: Activation) -> EvenMoments:
    """After subtracting what a polynomial explains: the noise of order 4 falls tenfold and more. In a sharpened span."""
    scale = 1.0 / (sqrt(2.0) * coefficient(activation, 2))
    if width == source.dim <= LARGEST_PACKED:
        measured = controlled_moments(source, 4)
        return _packed(measured.value, np.eye(width), scale, measured.value.tensor(2)[0], measured.noise.tensor(2)[0])
    basis = np.eye(width) if width == source.dim else refine_subspace(source, width, activation, order=2).basis
    fit = fit_hermite(source, affordable_degree(source.size, width, 2), basis)
    rest = measure_with_noise(Residual(source, fit), SecondMoment(), stage="second moment")
    second = fit.moments.up_to(2).tensor(2)[0]
    whole = basis @ second @ basis.T + rest.value[0]
    if width <= LARGEST_PACKED:
        return _packed(subspace_moments(source, basis, 4), basis, scale, whole, rest.noise[0])
    fourth = TurnedQuartic(quartic(Residual(source, fit)), basis)
    return EvenMoments(basis, fit.moments.of(1)[0], scale * second, fourth, *_spectrum(scale * whole, scale * rest.noise[0]))


def plain(source: Source, width: int, activation: Activation) -> EvenMoments:
    """Averages of y He_k(x) as they are, in the leading eigenspace of M: as printed."""
    scale = 1.0 / (sqrt(2.0) * coefficient(activation, 2))
    measured = measure_with_noise(source, SecondMoment(), stage="second moment")
    whole, noise = measured.value[0], measured.noise[0]
    basis = np.eye(width) if width == source.dim else leading_directions(measured.value, width)
    if width == source.dim <= LARGEST_PACKED:
        return _packed(packed_moments(source, 4), basis, scale, whole, noise)
    (linear,) = source.sum(_linear, stage="first moment")
    fourth = TurnedQuartic(quartic(source), basis)
    gram = scale * basis.T @ whole @ basis
    return EvenMoments(basis, linear / source.size @ basis, gram, fourth, *_spectrum(scale * whole, scale * noise))


def check_positive(seen: EvenMoments, width: int) -> None:
    """Refuse eigenvalues of M that are negative beyond its noise: some unit has a negative readout."""
    limit = -margins(len(seen.spectrum)).firm * seen.edge
    negative = seen.spectrum[seen.spectrum < limit]
    if len(negative):
        raise AssumptionViolated(
            f"The second moment has eigenvalues {', '.join(f'{value:.3g}' for value in negative[:8])} (noise: {limit:.2g}).",
            "Each stands for a unit with a negative readout; the objectives are designed for positive ones, and unbounded there.",
            "Use TensorInit() or RandomStart(), which take readouts of both signs.",
            negative=negative, noise=seen.edge, width=width)


def readout_bounds(seen: EvenMoments, width: int) -> Bounds:
    """λ_min(M) ≤ aᵢ ≤ λ_max(M), of the `width` largest eigenvalues; refused if the least is not above the noise."""
    values = np.sort(seen.spectrum)[::-1][:width]
    if values[-1] <= seen.edge:
        raise NotSeparated(
            f"Eigenvalue {width} of M is {values[-1]:.3g}, its noise {seen.edge:.3g}.",
            "G, F and the polar iteration divide by it: the weights are too close to dependent, or the samples too few.",
            "Use LandscapeDesign() as it is, which does not, a smaller width, or more samples.",
            eigenvalue=float(values[-1]), noise=seen.edge, width=width)
    return Bounds(float(values[-1]), float(values[0]))


def _packed(moments: PackedMoments, basis: Array, scale: float, whole: Array, noise: Array) -> EvenMoments:
    gram = scale * moments.tensor(2)[0]
    return EvenMoments(basis, moments.of(1)[0], gram, PackedQuartic.of(moments), *_spectrum(scale * whole, scale * noise))


def _spectrum(matrix: Array, noise: Array) -> tuple[Array, float]:
    return np.linalg.eigvalsh(matrix), float(np.abs(np.linalg.eigvalsh(noise)).max())


def _linear(x: Array, y: Array) -> Sums:
    return (y[:, 0] @ x,)
