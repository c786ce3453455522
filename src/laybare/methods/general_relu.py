"""GeneralReLU: units with biases, more of them than inputs if need be, from Hermite moments, spare units and the solver.

The spectral start takes moments of several orders:

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
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.assembly.sign_decoding import restore_signs, with_signs
from laybare.assembly.unit_scalars import UnitFits, all_loadings, count_units, fit_units, hermite_loadings
from laybare.certificate import Claim
from laybare.decomposition import SubspacePower
from laybare.decomposition.components import unit_rows
from laybare.errors import AssumptionViolated, InvalidInput, LaybareError, TooFewSamples
from laybare.methods.start import (
    AssumptionName,
    CountingRoute,
    Start,
    check_method,
    check_movable,
    lift_network,
    required_network,
)
from laybare.moments import (
    Measurement,
    Normality,
    PackedMoments,
    controlled_moments,
    flatten,
    khatri_rao_gap,
    needed_order,
    normality,
    refine_subspace,
    unpack,
    veronese,
)
from laybare.moments.packed import count_monomials, count_monomials_up_to
from laybare.networks import Layer, Network
from laybare.numerics.checks import show_choices
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.search.network_fit import NetworkFit
from laybare.search.settings import Search
from laybare.source import Source
from laybare.source.derived import ProjectedInputs


def conditioning_claims(source: Source, outcome: NetworkFit) -> tuple[Claim, ...]:
    """How well moments separate the weights found. Small means ill-conditioned, not wrong."""
    weights = outcome.network.layer.weights
    order = needed_order(outcome.network.dim, outcome.network.width)
    if order is None or not weights.any(axis=1).all():
        return ()
    return (Claim(
        AssumptionName.POWERS_SINGULAR_VALUE, khatri_rao_gap(weights, order), 0.0, True, "proved",
        f"of the Khatri-Rao power of order {order}: 1 for orthogonal weights, 0 for dependent ones; the error of moments grows "
        "with its inverse."),)


def visible_units_claim(shown: int, text: str) -> Claim:
    """How many units of the start stand out of the noise. It decides speed, not truth, so it never fails."""
    return Claim(
        AssumptionName.MOMENT_UNITS, float(shown), 0.0, True, "tested",
        f"{text}. The start decides the speed; what was found is judged by the other claims.")


def start_without_units(reason: str) -> Start:
    """A start without units, and why."""
    return Start(None, (visible_units_claim(0, f"{reason}, so units started at random"),))



@dataclass(frozen=True, kw_only=True)
class JointSpanOptions:
    """Limits of the joint span."""

    margin: float = 1.1  # singular values of signal over the largest of noise. Checked by `pytest tests/methods/general_relu`.
    count_dim: int = 30  # above it, units are counted in a subspace first. Checked by `pytest tests/methods/general_relu`.
    max_work: float = 2e11  # multiply-adds of the moments, else a lower order. Convention: about a minute.
    max_second_work: float = 2e9  # the same for a second, higher order. Convention: about a second.


SPAN = JointSpanOptions()


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
            return start_without_units("the moments that this number of units needs are out of reach")
        text = f"of {units.network.width} directions from orders up to {units.order}; the others are no better than random ones"
        return Start(units.network, (visible_units_claim(units.shown, text),))

    def units(self, source: Source, width: int | None, activation: Activation, *, rng: Generator) -> SpectralUnits | None:
        """Units of a white source, or None if the moments that `width` units need are out of reach."""
        if width is None and source.dim > SPAN.count_dim:
            width = max(1, count_units(source, activation, 2 if activation.centre is None else 3).at_least)
        basis = None
        if self.subspace and width is not None and width < source.dim:
            basis = refine_subspace(source, width, activation, order=2).basis
        seen = source if basis is None else ProjectedInputs(source, basis)
        side = _flattening_order(seen.dim, width or 1)
        if side is None:
            return None
        best: SpectralUnits | None = None
        for order in self._orders(seen, side, activation):
            measured = controlled_moments(seen, order)
            found = units_from_moments(measured, width, activation, side, self.power, rng=rng)
            best = found if best is None or _explained_signal(measured, found) > _explained_signal(measured, best) else best
            if best.shown == best.network.width:
                break
        return best if best is None or basis is None else best._replace(network=lift_network(best.network, basis))

    def _orders(self, source: Source, side: int, activation: Activation) -> list[int]:
        """Orders to try, one after the other; those that cost too much are left out, the first is lowered instead."""
        asked = [self.order] if self.order is not None else [6] if side == 3 or activation.degree is None else [4, 6]

        def work(order: int) -> int:
            return source.size * source.outputs * count_monomials_up_to(source.dim, order)

        first = next((k for k in range(asked[0], max(3, side) - 1, -1) if work(k) <= SPAN.max_work), None)
        later = [k for k in asked[1:] if work(k) <= SPAN.max_second_work]
        return [] if first is None else [first, *later]


def units_from_moments(
    measured: Measurement[PackedMoments], width: int | None, activation: Activation, side: int, power: SubspacePower, *,
    rng: Generator,
) -> SpectralUnits:
    """Directions from the joint span of all orders ≥ `side`, scalars from all orders; `width` None: as many as the span shows."""
    moments, orders = measured.value, range(side, measured.value.order + 1)
    weights = [1.0 / _noise(measured, k) for k in orders]
    joint, noise = (
        _reduce_rows(np.concatenate([w * _flatten_order(part, k, side) for w, k in zip(weights, orders, strict=True)]))
        for part in (measured.value, measured.noise))
    values, edge = np.linalg.svd(joint, compute_uv=False), float(np.linalg.svd(noise, compute_uv=False)[0])
    shown = int(np.sum(values > SPAN.margin * edge))
    asked = min(max(1, shown), _max_isolated(moments.dim, side)) if width is None else min(width, len(joint))
    directions = power(unpack(joint, moments.dim, side), asked, rng=rng).directions
    return SpectralUnits(network_along(measured, directions, activation), min(shown, asked), moments.order, side)


def network_along(measured: Measurement[PackedMoments], directions: Array, activation: Activation) -> Network:
    """The network whose units lie along ± `directions`, every scalar from the moments."""
    moments, width = measured.value, len(directions)
    lowest = 1 if activation.mirror is None else 2
    orders = [k for k in range(lowest, moments.order + 1) if width <= count_monomials(moments.dim, k)]
    if not orders:
        raise InvalidInput(
            f"{width} directions in dimension {moments.dim} and moments up to order {moments.order}.",
            "No order has as many independent tensors.", "Measure higher moments.", width=width, order=moments.order)
    spread = np.sqrt(np.mean(all_loadings(measured.noise, directions, orders) ** 2, axis=(1, 2)))
    z = all_loadings(moments, directions, orders)
    fits = fit_units(activation, z, orders, np.maximum(spread, 1e-12 * np.abs(z).max()))
    return _assemble(moments, directions, fits, activation)


def _explained_signal(measured: Measurement[PackedMoments], units: SpectralUnits) -> float:
    """How much of all orders from 2 on, in units of their noise, lies in the span of the powers of these directions."""
    directions = unit_rows(units.network.layer.weights)
    total = 0.0
    for k in range(2, measured.value.order + 1):
        fitted = hermite_loadings(measured.value, directions, k).T @ veronese(directions, k)
        total += float(np.sum(fitted**2)) / _noise(measured, k) ** 2
    return total


def _assemble(moments: PackedMoments, directions: Array, fits: UnitFits, activation: Activation) -> Network:
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


def _flattening_order(dim: int, width: int) -> int | None:
    """The order of flattening at which `width` parts are isolated, 2 or 3, or None."""
    return next((side for side in (2, 3) if width <= _max_isolated(dim, side)), None)


def _max_isolated(dim: int, side: int) -> int:
    """The most parts that stand alone in their span: C(d+l-1, l) - d."""
    return max(1, count_monomials(dim, side) - dim)


def _noise(measured: Measurement[PackedMoments], order: int) -> float:
    """Root mean square of the noise of one entry; rounding if there is none."""
    size = float(np.sqrt(np.mean(measured.noise.of(order) ** 2)))
    return max(size, 1e-13 * float(np.abs(measured.value.values).max()), 1e-300)


def _reduce_rows(rows: Array) -> Array:
    """As few rows as columns, with the same singular values and the same span."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > rows.shape[1] else rows


def _flatten_order(moments: PackedMoments, order: int, side: int) -> Array:
    """c_k of all outputs, one row for each monomial of the other side: (outputs·D_{k-side}, D_side)."""
    sides: Array = flatten(moments.of(order), moments.dim, side, order - side)
    return sides.transpose(0, 2, 1).reshape(-1, sides.shape[1])


@dataclass(frozen=True, kw_only=True)
class GeneralReLU:
    """Hidden layer with biases, of any width, after Awasthi, Tang and Vijayaraghavan (2021), for Gaussian inputs.

    Directions come from the joint span of moments of orders 2 to 4 (to 6 for very many units), readouts, scales and biases from
    small fits to all orders; random spare units stand beside them, the sign-free model is fitted and pruned, and the signs of
    ReLU-like units are decoded at the end: exactly as many units as the network has, where the paper has two more.

    What is proved concerns `literal`, with far more samples than anybody has. The default is tested; its result is judged by the
    certificate, not by the assumptions. If the inputs are visibly not normal, units start at random instead.

    Parameters
    ----------
    activation : Activation
        ReLU and leaky ReLU; softplus, GELU; tanh, erf, sigmoid and others with free norms (beyond the paper, tested only).
    route : CountingRoute
        JointSpan(), or PrintedReLU(order=l): Algorithms 4 to 6 as printed.
    search : Search or None
        Spare units, repairs and pruning; None leaves the start as the moments gave it.

    References
    ----------
    Awasthi, Tang and Vijayaraghavan (2021), Efficient algorithms for learning depth-2 neural networks with general ReLU
    activations.
    """

    activation: Activation = relu
    route: CountingRoute = JointSpan()
    search: Search | None = Search()

    biases: ClassVar[bool] = True  # Every hidden unit has one.

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_method(self)

    @classmethod
    def literal(cls, order: int = 1, *, centred: bool = False, regression: bool | None = None) -> GeneralReLU:
        """Algorithm 6 (order 1: at most as many units as inputs) or Algorithms 4 and 5 (order 2, 3: more), as printed.

        `regression` True is Algorithm 5 at order 1 too. Algorithm 5 is truncated least squares in a ball, by projected gradient
        descent (`PrintedReLU(accuracy=...)` is its ε).
        The number of units is what the moments show, whatever width is given.
        """
        from laybare.methods.printed.awasthi_2021 import PrintedReLU

        return cls(route=PrintedReLU(order=order, centred=centred, regression=regression), search=None)

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """The network from moments alone, or none if they are out of reach."""
        check_movable(self.activation)
        check_size(source, width)
        normal = normality(source, rng=rng)
        report_progress(progress, "moments")
        if self.search is None:
            check_normal(normal)
            start = self.route(source, width, self.activation, rng=rng)
            return start._replace(network=without_linear_part(required_network(start)))
        return self._try_route(source, width, normal, rng)._replace(later=conditioning_claims)

    def _try_route(self, source: Source, width: int | None, normal: Normality, rng: Generator) -> Start:
        """The start from moments, or one without units that says why: the search can do without."""
        if not normal.plausible:
            return start_without_units(f"the inputs are not normal ({normal.sigmas:.0f} standard deviations off)")
        try:
            return self.route(source, width, self.activation, rng=rng)
        except LaybareError as refusal:
            return start_without_units(f"the moments refused ({refusal.seen.rstrip('.')})")


def without_linear_part(network: Network) -> Network:
    """The start without its linear part if some signs come close to explaining it, else as it is."""
    if network.linear is None:
        return network
    signs = restore_signs(network, network.activation, tol=0.05).signs
    return with_signs(network, network.activation, signs.signs) if np.isfinite(signs.residual) else network


def check_normal(normal: Normality) -> None:
    """Refuse inputs that are visibly not normal, where nothing can take the place of moments."""
    if not normal.plausible:
        raise AssumptionViolated(
            f"A projection of the white inputs has a third or fourth Hermite moment of {normal.size:.2g} "
            f"({normal.sigmas:.0f} standard deviations).", "The moments read weights out of exactly these orders, for N(0, I).",
            "Use GeneralReLU() with its search, or RandomStart().", size=normal.size, sigmas=normal.sigmas)


def check_size(source: Source, width: int | None) -> None:
    """Refuse fewer samples than the linear fit that every control variate starts with needs."""
    if source.size <= 2 * (source.dim + 1) or (width is not None and source.size * source.outputs <= width * (source.dim + 1)):
        raise TooFewSamples(
            f"{source.size:,} samples in dimension {source.dim} for width {width}.",
            "Some network fits as many equations as it has unknowns whatever the truth is.",
            f"About {5 * (width or 4) * (source.dim + 2) // source.outputs:,} samples would do.",
            samples=source.size, width=width, dim=source.dim)
