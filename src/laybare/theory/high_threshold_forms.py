"""What Goel and Panigrahy (2019) state of units at thresholds, as numbers.

Closed forms of Goel and Panigrahy (2019) for networks with high thresholds, as printed and corrected.

Coefficients, u_l = E[u(g - t) h_l(g)] (Lemmas 10 to 12: how they fall with t; here exactly). If units enter P with powers, let
q_i(X) collect the monomials of P in X_i alone. Then E[f H_l(z)] ≈ Σ_i E[q_i(u(g - t)) h_l(g)] (z·w_i)^l: each unit acts like one
of its own activation q_i ∘ u, and whitening and third moments are unchanged as long as the coefficients of order 2 share a sign.
For step units q_i∘u = (q_i(1) - q_i(0)) u. Source: appendix B.8, Assumption 4, Lemmas 17 and 18.

Slopes with Dirac's delta. C₁(z, s) = E[f δ(z·x - s)] = φ(s) E[f | z·x = s]. Claim 4 reads C₁'(s) = Σ_i cot α_i φ(s) φ((t - s cos
α_i)/sin α_i) E[∂P/∂X_i | …] - s C₁(s), where φ φ is the product of two independent densities (with the joint density of z·x and
w_i·x the factor is cos α_i), and cot keeps its sign. By the rules of distributions E[f δ'(z·x - s)] = -C₁'(s); the paper uses the
other sign. Source: section 3, Claim 4, Lemma 16, corrected.

Even units, orthonormal weights, no threshold. On the sphere E[f h₄(z·x)] = Σ α_i z_i⁴ + Σ_{i<j} γ_ij z_i² z_j² in the basis of
the weights, where

    α_i = u₄ Σ_{S∋i} c_S u₀^{|S|-1},      γ_ij = √6 u₂² Σ_{S∋i,j} c_S u₀^{|S|-2}.

Printed: 6 u₂² and a further u₂ term, from mixing normalised and unnormalised h. The printed condition γ_ij < α_i + α_j only says
that every local maximum is some e_i; e_i is one if and only if 2 α_i > γ_ij for all j. For u₄ < 0, such as |t|, everything holds
for -h₄ with the reversed conditions. Source: Theorem 9, appendix D.3, corrected.

Exponential units. With m_S = Σ_{p∈S} w_p, E[f (x_i x_j - δ_ij)] = ρ² Σ_S c_S e^{-ρt|S|} m_i m_j e^{ρ²|m_S|²/2} for
f = P(e^{ρ(w·x - t)}). For disjoint 0/1 rows with D ones each it is ρ² Σ_{S covers i, j} c_S μ^{|S|}, μ = e^{-ρ(t - ρD/2)}; the
printed exponent is garbled. Source: Theorem 7, appendix D.1, corrected.

Pair polynomial of the simultaneous objective:

    ψ(v, w) = H₂(v) H₂(w) + (v·w)² - 2 (v·w)(v·x)(w·x) = ½ He₄(x)[v, v, w, w],     E[u(a·x - t) ψ] = √6 u₄ (a·v)² (a·w)².

The printed one has +2 (v·w)² + 4 (v·x)(w·x)(v·w), which is no Hermite polynomial. Source: appendix B.4, corrected.

Units that are active together. Printed: E[Π_{S} u_t(w_j·x)] ≤ ρ(t, 1) (κ(W) ρ(t, |W|))^{|S|-1}, ρ(t, σ) = e^{-t²/2σ²}
(Assumptions 2 and 3). It is false for positively correlated rows: step units with correlation 0.7 at t = 6 are active together
with probability 9.7e-12, ten times the bound. The proof splits |(OW)^{-T} b|² into b₁² + rest/|W|², which does not follow. From
|W^{-T} b|² ≥ |b|²/|W|² one gets

    E[Π_{S} 1{w_j·x > t}] ≤ |det W_S|^{-1} |W_S|^{|S|} ρ(t, |W_S|)^{|S|}      (W_S square in the span of its rows).

Source: Lemma 1, corrected; Lemma 2 and Claim 2 change their exponents accordingly.

Theorem 8. For u = e^a, disjoint 0/1 rows and c_S ≥ 0, g(z) = e^{-|z|²/2} E[f e^{z·x}] = E[f(x + z)] = Σ_S c_S exp(|U_S|/2 +
Σ_{U_S} z), U_S the coordinates that S selects. The paper maximises h(z) = g(z) - λ|z|₁ - γ|z|². But g grows exponentially along
every block, so h is unbounded above. At an interior local maximum with value a > 0 on a block of s coordinates, ∂h = 0 gives
A = λ + 2γa for A = ∂g/∂z, and the second derivative along the block gives s A ≤ 2γ. Hence a ≤ 1/s - λ/(2γ) < 1/s, against the
closing claim z_j ≥ 1. Ascent in a box ends at its boundary with several blocks, or at 0. The Hessian of g at 0 is E[f(xxᵀ - I)],
whose entries are larger inside blocks than across: `cliques` reads the units from it. Source: Lemmas 21 to 23, appendix D.2.

What Goel and Panigrahy (2019) state for one layer of step units at a threshold, as numbers: Lemmas 2 and 18, Claim 2.

η and p (Assumption 3) are those of ρ(t, |W|) = d^-η and ρ(t, 1) = d^-pη: p = |W|², which is at least 1 for unit rows, where the
text has p in (0, 1]. Printed, E|f - f_lin| ≤ O(d^(3-(1+p)η)); it rests on Lemma 1, which is false (`high_threshold_forms`). With
the bound that can be proved, (κ(W) ρ(t, |W|))^|S| for |S| units together,

    E|f - f_lin| ≤ max|c_S| Σ_{i≥2} C(k, i) (κρ)^i = max|c_S| ((1 + κρ)^k - 1 - kκρ) = O(k²κ²ρ²):   exponent 2 - 2η.

Claim 2 turns a gap γ of objectives into closeness: an (ε, τ)-minimum of G is one of G_lin for ε' = γ, and Claim 1 asks
ε' ≤ √(τ'³/|u₄|), so τ' = max(γ, (γ²|u₄|)^⅓); columns that are not the unit's come out below √(τ'/|u₄|), the unit's own within
d τ'/|u₄|. Printed, with |u₄| = d^-pη: d^(3/2-pη/3) and d^(3-2pη/3), which mixes p and 1; with the exponents above it is
d^(2/3-(2-p)η/3), which says something for |W|² < 2 only.
Source: Goel and Panigrahy (2019), Assumptions 2 to 4, Lemmas 1, 2 and 18, Claims 1 and 2, corrected.
"""

from __future__ import annotations

from math import comb, factorial, log, sqrt
from typing import NamedTuple

import numpy as np

from laybare.activations import Activation, step
from laybare.activations.hermite_coefficients import expected_product
from laybare.errors import InvalidInput
from laybare.networks.polynomials import Polynomial
from laybare.numerics.shapes import Array, Sums
from laybare.source import Source
from laybare.theory.guarantees import FACTOR, PRINTED, Assumption, Bound, Guarantee


def threshold_coefficient(activation: Activation, order: int, threshold: float) -> float:
    """u_l = E[act(g - t) h_l(g)], h_l normalised."""
    return float(activation.hermite(order, 1.0, -float(threshold))) / sqrt(factorial(order))


def composed_coefficients(top: Polynomial, activation: Activation, threshold: float, order: int) -> Array:
    """E[q_i(u(g - t)) h_l(g)] for every unit, (k,), h_l normalised."""
    width = top.exponents.shape[1]
    return np.array([_composed_coefficient(top.alone(unit), activation, threshold, order) for unit in range(width)])


def _composed_coefficient(q: Polynomial, activation: Activation, threshold: float, order: int) -> float:
    def value(t: Array) -> Array:
        return q(activation(t.ravel())[:, None]).reshape(t.shape)

    found = expected_product(value, order, np.ones(1), np.array([-float(threshold)]), activation.kinks)
    return float(found[0]) / sqrt(factorial(order))


def density(s: Array | float) -> Array:
    """φ(s)."""
    return np.asarray(np.exp(-np.square(s) / 2) / np.sqrt(2 * np.pi))


def step_unit_slope(angle: float, threshold: float, s: float) -> float:
    """cot α φ(s) φ((t - s cos α)/sin α): what a step unit at angle α adds to C₁'(s) per unit of ∂P/∂X. Claim 4, corrected."""
    across = (threshold - s * np.cos(angle)) / np.sin(angle)
    return float(density(s) * density(across) / np.tan(angle))


def delta_prime_at_origin(angle: float) -> float:
    """C₁'(0) for one step unit without threshold: cot α/(2π), with its sign. Lemma 16, corrected."""
    return float(1.0 / np.tan(angle) / (2 * np.pi))


class EvenCoefficients(NamedTuple):
    """α (k,) and γ (k, k), symmetric with zero diagonal."""

    alpha: Array
    gamma: Array

    def value(self, z: Array) -> float:
        """Σ α_i z_i⁴ + Σ_{i<j} γ_ij z_i² z_j² for z in the basis of the weights."""
        squares = z**2
        return float(self.alpha @ squares**2 + squares @ self.gamma @ squares / 2)

    @property
    def maxima(self) -> Array:
        """Which e_i are local maxima (k,)."""
        return np.asarray((2 * self.alpha[:, None] > self.gamma)[~np.eye(len(self.alpha), dtype=bool)].reshape(
            len(self.alpha), -1).all(axis=1))


def even_coefficients(top: Polynomial, activation: Activation) -> EvenCoefficients:
    """α and γ of a multilinear top over units of an even activation."""
    u0, u2, u4 = (threshold_coefficient(activation, order, 0.0) for order in (0, 2, 4))
    members = top.exponents > 0
    sizes = members.sum(axis=1)
    alpha = u4 * ((top.coefficients * u0 ** (sizes - 1.0))[sizes > 0] @ members[sizes > 0])
    pairs = (top.coefficients * u0 ** (sizes - 2.0)) * (sizes > 1)
    gamma = np.sqrt(6) * u2**2 * (members.T.astype(float) @ (pairs[:, None] * members))
    np.fill_diagonal(gamma, 0.0)
    return EvenCoefficients(alpha, gamma)


def population_correlations(weights: Array, top: Polynomial, rho: float, threshold: float) -> Array:
    """E[f (xxᵀ - I)] of f = P(e^{ρ(w·x - t)}), exact, for rows of any kind (overlapping, or not 0/1)."""
    m = top.exponents @ weights
    sizes = top.exponents.sum(axis=1)
    weight = rho**2 * top.coefficients * np.exp(-rho * threshold * sizes + rho**2 * np.sum(m**2, axis=1) / 2)
    return np.asarray(m.T @ (weight[:, None] * m))


def psi(v: Array, w: Array, x: Array) -> Array:
    """ψ(v, w) at the rows of x, corrected."""
    a, b, c = x @ v, x @ w, float(v @ w)
    return np.asarray((a**2 - v @ v) * (b**2 - w @ w) / 2 + c**2 - 2 * c * a * b)


def printed_psi(v: Array, w: Array, x: Array) -> Array:
    """ψ as printed, for comparison: its expectation is not that of the fourth moment."""
    a, b, c = x @ v, x @ w, float(v @ w)
    return np.asarray((a**2 - v @ v) * (b**2 - w @ w) / 2 + 2 * c**2 + 4 * c * a * b)


def gaussian_tail(threshold: float, scale: float) -> float:
    """ρ(t, σ) = e^{-t²/2σ²}, above E[act(g - t)], g ~ N(0, σ²), of step and ReLU units (Lemmas 10 and 11)."""
    return float(np.exp(-(threshold**2) / (2 * scale**2)))


def sigmoid_tail(threshold: float, scale: float) -> float:
    """ρ(t, σ) = e^{-t + σ²/2}, the same for sigmoid units (Lemma 12)."""
    return float(np.exp(-threshold + scale**2 / 2))


def printed_product_bound(rows: Array, threshold: float) -> float:
    """Lemma 1 as printed, for step units with the given unit rows."""
    sizes = np.linalg.svd(rows, compute_uv=False)
    together = float(sizes[0] / sizes[-1] * gaussian_tail(threshold, float(sizes[0])))
    return gaussian_tail(threshold, 1.0) * together ** (len(rows) - 1)


def product_bound(rows: Array, threshold: float) -> float:
    """What can be proved: |det|^{-1} |W|^{|S|} ρ(t, |W|)^{|S|}."""
    sizes = np.linalg.svd(rows, compute_uv=False)
    return float(sizes[0] ** len(rows) / np.prod(sizes)) * gaussian_tail(threshold, float(sizes[0])) ** len(rows)


def shifted_mean(top: Polynomial, weights: Array, z: Array) -> float:
    """g(z) = E[f(x + z)] of f = P(e^{w·x}), exact."""
    m = top.exponents @ weights
    return float(top.coefficients @ np.exp(np.sum(m**2, axis=1) / 2 + m @ z))


def empirical_shifted_mean(source: Source, z: Array) -> float:
    """e^{-|z|²/2} times the average of y e^{z·x}."""

    def weighted(x: Array, y: Array) -> Sums:
        return (np.asarray(y[:, 0] @ np.exp(x @ z - z @ z / 2)),)

    return float(source.sum(weighted, stage="shifted mean")[0]) / source.size


def penalised_objective(top: Polynomial, weights: Array, z: Array, sparsity: float, size: float) -> tuple[float, Array]:
    """h(z) = g(z) - λ|z|₁ - γ|z|² and its gradient (for z without zeros), exact."""
    m = top.exponents @ weights
    terms = top.coefficients * np.exp(np.sum(m**2, axis=1) / 2 + m @ z)
    value = float(terms.sum()) - sparsity * float(np.abs(z).sum()) - size * float(z @ z)
    return value, np.asarray(m.T @ terms - sparsity * np.sign(z) - 2 * size * z)


def linear_part_gap(rows: Array, threshold: float, top: Polynomial) -> float:
    """E|f - f_lin| ≤ Σ_{|S|>1} |c_S| E[Π_S X_j] for step units with unit `rows`, every product by `product_bound`.

    Powers of a unit count once, as X² = X: for tops with powers it is the gap to the terms of single units (Lemma 18).
    """
    members = [np.flatnonzero(exponents) for exponents in top.exponents]
    return float(sum(
        abs(c) * product_bound(rows[own], threshold) for c, own in zip(top.coefficients, members, strict=True) if len(own) > 1))


def layer_closeness(rows: Array, threshold: float, *, largest: float = 1.0) -> Guarantee:
    """Lemma 2 and Claim 2 for step units with unit `rows` (k, d) at `threshold`; `largest` bounds the coefficients of P."""
    k, dim = rows.shape
    sizes = np.linalg.svd(rows, compute_uv=False)
    if k > dim or sizes[-1] <= 0 or not np.allclose(np.linalg.norm(rows, axis=1), 1.0) or threshold <= 0 or dim < 2:
        raise InvalidInput(
            f"{k} rows in dimension {dim}, threshold {threshold:g}.", "The claims are about independent unit rows and t > 0.",
            "Give such rows.", width=k, dim=dim)
    norm, condition = float(sizes[0]), float(sizes[0] / sizes[-1])
    rho, single = gaussian_tail(threshold, norm), gaussian_tail(threshold, 1.0)
    eta, p = threshold**2 / (2 * norm**2 * log(dim)), norm**2
    gap = largest * sum(comb(k, i) * (condition * rho) ** i for i in range(2, k + 1))
    fourth = abs(threshold_coefficient(step, 4, threshold))
    tau = max(gap, (gap**2 * fourth) ** (1 / 3))
    others = float(np.sqrt(tau / fourth)) if fourth > 0 else np.inf
    return Guarantee(
        "Claim 2", "minima of the objective on f are close to columns of (TW)⁻¹",
        (Assumption("d ρ(t, |W|) < 1", dim * rho < 1), Assumption("p = |W|² < 2, else nothing follows", p < 2),
         Assumption("u₄ does not vanish", fourth > 1e-12)),
        (Bound("eta", eta, "η = t²/(2|W|² log d): ρ(t, |W|) = d^-η", PRINTED),
         Bound("p", p, "p = |W|²: ρ(t, 1) = d^-pη; at least 1, where the text has (0, 1]", PRINTED),
         Bound("gap", gap, "E|f - f_lin| ≤ max|c_S| Σ_{i≥2} C(k, i)(κρ(t, |W|))^i (Lemma 2, corrected)", PRINTED),
         Bound("printed gap", dim**3 * single * rho, "d³ ρ(t, 1) ρ(t, |W|) = d^(3-(1+p)η), which rests on Lemma 1", FACTOR),
         Bound("closeness to other columns", others, "√(τ'/|u₄|), τ' = max(γ, (γ²|u₄|)^⅓), γ the gap", FACTOR),
         Bound("printed closeness", dim ** (1.5 - p * eta / 3), "d^(3/2-pη/3)", FACTOR)))
