"""LandscapeDesign: the hidden layer as the minimum of an objective that is designed to have no bad ones.

Moments of orders 1, 2 and 4 in the span of the weights, then descent: on f′ by default, on F in white coordinates, or a polar
iteration. M = E[y He₂(x)]/(√2 σ₂) = Σ aᵢ bᵢbᵢᵀ has one eigenvalue per unit, of the sign of aᵢ (Sylvester), and the others zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from laybare import landscape
from laybare.activations import Activation, relu
from laybare.assembly.unit_scalars import count_units, starting_width
from laybare.certificate import Claim
from laybare.decomposition import margins
from laybare.decomposition.components import unit_rows
from laybare.errors import AssumptionViolated, InvalidInput, NotSeparated, TooFewSamples, Unidentifiable
from laybare.methods.start import AssumptionName, Route, Start, check_method
from laybare.methods.tensor_init import check_size, measure_subspace_moments
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
from laybare.networks import Layer, Network
from laybare.numerics.checks import show_choices
from laybare.numerics.shapes import Array, Progress, Sums, report_progress
from laybare.search.network_fit import NetworkFit
from laybare.search.settings import Search
from laybare.source import Source


@dataclass(frozen=True, kw_only=True)
class LandscapeOptions:
    """Limits of the moments, the descents and the claims."""

    packed_dim: int = 64  # up to it the fourth moment is formed, 35 MB. Checked by `pytest tests/methods/landscape_design`.
    min_coefficient: float = 1e-3  # of orders 2 and 4, normalised. Checked by `pytest tests/methods/landscape_design`.
    same_minimum: float = 1e-3  # difference of two minima over the fall. Checked by `pytest tests/methods/landscape_design`.
    kurtosis_sigmas: float = 5.0  # standard errors of Gaussian inputs. Convention: one false alarm in two million.


LANDSCAPE = LandscapeOptions()


class EvenMoments(NamedTuple):
    """E[yx] (r,), M (r, r) and E[y He₄] in coordinates x·basis, `basis` (dim, r); the spectrum of M in all inputs, its noise."""

    basis: Array
    linear: Array
    gram: Array
    fourth: landscape.FourthMoment
    spectrum: Array
    edge: float


def controlled_even_moments(source: Source, width: int, activation: Activation) -> EvenMoments:
    """After subtracting what a polynomial explains: the noise of order 4 falls tenfold and more. In a sharpened span."""
    scale = 1.0 / (sqrt(2.0) * landscape.coefficient(activation, 2))
    if width == source.dim <= LANDSCAPE.packed_dim:
        measured = controlled_moments(source, 4)
        return _from_packed(measured.value, np.eye(width), scale, measured.value.tensor(2)[0], measured.noise.tensor(2)[0])
    basis = np.eye(width) if width == source.dim else refine_subspace(source, width, activation, order=2).basis
    fit = fit_hermite(source, affordable_degree(source.size, width, 2), basis)
    rest = measure_with_noise(Residual(source, fit), SecondMoment(), stage="second moment")
    second = fit.moments.up_to(2).tensor(2)[0]
    whole = basis @ second @ basis.T + rest.value[0]
    if width <= LANDSCAPE.packed_dim:
        return _from_packed(measure_subspace_moments(source, basis, 4), basis, scale, whole, rest.noise[0])
    fourth = landscape.TurnedQuartic(quartic(Residual(source, fit)), basis)
    return EvenMoments(basis, fit.moments.of(1)[0], scale * second, fourth, *_spectrum(scale * whole, scale * rest.noise[0]))


def plain_even_moments(source: Source, width: int, activation: Activation) -> EvenMoments:
    """Averages of y He_k(x) as they are, in the leading eigenspace of M: as printed."""
    scale = 1.0 / (sqrt(2.0) * landscape.coefficient(activation, 2))
    measured = measure_with_noise(source, SecondMoment(), stage="second moment")
    whole, noise = measured.value[0], measured.noise[0]
    basis = np.eye(width) if width == source.dim else leading_directions(measured.value, width)
    if width == source.dim <= LANDSCAPE.packed_dim:
        return _from_packed(packed_moments(source, 4), basis, scale, whole, noise)
    (linear,) = source.sum(lambda x, y: (y[:, 0] @ x,), stage="first moment")
    fourth = landscape.TurnedQuartic(quartic(source), basis)
    gram = scale * basis.T @ whole @ basis
    return EvenMoments(basis, linear / source.size @ basis, gram, fourth, *_spectrum(scale * whole, scale * noise))


def check_positive(seen: EvenMoments, width: int) -> None:
    """Refuse eigenvalues of M that are negative beyond its noise: some unit has a negative readout."""
    limit = -margins(len(seen.spectrum)).signal * seen.edge
    negative = seen.spectrum[seen.spectrum < limit]
    if len(negative):
        raise AssumptionViolated(
            f"The second moment has eigenvalues {', '.join(f'{value:.3g}' for value in negative[:8])} (noise: {limit:.2g}).",
            "Each stands for a unit with a negative readout; the objectives are designed for positive ones, and unbounded there.",
            "Use TensorInit() or RandomStart(), which take readouts of both signs.",
            negative=negative, noise=seen.edge, width=width)


def readout_bounds(seen: EvenMoments, width: int) -> landscape.Bounds:
    """λ_min(M) ≤ aᵢ ≤ λ_max(M), of the `width` largest eigenvalues; refused if the least is not above the noise."""
    values = np.sort(seen.spectrum)[::-1][:width]
    if values[-1] <= seen.edge:
        raise NotSeparated(
            f"Eigenvalue {width} of M is {values[-1]:.3g}, its noise {seen.edge:.3g}.",
            "G, F and the polar iteration divide by it: the weights are too close to dependent, or the samples too few.",
            "Use LandscapeDesign() as it is, which does not, a smaller width, or more samples.",
            eigenvalue=float(values[-1]), noise=seen.edge, width=width)
    return landscape.Bounds(float(values[-1]), float(values[0]))


def _from_packed(moments: PackedMoments, basis: Array, scale: float, whole: Array, noise: Array) -> EvenMoments:
    gram = scale * moments.tensor(2)[0]
    return EvenMoments(basis, moments.of(1)[0], gram, PackedQuartic.of(moments), *_spectrum(scale * whole, scale * noise))


def _spectrum(matrix: Array, noise: Array) -> tuple[Array, float]:
    return np.linalg.eigvalsh(matrix), float(np.abs(np.linalg.eigvalsh(noise)).max())


def curvature_claim(minimum: landscape.Minimum | None) -> tuple[Claim, ...]:
    """Second-order certificate of the start."""
    if minimum is None:
        return ()
    order = minimum.order
    share = order.smallest / max(abs(order.largest), 1e-300)
    return (Claim(
        AssumptionName.DESIGN_CURVATURE, share, 0.0, not order.curved_down, "tested",
        f"smallest Hessian eigenvalue {order.smallest:.2e} of at most {order.largest:.2e}, gradient {order.gradient_norm:.1e}, "
        f"after {minimum.escapes} escapes from saddles; negative means that the descent did not end in a minimum."),)


def readout_sign_claim(seen: EvenMoments) -> Claim:
    """Whether all readouts are positive, as far as the second moment tells."""
    smallest, edge = float(seen.spectrum.min()), seen.edge
    return Claim(
        AssumptionName.SECOND_MOMENT, smallest / max(edge, 1e-300), -1.0, True, "tested",
        f"{smallest:.3g} with noise {edge:.3g}: clearly negative eigenvalues would mean negative readouts, and are refused.")


def kurtosis_claims(source: Source, outcome: NetworkFit) -> tuple[Claim, ...]:
    """Excess kurtosis of the inputs: the moments are those of the network only if the inputs are Gaussian."""
    (fourth, second) = (total / source.size for total in source.sum(_powers, stage="kurtosis"))
    value = float(np.mean(fourth / second**2)) - 3.0
    limit = LANDSCAPE.kurtosis_sigmas * float(np.sqrt(24.0 / (source.size * source.dim)))
    text = "moments of orders 2 and 4 are those of the network only for Gaussian inputs"
    return (Claim(
        AssumptionName.KURTOSIS, value, limit, outcome.exact or abs(value) <= limit, "tested",
        f"{text}; the data were fitted exactly, so that it does not matter here." if outcome.exact else f"{text}."),)


def _powers(x: Array, y: Array) -> Sums:
    squares = x * x
    return (squares * squares).sum(axis=0), squares.sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class TensorRoute:
    """f′ from controlled moments: L-BFGS and saddle escape from up to `restarts` random starts, until two end equally low."""

    restarts: int = 6
    max_steps: int = 500

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network behind the lowest minimum."""
        seen = controlled_even_moments(source, width, activation)
        check_positive(seen, width)
        second = np.sqrt(2.0) * landscape.coefficient(activation, 2) * seen.gram
        objective = landscape.tensor_risk(second, seen.fourth, activation, width)
        best = minimise_with_restarts(objective, self.restarts, self.max_steps, rng)
        units = units_with_signs(best.point[:, 1:], seen, activation, best.point[:, 0])
        return start_with_claims(network_on_inputs(units, seen.basis, activation), seen, best)


@dataclass(frozen=True, kw_only=True)
class PolarRoute:
    """The polar iteration in whitened coordinates, from controlled moments. It wants a well-conditioned M."""

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network behind the orthonormal components."""
        seen = controlled_even_moments(source, width, activation)
        check_positive(seen, width)
        readout_bounds(seen, width)
        W, back = landscape.whitening(seen.gram, width)
        rows = landscape.polar_iteration(landscape.TurnedQuartic(seen.fourth, W), fourth_sign(activation), width, rng=rng)
        dual = rows @ back.T  # √aᵢ bᵢ
        units = units_with_signs(unit_rows(dual), seen, activation, np.sum(dual**2, axis=1))
        return start_with_claims(network_on_inputs(units, seen.basis, activation), seen, None)


@dataclass(frozen=True, kw_only=True)
class WhitenedRoute:
    """F in whitened coordinates from controlled moments, where it is G of the readouts 1/a: better conditioned, the same minima.

    λ is that of Theorem B.1; μ is `mu`, which runs like larger than the theorems allow.
    """

    mu: float = 1.0
    restarts: int = 6

    def __call__(self, source: Source, width: int, activation: Activation, *, rng: Generator) -> Start:
        """The network behind the lowest minimum."""
        seen = controlled_even_moments(source, width, activation)
        check_positive(seen, width)
        bounds = readout_bounds(seen, width)
        strength = landscape.theorem_b_1(activation, landscape.Bounds(1.0 / bounds.most, 1.0 / bounds.least), width).strength
        sign = fourth_sign(activation)
        objective = landscape.whitened_design(seen.fourth, seen.gram, sign, width, mu=self.mu, strength=strength)
        best = minimise_with_restarts(objective, self.restarts, 2000, rng)
        check_bounded(best, source)
        dual = objective.rows(best.point)
        readout = landscape.corrected_readout(dual, landscape.coefficient(activation, 4), mu=self.mu, strength=strength)
        units = units_with_signs(unit_rows(dual), seen, activation, readout)
        return start_with_claims(network_on_inputs(units, seen.basis, activation), seen, best)


def minimise_with_restarts(objective: landscape.Objective, restarts: int, max_steps: int, rng: Generator) -> landscape.Minimum:
    """The lowest of several descents; two that end equally low end the search."""
    ends: list[landscape.Minimum] = []
    for _ in range(restarts):
        start = objective.start(rng)
        ends.append(landscape.descend(objective, start, rng=rng, max_steps=max_steps, polish=False))
        best = min(end.value for end in ends)
        fall = objective.value_and_gradient(start).value - best
        if sum(end.value - best <= LANDSCAPE.same_minimum * fall for end in ends) > 1:
            break
    return min(ends, key=lambda end: end.value)


def check_bounded(minimum: landscape.Minimum, source: Source) -> None:
    if not minimum.bounded:
        raise TooFewSamples(
            f"From {source.size:,} samples the designed objective falls without end.",
            "The noise of plain fourth moments outweighs the terms that hold its rows.",
            "Give many more samples, or use LandscapeDesign() instead of its literal form.", samples=source.size)


def units_with_signs(
    directions: Array, seen: EvenMoments, activation: Activation, readout: Array, *, orthogonal: bool = False
) -> landscape.LandscapeUnits:
    """Algorithm 2 (or 1); the readout that even orders give where there is no odd one, as for |t|."""
    first = landscape.coefficient(activation, 1)
    if abs(first) < 1e-8:
        return landscape.LandscapeUnits(readout, directions)
    return (landscape.algorithm_1 if orthogonal else landscape.algorithm_2)(directions, seen.linear, first)


def start_with_claims(network: Network, seen: EvenMoments, minimum: landscape.Minimum | None) -> Start:
    """A start with claims about its moments and its minimum."""
    return Start(network, (*curvature_claim(minimum), readout_sign_claim(seen)))


def network_on_inputs(units: landscape.LandscapeUnits, basis: Array, activation: Activation) -> Network:
    """Units in the coordinates x·basis as a network on x."""
    return Network(Layer(units.directions @ basis.T, None, activation), units.readout)


def fourth_sign(activation: Activation) -> float:
    return float(np.sign(landscape.coefficient(activation, 4)))


@dataclass(frozen=True, kw_only=True)
class LandscapeDesign:
    """Hidden layer by descent on a designed objective of the moments of orders 2 and 4, after Ge, Lee and Ma (2018).

    Assumes x ~ N(0, Σ), no biases, independent weight vectors (width ≤ dim), positive readouts, one output, and an activation
    with Hermite coefficients of orders 2 and 4; rows of length 1 if it is not homogeneous. The default decomposes both moments
    together (their f′, for which no theorem is known); G and F, which have theorems, need 4 to 16 times the samples. The solver
    then goes on from there, and only if it ends above rounding are the worst units drawn anew.

    Parameters
    ----------
    activation : Activation
        ReLU, leaky ReLU, |t|, softplus, GELU and the like. Sigmoid, tanh and t² carry no signal and are refused.
    route : Route
        TensorRoute(), WhitenedRoute(), PolarRoute() or PrintedDesign().
    search : Search or None
        Spare units and repairs after the first run of the solver; None leaves the start as the objective gave it.

    References
    ----------
    Ge, Lee and Ma (2018), Learning one-hidden-layer neural networks with landscape design. Deviations: control variates, f′ in
    its moments, corrected constants (see `laybare.landscape`).
    """

    activation: Activation = relu
    route: Route = TensorRoute()
    search: Search | None = Search(spares=0)

    biases: ClassVar[bool] = False  # None of the hidden units has one.

    __repr__ = show_choices

    def __post_init__(self) -> None:
        check_method(self)

    @classmethod
    def literal(
        cls, activation: Activation = relu, *, orthogonal: bool = False, parameters: landscape.DesignParameters | None = None,
        steps: landscape.StepSchedule | None = None, batch: int = 8192, span: bool = True,
    ) -> LandscapeDesign:
        """F, or G for `orthogonal` weights, as printed: plain averages, parameters of the theorems, Algorithm 2 or 1.

        With fewer units than inputs F is taken in the span of the units, or with the ridge of Theorem C.5 if not `span`.
        `steps` makes the descent stochastic, with `batch` fresh samples per step, as in the experiments of the paper.
        """
        from laybare.methods.printed.ge_lee_ma_2018 import PrintedDesign

        route = PrintedDesign(orthogonal=orthogonal, parameters=parameters, steps=steps, batch=batch, span=span)
        return cls(activation=activation, route=route, search=None)

    @classmethod
    def literal_risk(cls, activation: Activation = relu, *, batch: int = 100, step: float = 1.0) -> LandscapeDesign:
        """f' as printed (equation (2.5)) by projected SGD: every step of length `step` has `batch` samples of its own."""
        from laybare.methods.printed.ge_lee_ma_2018 import PrintedRisk

        return cls(activation=activation, route=PrintedRisk(batch=batch, step=step), search=None)

    def start(self, source: Source, width: int | None, *, rng: Generator, progress: Progress | None = None) -> Start:
        """The network from the objective alone; `source` is white."""
        check_signal(self.activation)
        _check_outputs(source)
        count = self._count_units(source) if width is None else width
        check_size(source, count)
        report_progress(progress, "landscape")
        start = self.route(source, count, self.activation, rng=rng)
        return start if self.search is None else start._replace(later=kurtosis_claims)

    def _count_units(self, source: Source) -> int:
        """The width that the second moment shows."""
        seen = count_units(source, self.activation, 2)
        return starting_width(source, seen, searched=self.search is not None)


def check_signal(activation: Activation) -> None:
    """Refuse activations without a Hermite coefficient of order 2 or 4: the objectives would be flat."""
    second, fourth = landscape.coefficient(activation, 2), landscape.coefficient(activation, 4)
    if min(abs(second), abs(fourth)) > LANDSCAPE.min_coefficient:
        return
    vanishing = [(k, c) for k, c in ((2, second), (4, fourth)) if abs(c) <= LANDSCAPE.min_coefficient]
    missing = " and ".join(f"order {k} ({c:.1e})" for k, c in vanishing)
    raise Unidentifiable(
        f"{activation.name} has no Hermite coefficient of {missing}.",
        "The designed objectives rest on the moments of orders 2 and 4: without both they do not see the weights.",
        "Use TensorInit(), which takes order 3, for odd activations, or RandomStart().",
        activation=activation.name, second=second, fourth=fourth)


def _check_outputs(source: Source) -> None:
    if source.outputs > 1:
        raise InvalidInput(
            f"There are {source.outputs} outputs.", "The objectives are designed for one, with positive readouts.",
            "Use TensorInit(), which takes several, or one output at a time.", outputs=source.outputs)
