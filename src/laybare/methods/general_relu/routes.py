"""Hidden units with biases from Hermite moments of several orders: the spectral start of GeneralReLU.

    white source, width             span of the weights, if there are fewer units than inputs (`refine_subspace`)
    controlled moments c_2, …, c_K  each flattened to order l on one side: all share the span of the wᵢ^⊗l
    joint span, subspace power      directions ±wᵢ, up to C(d+l-1, l) - d of them, whatever the signs of the readouts
    loadings, small fits            sign, scale, bias and readout of every unit from all orders together

Orders enter with the inverse of their noise, measured by split halves. The span is shared by all orders, so a unit that one order
does not show (|b| = 1 in order 4, b = 0 in order 3) rests on the others.
Source: Awasthi, Tang and Vijayaraghavan (2021) for the moments; joint span and small fits are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation
from laybare.assembly.counting import count_units
from laybare.assembly.loadings import all_loadings, hermite_loadings
from laybare.assembly.unit_fits import UnitFits, fit_units
from laybare.decomposition import SubspacePower
from laybare.decomposition.components import unit_rows
from laybare.errors import InvalidInput
from laybare.methods.general_relu.claims import at_random, units_shown
from laybare.methods.start import Start
from laybare.moments import (
    Measurement,
    PackedMoments,
    controlled_moments,
    flatten,
    refine_subspace,
    unpack,
    veronese,
)
from laybare.moments.indices import count, count_up_to
from laybare.networks import Layer, Network
from laybare.shapes import Array
from laybare.source import Source
from laybare.source.projected import Projected

MARGIN = 1.1
"""A singular value of the joint span counts as signal above this multiple of the largest one of the noise."""

WIDE = 30
"""Dimension above which units are counted in a subspace if the width is not told."""

WORK, MORE_WORK = 2e11, 2e9
"""Multiply-adds that the moments may cost, about a minute, beyond which a lower order is taken; and those of a second order."""


class SpectralUnits(NamedTuple):
    """What moments say about the hidden layer.

    `network` has the activation of the units and, where turning a unit over changes the linear part only, a linear part that
    makes order 1 right. `shown` of the asked units stand out of the noise in the joint spectrum; `order` is the highest order
    used, `side` the order of flattening.
    """

    network: Network
    shown: int
    order: int
    side: int


@dataclass(frozen=True, kw_only=True)
class JointSpan:
    """How directions are found: moments up to `order`, a subspace power method.

    `order` None: 4, and also 6 if not all units stand out of the noise (order 4 is blind to |b| = 1), of which the directions
    that explain more are kept. Units with free norms, and flattenings of order 3, take 6 from the start. `subspace` restricts
    everything to the leading `width` directions first if there are fewer units than inputs.
    """

    order: int | None = None
    power: SubspacePower = SubspacePower(batches=3)
    subspace: bool = True

    def __call__(self, source: Source, width: int | None, activation: Activation, *, rng: Generator) -> Start:
        """A start at the units of a white source, or without any if they are out of reach."""
        units = self.units(source, width, activation, rng=rng)
        if units is None:
            return at_random("the moments that so many units need are out of reach")
        text = f"of {units.network.width} directions from orders up to {units.order}; the others are no better than random ones"
        return Start(units.network, (units_shown(units.shown, text),))

    def units(self, source: Source, width: int | None, activation: Activation, *, rng: Generator) -> SpectralUnits | None:
        """Units of a white source, or None if the moments that `width` units need are out of reach."""
        if width is None and source.dim > WIDE:
            width = max(1, count_units(source, activation, 2 if activation.centre is None else 3).at_least)
        basis = None
        if self.subspace and width is not None and width < source.dim:
            basis = refine_subspace(source, width, activation, order=2).basis
        seen = source if basis is None else Projected(source, basis)
        side = _side(seen.dim, width or 1)
        if side is None:
            return None
        best: SpectralUnits | None = None
        for order in self._orders(seen, side, activation):
            measured = controlled_moments(seen, order)
            found = units_of(measured, width, activation, side, self.power, rng=rng)
            best = found if best is None or _explained(measured, found) > _explained(measured, best) else best
            if best.shown == best.network.width:
                break
        return best if best is None or basis is None else best._replace(network=_lifted(best.network, basis))

    def _orders(self, source: Source, side: int, activation: Activation) -> list[int]:
        """Orders to try, one after the other; those that cost more than WORK are left out, the first is lowered instead."""
        asked = [self.order] if self.order is not None else [6] if side == 3 or activation.degree is None else [4, 6]
        cost = source.size * source.outputs
        first = next((k for k in range(asked[0], max(3, side) - 1, -1) if cost * count_up_to(source.dim, k) <= WORK), None)
        later = [k for k in asked[1:] if cost * count_up_to(source.dim, k) <= MORE_WORK]
        return [] if first is None else [first, *later]


def units_of(
    measured: Measurement[PackedMoments], width: int | None, activation: Activation, side: int, power: SubspacePower, *,
    rng: Generator,
) -> SpectralUnits:
    """Directions from the joint span of all orders ≥ `side`, scalars from all orders; `width` None: as many as the span shows."""
    moments, orders = measured.value, range(side, measured.value.order + 1)
    weights = [1.0 / _noise(measured, k) for k in orders]
    joint, noise = (
        _short(np.concatenate([w * _flat(part, k, side) for w, k in zip(weights, orders, strict=True)]))
        for part in (measured.value, measured.noise))
    values, edge = np.linalg.svd(joint, compute_uv=False), float(np.linalg.svd(noise, compute_uv=False)[0])
    shown = int(np.sum(values > MARGIN * edge))
    asked = min(max(1, shown), _most(moments.dim, side)) if width is None else min(width, len(joint))
    directions = power(unpack(joint, moments.dim, side), asked, rng=rng).directions
    return SpectralUnits(network_along(measured, directions, activation), min(shown, asked), moments.order, side)


def network_along(measured: Measurement[PackedMoments], directions: Array, activation: Activation) -> Network:
    """The network whose units lie along ± `directions`, every scalar from the moments."""
    moments, width = measured.value, len(directions)
    lowest = 1 if activation.mirror is None else 2
    orders = [k for k in range(lowest, moments.order + 1) if width <= count(moments.dim, k)]
    if not orders:
        raise InvalidInput(
            f"{width} directions in dimension {moments.dim} and moments up to order {moments.order}.",
            "No order has as many independent tensors.", "Measure higher moments.", width=width, order=moments.order)
    spread = np.sqrt(np.mean(all_loadings(measured.noise, directions, orders) ** 2, axis=(1, 2)))
    z = all_loadings(moments, directions, orders)
    fits = fit_units(activation, z, orders, np.maximum(spread, 1e-12 * np.abs(z).max()))
    return _assembled(moments, directions, fits, activation)


def _explained(measured: Measurement[PackedMoments], units: SpectralUnits) -> float:
    """How much of all orders from 2 on, in units of their noise, lies in the span of the powers of these directions."""
    directions = unit_rows(units.network.layer.weights)
    total = 0.0
    for k in range(2, measured.value.order + 1):
        fitted = hermite_loadings(measured.value, directions, k).T @ veronese(directions, k)
        total += float(np.sum(fitted**2)) / _noise(measured, k) ** 2
    return total


def _assembled(moments: PackedMoments, directions: Array, fits: UnitFits, activation: Activation) -> Network:
    rows = (fits.signs * fits.scales)[:, None] * directions
    turned = fits.signs[:, None] * directions
    constant = moments.of(0)[:, 0] - activation.hermite(0, fits.scales, fits.biases) @ fits.readout
    linear = None
    if activation.mirror is not None:
        slope = activation.hermite(1, fits.scales, fits.biases)[:, None] * fits.readout
        linear = moments.of(1).T - turned.T @ slope
    layer = Layer(rows, fits.biases, activation)
    if moments.outputs > 1:
        return Network(layer, fits.readout, constant, linear)
    return Network(layer, fits.readout[:, 0], float(constant[0]), None if linear is None else linear[:, 0])


def _lifted(network: Network, basis: Array) -> Network:
    """A network of the coordinates x·basis as a network of x."""
    linear = None if network.linear is None else basis @ network.linear
    layer = Layer(network.layer.weights @ basis.T, network.layer.biases, network.activation)
    return Network(layer, network.readout, network.offset, linear)


def _side(dim: int, width: int) -> int | None:
    """The order of flattening at which `width` parts are isolated, 2 or 3, or None."""
    return next((side for side in (2, 3) if width <= _most(dim, side)), None)


def _most(dim: int, side: int) -> int:
    """The most parts that stand alone in their span: C(d+l-1, l) - d."""
    return max(1, count(dim, side) - dim)


def _noise(measured: Measurement[PackedMoments], order: int) -> float:
    """Root mean square of the noise of one entry; rounding if there is none."""
    size = float(np.sqrt(np.mean(measured.noise.of(order) ** 2)))
    return max(size, 1e-13 * float(np.abs(measured.value.values).max()), 1e-300)


def _short(rows: Array) -> Array:
    """As few rows as columns, with the same singular values and the same span."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > rows.shape[1] else rows


def _flat(moments: PackedMoments, order: int, side: int) -> Array:
    """c_k of all outputs, one row for each monomial of the other side: (outputs·D_{k-side}, D_side)."""
    sides: Array = flatten(moments.of(order), moments.dim, side, order - side)
    return sides.transpose(0, 2, 1).reshape(-1, sides.shape[1])

