"""How far weight vectors are from hiding behind each other: the least singular value of a Khatri-Rao power.

The l-th Khatri-Rao power of W has the columns wᵢ^⊗l. Moments flattened to order l show the units one by one if and only if
these are independent, and every error bound grows with 1/s_m, their least singular value for unit wᵢ. At most C(d+l-1, l)
symmetric tensors are independent. Weights that nature has perturbed a little are well conditioned up to 0.99 of that number,
with probability close to 1 (the least singular value is then polynomial in the perturbation and the dimension).
Source: Awasthi, Tang and Vijayaraghavan (2021), Corollary 3.3 (smoothed analysis), Claim A.4.
"""

from __future__ import annotations

from math import floor

import numpy as np

from laybare.moments.indices import count
from laybare.moments.packed import veronese
from laybare.shapes import Array

SMOOTHED = 0.99
"""Share of C(d+l-1, l) up to which the smoothed guarantee is stated."""


def khatri_rao_gap(weights: Array, order: int) -> float:
    """s_m of the matrix with columns (wᵢ/|wᵢ|)^⊗order, for weights (m, d); 0 if there are more units than independent tensors."""
    if len(weights) > count(weights.shape[1], order):
        return 0.0
    rows = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    return float(np.linalg.svd(veronese(rows, order), compute_uv=False)[-1])


def smoothed_width(dim: int, order: int) -> int:
    """The most units for which the smoothed guarantee holds at that order of flattening."""
    return max(1, floor(SMOOTHED * count(dim, order)))


def needed_order(dim: int, width: int, most: int = 3) -> int | None:
    """The lowest order of flattening that `width` units in general position allow, or None if it exceeds `most`."""
    return next((order for order in range(1, most + 1) if width <= count(dim, order)), None)
