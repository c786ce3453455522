"""What theorems state for one ReLU network: with biases and one output, and without biases and with several.

With biases, Awasthi, Tang and Vijayaraghavan (2021), Theorems 3.1, 3.2, D.1. Their bounds are polynomials, not stated, in
quantities that are computed here: the number of units m, the dimension d, B with 1/B ≤ |aᵢ| ≤ B and |bᵢ| ≤ B for unit weights,
and s_m, the least singular value of the Khatri-Rao power of order l. What the proofs do state is given as printed: how many
samples bring a moment within η (Lemma D.3, but for a factor and logarithms), and how close units must be for their signs to come
out right (proof of Theorem 3.1). No number here decides whether n is large enough.

Without biases, Ge, Kuditipudi, Li and Wang (2019), Theorem 7, for one law of inputs. With |x| ≤ Γ, |ξ| ≤ P₂, |A| ≤ P₁,
σ_min(E[xxᵀ]) ≥ γ, σ_min(A) ≥ β and σ_min(M) ≥ α, M the augmented distinguishing matrix, polynomially many samples bring the
output of Algorithm 3 within ε of the network at every input, with probability 1 - δ. The polynomial is not stated. Theorem 8 is
the same for one unit and Algorithm 1; Lemmas 13 and 18 are its steps for the first layer and the signs, Lemmas 21 and 22 serve
the smoothed analysis. The proof states how many samples bring the detector within ε (Lemma 15, but for a factor), what that does
to its null space (Lemma 11), and what units within ε do to the outputs (section B.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from laybare.errors import InvalidInput
from laybare.moments.packed import khatri_rao_gap
from laybare.moments.pure_neuron_detector import detector_gap_bound, gaussian_augmented
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


@dataclass(frozen=True, kw_only=True)
class InputLaw:
    """What the theorem asks about inputs: Γ, γ, and M (None: that of N(0, I), whose inputs are bounded in probability only)."""

    radius: float
    least_variance: float = 1.0
    augmented: Array | None = None


def symmetric_recovery(
    network: Network, law: InputLaw, accuracy: float, *, noise: float = 0.0, failure: float = 0.1
) -> Guarantee:
    """Theorem 7: Algorithm 3 from samples is within `accuracy` (ε) of the network, with probability 1 - `failure` (δ).

    `noise` is P₂, the largest length of the noise. Weights are taken with length 1, their length in the readout, as there.
    """
    _check(accuracy, failure)
    norms = np.linalg.norm(network.layer.weights, axis=1)
    A = np.asarray(network.columns[0].T * norms)
    M = gaussian_augmented(network.layer.weights / norms[:, None]) if law.augmented is None else law.augmented
    q = _PureNeurons(
        network.dim, network.width, law.radius, law.least_variance, float(np.linalg.norm(A, 2)), noise,
        float(np.linalg.svd(M, compute_uv=False)[-1]) if M.shape[0] >= M.shape[1] else 0.0,
        float(np.linalg.svd(A, compute_uv=False)[-1]) if len(A) >= network.width else 0.0)
    return Guarantee(
        "Theorem 7", "Algorithm 3 from polynomially many samples is close to the network at every input",
        (Assumption("ReLU units without biases", network.activation.name == "relu" and not np.any(network.layer.biases)),
         Assumption("readout of full column rank: β > 0", q.beta > 0),
         Assumption("inputs distinguish every pair of units: α > 0", q.alpha > 0),
         Assumption("inputs of full rank: γ > 0", law.least_variance > 0)),
        (Bound("samples", q.samples(accuracy, failure), "Γ·P₁·(1 + P₂)·d·1/ε·1/γ·1/α·1/β·1/δ", POLYNOMIAL),
         Bound("samples of the detector", q.detector(accuracy, failure),
               "d³ Γ¹⁴ (ΓP₁√k + P₂)⁶ log(d/δ)/(γ⁴ε²): Lemma 15", FACTOR),
         Bound("spectral gap", detector_gap_bound(M, A), "αβ²/√2 (Lemma 14, corrected)", PRINTED),
         Bound("turn of the null space", q.turn(accuracy), "2ε/(αβ²), of a detector within ε (Lemma 11, corrected)", PRINTED),
         Bound("error of the outputs", q.outputs(accuracy), "of units within ε (section B.4)", PRINTED),
         Bound("probability of failure", failure, "δ", PRINTED)))


def single_unit_recovery(
    law: InputLaw, dim: int, accuracy: float, *, noise: float = 0.0, failure: float = 0.1
) -> Guarantee:
    """Theorem 8: samples after which Algorithm 1 has one unit, |w| ≤ 1, within `accuracy` (ε).

    The proof: moments within e turn w by 4√2 (Γ² + P₂Γ) e/γ², and (Γ² + P₂Γ)² log(d/δ)/e² samples bring them there.
    """
    _check(accuracy, failure)
    size = law.radius**2 + noise * law.radius
    return Guarantee(
        "Theorem 8", "Algorithm 1 from polynomially many samples is close to the unit",
        (Assumption("inputs of full rank: γ > 0", law.least_variance > 0),
         Assumption("ε ≤ γ/2", accuracy <= law.least_variance / 2)),
        (Bound("samples", size**4 * log(dim / failure) / (law.least_variance**4 * accuracy**2),
               "(Γ² + P₂Γ)⁴ log(d/δ)/(γ⁴ε²)", FACTOR),
         Bound("accuracy of the moments", accuracy * law.least_variance**2 / (4 * sqrt(2) * size),
               "εγ²/(4√2 (Γ² + P₂Γ))", FACTOR)))


def first_layer_error(law: InputLaw, readout: Array, turn: float, sampling: float, *, noise: float = 0.0) -> float:
    """Lemma 13: |vᵢ - v̂ᵢ| ≤ 2τ(ΓP₁√k + P₂)Γ/γ + 2ε, for |zᵢ - ẑᵢ| ≤ τ = `turn` and moments within ε = `sampling`.

    `readout` is A (outputs, k); P₁ its norm.
    """
    response = law.radius * float(np.linalg.norm(readout, 2)) * sqrt(readout.shape[1]) + noise
    return 2.0 * turn * response * law.radius / law.least_variance + 2.0 * sampling


def sign_margin(law: InputLaw, readout: Array, *, noise: float = 0.0) -> tuple[float, float]:
    """Lemma 18: |E[zᵢ·y]| ≥ βγ/(2Γ), and the error of zᵢ, βγ/(4Γ(1 + ΓP₁√k + P₂)), up to which its sign comes out right."""
    sizes = np.linalg.svd(readout, compute_uv=False)
    response = law.radius * float(sizes[0]) * sqrt(readout.shape[1]) + noise
    margin = float(sizes[-1]) * law.least_variance / (2.0 * law.radius)
    return margin, margin / (2.0 * (1.0 + response))


def leave_one_out_distance(columns: Array) -> float:
    """Definition 2: d(A), the least distance of a column from the span of all others.

    It bounds the least singular value from above, and over the root of the number of columns from below (Lemma 20).
    """
    return min(_distance(columns[:, i], np.delete(columns, i, axis=1)) for i in range(columns.shape[1]))


def leave_one_out_bound(columns: Array) -> float:
    """Lemma 21: σ_min(A) ≥ min{√(nC²d/(4nC² + d)), √(d/(4n²C² + nd)) d'(A)} for A (d, n + 1) with |A₀| = √d.

    C bounds the other columns; d'(A) is the least distance of one of them from the span of all others, A₀ among these.
    """
    dim, n = columns.shape[0], columns.shape[1] - 1
    C = float(np.linalg.norm(columns[:, 1:], axis=0).max())
    away = min(_distance(columns[:, i], np.delete(columns, i, axis=1)) for i in range(1, n + 1))
    return min(sqrt(n * C**2 * dim / (4 * n * C**2 + dim)), sqrt(dim / (4 * n**2 * C**2 + n * dim)) * away)


def _distance(vector: Array, others: Array) -> float:
    basis = np.linalg.qr(others)[0]
    return float(np.linalg.norm(vector - basis @ (basis.T @ vector)))


def perturbed_angle(largest: float, size: float, dim: int) -> float:
    """Lemma 22: weights of at most `largest` (τ), perturbed by N(0, ρ²) with ρ = `size`, are at least this angle apart.

    √(ρ²(d - 2)) / (√2 τ + √(3ρ²d)), with probability 1 - exp(-d^Ω(1)).
    """
    return sqrt(size**2 * (dim - 2)) / (sqrt(2.0) * largest + sqrt(3.0 * size**2 * dim))


@dataclass(frozen=True)
class _PureNeurons:
    """d, k, Γ, γ, P₁, P₂, α, β."""

    dim: int
    width: int
    radius: float
    variance: float
    largest: float
    noise: float
    alpha: float
    beta: float

    @property
    def response(self) -> float:
        """ΓP₁√k + P₂: the largest output."""
        return self.radius * self.largest * sqrt(self.width) + self.noise

    def samples(self, accuracy: float, failure: float) -> float:
        """The product of all arguments of the polynomial."""
        least = accuracy * self.variance * self.alpha * self.beta * failure
        return self.radius * self.largest * (1.0 + self.noise) * self.dim / least if least > 0 else np.inf

    def detector(self, accuracy: float, failure: float) -> float:
        """Lemma 15."""
        numbers = self.dim**3 * self.radius**14 * self.response**6 * log(self.dim / failure)
        return numbers / (self.variance**4 * accuracy**2) if self.variance > 0 else np.inf

    def turn(self, accuracy: float) -> float:
        """√2 ε over the spectral gap; no subspace turns by more than 1."""
        gap = self.alpha * self.beta**2
        return min(2.0 * accuracy / gap, 1.0) if gap > 0 else 1.0

    def outputs(self, accuracy: float) -> float:
        """|Z⁻¹σ(Vx) - Ẑ⁻¹σ(V̂x)| for |zᵢ - ẑᵢ| ≤ ε and |vᵢ - v̂ᵢ| ≤ ε."""
        if not self.beta * self.variance > 0:
            return np.inf
        P, G, k, e = self.largest, self.radius, self.width, accuracy
        root = 2.0 * sqrt(2.0) * P**2 / self.beta**2
        return root * G * k * e**2 + 2.0 * root * G**2 * self.response * k * e / self.variance + P * G * sqrt(k) * e / self.beta


def _check(accuracy: float, failure: float) -> None:
    if not (0.0 < accuracy < 1.0 and 0.0 < failure < 1.0):
        raise InvalidInput(
            f"The accuracy is {accuracy}, the probability of failure {failure}.", "Both are between 0 and 1.",
            "Give, for example, 0.01 and 0.1.", accuracy=accuracy, failure=failure)
