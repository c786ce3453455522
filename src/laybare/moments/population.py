"""Hermite moments of a known network in closed form, for x ~ N(0, I).

f(x) = Σᵢ Aᵢ act(wᵢ·x + bᵢ) + xL + c has E[f He_k(x)] = Σᵢ Aᵢ c_k(|wᵢ|, bᵢ) (wᵢ/|wᵢ|)^⊗k, plus c at order 0 and L at order 1, with
c_k(s, b) = E[act(s·g + b) He_k(g)] (`Activation.hermite`). Exact for every activation, norm and bias; a unit without weights is
the constant act(b). The oracle of the tests, and what a network used as control variate gives back.
Source: Zhong et al. (2017), Claim 5.2; Awasthi, Tang & Vijayaraghavan (2021), Lemma 3.5.
"""

from __future__ import annotations

from math import factorial, sqrt
from typing import NamedTuple

import numpy as np

from laybare.moments.hermite import check_packed
from laybare.moments.memory import MEMORY_LIMIT
from laybare.moments.packed import PackedMoments, veronese
from laybare.networks import Network
from laybare.shapes import Array


class RankOneSum(NamedTuple):
    """The tensors Σᵢ coefficients[o, i] directions[i]^⊗order, one for each output o; `directions` (r, d) are unit rows."""

    order: int
    coefficients: Array
    directions: Array

    def packed(self) -> Array:
        """In the packed basis, (outputs, D_order)."""
        found: Array = self.coefficients @ veronese(self.directions, self.order)
        return found

    def contracted(self, rows: Array, places: int) -> Array:
        """T[b, …, b, ·, …] with `places` places filled by each row b of `rows` (r, d), 0, 1 or 2 left: (outputs, r, ...)."""
        left = self.order - places
        weights = np.power(rows @ self.directions.T, places)
        axes = "abc"[:left]
        sources = ",".join(f"i{axis}" for axis in axes)
        spec = f"oi,ri{',' if left else ''}{sources}->or{axes}"
        found: Array = np.einsum(spec, self.coefficients, weights, *[self.directions] * left, optimize=True)
        return found


def population_tensor(network: Network, order: int) -> RankOneSum:
    """E[f(x) He_k(x)] of a network as a sum of rank-one tensors; for order 1 the linear part is added as `dim` more terms."""
    readout, offset, linear = network.columns
    norms = np.linalg.norm(network.layer.weights, axis=1)
    units = network.layer.weights / np.where(norms > 0, norms, 1.0)[:, None]
    coefficients = readout.T * _hermite(network, order, norms)
    if order == 0:
        coefficients = np.column_stack([coefficients, offset])
        units = np.vstack([units, np.zeros(network.dim)])
    if order == 1:
        coefficients = np.column_stack([coefficients, linear.T])
        units = np.vstack([units, np.eye(network.dim)])
    return RankOneSum(order, coefficients, units)


def population_moments(network: Network, order: int, *, memory: int = MEMORY_LIMIT) -> PackedMoments:
    """c_k[α] = E[f(x) h_α(x)] of orders 0, …, `order`: what `packed_moments` estimates, without its error."""
    check_packed(network.dim, order, network.outputs, memory)
    packed = [population_tensor(network, k).packed() / sqrt(factorial(k)) for k in range(order + 1)]
    return PackedMoments(network.dim, order, np.concatenate(packed, axis=1))


def _hermite(network: Network, order: int, norms: Array) -> Array:
    """c_k(|wᵢ|, bᵢ) of every unit; for a unit without weights act(bᵢ) at order 0 and 0 above."""
    biases = np.asarray(network.layer.biases)
    constant = network.activation(biases) if order == 0 else np.zeros(len(norms))
    alive = norms > 0
    found: Array = constant.copy()
    if alive.any():
        found[alive] = network.activation.hermite(order, norms[alive], biases[alive])
    return found
