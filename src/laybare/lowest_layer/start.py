"""Where the search for the layer begins: directions from Hermite moments of orders 1 to 3.

With X_i = u(w_i·x - t) and any top P, Stein's identity gives E[f He_l(x)] ≈ Σ_i a_i w_i^⊗l + (products of units, which are rare).
Order 2 tells the span, orders 2 and 3 together the directions (decomposed jointly, so that the a_i may have any signs), order 1
the signs: E[f x] = Σ a_i w_i holds exactly, with a_i > 0 if P rises with X_i.
The paper decomposes order 4. Order 3 needs 4 to 16 times fewer samples and vanishes at fewer thresholds (u₃ = 0 for step units
at t = 1; u₄ = 0 for step at t = √3 and ReLU at t = 1).
Source: Goel and Panigrahy (2019), section 2, with third instead of fourth moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from laybare.certificate import Claim
from laybare.decomposition import Decomposer, JointDiagonalisation, detect_rank, loadings
from laybare.moments import (
    Residual,
    SecondMoment,
    fit_hermite,
    leading_directions,
    measure_with_noise,
    projected_tensors,
    second_moment,
)
from laybare.shapes import Array
from laybare.source import Source


class Directions(NamedTuple):
    """Unit rows `weights` (k, d) with their signs; what each unit contributes to the moments of orders 1 and 2, (k,) each; what
    was checked about them."""

    weights: Array
    first: Array
    second: Array
    claims: tuple[Claim, ...] = ()


@runtime_checkable
class LayerStart(Protocol):
    """A way from white samples with one output to directions of units."""

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions: ...


@dataclass(frozen=True, kw_only=True)
class ThirdMoments:
    """Joint diagonalisation of the second moment and all slices of the third, each over √order! so that their noise is equal.

    `linear` subtracts the least-squares linear part of y first, which holds most of its variance for smooth units; the activity
    of rows that are rarely active has no such part. `fourth` adds the slices of order 4, which is noisier and only of use where
    order 3 shows nothing.
    """

    decompose: Decomposer = JointDiagonalisation(polish=False)
    linear: bool = False
    fourth: bool = False

    def __call__(self, source: Source, width: int, *, rng: Generator) -> Directions:
        """Directions of `width` units; `source` is white and has one output."""
        fit = fit_hermite(source, 1) if self.linear else None
        rest = source if fit is None else Residual(source, fit)
        basis = leading_directions(second_moment(rest), width)
        _, first, second, third, *more = (tensor[0] for tensor in projected_tensors(rest, basis, 4 if self.fourth else 3))
        slices = [second[None] / np.sqrt(2.0), third / np.sqrt(6.0)]
        stack = np.concatenate(slices + [order.reshape(-1, width, width) / np.sqrt(24.0) for order in more])
        inside = self.decompose(stack, width, rng=rng).directions
        slopes = first if fit is None else first + fit.moments.of(1)[0] @ basis
        contributions = np.linalg.lstsq(inside.T, slopes, rcond=None)[0]
        return _signed(inside @ basis.T, contributions, loadings(second[None], inside)[0])


def count_units(source: Source) -> int:
    """Units that the second moment of one output shows, at least one; a lower bound unless the spectrum has a clear gap."""
    moment = measure_with_noise(source, SecondMoment(), stage="width")
    return max(1, detect_rank(np.linalg.eigvalsh(moment.value[0]), np.linalg.eigvalsh(moment.noise[0])).at_least)


def _signed(weights: Array, first: Array, second: Array) -> Directions:
    """Turn the units whose first and second contributions differ in sign: u₁ and u₂ are positive for t > 0."""
    turn = np.where(first * second < 0, -1.0, 1.0)
    return Directions(weights * turn[:, None], first * turn, second)
