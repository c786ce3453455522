"""The pair polynomial ψ of the simultaneous objective, as printed and as it has to be.

    ψ(v, w) = H₂(v) H₂(w) + (v·w)² - 2 (v·w)(v·x)(w·x) = ½ He₄(x)[v, v, w, w],     E[u(a·x - t) ψ] = √6 u₄ (a·v)² (a·w)².

The printed one has +2 (v·w)² + 4 (v·x)(w·x)(v·w), which is no Hermite polynomial.
Source: Goel and Panigrahy (2019), appendix B.4, corrected.
"""

from __future__ import annotations

import numpy as np

from laybare.shapes import Array


def psi(v: Array, w: Array, x: Array) -> Array:
    """ψ(v, w) at the rows of x, corrected."""
    a, b, c = x @ v, x @ w, float(v @ w)
    return np.asarray((a**2 - v @ v) * (b**2 - w @ w) / 2 + c**2 - 2 * c * a * b)


def printed_psi(v: Array, w: Array, x: Array) -> Array:
    """ψ as printed, for comparison: its expectation is not that of the fourth moment."""
    a, b, c = x @ v, x @ w, float(v @ w)
    return np.asarray((a**2 - v @ v) * (b**2 - w @ w) / 2 + 2 * c**2 + 4 * c * a * b)
