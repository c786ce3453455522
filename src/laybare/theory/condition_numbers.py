"""How hard a network without biases is to recover, in the quantities that the theory is written in.

With the singular values σ₁ ≥ … ≥ σ_k of the hidden weights W, readout v, and p the growth of act' (Property 3.1):

    κ = σ₁/σ_k      λ = Πσᵢ/σ_k^k      ν = max|v|/min|v|      τ = (1.5 σ₁)^(4p) / min ρ(s)² over s in [σ_k/2, 1.5 σ₁]

The theorems bound eigenvalues and sample sizes by these up to factors that the paper does not state: the numbers here say how a
bound scales, not where it lies.
Source: Zhong et al. (2017), sections 2 and 4 (Theorem 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laybare.errors import InvalidInput
from laybare.networks import Network

SCALES = 60
"""Points of the interval on which the smallest ρ is looked for; ρ is smooth in the logarithm of the scale."""


@dataclass(frozen=True)
class Conditioning:
    """κ, λ, ν, τ; `rho` is ρ(σ_k), and the bounds of the Hessian at the true weights are up to constants that are not known."""

    condition: float
    volume: float
    """λ: how far the weights are from all singular values being equal; 1 is best."""
    readout_ratio: float
    tau: float
    rho: float
    least_curvature: float
    """min v² ρ(σ_k)/(κ²λ): the smallest eigenvalue of the Hessian is at least this times a constant that is not known."""
    largest_curvature: float
    """k max v² σ₁^(2p): the largest eigenvalue is at most this times a constant that is not known."""


def conditioning(network: Network) -> Conditioning:
    """The quantities of a network with one output, independent weight vectors, and an activation of bounded growth."""
    growth = network.activation.properties().slope_growth
    sizes = np.linalg.svd(network.layer.weights, compute_uv=False)
    v = np.abs(network.columns[0])
    if network.width > network.dim or network.outputs > 1 or growth is None or min(sizes[-1], v.min()) == 0:
        raise InvalidInput(
            f"A {network.dim}-{network.width}-{network.outputs} network of {network.activation.name} units.",
            "The theory is about one output, independent weight vectors, readouts that are not zero, and activations whose "
            "derivative is bounded by a power.", "Give such a network.", width=network.width, outputs=network.outputs)
    first, last = float(sizes[0]), float(sizes[-1])
    condition, volume = first / last, float(np.prod(sizes / last))
    rho = network.activation.properties(last).rho
    between = (network.activation.properties(float(s)).rho for s in np.geomspace(last / 2, 1.5 * first, SCALES))
    lowest = min(between)
    return Conditioning(
        condition, volume, float(v.max() / v.min()),
        (1.5 * first) ** (4 * growth) / lowest**2 if lowest > 0 else np.inf, rho,
        float(v.min()) ** 2 * rho / (condition**2 * volume), network.width * float(v.max()) ** 2 * first ** (2 * growth))
