"""What the theorems of Awasthi, Tang and Vijayaraghavan (2021) state for one ReLU network with biases: Theorems 3.1, 3.2, D.1.

Their bounds are polynomials, not stated, in quantities that are computed here: the number of units m, the dimension d, B with 1/B
≤ |aᵢ| ≤ B and |bᵢ| ≤ B for unit weights, and s_m, the least singular value of the Khatri-Rao power of order l. What the proofs do
state is given as printed: how many samples bring a moment within η (Lemma D.3, but for a factor and logarithms), and how close
units must be for their signs to come out right (proof of Theorem 3.1). No number here decides whether n is large enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from laybare.errors import InvalidInput
from laybare.moments.packed import khatri_rao_gap
from laybare.networks import Network
from laybare.numerics.shapes import Array
from laybare.theory.guarantees import FACTOR, POLYNOMIAL, PRINTED, Assumption, Bound, Guarantee

LOGARITHMS = "times a constant factor and powers of logarithms that are not known"


def relu_units(network: Network, accuracy: float, *, order: int = 1) -> Guarantee:
    """Theorem D.1: Algorithm 4 finds every unit whose bias is not too large within `accuracy` (ε), up to sign.

    `order` is l. "Not too large" is |b| < c √log(1/(ε m d B)), c not known; it is empty unless ε m d B < 1.
    """
    q = _ReLUQuantities.of(network, accuracy, order)
    return Guarantee(
        "Theorem D.1", "units of moderate bias are found up to sign from moments of orders up to 2l + 2", q.assumptions(),
        (q.largest, q.separation, q.samples, q.moments, q.bias))


def relu_recovery(network: Network, accuracy: float) -> Guarantee:
    """Theorem 3.1: with independent weights Algorithm 6 finds every parameter within `accuracy` (ε), signs included.

    ε₀ is the accuracy of the units at which FixSigns decides right, with c = 1 in Φ(-c √log(1/(ε m d B))). Printed, it has √m
    where m belongs: the proof bounds s₁(E)|z*| by s₁(E) alone, but z* has m entries Φ(bᵢ) and a length of up to √m.
    """
    q = _ReLUQuantities.of(network, accuracy, 1)
    least = min(float(ndtr(-q.reach)), accuracy)
    printed = least * q.gap / (8.0 * sqrt(network.width) * q.B**2)
    close = printed / sqrt(network.width)
    return Guarantee(
        "Theorem 3.1", "with at most as many units as inputs all parameters are found, signs included",
        (*q.assumptions(), Assumption("no more units than inputs, independent weights", q.gap > 0)),
        (q.largest, q.separation, q.samples,
         Bound("accuracy of units for their signs", close, "ε₀ = min{Φ(-c√log(1/(εmdB))), ε} s_m/(8m B²), c = 1", FACTOR),
         Bound("printed accuracy for signs", printed, "the same with √m, as printed", FACTOR),
         Bound("accuracy of the first moment", close / ((1.0 + q.B) * sqrt(network.width)), "η₀ = ε₀/((1 + B)√m)", FACTOR)))


def relu_approximation(network: Network, accuracy: float, *, order: int = 1) -> Guarantee:
    """Theorem 3.2: Algorithm 5 gives a network of at most m + 2 units with E(f - g)² ≤ ε², whatever the biases are."""
    q = _ReLUQuantities.of(network, accuracy, order)
    m = network.width
    return Guarantee(
        "Theorem 3.2", "a network of two units more has a mean squared error of at most ε²", q.assumptions(),
        (q.largest, q.separation, q.samples,
         Bound("units", m + 2.0, "m + 2", PRINTED), Bound("mean squared error", accuracy**2, "ε²", PRINTED),
         Bound("accuracy of units", accuracy / (m * q.B), "ε/(mB)", FACTOR)))


class LinearStandIn(NamedTuple):
    """g_P(x) = slope·x + offset in place of units with large biases, and a bound on E(f_P - g_P)²."""

    slope: Array
    offset: float
    error: float


def linear_stand_in(network: Network, reach: float) -> LinearStandIn:
    """Lemma D.13: units with |b| > `reach` (for unit weights) are straight lines, or nothing, in almost all rows.

    One with b > 0 becomes w·x + b, one with b < 0 becomes 0; each leaves E(relu(z) - line)² = (1 + b²)Φ(-|b|) - |b|φ(b), exactly,
    and together at most the square of Σ |aᵢ| times the roots of these.
    """
    a, b = _scaled(network)
    norms = np.linalg.norm(network.layer.weights, axis=1)
    far, up = np.abs(b) > reach, b > reach
    left = (1.0 + b**2) * ndtr(-np.abs(b)) - np.abs(b) * np.exp(-(b**2) / 2) / np.sqrt(2 * np.pi)
    directions = network.layer.weights / norms[:, None]
    error = float(np.sum(np.abs(a[far]) * np.sqrt(np.maximum(left[far], 0.0))) ** 2)
    return LinearStandIn(np.asarray(a[up] @ directions[up]), float(a[up] @ b[up]), error)


@dataclass(frozen=True)
class _ReLUQuantities:
    """m, d, B and s_m of one network, and the bounds that the theorems share."""

    network: Network
    accuracy: float
    order: int
    B: float
    gap: float

    @classmethod
    def of(cls, network: Network, accuracy: float, order: int) -> _ReLUQuantities:
        if not 0.0 < accuracy < 1.0:
            raise InvalidInput(f"The accuracy is {accuracy}.", "It is an error below 1.", "Give, for example, 0.01.")
        a, b = _scaled(network)
        if order < 1 or network.outputs > 1 or not a.all():
            raise InvalidInput(
                f"Order {order} of flattening, {network.outputs} outputs, a least readout of {np.abs(a).min():.2g}.",
                "The theorems are about one output, readouts that are not zero, and an order of at least 1.",
                "Give such a network.", order=order, outputs=network.outputs)
        sizes = np.abs(a)
        largest = float(max(sizes.max(), (1.0 / sizes).max(), np.abs(b).max()))
        return cls(network, accuracy, order, largest, khatri_rao_gap(network.layer.weights, order))

    @property
    def reach(self) -> float:
        """√log(1/(ε m d B)), 0 where the logarithm is negative."""
        return sqrt(max(0.0, -log(self.accuracy * self.network.width * self.network.dim * self.B)))

    @property
    def largest(self) -> Bound:
        return Bound("B", self.B, "max{|a|, 1/|a|, |b|}, unit weights", PRINTED)

    @property
    def separation(self) -> Bound:
        return Bound("least singular value", self.gap, "s_m of the Khatri-Rao power of order l", PRINTED)

    @property
    def samples(self) -> Bound:
        value = self.network.width * self.network.dim * self.B / (self.accuracy * self.gap) if self.gap > 0 else np.inf
        return Bound("samples", value, "m·d·B·1/ε·1/s_m", POLYNOMIAL)

    @property
    def moments(self) -> Bound:
        d, m, highest = float(self.network.dim), self.network.width, 2 * self.order + 2
        value = d**highest * m**2 * self.B**4 / self.accuracy**2
        return Bound("samples for moments within ε", value, "d^(2l+2) m² B⁴/ε² (Lemma D.3, η = ε)", LOGARITHMS)

    @property
    def bias(self) -> Bound:
        return Bound("largest bias", self.reach, "√log(1/(ε m d B))", FACTOR)

    def assumptions(self) -> tuple[Assumption, ...]:
        activation = self.network.activation
        return (Assumption("ReLU units", activation.name == "relu"),
                Assumption(f"Khatri-Rao power of order {self.order} of full rank", self.gap > 0))


def _scaled(network: Network) -> tuple[Array, Array]:
    """Readouts and biases for weights of length 1."""
    norms = np.linalg.norm(network.layer.weights, axis=1)
    return np.asarray(network.columns[0][:, 0] * norms), np.asarray(network.layer.biases / norms)
