"""How rare it is that several units fire together: Lemma 1, as printed and as it can be proved.

Printed: E[Π_{S} u_t(w_j·x)] ≤ ρ(t, 1) (κ(W) ρ(t, |W|))^{|S|-1}, ρ(t, σ) = e^{-t²/2σ²} (Assumptions 2 and 3). It is false for
positively correlated rows: step units with correlation 0.7 at t = 6 fire together with probability 9.7e-12, ten times the bound.
The proof splits |(OW)^{-T} b|² into b₁² + rest/|W|², which does not follow. From |W^{-T} b|² ≥ |b|²/|W|² one gets

    E[Π_{S} 1{w_j·x > t}] ≤ |det W_S|^{-1} |W_S|^{|S|} ρ(t, |W_S|)^{|S|}      (W_S square in the span of its rows).

Source: Goel and Panigrahy (2019), Lemma 1, corrected; Lemma 2 and Claim 2 change their exponents accordingly.
"""

from __future__ import annotations

import numpy as np

from laybare.shapes import Array


def tail(threshold: float, scale: float) -> float:
    """ρ(t, σ) = e^{-t²/2σ²}."""
    return float(np.exp(-(threshold**2) / (2 * scale**2)))


def printed_product_bound(rows: Array, threshold: float) -> float:
    """Lemma 1 as printed, for step units with the given unit rows."""
    sizes = np.linalg.svd(rows, compute_uv=False)
    return tail(threshold, 1.0) * float(sizes[0] / sizes[-1] * tail(threshold, float(sizes[0]))) ** (len(rows) - 1)


def product_bound(rows: Array, threshold: float) -> float:
    """What can be proved: |det|^{-1} |W|^{|S|} ρ(t, |W|)^{|S|}."""
    sizes = np.linalg.svd(rows, compute_uv=False)
    return float(sizes[0] ** len(rows) / np.prod(sizes)) * tail(threshold, float(sizes[0])) ** len(rows)
