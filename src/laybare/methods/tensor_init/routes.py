"""From Hermite moments to a network without biases, by a better route than the printed one (`printed`).

Both find the span of the weights, decompose moments in it, and recover signs and magnitudes. What differs is the quality of the
moments: the printed route averages y·He_k(x), this one fits polynomials in a span that it sharpens step by step. Only the
orders whose Hermite coefficient does not vanish show anything: j₂ = min{j ≥ 2}, j₃ = min{j ≥ 3} of them are the orders of P₂
and P₃; (2, 3) for squared ReLU, (2, 4) for ReLU and |t|, (3, 3) for odd activations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.assembly.magnitudes import VANISHING, rec_mag_sign
from laybare.damping import Effort
from laybare.decomposition import Decomposer, JointDiagonalisation
from laybare.errors import Unidentifiable
from laybare.methods.start import Start
from laybare.moments import (
    HermiteMoments,
    PackedMoments,
    Residual,
    affordable_degree,
    fit_hermite,
    measure,
    refine_subspace,
)
from laybare.networks import Layer, Network
from laybare.refinement.minimise import deciding_refit
from laybare.refinement.normal import network_of, point_of
from laybare.refinement.variation import total_variation
from laybare.shapes import Array
from laybare.source import Source
from laybare.source.projected import Projected
from laybare.theory.guarantees import moment_assumptions

HIGHEST = 4
"""Highest order in use: beyond it a tensor has k⁵ entries and the coefficients of all common activations are small."""


class Orders(NamedTuple):
    """Orders of P₂ and P₃, and all orders from 1 to 4 that show anything."""

    second: int
    third: int
    shown: tuple[int, ...]


def informative_orders(activation: Activation) -> Orders:
    """The orders whose moments show the weights; refuses an activation that shows nothing at orders 3 and 4, or no signs.

    Source: Zhong et al. (2017), Definition 5.4, Claim 5.5 and Assumption 5.3.
    """
    shown = tuple(j for j in range(1, HIGHEST + 1) if abs(float(activation.hermite(j))) > VANISHING)
    if not shown or shown[-1] < 3:
        rho = activation.properties().rho
        raise Unidentifiable(
            f"{activation.name} has no Hermite coefficient of order 3 or 4 (rho = {rho:.2g}).",
            "A network of linear or quadratic units is one quadratic form, which many sets of weights share.",
            "Use an activation that is no polynomial of degree 2, such as relu or power_relu(2).",
            activation=activation.name, rho=rho)
    for name, holds in moment_assumptions(activation):
        if not holds:
            raise Unidentifiable(
                f"{activation.name} is to be {name}, and is not (it is visible at {', '.join(map(str, shown))}).",
                "Moments of orders 1 to 4 do not tell the sign of such a unit, which changes the function.",
                "Use RandomStart(biases=False), which does not rest on moments.", activation=activation.name, shown=shown)
    return Orders(min(j for j in shown if j >= 2), min(j for j in shown if j >= 3), shown)


@dataclass(frozen=True, kw_only=True)
class RefinedMoments:
    """The span sharpened by control variates, least-squares moments in it, all their slices decomposed together.

    Every order enters with the weight 1/√j!, which makes the noise of all entries about equal. Error O(n^-½) of what a
    polynomial of degree 4 leaves of y, where the printed route has that of y itself. `inside` runs the solver in the span, with
    k² weights instead of k·d, before the network is handed over; None leaves it as the moments gave it.
    """

    decompose: Decomposer = JointDiagonalisation(polish=False)
    inside: Effort | None = Effort(max_steps=20)

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """A network of `width` units in the span of the leading directions."""
        basis = refine_subspace(source, width, activation, order=2).basis
        moments = subspace_moments(source, basis, informative_orders(activation).shown[-1])
        found = decomposed(moments, activation, self.decompose, rng=rng)
        return Start(lifted(found if self.inside is None else fitted_inside(source, found, basis, self.inside), basis))


def decomposed(moments: PackedMoments, activation: Activation, decompose: Decomposer, *, rng: Generator) -> Network:
    """The network with as many units as `moments` have dimensions: all slices of orders ≥ 2, then signs and magnitudes."""
    shown = informative_orders(activation).shown
    slices = np.concatenate([_slices(moments, j) for j in shown if 2 <= j <= moments.order])
    directions = decompose(slices, moments.dim, rng=rng).directions
    return rec_mag_sign(moments, directions, activation)


def fitted_inside(source: Source, network: Network, basis: Array, effort: Effort) -> Network:
    """The network of x·basis after some steps of the solver, which sees no other inputs: what lies outside is noise to it."""
    view = Projected(source, basis)
    point = point_of(network, biases=False, offset=True, linear=False)
    refined = deciding_refit(view, point, total_variation(source), effort=effort)
    return network_of(refined.point, vector=network.readout.ndim == 1)


def subspace_moments(source: Source, basis: Array, order: int) -> PackedMoments:
    """Hermite moments of x·basis: least squares, or where the samples do not allow it averages of what a lower fit leaves."""
    degree = affordable_degree(source.size, basis.shape[1], order)
    fit = fit_hermite(source, degree, basis)
    if degree == order:
        return fit.moments
    return fit.moments.up_to(order) + measure(Residual(source, fit), HermiteMoments(order, basis), stage="moments of the rest")


def lifted(network: Network, basis: Array) -> Network:
    """A network of the coordinates x·basis as a network of x."""
    return Network(Layer(network.layer.weights @ basis.T, None, network.activation), network.readout, network.offset)


def _slices(moments: PackedMoments, order: int) -> Array:
    """All slices of the moment tensor over √order!, every output: (outputs·k^(order-2), k, k)."""
    return moments.tensor(order).reshape(-1, moments.dim, moments.dim) / sqrt(factorial(order))
