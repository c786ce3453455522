"""How many hidden units do the moments show? Eigenvalues of a second moment against their own noise.

Inside a span V that is wide enough, a polynomial fit explains most of y; what it leaves, e, is small. V C Vᵀ + M₂(e), with C the
fitted quadratic coefficients, therefore estimates M₂ far better than the average does, and the half-difference of M₂(e) over two
halves of the samples is its noise. One eigenvalue per unit stands out. M₃(I, I, a), a in V, takes the place of M₂ for activations
that are odd up to a constant. The count needs independent weight vectors, and units strong enough to be seen.

The signs of the eigenvalues of M₂ count the units of each sign (Sylvester's law of inertia): M₂ = Σᵢ vᵢ c₂(|wᵢ|) w̄ᵢw̄ᵢᵀ with
independent w̄ᵢ has as many positive eigenvalues as there are vᵢ c₂ > 0. So Σ sign vᵢ is known before any tensor is decomposed.
Source: the printed method is given the width; counting is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laybare import moments
from laybare.activations import Activation
from laybare.activations.hermite_coefficients import VANISHING_COEFFICIENT
from laybare.decomposition import RankEstimate, detect_rank
from laybare.errors import NotSeparated, Unidentifiable
from laybare.numerics.shapes import Array
from laybare.source import Source

FIRST_SPAN_WIDTH = 8
"""Width of the first span, which doubles until noise directions show in it. Checked by `pytest tests/assembly`."""


def count_units(source: Source, activation: Activation, second: int) -> RankEstimate:
    """The number of units that the moment of order `second` (2 or 3) shows, exact or as a lower bound; `source` is white."""
    width = min(FIRST_SPAN_WIDTH, source.dim)
    while True:
        estimate = detect_rank(*_spectrum(source, activation, second, width))
        if estimate.at_least < width or width == source.dim:
            return estimate
        width = min(2 * width, source.dim)


class Inertia(NamedTuple):
    """Units with a positive and with a negative readout that the second moment shows beyond its noise."""

    positive: int
    negative: int


def inertia(source: Source, activation: Activation, basis: Array) -> Inertia:
    """Signs of the readouts from M₂ in the span `basis` (dim, width) of the weights: lower bounds, `source` white, one output.

    Refused for activations without a second moment (odd up to a constant: there a sign is a matter of convention), and for
    several outputs, where a unit has no single sign.
    """
    level = float(activation.hermite(2))
    if source.outputs > 1 or abs(level) < VANISHING_COEFFICIENT:
        raise Unidentifiable(
            f"{activation.name} has Hermite coefficient {level:.1e} at order 2, and there are {source.outputs} outputs.",
            "The second moment shows the signs of readouts only if it does not vanish, and of one output at a time.",
            "Compare the networks themselves.", activation=activation.name, outputs=source.outputs)
    value, noise = _measure_moment(source, 2, basis)
    eigenvalues = np.linalg.eigvalsh(value[0])
    clear = detect_rank(eigenvalues, np.linalg.eigvalsh(noise[0])).at_least
    kept = eigenvalues[np.argsort(-np.abs(eigenvalues))[:clear]] * level
    return Inertia(int(np.sum(kept > 0)), int(np.sum(kept < 0)))


def _spectrum(source: Source, activation: Activation, second: int, width: int) -> tuple[Array, Array]:
    """Singular values of the moment in all dimensions, and of its noise."""
    value, noise = _measure_moment(source, second, moments.refine_subspace(source, width, activation, order=2).basis)
    return _singular_values(value), _singular_values(noise)


def _measure_moment(source: Source, second: int, basis: Array) -> tuple[Array, Array]:
    """M₂, or M₃(I, I, a) for the columns a of `basis`, and its noise, of every output: (matrices, dim, dim)."""
    width = basis.shape[1]
    fit = moments.fit_hermite(source, moments.affordable_degree(source.size, width, 3, samples_per_coefficient=4.0), basis)
    explained = fit.moments.up_to(max(second, fit.moments.order)).tensor(second).reshape(-1, width, width)
    moment = moments.SecondMoment() if second == 2 else moments.ThirdSlices(basis.T)
    rest = moments.measure_with_noise(moments.Residual(source, fit), moment, stage="width")
    shape = (-1, source.dim, source.dim)
    return basis @ explained @ basis.T + rest.value.reshape(shape), rest.noise.reshape(shape)


def _singular_values(matrices: Array) -> Array:
    values: Array = np.linalg.svd(np.concatenate(list(matrices), axis=1), compute_uv=False)
    return values


def starting_width(source: Source, seen: RankEstimate, *, searched: bool) -> int:
    """The width that the moments show. A lower bound will do if a search goes on from there."""
    if not searched and seen.exact is None:
        raise NotSeparated(
            f"The moments of {source.size:,} samples do not tell the width. {seen.explanation}",
            "Without the solver nothing else decides it.", "Give the width, more samples, or a search.",
            at_least=seen.at_least)
    return max(1, seen.at_least)
