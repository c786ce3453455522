"""Algorithms 1 to 6 of Awasthi, Tang and Vijayaraghavan (2021) for depth-2 ReLU networks with biases, as printed.

    1   units up to sign from exact moments; order l handles up to C(d+l-1, l) units     exact_units
    2   readouts and biases, given directions                                            assembly.unit_scalars.recover_scalars
    3   signs, for at most as many units as inputs                                       assembly.unit_scalars.fix_signs
    4   units up to sign from estimated moments                                          robust_units
    5   a network of m' + 2 units by regression on the units of Algorithm 4              truncated_network
    6   Algorithm 4 at order 1, then Algorithm 3                                         PrintedReLU(order=1)

Exact moments give the units (Theorem 4.2): orders 2l+1 and 2l+2 have the coefficients -a He_{2l-1}(b) φ(b) and a He_{2l}(b) φ(b)
(equation (49)), which are not both zero. The text of Algorithms 1 to 3 is reconstructed from their proofs. Where the paper asks
for η₁, η₂, η₃ of polynomial size we take them from the noise of the moments: half the difference of two half-sample estimates
has the law of the error of their mean.

Algorithm 5 is least squares on the units of Algorithm 4, truncated and in a ball, by projected gradient descent.

    φ(x) = (ãᵢ relu(w̃ᵢ·x + b̃ᵢ), ãᵢ relu(-w̃ᵢ·x - b̃ᵢ) for every unit of S,  x,  1)
    L_τ(β) = 1/N Σ (y - β·φ(x))² 1{|φ(x)| ≤ τ},     τ = 20 m (8|S| + d) B √log(mdB|S|/ε)
    L_τ(β) ≤ min { L_τ(β') : |β'| ≤ √(8|S|) + m(1 + B) } + ε²/100

The proof has eight features per unit and remarks that two suffice, because ã and the sign that w̃ and b̃ share are known; m is |S|,
and B the least bound of ã, 1/ã and b̃. The loss is quadratic, so one pass over the samples gives all of its gradients; steps have
the length 1/λ_max and end when the gap to the minimum, at most ∇·β + radius |∇|, is ε²/100. τ is far beyond any sample: the
truncation serves the proof, and the projection hardly ever binds (both are counted in the claims).
Source: also Lemma D.12 and Claim D.14.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.activations import Activation, absolute, relu
from laybare.assembly.sign_decoding import absorb_linear
from laybare.assembly.unit_scalars import Scalars, fix_signs, recover_scalars
from laybare.certificate import Claim
from laybare.decomposition import deduplicate, flattened_jennrich, flattened_spectrum
from laybare.errors import InvalidInput, TooFewSamples
from laybare.methods.general_relu import visible_units_claim
from laybare.methods.start import AssumptionName, Start
from laybare.moments import HermiteMoments, Measurement, PackedMoments, controlled_moments, least_squares, measure_with_noise
from laybare.networks import Layer, Network
from laybare.numerics.levels import ROUNDING
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source

MAX_GRADIENT_STEPS = 200_000
"""Projected gradient steps. Checked by `pytest tests/methods/general_relu`."""


class BallRegression(NamedTuple):
    """Where projected gradient descent ended: coefficients, an upper bound of what is left to gain, steps, rows cut off."""

    coefficients: Array
    gap: float
    steps: int
    truncated: int


class PrintedSizes(NamedTuple):
    """τ, the radius of the ball, and the gap ε²/100."""

    truncation: float
    radius: float
    gap: float

    @classmethod
    def of(cls, scalars: Scalars, dim: int, accuracy: float) -> PrintedSizes:
        """As printed, with m = |S| and B that of the units found."""
        m = len(scalars.readout)
        a, b = np.abs(scalars.readout), np.abs(scalars.biases)
        B = float(max(a.max(), (1.0 / a).max(), b.max()))
        size = 20.0 * m * (8 * m + dim) * B * sqrt(log(max(m * dim * B * m / accuracy, np.e)))
        return cls(size, sqrt(8.0 * m) + m * (1.0 + B), accuracy**2 / 100.0)


def truncated_network(source: Source, directions: Array, scalars: Scalars, accuracy: float) -> tuple[Network, tuple[Claim, ...]]:
    """Algorithm 5 on the units of Algorithm 4, merged to at most |S| + 2 ReLU units by Claim D.14; `accuracy` is ε."""
    sizes = PrintedSizes.of(scalars, source.dim, accuracy)
    fit = regress_in_ball(source, UnitPairs(directions, scalars), sizes)
    k = len(directions)
    plus, minus = fit.coefficients[:k] * scalars.readout, fit.coefficients[k : 2 * k] * scalars.readout
    linear, offset = fit.coefficients[2 * k : -1], fit.coefficients[-1]
    layer = Layer(directions, scalars.biases, relu)
    folded = Network(layer, plus + minus, offset - minus @ scalars.biases, linear - minus @ directions)
    text = f"{fit.steps:,} steps of projected gradient descent, {fit.truncated:,} rows beyond τ = {sizes.truncation:.3g}"
    return absorb_linear(folded), (
        Claim(AssumptionName.REGRESSION_GAP, fit.gap, sizes.gap, fit.gap <= sizes.gap, "tested", f"{text}."),)


def regress_in_ball(source: Source, features: UnitPairs, sizes: PrintedSizes) -> BallRegression:
    """Projected gradient descent on L_τ; one pass, then steps on the sums."""
    gram, cross, kept = source.sum(_TruncatedSums(features, sizes.truncation), stage="regression")
    hessian, slope = 2.0 * gram / source.size, 2.0 * cross / source.size
    length = 1.0 / float(np.linalg.eigvalsh(hessian)[-1])
    beta = np.zeros(len(slope))
    for step in range(MAX_GRADIENT_STEPS + 1):  # noqa: B007
        gradient = hessian @ beta - slope
        gap = float(gradient @ beta + sizes.radius * np.linalg.norm(gradient))
        if gap <= sizes.gap:
            break
        beta = beta - length * gradient
        beta *= min(1.0, sizes.radius / max(float(np.linalg.norm(beta)), np.finfo(float).tiny))
    return BallRegression(beta, gap, step, source.size - int(kept))


@dataclass(frozen=True, eq=False)
class UnitPairs:
    """φ: both ReLUs of every unit with its readout, the inputs, and 1."""

    directions: Array
    scalars: Scalars

    def __call__(self, x: Array) -> Array:
        u = x @ self.directions.T + self.scalars.biases
        a = self.scalars.readout
        return np.column_stack([a * np.maximum(u, 0.0), a * np.maximum(-u, 0.0), x, np.ones(len(x))])


@dataclass(frozen=True, eq=False)
class _TruncatedSums:
    """Statistic: φφᵀ, φy and the number of rows, over rows with |φ| ≤ τ."""

    features: UnitPairs
    truncation: float

    def __call__(self, x: Array, y: Array) -> Sums:
        phi = self.features(x)
        kept = np.linalg.norm(phi, axis=1) <= self.truncation
        phi = phi[kept]
        return phi.T @ phi, phi.T @ y[kept, 0], np.asarray(np.sum(kept))


RANK_MARGIN = 1.1
"""η₁ over the largest singular value of the noise. Checked by `pytest tests/methods/general_relu`."""

DROP_MARGIN = 3.0
"""η₂ over the typical noise along a unit. Checked by `pytest tests/methods/general_relu`."""

MAX_BIAS = 6.0
"""Largest |bias| of a unit, which the paper does not have. Derived: one sample in a billion crosses such a kink."""

SAME_DIRECTION = sqrt(2.0 - 2.0 * 0.95)
"""η₃: two unit vectors closer than this (|cosine| above 0.95) are one."""


class Etas(NamedTuple):
    """η₁ for ranks, η₂ for terms to drop (one each for the two tensors of Algorithm 4), η₃ for duplicates."""

    rank: tuple[float, float]
    drop: tuple[float, float]
    same: float


class UnsignedUnits(NamedTuple):
    """Directions (k, d) up to sign, with the readouts and biases that belong to them."""

    directions: Array
    scalars: Scalars


def exact_units(moments: PackedMoments, order: int, *, rng: Generator) -> UnsignedUnits:
    """Algorithm 1: units up to sign from population moments of orders 0, …, 2l+2; its thresholds are rounding."""
    sizes = [float(np.linalg.norm(_tensor(moments, k))) for k in (2 * order + 1, 2 * order + 2)]
    largest = max(*sizes, np.finfo(float).tiny)
    rounding = (ROUNDING * largest, ROUNDING * largest)
    return robust_units(moments, order, Etas(rounding, (1e-9 * largest, 1e-9 * largest), 1e-6), rng=rng)


def robust_units(moments: PackedMoments, order: int, etas: Etas, *, rng: Generator) -> UnsignedUnits:
    """Algorithm 4: units up to sign from estimated moments of orders 0, …, 2l+2, one output.

    Both tensors are needed: a bias at a root of He_{2l-1} hides its unit from the first, at a root of He_{2l} from the second.
    """
    rows, sizes = [np.zeros((0, moments.dim))], [np.zeros(0)]
    for last, rank_limit, drop in zip((1, 2), etas.rank, etas.drop, strict=True):
        tensor, k = _tensor(moments, 2 * order + last), 2 * order + last
        rank = int(np.sum(flattened_spectrum(tensor, moments.dim, order, k) > rank_limit))
        if rank:
            parts = flattened_jennrich(tensor, moments.dim, order, last, rank, rng=rng)
            kept = np.abs(parts.coefficients) > drop
            rows.append(parts.directions[kept])
            sizes.append(np.abs(parts.coefficients[kept]) / max(parts.residual, ROUNDING))
    directions, scores = np.vstack(rows), np.concatenate(sizes)
    directions = directions[deduplicate(directions, scores, 1.0 - 0.5 * etas.same**2)] if len(directions) else directions
    return UnsignedUnits(directions, recover_scalars(moments, directions, order))


def drop_far_biases(units: UnsignedUnits, limit: float = MAX_BIAS) -> UnsignedUnits:
    """Units with a bias that some sample could show; beyond it a direction is noise, and its readout β/φ(b) without bounds."""
    kept = np.abs(units.scalars.biases) <= limit
    return UnsignedUnits(units.directions[kept], Scalars(units.scalars.readout[kept], units.scalars.biases[kept]))


def etas_from_noise(measured: Measurement[PackedMoments], order: int) -> Etas:
    """η₁ = 1.1 times the largest singular value of the noise, η₂ = 3 times its typical part along a unit, η₃ = cosine 0.95."""
    ranks, drops = [], []
    for last in (1, 2):
        k = 2 * order + last
        noise = _tensor(measured.noise, k)
        ranks.append(RANK_MARGIN * float(flattened_spectrum(noise, measured.noise.dim, order, k)[0]))
        drops.append(DROP_MARGIN * float(np.sqrt(np.mean(noise**2))))
    return Etas((ranks[0], ranks[1]), (drops[0], drops[1]), SAME_DIRECTION)


def regress_network(source: Source, units: UnsignedUnits) -> Network:
    """Algorithm 5 and Claim D.14: least squares on relu(±(w̃·x + b̃)), x and 1, merged to at most k + 2 ReLU units.

    The two ReLUs of a unit and the linear part are collinear, so the regression is on |w̃·x + b̃|, x, 1: the same span. This is
    the minimum that `truncated_network`, the algorithm as printed, comes close to: its truncation serves the proof.
    """
    layer = Layer(units.directions, units.scalars.biases, absolute)
    fit = least_squares(source, _UnitFeatures(layer)).coefficients[:, 0]
    k = layer.width
    alpha, linear, offset = fit[:k], fit[k:-1], fit[-1]
    shift = alpha @ layer.rows  # |u| = 2 relu(u) - u
    folded = Network(Layer(layer.weights, layer.biases, relu), 2.0 * alpha, offset - shift[-1], linear - shift[:-1])
    return absorb_linear(folded)


@dataclass(frozen=True, eq=False)
class _UnitFeatures:
    layer: Layer

    def __call__(self, x: Array) -> Array:
        return np.column_stack([self.layer(x), x, np.ones(len(x))])


@dataclass(frozen=True, kw_only=True)
class PrintedReLU:
    """Algorithms 4 to 6 from samples: the `order` l of flattening, and whether Algorithm 3 is `centred`.

    l = 1 is Algorithm 6, or with `regression` Algorithm 5. For Algorithm 5 half of the samples give the moments and the other
    half the regression. Units with a bias beyond `max_bias` are dropped, which the paper does not do (inf: none), and a claim
    says how many.
    `controlled` subtracts a quadratic fit before the moments are taken; the paper averages y·He_k(x) as it is. `accuracy` is ε of
    Algorithm 5: its regression ends within ε²/100 of the minimum. None solves the least squares instead.
    """

    order: int = 1
    centred: bool = False
    controlled: bool = False
    accuracy: float | None = 0.1
    regression: bool | None = None
    max_bias: float = MAX_BIAS

    @property
    def regresses(self) -> bool:
        """Whether Algorithm 5 follows; else Algorithm 3."""
        return self.order > 1 if self.regression is None else self.regression

    def __call__(self, source: Source, width: int | None, activation: Activation, *, rng: Generator) -> Start:
        """A network of as many units as stand out of the noise (two more at l > 1), whatever the width."""
        self.check(source, activation)
        first, second = source.split(0.5, rng=rng) if self.regresses else (source, source)
        measured = self.moments(first)
        every = robust_units(measured.value, self.order, etas_from_noise(measured, self.order), rng=rng)
        units = drop_far_biases(every, self.max_bias)
        if not len(units.directions):
            raise TooFewSamples(
                f"No direction stands out of the noise of the moments of orders {2 * self.order + 1} and {2 * self.order + 2} "
                f"({first.size:,} samples).", "The printed algorithm finds units there and nowhere else.",
                "Give more samples, or use GeneralReLU(), which needs far fewer.", samples=first.size)
        network, claims = self._network(measured.value, units, second)
        text = f"{len(units.directions)} directions from orders up to {2 * self.order + 2}, as printed"
        dropped = len(every.directions) - len(units.directions)
        if dropped:
            text += f"; {dropped} more had a bias beyond {self.max_bias:g} and were dropped, which the paper does not do"
        return Start(network, (visible_units_claim(len(units.directions), text), *claims))

    def _network(self, moments: PackedMoments, units: UnsignedUnits, rest: Source) -> tuple[Network, tuple[Claim, ...]]:
        """Algorithm 3, or Algorithm 5."""
        if not self.regresses:
            return signed_network(moments, units, centred=self.centred), ()
        if self.accuracy is None:
            return regress_network(rest, units), ()
        return truncated_network(rest, units.directions, units.scalars, self.accuracy)

    def moments(self, source: Source) -> Measurement[PackedMoments]:
        """Moments of orders 0, …, 2l+2 with their noise."""
        most = 2 * self.order + 2
        return controlled_moments(source, most) if self.controlled else measure_with_noise(source, HermiteMoments(most))

    def check(self, source: Source, activation: Activation) -> None:
        """Refuse what the printed algorithms do not cover."""
        if self.order not in (1, 2, 3):
            raise InvalidInput(
                f"Order {self.order} of flattening.", "Orders above 3 need moments of order 10 and more, which are noise.",
                "Give 1, 2 or 3.", order=self.order)
        if activation != relu:
            raise InvalidInput(
                f"The activation is {activation.name}.", "The printed algorithms are for ReLU.",
                "Use GeneralReLU(activation=...), which fits other units too.", activation=activation.name)
        if source.outputs > 1:
            raise InvalidInput(
                f"There are {source.outputs} outputs.", "The printed algorithms have one.",
                "Use GeneralReLU(), which takes all together.", outputs=source.outputs)


def signed_network(moments: PackedMoments, units: UnsignedUnits, *, centred: bool) -> Network:
    """Algorithm 3 applied to the units of Algorithm 1 or 4."""
    signs = fix_signs(moments, units.directions, units.scalars, centred=centred)
    layer = Layer(signs[:, None] * units.directions, signs * units.scalars.biases, relu)
    return Network(layer, units.scalars.readout)


def _tensor(moments: PackedMoments, order: int) -> Array:
    """T_k = √k! c_k of the first output, packed."""
    return np.asarray(sqrt(factorial(order)) * moments.of(order)[0])
