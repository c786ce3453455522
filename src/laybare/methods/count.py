"""How many hidden units do the moments show? Eigenvalues of a second moment against their own noise.

Inside a span V that is wide enough, a polynomial fit explains most of y; what it leaves, e, is small. V C Vᵀ + M₂(e), with C the
fitted quadratic coefficients, therefore estimates M₂ far better than the average does, and the half-difference of M₂(e) over two
halves of the samples is its noise. One eigenvalue a unit stands out. M₃(I, I, a), a in V, takes the place of M₂ for activations
that are odd up to a constant. The count needs independent weight vectors, and units strong enough to be seen.
Source: the printed method is told the width; counting is ours.
"""

from __future__ import annotations

import numpy as np

from laybare.activations import Activation
from laybare.decomposition import RankEstimate, detect_rank
from laybare.moments import (
    Residual,
    SecondMoment,
    ThirdSlices,
    affordable_degree,
    fit_hermite,
    measure_with_noise,
    refine_subspace,
)
from laybare.shapes import Array
from laybare.source import Source

FIRST_GUESS = 8
"""Width of the first span; it doubles until noise directions show in it."""


def count_units(source: Source, activation: Activation, second: int) -> RankEstimate:
    """The number of units that the moment of order `second` (2 or 3) shows, exact or as a lower bound; `source` is white."""
    width = min(FIRST_GUESS, source.dim)
    while True:
        estimate = detect_rank(*_spectrum(source, activation, second, width))
        if estimate.at_least < width or width == source.dim:
            return estimate
        width = min(2 * width, source.dim)


def _spectrum(source: Source, activation: Activation, second: int, width: int) -> tuple[Array, Array]:
    """Singular values of the moment in all dimensions, and of its noise."""
    basis = refine_subspace(source, width, activation, order=2).basis
    fit = fit_hermite(source, affordable_degree(source.size, width, 3, samples_a_coefficient=4.0), basis)
    explained = fit.moments.up_to(max(second, fit.moments.order)).tensor(second).reshape(-1, width, width)
    moment = SecondMoment() if second == 2 else ThirdSlices(basis.T)
    rest = measure_with_noise(Residual(source, fit), moment, stage="width")
    shape = (-1, source.dim, source.dim)
    return _singular(basis @ explained @ basis.T + rest.value.reshape(shape)), _singular(rest.noise.reshape(shape))


def _singular(matrices: Array) -> Array:
    values: Array = np.linalg.svd(np.concatenate(list(matrices), axis=1), compute_uv=False)
    return values
