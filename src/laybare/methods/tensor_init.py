"""TensorInit: the hidden layer from Hermite moments of orders 1 to 4, for Gaussian inputs and at most as many units as inputs.

The default and the printed route (`printed.zhong_2017`) both find the span of the weights, decompose moments in it, and recover
signs and magnitudes. They differ in the moments: the printed route averages y·He_k(x), the default fits polynomials in a span
that it sharpens step by step. Only orders whose Hermite coefficient does not vanish show anything: j₂ = min{j ≥ 2} and
j₃ = min{j ≥ 3} of them are the orders of P₂ and P₃; (2, 3) for squared ReLU, (2, 4) for ReLU and |t|, (3, 3) for odd ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, relu
from laybare.activations.hermite_coefficients import VANISHING_COEFFICIENT
from laybare.assembly.unit_scalars import Inertia, count_units, inertia, rec_mag_sign, starting_width
from laybare.certificate import Claim
from laybare.decomposition import Components, Decomposer, JointDiagonalisation
from laybare.errors import InvalidInput, TooFewSamples, Unidentifiable
from laybare.landscape.first_order import Descent
from laybare.methods.start import AssumptionName, Route, Start, check_method, check_movable, lift_network, required_network
from laybare.moments import (
    HermiteMoments,
    PackedMoments,
    Residual,
    affordable_degree,
    fit_hermite,
    measure,
    refine_subspace,
)
from laybare.moments.measurement import check_parity
from laybare.networks import Network
from laybare.numerics.checks import show_choices, show_value
from laybare.numerics.shapes import Array, Progress, report_progress
from laybare.search.network_fit import NetworkFit
from laybare.search.settings import Search
from laybare.solver import Effort
from laybare.solver.minimise import minimise
from laybare.solver.point import network_of, point_of
from laybare.source import Source
from laybare.source.derived import ProjectedInputs
from laybare.source.problem import total_variation
from laybare.theory.guarantees import moment_assumptions


@dataclass(frozen=True, eq=False)
class ReadoutSignCheck:
    """The second moment shows no more readouts of a sign than the network has; no claim where it does not show them.

    The rows of `start` span the subspace of the moment. A network that fits exactly needs no such check.
    """

    start: Network

    def __call__(self, source: Source, outcome: NetworkFit) -> tuple[Claim, ...]:
        network, activation = outcome.network, outcome.network.activation
        silent = network.outputs > 1 or abs(float(activation.hermite(2))) < VANISHING_COEFFICIENT
        if silent or outcome.exact:
            return ()
        seen = inertia(source, activation, np.linalg.qr(self.start.layer.weights.T)[0])
        has = Inertia(int(np.sum(network.readout > 0)), int(np.sum(network.readout < 0)))
        excess = max(seen.positive - has.positive, seen.negative - has.negative, 0)
        return (Claim(
            AssumptionName.MISSING_SIGN, float(excess), 0.0, excess == 0, "tested",
            f"the inertia of the second moment shows at least {seen.positive} positive and {seen.negative} negative readouts "
            f"beyond noise; the network has {has.positive} and {has.negative}."),)


HIGHEST_ORDER = 4
"""Highest order of a moment. Derived: order 5 has k⁵ entries, and common activations have small coefficients there."""


class Orders(NamedTuple):
    """Orders of P₂ and P₃, and all orders from 1 to 4 that show anything."""

    second: int
    third: int
    shown: tuple[int, ...]


def informative_orders(activation: Activation) -> Orders:
    """The orders whose moments show the weights; refuses an activation that shows nothing at orders 3 and 4, or no signs.

    Source: Zhong et al. (2017), Definition 5.4, Claim 5.5 and Assumption 5.3.
    """
    shown = tuple(j for j in range(1, HIGHEST_ORDER + 1) if abs(float(activation.hermite(j))) > VANISHING_COEFFICIENT)
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
        moments = measure_subspace_moments(source, basis, informative_orders(activation).shown[-1])
        found = network_from_moments(moments, activation, self.decompose, rng=rng)
        return Start(lift_network(found if self.inside is None else refit_in_span(source, found, basis, self.inside), basis))


def network_from_moments(moments: PackedMoments, activation: Activation, decompose: Decomposer, *, rng: Generator) -> Network:
    """The network with as many units as `moments` have dimensions: all slices of orders ≥ 2, then signs and magnitudes."""
    shown = informative_orders(activation).shown
    slices = np.concatenate([_scaled_slices(moments, j) for j in shown if 2 <= j <= moments.order])
    parts = decompose(slices, moments.dim, rng=rng)
    if not isinstance(parts, Components):
        raise InvalidInput(
            f"The decomposition returned {show_value(parts)}.", "Components have unit rows and say what each adds.",
            "Return fit_components(slices, rows), from laybare.decomposition.")
    return rec_mag_sign(moments, parts.directions, activation)


def refit_in_span(source: Source, network: Network, basis: Array, effort: Effort) -> Network:
    """The network of x·basis after some steps of the solver on these inputs alone."""
    view = ProjectedInputs(source, basis)
    point = point_of(network, biases=False, offset=True, linear=False)
    refined = minimise(view, point, total_variation(source), effort=effort)
    return network_of(refined.point, vector=network.readout.ndim == 1)


def measure_subspace_moments(source: Source, basis: Array, order: int) -> PackedMoments:
    """Hermite moments of x·basis: least squares, or where the samples do not allow it averages of what a lower fit leaves."""
    degree = affordable_degree(source.size, basis.shape[1], order)
    fit = fit_hermite(source, degree, basis)
    if degree == order:
        return fit.moments
    return fit.moments.up_to(order) + measure(Residual(source, fit), HermiteMoments(order, basis), stage="moments of the rest")


def _scaled_slices(moments: PackedMoments, order: int) -> Array:
    """All slices of the moment tensor over √order!, every output: (outputs·k^(order-2), k, k)."""
    return moments.tensor(order).reshape(-1, moments.dim, moments.dim) / sqrt(factorial(order))


ROWS_PER_WEIGHT = 4
"""Samples per weight that an error message advises. Checked by `pytest tests/methods/tensor_init`."""


@dataclass(frozen=True, kw_only=True)
class TensorInit:
    """Hidden layer from the moments E[y He_k(x)], k = 1, …, 4, after Zhong, Song, Jain, Bartlett and Dhillon (2017).

    Assumes x ~ N(0, Σ), no biases, independent weight vectors (width ≤ dim), and an activation that is no polynomial of degree 2.
    The span of the weights, their directions, signs and magnitudes come from moments; the solver then goes on from there, and
    only if it ends above rounding are the worst units drawn anew. With noise that never is the case, and two runs that agree
    end the search.

    Parameters
    ----------
    activation : Activation
        Homogeneous (ReLU and its powers, leaky ReLU, |t|), odd up to a constant (tanh, erf, sigmoid), or softplus and GELU.
    route : Route
        RefinedMoments() or PrintedMoments().
    search : Search or None
        Spare units and repairs after the first run of the solver; None leaves the start as the moments gave it.

    References
    ----------
    Zhong et al. (2017), Recovery guarantees for one-hidden-layer neural networks, Algorithm 1. Deviations: the span is refined,
    moments are least-squares fits, slices of all orders are decomposed together, and the data are not split.
    """

    activation: Activation = relu
    route: Route = RefinedMoments()
    search: Search | None = Search(spares=0)

    biases: ClassVar[bool] = False  # None of the hidden units has one.

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_method(self)

    @classmethod
    def literal(
        cls, activation: Activation = relu, *, partition: bool = True, descent: Descent | None = None,
        printed_step: bool = True,
    ) -> TensorInit:
        """Algorithm 1 as printed: a third of the samples for each of its steps; all of them for each without `partition`.

        With `descent` Algorithm 2: as many steps of gradient descent from there, with the step of the theorem, each on samples of
        its own if `descent.resample`, as lines 4 and 8 say; without `printed_step` with the step of `descent`, such as the 0.02
        of the experiments in section 7.
        """
        from laybare.methods.printed.zhong_2017 import PrintedDescent, PrintedMoments

        first = PrintedMoments(partition=partition)
        route = first if descent is None else PrintedDescent(route=first, descent=descent, printed_step=printed_step)
        return cls(activation=activation, route=route, search=None)

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """The network from moments alone; `source` is white."""
        check_movable(self.activation)
        informative_orders(self.activation)
        count = self._count_units(source) if width is None else width
        check_size(source, count)
        check_parity(source, self.activation)
        report_progress(progress, "moments")
        start = self.route(source, count, self.activation, rng=rng)
        return start if self.search is None else start._replace(later=ReadoutSignCheck(required_network(start)))

    def _count_units(self, source: Source) -> int:
        """The width that the moments show."""
        seen = count_units(source, self.activation, informative_orders(self.activation).second)
        return starting_width(source, seen, searched=self.search is not None)


def check_size(source: Source, width: int) -> None:
    """Refuse more units than dimensions, and no more equations than weights."""
    if width > source.dim:
        raise InvalidInput(
            f"Width {width} in dimension {source.dim}.",
            "Moments are decomposed into independent weight vectors, of which there are at most as many as dimensions.",
            "Use RandomStart(), which has no such limit.", width=width, dim=source.dim)
    weights = source.dim * width
    if source.size * source.outputs <= weights:
        raise TooFewSamples(
            f"{source.size:,} samples for {weights:,} weights ({width} units in dimension {source.dim}).",
            "Some network fits as many equations as it has unknowns whatever the truth is.",
            f"About {ROWS_PER_WEIGHT * weights // source.outputs:,} samples would do.",
            samples=source.size, width=width, dim=source.dim)
