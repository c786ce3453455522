"""What Goel and Panigrahy (2019) state for one layer of step units at a threshold, as numbers: Lemmas 2 and 18, Claim 2.

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

from math import comb, log

import numpy as np

from laybare.activations import step
from laybare.errors import InvalidInput
from laybare.networks.polynomials import Polynomial
from laybare.numerics.shapes import Array
from laybare.theory.guarantees import FACTOR, PRINTED, Assumption, Bound, Guarantee
from laybare.theory.high_threshold_forms import gaussian_tail, product_bound, threshold_coefficient


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
