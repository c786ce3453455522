"""Condition numbers of a network, and what the theorems of Zhong et al. (2017) state for it, as numbers: 4.2, 4.4, 5.6 and 6.1.

With the singular values σ₁ ≥ … ≥ σ_k of the hidden weights W, readout v, and p the growth of act' (Property 3.1):

    κ = σ₁/σ_k      λ = Πσᵢ/σ_k^k      ν = max|v|/min|v|      τ = (1.5 σ₁)^(4p) / min ρ(s)² over s in [σ_k/2, 1.5 σ₁]

The theorems hold "up to constants" and "for some polynomial" that the paper does not state. So no number here decides whether a
bound is met: each says how a bound scales with the network, the dimension or the number of samples. A bound that is explicit but
for a factor is given without that factor; of a polynomial in several quantities the product of its arguments is given, every
exponent taken as one. Every `Bound` says which of the two it is.
Source: Zhong, Song, Jain, Bartlett and Dhillon (2017), sections 2 and 4, Definition 4.1, Assumption 5.3 and Theorems 4.2, 4.4,
5.6 and 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation
from laybare.activations.hermite_coefficients import VANISHING_COEFFICIENT
from laybare.errors import InvalidInput
from laybare.networks import Network

SCALES = 60
"""Points at which the smallest ρ is looked for. Convention: many, for custom activations; for built-in ones ρ was smallest at an
end of every interval tried."""


@dataclass(frozen=True)
class Conditioning:
    """κ, λ, ν, τ; `rho` is ρ(σ_k). Bounds of the Hessian at the true weights are up to constants that are not known."""

    condition: float
    volume: float
    """λ: how far the weights are from all singular values being equal; 1 is best."""
    readout_ratio: float
    tau: float
    rho: float
    least_curvature: float
    """min v² ρ(σ_k)/(κ²λ): the smallest eigenvalue of the Hessian is at least this times a constant that is not known."""
    largest_curvature: float
    """k max v² σ₁^(2p): the largest eigenvalue is at most this times a constant that is not known."""


def conditioning(network: Network) -> Conditioning:
    """The quantities of a network with one output, independent weight vectors, and an activation of bounded growth."""
    growth = network.activation.properties().slope_growth
    sizes = np.linalg.svd(network.layer.weights, compute_uv=False)
    v = np.abs(network.columns[0])
    if network.width > network.dim or network.outputs > 1 or growth is None or min(sizes[-1], v.min()) == 0:
        raise InvalidInput(
            f"A {network.dim}-{network.width}-{network.outputs} network of {network.activation.name} units.",
            "The theory is about one output, independent weight vectors, readouts that are not zero, and activations whose "
            "derivative is bounded by a power.", "Give such a network.", width=network.width, outputs=network.outputs)
    first, last = float(sizes[0]), float(sizes[-1])
    condition, volume = first / last, float(np.prod(sizes / last))
    rho = network.activation.properties(last).rho
    between = (network.activation.properties(float(s)).rho for s in np.geomspace(last / 2, 1.5 * first, SCALES))
    lowest = min(between)
    return Conditioning(
        condition, volume, float(v.max() / v.min()),
        (1.5 * first) ** (4 * growth) / lowest**2 if lowest > 0 else np.inf, rho,
        float(v.min()) ** 2 * rho / (condition**2 * volume), network.width * float(v.max()) ** 2 * first ** (2 * growth))


FACTOR = "times a constant factor that is not known"
POLYNOMIAL = "the product of the arguments of a polynomial whose exponents and constants are not known"
PRINTED = "with no constant left open"


class Assumption(NamedTuple):
    """A condition of a theorem, and whether this network meets it."""

    name: str
    holds: bool


class Bound(NamedTuple):
    """A quantity that a theorem bounds: its `value` without what is not known, the `formula`, and what is `open` about it."""

    name: str
    value: float
    formula: str
    open: str


@dataclass(frozen=True)
class Guarantee:
    """One theorem for one network."""

    theorem: str
    states: str
    assumptions: tuple[Assumption, ...]
    bounds: tuple[Bound, ...]

    @property
    def applies(self) -> bool:
        """Whether all conditions that can be checked hold. That W is near enough, or n large enough, cannot."""
        return all(assumption.holds for assumption in self.assumptions)

    def __getitem__(self, name: str) -> float:
        """The value of the bound of that name."""
        return {bound.name: bound.value for bound in self.bounds}[name]

    def explain(self) -> str:
        """The theorem, its conditions, and every number with what is not known about it."""
        lines = [f"{self.theorem}: {self.states}"]
        lines += [f"  {'ok  ' if holds else 'FAIL'} {name}" for name, holds in self.assumptions]
        lines += [f"  {name}: {value:.3g} = {formula}, {unknown}" for name, value, formula, unknown in self.bounds]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()


def local_convexity(network: Network, *, confidence: float = 1.0) -> Guarantee:
    """Theorem 4.2: near the true weights, and with enough samples, the Hessian of the risk lies between two multiples of I.

    `network` is the true one; `confidence` is t of the theorems, which hold with probability 1 - d^(-Ω(t)).
    """
    q = _Quantities.of(network, confidence)
    return Guarantee(
        "Theorem 4.2", "near the true weights the Hessian of the empirical risk is positive definite", q.properties(),
        (q.least, q.largest, q.radius, q.samples, q.failure))


def descent_rate(network: Network, *, confidence: float = 1.0) -> Guarantee:
    """Theorem 4.4: a gradient step of size 1/M₀ on fresh samples shrinks |W - W*|² by the factor 1 - m₀/M₀."""
    q = _Quantities.of(network, confidence)
    ratio = q.least.value / q.largest.value
    return Guarantee(
        "Theorem 4.4", "gradient descent on fresh samples converges linearly from nearby", q.properties(smooth=True),
        (Bound("step", 1.0 / q.largest.value, "1/M₀, M₀ = k max v² σ₁^(2p)", FACTOR),
         Bound("contraction", 1.0 - ratio, "1 - m₀/M₀ of the squared error, m₀ = min v² ρ(σ_k)/(κ²λ)",
               "m₀ and M₀ each times a constant factor that is not known"),
         q.radius, q.samples, q.failure))


def start_accuracy(network: Network, samples: int, *, confidence: float = 1.0) -> Guarantee:
    """Theorem 5.6: with |S| ≥ ε⁻² d poly(t, k, κ, log d) samples the start is within ε poly(k, κ), relatively, and v is exact."""
    q = _Quantities.of(network, confidence)
    _check_positive("samples", samples)
    k, kappa = float(network.width), q.conditioning.condition
    epsilon = float(np.sqrt(network.dim * confidence * k * kappa * q.log_dim / samples))
    return Guarantee(
        "Theorem 5.6", "the tensor start is close to the true weights, and its signs are right", q.moment_conditions(),
        (Bound("epsilon", epsilon, "√(d·t·k·κ·log d/|S|)", POLYNOMIAL),
         Bound("relative error of the start", epsilon * k * kappa, "ε·k·κ", POLYNOMIAL),
         Bound("time", samples * k * network.dim * q.log_dim, "|S|·k·d·log d", POLYNOMIAL), q.failure))


def global_recovery(network: Network, accuracy: float, *, confidence: float = 1.0) -> Guarantee:
    """Theorem 6.1: samples and steps after which Algorithm 2 is within `accuracy` (ε) of the true weights, relatively."""
    q = _Quantities.of(network, confidence)
    if not 0.0 < accuracy < 1.0:
        raise InvalidInput(f"The accuracy is {accuracy}.", "It is a relative error below 1.", "Give, for example, 1e-6.")
    digits, k, d = log(1.0 / accuracy), float(network.width), float(network.dim)
    samples = d * digits * q.log_dim * confidence * k * q.conditioning.volume
    return Guarantee(
        "Theorem 6.1", "tensor start and gradient descent on fresh samples recover the network",
        (*q.moment_conditions(), *q.properties(smooth=True)),
        (Bound("samples", samples, "d·log(1/ε)·log d·t·k·λ", POLYNOMIAL),
         Bound("steps", digits * k * q.conditioning.readout_ratio * q.conditioning.volume * q.growth,
               "log(1/ε)·k·ν·λ·σ₁^(2p)/ρ", POLYNOMIAL),
         Bound("step", 1.0 / q.largest.value, "1/(k max v² σ₁^(2p))", PRINTED),
         Bound("time", samples * d * q.log_dim * k * q.conditioning.volume, "|S|·d·log d·k·λ", POLYNOMIAL), q.failure))


def moment_assumptions(activation: Activation) -> tuple[Assumption, ...]:
    """Assumption 5.3 (2)-(4): moments of order 3 or 4 show the weights, and what they do not show is no information.

    If orders 1 and 3 vanish the activation must be even, else w and -w are not separated; if orders 2 and 4 vanish it must be odd
    (up to a constant, which an offset takes up), else v and -v are not. Assumption 5.3(1), that an order shows all units or none,
    holds for every homogeneous activation.
    """
    shown = {j for j in range(1, 5) if abs(float(activation.hermite(j))) > VANISHING_COEFFICIENT}
    return (
        Assumption("visible in the moment of order 3 or 4", bool(shown & {3, 4})),
        Assumption("even, or visible in the moment of order 1 or 3", bool(shown & {1, 3}) or activation.mirror == 0),
        Assumption("odd up to a constant, or visible in the moment of order 2 or 4",
                   bool(shown & {2, 4}) or activation.centre is not None))


@dataclass(frozen=True)
class _Quantities:
    """Definition 4.1 for one network, and the bounds that several theorems share."""

    network: Network
    conditioning: Conditioning
    confidence: float

    @classmethod
    def of(cls, network: Network, confidence: float) -> _Quantities:
        _check_positive("confidence", confidence)
        return cls(network, conditioning(network), float(confidence))

    @property
    def log_dim(self) -> float:
        return max(1.0, log(self.network.dim))

    @property
    def growth(self) -> float:
        """σ₁^(2p)/ρ."""
        spread = self.conditioning.largest_curvature / (self.network.width * float(np.abs(self.network.readout).max()) ** 2)
        return spread / self.conditioning.rho if self.conditioning.rho > 0 else np.inf

    @property
    def least(self) -> Bound:
        return Bound("least eigenvalue", self.conditioning.least_curvature, "min v² ρ(σ_k)/(κ²λ)", FACTOR)

    @property
    def largest(self) -> Bound:
        return Bound("largest eigenvalue", self.conditioning.largest_curvature, "k max v² σ₁^(2p)", FACTOR)

    @property
    def radius(self) -> Bound:
        n = self.conditioning
        value = 1.0 / (self.network.width * n.volume * n.readout_ratio * self.growth)
        return Bound("relative radius", value, "1/k·1/λ·1/ν·ρ/σ₁^(2p)", POLYNOMIAL)

    @property
    def samples(self) -> Bound:
        n, k, d = self.conditioning, self.network.width, self.network.dim
        value = d * self.log_dim * self.confidence * k * n.readout_ratio * n.tau * n.volume * self.growth
        return Bound("samples", value, "d·log d·t·k·ν·τ·λ·σ₁^(2p)/ρ", POLYNOMIAL)

    @property
    def failure(self) -> Bound:
        value = float(self.network.dim) ** -self.confidence
        return Bound("probability of failure", value, "d^(-t)", "the exponent times a constant factor that is not known")

    def properties(self, *, smooth: bool = False) -> tuple[Assumption, ...]:
        """Properties 3.1-3.3; with `smooth` 3.3(a) alone, which piecewise linear activations do not have."""
        found = self.network.activation.properties(float(np.linalg.svd(self.network.layer.weights, compute_uv=False)[-1]))
        third = Assumption("Property 3.3(a): bounded second derivative", found.curvature_bound is not None and
                           not found.piecewise_linear) if smooth else Assumption(
            "Property 3.3: bounded second derivative, or piecewise linear", found.smooth)
        return (Assumption("Property 3.1: slope not negative and bounded by a power", found.monotone),
                Assumption("Property 3.2: ρ(σ_k) > 0", found.positive_rho), third)

    def moment_conditions(self) -> tuple[Assumption, ...]:
        """A homogeneous activation and Assumption 5.3."""
        activation = self.network.activation
        norms = np.linalg.norm(self.network.layer.weights, axis=1)
        sizes = np.abs([activation.hermite(j, norms) for j in range(1, 5)])
        shown = sizes.max(axis=1) > VANISHING_COEFFICIENT
        return (Assumption("homogeneous activation", bool(activation.degree)),
                Assumption("a moment that shows one unit shows all", bool((sizes[shown] > VANISHING_COEFFICIENT).all())),
                *moment_assumptions(activation))


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < np.inf:
        raise InvalidInput(f"{name} is {value}.", "It is a positive number.", f"Give {name} > 0.", value=value)
