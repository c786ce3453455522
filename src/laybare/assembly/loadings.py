"""How much of each Hermite moment belongs to each unit, once the directions of all units are known.

E[y He_k(x)]/√k! = Σᵢ z_kᵢ v_k(wᵢ) in the packed basis (`moments.packed`), with z_kᵢ = aᵢ c_k(sᵢ, bᵢ)/√k!. One least-squares
problem an order gives z; it is determined if the wᵢ^⊗k are independent, which needs at most C(d+k-1, k) units.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from laybare.moments import PackedMoments, veronese
from laybare.shapes import Array


def hermite_loadings(moments: PackedMoments, directions: Array, order: int) -> Array:
    """z of that order for unit rows `directions` (k, d): (k, outputs)."""
    solved: Array = np.linalg.lstsq(veronese(directions, order).T, moments.of(order).T, rcond=None)[0]
    return solved


def all_loadings(moments: PackedMoments, directions: Array, orders: Iterable[int]) -> Array:
    """The same for several orders, (orders, k, outputs)."""
    return np.stack([hermite_loadings(moments, directions, order) for order in orders])
