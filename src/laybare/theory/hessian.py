"""Hessian of the risk f = |y - net(x)|²/(2n) in the hidden weights, readout fixed: what local convergence depends on.

    block (j, l) = (a_j·a_l) E[act'_j act'_l xxᵀ]  -  δ_jl E[(r·a_j) act''_j xxᵀ],         r = y - net(x)

The first part is that of Gauss-Newton, which is all there is where the network fits; the second may make the Hessian indefinite
away from there. Between kinks act'' of a piecewise linear unit is zero: samples never see the kinks, as in the paper. What they
add in expectation is in `expected.expected_hessian`.
Products with directions are one pass of n·k·d each; eigenvalues come from Lanczos iterations on them. Nothing of the size n·k·d
or (k·d)² is ever formed.
Source: Zhong et al. (2017), section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from laybare.errors import InvalidInput
from laybare.networks import Network
from laybare.shapes import Array, Sums
from laybare.source import Source

PRECISION = 1e-8
"""Relative accuracy of the eigenvalues: Ritz values are exact to the square of what the vectors are."""


class Curvature(NamedTuple):
    """Extreme eigenvalues. Gradient descent with step η < 2/largest shrinks the error by about 1 - η·least a step."""

    least: float
    largest: float


@dataclass(frozen=True, eq=False)
class HessianProduct:
    """(x, y) -> the Hessian, not yet over n, times `direction` (k, dim); two products of n·k·d. Biases are fixed, too."""

    network: Network
    direction: Array

    @property
    def row_floats(self) -> int:
        return 8 * self.network.width

    def __call__(self, x: Array, y: Array) -> Sums:
        network, act = self.network, self.network.activation
        A = network.columns[0]
        U, D = network.layer.before(x), x @ self.direction.T
        S = act.derivative(U)
        R = y - network(x).reshape(y.shape)
        back = S * ((S * D) @ A @ A.T) - (R @ A.T) * act.second_derivative(U) * D
        return (back.T @ x,)


def hessian_product(source: Source, network: Network, direction: Array) -> Array:
    """The Hessian of the risk times a direction in the hidden weights, (width, dim) both; one pass."""
    if direction.shape != network.layer.weights.shape or source.dim != network.dim or source.outputs != network.outputs:
        raise InvalidInput(
            f"{network}, a direction of shape {direction.shape}, a source of {source.dim} inputs and {source.outputs} outputs.",
            "A direction has one row a hidden unit, and the source belongs to the network.", "Give arrays of matching shapes.",
            shape=direction.shape)
    (product,) = source.sum(HessianProduct(network, direction), stage="curvature")
    return np.asarray(product / source.size)


def curvature(source: Source, network: Network, *, rng: Generator | int = 0) -> Curvature:
    """Extreme eigenvalues of the Hessian of the risk at `network`, wherever that is; about 30 to 100 passes.

    `hessian_product` is what it iterates. Biases, readout and offset stay where they are.
    """
    shape = network.layer.weights.shape

    def apply(flat: Array) -> Array:
        return hessian_product(source, network, flat.reshape(shape)).ravel()

    return extreme_eigenvalues(apply, network.layer.weights.size, rng=np.random.default_rng(rng))


def extreme_eigenvalues(apply: Callable[[Array], Array], size: int, *, rng: Generator) -> Curvature:
    """Both ends of the spectrum of a symmetric operator on vectors of length `size`, by Lanczos; dense for a handful."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    if size <= 8:
        values = np.linalg.eigvalsh(np.stack([apply(axis) for axis in np.eye(size)]))
    else:
        operator = LinearOperator((size, size), matvec=lambda v: apply(np.asarray(v).ravel()), dtype=float)
        values = eigsh(
            operator, k=2, which="BE", ncv=min(size, 40), tol=PRECISION, v0=rng.standard_normal(size), maxiter=100 * size,
            return_eigenvectors=False)
    return Curvature(float(values.min()), float(values.max()))
