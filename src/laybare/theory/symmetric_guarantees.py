"""What Theorem 7 of Ge, Kuditipudi, Li and Wang (2019) states for one network and one law of inputs.

With |x| ≤ Γ, |ξ| ≤ P₂, |A| ≤ P₁, σ_min(E[xxᵀ]) ≥ γ, σ_min(A) ≥ β and σ_min(M) ≥ α, M the augmented distinguishing matrix,
polynomially many samples bring the output of Algorithm 3 within ε of the network at every input, with probability 1 - δ. The
polynomial is not stated. Theorem 8 is the same for one unit and Algorithm 1; Lemmas 13 and 18 are its steps for the first
layer and the signs, Lemmas 21 and 22 serve the smoothed analysis.
The proof states how many samples bring the detector within ε (Lemma 15, but for a factor), what that
does to its null space (Lemma 11), and what units within ε do to the outputs (section B.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from laybare.errors import InvalidInput
from laybare.moments.pure_neuron_detector import detector_gap_bound, gaussian_augmented
from laybare.networks import Network
from laybare.numerics.shapes import Array
from laybare.theory.guarantees import FACTOR, POLYNOMIAL, PRINTED, Assumption, Bound, Guarantee


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
